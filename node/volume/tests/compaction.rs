//! Compaction beside rot: a segment stays only while a record in it cannot be read and is needed; and
//! segments that are gone were not needed, not even by the next opening.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use sherd_core::message::Control;
use sherd_core::register::recover::Guarantees;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use sherd_volume::disk::faulty::{Call, Failure, Fault};
use sherd_volume::disk::{Disk, OpenMode};
use sherd_volume::error::FaultClass;
use sherd_volume::format::{FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, Seed, Subject};
use sherd_volume::index::{Index, IndexError};
use sherd_volume::log::segment_path;
use support::hooked::{HookedSource, IndexCall};
use support::*;

const SHARDS: u64 = 30;

fn segment(bench: &Bench, number: u64) -> PathBuf {
    segment_path(&bench.path.join("log"), number)
}

/// Shards over several segments, nothing but them in their frames.
fn put_shards(volume: &mut Driver) {
    for number in 0..SHARDS {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    assert!(volume.reader.status().segments > 3);
}

/// Deletes all of them but one.
fn delete_but(volume: &mut Driver, kept: u64) {
    for number in (0..SHARDS).filter(|number| *number != kept) {
        volume.delete_shard(shard(number, 0)).unwrap();
    }
}

/// Compacts until nothing is left to do, past segments that cannot be.
fn compact(volume: &mut Driver) -> usize {
    volume.settle();
    volume.reader.flush().unwrap();
    (0..10).map(|_| volume.compact()).sum()
}

/// The frames of a segment, by their offsets.
fn frames(bench: &Bench, number: u64) -> Vec<(u64, FrameHeader)> {
    let file = bench.disk.open(&segment(bench, number), OpenMode::Read).unwrap();
    let (mut offset, mut found) = (SEGMENT_HEADER_BYTES as u64, Vec::new());
    loop {
        let mut page = vec![0; FRAME_HEADER_BYTES];
        let read = file.read_at(&mut page, offset).unwrap();
        let Ok(header) = FrameHeader::decode(&page[..read], Seed::of(VOLUME, number), offset) else { break };
        offset += header.padded();
        found.push((offset - header.padded(), header));
    }
    found
}

/// Rots the last bytes of a frame: of its last record's payload.
fn rot_payload(bench: &Bench, number: u64, (offset, header): &(u64, FrameHeader)) {
    let end = offset + u64::from(header.used);
    bench.disk.rot(&segment(bench, number), end - 8..end).unwrap();
}

#[test]
fn a_segment_goes_when_what_was_rotten_in_it_is_healed() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    put_shards(&mut volume);
    delete_but(&mut volume, 3);
    let all = frames(&bench, 1);
    // In front of the first shard there is what a format writes.
    rot_payload(&bench, 1, &all[1 + 3]);
    assert!(volume.packed(shard(3, 0)).is_err());
    assert!(compact(&mut volume) > 0);
    assert!(bench.disk.file_id(&segment(&bench, 1)).is_ok(), "what is rotten in it is current");
    assert_eq!(compact(&mut volume), 0);
    volume.put_shard(shard(3, 0), &bytes(3, 30_000)).unwrap();
    assert!(compact(&mut volume) > 0);
    assert!(bench.disk.file_id(&segment(&bench, 1)).is_err(), "it was healed");
    drop(volume);
    bench.kill();
    bench.index.wipe();
    assert_eq!(bench.reopen().packed(shard(3, 0)).unwrap(), bytes(3, 30_000));
}

/// A range that a recovery noted as missing does not hold up compaction: the records beside it are moved.
#[test]
fn a_segment_with_a_noted_hole_goes_when_nothing_else_in_it_is_needed() {
    for (kept, is_healed) in [2, 4].into_iter().flat_map(|kept| [(kept, false), (kept, true)]) {
        let story = format!("kept {kept}, healed: {is_healed}");
        let bench = Bench::new(1);
        let mut volume = bench.reopen();
        put_shards(&mut volume);
        volume.settle();
        drop(volume);
        bench.kill();
        bench.index.wipe();
        let hole = frames(&bench, 1)[1 + 3].0;
        bench.disk.rot(&segment(&bench, 1), hole..hole + 40).unwrap();
        let (mut volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some());
        delete_but(&mut volume, kept);
        compact(&mut volume);
        assert!(bench.disk.file_id(&segment(&bench, 1)).is_ok(), "while it recovers, {story}");
        volume
            .control(Control::TakeGuarantees { guarantees: Guarantees::default(), seals: Vec::new() })
            .unwrap()
            .unwrap();
        volume.control(finish()).unwrap().unwrap();
        if is_healed {
            volume.put_shard(shard(3, 0), &bytes(3, 30_000)).unwrap();
        }
        drop(volume);
        bench.kill();
        let mut volume = bench.reopen();
        assert!(compact(&mut volume) > 0, "{story}");
        assert!(bench.disk.file_id(&segment(&bench, 1)).is_err(), "{story}");
        drop(volume);
        for is_wiped in [false, true] {
            bench.kill();
            if is_wiped {
                bench.index.wipe();
            }
            let volume = bench.reopen();
            for number in 0..SHARDS {
                let is_there = number == kept || is_healed && number == 3;
                assert_eq!(volume.packed(shard(number, 0)).is_ok(), is_there, "{story}: {number}");
            }
        }
    }
}

#[test]
fn rotten_hints_keep_no_segment() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    let key = object("a");
    volume.write(&key, ballot(1), &value(1, 100));
    volume.commit(&key, ballot(1));
    volume.settle();
    let hints = volume.reader.status().frame_records.count();
    put_shards(&mut volume);
    delete_but(&mut volume, SHARDS - 1);
    let all = frames(&bench, 1);
    rot_payload(&bench, 1, &all[usize::try_from(hints).unwrap() - 1]);
    compact(&mut volume);
    assert!(bench.disk.file_id(&segment(&bench, 1)).is_err());
    drop(volume);
    bench.kill();
    let mut volume = bench.reopen();
    let row = volume.read(&key).unwrap().result.unwrap().row.unwrap();
    assert!(row.head.committed, "the index had it, and so does the moved row");
}

/// A volume with a rotten shard in the first segment that there was no room to queue, and which of the
/// shards.
fn with_evidence_left(bench: &Bench, kept: u64) -> Driver {
    let mut volume = bench.reopen();
    put_shards(&mut volume);
    delete_but(&mut volume, kept);
    volume.settle();
    let all = frames(bench, 1);
    rot_payload(bench, 1, &all[1 + usize::try_from(kept).unwrap()]);
    drop(volume);
    bench.kill();
    bench.index.wipe();
    let (call, failure) = (Call::Write, Failure::Full);
    let under = bench.path.join("log");
    let fault = bench.disk.inject(Fault { under, call, skip: 0, times: u64::MAX, failure });
    let (volume, report) = bench.open().unwrap();
    drop(fault);
    assert_eq!((report.rotten.len(), report.rotten_left), (1, true));
    bench.clock.advance_ms(101);
    volume
}

/// The rest is found again, and nothing else has happened.
fn finds_the_evidence(bench: &Bench, kept: u64) {
    bench.kill();
    let (volume, report) = bench.open().unwrap();
    assert_eq!((&report.index_rebuilt, &report.lost_state), (&None, &None));
    let is_it = |subject: &Subject| matches!(subject, Subject::Shard { shard: found, .. } if *found == shard(kept, 0));
    assert!(report.rotten.len() == 1 && report.rotten.iter().all(is_it), "{:?}", report.rotten);
    assert!(!report.rotten_left);
    assert_eq!(volume.reader.heals(None, 10).unwrap().len(), 1);
}

#[test]
fn evidence_that_is_left_is_found_in_a_log_that_was_compacted_behind_it() {
    let bench = Bench::new(1);
    let mut volume = with_evidence_left(&bench, 3);
    volume.put_shard(shard(100, 0), &bytes(100, 3_000)).unwrap();
    assert!(compact(&mut volume) > 1);
    assert!(bench.disk.file_id(&segment(&bench, 2)).is_err(), "there is a hole behind it");
    volume.close();
    finds_the_evidence(&bench, 3);
}

/// Nothing behind the last frame of a segment proves that it was acknowledged, but the record that says where
/// it ends.
#[test]
fn evidence_in_the_last_frame_of_a_segment_is_not_a_loss_when_the_next_one_is_gone() {
    let bench = Bench::new(1);
    let last = 6;
    let mut volume = with_evidence_left(&bench, last);
    assert_eq!(frames(&bench, 1).len() as u64, 1 + last + 1);
    volume.put_shard(shard(100, 0), &bytes(100, 3_000)).unwrap();
    assert!(compact(&mut volume) > 1);
    assert!(bench.disk.file_id(&segment(&bench, 2)).is_err(), "there is a hole behind it");
    volume.close();
    finds_the_evidence(&bench, last);
}

/// Where a segment ends says its follower, or the log behind it: only then is it known whether its last frame
/// was acknowledged, and rot of a payload in it one record's fault.
#[test]
fn a_rotten_payload_in_a_last_frame_is_not_a_loss_even_without_the_follower() {
    let bench = Bench::new(1);
    let (last, there) = without_the_follower(&bench);
    rot_payload(&bench, 1, &last);
    bench.index.wipe();
    let (volume, report) = bench.open().unwrap();
    assert_eq!((report.lost_state, report.rotten.len()), (None, 1));
    assert_eq!(count_shards(&volume), there - 1);
    drop(volume);
    bench.kill();
    // A frame that is not there is still a loss.
    bench.disk.rot(&segment(&bench, 1), last.0..last.0 + 40).unwrap();
    bench.index.wipe();
    let (_, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
}

/// A volume whose second segment is gone, without an index: the last frame of the first one, and how many
/// shards it has.
fn without_the_follower(bench: &Bench) -> ((u64, FrameHeader), usize) {
    let mut volume = bench.reopen();
    put_shards(&mut volume);
    // In front of the first shard there is what a format writes.
    let in_first = frames(bench, 1).len() - 1;
    let in_second = frames(bench, 2).len();
    for number in in_first..in_first + in_second {
        volume.delete_shard(shard(number as u64, 0)).unwrap();
    }
    assert!(compact(&mut volume) > 0);
    assert!(bench.disk.file_id(&segment(bench, 2)).is_err());
    drop(volume);
    bench.kill();
    let last = frames(bench, 1).pop().unwrap();
    (last, usize::try_from(SHARDS).unwrap() - in_second)
}

fn count_shards(volume: &Driver) -> usize {
    (0..SHARDS).filter(|number| volume.packed(shard(*number, 0)).is_ok()).count()
}

/// A rebuild that is cut short leaves an index that has a part of the log: that is not a reason to judge the
/// rest otherwise.
#[test]
fn a_rotten_payload_in_a_last_frame_is_not_a_loss_after_a_rebuild_cut_short() {
    let mut bench = Bench::new(1);
    let (last, there) = without_the_follower(&bench);
    rot_payload(&bench, 1, &last);
    // A flush for each few records.
    bench.options.replay_bytes = 256;
    let mut was_flushed = false;
    for cut in 0.. {
        let bench = Bench { disk: bench.disk.fork(), index: MemorySource::default(), ..bench.clone() };
        let flushes = AtomicU64::new(0);
        let hook = move |call| match call {
            IndexCall::Flush if flushes.fetch_add(1, Ordering::Relaxed) >= cut => {
                Err(IndexError::Unavailable { what: "cut".to_owned(), class: FaultClass::Busy })
            }
            IndexCall::Get | IndexCall::Found | IndexCall::Flush => Ok(()),
        };
        let is_done = bench.open_volume_with(Box::new(HookedSource::new(&bench.index, hook))).is_ok();
        bench.kill();
        was_flushed |= !is_done && bench.index.0.lock().persisted().is_some();
        let (volume, report) = bench.open().unwrap();
        assert_eq!(report.lost_state, None, "cut at flush {cut}");
        assert_eq!(count_shards(&volume), there - 1);
        assert_eq!(volume.reader.heals(None, 10).unwrap().len(), 1, "cut at flush {cut}");
        if is_done {
            break;
        }
    }
    assert!(was_flushed, "a rebuild of this length flushes on its way");
}
