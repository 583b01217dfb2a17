//! The openings of a volume: durable before it answers, sent with every answer, and kept for as long as its
//! life; and its memory of the openings of its peers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use sherd_core::id::{Ballot, Life, Sequence, VolumeId};
use sherd_core::limits::OPENINGS_FORGOTTEN_MAX;
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::recover::confirm::Asker;
use sherd_core::register::recover::opening::{Opening, OpeningHistory};
use sherd_volume::disk::faulty::{Call, Failure, Fault};
use sherd_volume::request::Op;
use support::*;

const PEER: VolumeId = VolumeId([7; 16]);

fn position(opening: u64, durable: u64) -> Position {
    Position { life: Life(1), opening: OpeningId(opening), durable: Sequence(durable) }
}

/// A volume as it is copied now: power is cut, and all that was synced is there.
fn copy_of(bench: &Bench) -> Bench {
    Bench { disk: bench.disk.fork(), index: bench.index.fork(), ..bench.clone() }
}

/// Notes positions of the peer, durably.
fn note(volume: &mut Driver, positions: &[Position]) {
    let positions = positions.iter().map(|position| (PEER, *position)).collect();
    volume.volume.submit(Op::Commit {
        target: target(&object("nothing")),
        ballot: Ballot::ZERO,
        is_everywhere: true,
        positions,
    });
    volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
}

fn noted(volume: &Driver) -> Vec<Position> {
    volume.reader.memory().positions.into_iter().map(|(_, position)| position).collect()
}

#[test]
fn each_opening_is_durable_when_it_answers_and_none_is_forgotten() {
    let bench = Bench::new(1);
    let mut ids = Vec::new();
    let mut last = Sequence(0);
    for count in 0..5 {
        let mut volume = bench.reopen();
        let began = volume.reader.openings().began().unwrap();
        let answered = volume.reader.answerer().position();
        assert_eq!((began.opening, began.life), (answered.opening, answered.life));
        assert_eq!(began.durable, last, "where the log ended");
        ids.push(began.opening);
        volume.put_shard(shard(count, 0), &bytes(count, 100)).unwrap();
        last = volume.reader.answerer().durable;
        drop(volume);
        bench.kill();
    }
    let volume = bench.reopen();
    let openings = volume.reader.openings();
    assert_eq!(openings.openings().iter().map(|opening| opening.id).collect::<Vec<_>>()[..5], ids);
}

#[test]
fn compaction_and_a_rebuilt_index_keep_openings_and_what_is_remembered_of_peers() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    note(&mut volume, &[position(3, 30), position(4, 40)]);
    let segments = |volume: &Driver| volume.reader.status().segments;
    for count in 0..60 {
        volume.put_shard(shard(count, 1), &bytes(count, 30_000)).unwrap();
    }
    (0..60).for_each(|count| volume.delete_shard(shard(count, 1)).unwrap());
    volume.settle();
    volume.reader.flush().unwrap();
    let (before, openings) = (segments(&volume), volume.reader.openings());
    volume.compact();
    assert!(segments(&volume) < before, "the segment with the records is gone");
    drop(volume);
    bench.kill();
    for _ in 0..2 {
        bench.index.wipe();
        let volume = bench.reopen();
        assert_eq!(volume.reader.openings().openings()[..1], *openings.openings());
        assert_eq!(noted(&volume), [position(3, 30), position(4, 40)]);
        drop(volume);
        bench.kill();
    }
}

/// A refusal is answered with a position, too, and its record moves the log past what peers remember of it.
#[test]
fn an_earlier_copy_lacks_what_was_answered_however_much_it_writes_since() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let copy = copy_of(&bench);
    volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
    let told = volume.reader.answerer().position();
    assert!(!volume.reader.openings().lacks(&told));
    drop(volume);
    bench.kill();
    assert!(!bench.reopen().reader.openings().lacks(&told), "an honest restart");

    copy.disk.restart(1, sherd_volume::disk::faulty::Keep::Nothing);
    let mut old = copy.reopen();
    for count in 0..50 {
        old.put_shard(shard(count, 0), &bytes(count, 100)).unwrap();
    }
    assert!(old.reader.answerer().durable > told.durable);
    assert!(old.reader.openings().lacks(&told));
}

#[test]
fn notes_that_a_question_covers_are_dropped_durably_and_its_opening_is_noted() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    note(&mut volume, &[position(1, 10), position(2, 21)]);
    let openings =
        [(1, 0), (2, 10), (3, 20)].map(|(id, end)| Opening { id: OpeningId(id), end: Sequence(end) });
    let openings = OpeningHistory::new(Life(1), openings.into());
    volume.volume.submit(Op::Asked(Asker { volume: PEER, openings }));
    volume.run();
    let left = [position(2, 21), position(3, 20)];
    assert_eq!(noted(&volume), left, "one of them shows that the peer lost state");
    bench.kill();
    assert_eq!(noted(&bench.reopen()), left);
}

#[test]
fn a_new_life_names_its_opening_and_those_of_earlier_lives_go() {
    let bench = Bench::new(1);
    for _ in 0..OPENINGS_FORGOTTEN_MAX {
        drop(bench.reopen());
        bench.kill();
    }
    let volume = bench.reopen();
    volume.reader.declare_lost("a test", Life(4)).unwrap();
    drop(volume);
    bench.kill();
    let (mut volume, _) = bench.open().unwrap();
    assert_eq!(volume.reader.openings().openings().len(), 1);
    let before = volume.reader.answerer().position();
    volume.volume.begin_life(Life(9)).unwrap();
    let answered = volume.reader.answerer().position();
    assert_eq!((answered.life, answered.opening), (Life(9), before.opening));
    assert_eq!(volume.reader.openings().openings().len(), 1);
    bench.kill();
    let (volume, _) = bench.open().unwrap();
    assert!(!volume.reader.openings().lacks(&answered));
    assert_eq!(volume.reader.openings().openings().len(), 2);
}

/// Such a volume serves its data, and sends no opening that the next one would miss.
#[test]
fn a_volume_without_room_for_its_opening_serves_and_sends_no_position_until_it_has() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
    let end = volume.reader.answerer().durable;
    drop(volume);
    bench.kill();
    let under = bench.path.join("log");
    let fault = bench.disk.inject(Fault {
        under,
        call: Call::Write,
        skip: 0,
        times: u64::MAX,
        failure: Failure::Full,
    });
    let mut volume = bench.reopen();
    assert_eq!(volume.packed(shard(1, 0)).unwrap(), bytes(1, 100));
    assert_eq!(volume.reader.answerer().position(), Position::life(Life(1)));
    assert_eq!(volume.reader.openings_to_ask_with(), None);
    let current = volume.reader.openings().began().unwrap();
    assert_eq!(current.durable, end, "it judges itself by it");
    drop(fault);
    bench.clock.advance_ms(101);
    volume.volume.step();
    assert_eq!(volume.reader.answerer().opening, current.opening);
    assert_eq!(volume.reader.openings_to_ask_with().unwrap().began(), Some(current), "it began where it did");
    bench.kill();
    let openings = bench.reopen().reader.openings();
    assert_eq!(openings.openings()[1], Opening { id: current.opening, end });
}
