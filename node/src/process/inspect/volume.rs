//! A volume under inspection, and the errors of the inspection itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sherd_core::id::VolumeId;
use sherd_volume::Reader;
use sherd_volume::error::{Error, OpenError};

/// The inspection itself did not work.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// A directory is in use, or no volume.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A volume could not be read.
    #[error("read {path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Why.
        source: Error,
    },
    /// The report could not be written.
    #[error("write the report: {0}")]
    Write(#[from] std::io::Error),
}

pub(super) struct InspectedVolume {
    pub(super) path: PathBuf,
    pub(super) id: VolumeId,
    pub(super) reader: Arc<Reader>,
    pub(super) _volume: sherd_volume::Volume,
}

/// The error of a volume that could not be read.
pub(super) fn read_error(path: &Path, source: Error) -> InspectError {
    InspectError::Read { path: path.to_owned(), source }
}
