//! Why a register was not read or changed.

use sherd_core::record::OverLimit;

/// A register could not be read or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Too few volumes answer, or none can say what its row holds. Nothing was proposed.
    #[error("too few volumes")]
    Unavailable,
    /// The volumes' queues are full. Nothing was proposed.
    #[error("overloaded")]
    Overloaded,
    /// The volumes' lines of scans are full. Nothing was proposed.
    #[error("too many scans")]
    ScansBusy,
    /// The volumes are full. Nothing was proposed.
    #[error("volumes full")]
    Full,
    /// The bucket is sealed: its register shows whether it was deleted. No volume stored anything.
    #[error("bucket sealed")]
    Sealed,
    /// The value would grow past a limit. Nothing was proposed.
    #[error(transparent)]
    OverLimit(OverLimit),
    /// A volume may have stored an accept: it may take effect, or may have had effect for a while.
    #[error("outcome unknown")]
    OutcomeUnknown,
}
