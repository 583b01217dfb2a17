//! Space that is given up when the disk is full: for index flushes and for what volume.json has to say, and
//! made again when there is room. Without it the volume serves as well.

use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::disk::{Disk, OpenMode};

/// Its file in the directory of a volume.
pub const NAME: &str = "ballast";

/// How long after a try to make it the next one comes: a disk that refuses it though there seems to be room,
/// as under a quota, does not have it made and given up again and again.
const AGAIN_US: u64 = 10_000_000;

#[derive(Debug)]
pub(crate) struct Ballast {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: u64,
    resized: Mutex<()>,
    is_missing: AtomicBool,
    again_us: AtomicU64,
}

impl Ballast {
    /// Names the ballast of a volume, which may be there from an earlier opening.
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path, bytes: u64) -> Self {
        Self {
            disk,
            path: directory.join(NAME),
            bytes,
            resized: Mutex::new(()),
            is_missing: AtomicBool::new(bytes > 0),
            again_us: AtomicU64::new(0),
        }
    }

    /// Whether it was given up and there is room again: with it the volume is not full, or it would take the
    /// room of what it is for.
    pub(crate) fn is_wanted(&self, free_bytes: u64, reserve_bytes: u64, now_us: u64) -> bool {
        self.is_missing.load(Ordering::Relaxed) && self.has_room(free_bytes, reserve_bytes, now_us)
    }

    /// Whether it may be made, where it is not there.
    pub(crate) fn has_room(&self, free_bytes: u64, reserve_bytes: u64, now_us: u64) -> bool {
        now_us >= self.again_us.load(Ordering::Relaxed)
            && free_bytes >= reserve_bytes.saturating_add(self.bytes)
    }

    pub(crate) fn make(&self, now_us: u64) {
        let _resized = self.resized.lock();
        self.again_us.store(now_us.saturating_add(AGAIN_US), Ordering::Relaxed);
        self.is_missing.store(self.try_make().is_err(), Ordering::Relaxed);
    }

    fn try_make(&self) -> io::Result<()> {
        let file = match self.disk.open(&self.path, OpenMode::Write) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.disk.open(&self.path, OpenMode::CreateNew)?
            }
            other => other?,
        };
        if file.length()? == self.bytes {
            return Ok(());
        }
        file.truncate(0)?;
        if let Err(error) = file.allocate(self.bytes) {
            // A part of it would be in the way of those that it is for.
            let _ = file.truncate(0);
            return Err(error);
        }
        if self.bytes > 0 {
            file.write_at(&[IoSlice::new(b"reserved")], 0)?;
        }
        Ok(())
    }

    /// Gives the space up; whether there was any.
    pub(crate) fn give_up(&self) -> bool {
        let _resized = self.resized.lock();
        let give_up = || {
            let file = self.disk.open(&self.path, OpenMode::Write)?;
            let had = file.length()? > 0;
            file.truncate(0)?;
            Ok::<bool, io::Error>(had)
        };
        let had = give_up().unwrap_or(false);
        if had {
            self.is_missing.store(true, Ordering::Relaxed);
        }
        had
    }
}
