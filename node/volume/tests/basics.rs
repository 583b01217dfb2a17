//! A volume without faults: it keeps acknowledged data over restarts, compaction and the loss of its index,
//! and judges as an acceptor.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use sherd_core::id::{Epoch, Life, Sequence, Slot, VolumeId};
use sherd_core::message::{Answer, Control, Target, UnsettledKind, UnsettledRow, ValueLimit};
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::{Accept, Positions, Prepare, Refusal};
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::request::Op;
use sherd_volume::write::upkeep::State;
use support::*;

#[test]
fn an_acknowledged_row_is_read_back_after_a_restart() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 500));
    volume.write(&object("large"), ballot(2), &large_value(2));
    volume.commit(&object("a"), ballot(1));
    volume.settle();
    bench.kill();
    let mut volume = bench.reopen();
    let row = volume.read(&object("a")).unwrap().result.unwrap().row.unwrap();
    assert_eq!(row.value, Some(value(1, 500).head));
    assert!(row.head.committed);
    assert_eq!(
        volume.reader.inline(&target(&object("a")), ballot(1), Source::Disk).unwrap().or_busy().unwrap(),
        value(1, 500).inline
    );
    let row = volume.read(&object("large")).unwrap().result.unwrap().row.unwrap();
    assert_eq!(row.value, Some(large_value(2).head));
    assert!(!row.head.committed);
    let unsettled = volume.reader.unsettled(UnsettledKind::Uncommitted, None, 10).unwrap();
    assert_eq!(unsettled.rows, [UnsettledRow { key: object("large"), ballot: ballot(2) }]);
}

/// The listed keys, each with whether it is committed.
fn listed(volume: &Driver) -> Vec<(sherd_core::id::RegisterKey, bool)> {
    let of_kind = |kind| volume.reader.unsettled(kind, None, 10).unwrap().rows.into_iter().map(|row| row.key);
    let missed = of_kind(UnsettledKind::Missed).map(|key| (key, true));
    of_kind(UnsettledKind::Uncommitted).map(|key| (key, false)).chain(missed).collect()
}

#[test]
fn a_committed_row_that_another_volume_may_lack_stays_listed_until_it_is_everywhere() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for (name, n) in [("a", 1), ("b", 2), ("c", 3)] {
        volume.write(&object(name), ballot(n), &value(1, 500));
    }
    volume.commit_missed(&object("a"), ballot(1));
    volume.commit_missed(&object("b"), ballot(2));
    volume.commit(&object("c"), ballot(3));
    volume.settle();
    let both = [(object("a"), true), (object("b"), true)];
    assert_eq!(listed(&volume), both);
    assert!(volume.read(&object("a")).unwrap().result.unwrap().row.unwrap().head.committed);
    assert_eq!(volume.reader.status().missed_rows, 2);
    // A restart remembers it, and a rebuilt index too.
    bench.kill();
    let volume = bench.reopen();
    assert_eq!((listed(&volume), volume.reader.status().missed_rows), (both.to_vec(), 2));
    bench.kill();
    bench.index.wipe();
    let mut volume = bench.reopen();
    assert_eq!((listed(&volume), volume.reader.status().missed_rows), (both.to_vec(), 2));
    // A row that is everywhere stays so, with any later hint.
    volume.commit(&object("a"), ballot(1));
    volume.commit_missed(&object("a"), ballot(1));
    // A later write takes the place of the other: a minute later, for a restart refuses ballots of the next
    // seconds.
    let late = ballot(60_000 << 16);
    volume.write(&object("b"), late, &value(2, 500));
    volume.commit(&object("b"), ballot(2));
    volume.settle();
    assert_eq!(listed(&volume), [(object("b"), false)]);
    volume.commit(&object("b"), late);
    volume.settle();
    bench.kill();
    let volume = bench.reopen();
    assert_eq!((listed(&volume), volume.reader.status().missed_rows), (Vec::new(), 0));
}

#[test]
fn rows_of_either_kind_are_listed_to_the_last_page() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for n in 1..=6 {
        volume.write(&object(&format!("{n}")), ballot(n), &value(n, 500));
        if n % 2 == 0 {
            volume.commit_missed(&object(&format!("{n}")), ballot(n));
        }
    }
    volume.settle();
    for (kind, keys) in
        [(UnsettledKind::Uncommitted, ["1", "3", "5"]), (UnsettledKind::Missed, ["2", "4", "6"])]
    {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = volume.reader.unsettled(kind, after.as_ref(), 2).unwrap();
            found.extend(page.rows.into_iter().map(|row| row.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, keys.map(object));
    }
}

/// Fills segments with what is needed no more, and compacts them.
fn compact_behind_rubbish(volume: &mut Driver, numbers: std::ops::Range<u64>) {
    for number in numbers {
        volume.put_shard(shard(number, 0), &bytes(number, 20_000)).unwrap();
        volume.delete_shard(shard(number, 0)).unwrap();
    }
    volume.settle();
    volume.reader.flush().unwrap();
    assert!(volume.compact() > 0);
}

#[test]
fn compaction_keeps_what_was_said_of_missed_rows() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 500));
    volume.write(&object("b"), ballot(2), &value(1, 500));
    volume.commit_missed(&object("a"), ballot(1));
    volume.commit_missed(&object("b"), ballot(2));
    compact_behind_rubbish(&mut volume, 0..60);
    // Compaction's record marks it as missed; this hint takes that back.
    volume.commit(&object("b"), ballot(2));
    volume.settle();
    for round in 1..4 {
        assert_eq!(listed(&volume), [(object("a"), true)], "round {round}");
        compact_behind_rubbish(&mut volume, round * 60..(round + 1) * 60);
        bench.kill();
        bench.index.wipe();
        volume = bench.reopen();
    }
    assert!(volume.read(&object("b")).unwrap().result.unwrap().row.unwrap().head.committed);
}

#[test]
fn a_volume_that_was_opened_neither_votes_nor_takes_a_write_before_it_is_confirmed() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 0));
    bench.kill();
    let (opened, _) = bench.open_volume().unwrap();
    let mut volume = Driver::unconfirmed(opened, std::sync::Arc::clone(&bench.clock));
    assert_eq!(volume.reader.status().state, State::Unconfirmed);
    assert!(!volume.reader.answerer().votes);
    assert!(volume.reader.memory().is_whole, "it still answers with its memory");
    assert_eq!(volume.read(&object("a")).unwrap().result, Err(Refusal::Recovering));
    assert_eq!(volume.prepare(&object("a"), ballot(9)).unwrap().result, Err(Refusal::Recovering));
    let write = volume.accept(&object("a"), ballot(9), &value(2, 0)).unwrap();
    assert_eq!(write.result, Err(Refusal::Recovering));
    assert_eq!(volume.control(Control::RaiseFloor { floor: ballot(9) }).unwrap(), Err(Refusal::Recovering));
    assert!(volume.control(finish()).is_err(), "it lost nothing");
    volume.volume.confirm();
    assert_eq!(volume.reader.status().state, State::Serving);
    assert!(volume.read(&object("a")).unwrap().result.unwrap().row.is_some());
}

/// The size of positions is measured: three peers of a set of four, with a row of 4 KiB.
#[test]
fn positions_that_come_with_an_accept_are_logged_with_its_row() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.prepare(&object("a"), ballot(1)).unwrap().result.unwrap();
    let frame = |volume: &mut Driver, count: u64, positions: Positions| {
        let before = volume.reader.status().frame_bytes;
        let value = large_value(count);
        let accept = Accept {
            ballot: ballot(count),
            value,
            introduces: Vec::new(),
            finishes: false,
            positions,
            origin: sherd_core::register::ValueOrigin::default(),
        };
        let (slot, done) = slot();
        volume.volume.submit(Op::Accept { target: target(&object("a")), accept, heal: None, done });
        volume.run();
        assert_eq!(slot.lock().take().unwrap().unwrap().result, Ok(()));
        volume.reader.status().frame_bytes - before
    };
    let at = |peer: u8, durable: u64| {
        let position = Position { life: Life(2), opening: OpeningId(4), durable: Sequence(durable) };
        (VolumeId([peer; 16]), position)
    };
    let alone = frame(&mut volume, 2, Positions::default());
    let said = [
        at(5, 70),
        at(6, 80),
        at(7, 90),
        (VOLUME, Position { life: Life(9), opening: OpeningId(4), durable: Sequence(9) }),
    ];
    let with = frame(&mut volume, 3, said.into());
    assert_eq!(with - alone, 3 * 56, "a record each, and none of itself");
    let again = frame(&mut volume, 4, said.into());
    assert_eq!(again, alone, "what is known is not written again");
    bench.kill();
    let volume = bench.reopen();
    assert_eq!(volume.reader.memory().positions, said[..3]);
    assert_eq!(volume.reader.peers(), [], "it says nothing of what the volume has of their logs");
}

#[test]
fn positions_that_come_with_a_commit_ride_with_the_next_frame() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 0));
    let said = (VolumeId([5; 16]), Position { life: Life(1), opening: OpeningId(4), durable: Sequence(7) });
    let (target, positions) = (target(&object("a")), Positions::from([said]));
    volume.volume.submit(Op::Commit { target, ballot: ballot(1), is_everywhere: true, positions });
    volume.run();
    volume.clock.advance_ms(1_001);
    volume.run();
    bench.kill();
    assert_eq!(bench.reopen().reader.memory().positions, [said]);
}

#[test]
fn a_restart_refuses_what_may_have_been_promised() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.prepare(&object("a"), ballot(10)).unwrap().result.unwrap();
    bench.kill();
    let mut volume = bench.reopen();
    for count in [5, 10] {
        let refused = volume.accept(&object("a"), ballot(count), &value(1, 0)).unwrap().result;
        assert!(matches!(refused, Err(Refusal::Below { .. })), "{refused:?}");
    }
}

#[test]
fn a_promise_is_given_without_the_queue_once_the_bound_covers_it() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let prepare = |count| sherd_core::register::Prepare { ballot: ballot(count) };
    let key = target(&object("a"));
    assert_eq!(
        volume.reader.prepare(&key, &prepare(1), ValueLimit::USUAL, Source::Disk).unwrap(),
        Lookup::Pending
    );
    volume.prepare(&object("a"), ballot(1)).unwrap().result.unwrap();
    let Lookup::Immediate(answer) =
        volume.reader.prepare(&key, &prepare(2), ValueLimit::USUAL, Source::Disk).unwrap()
    else {
        panic!("the bound covers it");
    };
    answer.result.unwrap();
    let refused = volume.accept(&object("a"), ballot(1), &value(1, 0)).unwrap().result;
    assert!(matches!(refused, Err(Refusal::Below { .. })));
}

#[test]
fn packed_shards_come_back_by_range_and_deleted_ones_do_not() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let payload = bytes(1, 50_000);
    volume.put_shard(shard(1, 0), &payload).unwrap();
    volume.put_shard(shard(2, 3), &bytes(2, 10)).unwrap();
    assert_eq!(volume.packed(shard(1, 0)).unwrap(), payload);
    let range =
        volume.reader.packed(shard(1, 0), 100..40_000, Source::Disk).unwrap().or_busy().unwrap().concat();
    assert_eq!(range, payload[100..40_000]);
    volume.delete_shard(shard(1, 0)).unwrap();
    bench.kill();
    let volume = bench.reopen();
    assert!(volume.packed(shard(1, 0)).is_err());
    assert_eq!(volume.packed(shard(2, 3)).unwrap(), bytes(2, 10));
    assert_eq!(volume.reader.shards(None, 10).unwrap().len(), 1);
}

#[test]
fn compaction_frees_segments_and_keeps_what_lives_even_for_a_lost_index() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("old"), ballot(1), &value(7, 300));
    volume.commit(&object("old"), ballot(1));
    for round in 0..60 {
        volume.put_shard(shard(round, 0), &bytes(round, 30_000)).unwrap();
        if round >= 3 {
            volume.delete_shard(shard(round - 3, 0)).unwrap();
        }
    }
    volume.settle();
    let before = volume.reader.status().segments;
    volume.reader.flush().unwrap();
    let reclaimed = volume.compact();
    assert!(reclaimed >= 4, "{reclaimed} of {before}");
    for wipe in [false, true] {
        bench.kill();
        if wipe {
            bench.index.wipe();
        }
        let (again, report) = bench.open().unwrap();
        assert_eq!(report.lost_state, None);
        assert_eq!(report.index_rebuilt.is_some(), wipe, "{report:?}");
        let mut again = again;
        let row = again.read(&object("old")).unwrap().result.unwrap().row.unwrap();
        assert!(row.head.committed);
        assert_eq!(
            again.reader.inline(&target(&object("old")), ballot(1), Source::Disk).unwrap().or_busy().unwrap(),
            value(7, 300).inline
        );
        for round in 0..60 {
            assert_eq!(again.packed(shard(round, 0)).is_ok(), round >= 57, "shard {round}");
        }
        assert_eq!(again.compact(), 0);
    }
}

#[test]
fn compaction_takes_nothing_of_the_pool() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for count in 1..=200 {
        volume.write(&object(&format!("{count}")), ballot(count), &value(count, 100));
        volume.put_shard(shard(count, 0), &bytes(count, 10_000)).unwrap();
        volume.delete_shard(shard(count, 0)).unwrap();
    }
    volume.settle();
    volume.reader.flush().unwrap();
    let whole = bench.buffers.largest();
    let held: Vec<_> = std::iter::from_fn(|| bench.buffers.try_take(whole)).collect();
    assert!(bench.buffers.try_take(1).is_none(), "requests hold all of it");
    assert!(volume.compact() > 0);
    drop(held);
    for count in 1..=200 {
        let found = volume.reader.inline(&target(&object(&format!("{count}"))), ballot(count), Source::Disk);
        assert_eq!(found.unwrap().or_busy().unwrap(), value(count, 100).inline);
    }
}

#[test]
fn a_delete_outlives_its_segment_while_what_it_killed_is_still_in_the_log() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 20_000)).unwrap();
    for number in 10..16 {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    // The first segment stays: most of it lives. The second holds the delete, and nothing else for long.
    for number in 20..22 {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    volume.delete_shard(shard(1, 0)).unwrap();
    for number in 22..34 {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    for number in 20..34 {
        volume.delete_shard(shard(number, 0)).unwrap();
    }
    for round in 0..3 {
        volume.settle();
        volume.reader.flush().unwrap();
        assert_eq!(volume.compact() > 0, round == 0, "round {round}");
        bench.kill();
        bench.index.wipe();
        volume = bench.reopen();
        assert!(volume.packed(shard(1, 0)).is_err(), "round {round}: it is back");
        assert!(volume.packed(shard(10, 0)).is_ok());
        assert!(volume.packed(shard(25, 0)).is_err());
    }
}

#[test]
fn deletes_do_not_pile_up_once_what_they_killed_is_gone() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for number in 0..400 {
        volume.put_shard(shard(number, 0), &bytes(number, 5_000)).unwrap();
        volume.delete_shard(shard(number, 0)).unwrap();
        if number % 40 == 39 {
            volume.settle();
            volume.reader.flush().unwrap();
            volume.compact();
        }
    }
    assert!(volume.reader.status().segments <= 5, "{:?}", volume.reader.status());
}

#[test]
fn a_commit_that_only_a_hint_records_outlives_the_hints_segment() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    // The row's segment stays: most of it lives.
    volume.write(&object("a"), ballot(1), &value(1, 100));
    for number in 10..17 {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    for number in 20..34 {
        if number == 24 {
            volume.commit(&object("a"), ballot(1));
        }
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    for number in 20..34 {
        volume.delete_shard(shard(number, 0)).unwrap();
    }
    volume.settle();
    volume.reader.flush().unwrap();
    assert!(volume.compact() > 0);
    bench.kill();
    bench.index.wipe();
    let mut volume = bench.reopen();
    assert!(volume.packed(shard(10, 0)).is_ok());
    assert!(volume.read(&object("a")).unwrap().result.unwrap().row.unwrap().head.committed);
}

#[test]
fn a_prepare_under_the_first_epoch_is_answered_from_memory() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    // The first promise extends the bound, through the log.
    volume.write(&object("a"), ballot(1), &value(1, 0));
    let elsewhere = Target::new(object("b"), Slot(9), Epoch::FIRST);
    let prepare = Prepare { ballot: ballot(2) };
    let answer = volume.reader.prepare(&elsewhere, &prepare, ValueLimit::NOTHING, Source::Disk).unwrap();
    assert!(matches!(answer, Lookup::Immediate(Answer { result: Ok(_), .. })));
}

#[test]
fn a_read_under_a_new_epoch_goes_through_the_log_and_leaves_it_recorded() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 0));
    let mut newer = target(&object("a"));
    newer.epoch = Epoch(2);
    assert_eq!(volume.reader.row(&newer, ValueLimit::NOTHING, Source::Disk).unwrap(), Lookup::Pending);
    let (answer, done) = slot();
    volume.volume.submit(sherd_volume::request::Op::Read {
        target: newer.clone(),
        values: ValueLimit::NOTHING,
        done,
    });
    volume.run();
    assert!(answer.lock().take().unwrap().unwrap().result.is_ok());
    assert!(matches!(
        volume.reader.row(&newer, ValueLimit::NOTHING, Source::Disk).unwrap(),
        Lookup::Immediate(_)
    ));
    bench.kill();
    let mut volume = bench.reopen();
    let stale = volume.read(&object("a")).unwrap().result;
    assert!(matches!(stale, Err(Refusal::StaleEpoch { .. })));
}

#[test]
fn the_highest_ballot_of_any_row_is_reported_after_a_restart_that_replays_nothing() {
    let bench = Bench::new(1);
    let highest = |volume: &mut Driver| {
        let (slot, epoch) = (target(&object("a")).slot, Epoch(1));
        volume.control(Control::RecordEpoch { slot, epoch }).unwrap().unwrap().highest
    };
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(7), &value(1, 10));
    volume.close();
    let mut volume = bench.reopen();
    assert_eq!(highest(&mut volume), ballot(7));
    bench.clock.advance_ms(10_000);
    volume.write(&object("b"), ballot(5_000 << 16), &value(1, 10));
    volume.close();
    let (mut volume, report) = bench.open().unwrap();
    assert_eq!((report.replayed_records, highest(&mut volume)), (0, ballot(5_000 << 16)));
}
