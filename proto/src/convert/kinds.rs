//! Of each kind of call of a stream: what it is called in logs, and whether it ends when its caller drops it.
//!
//! The client and the server use the same rule: the client drops no call that runs on, and the server drops none that runs
//! on though a client sends its number. The seams of `node` (`peer::{RegisterPeer, ShardPeer, UpkeepPeer}`) promise the same to their
//! callers, call by call. A kind of call is listed in exactly one arm: a new one does not compile without an answer.

use crate::v1::{register_call, shard_call, upkeep_call};

impl register_call::Call {
    /// Its name, as the seam calls it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Prepare(_) => "prepare",
            Self::Accept(_) => "accept",
            Self::Commit(_) => "commit",
            Self::Read(_) => "read",
            Self::Inline(_) => "inline",
            Self::VerifyRow(_) => "verify_row",
            Self::List(_) => "list",
            Self::Parts(_) => "parts",
            Self::Rows(_) => "rows",
            Self::Unsettled(_) => "unsettled",
            Self::Control(_) => "control",
            Self::Adopt(_) => "adopt",
            Self::DropRow(_) => "drop_row",
        }
    }

    /// Whether it only reads, so that it may stop when its answer is not waited for any more.
    pub const fn ends_when_dropped(&self) -> bool {
        match self {
            // A promise that was not given binds no volume.
            Self::Prepare(_)
            | Self::Read(_)
            | Self::Inline(_)
            | Self::VerifyRow(_)
            | Self::List(_)
            | Self::Parts(_)
            | Self::Rows(_)
            | Self::Unsettled(_) => true,
            Self::Accept(_) | Self::Commit(_) | Self::Control(_) | Self::Adopt(_) | Self::DropRow(_) => false,
        }
    }
}

impl shard_call::Call {
    /// Its name, as the seam calls it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Delete(_) => "delete_shard",
            Self::Length(_) => "shard_bytes",
            Self::Verify(_) => "verify_shard",
            Self::Page(_) => "shards",
            Self::Release(_) => "release_shard",
            Self::Leases(_) => "lease",
        }
    }

    /// Whether it only reads, so that it may stop when its answer is not waited for any more.
    pub const fn ends_when_dropped(&self) -> bool {
        match self {
            Self::Length(_) | Self::Verify(_) | Self::Page(_) => true,
            Self::Delete(_) | Self::Release(_) | Self::Leases(_) => false,
        }
    }
}

impl upkeep_call::Call {
    /// Its name, as the seam calls it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Heals(_) => "heals",
            Self::HealPut(_) => "heal_put",
            Self::HealDone(_) => "heal_done",
            Self::Releases(_) => "releases",
            Self::ReleasePut(_) => "release_put",
            Self::ReleaseDone(_) => "release_done",
            Self::Guarantees(_) => "guarantees",
            Self::Remembers(_) => "remembers",
            Self::Position(_) => "position",
            Self::Seals(_) => "seals",
        }
    }

    /// Whether it only reads, so that it may stop when its answer is not waited for any more.
    pub const fn ends_when_dropped(&self) -> bool {
        match self {
            Self::Heals(_) | Self::Releases(_) | Self::Guarantees(_) | Self::Position(_) | Self::Seals(_) => {
                true
            }
            // What the asker's openings cover is dropped behind the answer of `Remembers`.
            Self::HealPut(_)
            | Self::HealDone(_)
            | Self::ReleasePut(_)
            | Self::ReleaseDone(_)
            | Self::Remembers(_) => false,
        }
    }
}
