//! How the shards of a value are looked at, by the scrubber, a heal, or for a volume that came back.

use crate::register::refs::RefsError;
use sherd_core::id::VolumeId;

/// How the shards of a value are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// All of them, whoever does not answer.
    Everywhere,
    /// All of them, for one volume, which has to answer: what it lacks is asked for.
    For(VolumeId),
    /// For a heal, which comes back where somebody does not answer. Those in the log are verified: what a loss took of
    /// it may end within a record.
    WhileAllAnswer,
}

/// Why it is not known whether all that a register names is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum LookError {
    /// What it names cannot be told.
    #[error(transparent)]
    Refs(#[from] RefsError),
    /// Volumes are away, or do not answer in time.
    #[error("volumes of the set are offline, or busy")]
    Unanswered,
}
