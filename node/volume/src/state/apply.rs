//! From records to entries: what each record changes, the same whether it was just written, is
//! replayed, or is read again to rebuild the index.
//!
//! The rule is by sequence: under each key the highest *original* sequence wins, and a delete kills
//! every copy with a lower one. Applying a record twice changes nothing. Beside the entries it keeps
//! count of the live bytes of every segment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;

use sherd_core::codec::{Reader, Writer};
use sherd_core::id::{Ballot, Sequence};
use sherd_core::register::acceptor::judge_commit;
use sherd_core::register::heal::list::{ListPlace, hint_unlists, horizon_after, place_row};

use crate::format::{Flags, Hint, Subject, decode_hints};
use crate::index::table::{
    self, Body, DERIVED, Entry, Origin, Payload, RowKeys, entry_of, key_of, unsettled_key,
};
use crate::index::{Change, Index, IndexError};
use crate::log::append::{HintedCommit, KnownRows, NewRecord, RecordPlace, ReplacedEntry};

pub(crate) trait BatchBase {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError>;
}

impl BatchBase for Arc<dyn Index> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        self.as_ref().get(key)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SegmentUse {
    /// Records that an entry points at.
    pub(crate) live: u64,
    /// Delete records: needed until what they kill is gone.
    pub(crate) deletes: u64,
}

/// State derived from the entries and kept beside them, in the index's derived table: live bytes by segment,
/// the highest ballot of any row ever applied, and where a replay that has not ended began.
#[derive(Debug, Clone, Default)]
pub(crate) struct DerivedState {
    map: BTreeMap<u64, SegmentUse>,
    live_total: u64,
    highest: Ballot,
    /// Rows that are listed although they are committed, and how many the index has.
    missed_count: u64,
    missed_noted: u64,
    /// Rows that were missed and had no place in the list, since it was opened.
    unlisted_count: u64,
    /// Committed rows that the list holds at most.
    missed_max: u64,
    /// The sequence up to which the list may lack rows, and whether that is known: by the index, or since an
    /// opening took the end of its log for it.
    horizon: Sequence,
    is_horizon_known: bool,
    /// As the index has it.
    horizon_noted: Option<NotedHorizon>,
    /// Segments whose use is not yet as the index has it.
    dirty: BTreeSet<u64>,
    is_higher: bool,
    /// The first sequence of a replay under way, and as the index has it.
    replay_from: Option<Sequence>,
    replay_noted: Option<Sequence>,
    found_replay: bool,
}

impl DerivedState {
    pub(crate) fn get(&self, segment: u64) -> SegmentUse {
        self.map.get(&segment).copied().unwrap_or_default()
    }

    pub(crate) const fn live_total(&self) -> u64 {
        self.live_total
    }

    fn change(&mut self, segment: u64, change: impl FnOnce(&mut SegmentUse)) {
        let one = self.map.entry(segment).or_default();
        let before = one.live;
        change(one);
        self.live_total = self.live_total - before + one.live;
        self.dirty.insert(segment);
    }

    /// Where the replay began that did not end before this one.
    pub(crate) const fn replay_from(&self) -> Option<Sequence> {
        self.replay_from
    }

    /// Whether the index on disk may still say that a replay has not ended.
    pub(crate) const fn was_cut_short(&self) -> bool {
        self.found_replay
    }

    /// A replay from a sequence on begins. Until it ends, every durable part of it carries that mark: an open
    /// that is cut short was not judged, and the next one judges the same part of the log.
    pub(crate) const fn begin_replay(&mut self, from: Sequence) {
        self.replay_from = Some(from);
    }

    /// The replay ended: changes from here on are stored with its whole outcome.
    pub(crate) const fn end_replay(&mut self) {
        self.replay_from = None;
    }

    pub(crate) const fn highest(&self) -> Ballot {
        self.highest
    }

    fn raise(&mut self, ballot: Ballot) {
        self.is_higher |= ballot > self.highest;
        self.highest = self.highest.max(ballot);
    }

    pub(crate) const fn missed_count(&self) -> u64 {
        self.missed_count
    }

    pub(crate) const fn unlisted_count(&self) -> u64 {
        self.unlisted_count
    }

    /// The sequence up to which the list may lack rows that are not everywhere.
    pub(crate) const fn horizon(&self) -> Sequence {
        self.horizon
    }

    /// An opening read the log up to this end. Where the index does not say which rows found no place, each
    /// may be one.
    pub(crate) fn settle_horizon(&mut self, end: Sequence) {
        if !self.is_horizon_known {
            self.horizon = horizon_after(self.horizon, end);
            self.is_horizon_known = true;
        }
    }

    /// Whether there is a place for one more row that is missed; it is taken then. Without one the horizon
    /// rises to the row's sequence.
    fn list_missed(&mut self, sequence: Sequence) -> bool {
        let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        match place_row(true, count(self.missed_count), count(self.missed_max)) {
            ListPlace::Listed => {
                self.missed_count += 1;
                true
            }
            ListPlace::BelowHorizon => {
                self.unlisted_count += 1;
                self.horizon = horizon_after(self.horizon, sequence);
                false
            }
        }
    }

    /// A row is listed no more that was missed.
    const fn unlist_missed(&mut self, was_missed: bool) {
        if was_missed {
            self.missed_count = self.missed_count.saturating_sub(1);
        }
    }

    /// The changes since the last call, for an index that has each record up to `through` with them.
    pub(crate) fn take_changes(&mut self, through: Sequence) -> Vec<Change> {
        let mut changes = Vec::with_capacity(self.dirty.len() + usize::from(self.is_higher));
        for segment in std::mem::take(&mut self.dirty) {
            let key = use_key(segment);
            changes.push(match self.map.get(&segment) {
                Some(SegmentUse { live, deletes }) => {
                    let mut writer = Writer::with_capacity(2 * 8);
                    writer.u64(*live).u64(*deletes);
                    Change::Put { key, value: writer.finish() }
                }
                None => Change::Remove { key },
            });
        }
        if std::mem::take(&mut self.is_higher) {
            let value = Bytes::copy_from_slice(&self.highest.to_bytes());
            changes.push(Change::Put { key: Bytes::from_static(&HIGHEST_KEY), value });
        }
        if self.missed_count != self.missed_noted {
            let value = Bytes::copy_from_slice(&self.missed_count.to_le_bytes());
            changes.push(Change::Put { key: Bytes::from_static(&MISSED_KEY), value });
            self.missed_noted = self.missed_count;
        }
        let horizon = NotedHorizon { horizon: self.horizon, through };
        if self.is_horizon_known && self.horizon_noted != Some(horizon) {
            let key = Bytes::from_static(&HORIZON_KEY);
            changes.push(Change::Put { key, value: horizon.encode() });
            self.horizon_noted = Some(horizon);
        }
        if self.replay_from != self.replay_noted {
            let key = Bytes::from_static(&REPLAY_KEY);
            changes.push(match self.replay_from {
                Some(from) => Change::Put { key, value: Bytes::copy_from_slice(&from.0.to_le_bytes()) },
                None => Change::Remove { key },
            });
            self.replay_noted = self.replay_from;
        }
        changes
    }

    fn forget(&mut self, segment: u64) {
        let gone = self.map.remove(&segment).unwrap_or_default();
        self.live_total -= gone.live;
        self.dirty.insert(segment);
    }

    /// The state that an index has; its list holds this many rows that are missed.
    pub(crate) fn load(index: &dyn Index, missed_max: u64) -> Result<Self, IndexError> {
        let mut map = BTreeMap::new();
        let mut live_total = 0_u64;
        for pair in index.scan(&[DERIVED, 1], Some(&[DERIVED, 2])) {
            let (key, value) = pair?;
            let damaged = || IndexError::Damaged { what: "segment use is none".to_owned() };
            let (Some(segment), Some(one)) = (parse_use_key(&key), parse_use(value)) else {
                return Err(damaged());
            };
            live_total = live_total.checked_add(one.live).ok_or_else(damaged)?;
            map.insert(segment, one);
        }
        let highest = highest_of(index)?;
        let replay_from = replay_from_of(index)?;
        let replay_noted = replay_from;
        let missed_count = missed_of(index)?;
        let missed_noted = missed_count;
        let horizon_noted = NotedHorizon::of(index)?;
        let found_replay = replay_from.is_some();
        Ok(Self {
            map,
            live_total,
            highest,
            missed_count,
            missed_noted,
            missed_max,
            horizon: horizon_noted.map(|noted| noted.horizon).unwrap_or_default(),
            is_horizon_known: horizon_noted.is_some(),
            horizon_noted,
            replay_from,
            replay_noted,
            found_replay,
            ..Self::default()
        })
    }
}

fn use_key(segment: u64) -> Bytes {
    let mut writer = Writer::with_capacity(2 + 8);
    writer.u8(DERIVED).u8(1).raw(&segment.to_be_bytes());
    writer.finish()
}

fn parse_use_key(key: &[u8]) -> Option<u64> {
    key.get(2..).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes)
}

fn parse_use(value: Bytes) -> Option<SegmentUse> {
    let mut reader = Reader::new(value);
    Some(SegmentUse { live: reader.u64("live").ok()?, deletes: reader.u64("deletes").ok()? })
}

const HIGHEST_KEY: [u8; 2] = [DERIVED, 2];

fn highest_of(index: &dyn Index) -> Result<Ballot, IndexError> {
    let Some(bytes) = index.get(&HIGHEST_KEY)? else { return Ok(Ballot::ZERO) };
    let bytes: [u8; 16] = bytes
        .as_ref()
        .try_into()
        .map_err(|_| IndexError::Damaged { what: "highest ballot is none".to_owned() })?;
    Ok(Ballot::from_bytes(bytes))
}

/// The key under which an index keeps how many rows are listed although they are committed.
const MISSED_KEY: [u8; 2] = [DERIVED, 4];

fn missed_of(index: &dyn Index) -> Result<u64, IndexError> {
    let Some(bytes) = index.get(&MISSED_KEY)? else { return Ok(0) };
    let bytes: [u8; 8] = bytes
        .as_ref()
        .try_into()
        .map_err(|_| IndexError::Damaged { what: "the count of missed rows is no number".to_owned() })?;
    Ok(u64::from_le_bytes(bytes))
}

/// The horizon of the list as an index has it, and the sequence up to which that had each record when it was
/// noted. A build without horizons leaves the note as it is, and goes on: then the index has more than that,
/// and the note says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NotedHorizon {
    horizon: Sequence,
    through: Sequence,
}

/// The key under which an index keeps it.
const HORIZON_KEY: [u8; 2] = [DERIVED, 5];

impl NotedHorizon {
    /// The note of an index that went no further since.
    fn of(index: &dyn Index) -> Result<Option<Self>, IndexError> {
        let Some(bytes) = index.get(&HORIZON_KEY)? else { return Ok(None) };
        let damaged = |_| IndexError::Damaged { what: "the horizon of missed rows is none".to_owned() };
        let mut reader = Reader::new(bytes);
        let horizon = Sequence(reader.u64("horizon").map_err(damaged)?);
        let through = Sequence(reader.u64("position").map_err(damaged)?);
        reader.finish("horizon").map_err(damaged)?;
        Ok(Some(Self { horizon, through }).filter(|noted| index.persisted() == Some(noted.through)))
    }

    fn encode(self) -> Bytes {
        let mut writer = Writer::with_capacity(2 * 8);
        writer.u64(self.horizon.0).u64(self.through.0);
        writer.finish()
    }
}

/// The key under which an index keeps the first sequence of a replay that has not ended.
const REPLAY_KEY: [u8; 2] = [DERIVED, 3];

fn replay_from_of(index: &dyn Index) -> Result<Option<Sequence>, IndexError> {
    let Some(bytes) = index.get(&REPLAY_KEY)? else { return Ok(None) };
    let bytes: [u8; 8] = bytes
        .as_ref()
        .try_into()
        .map_err(|_| IndexError::Damaged { what: "the beginning of a replay is none".to_owned() })?;
    Ok(Some(Sequence(u64::from_le_bytes(bytes))))
}

pub(crate) struct WrittenRecord<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) flags: Flags,
    pub(crate) payload: Payload<'a>,
    pub(crate) placed: RecordPlace,
    pub(crate) known: &'a KnownRows,
    /// Content of a record of hints, if it is at hand.
    pub(crate) hinted: Option<&'a [HintedCommit]>,
}

/// The entries that a batch asks for, looked up before it is written. A record in the log must be applied,
/// while a lookup may be refused for the moment.
pub(crate) struct FetchedEntries<'a> {
    base: &'a dyn BatchBase,
    entries: HashMap<Bytes, Option<Bytes>>,
}

impl<'a> FetchedEntries<'a> {
    pub(crate) fn new(base: &'a dyn BatchBase) -> Self {
        Self { base, entries: HashMap::default() }
    }

    /// Looks up what [`EntryBatch::record`] asks for to apply a record.
    pub(crate) fn fetch_for(
        &mut self,
        record: &NewRecord,
        hinted: &[HintedCommit],
    ) -> Result<(), IndexError> {
        match (&record.subject, &record.known) {
            // The judge of the row has already looked its entry up.
            (_, KnownRows::Row { .. }) => Ok(()),
            (_, KnownRows::Hints(range)) => {
                let hinted = hinted.get(range.clone()).unwrap_or(&[]);
                hinted.iter().try_for_each(|one| self.fetch(one.keys.row()))
            }
            (Subject::Delete { key, .. }, KnownRows::Nothing) => self.fetch(key),
            (Subject::Row { key, .. }, KnownRows::Nothing) => self.fetch(RowKeys::of(key).row()),
            (subject, KnownRows::Nothing) => key_of(subject).map_or(Ok(()), |key| self.fetch(&key)),
        }
    }

    pub(crate) fn fetch(&mut self, key: &Bytes) -> Result<(), IndexError> {
        if !self.entries.contains_key(key) {
            let found = self.base.get(key)?;
            self.entries.insert(key.clone(), found);
        }
        Ok(())
    }
}

impl BatchBase for FetchedEntries<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        self.entries.get(key).map_or_else(|| self.base.get(key), |found| Ok(found.clone()))
    }
}

/// Changes of entries by their keys: new, or gone.
///
/// foldhash, as in all maps of one batch: a batch is bounded, so that keys that collide on purpose cost a
/// bounded time.
pub(crate) type Changes = HashMap<Bytes, Option<Bytes>>;

pub(crate) struct EntryBatch<'a> {
    base: &'a dyn BatchBase,
    derived: &'a mut DerivedState,
    changes: &'a mut Changes,
}

impl<'a> EntryBatch<'a> {
    pub(crate) fn new(
        base: &'a dyn BatchBase,
        derived: &'a mut DerivedState,
        changes: &'a mut Changes,
    ) -> Self {
        Self { base, derived, changes }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Entry>, IndexError> {
        let bytes = match self.changes.get(key) {
            Some(changed) => changed.clone(),
            None => self.base.get(key)?,
        };
        bytes.map(|bytes| decode_entry(key, bytes)).transpose()
    }

    pub(crate) fn record(&mut self, written: &WrittenRecord<'_>) -> Result<(), IndexError> {
        match written.subject {
            Subject::Delete { key, .. } => self.delete(key, written.placed),
            Subject::Hints => {
                if let Some(hinted) = written.hinted {
                    return hinted.iter().try_for_each(|one| self.hint(&one.keys, &one.hint));
                }
                let Some(bytes) = written.payload.all() else { return Ok(()) };
                let hints = decode_hints(written.flags, bytes)
                    .map_err(|error| IndexError::Damaged { what: format!("hints: {error}") })?;
                hints.iter().try_for_each(|hint| self.hint(&RowKeys::of(&hint.key), hint))
            }
            _ => self.put(written),
        }
    }

    fn put(&mut self, written: &WrittenRecord<'_>) -> Result<(), IndexError> {
        let keys = match (written.subject, written.known) {
            (_, KnownRows::Row { keys, .. }) => Some(keys.clone()),
            (Subject::Row { key, .. }, _) => Some(RowKeys::of(key)),
            _ => None,
        };
        let key = match &keys {
            Some(keys) => keys.row().clone(),
            None => match key_of(written.subject) {
                Some(key) => key,
                None => return Ok(()),
            },
        };
        let RecordPlace { sequence, placed, place } = written.placed;
        let mut oldest = placed;
        if let Some((old, was_missed)) = self.origin_of(&key, written.known)? {
            let newer = (old.sequence, old.placed) >= (sequence, placed);
            if newer {
                return Ok(());
            }
            oldest = old.oldest;
            self.derived.unlist_missed(was_missed);
            let from = old.place;
            self.derived
                .change(from.segment, |one| one.live = one.live.saturating_sub(u64::from(from.bytes)));
        }
        let origin = Origin { sequence, oldest, placed, place };
        let entry = entry_of(written.subject, written.flags, written.payload, origin);
        let Some(mut entry) = entry else {
            self.changes.insert(key, None);
            return Ok(());
        };
        self.derived.change(place.segment, |one| one.live += u64::from(place.bytes));
        if let Body::Row(row) = &mut entry.body {
            row.is_missed = row.is_missed && self.derived.list_missed(sequence);
        }
        let encoded = entry.encode();
        if let (Body::Row(row), Some(keys)) = (&entry.body, keys) {
            self.derived.raise(row.head.ballot);
            // The key leaves the list before the entry goes, or soon after.
            let is_listed = !row.head.committed || row.is_missed;
            let listed = is_listed.then(|| table::listed_value(&encoded, row.head.committed));
            self.changes.insert(keys.unsettled().clone(), listed);
        }
        self.changes.insert(key, Some(encoded));
        Ok(())
    }

    /// Where the entry under a key comes from, before a record is applied, and whether it is of a row that is
    /// missed.
    fn origin_of(&self, key: &[u8], known: &KnownRows) -> Result<Option<(Origin, bool)>, IndexError> {
        match known {
            // Nothing but this batch can have changed it since.
            KnownRows::Row { before: ReplacedEntry::Absent, .. } if !self.changes.contains_key(key) => {
                Ok(None)
            }
            KnownRows::Row { before: ReplacedEntry::At { origin, is_missed }, .. }
                if !self.changes.contains_key(key) =>
            {
                Ok(Some((*origin, *is_missed)))
            }
            _ => Ok(self.get(key)?.map(|entry| (entry.origin, entry.is_missed()))),
        }
    }

    fn delete(&mut self, key: &Bytes, placed: RecordPlace) -> Result<(), IndexError> {
        let RecordPlace { sequence, place, .. } = placed;
        self.derived.change(place.segment, |one| one.deletes += u64::from(place.bytes));
        let Some(old) = self.get(key)? else { return Ok(()) };
        if old.origin.sequence >= sequence {
            return Ok(());
        }
        let from = old.origin.place;
        self.derived.change(from.segment, |one| one.live = one.live.saturating_sub(u64::from(from.bytes)));
        match &old.body {
            Body::Row(row) => {
                self.derived.unlist_missed(row.is_missed);
                self.changes.insert(unsettled_key(key), None);
            }
            Body::State(Subject::Segment { number, .. }) => self.derived.forget(*number),
            Body::State(_) | Body::Shard { .. } | Body::Heal { .. } | Body::Release { .. } => {}
        }
        self.changes.insert(key.clone(), None);
        Ok(())
    }

    /// A row that is committed and missed stays listed. Once it is known to be everywhere it is so for good,
    /// in any order in which compaction wrote its records.
    fn hint(&mut self, keys: &RowKeys, hint: &Hint) -> Result<(), IndexError> {
        let Some(mut entry) = self.get(keys.row())? else { return Ok(()) };
        let sequence = entry.origin.sequence;
        let Body::Row(row) = &mut entry.body else { return Ok(()) };
        let is_news = !row.head.committed || (row.is_missed && hint.is_everywhere);
        if !judge_commit(Some(&row.head), hint.ballot) || !is_news {
            return Ok(());
        }
        self.derived.unlist_missed(row.is_missed);
        row.head.committed = true;
        row.is_missed = !hint_unlists(hint.is_everywhere) && self.derived.list_missed(sequence);
        row.flag_logged = false;
        let is_missed = row.is_missed;
        let encoded = entry.encode();
        let listed = is_missed.then(|| table::listed_value(&encoded, true));
        self.changes.insert(keys.unsettled().clone(), listed);
        self.changes.insert(keys.row().clone(), Some(encoded));
        Ok(())
    }
}

pub(crate) fn decode_entry(key: &[u8], bytes: Bytes) -> Result<Entry, IndexError> {
    let entry =
        Entry::decode(bytes).map_err(|error| IndexError::Damaged { what: format!("entry: {error}") })?;
    let right = match (&entry.body, key.first()) {
        (Body::Row(_), Some(&(table::OBJECT | table::PART)))
        | (Body::Shard { .. }, Some(&table::SHARD))
        | (Body::Heal { .. }, Some(&table::HEAL))
        | (Body::Release { .. }, Some(&table::RELEASE)) => true,
        (Body::State(subject), Some(&table::STATE)) => table::is_state_key(subject, key),
        _ => false,
    };
    if right {
        Ok(entry)
    } else {
        Err(IndexError::Damaged { what: "an entry stands in the wrong table".to_owned() })
    }
}

/// Changes of entries as an index takes them that has each record up to `through` with them, and what they
/// change beside the entries.
pub(crate) fn as_index_changes(
    changes: Changes,
    derived: &mut DerivedState,
    through: Sequence,
) -> Vec<Change> {
    let change = |(key, value)| match value {
        Some(value) => Change::Put { key, value },
        None => Change::Remove { key },
    };
    let mut all: Vec<Change> = changes.into_iter().map(change).collect();
    all.append(&mut derived.take_changes(through));
    all
}

#[cfg(test)]
mod tests {
    use sherd_core::heal::HealId;
    use sherd_core::id::{BucketId, Timestamp};

    use super::*;
    use crate::format::Kind;
    use crate::index::memory::MemoryIndex;

    #[test]
    fn derived_keys_keep_their_bytes() {
        assert_eq!(use_key(0x0102).as_ref(), [7, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(parse_use_key(&use_key(0x0102)), Some(0x0102));
        assert_eq!(HIGHEST_KEY, [7, 2]);
        assert_eq!(REPLAY_KEY, [7, 3]);
        assert_eq!(MISSED_KEY, [7, 4]);
        let index = MemoryIndex::new();
        let value = Bytes::from_static(&[5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
        let highest = Ballot::from_bytes([3; 16]);
        let changes = vec![
            Change::Put { key: use_key(9), value },
            Change::Put { key: Bytes::from_static(&HIGHEST_KEY), value: Bytes::from_static(&[3; 16]) },
        ];
        index.apply(changes, sherd_core::id::Sequence(1)).unwrap();
        let mut derived = DerivedState::load(&index, 9).unwrap();
        assert_eq!((derived.get(9).live, derived.get(9).deletes), (5, 6));
        assert_eq!(derived.highest(), highest);
        assert_eq!(derived.take_changes(Sequence(1)), [], "nothing changed since it was loaded");
    }

    #[test]
    fn live_bytes_of_all_segments_are_their_sum() {
        let mut derived = DerivedState::default();
        derived.change(1, |one| one.live += 5);
        derived.change(2, |one| one.live += 7);
        derived.change(1, |one| one.live = one.live.saturating_sub(9));
        derived.change(2, |one| one.deletes += 3);
        assert_eq!((derived.live_total(), derived.get(2).live), (7, 7));
        derived.forget(2);
        derived.forget(3);
        assert_eq!(derived.live_total(), 0);
    }

    #[test]
    fn an_index_says_where_a_replay_began_until_it_ended() {
        let index = MemoryIndex::new();
        let mut derived = DerivedState::default();
        derived.begin_replay(Sequence(0x0102));
        index.apply(derived.take_changes(Sequence(1)), Sequence(1)).unwrap();
        assert_eq!(index.get(&REPLAY_KEY).unwrap().as_deref(), Some(&[2, 1, 0, 0, 0, 0, 0, 0][..]));
        let mut derived = DerivedState::load(&index, 9).unwrap();
        assert_eq!(derived.replay_from(), Some(Sequence(0x0102)));
        derived.end_replay();
        index.apply(derived.take_changes(Sequence(2)), Sequence(2)).unwrap();
        assert_eq!(DerivedState::load(&index, 9).unwrap().replay_from(), None);
    }

    #[test]
    fn a_horizon_counts_for_an_index_that_went_no_further_since() {
        let index = MemoryIndex::new();
        let load = |index: &MemoryIndex| DerivedState::load(index, 0).unwrap();
        let mut derived = load(&index);
        assert!(!derived.list_missed(Sequence(3)));
        index.apply(derived.take_changes(Sequence(4)), Sequence(4)).unwrap();
        assert_eq!(index.get(&HORIZON_KEY).unwrap(), None, "before the end of the log is known");
        derived.settle_horizon(Sequence(5));
        assert!(!derived.list_missed(Sequence(4)));
        index.apply(derived.take_changes(Sequence(0x0106)), Sequence(0x0106)).unwrap();
        let bytes = [5, 0, 0, 0, 0, 0, 0, 0, 6, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!((HORIZON_KEY, index.get(&HORIZON_KEY).unwrap().as_deref()), ([7, 5], Some(&bytes[..])));
        index.flush().unwrap();
        let mut again = load(&index);
        again.settle_horizon(Sequence(9));
        assert_eq!(again.horizon(), Sequence(5));
        assert!(!again.list_missed(Sequence(8)));
        assert_eq!(again.horizon(), Sequence(8));

        // A build that does not know it lists rows, and lets some go.
        let change = Change::Put { key: use_key(1), value: Bytes::from_static(&[0; 16]) };
        index.apply(vec![change], Sequence(0x0107)).unwrap();
        index.flush().unwrap();
        let mut after = load(&index);
        after.settle_horizon(Sequence(0x0108));
        assert_eq!(after.horizon(), Sequence(0x0108));
        index.apply(after.take_changes(Sequence(0x0109)), Sequence(0x0109)).unwrap();
        index.flush().unwrap();
        assert_eq!(load(&index).horizon(), Sequence(0x0108));
    }

    #[test]
    fn an_entry_of_state_is_a_piece_of_state_under_its_own_key() {
        let place = table::RecordLocation { segment: 1, offset: 2, bytes: 3 };
        let origin = Origin { sequence: Sequence(1), oldest: Sequence(1), placed: Sequence(1), place };
        let decoded = |key: &[u8], subject: Subject| {
            decode_entry(key, Entry { origin, body: Body::State(subject) }.encode()).is_ok()
        };
        let seal = Subject::Seal { bucket: BucketId([4; 16]), deletion: None };
        let key = key_of(&seal).expect("a piece of state");
        assert!(decoded(&key, seal.clone()));
        assert!(!decoded(&key[..key.len() - 1], seal), "the key of another one");
        assert!(decoded(&[table::STATE, Kind::DataFloor as u8], Subject::DataFloor(Timestamp::from_u64(1))));
        assert!(!decoded(&[table::STATE, Kind::Hints as u8], Subject::Hints), "hints are no state");
        let heal = Subject::Heal { id: HealId([5; 16]) };
        assert!(!decoded(&[table::STATE, Kind::Heal as u8], heal), "it stands in a table of its own");
    }
}
