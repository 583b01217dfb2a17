//! Guards that only show when something else goes wrong: each of these tests is for one of them, and fails
//! without it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::IoSlice;
use std::sync::Arc;

use parking_lot::Mutex;

use sherd_core::env::Clock;
use sherd_core::limits;
use sherd_core::message::ValueLimit;
use sherd_volume::disk::faulty::{Call, Failure, Fault, Keep};
use sherd_volume::disk::{Disk, DiskFile, OpenMode};
use sherd_volume::error::OpenError;
use sherd_volume::format::{
    FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, Seed, SegmentHeader, VERSION,
};
use sherd_volume::log::{parse_segment_name, segment_path};
use sherd_volume::lookup::Source;
use support::hooked::{HookedSource, IndexCall};
use support::*;

/// Event between a lookup in the index and its answer.
type Interruption = Box<dyn FnOnce() + Send>;

#[test]
fn a_lookups_result_from_before_a_write_is_not_cached_after_it() {
    let bench = Bench::new(1);
    let interruption: Arc<Mutex<Option<Interruption>>> = Arc::default();
    let next = Arc::clone(&interruption);
    let hook = move |call| {
        let interruption = next.lock().take_if(|_| call == IndexCall::Found);
        if let Some(interruption) = interruption {
            interruption();
        }
        Ok(())
    };
    let (volume, _) = bench.open_volume_with(Box::new(HookedSource::new(&bench.index, hook))).unwrap();
    let mut driver = Driver::new(volume, Arc::clone(&bench.clock));
    let reader = Arc::clone(&driver.reader);
    let key = object("a");
    let fold = |driver: &mut Driver| {
        driver.clock.advance_ms(3_000);
        driver.run();
    };
    driver.write(&key, ballot(1), &value(1, 10));
    fold(&mut driver);
    let clock = Arc::clone(&bench.clock);
    let driver = Arc::new(Mutex::new(driver));
    let inside = Arc::clone(&driver);
    let written = key.clone();
    *interruption.lock() = Some(Box::new(move || {
        let driver = &mut *inside.lock();
        let now = ballot((clock.wall_ms() - START_MS) << 16);
        driver.write(&written, now, &value(2, 10));
        fold(driver);
    }));
    // The old row or the new one: both were there while it was asked. Asked again, it is the new one.
    reader.row(&target(&key), ValueLimit::NOTHING, Source::Disk).unwrap();
    assert!(interruption.lock().is_none(), "the lookup was interrupted");
    let answer = reader.row(&target(&key), ValueLimit::NOTHING, Source::Disk).unwrap().or_busy().unwrap();
    let row = answer.result.unwrap().row.unwrap();
    assert!(row.head.ballot > ballot(1), "a replaced row came back from memory");
    drop(driver);
}

#[test]
fn replayed_rows_are_durable_before_they_are_served() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    // Written, and the process dies before it is synced.
    bench.disk.set_lying(true);
    volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
    bench.disk.set_lying(false);
    bench.kill();
    let volume = bench.reopen();
    assert_eq!(volume.packed(shard(1, 0)).unwrap(), bytes(1, 100), "served");
    bench.disk.restart(1, Keep::Nothing);
    bench.index.wipe();
    let volume = bench.reopen();
    assert_eq!(volume.packed(shard(1, 0)).unwrap(), bytes(1, 100), "what was served once stays");
}

#[test]
fn replay_reads_the_device_and_not_what_memory_remembers_of_it() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for count in 1..=4 {
        volume.put_shard(shard(count, 0), &bytes(count, 3_000)).unwrap();
    }
    volume.settle();
    bench.kill();
    bench.index.wipe();
    let segment = bench.path.join("log").join(format!("{:020}.seg", 1));
    bench.disk.rot_device(&segment, 3 * 4096..3 * 4096 + 40).unwrap();
    let (_, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some(), "the next start, with an empty cache, would find it: {report:?}");
}

#[test]
fn a_record_that_is_read_from_the_device_opens_its_segment_once_for_all_its_blocks() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 150_000)).unwrap();
    assert!(volume.packed(shard(1, 0)).is_ok(), "the file that is kept is open");
    let (under, failure) = (bench.path.join("log"), Failure::Io);
    let fault = bench.disk.inject(Fault { under, call: Call::Open, skip: 1, times: u64::MAX, failure });
    assert_eq!(volume.reader.verify_packed(shard(1, 0)).unwrap(), 150_000);
    assert_eq!(fault.end(), 0);
}

#[test]
fn a_segment_with_a_number_that_no_log_comes_to_is_named_and_left_alone() {
    for number in ["04611686018427387905", "18446744073709551615", "80000000000000000001"] {
        let bench = Bench::new(1);
        let mut volume = bench.reopen();
        volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
        volume.close();
        let path = bench.path.join("log").join(format!("{number}.seg"));
        bench.disk.open(&path, OpenMode::CreateNew).unwrap();
        let refused = bench.open().map(|(_, report)| report);
        assert!(
            matches!(&refused, Err(OpenError::Damaged { path: named, .. }) if *named == path),
            "{number}: {refused:?}"
        );
        bench.disk.remove(&path).unwrap();
        assert_eq!(bench.reopen().packed(shard(1, 0)).unwrap(), bytes(1, 100));
    }
}

fn header_file(bench: &Bench, number: u64) -> Arc<dyn DiskFile> {
    bench.disk.open(&segment_path(&bench.path.join("log"), number), OpenMode::Write).unwrap()
}

fn header_of(bench: &Bench, number: u64) -> SegmentHeader {
    let mut page = vec![0; SEGMENT_HEADER_BYTES];
    header_file(bench, number).read_at(&mut page, 0).unwrap();
    SegmentHeader::decode(&page).unwrap()
}

/// Makes a segment one of another version: a `u16` at offset 8, which the checksum at offset 100 covers.
fn set_version(bench: &Bench, number: u64, version: u16) {
    let file = header_file(bench, number);
    let mut page = vec![0; 104];
    file.read_at(&mut page, 0).unwrap();
    page[8..10].copy_from_slice(&version.to_le_bytes());
    let crc = Seed::of(VOLUME, number).checksum(&[&page[..100]]);
    page[100..].copy_from_slice(&crc.to_le_bytes());
    file.write_at(&[IoSlice::new(&page)], 0).unwrap();
}

#[test]
fn a_log_of_another_version_is_refused_by_name_and_never_taken_for_rot() {
    let newer = (VERSION + 1, "was written by a newer version");
    let older = (1..VERSION).map(|version| (version, "is not read any more"));
    for (version, why) in older.chain([newer]) {
        for wiped in [false, true] {
            let bench = Bench::new(1);
            let mut volume = bench.reopen();
            leave_garbage(&mut volume, 0);
            assert!(volume.reader.status().segments > 2);
            drop(volume);
            bench.kill();
            if wiped {
                bench.index.wipe();
            }
            // Of the first segment alone, as where a program of before wrote it and the index has all of it.
            set_version(&bench, 1, version);
            let refused = bench.open().map(|(_, report)| report);
            assert!(
                matches!(refused, Err(OpenError::Version { version: found, supported, .. })
                    if found == u32::from(version) && supported == u32::from(VERSION)),
                "{refused:?}"
            );
            assert!(refused.unwrap_err().to_string().contains(why));
            set_version(&bench, 1, VERSION);
            bench.kill();
            assert_eq!(bench.reopen().packed(shard(0, 0)).unwrap(), bytes(0, 30_000));
        }
    }
}

/// Shards that are deleted again, over some segments, and one that stays.
fn leave_garbage(volume: &mut Driver, from: u64) {
    for count in from..from + 30 {
        volume.put_shard(shard(count, 0), &bytes(count, 30_000)).unwrap();
        if count > from {
            volume.delete_shard(shard(count, 0)).unwrap();
        }
    }
    volume.settle();
}

/// Where the last frame of the log is.
fn last_frame(bench: &Bench) -> (std::path::PathBuf, u64) {
    let log = bench.path.join("log");
    let names = bench.disk.list(&log).unwrap().into_iter().map(|entry| entry.name);
    let number = names.filter_map(|name| parse_segment_name(&name)).max().unwrap();
    let path = segment_path(&log, number);
    let file = bench.disk.open(&path, OpenMode::Read).unwrap();
    let is_frame = |offset: &u64| {
        let mut header = [0; FRAME_HEADER_BYTES];
        let read = file.read_at(&mut header, *offset).unwrap();
        FrameHeader::decode(&header[..read], Seed::of(VOLUME, number), *offset).is_ok()
    };
    let last = (1..64).rev().map(|page| page * 4096).find(is_frame).unwrap();
    (path, last)
}

#[test]
fn the_last_frame_that_compaction_leaves_may_rot_and_no_segment_is_missed() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    leave_garbage(&mut volume, 0);
    volume.reader.flush().unwrap();
    assert!(volume.compact() > 0);
    bench.kill();
    bench.index.wipe();
    let (path, offset) = last_frame(&bench);
    bench.disk.rot(&path, offset..offset + 40).unwrap();
    let volume = bench.reopen();
    assert_eq!(volume.packed(shard(0, 0)).unwrap(), bytes(0, 30_000));
}

#[test]
fn a_segment_that_the_index_has_not_behind_it_durably_is_kept() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1_000, 0), &bytes(1_000, 100)).unwrap();
    volume.settle();
    volume.reader.flush().unwrap();
    leave_garbage(&mut volume, 0);
    assert_eq!(volume.compact(), 0, "the index has none of it after a crash");
    bench.kill();
    let (mut volume, report) = bench.open().unwrap();
    assert_eq!(report.index_rebuilt, None);
    volume.settle();
    volume.reader.flush().unwrap();
    assert!(volume.compact() > 0);
    assert_eq!(volume.packed(shard(0, 0)).unwrap(), bytes(0, 30_000));
}

/// A file that lost its end, at the end of a frame: nothing of what is left is rotten, and the log goes on
/// behind it.
#[test]
fn a_segment_that_is_shorter_than_its_follower_says_has_lost_state() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for number in 0..30 {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    volume.settle();
    assert!(volume.reader.status().segments > 3);
    drop(volume);
    bench.kill();
    bench.index.wipe();
    let first = SEGMENT_HEADER_BYTES as u64;
    let mut page = vec![0; FRAME_HEADER_BYTES];
    header_file(&bench, 2).read_at(&mut page, first).unwrap();
    let frame = FrameHeader::decode(&page, Seed::of(VOLUME, 2), first).unwrap();
    let end = first + frame.padded();
    assert!(end < header_of(&bench, 3).previous_end, "more frames follow");
    header_file(&bench, 2).truncate(end).unwrap();
    let (_, report) = bench.open().unwrap();
    assert_eq!(report.lost_state, Some(format!("segment 2 is rotten at offset {end}")));
}

/// A writer from an earlier opening may still write it.
#[test]
fn a_shard_file_without_a_byte_is_cleared_away_only_when_it_is_old() {
    let bench = Bench::new(1);
    let volume = bench.reopen();
    let shard = shard(1, 0);
    let [_, _, _, _, directory, ..] = shard.data.to_bytes();
    let directory = bench.path.join("shards").join(format!("{directory:02x}"));
    bench.disk.create_dir(&directory).unwrap();
    let path = directory.join(format!("{}.{}", shard.data, shard.index));
    bench.disk.open(&path, OpenMode::CreateNew).unwrap();
    let files = volume.reader.shard_files();
    for (age_ms, cleared) in [(0, 0), (limits::ORPHAN_AGE_MS - 1_000, 0), (2_000, 1)] {
        bench.clock.advance_ms(age_ms);
        assert_eq!(files.seen(shard).unwrap(), None);
        assert_eq!((bench.disk.file_id(&path).is_err(), files.cleared_away()), (cleared == 1, cleared));
    }
}
