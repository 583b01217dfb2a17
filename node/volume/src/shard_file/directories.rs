//! The 256 directories of shard files: made when first needed, and synced for many files at once.
//!
//! A file's name is durable after a sync of its directory that began after the name was there. Who
//! comes while a sync runs waits for the next one, and one of those who wait runs it for all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use sherd_core::id::DataId;

use crate::disk::Disk;

/// How many directories there are.
const COUNT: usize = 256;

/// The directories below `shards`.
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
    /// The last sync that ended; all up to it succeeded, unless one failed.
    ended: u64,
    has_failed: bool,
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

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a directory durably, once in the life of this value: one that is found may have been
    /// made by a process that died before it synced the name.
    pub(super) fn make(&self, directory: u8) -> io::Result<()> {
        let is_made = &mut *self.is_made.lock();
        let is_made = &mut is_made[usize::from(directory)];
        if !*is_made {
            self.disk.create_dir(&self.path(directory))?;
            self.disk.sync_dir(&self.root)?;
            *is_made = true;
        }
        Ok(())
    }

    /// Makes the names in a directory durable. After an error no sync of it succeeds any more.
    pub(super) fn sync(&self, directory: u8) -> io::Result<()> {
        let sync = &self.syncs[usize::from(directory)];
        let mut state = sync.state.lock();
        // A sync that runs may have passed our name already: the next one counts.
        let wanted = state.begun + 1;
        while state.ended < wanted && state.is_running {
            sync.ended.wait(&mut state);
        }
        if state.has_failed {
            return Err(io::Error::other("an earlier directory sync failed"));
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
        state.ended = number;
        state.has_failed |= result.is_err();
        drop(state);
        sync.ended.notify_all();
        result
    }
}
