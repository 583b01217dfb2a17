//! Why a recovery, or the confirmation of an opening, does not go on now.

use sherd_core::id::VolumeId;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecoveryStall {
    /// Too few voters of the set answer.
    #[error("{voters} of {needed} needed voters of its set answer")]
    Voters { voters: usize, needed: usize },
    /// A volume guarantees what lies more than a day ahead of this node's clock: as a voter it would
    /// close its set to every write.
    #[error("volume {volume} is more than a day ahead, and its set lacks voters without it")]
    FarAhead { volume: VolumeId },
    /// A voter changed its life, or did not confirm, in between.
    #[error("the voters of its set changed meanwhile")]
    Changed,
    /// A voter did not answer.
    #[error("scanning volume {volume}: {reason}")]
    Scan { volume: VolumeId, reason: String },
    /// The volume itself did not do what recovery asked.
    #[error("the volume: {0}")]
    Own(String),
    #[error("the volume is in no set of the topology")]
    NoSet,
}
