//! The visible state: the index, and over it the batches that are durable in the log and not applied yet.
//!
//! The volume's thread publishes a batch after its sync; readers on any thread look into the overlay
//! first and into the index then. An entry leaves the overlay only after the index has it, so
//! nothing visible is ever missed. Many batches are folded into the index at once: a row that is
//! accepted, hinted and settled within that time is one write of the index, or none.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;

use sherd_core::env::Clock;
use sherd_core::id::{Ballot, RegisterKey, Sequence};
use sherd_core::register::{Answerer, RowHead};

use crate::buffer::BufferPool;
use crate::disk::Disk;
use crate::disk::ballast::Ballast;
use crate::error::{Error, FaultClass};
use crate::histogram::Histogram;
use crate::identity::LostRange;
use crate::identity::failure::{FailureLatch, FailureSpan};
use crate::index::table::{Body, Entry, Origin, RowBody};
use crate::index::{Change, Index, IndexError};
use crate::log::Segments;
use crate::log::durable::SpareSegments;
use crate::lookup::{Lookup, Source};
use crate::options::Options;
use crate::read::recent::Recent;
use crate::state::SmallState;
use crate::state::apply::{BatchBase, Changes, decode_entry};
use crate::state::promises::Promises;
use crate::sync::{Mutex, RwLock};

#[derive(Debug)]
pub(crate) struct View {
    pub(crate) overlay: BTreeMap<Bytes, Option<Bytes>>,
    /// Grows with every batch.
    pub(crate) version: u64,
    pub(crate) small: SmallState,
    pub(crate) durable: Sequence,
}

/// Bounds of how long a sync takes, in microseconds: NVMe with a capacitor syncs in 20, a disk in
/// 10,000; a second is a sick device.
const SYNC_US: [u64; 15] = [
    20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 1_000_000,
    5_000_000,
];
/// Bounds of how many records a frame has.
const FRAME_RECORDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) queue_len: AtomicUsize,
    pub(crate) live_bytes: AtomicU64,
    pub(crate) missed_rows: AtomicU64,
    pub(crate) unlisted_rows: AtomicU64,
    pub(crate) wants_logged: AtomicU64,
    horizon: AtomicU64,
    pub(crate) free_bytes: AtomicU64,
    pub(crate) total_bytes: AtomicU64,
    pub(crate) sync_us: Histogram,
    pub(crate) sync_us_max: AtomicU64,
    pub(crate) frame_records: Histogram,
    pub(crate) frame_bytes: AtomicU64,
    pub(crate) corrupt_reads: AtomicU64,
    pub(crate) pending_since_us: AtomicU64,
    /// As it was behind the last flush or merge: to ask the index may mean to wait for the disk.
    pub(crate) index_unmerged: AtomicUsize,
    /// Until when the volume counts as full, even if the filesystem shows space: it refused a write.
    pub(crate) full_until_us: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            queue_len: AtomicUsize::new(0),
            live_bytes: AtomicU64::new(0),
            missed_rows: AtomicU64::new(0),
            unlisted_rows: AtomicU64::new(0),
            wants_logged: AtomicU64::new(0),
            horizon: AtomicU64::new(0),
            free_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            sync_us: Histogram::new(&SYNC_US),
            sync_us_max: AtomicU64::new(0),
            frame_records: Histogram::new(&FRAME_RECORDS),
            frame_bytes: AtomicU64::new(0),
            corrupt_reads: AtomicU64::new(0),
            pending_since_us: AtomicU64::new(0),
            index_unmerged: AtomicUsize::new(0),
            full_until_us: AtomicU64::new(0),
        }
    }
}

impl Counters {
    /// Shows the horizon of the list, before the rows that raised it are seen without a place there.
    pub(crate) fn show_horizon(&self, horizon: Sequence) {
        self.horizon.store(horizon.0, Ordering::Release);
    }

    pub(crate) fn horizon(&self) -> Sequence {
        Sequence(self.horizon.load(Ordering::Acquire))
    }

    /// Counts a frame that was written, and how long its sync took where it was synced.
    pub(crate) fn written(&self, sync_us: Option<u64>, records: usize, bytes: usize) {
        if let Some(sync_us) = sync_us {
            self.sync_us.count(sync_us);
            self.sync_us_max.fetch_max(sync_us, Ordering::Relaxed);
        }
        self.frame_records.count(records as u64);
        self.frame_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Shared by the volume's thread and its readers.
#[derive(Debug)]
pub(crate) struct VolumeShared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) path: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) index: Arc<dyn Index>,
    pub(crate) recent: Recent,
    pub(crate) segments: Arc<Segments>,
    /// Ranges missing in the log that already cost a life: empty, except after a loss.
    pub(crate) noted_losses: Vec<LostRange>,
    pub(crate) spares: Arc<SpareSegments>,
    pub(crate) ballast: Arc<Ballast>,
    pub(crate) buffers: BufferPool,
    pub(crate) view: RwLock<View>,
    pub(crate) promises: Mutex<Promises>,
    pub(crate) counters: Counters,
    pub(crate) failure: Arc<FailureLatch>,
    /// Upkeep ends after what it is at.
    pub(crate) is_closing: AtomicBool,
}

/// A row as it is known without reading the log.
#[derive(Debug, Clone)]
pub(crate) struct StoredRow {
    pub(crate) origin: Origin,
    pub(crate) row: RowBody,
}

impl StoredRow {
    pub(crate) const fn head(&self) -> RowHead {
        self.row.head
    }
}

impl BatchBase for VolumeShared {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        let version = {
            let view = self.view.read();
            if let Some(changed) = view.overlay.get(key) {
                return Ok(changed.clone());
            }
            view.version
        };
        if let Some(entry) = self.recent.get(key) {
            return Ok(Some(entry));
        }
        let found = self.index.get(key)?;
        if let Some(entry) = &found {
            // While the view is held nothing newer becomes visible, and nothing newer did.
            let view = self.view.read();
            if view.version == version {
                self.recent.insert(key, entry);
            }
        }
        Ok(found)
    }
}

impl VolumeShared {
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.failure.check()
    }

    /// Meaning of the index's refusal: one that is damaged ends this run, and the next open rebuilds it from
    /// the log.
    pub(crate) fn index_failed(&self, error: &IndexError) -> Error {
        match error {
            IndexError::Full | IndexError::Unavailable { class: FaultClass::Full, .. } => Error::Full,
            // The same look may succeed later, and nothing was changed by this one.
            IndexError::Unavailable { class: FaultClass::Busy, .. } => Error::Busy,
            IndexError::Unavailable { class: FaultClass::Fatal, .. }
            | IndexError::Damaged { .. }
            | IndexError::Misused { .. } => self.failure.fail(FailureSpan::Run, &error.to_string()),
        }
    }

    pub(crate) fn entry(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let found = self.get(key).and_then(|bytes| bytes.map(|bytes| decode_entry(key, bytes)).transpose());
        found.map_err(|error| self.index_failed(&error))
    }

    /// The entry under a key, if memory has it or the disk may be asked.
    pub(crate) fn entry_from(&self, key: &[u8], source: Source) -> Result<Lookup<Option<Entry>>, Error> {
        if source != Source::Cache {
            return self.entry(key).map(Lookup::Immediate);
        }
        let overlaid = self.view.read().overlay.get(key).cloned();
        let found = match overlaid.or_else(|| self.recent.get(key).map(Some)) {
            Some(found) => found,
            None => match self.index.get_cached(key).map_err(|error| self.index_failed(&error))? {
                Lookup::Immediate(found) => found,
                Lookup::Pending => return Ok(Lookup::Pending),
            },
        };
        let decoded = found.map(|bytes| decode_entry(key, bytes)).transpose();
        decoded.map(Lookup::Immediate).map_err(|error| self.index_failed(&error))
    }

    pub(crate) fn stored(&self, key: &[u8], source: Source) -> Result<Lookup<Option<StoredRow>>, Error> {
        let rows_after = self.view.read().small.rows_after();
        let found = self.entry_from(key, source)?;
        Ok(found.map(|entry| entry.and_then(|entry| as_stored(entry, rows_after))))
    }

    /// The volume as answerer, by the published state.
    pub(crate) fn answerer(&self) -> Answerer {
        let view = self.view.read();
        view.small.answerer(view.durable)
    }

    /// Makes a batch visible. The changes were taken by the writer's own copy of the state before.
    pub(crate) fn publish(&self, changes: &mut Changes, highest: Ballot, durable: Sequence) {
        let mut view = self.view.write();
        for (key, value) in changes.drain() {
            if view.small.change(&key, value.as_ref()).is_err() {
                debug_assert!(false, "the writer's copy took the same change");
            }
            view.overlay.insert(key, value);
        }
        view.small.highest = highest;
        view.small.settle();
        view.durable = durable;
        view.version += 1;
    }

    /// Applies the overlay and what it changed beside the entries to the index, as of the durable
    /// sequence, and empties the overlay. Only the volume's thread does this, so nothing is published
    /// meanwhile.
    pub(crate) fn fold(&self, derived: Vec<Change>, durable: Sequence) -> Result<(), IndexError> {
        let changes: Vec<_> =
            self.view.read().overlay.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut applied = derived;
        applied.reserve_exact(changes.len());
        for (key, value) in &changes {
            match value {
                Some(value) => applied.push(Change::Put { key: key.clone(), value: value.clone() }),
                // An entry that came and went between two folds never was in the index. If the index cannot
                // answer, the entry is removed once more, which is harmless.
                None if matches!(self.index.get(key), Ok(None)) => {}
                None => applied.push(Change::Remove { key: key.clone() }),
            }
        }
        self.index.apply(applied, durable)?;
        for (key, value) in &changes {
            self.recent.renew(key, value.as_ref());
        }
        let folded = std::mem::take(&mut self.view.write().overlay);
        drop(folded);
        Ok(())
    }

    pub(crate) fn corrupt(&self, what: String) -> Error {
        self.counters.corrupt_reads.fetch_add(1, Ordering::Relaxed);
        Error::Corrupt { what }
    }

    /// Keeps the figure of files that are not merged. May wait for the disk.
    pub(crate) fn count_unmerged(&self) {
        self.counters.index_unmerged.store(self.index.unmerged(), Ordering::Relaxed);
    }

    pub(crate) fn measure_space(&self) -> std::io::Result<()> {
        let space = self.disk.space(&self.path)?;
        self.counters.free_bytes.store(space.free, Ordering::Relaxed);
        self.counters.total_bytes.store(space.total, Ordering::Relaxed);
        Ok(())
    }

    /// Whether new data is refused: what is free must cover the reserve, and the spare segments that
    /// deletes and repairs live on when it does not. Where a write was just refused, what is said to be free
    /// is not.
    pub(crate) fn is_full(&self) -> bool {
        if self.clock.monotonic_us() < self.counters.full_until_us.load(Ordering::Relaxed) {
            return true;
        }
        let missing = self.spares.missing() as u64;
        let needed = self.options.reserve_bytes + missing * self.options.segment_bytes;
        self.counters.free_bytes.load(Ordering::Relaxed) < needed
    }
}

/// The row of an entry, unless it is of a life before.
pub(crate) fn as_stored(entry: Entry, rows_after: Sequence) -> Option<StoredRow> {
    let Entry { origin, body: Body::Row(row) } = entry else { return None };
    (origin.sequence > rows_after).then_some(StoredRow { origin, row })
}

pub(crate) fn describe(key: &RegisterKey, ballot: Ballot) -> String {
    format!("row of {} at {ballot}", key.key)
}
