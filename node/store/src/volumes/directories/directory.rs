//! Recognises the content of a configured directory, and assumes no more than it shows.

use std::io::{self, ErrorKind};
use std::path::Path;

use sherd_volume::disk::ballast;
use sherd_volume::disk::{Disk, OpenMode};
use sherd_volume::error::OpenError;
use sherd_volume::identity::{FILE_NAME, FORMAT, Identity, LOCK_NAME, NotAnIdentity};
use sherd_volume::log;
use sherd_volume::open::SHARDS;

use crate::volumes::index::DIRECTORY as INDEX;
use crate::volumes::limits::IDENTITY_BYTES_MAX;

/// Upkeep's file about a volume, in its directory.
pub(crate) const UPKEEP_FILE: &str = "upkeep.json";
pub(crate) const UPKEEP_FILE_NEW: &str = "upkeep.json.new";
/// Names that an empty filesystem, or a format that a crash interrupted before its first file, may hold.
const HARMLESS: [&str; 3] = ["lost+found", LOCK_NAME, "volume.json.new"];
/// Names in a volume's directory beside its identity.
const OF_A_VOLUME: [&str; 6] = [log::NAME, SHARDS, INDEX, ballast::NAME, UPKEEP_FILE, UPKEEP_FILE_NEW];

/// Content of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directory {
    /// A volume.
    Volume,
    /// Nothing that could be lost.
    Vacant,
    /// The directory is not there.
    Missing,
    /// Remains of a volume that was removed while it was being written: no identity, not one segment of a
    /// log, and only names of a volume. Shards that are left carry their own proof.
    Remains,
    /// Files that are not a volume's: they belong to another program.
    Strange {
        /// One thing in it.
        name: String,
    },
}

/// Looks at a directory.
///
/// # Errors
/// As the system says.
pub fn look_at(disk: &dyn Disk, path: &Path) -> io::Result<Directory> {
    let entries = match disk.list(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Directory::Missing),
        Err(error) => return Err(error),
    };
    if entries.iter().any(|entry| entry.name == FILE_NAME) {
        return Ok(Directory::Volume);
    }
    let mut left = entries.into_iter().filter(|entry| !HARMLESS.contains(&entry.name.as_str())).peekable();
    if left.peek().is_none() {
        return Ok(Directory::Vacant);
    }
    match left.find(|entry| !OF_A_VOLUME.contains(&entry.name.as_str())) {
        Some(strange) => Ok(Directory::Strange { name: strange.name }),
        None if has_segments(disk, path)? => Ok(Directory::Strange { name: log::NAME.to_owned() }),
        None => Ok(Directory::Remains),
    }
}

/// Marks of the names in the remains of a volume, its directory's first: they change while a removal is at
/// work.
///
/// # Errors
/// As the disk says, but for folders that went meanwhile.
pub fn marks_of_remains(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u64>> {
    let mut marks = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        match disk.names_mark(&folder) {
            Ok(mark) => marks.push(mark),
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        // Shards lie in folders right below theirs; they hold files only.
        if folder == *path || folder.parent() == Some(path) {
            let entries = disk.list(&folder)?;
            folders.extend(entries.iter().filter(|entry| entry.is_dir).map(|entry| folder.join(&entry.name)));
        }
    }
    marks.sort_unstable();
    Ok(marks)
}

/// Whether a log is there that says something.
fn has_segments(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    match disk.list(&log::directory(path)) {
        Ok(entries) => Ok(entries.iter().any(|entry| log::is_segment_name(&entry.name))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads the identity in a directory that has one, also that of a failed volume.
///
/// # Errors
/// [`OpenError::Version`], [`OpenError::Damaged`], [`OpenError::Io`].
pub fn identity_of(disk: &dyn Disk, directory: &Path) -> Result<Identity, OpenError> {
    let path = directory.join(FILE_NAME);
    let io = |source| OpenError::Io { op: "read", path: path.clone(), source };
    let damaged = |what: String| OpenError::Damaged { path: path.clone(), what };
    let file = disk.open(&path, OpenMode::Read).map_err(io)?;
    let length = file.length().map_err(io)?;
    let length = usize::try_from(length).ok().filter(|_| length <= IDENTITY_BYTES_MAX);
    let mut bytes = vec![0; length.ok_or_else(|| damaged("it is too long".to_owned()))?];
    let read = file.read_at(&mut bytes, 0).map_err(io)?;
    bytes.truncate(read);
    Identity::decode(&bytes).map_err(|error| match error {
        NotAnIdentity::Version { version } => {
            OpenError::Version { path: path.clone(), version, supported: FORMAT }
        }
        NotAnIdentity::Damaged { what } => damaged(what),
    })
}
