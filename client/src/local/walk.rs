//! A tree of files in the order of the keys that they would have: the names of a folder are sorted as if
//! folders ended in a slash. One folder's names are held at a time, with those of the folders above it.
//!
//! Links are followed. One that leads back to a folder above it is an error of its own, as is each folder
//! that cannot be read, and the walk goes on.

use std::fs::{self, DirEntry};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::target::is_temporary;
use crate::error::{Error, NameFault};
use crate::limits::DEPTH_MAX;

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileEntry {
    /// Below the root, its parts separated by slashes.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) modified: Option<SystemTime>,
    /// Whether a folder above it, below the root, is a link.
    pub(crate) is_behind_link: bool,
}

/// A folder that is open.
#[derive(Debug)]
struct OpenFolder {
    device: u64,
    inode: u64,
    /// The last is the next one.
    names: Vec<Vec<u8>>,
    path: PathBuf,
    /// Below the root; empty for it, else with a slash at its end.
    name: String,
    /// Whether it or a folder above it, below the root, is a link.
    is_behind_link: bool,
}

/// The files of a tree. Blocks.
#[derive(Debug)]
pub(crate) struct Walk {
    open: Vec<OpenFolder>,
    fault: Option<Error>,
}

impl Walk {
    /// Walks a folder.
    pub(crate) fn new(root: &Path) -> Self {
        let mut walk = Self { open: Vec::new(), fault: None };
        walk.fault = walk.enter(root.to_owned(), String::new()).err();
        walk
    }

    fn enter(&mut self, path: PathBuf, name: String) -> Result<(), Error> {
        let metadata = fs::metadata(&path).map_err(Error::file("open", &path))?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        let is_above = self.open.iter().any(|folder| folder.device == device && folder.inode == inode);
        if is_above || self.open.len() >= DEPTH_MAX {
            return Err(Error::name(path.display().to_string(), NameFault::Loop));
        }
        let is_behind_link = match self.open.last() {
            None => false,
            Some(above) => {
                above.is_behind_link || fs::symlink_metadata(&path).is_ok_and(|own| own.is_symlink())
            }
        };
        let entries = fs::read_dir(&path).map_err(Error::file("list", &path))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(Error::file("list", &path))?;
            if !is_temporary(&entry.file_name()) {
                names.push(sorted_name(&entry));
            }
        }
        names.sort_unstable_by(|one, other| other.cmp(one));
        self.open.push(OpenFolder { device, inode, names, path, name, is_behind_link });
        Ok(())
    }

    /// The file of a name, or nothing for a folder, which is entered.
    fn visit(&mut self, name: Vec<u8>) -> Result<Option<FileEntry>, Error> {
        let folder = self.open.last().expect("a name is of an open folder");
        let is_folder = name.ends_with(b"/");
        let plain = name.strip_suffix(b"/").unwrap_or(&name).to_vec();
        let path = folder.path.join(std::ffi::OsString::from_vec(plain));
        let name = String::from_utf8(name);
        let name = name.map_err(|_| Error::name(path.display().to_string(), NameFault::NotUtf8))?;
        let name = format!("{}{name}", folder.name);
        let is_behind_link = folder.is_behind_link;
        if is_folder {
            return self.enter(path, name).map(|()| None);
        }
        let metadata = fs::metadata(&path).map_err(Error::file("open", &path))?;
        if !metadata.is_file() {
            return Err(Error::name(path.display().to_string(), NameFault::Special));
        }
        let modified = metadata.modified().ok();
        Ok(Some(FileEntry { name, path, bytes: metadata.len(), modified, is_behind_link }))
    }
}

impl Iterator for Walk {
    type Item = Result<FileEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.fault.take() {
            return Some(Err(error));
        }
        loop {
            let folder = self.open.last_mut()?;
            let Some(name) = folder.names.pop() else {
                self.open.pop();
                continue;
            };
            match self.visit(name) {
                Ok(Some(file)) => return Some(Ok(file)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// A name with a slash behind that of a folder, or of a link to one.
fn sorted_name(entry: &DirEntry) -> Vec<u8> {
    let mut name = entry.file_name().into_vec();
    let is_folder = match entry.file_type() {
        Ok(kind) if kind.is_symlink() => fs::metadata(entry.path()).is_ok_and(|of| of.is_dir()),
        Ok(kind) => kind.is_dir(),
        Err(_) => false,
    };
    if is_folder {
        name.push(b'/');
    }
    name
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(root: &Path) -> (Vec<String>, Vec<Error>) {
        let (mut names, mut errors) = (Vec::new(), Vec::new());
        for entry in Walk::new(root) {
            match entry {
                Ok(file) => names.push(file.name),
                Err(error) => errors.push(error),
            }
        }
        (names, errors)
    }

    #[test]
    fn files_come_in_the_order_of_keys() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/b", "a-b", "a.b", "a/c/d", "b", "a0"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let (found, errors) = names(folder.path());
        let mut sorted = found.clone();
        sorted.sort();
        assert_eq!(found, sorted);
        assert_eq!(found, ["a-b", "a.b", "a/b", "a/c/d", "a0", "b"]);
        assert!(errors.is_empty());
    }

    #[test]
    fn what_cannot_be_taken_is_an_error_and_the_rest_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "").unwrap();
        fs::write(root.join("z"), "").unwrap();
        fs::write(root.join(OsStr::from_bytes(b"\xff")), "").unwrap();
        fs::write(root.join(".sherd-0123456789abcdef.part"), "").unwrap();
        symlink(root, root.join("a/loop")).unwrap();
        symlink("nowhere", root.join("broken")).unwrap();
        symlink(root.join("a/file"), root.join("link")).unwrap();
        let (found, errors) = names(root);
        assert_eq!(found, ["a/file", "link", "z"]);
        let reasons: Vec<_> = errors
            .iter()
            .map(|error| match error {
                Error::Name { reason, .. } => format!("{reason:?}"),
                error => error.kind().to_owned(),
            })
            .collect();
        assert_eq!(reasons, ["Loop", "file", "NotUtf8"]);
        assert!(names(&root.join("none")).1[0].is_absent());
    }
}
