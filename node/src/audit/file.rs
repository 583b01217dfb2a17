//! The open end of the audit log: a file that is appended to, or standard output.
//!
//! A file belongs to its owner alone. It may be moved away at any time, or removed: before each batch the
//! path is compared with the open file, and a new one is made where they differ.

#![expect(
    clippy::disallowed_methods,
    reason = "an audit log is no volume: it is beside the store, and no simulation has one"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Permissions of a file that is made.
const MODE: u32 = 0o600;

/// The place of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTarget {
    /// Standard output.
    Stdout,
    /// A file that they are appended to, by its absolute path.
    File(PathBuf),
}

/// Device and number of a file.
pub(super) type FileIdentity = (u64, u64);

/// Opens the place of the lines.
pub(super) fn open(target: &AuditTarget) -> io::Result<File> {
    match target {
        AuditTarget::Stdout => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
        AuditTarget::File(path) => OpenOptions::new().append(true).create(true).mode(MODE).open(path),
    }
}

/// Identity of an open file.
pub(super) fn identity(file: &File) -> io::Result<FileIdentity> {
    file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Identity of the file at a path.
pub(super) fn identity_at(path: &Path) -> io::Result<FileIdentity> {
    std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}
