//! Status of a local volume: for health, metrics and tasks that wait for it.

use std::path::PathBuf;

use sherd_core::id::VolumeId;
use sherd_core::report::VolumeStanding;
use sherd_volume::Distribution;

use crate::observe::metrics::VolumeFault;

/// Whether a volume can be asked, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeState {
    /// Being opened: the log is replayed, perhaps the index rebuilt.
    Opening,
    /// Opened; does not vote until its peers sent their notes of it.
    Unconfirmed {
        /// The peers that it waits for.
        reason: String,
    },
    /// Serves and votes.
    Online,
    /// Serves and votes, with a fault.
    Suspect {
        /// The fault.
        reason: String,
    },
    /// State lost: takes what recovery brings, and does not vote.
    Recovering,
    /// Empty directory: adopted when its set can rebuild it.
    Vacant {
        /// Why it was not adopted yet.
        reason: String,
    },
    /// Unreachable; looked at again each second.
    Offline {
        /// Why.
        reason: String,
    },
    /// Failed until its directory is replaced.
    Failed {
        /// Why.
        reason: String,
    },
    /// Closed.
    Closed,
}

impl VolumeState {
    /// Whether calls reach it.
    pub const fn is_reachable(&self) -> bool {
        matches!(self, Self::Unconfirmed { .. } | Self::Online | Self::Suspect { .. } | Self::Recovering)
    }

    /// Whether it votes.
    pub const fn votes(&self) -> bool {
        matches!(self, Self::Online | Self::Suspect { .. })
    }

    /// Part of the volume in the votes of its sets.
    pub const fn standing(&self) -> VolumeStanding {
        match self {
            Self::Online | Self::Suspect { .. } => VolumeStanding::Voting,
            Self::Unconfirmed { .. } => VolumeStanding::Unconfirmed,
            Self::Recovering | Self::Vacant { .. } | Self::Failed { .. } => VolumeStanding::Lost,
            Self::Opening | Self::Offline { .. } | Self::Closed => VolumeStanding::Away,
        }
    }

    /// Whether it went away for a fault.
    pub(super) const fn is_down(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Offline { .. })
    }

    /// One word, as metrics and `/health` show it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::Online => "online",
            Self::Suspect { .. } => "suspect",
            Self::Recovering => "recovering",
            Self::Vacant { .. } => "vacant",
            Self::Offline { .. } => "offline",
            Self::Failed { .. } => "failed",
            Self::Closed => "closed",
        }
    }

    /// Why it is in this state, where there is something to say.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Unconfirmed { reason }
            | Self::Suspect { reason }
            | Self::Vacant { reason }
            | Self::Offline { reason }
            | Self::Failed { reason } => Some(reason),
            Self::Opening | Self::Online | Self::Recovering | Self::Closed => None,
        }
    }
}

/// A moment of a volume.
#[derive(Debug, Clone)]
pub struct VolumeStatus {
    /// Id of the volume.
    pub id: VolumeId,
    /// Directory of the volume.
    pub path: PathBuf,
    /// State of the volume.
    pub state: VolumeState,
    /// Status of the open volume; `None` while it is not open.
    pub open: Option<sherd_volume::write::upkeep::Status>,
    /// Operations that wait for its log thread.
    pub queue_len: usize,
    /// Microseconds that operations waited for it; `None` while it is not open.
    pub queue_us: Option<Distribution>,
    /// Faults since the process started, by kind.
    pub faults: [(VolumeFault, u64); VolumeFault::ALL.len()],
    /// How often it was opened since the process started.
    pub opened_count: u32,
}
