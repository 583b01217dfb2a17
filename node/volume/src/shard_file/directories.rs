//! The 256 directories of shard files: made when first needed, and synced for many files at once.
//!
//! A file's name is durable after a sync of its directory that began after the name was there. A caller that
//! comes while a sync runs waits for the next one, and one of the waiting callers runs it for all.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use sherd_core::id::DataId;

use crate::disk::Disk;
use crate::error::SyncFailure;

const COUNT: usize = 256;

#[derive(Debug)]
pub(super) struct Directories {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    is_made: Mutex<[bool; COUNT]>,
    syncs: Vec<Sync>,
}

#[derive(Debug, Default)]
struct Sync {
    state: Mutex<SyncState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct SyncState {
    is_running: bool,
    begun: u64,
    /// The last sync that ended well; all up to it did, unless one failed.
    ended: u64,
    has_failed: bool,
    waiting: u64,
}

impl Directories {
    pub(super) fn new(disk: Arc<dyn Disk>, root: PathBuf) -> Self {
        let syncs = (0..COUNT).map(|_| Sync::default()).collect();
        Self { disk, root, is_made: Mutex::new([false; COUNT]), syncs }
    }

    /// The directory of a data id: the byte of its birth that changes each 256 ms. So names spread
    /// evenly over time, and files that finish together share a directory and its sync.
    pub(super) fn of(data: DataId) -> u8 {
        let [_, _, _, _, byte, ..] = data.to_bytes();
        byte
    }

    pub(super) fn path(&self, directory: u8) -> PathBuf {
        self.root.join(format!("{directory:02x}"))
    }

    /// Makes a directory durably, once in the life of this value: one that is found may have been
    /// made by a process that died before it synced the name.
    pub(super) fn make(&self, directory: u8) -> io::Result<()> {
        let is_made = &mut *self.is_made.lock();
        let is_made = &mut is_made[usize::from(directory)];
        if !*is_made {
            // Where the volume was taken away, nothing may be made in its place on what is below.
            self.disk.file_id(&self.root)?;
            self.disk.create_dir(&self.path(directory))?;
            self.disk.sync_dir(&self.root)?;
            *is_made = true;
        }
        Ok(())
    }

    /// Makes the names in a directory durable. After a failed sync of a directory all later ones fail; if a
    /// sync could not begin, each waiting caller tries again itself.
    pub(super) fn sync(&self, directory: u8) -> io::Result<()> {
        let sync = &self.syncs[usize::from(directory)];
        let mut state = sync.state.lock();
        // A sync that runs may have passed our name already: the next one counts.
        let wanted = state.begun + 1;
        while state.ended < wanted && state.is_running {
            state.waiting += 1;
            sync.ended.wait(&mut state);
            state.waiting -= 1;
        }
        if state.has_failed {
            return Err(SyncFailure::wrap(io::Error::other("an earlier sync of the directory failed")));
        }
        if state.ended >= wanted {
            return Ok(());
        }
        state.is_running = true;
        state.begun += 1;
        let number = state.begun;
        drop(state);
        let result = self.disk.sync_dir(&self.path(directory));
        let mut state = sync.state.lock();
        state.is_running = false;
        match &result {
            Ok(()) => state.ended = number,
            Err(error) => state.has_failed |= SyncFailure::within(error).is_some(),
        }
        drop(state);
        sync.ended.notify_all();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::faulty::FaultyDisk;
    use crate::disk::{DiskFile, Entry, FileId, OpenMode, Space};
    use std::path::Path;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A disk whose first directory sync lasts until the test lets it go on.
    #[derive(Debug)]
    struct SlowSync {
        disk: FaultyDisk,
        begun: Barrier,
        go_on: Barrier,
        syncs: AtomicU64,
    }

    impl Disk for SlowSync {
        fn sync_dir(&self, path: &Path) -> io::Result<()> {
            if self.syncs.fetch_add(1, Ordering::SeqCst) == 0 {
                self.begun.wait();
                self.go_on.wait();
            }
            self.disk.sync_dir(path)
        }
        fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
            self.disk.open(path, mode)
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
            self.disk.list(path)
        }
        fn file_id(&self, path: &Path) -> io::Result<FileId> {
            self.disk.file_id(path)
        }
        fn names_mark(&self, path: &Path) -> io::Result<u64> {
            self.disk.names_mark(path)
        }
        fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + std::marker::Sync>> {
            self.disk.lock(path)
        }
        fn space(&self, path: &Path) -> io::Result<Space> {
            self.disk.space(path)
        }
    }

    #[test]
    fn a_caller_that_comes_while_a_sync_runs_shares_the_next_one() {
        let disk = FaultyDisk::new(1);
        disk.create_dir(Path::new("/shards/00")).unwrap();
        let (begun, go_on) = (Barrier::new(2), Barrier::new(2));
        let slow = Arc::new(SlowSync { disk, begun, go_on, syncs: AtomicU64::new(0) });
        let directories = Directories::new(Arc::clone(&slow) as Arc<dyn Disk>, PathBuf::from("/shards"));
        std::thread::scope(|scope| {
            scope.spawn(|| directories.sync(0).unwrap());
            slow.begun.wait();
            for _ in 0..7 {
                scope.spawn(|| directories.sync(0).unwrap());
            }
            while directories.syncs[0].state.lock().waiting < 7 {
                std::thread::yield_now();
            }
            slow.go_on.wait();
        });
        assert_eq!(slow.syncs.load(Ordering::SeqCst), 2);
    }
}
