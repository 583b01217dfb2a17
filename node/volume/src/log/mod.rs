//! The log: segments of frames of records, written at one end and read everywhere.
//!
//! What must never be lost to compaction (bound, floors, epochs, seals, peers, open MRF entries, the
//! list of kept segments) are keyed records like rows and shards: the newest of a key is living, and
//! is moved like any other before its segment goes, however many there are. A segment's header
//! repeats bound and floors. A segment is sealed by the header of the next one, which names its end,
//! and by a `segment` record in the next one's first frame, which says that it must be there.
//!
//! One thread appends (`append`), every thread reads (`read`), open replays (`replay`), and
//! `compact` copies the living out of old segments. Guards that a reader never loses the file under
//! its hands: who reads holds the segment's `Arc`, and a segment's file is used again only when
//! nobody does.

pub mod append;
pub mod compact;
pub mod read;
pub mod replay;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use sherd_core::id::{Sequence, VolumeId};

use crate::disk::DiskFile;
use crate::format::{SEGMENT_HEADER_BYTES, Seed};

/// One segment, open.
#[derive(Debug)]
pub struct Segment {
    /// Its number.
    pub number: u64,
    /// The sequence of its first record.
    pub first: Sequence,
    /// What its checksums start from.
    pub seed: Seed,
    /// Its file.
    pub file: Arc<dyn DiskFile>,
    /// The file's path.
    pub path: PathBuf,
}

/// The offset of a segment's first frame.
pub const FIRST_FRAME: u64 = SEGMENT_HEADER_BYTES as u64;

impl Segment {
    /// Names a segment of a volume.
    pub fn new(
        volume: VolumeId,
        number: u64,
        first: Sequence,
        file: Arc<dyn DiskFile>,
        path: PathBuf,
    ) -> Self {
        Self { number, first, seed: Seed::of(volume, number), file, path }
    }
}

/// The segments that hold records, by number.
#[derive(Debug, Default)]
pub struct Segments {
    map: RwLock<BTreeMap<u64, Arc<Segment>>>,
}

impl Segments {
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
        self.map.write().remove(&number)
    }

    /// All segments, oldest first.
    pub fn all(&self) -> Vec<Arc<Segment>> {
        self.map.read().values().map(Arc::clone).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.map.read().len()
    }

    /// Whether there are none.
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

/// The number of the segment with this file name.
pub fn parse_segment_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    if digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}
