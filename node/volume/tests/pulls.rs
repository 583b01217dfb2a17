//! A peer's row is pulled as its late accept would be taken: refused by floor, bound, promise, seal, epoch,
//! clock and standing, and committed only if it is at its source.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;

use sherd_core::env::Clock;
use sherd_core::id::{Ballot, BucketId, Epoch, Life, ProposerId, Timestamp};
use sherd_core::message::{AdoptedRow, Control, PulledRow, RowScan, UnsettledKind};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{EncodedValue, Refusal, RowHead};
use sherd_volume::error::Error;
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::request::Op;
use support::*;

fn pulled(ballot: Ballot, value: &EncodedValue, committed: bool) -> PulledRow {
    let digest = value.traits().unwrap().digest;
    PulledRow { head: RowHead { ballot, digest, committed }, value: value.clone() }
}

fn row_of(volume: &mut Driver, name: &str) -> Option<RowHead> {
    volume.read(&object(name)).unwrap().result.unwrap().row.map(|row| row.head)
}

fn listed(volume: &Driver, kind: UnsettledKind) -> usize {
    volume.reader.unsettled(kind, None, 100).unwrap().rows.len()
}

#[test]
fn a_volume_pulls_a_row_as_it_would_take_its_late_accept() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.control(Control::RaiseFloor { floor: ballot(5) }).unwrap().unwrap();
    volume.prepare(&object("promised"), ballot(9)).unwrap().result.unwrap();
    volume.write(&object("newer"), ballot(9), &value(9, 10));
    for (name, count, is_taken) in [
        ("low", 4, false),
        ("low", 5, false),
        ("low", 6, true),
        ("promised", 8, false),
        ("promised", 9, true),
        ("newer", 10, true),
    ] {
        let answer = volume.pull(&object(name), &pulled(ballot(count), &value(count, 10), true)).unwrap();
        assert_eq!(answer.result.is_ok(), is_taken, "{name} at {count}: {answer:?}");
        if !is_taken {
            assert!(matches!(answer.result, Err(Refusal::Below { bound }) if bound >= ballot(5)));
        }
        let held = row_of(&mut volume, name).map(|row| (row.ballot, row.committed));
        assert_eq!(held == Some((ballot(count), true)), is_taken, "{name} at {count}: {held:?}");
    }
    let inline = volume.reader.inline(&target(&object("low")), ballot(6), Source::Disk);
    assert_eq!(inline.and_then(Lookup::or_busy).unwrap(), bytes(6, 10));
}

#[test]
fn a_pull_changes_no_row_that_is_newer_and_breaks_no_later_promise() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(9), &value(9, 10));
    let older = pulled(ballot(8), &value(8, 10), true);
    volume.pull(&object("a"), &older).unwrap().result.expect("the volume has more than that");
    let held = row_of(&mut volume, "a").unwrap();
    assert_eq!((held.ballot, held.committed), (ballot(9), false), "nothing says that it is committed");
    // The pulled ballot is the key's promise.
    volume.pull(&object("b"), &pulled(ballot(20), &value(20, 10), false)).unwrap().result.unwrap();
    let below = volume.accept(&object("b"), ballot(19), &value(19, 10)).unwrap().result;
    assert_eq!(below, Err(Refusal::Below { bound: ballot(20) }));
}

#[test]
fn a_pulled_row_is_committed_only_if_its_source_knew_that() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let row = value(7, 10);
    volume.pull(&object("a"), &pulled(ballot(7), &row, false)).unwrap().result.unwrap();
    assert!(!row_of(&mut volume, "a").unwrap().committed);
    assert_eq!(listed(&volume, UnsettledKind::Uncommitted), 1);
    volume.pull(&object("a"), &pulled(ballot(7), &row, false)).unwrap().result.unwrap();
    assert!(!row_of(&mut volume, "a").unwrap().committed);
    volume.pull(&object("a"), &pulled(ballot(7), &row, true)).unwrap().result.unwrap();
    assert!(row_of(&mut volume, "a").unwrap().committed, "an equal row takes over the flag");
    assert_eq!(listed(&volume, UnsettledKind::Uncommitted), 0);
    assert_eq!(listed(&volume, UnsettledKind::Missed), 1, "nothing says that all volumes have it");
    volume.pull(&object("a"), &pulled(ballot(7), &row, false)).unwrap().result.unwrap();
    assert!(row_of(&mut volume, "a").unwrap().committed, "and keeps it");
    bench.kill();
    let mut volume = bench.reopen();
    let held = row_of(&mut volume, "a").unwrap();
    assert_eq!((held.ballot, held.committed), (ballot(7), true), "durable when it was answered");
}

#[test]
fn a_row_at_or_below_the_restart_bound_is_not_pulled() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 10));
    bench.kill();
    let mut volume = bench.reopen();
    let bound = match volume.pull(&object("b"), &pulled(ballot(2), &value(2, 10), true)).unwrap().result {
        Err(Refusal::Below { bound }) => bound,
        other => panic!("it may have promised more: {other:?}"),
    };
    assert_eq!(row_of(&mut volume, "b"), None);
    let above = Ballot { time: bound.time.plus_ms(1), proposer: ProposerId(1) };
    volume.pull(&object("b"), &pulled(above, &value(2, 10), true)).unwrap().result.unwrap();
    assert_eq!(row_of(&mut volume, "b").unwrap().ballot, above);
}

#[test]
fn no_row_is_pulled_under_a_seal_in_an_older_epoch_or_far_ahead_of_the_clock() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let row = pulled(ballot(3), &value(3, 10), true);
    let seal = Control::Seal { bucket: BUCKET, deletion: change(1), epoch: Epoch(1) };
    volume.control(seal).unwrap().unwrap();
    assert_eq!(volume.pull(&object("a"), &row).unwrap().result, Err(Refusal::Sealed));
    volume.control(Control::Unseal { bucket: BUCKET, deletion: change(1) }).unwrap().unwrap();
    let latest = Timestamp::from_ms(bench.clock.wall_ms());
    let ahead = Ballot { time: latest.plus_ms(3_600_000), proposer: ProposerId(1) };
    let refused = volume.pull(&object("a"), &pulled(ahead, &value(3, 10), true)).unwrap().result;
    assert!(matches!(refused, Err(Refusal::TooFarAhead { .. })), "{refused:?}");
    let slot = target(&object("a")).slot;
    volume.control(Control::RecordEpoch { slot, epoch: Epoch(5) }).unwrap().unwrap();
    let refused = volume.pull(&object("a"), &row).unwrap().result;
    assert_eq!(refused, Err(Refusal::StaleEpoch { epoch: Epoch(5) }));
    let scan = RowScan::all(Epoch(5), None, 10);
    assert_eq!(volume.reader.rows(&scan).unwrap().rows, []);
}

#[test]
fn a_value_that_is_not_what_its_digest_says_is_not_pulled() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let mut row = pulled(ballot(3), &value(3, 10), true);
    row.head.digest = [0; 32];
    let refused = volume.pull(&object("a"), &row);
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert_eq!(row_of(&mut volume, "a"), None);
}

#[test]
fn a_volume_that_takes_no_accepts_pulls_nothing() {
    let bench = Bench::new(1);
    let row = pulled(ballot(3), &value(3, 10), true);
    let (volume, _) = bench.open_volume().unwrap();
    let mut unconfirmed = Driver::unconfirmed(volume, Arc::clone(&bench.clock));
    assert_eq!(unconfirmed.pull(&object("a"), &row).unwrap().result, Err(Refusal::Recovering));
    unconfirmed.reader.declare_lost("a test", Life(2)).unwrap();
    drop(unconfirmed);
    bench.kill();
    let (mut volume, _) = bench.open().unwrap();
    assert_eq!(
        volume.pull(&object("a"), &row).unwrap().result,
        Err(Refusal::Recovering),
        "its state is lost"
    );
    volume.volume.begin_life(Life(9)).unwrap();
    let guarantees = Guarantees { floor: ballot(10), ..Guarantees::default() };
    let seals = vec![(BucketId([8; 16]), vec![change(1)])];
    volume.control(Control::TakeGuarantees { guarantees, seals }).unwrap().unwrap();
    let below = volume.pull(&object("a"), &row).unwrap().result;
    assert_eq!(below, Err(Refusal::Below { bound: ballot(10) }), "a recovering one pulls above its floor");
    let above = volume.pull(&object("a"), &pulled(ballot(11), &value(11, 10), true)).unwrap();
    assert_eq!((above.result, above.from.votes), (Ok(()), false));
}

#[test]
fn a_volume_that_votes_adopts_nothing() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let PulledRow { head, value } = pulled(ballot(3), &value(3, 10), true);
    let (held, done) = slot();
    let rows = vec![AdoptedRow { key: object("a"), head, value, is_missed: false }];
    volume.volume.submit(Op::Adopt { rows, done });
    volume.run();
    let refused = held.lock().take();
    assert!(matches!(refused, Some(Err(Error::Corrupt { .. }))), "{refused:?}");
    assert_eq!(row_of(&mut volume, "a"), None);
}
