//! Errors of a run of [`super::store`], in a file below [`super::runner`], which passes them on.

use crate::client::ask;
use crate::load;
use crate::subject;

/// Why a run on a store has no figures.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be started or reached.
    #[error(transparent)]
    Subject(#[from] subject::Error),
    /// The objects to measure with cannot be written.
    #[error(transparent)]
    Load(#[from] load::Error),
    /// The bucket cannot be made or removed.
    #[error("bucket: {0}")]
    Bucket(#[from] ask::Error),
    /// The system lacks threads or polling.
    #[error("generate load: {0}")]
    System(#[from] std::io::Error),
    /// Operations went wrong, so their rate says nothing.
    #[error("{errors} operations went wrong: {faults}")]
    Wrong {
        /// Number of operations.
        errors: f64,
        /// The faults.
        faults: String,
    },
    /// Not one operation ended in the time.
    #[error("no operation ended in the time of a run: give it more seconds or keys")]
    Nothing,
}
