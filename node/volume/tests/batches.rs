//! Decisions of one batch: which answers wait for its sync, which operations it holds, and which begin the
//! next one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;

use bytes::Bytes;

use sherd_core::heal::HealId;
use sherd_core::id::{Ballot, ChangeId, Epoch, Life, ProposerId, Timestamp};
use sherd_core::limits::{HASH_BLOCK_BYTES, INLINE_BYTES_MAX, VALUE_BYTES_MAX};
use sherd_core::message::{AdoptedRow, Answer, Control, PulledRow, RowScan, UnsettledKind, ValueLimit};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{Accept, EncodedValue, Prepare, Refusal, RowHead, Vote};
use sherd_volume::disk::Disk;
use sherd_volume::disk::faulty::{Call, Failure, Fault, InjectedFault};
use sherd_volume::error::Error;
use sherd_volume::options::Options;
use sherd_volume::request::Op;
use support::*;

/// A ballot some seconds after the start.
fn seconds(count: u64) -> Ballot {
    Ballot { time: Timestamp::from_ms(START_MS + count * 1_000), ..ballot(0) }
}

/// Submits an operation; whether it began the next batch, and was taken.
type Next<'a> = &'a dyn Fn(&mut Driver) -> bool;

fn failing_sync(bench: &Bench) -> InjectedFault {
    let under = bench.path.join("log");
    bench.disk.inject(Fault { under, call: Call::Sync, skip: 0, times: 1, failure: Failure::Full })
}

fn is_held<R>(answer: &Held<R>) -> bool {
    answer.lock().is_none()
}

fn is_full<R>(answer: &Held<R>) -> bool {
    matches!(answer.lock().take(), Some(Err(Error::Full)))
}

fn submit_prepare(volume: &mut Driver, name: &str, ballot: Ballot) -> Held<Answer<Vote>> {
    let (held, done) = slot();
    let (target, prepare) = (target(&object(name)), Prepare { ballot });
    volume.volume.submit(Op::Prepare { target, prepare, values: ValueLimit::NOTHING, done });
    held
}

fn submit_read(volume: &mut Driver, name: &str) -> Held<Answer<Vote>> {
    let (held, done) = slot();
    volume.volume.submit(Op::Read { target: target(&object(name)), values: ValueLimit::NOTHING, done });
    held
}

fn submit_accept(
    volume: &mut Driver,
    name: &str,
    ballot: Ballot,
    value: EncodedValue,
    heal: Option<(HealId, Bytes)>,
) -> Held<Answer<()>> {
    let (held, done) = slot();
    let accept = Accept {
        ballot,
        value,
        introduces: Vec::new(),
        finishes: false,
        positions: Arc::default(),
        origin: sherd_core::register::ValueOrigin::default(),
    };
    volume.volume.submit(Op::Accept { target: target(&object(name)), accept, heal, done });
    held
}

fn submit_shard(volume: &mut Driver, number: u64, length: usize) -> Held<()> {
    let (held, done) = slot();
    let (target, payload) = (target(&object("shards")), vec![bytes(number, length)]);
    volume.volume.submit(Op::PutShard { shard: shard(number, 0), target, payload, done });
    held
}

fn submit_pulled(volume: &mut Driver, name: &str, ballot: Ballot, value: EncodedValue) -> Held<Answer<()>> {
    let digest = value.traits().unwrap().digest;
    let row = PulledRow { head: RowHead { ballot, digest, committed: true }, value };
    let (held, done) = slot();
    volume.volume.submit(Op::Pull { target: target(&object(name)), row, done });
    held
}

fn submit_floor(volume: &mut Driver, floor: Ballot) -> Held<Answer<Guarantees>> {
    let (held, done) = slot();
    volume.volume.submit(Op::Control { control: Control::RaiseFloor { floor }, done });
    held
}

/// A volume with a bound that covers no ballot from now on.
fn past_its_bound(bench: &Bench) -> Driver {
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 10));
    bench.clock.advance_ms(10_000);
    volume
}

#[test]
fn a_promise_waits_for_the_bound_that_another_one_brought_into_the_batch() {
    let bench = Bench::new(1);
    let mut volume = past_its_bound(&bench);
    let fault = failing_sync(&bench);
    let first = submit_prepare(&mut volume, "b", seconds(10));
    let second = submit_prepare(&mut volume, "c", seconds(10));
    volume.volume.step();
    assert!(is_full(&first));
    assert!(is_full(&second), "a crash would forget this promise");
    drop(fault);
}

#[test]
fn a_promise_above_the_bound_of_its_batch_brings_a_higher_one() {
    let bench = Bench::new(1);
    let mut volume = past_its_bound(&bench);
    let low = submit_prepare(&mut volume, "b", seconds(10));
    let high = submit_prepare(&mut volume, "c", seconds(200));
    volume.volume.step();
    for answer in [low, high] {
        assert!(matches!(answer.lock().take(), Some(Ok(Answer { result: Ok(_), .. }))));
    }
    bench.kill();
    let mut volume = bench.reopen();
    let again = volume.prepare(&object("c"), seconds(200)).unwrap().result;
    assert!(matches!(again, Err(Refusal::Below { .. })), "{again:?}");
}

#[test]
fn an_answer_that_carries_a_floor_waits_for_it() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(5), &value(1, 10));
    for prepares in [true, false] {
        let fault = failing_sync(&bench);
        let raised = submit_floor(&mut volume, ballot(3));
        let answer = if prepares {
            submit_prepare(&mut volume, "a", ballot(9))
        } else {
            submit_read(&mut volume, "a")
        };
        volume.volume.step();
        assert!(is_full(&raised) && is_full(&answer), "it sent a floor that is gone");
        drop(fault);
        bench.clock.advance_ms(200);
        volume.run();
    }
    let again = volume.accept(&object("a"), ballot(5), &value(1, 10)).unwrap();
    assert_eq!(again.result, Ok(()));
}

#[test]
fn a_recorded_epoch_is_not_written_again() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 10));
    let later = sherd_core::message::Target::new(object("a"), target(&object("a")).slot, Epoch(4));
    let before = volume.reader.status().frame_records.count();
    for frames in [1, 1] {
        let (held, done) = slot();
        volume.volume.submit(Op::Read { target: later.clone(), values: ValueLimit::NOTHING, done });
        volume.volume.step();
        assert!(matches!(held.lock().take(), Some(Ok(Answer { result: Ok(_), .. }))));
        assert_eq!(volume.reader.status().frame_records.count() - before, frames);
    }
}

#[test]
fn an_answer_under_a_new_epoch_waits_for_its_record() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 10));
    let slot_of = target(&object("a")).slot;
    for epoch in [Epoch(4), Epoch(5)] {
        let later = sherd_core::message::Target::new(object("a"), slot_of, epoch);
        let fault = failing_sync(&bench);
        let (held, done) = slot();
        volume.volume.submit(if epoch == Epoch(4) {
            Op::Read { target: later, values: ValueLimit::NOTHING, done }
        } else {
            let prepare = Prepare { ballot: ballot(9) };
            Op::Prepare { target: later, prepare, values: ValueLimit::NOTHING, done }
        });
        volume.volume.step();
        assert!(is_full(&held), "{epoch:?}");
        drop(fault);
        bench.clock.advance_ms(200);
        volume.run();
    }
}

#[test]
fn operations_that_come_together_share_a_frame() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 10));
    volume.settle();
    let before = volume.reader.status().frame_records.count();
    let heal = Some((HealId([1; 16]), bytes(1, 1_000)));
    let held = [
        submit_accept(&mut volume, "b", ballot(2), value(2, 3_000), None),
        submit_accept(&mut volume, "c", ballot(2), value(2, 10), heal),
        submit_accept(&mut volume, "d", ballot(2), value(2, 0), None),
    ];
    let shard = submit_shard(&mut volume, 1, 3_000);
    assert!(!volume.volume.step().more);
    assert!(held.iter().all(|answer| matches!(answer.lock().take(), Some(Ok(_)))));
    assert!(matches!(shard.lock().take(), Some(Ok(()))));
    assert_eq!(volume.reader.status().frame_records.count() - before, 1);
}

#[test]
fn an_operation_that_does_not_fit_a_batch_begins_the_next() {
    // A frame holds 8 MiB less 12 KiB, and no batch takes the last 8 KiB of that.
    let limit = (8 << 20) - (20 << 10);
    let hashes = |payload: usize| payload / HASH_BLOCK_BYTES * 32;
    for left in [6 << 10, 20 << 10] {
        let mut bench = Bench::new(1);
        bench.options = Options { segment_bytes: 64 << 20, ballast_bytes: 0, ..bench.options };
        let mut volume = bench.reopen();
        volume.write(&object("a"), ballot(1), &value(1, 10));
        let inline = INLINE_BYTES_MAX as usize;
        let heal = || Some((HealId([1; 16]), bytes(1, 4_096)));
        let nexts: [(&str, Next<'_>); 4] = [
            ("shard", &|volume| begins_the_next(volume, |v| submit_shard(v, 9, 200_000))),
            ("accept", &|volume| {
                begins_the_next(volume, |v| submit_accept(v, "b", ballot(2), value(2, inline), None))
            }),
            ("accept with a heal", &|volume| {
                begins_the_next(volume, |v| submit_accept(v, "b", ballot(3), value(2, inline), heal()))
            }),
            ("pulled row", &|volume| {
                begins_the_next(volume, |v| submit_pulled(v, "b", ballot(5), value(3, inline)))
            }),
        ];
        let large: (&str, Next<'_>) = ("large value", &|volume| {
            begins_the_next(volume, |v| submit_accept(v, "b", ballot(6), large_value(4), None))
        });
        for (name, next) in nexts.into_iter().chain((left < 8 << 10).then_some(large)) {
            let length = (limit - left - hashes(limit)) / 2;
            let first = submit_shard(&mut volume, 1, length);
            submit_shard(&mut volume, 2, length);
            assert!(next(&mut volume), "{name}: with {left} left it begins the next batch, and is taken");
            assert!(matches!(first.lock().take(), Some(Ok(()))), "{name}: the batch before it was written");
        }
    }
}

/// Whether an operation is left for the next batch, and then taken.
fn begins_the_next<R>(volume: &mut Driver, submit: impl FnOnce(&mut Driver) -> Held<R>) -> bool {
    let held = submit(volume);
    let is_left = volume.volume.step().more && is_held(&held);
    volume.run();
    is_left && matches!(held.lock().take(), Some(Ok(_)))
}

#[test]
fn a_request_over_its_limit_is_refused_and_one_at_it_is_taken() {
    let mut bench = Bench::new(1);
    bench.options.segment_bytes = 64 << 20;
    let mut volume = bench.reopen();
    let inline = INLINE_BYTES_MAX as usize;
    volume.write(&object("a"), ballot(1), &value(1, inline));
    let over = volume.accept(&object("a"), ballot(2), &value(2, inline + 1));
    assert!(matches!(over, Err(Error::Corrupt { .. })), "{over:?}");
    let head = EncodedValue::new(bytes(1, VALUE_BYTES_MAX + 1), Bytes::new());
    let over = volume.accept(&object("a"), ballot(2), &head);
    assert!(matches!(&over, Err(Error::Corrupt { what }) if what == "value over its limit"), "{over:?}");
    volume.heal_put(HealId([1; 16]), &bytes(1, 4_096)).unwrap();
    let over = volume.heal_put(HealId([2; 16]), &bytes(1, 4_097));
    assert!(matches!(over, Err(Error::Corrupt { .. })), "{over:?}");
    assert_eq!(volume.reader.heals(None, 10).unwrap().len(), 1);
}

#[test]
fn an_mrf_entry_that_is_too_large_does_not_cost_its_accept() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.prepare(&object("a"), ballot(1)).unwrap().result.unwrap();
    for (id, length) in [(1, 4_096), (2, 4_097)] {
        let heal = Some((HealId([id; 16]), bytes(1, length)));
        let held = submit_accept(&mut volume, "a", ballot(1), value(1, 10), heal);
        volume.run();
        assert!(matches!(held.lock().take(), Some(Ok(Answer { result: Ok(()), .. }))));
    }
    let heals = volume.reader.heals(None, 10).unwrap();
    assert_eq!(heals, [(HealId([1; 16]), bytes(1, 4_096))]);
}

fn submit_drop(volume: &mut Driver, name: &str, ballot: Ballot) -> Held<Answer<()>> {
    let (held, done) = slot();
    volume.volume.submit(Op::Drop { target: target(&object(name)), ballot, done });
    held
}

#[test]
fn a_drop_takes_a_tombstone_under_the_floor_and_nothing_else() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("live"), ballot(1), &value(1, 10));
    volume.write(&object("gone"), ballot(1), &tombstone(1));
    volume.write(&object("above"), ballot(9), &tombstone(9));
    volume.control(Control::RaiseFloor { floor: ballot(5) }).unwrap().unwrap();
    for (name, count, stays) in [("live", 1, true), ("above", 9, true), ("gone", 2, true), ("gone", 1, false)]
    {
        volume.drop_row(&object(name), ballot(count)).unwrap().result.unwrap();
        let row = volume.read(&object(name)).unwrap().result.unwrap().row;
        assert_eq!(row.is_some(), stays, "{name} at {count}");
    }
}

#[test]
fn a_drop_takes_any_row_under_a_final_seal_and_none_under_another() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let register = object("left");
    volume.write(&register, ballot(3), &value(3, 10));
    let heads = |volume: &Driver| -> Vec<Ballot> {
        let scan = RowScan { want_value: false, ..RowScan::all(Epoch::FIRST, None, 10) };
        let page = volume.volume.reader().rows(&scan).unwrap();
        page.rows.iter().map(|row| row.row.head.ballot).collect()
    };
    let deletion = ChangeId { made: Timestamp::from_ms(START_MS), proposer: ProposerId(1) };
    let held = Control::Seal { bucket: register.bucket, deletion, epoch: Epoch::FIRST };
    volume.control(held).unwrap().unwrap();
    volume.drop_row(&register, ballot(3)).unwrap().result.unwrap();
    assert_eq!(heads(&volume), [ballot(3)], "the deletion may be taken back");
    volume.control(Control::SealForEver { bucket: register.bucket }).unwrap().unwrap();
    volume.drop_row(&register, ballot(2)).unwrap().result.unwrap();
    assert_eq!(heads(&volume), [ballot(3)], "it is another row");
    volume.drop_row(&register, ballot(3)).unwrap().result.unwrap();
    assert_eq!(heads(&volume), []);
    let uncommitted = volume.volume.reader().unsettled(UnsettledKind::Uncommitted, None, 10).unwrap();
    assert_eq!(uncommitted.rows, []);
    drop(volume);
    assert_eq!(heads(&bench.reopen()), [], "it stays dropped");
}

#[test]
fn a_drop_that_comes_with_another_is_answered_when_that_is_durable() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("gone"), ballot(1), &tombstone(1));
    volume.control(Control::RaiseFloor { floor: ballot(5) }).unwrap().unwrap();
    let fault = failing_sync(&bench);
    let first = submit_drop(&mut volume, "gone", ballot(1));
    let second = submit_drop(&mut volume, "gone", ballot(1));
    volume.volume.step();
    assert!(is_full(&first) && is_held(&second));
    drop(fault);
    bench.clock.advance_ms(200);
    volume.run();
    assert!(matches!(second.lock().take(), Some(Ok(_))));
    assert!(volume.read(&object("gone")).unwrap().result.unwrap().row.is_none());
}

#[test]
fn hashes_count_towards_what_fits_a_batch() {
    let mut bench = Bench::new(1);
    bench.options = Options { segment_bytes: 64 << 20, ballast_bytes: 0, ..bench.options };
    let mut volume = bench.reopen();
    let (small, limit) = (100 << 10, (8 << 20) - (20 << 10));
    let first = submit_shard(&mut volume, 1, small);
    // With its 125 hashes the shard is too large for the batch.
    assert!(begins_the_next(&mut volume, |v| submit_shard(v, 2, limit - small - (3 << 10))));
    assert!(matches!(first.lock().take(), Some(Ok(()))));
}

#[test]
fn rows_are_adopted_in_as_few_frames_as_hold_them() {
    let mut bench = Bench::new(1);
    bench.options = Options { segment_bytes: 64 << 20, ballast_bytes: 0, ..bench.options };
    bench.reopen().reader.declare_lost("a test", Life(2)).unwrap();
    bench.kill();
    let (mut volume, _) = bench.open().unwrap();
    volume.volume.begin_life(Life(9)).unwrap();
    let take = Control::TakeGuarantees { guarantees: Guarantees::default(), seals: Vec::new() };
    volume.control(take).unwrap().unwrap();
    volume.settle();
    let row = |count: u64| {
        let value = value(count, INLINE_BYTES_MAX as usize);
        let digest = value.traits().unwrap().digest;
        let head = RowHead { ballot: ballot(count), digest, committed: true };
        AdoptedRow { key: object(&format!("row-{count}")), head, value, is_missed: false }
    };
    let (held, done) = slot::<Answer<()>>();
    volume.volume.submit(Op::Adopt { rows: (1..=300).map(row).collect(), done });
    let before = volume.reader.status().frame_records.count();
    volume.run();
    assert!(matches!(held.lock().take(), Some(Ok(Answer { result: Ok(()), .. }))));
    assert_eq!(volume.reader.status().frame_records.count() - before, 2, "ten megabytes");
}

#[test]
fn a_row_is_pulled_when_it_is_durable_and_not_before() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.settle();
    let fault = failing_sync(&bench);
    let held = submit_pulled(&mut volume, "a", ballot(1), value(1, 10));
    volume.volume.step();
    assert!(is_full(&held), "a crash would take it back");
    drop(fault);
}

#[test]
fn a_full_volume_repairs_a_row_and_takes_what_is_smaller() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let (held, smaller) = (value(1, 3_000), value(2, 1_000));
    volume.write(&object("a"), ballot(1), &held);
    let space = bench.disk.space(&bench.path).unwrap();
    bench.disk.set_capacity(space.total - space.free);
    bench.clock.advance_ms(200);
    volume.run();
    assert!(volume.reader.status().full);
    let mut accepts = |count: u64, value: &EncodedValue| {
        volume.prepare(&object("a"), ballot(count)).unwrap().result.unwrap();
        volume.accept(&object("a"), ballot(count), value)
    };
    assert!(matches!(accepts(2, &value(3, 3_000)), Err(Error::Full)), "another one of that size");
    assert!(matches!(accepts(3, &held), Ok(Answer { result: Ok(()), .. })), "the same at another ballot");
    assert!(matches!(accepts(4, &smaller), Ok(Answer { result: Ok(()), .. })), "one that takes less");
    // Until A volumes hold what some of them took while there was room, the key cannot be read.
    let elsewhere = value(5, 3_000);
    assert!(matches!(accepts(5, &elsewhere), Err(Error::Full)), "who proposes it first");
    let finished = volume.accept_for(&object("a"), ballot(5), &elsewhere, true);
    assert!(matches!(finished, Ok(Answer { result: Ok(()), .. })), "{finished:?}");
    volume.prepare(&object("b"), ballot(6)).unwrap().result.unwrap();
    let finished = volume.accept_for(&object("b"), ballot(6), &elsewhere, true);
    assert!(matches!(finished, Ok(Answer { result: Ok(()), .. })), "{finished:?}");
}

/// A heal proposes a committed value unchanged, too, and does not say that it finishes it: the volume's
/// reserve is not for all that it missed.
#[test]
fn a_full_volume_takes_what_it_missed_from_others_only_as_long_as_it_is_not_committed() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("held"), ballot(1), &value(1, 100));
    volume.commit(&object("held"), ballot(1));
    volume.settle();
    let space = bench.disk.space(&bench.path).unwrap();
    bench.disk.set_capacity(space.total - space.free);
    bench.clock.advance_ms(200);
    volume.run();
    assert!(volume.reader.status().full);
    let elsewhere = value(2, 3_000);
    // A row that is committed here with an older value, and one that is not here.
    for (key, count) in [(object("held"), 2), (object("missed"), 4)] {
        for (is_committed, count) in [(true, count), (false, count + 1)] {
            volume.prepare(&key, ballot(count)).unwrap().result.unwrap();
            let before = volume.reader.status().frame_bytes;
            let taken = volume.accept_for(&key, ballot(count), &elsewhere, !is_committed);
            let has_grown = volume.reader.status().frame_bytes > before;
            match taken {
                Err(Error::Full) => assert!(is_committed && !has_grown, "ballot {count}"),
                Ok(Answer { result: Ok(()), .. }) => assert!(!is_committed && has_grown, "ballot {count}"),
                other => panic!("ballot {count}: {other:?}"),
            }
            let row = volume.read(&key).unwrap().result.unwrap().row;
            let ballots = row.map(|row| (row.head.ballot, row.head.committed));
            let held = (key == object("held")).then_some((ballot(1), true));
            assert_eq!(ballots, if is_committed { held } else { Some((ballot(count), false)) });
        }
    }
}

#[test]
fn replaced_bytes_of_a_batch_are_counted_as_a_rebuild_counts_them() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("b"), ballot(1), &value(1, 500));
    // One batch with several records of a row that is new, and of one that is not.
    let mut held = Vec::new();
    for count in 2..5 {
        held.push(submit_accept(&mut volume, "a", ballot(count), value(count, 1_000), None));
        held.push(submit_accept(&mut volume, "b", ballot(count), value(count, 2_000), None));
    }
    volume.volume.step();
    assert!(held.iter().all(|answer| matches!(answer.lock().take(), Some(Ok(_)))));
    volume.write(&object("a"), ballot(9), &value(9, 100));
    volume.settle();
    let counted = volume.reader.status().live_bytes;
    assert!((2_100..4_000).contains(&counted), "two rows, of 2000 and of 100 bytes: {counted}");
    bench.kill();
    bench.index.wipe();
    let mut volume = bench.reopen();
    volume.settle();
    assert_eq!(volume.reader.status().live_bytes, counted + 40, "and an opening");
}

#[test]
fn a_commit_of_the_row_before_says_nothing_of_the_one_that_its_frame_brings() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 10));
    volume.prepare(&object("a"), ballot(2)).unwrap().result.unwrap();
    let (target, positions) = (target(&object("a")), Arc::default());
    volume.volume.submit(Op::Commit { target, ballot: ballot(1), is_everywhere: true, positions });
    let held = submit_accept(&mut volume, "a", ballot(2), value(2, 10), None);
    volume.volume.step();
    assert!(matches!(held.lock().take(), Some(Ok(_))));
    let found = |volume: &mut Driver| {
        let row = volume.read(&object("a")).unwrap().result.unwrap().row.unwrap();
        (row.head.ballot, row.head.committed)
    };
    assert_eq!(found(&mut volume), (ballot(2), false));
    volume.settle();
    bench.kill();
    bench.index.wipe();
    let mut volume = bench.reopen();
    assert_eq!(found(&mut volume), (ballot(2), false), "nor after a replay");
}

#[test]
fn a_refused_accept_leaves_no_promise_behind() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 10));
    let far = volume.accept(&object("a"), seconds(100_000), &value(2, 10)).unwrap().result;
    assert!(matches!(far, Err(Refusal::TooFarAhead { .. })), "{far:?}");
    volume.write(&object("a"), ballot(2), &value(2, 10));
}
