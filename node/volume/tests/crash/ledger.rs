//! Answers that a client got, and the states that it may therefore expect.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use sherd_core::heal::HealId;
use sherd_core::id::{Ballot, ChangeId, Epoch, ProposerId, RegisterKey, Sequence, ShardId, Timestamp};
use sherd_core::limits::LOOK_ROWS_MAX;
use sherd_core::message::LookScan;
use sherd_core::register::heal::look::PeerCursor;
use sherd_core::register::{EncodedValue, Refusal};
use sherd_volume::error::Error;
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::read::look;

use crate::support::{BUCKET, Driver, target, value};

/// A thing with one acknowledged state, and those without an answer.
#[derive(Debug, Clone)]
pub(crate) struct Fate<T> {
    pub(crate) sure: Option<T>,
    pub(crate) maybe: Vec<Option<T>>,
}

impl<T> Default for Fate<T> {
    fn default() -> Self {
        Self { sure: None, maybe: Vec::new() }
    }
}

impl<T: Clone + PartialEq + std::fmt::Debug> Fate<T> {
    /// Notes an operation and whether it was acknowledged.
    pub(crate) fn note(&mut self, state: Option<T>, acknowledged: bool) {
        if acknowledged {
            self.sure = state;
            self.maybe.clear();
        } else {
            self.maybe.push(state);
        }
    }

    fn check(&mut self, found: Option<T>, story: &str) {
        let allowed = found == self.sure || self.maybe.contains(&found);
        assert!(allowed, "{story}: found {found:?}, expected {self:?}");
        self.sure = found;
        self.maybe.clear();
    }
}

/// Names a register in an ordered map.
pub(crate) type Name = String;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) keys: BTreeMap<Name, RegisterKey>,
    pub(crate) rows: BTreeMap<Name, Fate<(Ballot, EncodedValue)>>,
    pub(crate) shards: BTreeMap<ShardId, Fate<Bytes>>,
    pub(crate) heals: BTreeMap<HealId, Fate<Bytes>>,
    pub(crate) promised: BTreeMap<Name, Ballot>,
    pub(crate) hinted: BTreeSet<(Name, Ballot)>,
    /// Rows that another volume of the set may lack.
    pub(crate) missed: BTreeSet<(Name, Ballot)>,
    pub(crate) floor: Ballot,
    pub(crate) data_floor: Timestamp,
    pub(crate) seals: BTreeMap<ChangeId, Fate<()>>,
}

impl Ledger {
    pub(crate) fn name(&mut self, key: &RegisterKey) -> Name {
        let name = format!("{key:?}");
        self.keys.entry(name.clone()).or_insert_with(|| key.clone());
        name
    }

    pub(crate) fn check(&mut self, volume: &mut Driver, story: &str) {
        self.check_seals(volume, story);
        let guarantees = volume.reader.guarantees();
        assert!(guarantees.floor >= self.floor, "{story}: the floor fell");
        assert!(guarantees.data_floor >= self.data_floor, "{story}: the data floor fell");
        for (name, fate) in &mut self.rows {
            let key = self.keys.get(name).expect("named");
            let row = volume
                .read(key)
                .unwrap_or_else(|error| panic!("{story}: {name}: {error}"))
                .result
                .expect("votes")
                .row;
            let found = row.map(|row| {
                let inline = volume
                    .reader
                    .inline(&target(key), row.head.ballot, Source::Disk)
                    .and_then(Lookup::or_busy)
                    .unwrap_or_else(|error| panic!("{story}: {error}"));
                if row.head.committed {
                    let told = self.hinted.contains(&(name.clone(), row.head.ballot));
                    assert!(told, "{story}: no hint says that {name} is committed");
                }
                let head = row.value.expect("asked for");
                (row.head.ballot, EncodedValue::new(head, inline))
            });
            assert!(found.as_ref().is_none_or(|(ballot, _)| guarantees.highest >= *ballot));
            fate.check(found, &format!("{story}: {name}"));
        }
        for (shard, fate) in &mut self.shards {
            let found = match volume.packed(*shard) {
                Ok(bytes) => Some(bytes),
                Err(Error::NotFound) => None,
                Err(error) => panic!("{story}: {shard:?}: {error}"),
            };
            fate.check(found, &format!("{story}: {shard:?}"));
        }
        let heals: BTreeMap<_, _> =
            volume.reader.heals(None, 10_000).expect("readable").into_iter().collect();
        for (id, fate) in &mut self.heals {
            fate.check(heals.get(id).cloned(), &format!("{story}: {id:?}"));
        }
        self.check_promises(volume, story);
        self.check_scan(volume, story);
        self.check_look(volume, story);
    }

    /// Seals are checked and then lifted, or nothing else could be read.
    fn check_seals(&mut self, volume: &mut Driver, story: &str) {
        let held: BTreeSet<ChangeId> = volume
            .reader
            .all_seals()
            .filter(|(bucket, _)| *bucket == BUCKET)
            .flat_map(|(_, deletions)| deletions)
            .collect();
        for (deletion, fate) in &mut self.seals {
            fate.check(held.contains(deletion).then_some(()), &format!("{story}: seal {deletion:?}"));
            let unseal = sherd_core::message::Control::Unseal { bucket: BUCKET, deletion: *deletion };
            volume.control(unseal).expect("the volume answers").expect("not refused");
            fate.note(None, true);
        }
    }

    fn check_promises(&self, volume: &mut Driver, story: &str) {
        for (name, ballot) in &self.promised {
            let below = Ballot { proposer: ProposerId(ballot.proposer.0 - 1), ..*ballot };
            let key = self.keys.get(name).expect("named");
            let refused = volume.accept(key, below, &value(1, 0)).expect("the volume answers").result;
            assert!(
                matches!(refused, Err(Refusal::Below { .. })),
                "{story}: {name} took a ballot below its promise {ballot:?}: {refused:?}"
            );
        }
    }

    /// A scan of all rows shows what reads show.
    fn check_scan(&self, volume: &Driver, story: &str) {
        let scan = sherd_core::message::RowScan::all(Epoch::FIRST, None, 100_000);
        let rows = volume.reader.rows(&scan).expect("readable").rows;
        let found: BTreeMap<Name, Ballot> =
            rows.iter().map(|row| (format!("{:?}", row.key), row.row.head.ballot)).collect();
        let expected: BTreeMap<Name, Ballot> = self
            .rows
            .iter()
            .filter_map(|(name, fate)| fate.sure.as_ref().map(|(ballot, _)| (name.clone(), *ballot)))
            .collect();
        assert_eq!(found, expected, "{story}: scan");
    }

    /// A peer that may have no row of this life is shown each that it may lack: it is listed, or the horizon
    /// says that the list lacks some.
    fn check_look(&self, volume: &Driver, story: &str) {
        let life = volume.reader.answerer().life;
        let cursor = Some(PeerCursor { life, sequence: Sequence(0) });
        let scan = LookScan { cursor, epoch: Epoch::FIRST, after: None, limit: LOOK_ROWS_MAX };
        let rows = look::rows_behind(&volume.reader, &scan).expect("readable").rows;
        let shown: BTreeSet<(Name, Ballot)> =
            rows.iter().map(|row| (format!("{:?}", row.key), row.head.ballot)).collect();
        for (name, fate) in &self.rows {
            let Some(row) = fate.sure.as_ref().map(|(ballot, _)| (name.clone(), *ballot)) else { continue };
            let is_shown = shown.contains(&row) || !self.missed.contains(&row);
            assert!(is_shown, "{story}: {row:?} is not shown; horizon {:?}", look::horizon(&volume.reader));
        }
    }
}
