//! A file that is written under a temporary name beside its own, and appears under its own when it is whole.
//!
//! The temporary name follows from the file's name, so that a later run finds what an interrupted one left; a
//! lock keeps two runs apart. A file that is dropped before it is whole is removed.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use sha2::{Digest as _, Sha256};

use super::lock::lock;
use crate::error::Error;

const BEGIN: &str = ".sherd-";
const END: &str = ".part";
/// A link in the place of a temporary file would lead elsewhere.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();
/// Bytes of the hash in a temporary name.
const HASH_BYTES: usize = 8;

/// Whether a name is one that a download in progress has.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let inside = name.to_str().and_then(|name| name.strip_prefix(BEGIN)?.strip_suffix(END));
    inside
        .is_some_and(|hash| hash.len() == 2 * HASH_BYTES && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A file on its way.
#[derive(Debug)]
pub(crate) struct TargetFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    is_kept: bool,
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _gone_already = fs::remove_file(&self.temporary);
        }
    }
}

impl TargetFile {
    /// Opens the temporary file of a path, with what an earlier run left in it; makes the folders above it.
    /// Blocks.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        match fs::metadata(path) {
            Ok(there) if there.is_dir() => {
                return Err(Error::file("write", path)(io::ErrorKind::IsADirectory.into()));
            }
            // A device or pipe would be replaced by a file.
            Ok(there) if !there.is_file() => {
                let reason = io::Error::other("it is no file; `-` writes to standard output");
                return Err(Error::file("write", path)(reason));
            }
            _ => {}
        }
        let name = path.file_name().unwrap_or_default();
        let hash = hex::encode(&Sha256::digest(name.as_bytes())[..HASH_BYTES]);
        let temporary = folder.join(format!("{BEGIN}{hash}{END}"));
        let opened = open_locked(&temporary).map_err(Error::file("write", &temporary))?;
        let Some(file) = opened else {
            let error = io::Error::new(io::ErrorKind::ResourceBusy, "another process downloads to it");
            return Err(Error::file("write", path)(error));
        };
        Ok(Self { file, temporary, path: path.to_owned(), is_kept: false })
    }

    /// Empties the file and reserves room for `bytes`, so that a full disk is an error at once. Blocks.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), Error> {
        let reserved = self.file.set_len(0).and_then(|()| match bytes {
            0 => Ok(()),
            // File systems that cannot reserve write as they can.
            bytes => match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.file.set_len(bytes),
                reserved => reserved.map_err(io::Error::from),
            },
        });
        reserved.map_err(Error::file("write", &self.path))
    }

    /// Bytes that are there.
    pub(crate) fn len(&self) -> Result<u64, Error> {
        Ok(self.file.metadata().map_err(Error::file("read", &self.temporary))?.len())
    }

    /// Writes at an offset. Blocks.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(bytes, offset).map_err(Error::file("write", &self.path))
    }

    /// Reads at an offset. Blocks.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(buffer, offset).map_err(Error::file("read", &self.temporary))
    }

    /// Leaves what is there to a later run.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Gives the file its name and the object's time. With `is_durable` its bytes are on stable storage
    /// before. Blocks.
    pub(crate) fn commit(mut self, modified: Option<SystemTime>, is_durable: bool) -> Result<(), Error> {
        let committed = (|| {
            if let Some(modified) = modified {
                self.file.set_modified(modified)?;
            }
            if is_durable {
                self.file.sync_all()?;
            }
            fs::rename(&self.temporary, &self.path)
        })();
        committed.map_err(Error::file("write", &self.path))?;
        self.is_kept = true;
        Ok(())
    }
}

/// Opens and locks a temporary file; nothing if another process has it.
fn open_locked(temporary: &Path) -> io::Result<Option<File>> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.custom_flags(NO_FOLLOW).open(temporary)?;
        if !lock(&file)? {
            return Ok(None);
        }
        // The process that had the lock before may have given the file its name, or removed it.
        let is_same = fs::metadata(temporary).is_ok_and(|there| {
            file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
        });
        if is_same {
            return Ok(Some(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let target = TargetFile::open(&path).unwrap();
        target.reserve(4).unwrap();
        target.write(2, b"cd").unwrap();
        assert!(!path.exists() && is_temporary(OsStr::new(&names(&folder.path().join("a"))[0])));
        assert!(TargetFile::open(&path).is_err(), "two runs do not write one file");
        drop(target);
        assert_eq!(names(&folder.path().join("a")), [""; 0]);
        let target = TargetFile::open(&path).unwrap();
        target.reserve(2).unwrap();
        target.write(0, b"ab").unwrap();
        target.commit(Some(SystemTime::UNIX_EPOCH), true).unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), names(&folder.path().join("a"))),
            (b"ab".to_vec(), vec!["b".to_owned()])
        );
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), SystemTime::UNIX_EPOCH);
        assert!(TargetFile::open(folder.path()).is_err(), "a folder is no file");
        drop(TargetFile::open(&folder.path().join("c")).unwrap());
        let temporary = TargetFile::open(&folder.path().join("c")).unwrap().temporary.clone();
        std::os::unix::fs::symlink("a/b", temporary).unwrap();
        assert!(TargetFile::open(&folder.path().join("c")).is_err(), "a link would lead elsewhere");
    }

    #[test]
    fn what_an_interrupted_run_left_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b");
        let mut target = TargetFile::open(&path).unwrap();
        target.write(0, b"abc").unwrap();
        target.keep();
        drop(target);
        let target = TargetFile::open(&path).unwrap();
        let mut read = [0; 3];
        target.read(0, &mut read).unwrap();
        assert_eq!((target.len().unwrap(), &read), (3, b"abc"));
    }
}
