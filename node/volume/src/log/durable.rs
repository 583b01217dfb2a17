//! The durable steps outside the frames: how segments come and go, in which order, and what a crash
//! between two calls leaves behind.
//!
//! Files in `log/`: `N.seg` holds records, `K.spare` is ready to become a segment, `K.making` is
//! half of a spare or of a segment. Nothing here ever leaves a name that opening cannot tell apart, and
//! nothing that is refused half way leaves one that is in the way of the next try.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, OpenMode, write_past_cache};
use crate::error::{FaultClass, SyncFailure};
use crate::format::SegmentHeader;
use crate::limits::SEGMENT_NUMBER_MAX;
use crate::log::{Segment, segment_path};

/// Bytes that a spare is filled with, one write at a time.
static ZEROS: Zeros = Zeros([0; 1 << 18]);

/// Zeros that can be written past the page cache.
#[repr(align(4096))]
struct Zeros([u8; 1 << 18]);

/// Where the file of a segment went that is not needed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetiredFile {
    /// The file is removed.
    Removed,
    /// The file was renamed to this path.
    Spare(PathBuf),
}

/// Files that are ready to become segments: written once, so that a sync of what is written into
/// them writes no file metadata, and so that a full disk still has room for deletes and repairs.
#[derive(Debug)]
pub struct SpareSegments {
    disk: Arc<dyn Disk>,
    log: PathBuf,
    segment_bytes: u64,
    wanted: usize,
    ready: Mutex<Vec<PathBuf>>,
    next: AtomicU64,
}

/// The number of a spare, or of a half that becomes one, and whether it is ready.
fn parse_own_name(name: &str) -> Option<(u64, bool)> {
    let (number, kind) = name.split_once('.')?;
    let is_ready = match kind {
        "spare" => true,
        "making" => false,
        _ => return None,
    };
    Some((number.parse().ok()?, is_ready))
}

impl SpareSegments {
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
            let Some((number, is_ready)) = parse_own_name(name) else { continue };
            if is_ready {
                let file = disk.open(&log.join(name), OpenMode::Read)?;
                if file.length()? == segment_bytes {
                    ready.push(log.join(name));
                } else {
                    disk.remove(&log.join(name))?;
                }
                // A file with a higher number is as good a spare, but not a number to count on from.
                if number <= SEGMENT_NUMBER_MAX {
                    next = next.max(number + 1);
                }
            } else {
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

    /// Whether a file in the log's directory is a spare or a half by its name.
    pub fn is_own_name(name: &str) -> bool {
        parse_own_name(name).is_some()
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
        let number = self.next_number();
        let making = self.making_path(number);
        let filled = self.fill(&making);
        if let Err(error) = filled {
            // The first error is the one to report; a half that stays is removed at the next open.
            let _ = self.disk.remove(&making);
            return Err(error);
        }
        let spare = self.spare_path(number);
        if let Err(error) = self.disk.rename(&making, &spare) {
            let _ = self.disk.remove(&making);
            return Err(error);
        }
        self.ready.lock().push(spare);
        Ok(())
    }

    fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn spare_path(&self, number: u64) -> PathBuf {
        self.log.join(format!("{number:020}.spare"))
    }

    fn making_path(&self, number: u64) -> PathBuf {
        self.log.join(format!("{number:020}.making"))
    }

    fn fill(&self, path: &Path) -> io::Result<()> {
        let file = self.disk.open(path, OpenMode::CreateNew)?;
        file.allocate(self.segment_bytes)?;
        // Past the page cache: these zeros are not read, and copying them cost more than the records that
        // replace them (docs/performance.md).
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

    /// Makes the file of a segment that is not referenced any more a spare, or removes it when a reader still
    /// holds it, no spare is wanted, or it was cut. Not durable before [`SpareSegments::settle`].
    ///
    /// # Errors
    /// When the disk refuses; then nothing has changed.
    pub fn put_away(&self, segment: &mut Arc<Segment>) -> io::Result<RetiredFile> {
        let is_read = Arc::get_mut(segment).is_none();
        let is_whole = !is_read && self.is_short() && segment.file()?.length()? == self.segment_bytes;
        if is_whole {
            let spare = self.spare_path(self.next_number());
            self.disk.rename(&segment.path, &spare)?;
            return Ok(RetiredFile::Spare(spare));
        }
        match self.disk.remove(&segment.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(RetiredFile::Removed),
        }
    }

    /// Makes it durable that a segment was put away: on return no crash brings it back.
    ///
    /// # Errors
    /// When the disk refuses or fails.
    pub fn settle(&self, put_away: &RetiredFile) -> io::Result<()> {
        // Crash before this: the segment is back, with nothing in it that is needed. Its old copies
        // must not outlive the deletes that kill them, so it counts as kept until here.
        self.disk.sync_dir(&self.log)?;
        // Used again before this, a crash would bring it back with another one's header.
        if let RetiredFile::Spare(spare) = put_away {
            self.ready.lock().push(spare.clone());
        }
        Ok(())
    }

    /// Begins a segment: its header is durable under its name on return, and nothing else.
    ///
    /// # Errors
    /// When the disk refuses: nothing has changed then, and the next try may begin it. When a sync failed.
    pub fn begin(&self, header: &SegmentHeader, sync: bool) -> io::Result<(Arc<dyn DiskFile>, PathBuf)> {
        let path = segment_path(&self.log, header.number);
        let (half, file) = self.take()?;
        match self.name(&half, &*file, &path, header, sync) {
            Ok(()) => Ok((file, path)),
            Err(error) => {
                // Where room is short, the room of a spare with half a header is worth more. A file that
                // cannot be removed is a segment without a frame, or a half: opening removes it, and the next
                // try takes the name over.
                for left in [&half, &path] {
                    let _ = self.disk.remove(left);
                }
                Err(error)
            }
        }
    }

    /// A file to begin a segment in, under a name that opening looks into never.
    fn take(&self) -> io::Result<(PathBuf, Arc<dyn DiskFile>)> {
        let spare = self.ready.lock().pop();
        if let Some(spare) = spare {
            let opened = self.disk.open(&spare, OpenMode::Write);
            if opened.as_ref().is_err_and(|error| FaultClass::of(error) != FaultClass::Fatal) {
                self.ready.lock().push(spare.clone());
            }
            return opened.map(|file| (spare, file));
        }
        let making = self.making_path(self.next_number());
        let file = self.disk.open(&making, OpenMode::CreateNew)?;
        match file.allocate(self.segment_bytes) {
            Ok(()) => Ok((making, file)),
            Err(error) => {
                let _ = self.disk.remove(&making);
                Err(error)
            }
        }
    }

    fn name(
        &self,
        half: &Path,
        file: &dyn DiskFile,
        path: &Path,
        header: &SegmentHeader,
        sync: bool,
    ) -> io::Result<()> {
        // Crash from here on: a half, a spare with a header, or a segment without a frame. Opening
        // removes the first, never looks into the second, and discards the third.
        file.write_at(&[IoSlice::new(&header.encode())], 0)?;
        // A frame under a header that was lost with the power would pass for rot of the header.
        if sync {
            file.sync_data().map_err(SyncFailure::of_a_new_file)?;
        }
        self.disk.rename(half, path)?;
        if sync {
            self.disk.sync_dir(&self.log)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::disk::faulty::FaultyDisk;

    #[test]
    fn a_spare_takes_the_name_of_no_other_one_beside_any_numbers() {
        let disk = FaultyDisk::new(1);
        let log = Path::new("/log");
        disk.create_dir(log).unwrap();
        let bytes = 1 << 19;
        let names = [0, u64::MAX].map(|number| format!("{number:020}.spare"));
        for name in &names {
            disk.open(&log.join(name), OpenMode::CreateNew).unwrap().allocate(bytes).unwrap();
        }
        let spares = SpareSegments::adopt(Arc::new(disk.clone()), log, &names, bytes, 4).unwrap();
        spares.make_one().unwrap();
        spares.make_one().unwrap();
        assert_eq!(spares.ready.lock().iter().collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(disk.list(log).unwrap().len(), 4);
    }

    #[test]
    fn a_spare_is_made_however_the_filesystem_aligns() {
        for align in [4096, 1 << 20] {
            let disk = FaultyDisk::new(1);
            disk.set_direct_align(align);
            let log = Path::new("/log");
            disk.create_dir(log).unwrap();
            let bytes = 1 << 19;
            let spares = SpareSegments::adopt(Arc::new(disk.clone()), log, &[], bytes, 1).unwrap();
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
