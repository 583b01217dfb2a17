//! Calls to a volume, and its answers.
//!
//! The same messages serve a volume of this process and one behind a network: the caller does not depend on
//! which it is.

mod control;
mod scan;
mod shard;
pub mod call;

pub use crate::limits::LIST_PASSED_MAX;
pub use control::{AdoptedRow, Control, PulledRow};
pub use scan::{
    ListPage, ListScan, ListedRow, LookPage, LookScan, PartsScan, RowPage, RowScan, ScannedRow, ShownHead,
    UnsettledKind, UnsettledPage, UnsettledRow, behind, behind_prefix,
};
pub use shard::{
    LeaseAnswer, ReadPurpose, ReaderLeases, SeenShard, ShardFileHeader, ShardPage, ShardRange, ShardScan,
};

use crate::id::{Epoch, RegisterKey, Slot};
use crate::limits::{VALUE_BYTES_MAX, VALUE_UNASKED_BYTES_MAX};
use crate::record::row_key::RowKeys;
use crate::register::{Answerer, Refusal};

/// A call to a volume failed, by what the caller can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The volume works and does not have it. Ask another; queue a heal.
    #[error("not found")]
    NotFound,
    /// The volume works and what it has is rotten. Ask another; queue a heal.
    #[error("corrupt: {what}")]
    Corrupt {
        /// Record or file.
        what: String,
    },
    /// No space for new data on the volume.
    #[error("volume full")]
    Full,
    /// The volume's queue is full.
    #[error("volume busy")]
    Busy,
    /// The volume works and its rules forbid it: this node's topology is out of date.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The volume is offline, or its node does not answer.
    #[error("unreachable: {reason}")]
    Unreachable {
        /// Why.
        reason: String,
    },
}

/// Result of a call.
pub type Result<R, E = Error> = std::result::Result<R, E>;

/// An acceptor's answer: the answerer, and a vote or a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<R> {
    /// Life of the volume, and how far its log is durable.
    pub from: Answerer,
    /// The vote.
    pub result: Result<R, Refusal>,
}

#[expect(clippy::cast_possible_truncation, reason = "asserted")]
const fn word(bytes: usize) -> u32 {
    assert!(bytes <= u32::MAX as usize, "a bound of values fits");
    bytes as u32
}

/// Length up to which an answer carries a value. Of a longer one it carries the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueLimit(u32);

impl ValueLimit {
    /// None: only the row's head is asked for.
    pub const NOTHING: Self = Self(0);
    /// Values that are asked for before their length is known.
    pub const USUAL: Self = Self(word(VALUE_UNASKED_BYTES_MAX));
    /// Of any length.
    pub const ANY: Self = Self(word(VALUE_BYTES_MAX));

    /// Values of up to this many bytes.
    pub const fn of(bytes: u32) -> Self {
        if bytes > Self::ANY.0 { Self::ANY } else { Self(bytes) }
    }

    /// The longest value, in bytes.
    pub const fn bytes(self) -> u32 {
        self.0
    }

    /// Whether an answer carries a value of this many bytes. No value is empty.
    pub const fn takes(self, value_bytes: u32) -> bool {
        value_bytes <= self.0
    }
}

/// Register, and the topology by which the caller found this volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The register.
    pub key: RegisterKey,
    /// The slot of its key.
    pub slot: Slot,
    /// The topology's epoch for that slot.
    pub epoch: Epoch,
    rows: RowKeys,
}

impl Target {
    /// Names a register for all volumes of its set.
    pub fn new(key: RegisterKey, slot: Slot, epoch: Epoch) -> Self {
        let rows = RowKeys::of(&key);
        Self { key, slot, epoch, rows }
    }

    /// The keys of its row.
    pub const fn rows(&self) -> &RowKeys {
        &self.rows
    }
}
