//! The seam to the disk, and what each call promises about durability.
//!
//! Two implementations: [`real`] files on Linux, and for tests (feature `testing`) a `faulty` disk in memory
//! that tears, loses, rots, fills up and cuts the power; over either a [`descriptor_limit`] for each volume.
//! Written bytes are durable only after the file's `sync_data`; a name (created, renamed, removed) only after
//! its directory's `sync_dir`. Between the two a crash may keep any subset of the writes, by sector.

pub mod ballast;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod faulty;
pub mod real;
pub mod descriptor_limit;

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Weak};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A file that must not exist yet, for reading and writing.
    CreateNew,
    /// An existing file, for reading past the page cache: positions, lengths and the memory of every buffer
    /// are multiples of [`DIRECT_ALIGN`]. The bytes come from the device.
    ReadDirect,
    /// An existing file, for writing past the page cache, aligned the same. Bytes written this way are
    /// durable after [`DiskFile::sync_data`], like everything else.
    WriteDirect,
}

/// Alignment for [`OpenMode::ReadDirect`] and [`OpenMode::WriteDirect`]: the most that Linux asks for.
pub const DIRECT_ALIGN: usize = 4096;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// File name, without the directory.
    pub name: String,
    /// Whether it is a directory itself.
    pub is_dir: bool,
}

/// Distinguishes files that had the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// The filesystem.
    pub device: u64,
    /// The inode on it.
    pub inode: u64,
}

/// Space of the filesystem that holds a directory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// Space that an unprivileged process may still use.
    pub free: u64,
}

/// Keeps files open that it can open again.
pub trait FileKeeper: Send + Sync + std::fmt::Debug {
    /// Closes all of them that are not being read. Returns whether there were any.
    fn close_all(&self) -> bool;
}

/// Writes past the page cache as long as the filesystem takes our alignment, and through it from then on:
/// another alignment is not a failure. For empty lists no call is made.
///
/// # Errors
/// As [`DiskFile::write_at`].
pub(crate) fn write_past_cache(
    direct: &mut Option<Arc<dyn DiskFile>>,
    cached: &dyn DiskFile,
    buffers: &[IoSlice<'_>],
    offset: u64,
) -> io::Result<()> {
    if buffers.iter().all(|buffer| buffer.is_empty()) {
        return Ok(());
    }
    if let Some(file) = direct {
        match file.write_at(buffers, offset) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => *direct = None,
            written => return written,
        }
    }
    cached.write_at(buffers, offset)
}

/// Reads from the device, past the page cache, where the filesystem takes our alignment: that it does not is
/// no failure, and then clean pages are dropped first.
///
/// # Errors
/// As [`DiskFile::read_at`].
pub(crate) fn read_from_device(
    direct: Option<&dyn DiskFile>,
    cached: &dyn DiskFile,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    match direct.map(|direct| read_aligned(direct, buffer, offset)) {
        Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {}
        Some(read) => return read,
        None => {}
    }
    cached.evict(offset, buffer.len() as u64);
    cached.read_at(buffer, offset)
}

/// Reads the whole pages that a range lies in, and hands out the range.
fn read_aligned(direct: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let before = usize::try_from(offset % DIRECT_ALIGN as u64).expect("below a page");
    let bytes = (before + buffer.len()).next_multiple_of(DIRECT_ALIGN);
    let mut memory = vec![0; bytes + DIRECT_ALIGN];
    let start = memory.as_ptr().align_offset(DIRECT_ALIGN);
    let pages = &mut memory[start..start + bytes];
    let read = direct.read_at(pages, offset - before as u64)?;
    let found = read.saturating_sub(before).min(buffer.len());
    buffer[..found].copy_from_slice(&pages[before..before + found]);
    Ok(found)
}

/// Directories and names.
pub trait Disk: Send + Sync + std::fmt::Debug {
    /// Opens or creates a file. A created name is durable after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// As the system says; `AlreadyExists` for [`OpenMode::CreateNew`] on a taken name; any error for
    /// [`OpenMode::ReadDirect`] and [`OpenMode::WriteDirect`] on a filesystem without them.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;

    /// Makes a directory and its parents; succeeds when it is there.
    ///
    /// # Errors
    /// As the system says.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name, replacing what had it. Atomic; durable after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// As the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Durable after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// As the system says; `NotFound` when it is not there.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Lists a directory, in no order.
    ///
    /// # Errors
    /// As the system says; `NotFound` when it is not there.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// [`SyncFailure`](crate::error::SyncFailure): the state of the names is unknown, never retried. Any
    /// other error came before anything was synced, and changed nothing.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns the identity of the file with this name.
    ///
    /// # Errors
    /// As the system says; `NotFound` when none has.
    fn file_id(&self, path: &Path) -> io::Result<FileId>;

    /// A mark of the names in a directory: it is another one when any was added or removed since.
    ///
    /// # Errors
    /// As the system says; `NotFound` when it is not there.
    fn names_mark(&self, path: &Path) -> io::Result<u64>;

    /// Takes the exclusive lock of a file, creating it; the lock goes with the value.
    ///
    /// # Errors
    /// `WouldBlock` when another process holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Space of the filesystem below a directory.
    ///
    /// # Errors
    /// As the system says.
    fn space(&self, path: &Path) -> io::Result<Space>;

    /// Registers a keeper of open files of this disk, for disks that have them closed.
    fn note_keeper(&self, keeper: Weak<dyn FileKeeper>) {
        drop(keeper);
    }
}

/// One open file. All calls take `&self`: positions are arguments.
pub trait DiskFile: Send + Sync + std::fmt::Debug {
    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// As the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// As [`DiskFile::read_at`], but only from memory.
    ///
    /// # Errors
    /// `WouldBlock` when the range is not in the page cache, or where the system cannot say.
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all the buffers, one behind the other. Durable after [`DiskFile::sync_data`].
    ///
    /// # Errors
    /// As the system says; a part may have been written.
    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Makes what was written, and the length needed to read it, durable.
    ///
    /// # Errors
    /// [`SyncFailure`](crate::error::SyncFailure): the pages may be gone, never retried. Any other error
    /// came before anything was synced.
    fn sync_data(&self) -> io::Result<()>;

    /// Reserves space, so that a later write cannot run out of it, and extends the file.
    ///
    /// # Errors
    /// As the system says; `StorageFull` if space is short.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Sets the length.
    ///
    /// # Errors
    /// As the system says.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// As the system says.
    fn length(&self) -> io::Result<u64>;

    /// Asks for a written range to go to the device early. A hint, without a promise.
    fn write_back(&self, offset: u64, length: u64);

    /// Asks for a range to leave the page cache, so that the next read comes from the device. A hint.
    fn evict(&self, offset: u64, length: u64);
}
