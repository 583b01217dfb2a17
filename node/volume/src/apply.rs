//! From records to entries: what each record changes, the same whether it was just written, is
//! replayed, or is read again to rebuild the index.
//!
//! The rule is by sequence: under each key the highest *original* sequence wins, and a delete kills
//! every copy with a lower one. Applying a record twice changes nothing. Beside the entries it keeps
//! count of the live bytes of every segment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::codec::{Reader, Writer};
use sherd_core::id::Ballot;

use crate::format::{Flags, Hint, Subject, decode_hints};
use crate::index::{Change, Index, IndexError};
use crate::log::append::Placed;
use crate::table::{self, Body, DERIVED, Entry, Origin, Payload, entry_of, key_of, row_key, unsettled_key};

/// What a batch is applied to.
pub(crate) trait Base {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError>;
}

impl Base for Arc<dyn Index> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        self.as_ref().get(key)
    }
}

/// Bytes of a segment that are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Use {
    /// Records that an entry points at.
    pub(crate) live: u64,
    /// Delete records: needed until what they kill is gone.
    pub(crate) deletes: u64,
}

/// Counts of live bytes, by segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uses {
    map: BTreeMap<u64, Use>,
    dirty: BTreeSet<u64>,
}

impl Uses {
    pub(crate) fn get(&self, segment: u64) -> Use {
        self.map.get(&segment).copied().unwrap_or_default()
    }

    pub(crate) fn live_total(&self) -> u64 {
        self.map.values().map(|one| one.live).sum()
    }

    fn change(&mut self, segment: u64, change: impl FnOnce(&mut Use)) {
        change(self.map.entry(segment).or_default());
        self.dirty.insert(segment);
    }

    fn forget(&mut self, segment: u64) {
        self.map.remove(&segment);
        self.dirty.insert(segment);
    }

    /// Reads what an index keeps.
    pub(crate) fn load(index: &dyn Index) -> Result<Self, IndexError> {
        let mut map = BTreeMap::new();
        for pair in index.scan(&[DERIVED, 1], Some(&[DERIVED, 2])) {
            let (key, value) = pair?;
            let (Some(segment), Some(one)) = (parse_use_key(&key), parse_use(value)) else {
                return Err(IndexError::Damaged { what: "segment use is none".to_owned() });
            };
            map.insert(segment, one);
        }
        Ok(Self { map, dirty: BTreeSet::new() })
    }
}

fn use_key(segment: u64) -> Bytes {
    let mut writer = Writer::new();
    writer.u8(DERIVED).u8(1).raw(&segment.to_be_bytes());
    writer.finish()
}

fn parse_use_key(key: &[u8]) -> Option<u64> {
    key.get(2..).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes)
}

fn parse_use(value: Bytes) -> Option<Use> {
    let mut reader = Reader::new(value);
    Some(Use { live: reader.u64("live").ok()?, deletes: reader.u64("deletes").ok()? })
}

/// The key under which an index keeps the highest ballot of any row.
const HIGHEST_KEY: [u8; 2] = [DERIVED, 2];

/// The highest ballot of any row ever applied.
pub(crate) fn highest_of(base: &dyn Base) -> Result<Ballot, IndexError> {
    let Some(bytes) = base.get(&HIGHEST_KEY)? else { return Ok(Ballot::ZERO) };
    let bytes: [u8; 16] = bytes
        .as_ref()
        .try_into()
        .map_err(|_| IndexError::Damaged { what: "highest ballot is none".to_owned() })?;
    Ok(Ballot::from_bytes(bytes))
}

/// A written record, as it is applied.
pub(crate) struct Written<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) flags: Flags,
    pub(crate) payload: Payload<'a>,
    pub(crate) placed: Placed,
}

/// Changes of entries, not yet visible to anybody.
pub(crate) struct Batch<'a> {
    base: &'a dyn Base,
    uses: &'a mut Uses,
    changes: BTreeMap<Bytes, Option<Bytes>>,
    highest: Option<Ballot>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(base: &'a dyn Base, uses: &'a mut Uses) -> Self {
        Self { base, uses, changes: BTreeMap::new(), highest: None }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Entry>, IndexError> {
        let bytes = match self.changes.get(key) {
            Some(changed) => changed.clone(),
            None => self.base.get(key)?,
        };
        bytes.map(|bytes| decode_entry(key, bytes)).transpose()
    }

    /// Applies one record.
    pub(crate) fn record(&mut self, written: &Written<'_>) -> Result<(), IndexError> {
        match written.subject {
            Subject::Delete { key, .. } => self.delete(key, written.placed),
            Subject::Hints => {
                let Some(bytes) = written.payload.all() else { return Ok(()) };
                let hints = decode_hints(bytes)
                    .map_err(|error| IndexError::Damaged { what: format!("hints: {error}") })?;
                hints.iter().try_for_each(|hint| self.hint(hint))
            }
            _ => self.put(written),
        }
    }

    fn put(&mut self, written: &Written<'_>) -> Result<(), IndexError> {
        let Some(key) = key_of(written.subject) else { return Ok(()) };
        let Placed { sequence, placed, place } = written.placed;
        let old = self.get(&key)?;
        let mut oldest = placed;
        if let Some(old) = &old {
            let newer = (old.origin.sequence, old.origin.placed) >= (sequence, placed);
            if newer {
                return Ok(());
            }
            oldest = old.origin.oldest;
            let from = old.origin.place;
            self.uses.change(from.segment, |one| one.live = one.live.saturating_sub(u64::from(from.bytes)));
        }
        let origin = Origin { sequence, oldest, placed, place };
        let entry = entry_of(written.subject, written.flags, written.payload, origin);
        let Some(entry) = entry else {
            self.changes.insert(key, None);
            return Ok(());
        };
        self.uses.change(place.segment, |one| one.live += u64::from(place.bytes));
        if let Body::Row(row) = &entry.body {
            self.highest = self.highest.max(Some(row.head.ballot));
            let unsettled =
                (!row.head.committed).then(|| Bytes::copy_from_slice(&row.head.ballot.to_bytes()));
            self.changes.insert(unsettled_key(&key), unsettled);
        }
        self.changes.insert(key, Some(entry.encode()));
        Ok(())
    }

    fn delete(&mut self, key: &Bytes, placed: Placed) -> Result<(), IndexError> {
        let Placed { sequence, place, .. } = placed;
        self.uses.change(place.segment, |one| one.deletes += u64::from(place.bytes));
        let Some(old) = self.get(key)? else { return Ok(()) };
        if old.origin.sequence >= sequence {
            return Ok(());
        }
        let from = old.origin.place;
        self.uses.change(from.segment, |one| one.live = one.live.saturating_sub(u64::from(from.bytes)));
        match &old.body {
            Body::Row(_) => {
                self.changes.insert(unsettled_key(key), None);
            }
            Body::State(Subject::Segment { number, .. }) => self.uses.forget(*number),
            Body::State(_) | Body::Shard { .. } | Body::Heal { .. } => {}
        }
        self.changes.insert(key.clone(), None);
        Ok(())
    }

    fn hint(&mut self, hint: &Hint) -> Result<(), IndexError> {
        let key = row_key(&hint.key);
        let Some(mut entry) = self.get(&key)? else { return Ok(()) };
        let Body::Row(row) = &mut entry.body else { return Ok(()) };
        if row.head.ballot != hint.ballot || row.head.committed {
            return Ok(());
        }
        row.head.committed = true;
        self.changes.insert(unsettled_key(&key), None);
        self.changes.insert(key, Some(entry.encode()));
        Ok(())
    }

    /// The changes in key order, with the counts that they changed.
    pub(crate) fn finish(self) -> Result<Vec<(Bytes, Option<Bytes>)>, IndexError> {
        let Self { base, uses, changes, highest } = self;
        let mut all: Vec<_> = changes.into_iter().collect();
        for segment in std::mem::take(&mut uses.dirty) {
            let value = uses.map.get(&segment).map(|one| {
                let mut writer = Writer::new();
                writer.u64(one.live).u64(one.deletes);
                writer.finish()
            });
            all.push((use_key(segment), value));
        }
        if let Some(highest) = highest
            && highest > highest_of(base)?
        {
            let key = Bytes::from_static(&HIGHEST_KEY);
            all.push((key, Some(Bytes::copy_from_slice(&highest.to_bytes()))));
        }
        Ok(all)
    }
}

/// Decodes an entry that was found under a key.
pub(crate) fn decode_entry(key: &[u8], bytes: Bytes) -> Result<Entry, IndexError> {
    let entry =
        Entry::decode(bytes).map_err(|error| IndexError::Damaged { what: format!("entry: {error}") })?;
    let right = match (&entry.body, key.first()) {
        (Body::Row(_), Some(&(table::OBJECT | table::PART)))
        | (Body::Shard { .. }, Some(&table::SHARD))
        | (Body::Heal { .. }, Some(&table::HEAL)) => true,
        (Body::State(subject), Some(&table::STATE)) => key_of(subject).is_some_and(|own| own == *key),
        _ => false,
    };
    if right {
        Ok(entry)
    } else {
        Err(IndexError::Damaged { what: "an entry stands in the wrong table".to_owned() })
    }
}

/// The same changes as an index takes them.
pub(crate) fn as_index_changes(changes: &[(Bytes, Option<Bytes>)]) -> Vec<Change> {
    let change = |(key, value): &(Bytes, Option<Bytes>)| match value {
        Some(value) => Change::Put { key: key.clone(), value: value.clone() },
        None => Change::Remove { key: key.clone() },
    };
    changes.iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::memory::MemoryIndex;

    #[test]
    fn derived_keys_keep_their_bytes() {
        assert_eq!(use_key(0x0102).as_ref(), [7, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(parse_use_key(&use_key(0x0102)), Some(0x0102));
        assert_eq!(HIGHEST_KEY, [7, 2]);
        let index = MemoryIndex::new();
        let value = Bytes::from_static(&[5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
        let highest = Ballot::from_bytes([3; 16]);
        let changes = vec![
            Change::Put { key: use_key(9), value },
            Change::Put { key: Bytes::from_static(&HIGHEST_KEY), value: Bytes::from_static(&[3; 16]) },
        ];
        index.apply(changes, sherd_core::id::Sequence(1)).unwrap();
        let found = Uses::load(&index).unwrap().get(9);
        assert_eq!((found.live, found.deletes), (5, 6));
        let base: std::sync::Arc<dyn Index> = std::sync::Arc::new(index);
        assert_eq!(highest_of(&base).unwrap(), highest);
    }
}
