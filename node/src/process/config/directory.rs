//! Directories that a command makes before there is a node: those of `dev`, `ci` and `server`.

#![expect(clippy::disallowed_methods, reason = "makes the directories that become volumes")]

use std::fs::File;
use std::path::{Path, PathBuf};

use super::error::ConfigError;

/// Makes a directory if it is missing, and returns its real path.
///
/// # Errors
/// [`ConfigError::CreateDirectory`].
pub fn make_directory(path: &Path) -> Result<PathBuf, ConfigError> {
    let made = std::fs::create_dir_all(path).and_then(|()| path.canonicalize());
    made.map_err(|source| ConfigError::CreateDirectory { path: path.to_owned(), source })
}

/// Makes the names of what was made in a directory durable.
///
/// # Errors
/// [`ConfigError::CreateDirectory`].
pub fn sync_directory(path: &Path) -> Result<(), ConfigError> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|source| ConfigError::CreateDirectory { path: path.to_owned(), source })
}
