//! Reads a zip file of an export: its names and their bytes, in memory and within bounds. No name is used as
//! a path of this machine.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read as _};
use std::path::Path;

use tokio::io::AsyncReadExt as _;
use zip::ZipArchive;
use zip::result::ZipError;

use super::limits::{ARCHIVE_BYTES_MAX, ENTRIES_MAX, ENTRY_BYTES_MAX, INFLATED_BYTES_MAX};

/// The beginning of an entry in the central directory of a zip file.
const ENTRY: &[u8] = b"PK\x01\x02";

/// A zip file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Zip(#[from] ZipError),
    #[error("it has more than {ARCHIVE_BYTES_MAX} bytes")]
    Long,
    #[error("it has more than {ENTRIES_MAX} entries")]
    Entries,
    #[error("its entry {name} is there twice")]
    Twice { name: String },
    #[error(
        "its entry {name} has more than {ENTRY_BYTES_MAX} bytes, or all have more than {INFLATED_BYTES_MAX}"
    )]
    Inflated { name: String },
}

/// The files of a zip file, by name.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Reads a file.
pub(super) async fn open(path: &Path) -> Result<Files, ArchiveError> {
    let file = tokio::fs::File::open(path).await?;
    let mut bytes = Vec::new();
    if file.take(ARCHIVE_BYTES_MAX + 1).read_to_end(&mut bytes).await? as u64 > ARCHIVE_BYTES_MAX {
        return Err(ArchiveError::Long);
    }
    read(&bytes)
}

/// Reads all files of an archive.
pub(super) fn read(bytes: &[u8]) -> Result<Files, ArchiveError> {
    // Bounded before the central directory is read, where each entry begins so.
    if bytes.windows(ENTRY.len()).filter(|bytes| *bytes == ENTRY).count() > ENTRIES_MAX {
        return Err(ArchiveError::Entries);
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    let (mut files, mut left) = (Files::new(), INFLATED_BYTES_MAX);
    for index in 0..archive.len() {
        let entry = archive.by_index(index)?;
        if entry.is_dir() {
            continue;
        }
        let (name, bound) = (entry.name()?.into_owned(), left.min(ENTRY_BYTES_MAX));
        let mut bytes = Vec::new();
        // Bounded by what comes out: the size that the entry gives may be wrong.
        let taken = entry.take(bound + 1).read_to_end(&mut bytes)? as u64;
        if taken > bound {
            return Err(ArchiveError::Inflated { name });
        }
        left -= taken;
        if files.insert(name.clone(), bytes).is_some() {
            return Err(ArchiveError::Twice { name });
        }
    }
    Ok(files)
}
