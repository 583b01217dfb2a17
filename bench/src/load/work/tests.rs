//! The sources of requests: what each operation asks, on which keys, in what order.

use super::*;
use crate::load::sizes::Size;
use std::collections::BTreeSet;

fn keys(count: u64) -> Keys {
    Keys { end: count, ..Keys::new("", Size(1)) }
}

fn source(op: Op, mix: Option<&str>, keys: &Keys) -> (Source, Arc<RunState>) {
    let mix = mix.map(|text| text.parse().unwrap());
    let choice = Choice { op, mix, page: 10, overwrite: None, seed: 3 };
    let shared = Arc::new(RunState::new(keys));
    (Source::new(&choice, keys, &keys.order(), &shared, 0, 1), shared)
}

#[test]
fn mixes_are_written_the_way_they_are_read() {
    let text = "put:30,get:60,delete:10";
    assert_eq!(text.parse::<Mix>().unwrap().to_string(), text);
    for wrong in ["", "put", "put:x", "put:0", "put:1,put:2", "mixed:1", "list:1,delete:1"] {
        assert!(wrong.parse::<Mix>().is_err(), "{wrong} was taken");
    }
}

#[test]
fn a_mix_keeps_its_shares() {
    let mix: Mix = "put:30,get:70".parse().unwrap();
    let mut random = Random::new(2);
    let puts = (0..10_000).filter(|_| mix.draw(&mut random) == Op::Put).count();
    assert!((2_850..3_150).contains(&puts), "{puts}");
}

#[test]
fn every_object_is_deleted_once_and_then_there_is_nothing_left() {
    let keys = Keys { absent: BTreeSet::from([5]), ..keys(25) };
    let (mut source, shared) = source(Op::DeleteObjects, None, &keys);
    let mut deleted = Vec::new();
    while let Some(task) = source.draw() {
        let Task::DeleteObjects { keys } = task else { panic!("{task:?}") };
        deleted.extend(keys);
    }
    assert_eq!(deleted, (0..25).filter(|key| *key != 5).collect::<Vec<_>>());
    let mut after = keys.clone();
    shared.update(&mut after, None);
    assert_eq!((after.count(), after.absent.len()), (0, 0));
}

#[test]
fn writes_are_new_unless_they_go_round() {
    let keys = keys(2);
    let (mut fresh, shared) = source(Op::Put, None, &keys);
    let drawn: Vec<_> = (0..3).map(|_| fresh.draw().unwrap()).collect();
    assert_eq!(drawn, [Task::Put { key: 2 }, Task::Put { key: 3 }, Task::Put { key: 4 }]);
    let mut after = keys.clone();
    shared.update(&mut after, None);
    assert_eq!(after.count(), 5);
    let choice = Choice { op: Op::Put, mix: None, page: 10, overwrite: Some(3), seed: 3 };
    let shared = Arc::new(RunState::new(&keys));
    let mut round = Source::new(&choice, &keys, &keys.order(), &shared, 0, 1);
    let drawn: Vec<_> = (0..4).map(|_| round.draw().unwrap()).collect();
    assert_eq!(drawn, [2, 0, 1, 2].map(|key| Task::Put { key }));
    let mut after = keys.clone();
    shared.update(&mut after, Some(3));
    assert_eq!(after.count(), 3);
}

#[test]
fn an_object_that_failed_to_be_written_is_not_read() {
    let mut keys = keys(3);
    let (mut writer, _) = source(Op::Put, None, &keys);
    writer.ended(&Task::Put { key: 1 }, false);
    keys.absent.extend(writer.into_absent());
    let (mut reader, _) = source(Op::Get, None, &keys);
    let drawn: Vec<_> = (0..100).map(|_| reader.draw().unwrap()).collect();
    assert!(!drawn.contains(&Task::Get { key: 1 }));
    assert!(drawn.contains(&Task::Get { key: 2 }));
}

#[test]
fn reads_find_nothing_in_an_empty_bucket() {
    for op in [Op::Get, Op::Head, Op::List, Op::Delete, Op::DeleteObjects] {
        assert_eq!(source(op, None, &keys(0)).0.draw(), None, "{op}");
    }
}

/// Four clients on one thread, whose operations end in the order of their beginning.
#[test]
fn a_mix_never_reads_what_it_is_deleting_or_has_deleted() {
    let (mut source, _) = source(Op::Mixed, Some("put:20,get:50,delete:30"), &keys(20));
    let mut there: BTreeSet<u64> = (0..20).collect();
    let mut under_way = std::collections::VecDeque::new();
    let mut deletions = 0;
    for _ in 0..5_000 {
        let task = source.draw().unwrap();
        match task {
            Task::Get { key } => assert!(there.contains(&key), "{key} was deleted, or never written"),
            Task::Delete { key } => {
                assert!(there.remove(&key), "{key} deleted twice");
                assert!(!under_way.contains(&Task::Get { key }), "{key} is being read");
                deletions += 1;
            }
            Task::Put { key } => assert!(!there.contains(&key), "written twice"),
            other => panic!("{other:?}"),
        }
        under_way.push_back(task);
        if under_way.len() == 4 {
            let task = under_way.pop_front().unwrap();
            source.ended(&task, true);
            if let Task::Put { key } = task {
                there.insert(key);
            }
        }
    }
    assert!(deletions > 500, "{deletions}");
}

#[test]
fn listings_begin_where_a_full_page_is_left() {
    let (mut source, _) = source(Op::List, None, &keys(30));
    let mut seen = BTreeSet::new();
    for _ in 0..500 {
        let Some(Task::List { place }) = source.draw() else { panic!("no listing") };
        seen.insert(place);
    }
    assert_eq!((seen.first(), seen.last()), (Some(&1), Some(&19)));
}
