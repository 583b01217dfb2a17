//! Why a layer was not measured.

use std::io;

/// Why the layers were not measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This build must not be measured with.
    #[error("{0}")]
    Refused(#[from] crate::host::Refusal),
    /// The device's own figures cannot be taken.
    #[error(transparent)]
    Device(#[from] crate::host::device::Error),
    /// Allocations are not counted in this process.
    #[error("the counting allocator is not this process's global allocator")]
    NotCounting,
    /// What is to be measured could not be set up.
    #[error("{action}: {source}")]
    Setup {
        /// What was done.
        action: &'static str,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An operation failed: there is nothing to measure.
    #[error("{layer} {op} of {size}: {source}")]
    Operation {
        /// In which layer.
        layer: &'static str,
        /// Which operation.
        op: &'static str,
        /// Of how many bytes.
        size: String,
        /// What went wrong.
        source: Failure,
    },
    /// A size or a layer that is none.
    #[error("{0}")]
    Argument(String),
    /// The results cannot be written.
    #[error(transparent)]
    Results(#[from] crate::result::Error),
}

impl Error {
    /// For `map_err` of what is done before anything is measured.
    pub(crate) fn setup<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        action: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Setup { action, source: source.into() }
    }
}

/// Why one operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The bytes are not those that were written.
    #[error("the bytes that were read are not those that were written")]
    OtherBytes,
    /// The answer is not the one to expect.
    #[error("answered {status}: {text}")]
    Answer {
        /// The HTTP status.
        status: u16,
        /// What came with it.
        text: String,
    },
    /// The store, the volume or the connection says so.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl Failure {
    /// Wraps an error.
    pub(crate) fn of<E: Into<Box<dyn std::error::Error + Send + Sync>>>(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::of(error)
    }
}
