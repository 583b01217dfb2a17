//! The working directory: it is left as soon as nothing counts from it any more.
//!
//! A user may remove it under a process that runs for months. Then no index can be opened again: the engine
//! asks for it even for absolute paths.

use std::io;
use std::path::PathBuf;

/// The working directory cannot be left: it may be gone already, and a path counts from it.
#[derive(Debug, thiserror::Error)]
#[error("leave the working directory, from which only paths that are not absolute count: {0}")]
pub struct NoWorkingDirectory(#[from] io::Error);

/// Makes paths absolute that count from the working directory, and leaves it for the root, which cannot be
/// removed.
///
/// # Errors
/// [`NoWorkingDirectory`], before anything was done with a path.
pub fn leave(paths: &mut [PathBuf]) -> Result<(), NoWorkingDirectory> {
    for path in paths {
        *path = std::path::absolute(&*path)?;
    }
    Ok(std::env::set_current_dir("/")?)
}
