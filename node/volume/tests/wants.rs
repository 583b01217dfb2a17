//! A volume logs what it lacks of an accept in the frame of the row: a want, which only an end that names
//! that very want takes away.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;

use sherd_core::heal::{DamagedData, HealEntry};
use sherd_core::id::{Ballot, DataId, Life, ProposerId, RegisterKey, SetId, Timestamp, VersionId, VolumeId};
use sherd_core::message::{PulledRow, ValueLimit};
use sherd_core::record::{
    Attributes, Body, Changes, Checksums, Content, DataRef, Entries, Home, Object, PartRef, State, Value,
    Version, VersionKind,
};
use sherd_core::register::{Accept, DurableShards, EncodedValue, Prepare, RowHead, ValueOrigin};
use sherd_volume::disk::faulty::Keep;
use sherd_volume::read::wants::{self, LoggedWant};
use sherd_volume::request::Op;
use support::*;

const OTHER: VolumeId = VolumeId([9; 16]);
const HERE: (VolumeId, Life) = (VOLUME, Life(1));
const ELSEWHERE: (VolumeId, Life) = (OTHER, Life(1));

fn data(number: u64) -> DataRef {
    DataRef {
        id: DataId { birth: Timestamp::from_ms(START_MS + number), proposer: ProposerId(6) },
        set: SetId(0),
        size: 100,
        data_shards: 2,
        parity_shards: 2,
        stripe_unit: 4096,
        home: Home::Packed,
    }
}

fn object_of(body: Body) -> EncodedValue {
    let content = Content {
        size: 100,
        etag: "0".repeat(32),
        attributes: Attributes::default(),
        checksums: Checksums::default(),
        upload: None,
        body,
        entries: Entries::default(),
    };
    let (id, kind) = (VersionId([0; 16]), VersionKind::Content(content));
    let object = Object { versions: vec![Version { id, modified_ms: 1, kind }], uploads: Vec::new() };
    let value = Value { changes: Changes::default(), state: State::Object(object) };
    EncodedValue::new(value.encode(), bytes(0, 0))
}

fn naming(named: &[u64]) -> EncodedValue {
    let part = |(number, named): (u16, &u64)| PartRef {
        number,
        tag: [0; 16],
        checksum: None,
        data: Some(data(*named)),
    };
    object_of(Body::Parts((1..).zip(named).map(part).collect()))
}

/// An accept of data that the value introduces, each with where its shards are durable.
fn accept(
    at: Ballot,
    value: EncodedValue,
    introduces: &[(u64, &[(VolumeId, Life)])],
    made_from: Option<Ballot>,
) -> Accept {
    let durable = |(number, lives): &(u64, &[(VolumeId, Life)])| DurableShards {
        data: data(*number).id,
        lives: lives.to_vec().into(),
    };
    let origin = ValueOrigin { durable: introduces.iter().map(durable).collect(), made_from };
    let introduces = introduces.iter().map(|(number, _)| data(*number).id).collect();
    Accept { ballot: at, value, introduces, finishes: false, positions: Arc::default(), origin }
}

fn store(volume: &mut Driver, key: &RegisterKey, accept: Accept) {
    let (promised, done) = slot();
    let prepare = Prepare { ballot: accept.ballot };
    volume.volume.submit(Op::Prepare { target: target(key), prepare, values: ValueLimit::NOTHING, done });
    let (stored, done) = slot();
    volume.volume.submit(Op::Accept { target: target(key), accept, heal: None, done });
    volume.run();
    promised.lock().take().unwrap().unwrap().result.unwrap();
    stored.lock().take().unwrap().unwrap().result.unwrap();
}

fn wants(volume: &Driver) -> Vec<LoggedWant> {
    wants::wants(&volume.reader, None, 100).unwrap()
}

/// Data of the wants; `None` for one of all that a row names.
fn wanted(volume: &Driver) -> Vec<Option<DamagedData>> {
    wants(volume).into_iter().map(|logged| logged.want.data).collect()
}

fn end(volume: &mut Driver, want: &LoggedWant) {
    volume.volume.submit(Op::WantDone { id: want.id, sequence: want.sequence });
    volume.settle();
}

#[test]
fn a_write_whose_shard_is_durable_in_this_life_logs_nothing() {
    let mut volume = Bench::new(1).reopen();
    let key = object("a");
    store(&mut volume, &key, accept(ballot(1), naming(&[1]), &[(1, &[HERE, ELSEWHERE])], Some(Ballot::ZERO)));
    store(&mut volume, &key, accept(ballot(2), naming(&[2]), &[(2, &[HERE])], Some(ballot(1))));
    store(&mut volume, &key, accept(ballot(3), naming(&[2, 3]), &[(3, &[HERE])], Some(ballot(2))));
    store(&mut volume, &key, accept(ballot(5), naming(&[4]), &[(4, &[HERE])], Some(ballot(4))));
    store(&mut volume, &key, accept(ballot(7), tombstone(1), &[], Some(ballot(6))));
    assert_eq!((wanted(&volume), volume.reader.status().wants_logged), (vec![], 0));
}

#[test]
fn a_shard_that_is_not_durable_in_this_life_is_wanted() {
    for lives in [&[ELSEWHERE][..], &[(VOLUME, Life(2)), ELSEWHERE], &[(OTHER, Life(1)), (OTHER, Life(2))]] {
        let mut volume = Bench::new(1).reopen();
        store(&mut volume, &object("a"), accept(ballot(1), naming(&[1]), &[(1, lives)], Some(Ballot::ZERO)));
        assert_eq!(wanted(&volume), [Some(DamagedData::Named(data(1)))]);
        assert_eq!(wants(&volume)[0].want.key, object("a"));
        assert_eq!(volume.reader.status().wants_logged, 1);
    }
}

#[test]
fn several_shards_that_are_missing_make_one_want_of_the_row() {
    let mut volume = Bench::new(1).reopen();
    let introduces: &[(u64, &[(VolumeId, Life)])] = &[(1, &[ELSEWHERE]), (2, &[ELSEWHERE]), (3, &[HERE])];
    store(&mut volume, &object("a"), accept(ballot(1), naming(&[1, 2, 3]), introduces, Some(Ballot::ZERO)));
    assert_eq!(wanted(&volume), [None]);
}

#[test]
fn a_sender_that_does_not_say_where_shards_are_makes_a_want_of_each_row_with_data() {
    let mut volume = Bench::new(1).reopen();
    let unsaid = |value: EncodedValue, introduces: Vec<DataId>| Accept {
        ballot: ballot(1),
        value,
        introduces,
        finishes: false,
        positions: Arc::default(),
        origin: ValueOrigin::default(),
    };
    store(&mut volume, &object("new"), unsaid(naming(&[1]), vec![data(1).id]));
    store(&mut volume, &object("carried"), unsaid(naming(&[2]), vec![]));
    store(&mut volume, &object("inline"), unsaid(value(1, 10), vec![]));
    store(&mut volume, &object("gone"), unsaid(tombstone(1), vec![]));
    let mut keys: Vec<RegisterKey> = wants(&volume).into_iter().map(|logged| logged.want.key).collect();
    keys.sort_by(|one, other| one.key.cmp(&other.key));
    assert_eq!(keys, [object("carried"), object("new")]);
    assert_eq!(wanted(&volume), [None, None]);
}

#[test]
fn carried_data_is_wanted_unless_the_value_was_made_from_the_own_row() {
    let carries = |made_from| accept(ballot(9), naming(&[1, 2]), &[(2, &[HERE])], made_from);
    let first = || accept(ballot(3), naming(&[1]), &[(1, &[HERE])], Some(Ballot::ZERO));
    for (made_from, is_wanted) in
        [(Some(ballot(3)), false), (Some(ballot(4)), true), (Some(Ballot::ZERO), true), (None, true)]
    {
        let mut volume = Bench::new(1).reopen();
        store(&mut volume, &object("a"), first());
        store(&mut volume, &object("a"), carries(made_from));
        assert_eq!(wanted(&volume), if is_wanted { vec![None] } else { vec![] }, "{made_from:?}");
    }
    let mut volume = Bench::new(1).reopen();
    store(&mut volume, &object("missed"), carries(Some(ballot(3))));
    assert_eq!(wanted(&volume), [None], "it has no row");
}

#[test]
fn a_page_that_lists_parts_is_carried_data_though_it_is_new() {
    let mut volume = Bench::new(1).reopen();
    let page = object_of(Body::Manifest { page: data(1), parts: 20 });
    store(&mut volume, &object("a"), accept(ballot(1), page, &[(1, &[HERE])], None));
    assert_eq!(wanted(&volume), [None]);
}

#[test]
fn a_pulled_row_makes_a_want_of_all_that_it_names() {
    let mut volume = Bench::new(1).reopen();
    for (key, value) in [("data", naming(&[1, 2])), ("inline", value(1, 10)), ("gone", tombstone(1))] {
        let head = RowHead { ballot: ballot(1), digest: Value::digest(&value.head), committed: true };
        let pulled = volume.pull(&object(key), &PulledRow { head, value }).unwrap();
        assert_eq!(pulled.result, Ok(()));
    }
    assert_eq!(wanted(&volume), [None]);
    assert_eq!(wants(&volume)[0].want.key, object("data"));
}

#[test]
fn an_end_takes_away_the_want_that_was_looked_at_and_none_that_is_newer() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let key = object("a");
    store(&mut volume, &key, accept(ballot(1), naming(&[1]), &[], None));
    let looked_at = wants(&volume).remove(0);
    store(&mut volume, &key, accept(ballot(2), naming(&[1]), &[], None));
    end(&mut volume, &looked_at);
    let newer = wants(&volume).remove(0);
    assert_eq!((newer.id, newer.sequence > looked_at.sequence), (looked_at.id, true));
    end(&mut volume, &newer);
    assert_eq!(wanted(&volume), []);
    bench.kill();
    assert_eq!(wanted(&bench.reopen()), []);
}

#[test]
fn an_end_in_the_batch_of_a_newer_want_leaves_it() {
    let mut volume = Bench::new(1).reopen();
    let key = object("a");
    store(&mut volume, &key, accept(ballot(1), naming(&[1]), &[], None));
    let looked_at = wants(&volume).remove(0);
    volume.volume.submit(Op::WantDone { id: looked_at.id, sequence: looked_at.sequence });
    store(&mut volume, &key, accept(ballot(2), naming(&[1]), &[], None));
    volume.settle();
    assert_eq!(wanted(&volume), [None]);
}

#[test]
fn reports_and_wants_of_the_same_damage_are_apart() {
    let mut volume = Bench::new(1).reopen();
    let key = object("a");
    store(&mut volume, &key, accept(ballot(1), naming(&[1]), &[(1, &[ELSEWHERE])], Some(Ballot::ZERO)));
    let report = HealEntry { key, data: Some(data(1).into()), since_ms: 1 };
    volume.heal_put(report.id(), &report.encode()).unwrap();
    let reports = || volume.reader.heals(None, 10).unwrap();
    assert_eq!(reports(), [(report.id(), report.encode())]);
    assert_eq!(wanted(&volume), [report.data]);
    volume.volume.submit(Op::HealDone { id: report.id() });
    volume.settle();
    assert_eq!(volume.reader.heals(None, 10).unwrap(), []);
    assert_eq!(wanted(&volume), [report.data], "the end of a report ends no want");
}

#[test]
fn wants_come_in_pages_and_outlive_compaction_and_a_lost_index() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for number in 0..30 {
        let stored = accept(ballot(1 + number), naming(&[number]), &[(number, &[ELSEWHERE])], None);
        store(&mut volume, &object(&format!("key-{number}")), stored);
    }
    let all = wants(&volume);
    assert_eq!(all.len(), 30);
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = wants::wants(&volume.reader, after, 7).unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        paged.extend(page);
    }
    assert_eq!(paged, all);
    volume.settle();
    volume.reader.flush().unwrap();
    volume.compact();
    assert_eq!(wants(&volume), all, "with their sequences");
    bench.kill();
    bench.index.wipe();
    assert_eq!(wants(&bench.reopen()), all);
}

/// Writes rows, each of which makes a want; the keys whose write was acknowledged.
fn write_until_cut(bench: &Bench) -> Vec<RegisterKey> {
    let mut acknowledged = Vec::new();
    let Ok((mut volume, _)) = bench.open() else { return acknowledged };
    for number in 0..6 {
        let key = object(&format!("key-{number}"));
        let at = ballot(1 + number);
        let (_promised, done) = slot();
        let prepare = Prepare { ballot: at };
        volume.volume.submit(Op::Prepare {
            target: target(&key),
            prepare,
            values: ValueLimit::NOTHING,
            done,
        });
        let (stored, done) = slot();
        let accept = accept(at, naming(&[number]), &[(number, &[ELSEWHERE])], Some(Ballot::ZERO));
        volume.volume.submit(Op::Accept { target: target(&key), accept, heal: None, done });
        volume.run();
        if matches!(stored.lock().take(), Some(Ok(answer)) if answer.result.is_ok()) {
            acknowledged.push(key);
        }
        if bench.disk.is_off() {
            break;
        }
    }
    acknowledged
}

#[test]
fn after_a_power_cut_anywhere_a_row_and_its_want_are_both_there_or_neither() {
    let counted = Bench::new(1);
    let start = counted.disk.operations();
    assert_eq!(write_until_cut(&counted).len(), 6);
    let operations = counted.disk.operations() - start;
    for cut in 0..operations {
        for keep in [Keep::Some, Keep::Nothing, Keep::Everything] {
            let bench = Bench::new(1);
            let start = bench.disk.operations();
            bench.disk.cut_power_at(start + cut);
            let acknowledged = write_until_cut(&bench);
            bench.disk.restart(cut, keep);
            bench.index.crash();
            let mut volume = bench.reopen();
            let wanting: Vec<RegisterKey> =
                wants(&volume).into_iter().map(|logged| logged.want.key).collect();
            for number in 0..6 {
                let key = object(&format!("key-{number}"));
                let has_row = volume.read(&key).unwrap().result.unwrap().row.is_some();
                assert_eq!(wanting.contains(&key), has_row, "cut before {cut}, {keep:?}: {key:?}");
                assert!(has_row || !acknowledged.contains(&key), "cut before {cut}, {keep:?}");
            }
        }
    }
}
