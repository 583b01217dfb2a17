//! The rows that a volume shows a peer by how far that has them: listed ones above its cursor, or all in a
//! walk where the list does not say enough.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use sherd_core::id::{Epoch, Life, Sequence};
use sherd_core::limits::LOOK_ROWS_MAX;
use sherd_core::message::{Control, LookScan, ShownHead};
use sherd_core::register::Refusal;
use sherd_core::register::heal::look::PeerCursor;
use sherd_volume::error::Error;
use sherd_volume::options::Options;
use sherd_volume::read::look;
use support::*;

#[expect(clippy::unnecessary_wraps, reason = "a look may come without one")]
fn cursor_at(volume: &Driver, sequence: Sequence) -> Option<PeerCursor> {
    Some(PeerCursor { life: volume.reader.answerer().life, sequence })
}

/// All rows of a look with pages of this many rows.
fn looked_by(volume: &Driver, cursor: Option<PeerCursor>, limit: usize) -> Vec<ShownHead> {
    let mut scan = LookScan { cursor, epoch: Epoch(1), after: None, limit };
    let mut rows = Vec::new();
    loop {
        let page = look::rows_behind(&volume.reader, &scan).unwrap();
        assert!(page.rows.len() <= limit);
        rows.extend(page.rows);
        scan.after = page.next;
        if scan.after.is_none() {
            return rows;
        }
    }
}

fn looked(volume: &Driver, cursor: Option<PeerCursor>) -> Vec<ShownHead> {
    looked_by(volume, cursor, LOOK_ROWS_MAX)
}

fn names(rows: &[ShownHead]) -> Vec<&str> {
    rows.iter().map(|shown| shown.key.key.as_str()).collect()
}

/// Rows of each kind: on all volumes, missed by one, and not known committed.
fn write_each_kind(volume: &mut Driver) {
    for (count, name) in [(1, "everywhere"), (2, "missed"), (3, "open")] {
        volume.write(&object(name), ballot(count), &value(count, 10));
    }
    volume.commit(&object("everywhere"), ballot(1));
    volume.commit_missed(&object("missed"), ballot(2));
    volume.settle();
}

#[test]
fn a_cursor_above_the_horizon_is_shown_the_listed_rows_above_it() {
    let mut volume = Bench::new(1).reopen();
    let cursor = cursor_at(&volume, look::horizon(&volume.reader));
    write_each_kind(&mut volume);
    let rows = looked(&volume, cursor);
    assert_eq!(names(&rows), ["missed", "open"]);
    assert_eq!([&rows[0].head, &rows[1].head].map(|head| head.committed), [true, false]);
    assert_eq!([&rows[0].head, &rows[1].head].map(|head| head.ballot), [ballot(2), ballot(3)]);
    assert!(rows[0].sequence < rows[1].sequence);
    assert_eq!(names(&looked(&volume, cursor_at(&volume, rows[0].sequence))), ["open"]);
    assert_eq!(looked(&volume, cursor_at(&volume, rows[1].sequence)), []);
    volume.commit(&object("missed"), ballot(2));
    volume.settle();
    assert_eq!(names(&looked(&volume, cursor)), ["open"], "all volumes have it by now");
}

#[test]
fn without_a_cursor_of_this_life_all_rows_are_shown() {
    let mut volume = Bench::new(1).reopen();
    write_each_kind(&mut volume);
    let all = ["everywhere", "missed", "open"];
    assert_eq!(names(&looked(&volume, None)), all);
    let Life(life) = volume.reader.answerer().life;
    for life in [life - 1, life + 1] {
        let other = PeerCursor { life: Life(life), sequence: Sequence(u64::MAX) };
        assert_eq!(names(&looked(&volume, Some(other))), all);
    }
}

/// A new index does not say which rows found a place before.
#[test]
fn a_cursor_below_the_end_of_the_log_at_a_rebuild_is_shown_all_rows_above_it() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    write_each_kind(&mut volume);
    let end = volume.reader.answerer().durable;
    let everywhere = looked(&volume, None)[0].sequence;
    bench.kill();
    bench.index.wipe();
    let mut volume = bench.reopen();
    assert!(look::horizon(&volume.reader) >= end);
    assert_eq!(names(&looked(&volume, cursor_at(&volume, Sequence(0)))), ["everywhere", "missed", "open"]);
    assert_eq!(names(&looked(&volume, cursor_at(&volume, everywhere))), ["missed", "open"]);
    let cursor = cursor_at(&volume, look::horizon(&volume.reader));
    // Above what it may have promised before.
    bench.clock.advance_ms(10_000);
    let later = 9_000 << 16;
    for name in ["everywhere", "x", "y"] {
        volume.write(&object(name), ballot(later), &value(7, 10));
    }
    volume.commit(&object("x"), ballot(later));
    volume.commit_missed(&object("y"), ballot(later));
    volume.settle();
    assert_eq!(names(&looked(&volume, cursor)), ["everywhere", "y"]);
}

#[test]
fn a_committed_row_without_a_place_in_the_list_raises_the_horizon_and_is_shown_by_a_walk() {
    let mut bench = Bench::new(1);
    bench.options = Options { missed_rows_max: 1, ..bench.options };
    let mut volume = bench.reopen();
    let before = look::horizon(&volume.reader);
    let cursor = cursor_at(&volume, before);
    for (count, name) in [(1, "everywhere"), (2, "a"), (3, "open")] {
        volume.write(&object(name), ballot(count), &value(count, 10));
    }
    volume.commit(&object("everywhere"), ballot(1));
    volume.commit_missed(&object("a"), ballot(2));
    volume.settle();
    assert_eq!(look::horizon(&volume.reader), before, "there was a place");
    assert_eq!(names(&looked(&volume, cursor)), ["a", "open"]);

    volume.write(&object("b"), ballot(4), &value(4, 10));
    volume.commit_missed(&object("b"), ballot(4));
    volume.settle();
    let shown = looked(&volume, cursor);
    assert_eq!(names(&shown), ["a", "b", "everywhere", "open"], "a walk");
    let horizon = look::horizon(&volume.reader);
    assert_eq!(horizon, shown[1].sequence);
    assert_eq!(looked(&volume, cursor_at(&volume, horizon)), []);
    // The list has a place again, which says nothing of the row that found none.
    volume.commit(&object("a"), ballot(2));
    volume.settle();
    assert_eq!(look::horizon(&volume.reader), horizon);
    assert_eq!(names(&looked(&volume, cursor)), ["a", "b", "everywhere", "open"]);
    volume.write(&object("c"), ballot(5), &value(5, 10));
    assert_eq!(names(&looked(&volume, cursor_at(&volume, horizon))), ["c"], "an open row is always listed");
}

/// The index is behind the log, as far as it was flushed: what it does not say, the replay finds again.
#[test]
fn a_horizon_outlives_a_kill_wherever_the_index_stands() {
    for flushed_after in 0..=4 {
        let mut bench = Bench::new(1);
        bench.options = Options { missed_rows_max: 1, ..bench.options };
        let mut volume = bench.reopen();
        volume.settle();
        volume.reader.flush().unwrap();
        let before = look::horizon(&volume.reader);
        for count in 1..=4 {
            volume.write(&object(&format!("{count}")), ballot(count), &value(count, 10));
            volume.commit_missed(&object(&format!("{count}")), ballot(count));
            volume.settle();
            if count == flushed_after {
                volume.reader.flush().unwrap();
            }
        }
        let (horizon, cursor) = (look::horizon(&volume.reader), cursor_at(&volume, before));
        let shown = looked(&volume, cursor);
        assert_eq!(horizon, shown[3].sequence);
        drop(volume);
        bench.kill();
        let volume = bench.reopen();
        assert_eq!(look::horizon(&volume.reader), horizon, "flushed after {flushed_after}");
        assert_eq!(looked(&volume, cursor), shown);
    }
}

#[test]
fn pages_of_a_look_show_each_row_once() {
    let mut volume = Bench::new(1).reopen();
    let cursor = cursor_at(&volume, look::horizon(&volume.reader));
    for count in 1..=40_u64 {
        let name = format!("{count:02}");
        volume.write(&object(&name), ballot(count), &value(count, 10));
        if count % 3 > 0 {
            volume.commit_missed(&object(&name), ballot(count));
        }
        if count == 25 {
            volume.settle();
        }
    }
    let all: Vec<String> = (1..=40).map(|count| format!("{count:02}")).collect();
    for cursor in [cursor, None] {
        for limit in [1, 7, 40, 100] {
            assert_eq!(names(&looked_by(&volume, cursor, limit)), all, "{cursor:?} by {limit}");
        }
    }
}

#[test]
fn a_volume_that_has_seen_a_later_topology_shows_nothing() {
    let mut volume = Bench::new(1).reopen();
    let slot = target(&object("a")).slot;
    volume.control(Control::RecordEpoch { slot, epoch: Epoch(5) }).unwrap().unwrap();
    let scan = LookScan { cursor: None, epoch: Epoch(4), after: None, limit: 1 };
    let refused = look::rows_behind(&volume.reader, &scan);
    assert!(matches!(refused, Err(Error::Refused(Refusal::StaleEpoch { epoch: Epoch(5) }))), "{refused:?}");
}
