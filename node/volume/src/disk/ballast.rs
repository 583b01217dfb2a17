//! Space that is given up when the disk is full: for index flushes and for what volume.json has to say, and
//! made again when there is room. Without it the volume serves as well. Its bytes mean nothing, so the pace
//! of the device is measured in them: that takes no room, and leaves no file behind.

use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::disk::{DIRECT_ALIGN, Disk, OpenMode, read_from_device, write_past_cache};
use crate::limits::{MEASURED_BYTES_MAX, MEASURED_US_MAX};

/// Name of the file in a volume's directory.
pub const NAME: &str = "ballast";

/// How long after a try to make it the next one comes: a disk that refuses it though there seems to be room,
/// as under a quota, does not have it made and given up again and again.
const AGAIN_US: u64 = 10_000_000;
/// Bytes of a step.
const MEASURED_STEP: usize = 1 << 20;

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

    /// Measures how many bytes per second the device takes, durably where `syncs`, and gives: the fewer of
    /// the two. `None` where the ballast is not there, the disk fails, or the clock stands still.
    pub(crate) fn measure(&self, syncs: bool, now_us: &dyn Fn() -> u64) -> Option<u64> {
        let _resized = self.resized.lock();
        // A failure, that of a sync too, loses bytes that nothing reads.
        self.try_measure(syncs, now_us).ok().flatten()
    }

    fn try_measure(&self, syncs: bool, now_us: &dyn Fn() -> u64) -> io::Result<Option<u64>> {
        let file = self.disk.open(&self.path, OpenMode::Write)?;
        let bytes = self.bytes.min(MEASURED_BYTES_MAX);
        if bytes < MEASURED_STEP as u64 || file.length()? < self.bytes {
            return Ok(None);
        }
        let mut memory: Vec<u8> = (0..MEASURED_STEP + DIRECT_ALIGN).map(incompressible).collect();
        let start = memory.as_ptr().align_offset(DIRECT_ALIGN);
        let step = &mut memory[start..start + MEASURED_STEP];
        let (begun_us, mut end) = (now_us(), 0);
        let mut direct = self.disk.open(&self.path, OpenMode::WriteDirect).ok();
        while is_due(end, bytes, begun_us, now_us()) {
            write_past_cache(&mut direct, &*file, &[IoSlice::new(step)], end)?;
            end += MEASURED_STEP as u64;
        }
        if syncs {
            file.sync_data()?;
        }
        let written = pace(end, begun_us, now_us());
        let direct = self.disk.open(&self.path, OpenMode::ReadDirect).ok();
        let (begun_us, written_end) = (now_us(), std::mem::take(&mut end));
        while is_due(end, written_end, begun_us, now_us()) {
            read_from_device(direct.as_deref(), &*file, step, end)?;
            end += MEASURED_STEP as u64;
        }
        Ok(written.min(pace(end, begun_us, now_us())))
    }
}

/// Whether another step is measured.
const fn is_due(end: u64, bytes: u64, begun_us: u64, now_us: u64) -> bool {
    end + MEASURED_STEP as u64 <= bytes && now_us.saturating_sub(begun_us) < MEASURED_US_MAX
}

/// Bytes per second.
fn pace(bytes: u64, begun_us: u64, now_us: u64) -> Option<u64> {
    (bytes * 1_000_000).checked_div(now_us.saturating_sub(begun_us))
}

/// Bytes that a filesystem does not make shorter.
const fn incompressible(place: usize) -> u8 {
    (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[3]
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::disk::faulty::FaultyDisk;

    const BYTES: u64 = 16 << 20;

    fn ballast(bytes: u64) -> Ballast {
        let disk = FaultyDisk::new(1);
        disk.create_dir(Path::new("/v")).expect("an empty disk");
        let ballast = Ballast::new(Arc::new(disk), Path::new("/v"), bytes);
        ballast.make(0);
        ballast
    }

    /// A clock that is so much later at each look.
    fn measured(ballast: &Ballast, step_us: u64) -> Option<u64> {
        let now = AtomicU64::new(0);
        ballast.measure(true, &|| now.fetch_add(step_us, Ordering::Relaxed))
    }

    #[test]
    fn a_device_is_measured_within_bounds_of_bytes_and_of_time() {
        let ballast = ballast(BYTES);
        // Eight steps, eleven looks at the clock with those at the beginning and the end.
        assert_eq!(measured(&ballast, 1_000), Some((8 << 20) * 1_000_000 / 10_000));
        // A step begins at 20 and at 40 ms, and none at 60.
        assert_eq!(measured(&ballast, 20_000), Some((2 << 20) * 1_000_000 / 80_000));
        assert_eq!(measured(&ballast, 0), None, "the clock stands still");
    }

    #[test]
    fn without_a_ballast_nothing_is_measured_and_a_measured_one_is_given_up_whole() {
        let ballast = ballast(BYTES);
        assert!(measured(&ballast, 1_000).is_some());
        assert!(ballast.give_up());
        assert_eq!(measured(&ballast, 1_000), None);
        assert_eq!(measured(&self::ballast(0), 1_000), None);
    }
}
