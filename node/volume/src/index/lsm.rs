//! The index on disk: an LSM tree without a journal, for the log is the journal.
//!
//! The log's sequence is the tree's own. Every flush also writes a *mark*, an entry under a key of
//! ours that holds the last applied sequence: the tree's highest sequence alone would fall when a
//! compaction drops the tombstone that had it. Flush and compaction run when their caller runs
//! them, on the caller's thread.
//!
//! A snapshot is the pair of a sequence and the tree's files and memtables at that moment. A flush
//! and a compaction drop superseded entries, so a pair must be taken wholly before or wholly after
//! a memtable is sealed: `sealing` sees to it, and to batches being sealed whole.
//!
//! Damaged files give [`IndexError::Damaged`]. The tree has asserts and `expect`s in its paths, so every call
//! goes through `catch_unwind`; after a caught panic the index stays broken until it is rebuilt.

#![expect(
    clippy::disallowed_methods,
    reason = "the index engine keeps its files itself; this is the seam to it"
)]

use std::fs;
use std::io::ErrorKind;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use lsm_tree::config::PartitioningPolicy;
use lsm_tree::table::filter::{block::FilterBlock, standard_bloom::Builder as FilterBuilder};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, Config, DescriptorTable, GlobalTableId, Guard, IterGuardImpl, SeqNo,
    SequenceNumberCounter, Table, TreeId,
};
use parking_lot::{Mutex, RwLock};

use sherd_core::id::Sequence;

use crate::error::FaultClass;
use crate::lookup::Lookup;

use super::{Change, Index, IndexError, IndexProgress, Pair, RESERVED, check_keys, entry_bytes};

/// The key of the mark, behind every other key.
const MARK: &[u8] = &[RESERVED];
/// The file that names the tree's current version, and the checksum of that version's file.
const CURRENT: &str = "current";
/// Difference between a sequence and the tree's own number for it. The tree numbers its versions (one for
/// each flush and compaction) in the same space as entries, and a snapshot sees a version only if its number
/// is lower: so versions get the numbers below, and entries those from here on.
const SEQUENCE_BASE: SeqNo = 1 << 32;
/// The tree reserves the highest bit.
const SEQUENCE_MAX: SeqNo = (1 << 63) - 1 - SEQUENCE_BASE;
/// Bytes of one table on disk: small enough that one compaction step is short, and that a filter (about 100
/// KiB) is one block of the cache.
const TABLE_BYTES: u64 = 16 << 20;

/// On which levels filters are cut in pieces, the last of these and all deeper ones alike. Only the tree can
/// find the right piece, so memory cannot show there that a key is absent. Levels 1 to 3 hold 7 GiB of index.
/// Behind that the filters of a process are several times its cache, and a lookup that has to read one reads
/// a piece of 4 KiB instead of the whole.
const FILTER_IN_PIECES: [bool; 5] = [false, false, false, false, true];

/// On which levels a table's index is cut in pieces, the last of these and all deeper ones alike. Whole it is
/// some 300 KiB: from the third level on (0, 1, 2) the indexes of a few million keys are more than the cache,
/// and each lookup of a key that was not asked for lately would read one.
const INDEX_IN_PIECES: [bool; 3] = [false, false, true];

/// Shared by all indexes of a process: cached blocks and open files.
#[derive(Clone)]
pub struct IndexCache {
    blocks: Arc<Cache>,
    descriptors: Arc<DescriptorTable>,
}

impl IndexCache {
    /// Makes a cache of `bytes` of blocks and `files` open files.
    pub fn new(bytes: u64, files: usize) -> Self {
        Self {
            blocks: Arc::new(Cache::with_capacity_bytes(bytes)),
            descriptors: Arc::new(DescriptorTable::new(files)),
        }
    }
}

impl std::fmt::Debug for IndexCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IndexCache")
    }
}

/// An index in a directory.
pub struct LsmIndex {
    tree: AnyTree,
    /// Numbers the tree's versions; set back before each, so that it never reaches the entries.
    versions: SequenceNumberCounter,
    progress: Mutex<IndexProgress>,
    /// Held shared while a batch is applied or a snapshot is taken, alone while a memtable is sealed.
    sealing: RwLock<()>,
    pending_bytes: AtomicU64,
    is_broken: AtomicBool,
}

impl std::fmt::Debug for LsmIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LsmIndex").field("progress", &*self.progress.lock()).finish_non_exhaustive()
    }
}

impl LsmIndex {
    /// Opens the index in a directory, or makes a new one when the directory is missing or empty.
    ///
    /// Only one value may be open on a directory at a time; the volume's lock sees to it.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when files are damaged or missing: then [`LsmIndex::remove`] and a rebuild
    /// from the log bring it back. [`IndexError::Unavailable`] when they could not be read.
    pub fn open(directory: &Path, cache: &IndexCache) -> Result<Self, IndexError> {
        let is_new = match fs::read_dir(directory) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(IndexError::refused("list", &error)),
        };
        if !is_new {
            check_version(directory)?;
        }
        check_working_directory()?;
        let versions = SequenceNumberCounter::default();
        let tree = guarded(|| {
            Config::new(directory, versions.clone(), SequenceNumberCounter::default())
                .use_cache(Arc::clone(&cache.blocks))
                .use_descriptor_table(Some(Arc::clone(&cache.descriptors)))
                .filter_block_partitioning_policy(PartitioningPolicy::new(FILTER_IN_PIECES))
                .index_block_partitioning_policy(PartitioningPolicy::new(INDEX_IN_PIECES))
                .open()
        })?;
        let mark = guarded(|| tree.get(MARK, SeqNo::MAX))?;
        let persisted = match mark {
            Some(value) => {
                let bytes =
                    <[u8; 8]>::try_from(&*value).map_err(|_| damaged("the mark is not a sequence"))?;
                Some(Sequence(u64::from_le_bytes(bytes)))
            }
            None if guarded(|| Ok(tree.table_count()))? > 0 => {
                return Err(damaged("tables without a mark"));
            }
            None => None,
        };
        Ok(Self {
            tree,
            versions,
            progress: Mutex::new(IndexProgress::opened_at(persisted)),
            sealing: RwLock::new(()),
            pending_bytes: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
        })
    }

    /// Removes the index in a directory with all its files, so that the next open makes a new one.
    ///
    /// # Errors
    /// [`IndexError::Unavailable`] when the files cannot be removed.
    pub fn remove(directory: &Path) -> Result<(), IndexError> {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(IndexError::refused("remove", &error)),
            _ => Ok(()),
        }
    }

    /// Runs a call into the tree, unless an earlier one panicked.
    fn call<R>(&self, call: impl FnOnce() -> lsm_tree::Result<R>) -> Result<R, IndexError> {
        if self.is_broken.load(Ordering::Acquire) {
            return Err(damaged("broken by an earlier failure"));
        }
        let mut is_caught = true;
        let result = guarded(|| {
            let result = call();
            is_caught = false;
            result
        });
        if is_caught {
            self.is_broken.store(true, Ordering::Release);
        }
        result
    }

    /// Whether no table has the key, as far as the filters in memory tell.
    fn tables_rule_out(&self, key: &[u8]) -> lsm_tree::Result<bool> {
        let (version, tree) = (self.tree.current_version(), self.tree.id());
        let hash = FilterBuilder::get_hash(key);
        let runs = version.iter_levels().flat_map(|level| level.iter());
        for table in runs.filter_map(|run| run.get_for_key(key)) {
            if !rules_out(table, tree, hash)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Seals what was applied, with the mark behind it. Returns its last sequence and how many
    /// bytes are sealed; `None` when a flush would bring nothing.
    fn seal(&self) -> Result<Option<(Sequence, u64)>, IndexError> {
        let _alone = self.sealing.write();
        let progress = *self.progress.lock();
        let Some(sequence) = progress.last_applied() else { return Ok(None) };
        if progress.persisted() == Some(sequence) {
            return Ok(None);
        }
        self.call(|| {
            self.tree.insert(MARK, sequence.0.to_le_bytes(), number(sequence));
            self.tree.rotate_memtable();
            Ok(())
        })?;
        Ok(Some((sequence, self.pending_bytes.load(Ordering::Acquire))))
    }
}

/// Whether a table's filter is in memory and rules out keys of a hash.
fn rules_out(table: &Table, tree: TreeId, hash: u64) -> lsm_tree::Result<bool> {
    if let Some(filter) = &table.pinned_filter_block {
        return filter.maybe_contains_hash(hash).map(|maybe| !maybe);
    }
    // A table of an earlier version may have its filter in pieces, and only the tree can find the right one.
    let whole = table.regions.filter.filter(|_| table.regions.filter_tli.is_none());
    let cached = whole
        .and_then(|place| table.cache.get_block(GlobalTableId::from((tree, table.id())), place.offset()));
    cached.map_or(Ok(false), |block| FilterBlock::new(block).maybe_contains_hash(hash).map(|maybe| !maybe))
}

/// Turns the tree's panics and errors into ours.
fn guarded<R>(call: impl FnOnce() -> lsm_tree::Result<R>) -> Result<R, IndexError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(lsm_tree::Error::Io(error))) => Err(IndexError::refused("read or write", &error)),
        Ok(Err(error)) => Err(IndexError::Damaged { what: format!("{error:?}") }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(IndexError::Damaged { what: format!("the tree panicked: {text}") })
        }
    }
}

fn damaged(what: &str) -> IndexError {
    IndexError::Damaged { what: what.to_owned() }
}

const fn number(sequence: Sequence) -> SeqNo {
    SEQUENCE_BASE + sequence.0
}

/// Whether there is a working directory: the tree asks for it even if its own path is absolute, and panics
/// without one. Its files are unharmed by that, so they must not be taken for damaged.
fn check_working_directory() -> Result<(), IndexError> {
    match std::env::current_dir() {
        Ok(_) => Ok(()),
        Err(error) => {
            let what = format!("working directory of the process: {error}");
            Err(IndexError::Unavailable { what, class: FaultClass::Busy })
        }
    }
}

/// Verifies the file that lists the tree's tables against the checksum stored beside its name,
/// which the tree itself writes and does not check: a flipped bit there would name other tables.
fn check_version(directory: &Path) -> Result<(), IndexError> {
    let current = fs::read(directory.join(CURRENT)).map_err(|error| IndexError::refused(CURRENT, &error))?;
    let wrong = || damaged("the current version is another than it was");
    let (id, rest) = current.split_first_chunk::<8>().ok_or_else(wrong)?;
    let (checksum, _kind) = rest.split_first_chunk::<16>().ok_or_else(wrong)?;
    let name = format!("v{}", u64::from_le_bytes(*id));
    let version = fs::read(directory.join(&name)).map_err(|error| IndexError::refused(&name, &error))?;
    if xxhash_rust::xxh3::xxh3_128(&version) != u128::from_le_bytes(*checksum) {
        return Err(wrong());
    }
    Ok(())
}

impl Index for LsmIndex {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        // The newest entry is right under every flush and compaction, with any versions that they drop.
        Ok(self.call(|| self.tree.get(key, SeqNo::MAX))?.map(Bytes::from))
    }

    fn get_cached(&self, key: &[u8]) -> Result<Lookup<Option<Bytes>>, IndexError> {
        // While this is held nothing is sealed. Nothing sealed is waiting for its flush either: so what
        // is newest is in the active memtable, or else in the tables.
        let Some(_no_sealing) = self.sealing.try_read() else { return Ok(Lookup::Pending) };
        self.call(|| {
            if self.tree.sealed_memtable_count() > 0 {
                return Ok(Lookup::Pending);
            }
            if let Some(entry) = self.tree.active_memtable().get(key, SeqNo::MAX) {
                let value = (!entry.is_tombstone()).then(|| Bytes::from(entry.value));
                return Ok(Lookup::Immediate(value));
            }
            let is_absent = self.tables_rule_out(key)?;
            Ok(if is_absent { Lookup::Immediate(None) } else { Lookup::Pending })
        })
    }

    fn scan<'a>(
        &'a self,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, IndexError>> + 'a> {
        let to = to.map_or(MARK, |to| to.min(MARK));
        if from >= to {
            return Box::new(std::iter::empty());
        }
        // Without the bound the tree would pass all that was removed behind it, in search of a next entry.
        let range = (Bound::Included(from), Bound::Excluded(to));
        let entries = {
            let _no_sealing = self.sealing.read();
            let snapshot = self.progress.lock().last_applied().map_or(SEQUENCE_BASE, |last| number(last) + 1);
            self.call(|| Ok(self.tree.range::<&[u8], _>(range, snapshot, None)))
        };
        match entries {
            Ok(entries) => Box::new(Scan { index: self, entries: Some(entries) }),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn apply(&self, changes: Vec<Change>, sequence: Sequence) -> Result<(), IndexError> {
        if sequence.0 > SEQUENCE_MAX {
            return Err(IndexError::Misused { what: "the sequence is too high" });
        }
        check_keys(&changes)?;
        let _no_sealing = self.sealing.read();
        if !self.progress.lock().begin(sequence)? {
            return Ok(());
        }
        let bytes = changes.iter().map(entry_bytes).sum();
        // One key may change twice in a batch. The memtable holds one entry for a key and a
        // sequence, and the last insertion replaces it together with its kind.
        self.call(|| {
            for change in changes {
                match change {
                    Change::Put { key, value } => self.tree.insert(key, value, number(sequence)),
                    Change::Remove { key } => self.tree.remove(key, number(sequence)),
                };
            }
            Ok(())
        })?;
        self.pending_bytes.fetch_add(bytes, Ordering::AcqRel);
        self.progress.lock().applied(sequence);
        Ok(())
    }

    fn persisted(&self) -> Option<Sequence> {
        self.progress.lock().persisted()
    }

    fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::Acquire)
    }

    fn flush(&self) -> Result<(), IndexError> {
        // One flush at a time, from the sealing on: so the sealed sequence is the flushed one.
        let lock = self.call(|| Ok(self.tree.get_flush_lock()))?;
        let Some((sequence, bytes)) = self.seal()? else { return Ok(()) };
        self.versions.set(0);
        self.call(|| self.tree.flush(&lock, SeqNo::MAX))?;
        self.progress.lock().flushed(sequence);
        self.pending_bytes.fetch_sub(bytes, Ordering::AcqRel);
        Ok(())
    }

    fn compact(&self) -> Result<bool, IndexError> {
        let strategy = Arc::new(lsm_tree::compaction::Leveled::default().with_table_target_size(TABLE_BYTES));
        let before = self.call(|| Ok(self.tree.current_version().id()))?;
        // Scans that are being made see the tables before or the sequence after: wait for them.
        drop(self.sealing.write());
        self.versions.set(0);
        self.call(|| self.tree.compact(strategy, SeqNo::MAX))?;
        Ok(self.call(|| Ok(self.tree.current_version().id()))? != before)
    }

    fn unmerged(&self) -> usize {
        self.tree.l0_run_count()
    }
}

struct Scan<'a> {
    index: &'a LsmIndex,
    entries: Option<Box<dyn DoubleEndedIterator<Item = IterGuardImpl> + Send + 'static>>,
}

impl Iterator for Scan<'_> {
    type Item = Result<Pair, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entries = self.entries.as_mut()?;
        let next = self.index.call(|| entries.next().map(Guard::into_inner).transpose());
        if !matches!(next, Ok(Some(_))) {
            self.entries = None;
        }
        next.transpose().map(|pair| pair.map(|(key, value)| (Bytes::from(key), Bytes::from(value))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_shows_an_absent_key_on_the_third_level_too() {
        let folder = tempfile::tempdir().unwrap();
        let index = LsmIndex::open(folder.path(), &IndexCache::new(1 << 20, 1024)).unwrap();
        let key = |number: u64| Bytes::from(number.to_be_bytes().to_vec());
        let put = |number| Change::Put { key: key(number), value: Bytes::from_static(&[7; 100]) };
        // Levels of 16 KiB, 160 KiB, 1.6 MiB: a thousandth of what they are.
        let leveled = lsm_tree::compaction::Leveled::default().with_table_target_size(TABLE_BYTES >> 12);
        let leveled = Arc::new(leveled);
        for round in 0..64 {
            let changes = (0..256).map(|count| put(2 * (count * 64 + round))).collect();
            index.apply(changes, Sequence(round + 1)).unwrap();
            index.flush().unwrap();
            for _ in 0..16 {
                index.versions.set(0);
                index.tree.compact(Arc::clone(&leveled) as Arc<_>, SeqNo::MAX).unwrap();
            }
        }
        let version = index.tree.current_version();
        let filled = version.iter_levels().skip(1).filter(|level| !level.is_empty());
        assert!(filled.count() >= 3, "three levels are in use");
        let absent = || (0..1000_u64).map(|number| key(2 * number * 16 + 1));
        absent().for_each(|key| assert_eq!(index.get(&key).unwrap(), None));
        let told = absent().filter(|key| index.get_cached(key).unwrap() == Lookup::Immediate(None));
        // A filter of ten bits for each key is wrong about one key in a hundred, on each level.
        assert!(told.count() > 950);
    }

    #[test]
    fn the_mark_is_these_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let index = LsmIndex::open(folder.path(), &IndexCache::new(1 << 20, 16)).unwrap();
        let change = Change::Put { key: Bytes::from_static(b"key"), value: Bytes::from_static(b"value") };
        index.apply(vec![change], Sequence(0x0102)).unwrap();
        index.flush().unwrap();
        let mark = index.tree.get([0xff], SeqNo::MAX).unwrap();
        assert_eq!(mark.as_deref(), Some(&[2, 1, 0, 0, 0, 0, 0, 0][..]));
        assert_eq!(index.tree.get_highest_persisted_seqno(), Some((1 << 32) + 0x0102));
    }

    #[test]
    fn a_sealed_and_unflushed_entry_is_not_absent() {
        let folder = tempfile::tempdir().unwrap();
        let index = LsmIndex::open(folder.path(), &IndexCache::new(1 << 20, 16)).unwrap();
        let key = Bytes::from_static(b"key");
        let change = Change::Put { key: key.clone(), value: Bytes::from_static(b"value") };
        index.apply(vec![change], Sequence(1)).unwrap();
        index.seal().unwrap().unwrap();
        assert_eq!(index.get_cached(&key).unwrap(), Lookup::Pending, "only the sealed memtable has it");
        // A newer removal is known without it.
        index.apply(vec![Change::Remove { key: key.clone() }], Sequence(2)).unwrap();
        assert_ne!(index.get_cached(&key).unwrap(), Lookup::Immediate(Some(Bytes::from_static(b"value"))));
    }
}
