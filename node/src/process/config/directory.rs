//! Directories that a command makes before there is a node: those of `dev`, `ci` and `server`.

#![expect(clippy::disallowed_methods, reason = "makes the directories that become volumes")]

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
