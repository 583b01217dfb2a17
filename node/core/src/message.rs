//! What a volume's answer to a message may be instead of what was asked for.
//!
//! The same words hold for a volume of this process and for one behind a network: whoever asks need
//! not know which it was.

use crate::register::Refusal;

/// A call to a volume failed, by what the caller can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The volume works and does not have it. Ask another; queue a heal.
    #[error("not found")]
    NotFound,
    /// The volume works and what it has is rotten. Ask another; queue a heal.
    #[error("corrupt: {what}")]
    Corrupt {
        /// Which record or file.
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

/// What a call gives.
pub type Result<R> = std::result::Result<R, Error>;
