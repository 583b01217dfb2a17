//! A disk in memory that fails in the ways of real disks.
//!
//! Files keep what was synced and what was not; names are durable only after their directory's
//! sync. A power cut, set for any counted operation, keeps a seeded subset of what was not durable:
//! sectors of 512 bytes each from some moment, names change by change. Reads, writes and syncs fail
//! where asked, space runs out, bytes rot, syncs lie. Nothing here asks a clock or the system: the
//! same seeds give the same disk.
//!
//! One [`FaultyDisk`] is the hardware, and clones of it are the same hardware. A restart ends the
//! process that used it: every file and lock taken before is dead.

mod chance;
mod content;
mod names;

use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{DIRECT_ALIGN, Disk, DiskFile, Entry, FileId, OpenMode, Space};
use crate::error::SyncFailure;
pub use chance::Keep;
use chance::SplitMix;
use names::{NodeId, Tree};

/// A kind of call, for counting and for injected failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// [`Disk::open`] of an existing file. Not counted.
    Open,
    /// [`Disk::open`] with [`OpenMode::CreateNew`], and a lock file's creation.
    Create,
    /// [`Disk::create_dir`].
    CreateDir,
    /// [`Disk::rename`], by the new name.
    Rename,
    /// [`Disk::remove`].
    Remove,
    /// [`Disk::list`]. Not counted.
    List,
    /// [`Disk::sync_dir`].
    SyncDir,
    /// [`DiskFile::read_at`] and [`DiskFile::read_cached_at`]. Not counted.
    Read,
    /// [`DiskFile::write_at`].
    Write,
    /// [`DiskFile::sync_data`].
    Sync,
    /// [`DiskFile::allocate`] and [`DiskFile::truncate`].
    Resize,
}

/// How an injected failure shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// EIO.
    Io,
    /// ENOSPC.
    Full,
    /// EMFILE.
    NoDescriptor,
    /// ENOMEM.
    NoMemory,
}

impl Failure {
    /// The error that a call returns. A directory without a descriptor is not synced; any other sync fails.
    fn error(self, call: Call) -> io::Error {
        let error = match self {
            Self::Io => rustix::io::Errno::IO.into(),
            Self::Full => rustix::io::Errno::NOSPC.into(),
            Self::NoDescriptor => rustix::io::Errno::MFILE.into(),
            Self::NoMemory => rustix::io::Errno::NOMEM.into(),
        };
        match (call, self) {
            (Call::SyncDir, Self::NoDescriptor) => error,
            (Call::Sync | Call::SyncDir, _) => SyncFailure::wrap(error),
            _ => error,
        }
    }
}

/// A failure to come.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The file or directory, or a directory above it.
    pub under: PathBuf,
    /// Kind of call that fails.
    pub call: Call,
    /// How many matching calls succeed first.
    pub skip: u64,
    /// How many fail then; `u64::MAX` for ever.
    pub times: u64,
    /// How.
    pub failure: Failure,
}

/// A failure that was asked for. It ends when this is dropped; and a test for which it never happened
/// fails there, for it tested nothing.
#[derive(Debug)]
#[must_use = "the failure ends when this is dropped"]
pub struct InjectedFault {
    disk: FaultyDisk,
    fault: Fault,
    fired: Arc<AtomicU64>,
    may_be_idle: bool,
}

impl InjectedFault {
    /// Ends the failure, whether it happened or not; how many calls failed by it.
    pub fn end(mut self) -> u64 {
        self.may_be_idle = true;
        self.fired()
    }

    /// How many calls failed by it.
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }
}

impl Drop for InjectedFault {
    fn drop(&mut self) {
        self.disk.state.lock().faults.retain(|armed| !Arc::ptr_eq(&armed.fired, &self.fired));
        if !self.may_be_idle && !std::thread::panicking() {
            assert!(self.fired() > 0, "an injected failure never happened: {:?}", self.fault);
        }
    }
}

#[derive(Debug, Clone)]
struct ArmedFault {
    fault: Fault,
    fired: Arc<AtomicU64>,
}

/// One counted operation in [`FaultyDisk::history`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The call.
    pub call: Call,
    /// On what.
    pub path: PathBuf,
}

/// An in-memory disk with faults.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<DiskState>>,
}

#[derive(Debug, Clone)]
struct DiskState {
    tree: Tree,
    history: Vec<Operation>,
    cut_at: Option<u64>,
    is_off: bool,
    /// Number of the process that the disk serves; files and locks of earlier ones are dead.
    process: u64,
    locks: Vec<NodeId>,
    faults: Vec<ArmedFault>,
    capacity: u64,
    descriptors: u64,
    is_lying: bool,
    direct_align: usize,
    rng: SplitMix,
}

impl FaultyDisk {
    /// Makes an empty disk of 1 TiB. The seed decides what a failing sync keeps and how bytes rot.
    pub fn new(seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(DiskState {
                tree: Tree::new(),
                history: Vec::new(),
                cut_at: None,
                is_off: false,
                process: 0,
                locks: Vec::new(),
                faults: Vec::new(),
                capacity: 1 << 40,
                descriptors: u64::MAX,
                is_lying: false,
                direct_align: DIRECT_ALIGN,
                rng: SplitMix::new(seed),
            })),
        }
    }

    /// Copies the whole disk, with what is and what is not durable. Files opened before stay with
    /// the original.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut state = self.state.lock().clone();
        state.end_process();
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// How many operations that change something were called.
    pub fn operations(&self) -> u64 {
        self.state.lock().history.len() as u64
    }

    /// The counted operations, in order: what a failing test prints to say where the cut was.
    pub fn history(&self) -> Vec<Operation> {
        self.state.lock().history.clone()
    }

    /// Cuts the power before the counted operation with this index (from 0): it and every call
    /// after it fails until [`FaultyDisk::restart`].
    pub fn cut_power_at(&self, operation: u64) {
        self.state.lock().cut_at = Some(operation);
    }

    /// Cuts the power at once.
    pub fn cut_power(&self) {
        self.state.lock().is_off = true;
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.state.lock().is_off
    }

    /// Loses power, if it was not off already, and comes back with what `keep` and the seed leave.
    /// Injected failures end, files and locks taken before are dead, counting goes on.
    pub fn restart(&self, seed: u64, keep: Keep) {
        let mut state = self.state.lock();
        state.tree.crash(keep, &mut SplitMix::new(seed));
        state.end_process();
        state.is_off = false;
        state.cut_at = None;
        state.faults.clear();
    }

    /// Ends the process and keeps the machine running: nothing written is lost, files and locks
    /// taken before are dead.
    pub fn kill(&self) {
        self.state.lock().end_process();
    }

    /// Makes calls fail, as long as what this gives is held.
    pub fn inject(&self, fault: Fault) -> InjectedFault {
        let fired = Arc::new(AtomicU64::new(0));
        self.state.lock().faults.push(ArmedFault { fault: fault.clone(), fired: Arc::clone(&fired) });
        InjectedFault { disk: self.clone(), fault, fired, may_be_idle: false }
    }

    /// How many files are open.
    pub fn open_files(&self) -> u64 {
        self.state.lock().tree.open_files()
    }

    /// Sets the size of the disk in bytes; what is there stays even when it is more.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Sets how many files may be open at one time. A directory that is listed or synced takes one for a
    /// moment.
    pub fn set_descriptors(&self, count: u64) {
        self.state.lock().descriptors = count;
    }

    /// Lets every sync, of files and of directories, answer well and make nothing durable.
    pub fn set_lying(&self, is_lying: bool) {
        self.state.lock().is_lying = is_lying;
    }

    /// Sets what reads and writes past the page cache are to be aligned to.
    pub fn set_direct_align(&self, bytes: usize) {
        self.state.lock().direct_align = bytes;
    }

    /// Flips bits in every byte of a range of a file, on the device and in memory.
    ///
    /// # Errors
    /// `NotFound` if the file does not exist.
    pub fn rot(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        let state = &mut *self.state.lock();
        let node = state.tree.find_file(path)?;
        state.tree.file(node)?.rot(range, &mut state.rng);
        Ok(())
    }

    /// Flips bits in every byte of a range of a file on the device alone: pages that are in memory hide it
    /// until they are evicted.
    ///
    /// # Errors
    /// `NotFound` if the file does not exist.
    pub fn rot_device(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        let state = &mut *self.state.lock();
        let node = state.tree.find_file(path)?;
        state.tree.file(node)?.rot_device(range, &mut state.rng);
        Ok(())
    }

    /// Makes every read that touches a range of a file fail with EIO, for as long as the file lives.
    ///
    /// # Errors
    /// `NotFound` if the file does not exist.
    pub fn make_unreadable(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        let state = &mut *self.state.lock();
        let node = state.tree.find_file(path)?;
        state.tree.file(node)?.make_unreadable(range);
        Ok(())
    }

    /// Lets what could not be read of a file be read again.
    ///
    /// # Errors
    /// `NotFound` if the file does not exist.
    pub fn make_readable(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        let node = state.tree.find_file(path)?;
        state.tree.file(node)?.make_readable();
        Ok(())
    }

    /// Takes a directory away with all that is in it, durably, as an unmount or `rm -r` would.
    ///
    /// # Errors
    /// `NotFound` when nothing is there.
    pub fn vanish(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let (dir, name) = state.tree.parent(path)?;
        state.tree.find(path)?;
        state.tree.change(vec![(dir, name, None)]);
        state.tree.sync(dir);
        Ok(())
    }

    fn open_file(
        &self,
        state: &mut DiskState,
        path: &Path,
        node: NodeId,
        mode: OpenMode,
    ) -> Arc<dyn DiskFile> {
        state.tree.hold(node);
        Arc::new(FaultyFile {
            disk: self.clone(),
            path: path.to_path_buf(),
            node,
            process: state.process,
            mode,
        })
    }
}

impl DiskState {
    fn end_process(&mut self) {
        self.process += 1;
        self.locks.clear();
        self.tree.release_all();
    }

    /// Lets a call happen, or fails it: no power, or a failure that was asked for. Counts the call
    /// when it changes something.
    fn call(&mut self, call: Call, path: &Path) -> io::Result<()> {
        if !matches!(call, Call::Open | Call::List | Call::Read) {
            if !self.is_off && self.cut_at == Some(self.history.len() as u64) {
                self.is_off = true;
            }
            if !self.is_off {
                self.history.push(Operation { call, path: path.to_path_buf() });
            }
        }
        if self.is_off {
            return Err(io::Error::other("no power"));
        }
        for ArmedFault { fault, fired } in &mut self.faults {
            if fault.call != call || !path.starts_with(&fault.under) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fault.times > 0 {
                fault.times -= 1;
                fired.fetch_add(1, Ordering::Relaxed);
                return Err(fault.failure.error(call));
            }
        }
        Ok(())
    }

    fn take_descriptor(&self) -> io::Result<()> {
        if self.tree.open_files() < self.descriptors { Ok(()) } else { Err(rustix::io::Errno::MFILE.into()) }
    }

    fn reserve(&mut self, node: NodeId, length: u64) -> io::Result<()> {
        let now = self.tree.file(node)?.space();
        let wanted = length.next_multiple_of(content::PAGE as u64);
        let free = self.capacity.saturating_sub(self.tree.used());
        if wanted > now && wanted - now > free {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let state = &mut *self.state.lock();
        if mode != OpenMode::CreateNew {
            state.call(Call::Open, path)?;
            let node = state.tree.find_file(path)?;
            state.take_descriptor()?;
            return Ok(self.open_file(state, path, node, mode));
        }
        state.call(Call::Create, path)?;
        let (dir, name) = state.tree.parent(path)?;
        if state.tree.find(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.take_descriptor()?;
        let node = state.tree.new_file();
        state.tree.change(vec![(dir, name, Some(node))]);
        Ok(self.open_file(state, path, node, mode))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call(Call::CreateDir, path)?;
        state.tree.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call(Call::Rename, to)?;
        let node = state.tree.find(from)?;
        let (from_dir, from_name) = state.tree.parent(from)?;
        let (to_dir, to_name) = state.tree.parent(to)?;
        let replaced = state.tree.find(to).ok();
        if replaced == Some(node) {
            return Ok(());
        }
        if replaced.is_some_and(|there| state.tree.is_dir(there)) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        state.tree.change(vec![(from_dir, from_name, None), (to_dir, to_name, Some(node))]);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call(Call::Remove, path)?;
        state.tree.find_file(path)?;
        let (dir, name) = state.tree.parent(path)?;
        state.tree.change(vec![(dir, name, None)]);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut state = self.state.lock();
        state.call(Call::List, path)?;
        let dir = state.tree.find_dir(path)?;
        state.take_descriptor()?;
        Ok(state.tree.entries(dir))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call(Call::SyncDir, path)?;
        let dir = state.tree.find_dir(path)?;
        state.take_descriptor()?;
        if !state.is_lying {
            state.tree.sync(dir);
        }
        Ok(())
    }

    fn file_id(&self, path: &Path) -> io::Result<FileId> {
        let mut state = self.state.lock();
        state.call(Call::Open, path)?;
        Ok(FileId { device: 1, inode: state.tree.find(path)?.inode() })
    }

    fn names_mark(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.state.lock();
        state.call(Call::Open, path)?;
        state.tree.names_mark(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let state = &mut *self.state.lock();
        let node = if let Ok(node) = state.tree.find_file(path) {
            state.call(Call::Open, path)?;
            node
        } else {
            state.call(Call::Create, path)?;
            let (dir, name) = state.tree.parent(path)?;
            let node = state.tree.new_file();
            state.tree.change(vec![(dir, name, Some(node))]);
            node
        };
        if state.locks.contains(&node) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locks.push(node);
        Ok(Box::new(FaultyLock { disk: self.clone(), node, process: state.process }))
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let mut state = self.state.lock();
        state.call(Call::Open, path)?;
        state.tree.find_dir(path)?;
        let total = state.capacity;
        Ok(Space { total, free: total.saturating_sub(state.tree.used()) })
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    path: PathBuf,
    node: NodeId,
    process: u64,
    mode: OpenMode,
}

impl FaultyFile {
    /// Runs a call on the file's content, if the process still lives and the disk lets it.
    fn call<R>(&self, call: Call, act: impl FnOnce(&mut DiskState) -> io::Result<R>) -> io::Result<R> {
        let mut state = self.disk.state.lock();
        if state.process != self.process {
            return Err(io::Error::other("opened before a restart"));
        }
        state.call(call, &self.path)?;
        if matches!(call, Call::Write | Call::Resize) && !self.is_writable() {
            return Err(rustix::io::Errno::BADF.into());
        }
        act(&mut state)
    }

    const fn is_writable(&self) -> bool {
        !matches!(self.mode, OpenMode::Read | OpenMode::ReadDirect)
    }

    /// Refuses, as Linux does, what does not go past the page cache aligned.
    fn check_aligned(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        if !matches!(self.mode, OpenMode::ReadDirect | OpenMode::WriteDirect) {
            return Ok(());
        }
        let align = self.disk.state.lock().direct_align;
        let is_aligned = [buffer.as_ptr().addr(), buffer.len()].iter().all(|at| at.is_multiple_of(align))
            && offset.is_multiple_of(align as u64);
        if is_aligned { Ok(()) } else { Err(rustix::io::Errno::INVAL.into()) }
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check_aligned(buffer, offset)?;
        self.call(Call::Read, |state| {
            let file = state.tree.file(self.node)?;
            let read = match self.mode {
                OpenMode::ReadDirect => file.read_direct(buffer, offset),
                _ => file.read(buffer, offset),
            };
            read.ok_or(rustix::io::Errno::IO.into())
        })
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call(Call::Read, |state| {
            let file = state.tree.file(self.node)?;
            if !file.is_cached(offset, buffer.len()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            file.read(buffer, offset).ok_or(rustix::io::Errno::IO.into())
        })
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(buffers.iter().map(|buffer| buffer.len()).sum());
        for buffer in buffers {
            self.check_aligned(buffer, offset)?;
            bytes.extend_from_slice(buffer);
        }
        let result = self.call(Call::Write, |state| {
            state.reserve(self.node, offset.saturating_add(bytes.len() as u64))?;
            if !bytes.is_empty() {
                state.tree.file(self.node)?.write(offset, bytes.clone());
            }
            Ok(())
        });
        let state = &mut *self.disk.state.lock();
        if result.is_err() && !state.is_off && state.process == self.process && self.is_writable() {
            // The error of a failed write does not say how much was written before it.
            let written = state.rng.index(bytes.len() + 1);
            if written > 0 && state.reserve(self.node, offset.saturating_add(written as u64)).is_ok() {
                state.tree.file(self.node)?.write(offset, bytes[..written].to_vec());
            }
        }
        result
    }

    fn sync_data(&self) -> io::Result<()> {
        let result = self.call(Call::Sync, |state| {
            if !state.is_lying {
                state.tree.file(self.node)?.sync();
            }
            Ok(())
        });
        let state = &mut *self.disk.state.lock();
        if result.is_err() && !state.is_off && state.process == self.process {
            state.tree.file(self.node)?.sync_failed(&mut state.rng);
        }
        result
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.call(Call::Resize, |state| {
            state.reserve(self.node, length)?;
            let file = state.tree.file(self.node)?;
            if length > file.live.length {
                file.set_length(length);
            }
            Ok(())
        })
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.call(Call::Resize, |state| {
            state.reserve(self.node, length)?;
            state.tree.file(self.node)?.set_length(length);
            Ok(())
        })
    }

    fn length(&self) -> io::Result<u64> {
        self.call(Call::Open, |state| Ok(state.tree.file(self.node)?.live.length))
    }

    fn write_back(&self, _offset: u64, _length: u64) {}

    fn evict(&self, offset: u64, length: u64) {
        // A hint: its failure is not reported.
        let _ = self.call(Call::Open, |state| {
            state.tree.file(self.node)?.evict(offset, length);
            Ok(())
        });
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if state.process == self.process {
            state.tree.release(self.node);
        }
    }
}

#[derive(Debug)]
struct FaultyLock {
    disk: FaultyDisk,
    node: NodeId,
    process: u64,
}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if state.process == self.process {
            state.locks.retain(|node| *node != self.node);
        }
    }
}

#[cfg(test)]
mod tests;
