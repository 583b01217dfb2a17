//! A temporary directory of a node: made for one run, removed with it. And what lies in a directory
//! before it becomes a volume's.

#![expect(clippy::disallowed_methods, reason = "makes and removes the directory that volumes lie in")]

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sherd_core::env::Rng;

use super::limits::MEMORY_BYTES_MIN;

/// The filesystem in memory of Linux.
const MEMORY: &str = "/dev/shm";
/// The file that says that the volumes beside it are those of `ci`.
const MARK: &str = "ci";
/// The directory that MinIO makes for itself in each of its directories.
const OF_MINIO: &str = ".minio.sys";

/// Where a node keeps its volumes.
#[derive(Debug)]
pub(super) enum NodeDirectory {
    /// In a directory that stays.
    Kept(PathBuf),
    /// In one that is removed with this value.
    Temporary(PathBuf),
}

/// A temporary directory cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TemporaryError {
    /// The system refuses.
    #[error("make a temporary directory in {path}: {source} (--dir names another place)", path = path.display())]
    Make {
        /// Parent of the directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is too little memory for files.
    #[error(
        "{MEMORY} has {} MiB free, and {} are needed: give a container more by --shm-size, or leave --memory out",
        free_bytes >> 20,
        MEMORY_BYTES_MIN >> 20
    )]
    Memory {
        /// Bytes that are free.
        free_bytes: u64,
    },
}

impl NodeDirectory {
    /// Makes one that goes with this value, in memory or among the system's temporary files.
    ///
    /// # Errors
    /// [`TemporaryError`] says why it cannot be made.
    pub(super) fn temporary(in_memory: bool, rng: &dyn Rng) -> Result<Self, TemporaryError> {
        let parent = if in_memory { PathBuf::from(MEMORY) } else { std::env::temp_dir() };
        let refused = |source| TemporaryError::Make { path: parent.clone(), source };
        if in_memory {
            let space = rustix::fs::statvfs(&parent).map_err(|error| refused(error.into()))?;
            let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
            if free_bytes < MEMORY_BYTES_MIN {
                return Err(TemporaryError::Memory { free_bytes });
            }
        }
        let path = parent.join(format!("sherd-ci-{}", hex::encode(rng.next_id())));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(refused)?;
        Ok(Self::Temporary(path))
    }

    /// Path of the directory.
    pub(super) fn path(&self) -> &Path {
        let (Self::Kept(path) | Self::Temporary(path)) = self;
        path
    }

    /// Whether the directory stays when this value is dropped.
    pub(super) const fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

impl Drop for NodeDirectory {
    fn drop(&mut self) {
        if let Self::Temporary(path) = self
            && let Err(error) = std::fs::remove_dir_all(&*path)
        {
            tracing::warn!(path = %path.display(), %error, "temporary directory is not removed");
        }
    }
}

/// Marks a directory as one of `ci`, whose volumes sync nothing; `false` where it has volumes of another
/// node.
///
/// # Errors
/// As the system says.
pub(super) fn mark(directory: &Path, volumes: &[PathBuf]) -> io::Result<bool> {
    let mark = directory.join(MARK);
    if mark.exists() {
        return Ok(true);
    }
    for volume in volumes {
        if !is_empty(volume)? {
            return Ok(false);
        }
    }
    std::fs::write(mark, "volumes of sherd-node ci, whose writes are not durable\n")?;
    Ok(true)
}

/// Whether a directory has no entry, or is not there.
///
/// # Errors
/// As the system says.
pub(super) fn is_empty(path: &Path) -> io::Result<bool> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether a directory holds the data of MinIO.
pub(super) fn is_of_minio(path: &Path) -> bool {
    std::fs::metadata(path.join(OF_MINIO)).is_ok()
}
