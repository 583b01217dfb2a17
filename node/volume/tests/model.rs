//! Random operations, restarts, flushes, compactions and lost indexes, against an ordered map.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use sherd_core::env::Clock;
use sherd_core::heal::HealId;
use sherd_core::id::{Ballot, Epoch, RegisterKey};
use sherd_core::message::{Control, RowScan, UnsettledKind};
use sherd_core::register::{EncodedValue, Refusal};
use sherd_core::release::ReleaseId;
use sherd_volume::error::Error;
use sherd_volume::lookup::Source;
use sherd_volume::request::Op;
use support::*;

#[derive(Debug, Clone)]
enum Action {
    Write { key: u8, inline: u16, commits: bool },
    WriteLarge { key: u8 },
    Stale { key: u8 },
    Delete { key: u8, drops: bool },
    Put { shard: u8, bytes: u16 },
    Forget { shard: u8 },
    Heal { id: u8 },
    Healed { id: u8 },
    Note { id: u8 },
    Forgotten { id: u8 },
    Settle,
    Flush,
    Compact,
    Spare,
    Restart { flushed: bool, index_lost: bool },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (0..6_u8, 0..8_000_u16, any::<bool>())
            .prop_map(|(key, inline, commits)| Action::Write { key, inline, commits }),
        2 => (0..6_u8).prop_map(|key| Action::WriteLarge { key }),
        2 => (0..6_u8).prop_map(|key| Action::Stale { key }),
        3 => (0..6_u8, any::<bool>()).prop_map(|(key, drops)| Action::Delete { key, drops }),
        8 => (0..10_u8, 1..40_000_u16).prop_map(|(shard, bytes)| Action::Put { shard, bytes }),
        4 => (0..10_u8).prop_map(|shard| Action::Forget { shard }),
        1 => (0..4_u8).prop_map(|id| Action::Heal { id }),
        1 => (0..4_u8).prop_map(|id| Action::Healed { id }),
        2 => (0..4_u8).prop_map(|id| Action::Note { id }),
        1 => (0..4_u8).prop_map(|id| Action::Forgotten { id }),
        2 => Just(Action::Settle),
        1 => Just(Action::Flush),
        3 => Just(Action::Compact),
        1 => Just(Action::Spare),
        2 => (any::<bool>(), any::<bool>())
            .prop_map(|(flushed, index_lost)| Action::Restart { flushed, index_lost }),
    ]
}

#[derive(Debug, Clone, PartialEq)]
struct ModelRow {
    ballot: Ballot,
    value: EncodedValue,
    committed: bool,
}

#[derive(Default)]
struct Model {
    rows: BTreeMap<u8, ModelRow>,
    shards: BTreeMap<u8, Bytes>,
    heals: BTreeMap<u8, Bytes>,
    releases: BTreeMap<u8, Bytes>,
    time: u64,
}

impl Model {
    /// A ballot above every bound that a restart before it left.
    fn next(&mut self, clock: &TestClock) -> Ballot {
        clock.advance_ms(2_100);
        self.time += 1;
        ballot((clock.wall_ms() - START_MS) << 16)
    }
}

fn key(number: u8) -> RegisterKey {
    if number == 5 { part("upload", 1, 3) } else { object(&format!("key-{number}")) }
}

#[expect(clippy::too_many_lines, reason = "one arm for each action")]
fn act(action: &Action, bench: &Bench, volume: &mut Driver, model: &mut Model) {
    match action {
        Action::Write { key: number, inline, commits } => {
            let ballot = model.next(&bench.clock);
            let value = value(model.time, usize::from(*inline));
            volume.write(&key(*number), ballot, &value);
            if *commits {
                volume.commit(&key(*number), ballot);
            }
            model.rows.insert(*number, ModelRow { ballot, value, committed: *commits });
        }
        Action::WriteLarge { key: number } => {
            let ballot = model.next(&bench.clock);
            let value = large_value(model.time);
            volume.write(&key(*number), ballot, &value);
            model.rows.insert(*number, ModelRow { ballot, value, committed: false });
        }
        Action::Stale { key: number } => {
            let Some(row) = model.rows.get(number) else { return };
            let stale = Ballot { proposer: sherd_core::id::ProposerId(1), ..row.ballot };
            let refused = volume.accept(&key(*number), stale, &value(0, 1)).unwrap().result;
            assert!(matches!(refused, Err(Refusal::Below { .. })));
            volume.commit(&key(*number), stale);
        }
        Action::Delete { key: number, drops } => {
            let ballot = model.next(&bench.clock);
            let value = tombstone(model.time);
            volume.write(&key(*number), ballot, &value);
            volume.commit(&key(*number), ballot);
            model.rows.insert(*number, ModelRow { ballot, value, committed: true });
            if *drops {
                volume.control(Control::RaiseFloor { floor: ballot }).unwrap().unwrap();
                volume.drop_row(&key(*number), ballot).unwrap().result.unwrap();
                model.rows.remove(number);
            }
        }
        Action::Put { shard: number, bytes: length } => {
            model.time += 1;
            let payload = bytes(model.time, usize::from(*length));
            volume.put_shard(shard(u64::from(*number), 0), &payload).unwrap();
            model.shards.insert(*number, payload);
        }
        Action::Forget { shard: number } => {
            volume.delete_shard(shard(u64::from(*number), 0)).unwrap();
            model.shards.remove(number);
        }
        Action::Heal { id } => {
            model.time += 1;
            let entry = bytes(model.time, 70);
            volume.heal_put(HealId([*id; 16]), &entry).unwrap();
            model.heals.insert(*id, entry);
        }
        Action::Healed { id } => {
            volume.volume.submit(Op::HealDone { id: HealId([*id; 16]) });
            volume.settle();
            model.heals.remove(id);
        }
        // Neither is answered, and any frame takes them along: here one that comes of itself.
        Action::Note { id } => {
            model.time += 1;
            let entry = bytes(model.time, 90);
            volume.volume.submit(Op::ReleasePut { id: ReleaseId([*id; 16]), entry: entry.clone() });
            volume.settle();
            model.releases.insert(*id, entry);
        }
        Action::Forgotten { id } => {
            volume.volume.submit(Op::ReleaseDone { id: ReleaseId([*id; 16]) });
            volume.settle();
            model.releases.remove(id);
        }
        Action::Settle => volume.settle(),
        Action::Flush => volume.reader.flush().unwrap(),
        Action::Compact => {
            volume.compact();
        }
        Action::Spare => volume.reader.upkeep().unwrap(),
        Action::Restart { flushed, index_lost } => {
            // Hints have no answer: a restart without a frame behind them forgets them.
            volume.settle();
            if *flushed {
                volume.reader.flush().unwrap();
            }
            bench.kill();
            if *index_lost {
                bench.index.wipe();
            }
            *volume = bench.reopen();
        }
    }
}

fn check(volume: &mut Driver, model: &Model) {
    volume.settle();
    for number in 0..6 {
        let row = volume.read(&key(number)).unwrap().result.unwrap().row;
        let found = row.map(|row| ModelRow {
            ballot: row.head.ballot,
            committed: row.head.committed,
            value: EncodedValue::new(
                row.value.unwrap(),
                volume
                    .reader
                    .inline(&target(&key(number)), row.head.ballot, Source::Disk)
                    .unwrap()
                    .or_busy()
                    .unwrap(),
            ),
        });
        assert_eq!(found.as_ref(), model.rows.get(&number), "row {number}");
    }
    for number in 0..10 {
        let found = match volume.packed(shard(u64::from(number), 0)) {
            Ok(bytes) => Some(bytes),
            Err(Error::NotFound) => None,
            Err(error) => panic!("shard {number}: {error}"),
        };
        assert_eq!(found.as_ref(), model.shards.get(&number), "shard {number}");
    }
    let heals: Vec<Bytes> =
        volume.reader.heals(None, 100).unwrap().into_iter().map(|(_, entry)| entry).collect();
    assert_eq!(heals, model.heals.values().cloned().collect::<Vec<_>>());
    let releases: Vec<Bytes> =
        volume.reader.releases(None, 100).unwrap().into_iter().map(|(_, entry)| entry).collect();
    assert_eq!(releases, model.releases.values().cloned().collect::<Vec<_>>());
    let unsettled = volume.reader.unsettled(UnsettledKind::Uncommitted, None, 100).unwrap().rows.len();
    assert_eq!(unsettled, model.rows.values().filter(|row| !row.committed).count());
    let scan = RowScan::all(Epoch::FIRST, None, 100);
    assert_eq!(volume.reader.rows(&scan).unwrap().rows.len(), model.rows.len());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_volume_is_an_ordered_map_that_forgets_nothing(
        actions in proptest::collection::vec(action(), 1..150),
    ) {
        let bench = Bench::new(1);
        let mut volume = bench.reopen();
        let mut model = Model::default();
        for action in &actions {
            act(action, &bench, &mut volume, &mut model);
        }
        check(&mut volume, &model);
        for index_lost in [false, true] {
            act(&Action::Restart { flushed: false, index_lost }, &bench, &mut volume, &mut model);
            check(&mut volume, &model);
            act(&Action::Compact, &bench, &mut volume, &mut model);
            check(&mut volume, &model);
        }
    }
}
