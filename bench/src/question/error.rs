//! Why a question has no answer.

use std::path::PathBuf;

use crate::{host, result};

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that the measurement needs did not work.
    #[error("{action}: {source}")]
    Failed {
        /// The step that failed, in the present tense.
        action: &'static str,
        /// Cause of the failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Bytes that were computed differ from the expected ones: no figure of this run counts.
    #[error("{what}: not what it must be")]
    OtherBytes {
        /// The computation.
        what: String,
    },
    /// The results cannot be written.
    #[error(transparent)]
    Results(#[from] result::Error),
    /// This build must not be measured with.
    #[error("{0}")]
    Refused(#[from] host::Refusal),
    /// The device would run full.
    #[error(transparent)]
    Full(#[from] host::Full),
    /// The results are written, but some operations failed.
    #[error("{}: {count} operations went wrong", path.display())]
    Faults {
        /// Operations that failed.
        count: u64,
        /// The results, whose flags name the faults.
        path: PathBuf,
    },
}

impl Error {
    /// Makes an error of a source, for `map_err`.
    pub(super) fn at<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        action: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Failed { action, source: source.into() }
    }
}
