//! Files of Linux, by descriptors and positions: no buffer of its own, no state but the descriptor.
//!
//! Interrupted and partial calls are finished here; every other error goes up as the system said
//! it, a failed sync marked as one. The hints ([`DiskFile::write_back`],
//! [`DiskFile::evict`]) are best effort by contract, so their errors end here.

#![expect(clippy::disallowed_methods, reason = "this file is the seam to the real disk")]

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use crate::error::SyncFailure;

use super::{Disk, DiskFile, Entry, FileId, OpenMode, Space};

/// Buffers that one vectored call takes (`IOV_MAX` of Linux).
const BUFFERS_PER_CALL: usize = 1024;
/// The unit of the page cache.
const PAGE_BYTES: u64 = 4096;

/// The disks of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl RealDisk {
    /// Names the machine's disks.
    pub const fn new() -> Self {
        Self
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let flags = match mode {
            OpenMode::Read => OFlags::RDONLY,
            OpenMode::Write => OFlags::RDWR,
            OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            OpenMode::ReadDirect => OFlags::RDONLY | OFlags::DIRECT,
            OpenMode::WriteDirect => OFlags::WRONLY | OFlags::DIRECT,
        };
        let owner_only = Mode::RUSR | Mode::WUSR;
        let fd = retry_on_intr(|| rustix::fs::open(path, flags | OFlags::CLOEXEC, owner_only));
        Ok(Arc::new(RealFile { fd: fd.map_err(io::Error::from)? }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let found = |entry: io::Result<fs::DirEntry>| -> io::Result<Entry> {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok(Entry { name, is_dir: entry.file_type()?.is_dir() })
        };
        let entries = fs::read_dir(path)?.map(found);
        // A name that went meanwhile is left out; a missing directory failed before.
        entries
            .filter(|entry| !matches!(entry, Err(error) if error.kind() == io::ErrorKind::NotFound))
            .collect()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty())).map_err(io::Error::from)?;
        retry_on_intr(|| rustix::fs::fsync(&fd)).map_err(|errno| SyncFailure::wrap(errno.into()))
    }

    fn file_id(&self, path: &Path) -> io::Result<FileId> {
        let metadata = fs::metadata(path)?;
        Ok(FileId { device: metadata.dev(), inode: metadata.ino() })
    }

    fn names_mark(&self, path: &Path) -> io::Result<u64> {
        let metadata = fs::metadata(path)?;
        let seconds = metadata.mtime().unsigned_abs().wrapping_mul(1_000_000_000);
        Ok(seconds.wrapping_add(metadata.mtime_nsec().unsigned_abs()) ^ metadata.ino().rotate_left(32))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR));
        let fd = fd.map_err(io::Error::from)?;
        retry_on_intr(|| rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive))
            .map_err(io::Error::from)?;
        Ok(Box::new(fd))
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let all = retry_on_intr(|| rustix::fs::statvfs(path)).map_err(io::Error::from)?;
        Ok(Space {
            total: all.f_blocks.saturating_mul(all.f_frsize),
            free: all.f_bavail.saturating_mul(all.f_frsize),
        })
    }
}

#[derive(Debug)]
struct RealFile {
    fd: OwnedFd,
}

impl RealFile {
    /// Reads until the buffer is full or the file ends.
    fn read_with(
        buffer: &mut [u8],
        offset: u64,
        mut read: impl FnMut(&mut [u8], u64) -> Result<usize, Errno>,
    ) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match read(&mut buffer[done..], offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(done)
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Self::read_with(buffer, offset, |rest, at| rustix::io::pread(&self.fd, rest, at))
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Self::read_with(buffer, offset, |rest, at| {
            let rest = &mut [IoSliceMut::new(rest)];
            match rustix::io::preadv2(&self.fd, rest, at, ReadWriteFlags::NOWAIT) {
                // A filesystem that cannot say whether it would wait, waits.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(Errno::AGAIN),
                result => result,
            }
        })
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        let mut next = 0;
        // How much of the buffer at `next` is written: the rest of it goes out alone.
        let mut begun = 0;
        while let Some(buffer) = buffers.get(next) {
            if begun == buffer.len() {
                next += 1;
                begun = 0;
                continue;
            }
            let written = if begun > 0 {
                rustix::io::pwrite(&self.fd, &buffer[begun..], at)
            } else {
                let end = buffers.len().min(next + BUFFERS_PER_CALL);
                rustix::io::pwritev(&self.fd, &buffers[next..end], at)
            };
            let mut written = match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            at += written as u64;
            while written > 0 {
                let taken = written.min(buffers[next].len() - begun);
                written -= taken;
                begun += taken;
                if begun == buffers[next].len() {
                    next += 1;
                    begun = 0;
                }
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::fdatasync(&self.fd)).map_err(|errno| SyncFailure::wrap(errno.into()))
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        match retry_on_intr(|| rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, length)) {
            // Without the call nothing is reserved: the length is set, and a write into it may find the disk
            // full.
            Err(Errno::OPNOTSUPP) if self.length()? < length => self.truncate(length),
            Err(Errno::OPNOTSUPP) => Ok(()),
            result => result.map_err(io::Error::from),
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::ftruncate(&self.fd, length)).map_err(io::Error::from)
    }

    fn length(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.fd).map_err(io::Error::from)?;
        u64::try_from(stat.st_size).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn write_back(&self, offset: u64, length: u64) {
        let (Ok(offset), Ok(length)) = (libc::off64_t::try_from(offset), libc::off64_t::try_from(length))
        else {
            return;
        };
        #[expect(unsafe_code, reason = "rustix has no sync_file_range")]
        // SAFETY: The call takes integers and a descriptor that this value owns and keeps open; it
        // touches no memory of ours.
        let _ = unsafe {
            libc::sync_file_range(self.fd.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE)
        };
    }

    fn evict(&self, offset: u64, length: u64) {
        // The kernel rounds inwards: a page that is only touched would stay.
        let from = offset - offset % PAGE_BYTES;
        let until = offset.saturating_add(length).next_multiple_of(PAGE_BYTES);
        if let Some(length) = NonZeroU64::new(until - from) {
            let _ = rustix::fs::fadvise(&self.fd, from, Some(length), Advice::DontNeed);
        }
    }
}
