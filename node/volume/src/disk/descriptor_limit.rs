//! The disk of one volume, which keeps files open for speed: where a call finds no descriptor, they are
//! closed, and it is made once more.
//!
//! A volume's work with names needs a descriptor for a moment: to begin a segment or a shard file, to make a
//! spare, to list or sync a directory, to write volume.json. Keepers of files register themselves
//! ([`Disk::note_keeper`]); other callers do not depend on it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Disk, DiskFile, Entry, FileId, FileKeeper, OpenMode, Space};
use crate::error::FaultClass;

/// A disk on which kept files are closed before a call fails for want of a descriptor.
#[derive(Debug)]
pub(crate) struct DescriptorLimitDisk {
    disk: Arc<dyn Disk>,
    keepers: Mutex<Vec<Weak<dyn FileKeeper>>>,
}

impl DescriptorLimitDisk {
    /// The disk as one volume uses it: another volume's files are not closed for it.
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, keepers: Mutex::default() }
    }

    /// Calls, and once more where it was refused for want of something and files were closed for it. A call
    /// that is refused so has changed nothing.
    fn call<R>(&self, call: impl Fn(&dyn Disk) -> io::Result<R>) -> io::Result<R> {
        match call(&*self.disk) {
            Err(error) if FaultClass::of(&error) == FaultClass::Busy && self.close_kept() => {
                call(&*self.disk)
            }
            result => result,
        }
    }

    fn close_kept(&self) -> bool {
        let keepers = self.keepers.lock().clone();
        let closed = keepers.iter().filter_map(Weak::upgrade).filter(|keeper| keeper.close_all()).count();
        closed > 0
    }
}

impl Disk for DescriptorLimitDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.call(|disk| disk.open(path, mode))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.call(|disk| disk.list(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // A sync that was begun must not be made again, and its failure is not for want of a descriptor.
        self.call(|disk| disk.sync_dir(path))
    }

    fn file_id(&self, path: &Path) -> io::Result<FileId> {
        self.disk.file_id(path)
    }

    fn names_mark(&self, path: &Path) -> io::Result<u64> {
        self.disk.names_mark(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        // Nothing is kept yet, and a lock that is held is not to be waited for.
        self.disk.lock(path)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.disk.space(path)
    }

    fn note_keeper(&self, keeper: Weak<dyn FileKeeper>) {
        self.keepers.lock().push(keeper);
    }
}
