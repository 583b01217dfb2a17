//! The durable steps outside the frames: how segments come and go, in which order, and what a crash
//! between two calls leaves behind.
//!
//! Files in `log/`: `N.seg` holds records, `K.spare` is ready to become a segment, `K.making` is
//! half of a spare. Nothing here ever leaves a name that opening cannot tell apart.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, OpenMode, write_past_cache};
use crate::format::SegmentHeader;
use crate::log::{Segment, segment_path};

/// What a spare is filled with, so many bytes at a time.
static ZEROS: Zeros = Zeros([0; 1 << 18]);

/// Zeros that can be written past the page cache.
#[repr(align(4096))]
struct Zeros([u8; 1 << 18]);

/// Files that are ready to become segments: written once, so that a sync of what is written into
/// them writes no file metadata, and so that a full disk still has room for deletes and repairs.
#[derive(Debug)]
pub struct Spares {
    disk: Arc<dyn Disk>,
    log: PathBuf,
    segment_bytes: u64,
    wanted: usize,
    ready: Mutex<Vec<PathBuf>>,
    next: AtomicU64,
}

impl Spares {
    /// Takes over what a directory listing found: spares are used, halves are removed.
    ///
    /// # Errors
    /// When a half cannot be removed.
    pub fn adopt(
        disk: Arc<dyn Disk>,
        log: &Path,
        names: &[String],
        segment_bytes: u64,
        wanted: usize,
    ) -> io::Result<Self> {
        let mut ready = Vec::new();
        let mut next = 0;
        for name in names {
            let Some((number, kind)) = name.split_once('.') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            if kind == "spare" {
                let file = disk.open(&log.join(name), OpenMode::Read)?;
                if file.length()? == segment_bytes {
                    ready.push(log.join(name));
                } else {
                    disk.remove(&log.join(name))?;
                }
                next = next.max(number.saturating_add(1));
            } else if kind == "making" {
                disk.remove(&log.join(name))?;
            }
        }
        Ok(Self {
            disk,
            log: log.to_owned(),
            segment_bytes,
            wanted,
            ready: Mutex::new(ready),
            next: AtomicU64::new(next),
        })
    }

    /// How many are ready.
    pub fn count(&self) -> usize {
        self.ready.lock().len()
    }

    /// How many more are wanted.
    pub fn missing(&self) -> usize {
        self.wanted.saturating_sub(self.count())
    }

    /// Whether more are wanted.
    pub fn is_short(&self) -> bool {
        self.missing() > 0
    }

    /// Makes one spare. Takes its time: one segment is written.
    ///
    /// # Errors
    /// When the disk is full or fails; no spare is left behind then.
    pub fn make_one(&self) -> io::Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let making = self.log.join(format!("{number:020}.making"));
        let filled = self.fill(&making);
        if let Err(error) = filled {
            // The first error is the one to report; a half that stays is removed at the next open.
            let _ = self.disk.remove(&making);
            return Err(error);
        }
        let spare = self.log.join(format!("{number:020}.spare"));
        self.disk.rename(&making, &spare)?;
        self.ready.lock().push(spare);
        Ok(())
    }

    fn fill(&self, path: &Path) -> io::Result<()> {
        let file = self.disk.open(path, OpenMode::CreateNew)?;
        file.allocate(self.segment_bytes)?;
        // Past the page cache: nobody reads these zeros, and copying them cost more than the records
        // that replace them (docs/performance.md).
        let mut direct = self.disk.open(path, OpenMode::WriteDirect).ok();
        let mut offset = 0;
        while offset < self.segment_bytes {
            let now = (self.segment_bytes - offset).min(ZEROS.0.len() as u64);
            let slice = ZEROS.0.get(..usize::try_from(now).unwrap_or(0)).unwrap_or(&[]);
            write_past_cache(&mut direct, &*file, &[IoSlice::new(slice)], offset)?;
            offset += now;
        }
        file.sync_data()
    }

    /// Makes a sealed segment's file a spare, or removes it when it is pinned by a reader or no
    /// spare is wanted. On return no crash brings the segment back.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn retire(&self, segment: Arc<Segment>) -> io::Result<()> {
        let path = segment.path.clone();
        let pinned = Arc::try_unwrap(segment).is_err();
        if pinned || !self.is_short() {
            self.disk.remove(&path)?;
        } else {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let spare = self.log.join(format!("{number:020}.spare"));
            self.disk.rename(&path, &spare)?;
            self.ready.lock().push(spare);
        }
        // Crash before this: the segment is back, with nothing in it that is needed. Its old copies
        // must not outlive the deletes that kill them, so it counts as kept until here.
        self.disk.sync_dir(&self.log)
    }

    /// Begins a segment: its header is durable under its name on return, and nothing else.
    ///
    /// # Errors
    /// `StorageFull` when there is neither a spare nor space; then nothing has changed. Any other
    /// error fails the volume.
    pub fn begin(&self, header: &SegmentHeader, sync: bool) -> io::Result<(Arc<dyn DiskFile>, PathBuf)> {
        let path = segment_path(&self.log, header.number);
        let spare = self.ready.lock().pop();
        let file = match &spare {
            Some(spare) => self.disk.open(spare, OpenMode::Write)?,
            None => self.create(&path)?,
        };
        // Crash from here on: a segment without a frame, or a spare with a header. Opening discards
        // the one and never looks into the other.
        file.write_at(&[IoSlice::new(&header.encode())], 0)?;
        // A frame under a header that was lost with the power would pass for rot of the header.
        if sync {
            file.sync_data()?;
        }
        if let Some(spare) = &spare {
            self.disk.rename(spare, &path)?;
        }
        if sync {
            self.disk.sync_dir(&self.log)?;
        }
        Ok((file, path))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path, OpenMode::CreateNew)?;
        match file.allocate(self.segment_bytes) {
            Ok(()) => Ok(file),
            Err(error) => {
                self.disk.remove(path)?;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::faulty::FaultyDisk;

    #[test]
    fn a_spare_is_made_however_the_filesystem_aligns() {
        for align in [4096, 1 << 20] {
            let disk = FaultyDisk::new(1);
            disk.set_direct_align(align);
            let log = Path::new("/log");
            disk.create_dir(log).unwrap();
            let bytes = 1 << 19;
            let spares = Spares::adopt(Arc::new(disk.clone()), log, &[], bytes, 1).unwrap();
            spares.make_one().unwrap();
            assert_eq!((spares.count(), spares.missing()), (1, 0));
            let [entry] = &disk.list(log).unwrap()[..] else { panic!("one file") };
            let file = disk.open(&log.join(&entry.name), OpenMode::Read).unwrap();
            let mut read = vec![1; usize::try_from(bytes).unwrap()];
            assert_eq!(file.read_at(&mut read, 0).unwrap(), read.len());
            assert!(read.iter().all(|byte| *byte == 0));
        }
    }
}
