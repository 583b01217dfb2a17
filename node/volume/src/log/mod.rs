//! The log: segments of frames of records, written at one end and read everywhere.
//!
//! State that compaction must never lose (bound, floors, epochs, seals, peers, open MRF entries, the list of
//! kept segments) is stored as keyed records like rows and shards: the newest of a key is living, and is
//! moved like any other before its segment goes, however many there are. A segment's header repeats bound and
//! floors. A segment is sealed by the header of the next one, which names its end, and by a `segment` record
//! in the next one's first frame, which says that it must be there.
//!
//! One thread appends (`append`), every thread reads (`read`), open replays (`replay`), and `compact` copies
//! the living out of old segments. Guards that a reader never loses the file it reads: a reader holds the
//! segment's `Arc`, and a segment's file is used again only when no reader holds it. Few of the files are
//! open at one time, however many segments there are.

pub mod append;
pub(crate) mod durable;
pub mod read;
pub mod replay;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use sherd_core::id::{Sequence, VolumeId};
use sherd_core::limits;

use crate::disk::FileKeeper;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::format::{SEGMENT_HEADER_BYTES, Seed};
use crate::limits::SEGMENT_NUMBER_MAX;
use crate::sync::{Mutex, RwLock};

/// The files of segments that are open, the least recently used go first.
#[derive(Debug)]
pub struct SegmentFiles {
    disk: Arc<dyn Disk>,
    open: Mutex<OpenFiles>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    files: HashMap<u64, (Arc<dyn DiskFile>, u64)>,
    uses: u64,
    /// Grows when a segment is let go: what was opened before is not kept.
    changes: u64,
}

impl SegmentFiles {
    /// Opens files on a disk.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, open: Mutex::default() }
    }

    fn get(&self, number: u64, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let changes = {
            let mut open = self.open.lock();
            if let Some(file) = open.used(number) {
                return Ok(file);
            }
            open.changes
        };
        let file = self.disk.open(path, OpenMode::Read)?;
        let mut open = self.open.lock();
        // A segment that was removed meanwhile would keep its space for as long as its file is open.
        if open.changes == changes {
            open.keep(number, &file);
        }
        drop(open);
        Ok(file)
    }

    fn get_open(&self, number: u64) -> Option<Arc<dyn DiskFile>> {
        self.open.lock().used(number)
    }

    pub(crate) fn forget(&self, number: u64) {
        let mut open = self.open.lock();
        open.changes += 1;
        open.files.remove(&number);
    }
}

impl FileKeeper for SegmentFiles {
    fn close_all(&self) -> bool {
        let closed = std::mem::take(&mut self.open.lock().files);
        !closed.is_empty()
    }
}

impl OpenFiles {
    fn used(&mut self, number: u64) -> Option<Arc<dyn DiskFile>> {
        self.uses += 1;
        let (file, used) = self.files.get_mut(&number)?;
        *used = self.uses;
        Some(Arc::clone(file))
    }

    fn keep(&mut self, number: u64, file: &Arc<dyn DiskFile>) {
        self.uses += 1;
        self.files.insert(number, (Arc::clone(file), self.uses));
        while self.files.len() > limits::SEGMENT_FILES_MAX {
            let oldest = self.files.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(number, _)| *number) else { return };
            self.files.remove(&oldest);
        }
    }
}

/// One segment.
#[derive(Debug)]
pub struct Segment {
    /// Number of the segment.
    pub number: u64,
    /// The sequence of its first record.
    pub first: Sequence,
    /// Start value of its checksums.
    pub seed: Seed,
    /// Path of the file.
    pub path: PathBuf,
    files: Arc<SegmentFiles>,
}

/// Bytes behind the last frame at which a writer that syncs ends a file that it makes shorter than a segment,
/// with any content: no file of its own ends where a frame ends, so that one that does was cut. A byte cannot
/// be a part of a frame that is used, and takes no room.
pub const SHORT_END_BYTES: u64 = 1;

/// The offset of a segment's first frame.
pub const FIRST_FRAME: u64 = SEGMENT_HEADER_BYTES as u64;

impl Segment {
    /// Names a segment of a volume.
    pub fn new(
        volume: VolumeId,
        number: u64,
        first: Sequence,
        path: PathBuf,
        files: Arc<SegmentFiles>,
    ) -> Self {
        Self { number, first, seed: Seed::of(volume, number), path, files }
    }

    /// Opens the file for reading. The segment is held while a reader has it.
    ///
    /// # Errors
    /// As the system says; `NotFound` also when the segment was let go.
    pub fn file(&self) -> io::Result<Arc<dyn DiskFile>> {
        self.files.get(self.number, &self.path)
    }

    /// The same file past the page cache, opened for each call: verification is in no hurry. None if the
    /// filesystem does not support it.
    pub(crate) fn device(&self) -> Option<Arc<dyn DiskFile>> {
        self.files.disk.open(&self.path, OpenMode::ReadDirect).ok()
    }

    /// The file for reading, if it is open: opening it may wait for the disk.
    pub fn open_file(&self) -> Option<Arc<dyn DiskFile>> {
        self.files.get_open(self.number)
    }
}

/// The segments that hold records, by number.
#[derive(Debug)]
pub struct Segments {
    map: RwLock<BTreeMap<u64, Arc<Segment>>>,
    files: Arc<SegmentFiles>,
}

impl Segments {
    /// Has none yet.
    pub fn new(disk: &Arc<dyn Disk>) -> Self {
        let files = Arc::new(SegmentFiles::new(Arc::clone(disk)));
        let keeper: Weak<dyn FileKeeper> = Arc::<SegmentFiles>::downgrade(&files);
        disk.note_keeper(keeper);
        Self { map: RwLock::default(), files }
    }

    /// Open files of all segments.
    pub const fn files(&self) -> &Arc<SegmentFiles> {
        &self.files
    }

    /// Looks a segment up.
    pub fn get(&self, number: u64) -> Option<Arc<Segment>> {
        self.map.read().get(&number).map(Arc::clone)
    }

    /// Adds a segment.
    pub fn insert(&self, segment: Arc<Segment>) {
        self.map.write().insert(segment.number, segment);
    }

    /// Takes a segment out: no new reader finds it.
    pub fn remove(&self, number: u64) -> Option<Arc<Segment>> {
        let segment = self.map.write().remove(&number);
        self.files.forget(number);
        segment
    }

    /// All segments, oldest first.
    pub fn all(&self) -> Vec<Arc<Segment>> {
        self.map.read().values().map(Arc::clone).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.map.read().len()
    }

    /// Whether the log has no segment.
    pub fn is_empty(&self) -> bool {
        self.map.read().is_empty()
    }
}

/// The name of a log's directory.
pub const NAME: &str = "log";

/// The directory of the log of a volume.
pub fn directory(volume: &Path) -> PathBuf {
    volume.join(NAME)
}

/// The path of a segment. Twenty digits hold every `u64`, so names sort as numbers do.
pub fn segment_path(log: &Path, number: u64) -> PathBuf {
    log.join(format!("{number:020}.seg"))
}

/// Whether a file is named as segments are, of any number.
pub fn is_segment_name(name: &str) -> bool {
    let digits = name.strip_suffix(".seg").filter(|digits| digits.len() == 20);
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The number of the segment with this file name.
pub fn parse_segment_name(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".seg").filter(|_| is_segment_name(name))?.parse().ok();
    number.filter(|number| *number <= SEGMENT_NUMBER_MAX)
}

#[cfg(test)]
mod tests;
