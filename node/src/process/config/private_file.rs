//! Files with secrets: read only where they are closed to others, and written whole or not at all.

#![expect(clippy::disallowed_methods, reason = "files with secrets are read before there is a volume")]

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A file with secrets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    /// The file cannot be read or written.
    #[error("{op} {path}: {source}")]
    Io {
        /// The action that failed.
        op: &'static str,
        /// The file, or its directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file can be read by other users.
    #[error("{path} has mode {mode:04o}: allowed is {allowed:04o} at most (chmod {allowed:o} {path})", path = path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
        /// The widest that is accepted.
        allowed: u32,
    },
}

impl PrivateFileError {
    /// Whether the file is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads the first `bytes_max` bytes of a file whose permission bits all lie within `allowed_mode`.
///
/// # Errors
/// [`PrivateFileError`] when it cannot be read, or is open to others.
pub fn read(path: &Path, allowed_mode: u32, bytes_max: u64) -> Result<Vec<u8>, PrivateFileError> {
    let io = |op| move |source| PrivateFileError::Io { op, path: path.to_owned(), source };
    let file = File::open(path).map_err(io("open"))?;
    // Of the open file, not of the path, which may name another file by then.
    let mode = file.metadata().map_err(io("stat"))?.mode() & 0o777;
    if mode & !allowed_mode != 0 {
        return Err(PrivateFileError::Mode { path: path.to_owned(), mode, allowed: allowed_mode });
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, bytes_max), &mut bytes).map_err(io("read"))?;
    Ok(bytes)
}

/// Writes a new file of mode 0600: under another name, synced, renamed, the directory synced. A crash leaves
/// the whole file or none.
///
/// # Errors
/// [`PrivateFileError::Io`] says which step failed.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), PrivateFileError> {
    let io = |op| move |source| PrivateFileError::Io { op, path: path.to_owned(), source };
    let new = path.with_extension("new");
    // Left by a crash before the rename; it was never in use.
    match std::fs::remove_file(&new) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(io("remove the unfinished")(source));
        }
        _ => {}
    }
    let open = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    let mut file = open.map_err(io("create"))?;
    file.write_all(bytes).map_err(io("write"))?;
    file.sync_all().map_err(io("sync"))?;
    std::fs::rename(&new, path).map_err(io("rename to"))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|dir| dir.sync_all()).map_err(io("sync the directory of"))
}
