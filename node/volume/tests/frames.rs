//! Content of a frame: a batch up to its limit, with all piggybacked records; and those of a frame that the
//! disk refused go with another one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use sherd_core::env::Clock as _;
use sherd_core::heal::HealId;
use sherd_core::id::{Ballot, Epoch, Life, Sequence, VolumeId};
use sherd_core::limits::POSITIONS_WAITING_MAX;
use sherd_core::message::RowScan;
use sherd_core::register::Accept;
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::release::ReleaseId;
use sherd_volume::disk::faulty::{Call, Failure, Fault};
use sherd_volume::error::Error;
use sherd_volume::request::Op;
use support::*;

fn position(durable: u64) -> Position {
    Position { life: Life(1), opening: OpeningId(4), durable: Sequence(durable) }
}

/// Positions of as many peers as may wait.
fn all_positions(durable: u64) -> Vec<(VolumeId, Position)> {
    (0..POSITIONS_WAITING_MAX)
        .map(|peer| (VolumeId([u8::try_from(100 + peer).unwrap(); 16]), position(durable)))
        .collect()
}

/// A bench whose segments hold frames of the largest size.
fn large_segments() -> Bench {
    let mut bench = Bench::new(1);
    bench.options.segment_bytes = 64 << 20;
    bench.options.spare_segments = 0;
    bench.options.ballast_bytes = 0;
    bench
}

#[test]
fn a_batch_up_to_the_limit_is_one_frame_with_all_that_rides_along() {
    let bench = large_segments();
    let mut volume = bench.reopen();
    volume.settle();
    let before = volume.reader.status();
    let positions = all_positions(7);
    volume.volume.submit(Op::Commit {
        target: target(&object("nothing")),
        ballot: Ballot::ZERO,
        is_everywhere: true,
        positions: positions.clone().into(),
    });
    let sizes = std::iter::repeat_n(1 << 20, 7).chain(std::iter::repeat_n(3_000, 400));
    let answers: Vec<Held<()>> = (0..)
        .zip(sizes)
        .map(|(count, length)| {
            let (held, done) = slot();
            let target = target(&object("shards"));
            let payload = vec![bytes(count, length)];
            volume.volume.submit(Op::PutShard { shard: shard(count, 0), target, payload, done });
            held
        })
        .collect();
    assert!(volume.volume.step().more, "one frame does not hold them");
    let after = volume.reader.status();
    assert_eq!(after.frame_records.count() - before.frame_records.count(), 1);
    let written = after.frame_bytes - before.frame_bytes;
    assert!(written > (8 << 20) - (48 << 10), "the frame is full: {written}");
    volume.run();
    for (count, answer) in answers.iter().enumerate() {
        assert!(matches!(answer.lock().take(), Some(Ok(()))), "shard {count}");
    }
    bench.kill();
    let volume = bench.reopen();
    assert_eq!(volume.reader.memory().positions.len(), positions.len());
}

#[test]
fn the_largest_record_leaves_room_for_what_rides_along() {
    let bench = large_segments();
    let mut volume = bench.reopen();
    let largest = (8 << 20) - (8 << 10) - (48 << 10);
    volume.volume.submit(Op::Commit {
        target: target(&object("nothing")),
        ballot: Ballot::ZERO,
        is_everywhere: true,
        positions: all_positions(7).into(),
    });
    volume.put_shard(shard(1, 0), &bytes(1, largest)).unwrap();
    let more = volume.put_shard(shard(2, 0), &bytes(2, largest + 1));
    assert!(matches!(more, Err(Error::Corrupt { .. })), "{more:?}");
    bench.kill();
    let volume = bench.reopen();
    assert_eq!(volume.packed(shard(1, 0)).unwrap(), bytes(1, largest));
    assert_eq!(volume.reader.memory().positions.len(), POSITIONS_WAITING_MAX);
}

#[test]
fn positions_are_durable_with_the_accept_that_brings_them_however_much_waits() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.prepare(&object("a"), ballot(1)).unwrap().result.unwrap();
    // More commits than a frame holds.
    for count in 0..4_000 {
        let target = target(&object(&format!("another-{count:04}")));
        volume.volume.submit(Op::Commit {
            target,
            ballot: ballot(1),
            is_everywhere: true,
            positions: std::sync::Arc::default(),
        });
    }
    let positions = all_positions(9);
    let (held, done) = slot();
    let accept = Accept {
        ballot: ballot(1),
        value: value(1, 100),
        introduces: Vec::new(),
        finishes: false,
        positions: positions.clone().into(),
        origin: sherd_core::register::ValueOrigin::default(),
    };
    volume.volume.submit(Op::Accept { target: target(&object("a")), accept, heal: None, done });
    volume.volume.step();
    assert_eq!(held.lock().take().unwrap().unwrap().result, Ok(()));
    bench.kill();
    let volume = bench.reopen();
    let known = volume.reader.memory().positions;
    assert!(positions.iter().all(|position| known.contains(position)), "{known:?}");
}

#[test]
fn an_entry_that_an_accept_brings_again_outlives_the_end_that_still_waits() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let id = HealId([9; 16]);
    volume.heal_put(id, &bytes(1, 50)).unwrap();
    volume.prepare(&object("a"), ballot(1)).unwrap().result.unwrap();
    // More than rides with a frame: the end is still to be written when the entry comes again.
    for count in 0..4_000 {
        let target = target(&object(&format!("another-{count:04}")));
        volume.volume.submit(Op::Commit {
            target,
            ballot: ballot(1),
            is_everywhere: true,
            positions: std::sync::Arc::default(),
        });
    }
    volume.volume.submit(Op::HealDone { id });
    let accept = Accept {
        ballot: ballot(1),
        value: value(1, 100),
        introduces: Vec::new(),
        finishes: false,
        positions: std::sync::Arc::default(),
        origin: sherd_core::register::ValueOrigin::default(),
    };
    let (target, heal) = (target(&object("a")), Some((id, bytes(2, 50))));
    let (held, done) = slot();
    volume.volume.submit(Op::Accept { target, accept, heal, done });
    volume.settle();
    assert_eq!(held.lock().take().unwrap().unwrap().result, Ok(()));
    assert_eq!(volume.reader.heals(None, 10).unwrap(), [(id, bytes(2, 50))]);
}

#[test]
fn piggybacked_records_of_a_refused_frame_go_with_the_next() {
    for (call, failure) in
        [(Call::Write, Failure::Full), (Call::Write, Failure::NoMemory), (Call::Sync, Failure::Full)]
    {
        let bench = Bench::new(1);
        let mut volume = bench.reopen();
        let (peer, seen) = (VolumeId([7; 16]), VolumeId([8; 16]));
        let [healed, left] = [1, 2].map(|id| HealId([id; 16]));
        let [ended, waits] = [1, 2].map(|id| ReleaseId([id; 16]));
        volume.write(&object("a"), ballot(1), &value(1, 100));
        volume.heal_put(healed, &bytes(1, 50)).unwrap();
        volume.heal_put(left, &bytes(1, 50)).unwrap();
        volume.volume.submit(Op::ReleasePut { id: ended, entry: bytes(1, 50) });
        volume.settle();
        assert_eq!(volume.reader.releases(None, 10).unwrap().len(), 1);

        let under = bench.path.join("log");
        let fault = bench.disk.inject(Fault { under, call, skip: 0, times: 1, failure });
        let target = target(&object("a"));
        volume.volume.submit(Op::Commit {
            target,
            ballot: ballot(1),
            is_everywhere: true,
            positions: std::sync::Arc::default(),
        });
        volume.volume.submit(Op::HealDone { id: healed });
        volume.volume.submit(Op::ReleaseDone { id: ended });
        volume.volume.submit(Op::ReleasePut { id: waits, entry: bytes(2, 50) });
        let (life, durable) = (Life(2), Sequence(5));
        let noted = Position { life, ..position(durable.0) };
        volume.volume.submit(Op::PeerSeen { volume: seen, position: noted });
        volume.volume.submit(Op::Commit {
            target: support::target(&object("nothing")),
            ballot: Ballot::ZERO,
            is_everywhere: true,
            positions: vec![(peer, position(9))].into(),
        });
        let refused = volume.put_shard(shard(1, 0), &bytes(1, 100));
        assert!(matches!(refused, Err(Error::Full | Error::Busy)), "{refused:?}");
        drop(fault);
        assert_eq!(volume.reader.releases(None, 10).unwrap()[0].0, ended, "nothing of the frame is there");

        volume.settle();
        bench.kill();
        let mut volume = bench.reopen();
        assert!(volume.read(&object("a")).unwrap().result.unwrap().row.unwrap().head.committed);
        let heals = volume.reader.heals(None, 10).unwrap();
        assert_eq!(heals.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [left], "{failure:?} of {call:?}");
        assert_eq!(volume.reader.releases(None, 10).unwrap(), [(waits, bytes(2, 50))]);
        let known = volume.reader.memory().positions;
        assert!(known.contains(&(peer, position(9))), "{known:?}");
        assert!(volume.reader.peers().contains(&(seen, (life, durable))));
        assert!(known.contains(&(seen, noted)), "{known:?}");
    }
}

#[test]
fn waiting_records_go_with_the_first_frame_that_is_asked_for() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let (healed, waits) = (HealId([1; 16]), ReleaseId([2; 16]));
    volume.heal_put(healed, &bytes(1, 50)).unwrap();
    volume.volume.submit(Op::HealDone { id: healed });
    volume.volume.submit(Op::ReleasePut { id: waits, entry: bytes(2, 50) });
    let (peer, seen) = (VolumeId([7; 16]), position(5));
    volume.volume.submit(Op::PeerSeen { volume: peer, position: seen });
    volume.put_shard(shard(1, 0), &bytes(1, 3_000)).unwrap();
    bench.kill();
    let volume = bench.reopen();
    assert_eq!(volume.reader.heals(None, 10).unwrap(), []);
    assert_eq!(volume.reader.releases(None, 10).unwrap(), [(waits, bytes(2, 50))]);
    assert_eq!(volume.reader.peers(), [(peer, (seen.life, seen.durable))]);
}

/// A note that is in no frame is lost in a crash: the data that it names would stay until a sweep.
#[test]
fn a_note_of_replaced_data_does_not_wait_as_long_as_the_rest() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.settle();
    let (healed, noted) = (HealId([1; 16]), ReleaseId([2; 16]));
    volume.heal_put(healed, &bytes(1, 50)).unwrap();
    volume.settle();
    volume.volume.submit(Op::HealDone { id: healed });
    volume.volume.step();
    bench.clock.advance_ms(100);
    volume.volume.step();
    bench.kill();
    assert_eq!(bench.reopen().reader.heals(None, 10).unwrap().len(), 1, "this may wait");

    let mut volume = bench.reopen();
    volume.settle();
    volume.volume.submit(Op::ReleasePut { id: noted, entry: bytes(2, 50) });
    let step = volume.volume.step();
    assert!(step.wake_at_us.is_some_and(|at| at <= bench.clock.monotonic_us() + 100_000));
    bench.clock.advance_ms(100);
    volume.volume.step();
    bench.kill();
    assert_eq!(bench.reopen().reader.releases(None, 10).unwrap(), [(noted, bytes(2, 50))]);
}

#[test]
fn notes_that_do_not_fit_a_full_frame_keep_their_waiting_time() {
    let bench = large_segments();
    let mut volume = bench.reopen();
    volume.settle();
    for id in 0..10 {
        volume.volume.submit(Op::ReleasePut { id: ReleaseId([id; 16]), entry: bytes(2, 4_000) });
    }
    volume.volume.step();
    let due_us = bench.clock.monotonic_us() + 100_000;
    bench.clock.advance_ms(60);
    let ((held, done), target) = (slot(), target(&object("shards")));
    let payload = vec![bytes(1, (8 << 20) - (56 << 10))];
    volume.volume.submit(Op::PutShard { shard: shard(1, 0), target, payload, done });
    let step = volume.volume.step();
    assert!(matches!(held.lock().take(), Some(Ok(()))));
    assert!(volume.reader.releases(None, 20).unwrap().len() < 10, "they have no room");
    assert!(step.wake_at_us.is_some_and(|at| at <= due_us));
    bench.clock.advance_ms(40);
    volume.volume.step();
    bench.kill();
    assert_eq!(bench.reopen().reader.releases(None, 20).unwrap().len(), 10);
}

#[test]
fn more_than_a_frame_holds_rides_with_several() {
    const COUNT: u128 = 3_000;
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let id = |count: u128| count.to_be_bytes();
    for count in 0..COUNT {
        volume.heal_put(HealId(id(count)), &bytes(1, 10)).unwrap();
        volume.volume.submit(Op::ReleasePut { id: ReleaseId(id(count)), entry: bytes(1, 10) });
    }
    volume.settle();
    for count in 0..COUNT {
        volume.volume.submit(Op::HealDone { id: HealId(id(count)) });
        volume.volume.submit(Op::ReleaseDone { id: ReleaseId(id(count)) });
        volume.volume.submit(Op::ReleasePut { id: ReleaseId(id(COUNT + count)), entry: bytes(2, 60) });
        volume.volume.submit(Op::PeerSeen { volume: VolumeId(id(count)), position: position(5) });
        if count % 500 == 0 {
            // Judged, and not written yet.
            volume.volume.step();
        }
    }
    for _ in 0..10 {
        volume.settle();
    }
    bench.kill();
    let volume = bench.reopen();
    assert_eq!(volume.reader.heals(None, 10_000).unwrap(), []);
    let releases = volume.reader.releases(None, 10_000).unwrap();
    assert_eq!(releases.len() as u128, COUNT);
    assert!(releases.iter().all(|(_, entry)| *entry == bytes(2, 60)));
    assert_eq!(volume.reader.peers().len() as u128, COUNT);
}

#[test]
fn an_orderly_close_leaves_nothing_behind_that_waits_for_a_frame() {
    const COUNT: u128 = 3_000;
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let id = |count: u128| ReleaseId(count.to_be_bytes());
    for count in 0..COUNT {
        volume.volume.submit(Op::ReleasePut { id: id(count), entry: bytes(1, 60) });
    }
    volume.close();
    let volume = bench.reopen();
    assert_eq!(volume.reader.releases(None, 10_000).unwrap().len() as u128, COUNT);
}

#[test]
fn the_notes_of_a_peer_never_fall() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let peer = VolumeId([7; 16]);
    for ((life, sequence), expected) in
        [((2, 5), (2, 5)), ((2, 9), (2, 9)), ((2, 7), (2, 9)), ((1, 99), (2, 9)), ((3, 1), (3, 1))]
    {
        let position = Position { life: Life(life), ..position(sequence) };
        volume.volume.submit(Op::PeerSeen { volume: peer, position });
        volume.settle();
        let known = (Life(expected.0), Sequence(expected.1));
        assert_eq!(volume.reader.peers(), [(peer, known)]);
    }
}

/// Lazy records may be lost; the index is still completed, and the next start has nothing to replay.
#[test]
fn a_close_on_a_full_disk_still_makes_the_index_whole() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("kept"), ballot(3), &value(3, 10));
    for count in 0_u128..3_000 {
        let id = ReleaseId(count.to_be_bytes());
        volume.volume.submit(Op::ReleasePut { id, entry: bytes(1, 60) });
    }
    let under = bench.path.join("log");
    let fault = bench.disk.inject(Fault {
        under,
        call: Call::Write,
        skip: 1,
        times: u64::MAX,
        failure: Failure::Full,
    });
    volume.close();
    assert!(fault.end() > 0);
    let (volume, report) = bench.open().unwrap();
    assert_eq!(report.replayed_records, 0);
    assert_eq!(volume.reader.rows(&RowScan::all(Epoch::FIRST, None, 10)).unwrap().rows.len(), 1);
}
