//! Why a run of [`super::store`] is worth nothing, below [`super::runner`], which passes it on.

use crate::load::{self, ask};
use crate::subject;

/// Why a run on a store is worth nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be started or reached.
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
        /// How many.
        errors: f64,
        /// What happened.
        faults: String,
    },
    /// Not one operation ended in the time.
    #[error("no operation ended in the time of a run: give it more seconds or keys")]
    Nothing,
}
