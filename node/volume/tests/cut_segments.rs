//! Segments whose files end early. One that ends within its header or a frame, or where a frame ends, was cut
//! from outside, and what lay behind the cut was acknowledged: no crash leaves such a file, though refused
//! frames leave short ones that are written on.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::IoSlice;
use std::path::PathBuf;

use sherd_volume::disk::faulty::{Call, Failure, Fault, Keep};
use sherd_volume::disk::{Disk, OpenMode};
use sherd_volume::error::Error;
use sherd_volume::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use sherd_volume::log::{SHORT_END_BYTES, segment_path};
use sherd_volume::options::Durability;
use support::*;

/// Shards, and a frame that protects the last of them.
const SHARDS: u64 = 4;
/// Bytes of a shard's frame.
const FRAME: u64 = 8 * 4096;
/// Where the first shard's frame is: behind the header, and the frame that a format writes.
const FIRST: u64 = 2 * 4096;

fn segment(bench: &Bench, number: u64) -> PathBuf {
    segment_path(&bench.path.join("log"), number)
}

fn length(bench: &Bench, number: u64) -> u64 {
    bench.disk.open(&segment(bench, number), OpenMode::Read).unwrap().length().unwrap()
}

fn cut(bench: &Bench, number: u64, length: u64) {
    bench.disk.open(&segment(bench, number), OpenMode::Write).unwrap().truncate(length).unwrap();
}

/// A volume that was killed when it had these shards, in several segments where they are many.
fn killed_with(shards: u64, index_is_wiped: bool) -> Bench {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    (0..shards).for_each(|number| put(&mut volume, number).unwrap());
    volume.settle();
    drop(volume);
    bench.kill();
    if index_is_wiped {
        bench.index.wipe();
    }
    bench
}

fn put(volume: &mut Driver, number: u64) -> Result<(), Error> {
    volume.put_shard(shard(number, 0), &bytes(number, 30_000))
}

/// A rebuilt index has only the records of the log.
#[test]
fn a_file_that_ends_within_a_frame_or_with_it_was_cut_and_lost_what_was_acknowledged() {
    for frame in 0..SHARDS {
        let start = FIRST + frame * FRAME;
        for cut in [0, 10, 48, 4096, FRAME - 1, FRAME] {
            let bench = killed_with(SHARDS, true);
            self::cut(&bench, 1, start + cut);
            let (volume, report) = bench.open().unwrap();
            assert!(report.lost_state.is_some(), "frame {frame}, cut at {cut}");
            for number in 0..SHARDS {
                let is_there = number < frame || number == frame && cut == FRAME;
                assert_eq!(volume.packed(shard(number, 0)).is_ok(), is_there, "frame {frame}, cut at {cut}");
            }
        }
    }
}

/// As a file whose header no write has reached, beside whole ones.
#[test]
fn a_last_file_without_its_header_was_cut_and_lost_what_was_acknowledged() {
    let header = SEGMENT_HEADER_BYTES as u64;
    for (length, is_wiped) in
        [0, 1, 104, 108, header - 1, header].into_iter().flat_map(|length| [(length, false), (length, true)])
    {
        let bench = killed_with(20, is_wiped);
        let story = format!("cut to {length}, index wiped: {is_wiped}");
        assert!(bench.disk.file_id(&segment(&bench, 3)).is_ok());
        assert!(bench.disk.file_id(&segment(&bench, 4)).is_err());
        cut(&bench, 3, length);
        let (volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some(), "{story}");
        assert!((0..14).all(|number| volume.packed(shard(number, 0)).is_ok()), "{story}");
        let life = volume.reader.answerer().life;
        drop(volume);
        bench.kill();
        // The loss counts once, and the cut segment is kept for an operator to look into.
        let (volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some(), "{story}");
        assert_eq!(volume.reader.answerer().life, life, "{story}");
        assert_eq!(bench.disk.file_id(&segment(&bench, 3)).map(drop).ok(), Some(()), "{story}");
    }
}

/// Without any header that is whole.
#[test]
fn a_last_file_of_other_bytes_is_not_half_a_segment() {
    let bench = killed_with(20, true);
    let file = bench.disk.open(&segment(&bench, 3), OpenMode::Write).unwrap();
    let bytes = usize::try_from(bench.options.segment_bytes).unwrap();
    file.write_at(&[IoSlice::new(&vec![7; bytes])], 0).unwrap();
    assert!(bench.open().unwrap().1.lost_state.is_some());
}

#[test]
fn an_only_file_of_a_volume_that_recovers_is_not_cut_unseen() {
    for length in [0, 50, 4096] {
        let bench = Bench::new(1);
        bench.disk.remove(&bench.path.join("volume.json")).unwrap();
        bench.create(4, Some("replaced".to_owned())).unwrap();
        let (volume, report) = bench.open().unwrap();
        let life = volume.reader.answerer().life;
        assert!(report.lost_state.is_some());
        drop(volume);
        bench.kill();
        bench.index.wipe();
        assert!(bench.disk.file_id(&segment(&bench, 1)).is_ok());
        assert!(bench.disk.file_id(&segment(&bench, 2)).is_err());
        cut(&bench, 1, length);
        let (volume, _) = bench.open().unwrap();
        assert!(volume.reader.answerer().life > life, "cut to {length}");
    }
}

/// A power cut leaves of a writer that does not sync what it likes; behind one that does, it begins durably.
#[test]
fn a_writer_that_does_not_sync_leaves_no_file_that_looks_cut() {
    for spares in [0, 2] {
        let mut bench = Bench::new(1);
        bench.options.spare_segments = spares;
        let mut volume = bench.reopen();
        put(&mut volume, 0).unwrap();
        volume.settle();
        volume.close();
        bench.kill();
        bench.options.durability = Durability::None;
        // The volume writes its opening and nothing else.
        let _volume = bench.reopen();
        assert_eq!(length(&bench, 2), bench.options.segment_bytes);
        bench.options.durability = Durability::Fsync;
        for seed in 0..200 {
            let after = Bench { disk: bench.disk.fork(), index: bench.index.fork(), ..bench.clone() };
            after.disk.restart(seed, Keep::Some);
            assert!(after.reopen().packed(shard(0, 0)).is_ok(), "{spares} spares, seed {seed}");
        }
    }
}

/// Such a segment may end with its frames: a refused one was taken back without a trace.
#[test]
fn a_segment_that_does_not_say_that_it_is_longer_may_end_with_its_frames() {
    for length in [FIRST + FRAME, FIRST] {
        let bench = killed_with(SHARDS, true);
        let file = bench.disk.open(&segment(&bench, 1), OpenMode::Write).unwrap();
        let mut page = vec![0; SEGMENT_HEADER_BYTES];
        file.read_at(&mut page, 0).unwrap();
        let header = SegmentHeader { is_longer: false, ..SegmentHeader::decode(&page).unwrap() };
        file.write_at(&[IoSlice::new(&header.encode())], 0).unwrap();
        cut(&bench, 1, length);
        let mut volume = bench.reopen();
        put(&mut volume, 7).unwrap();
        assert!(
            bench.disk.file_id(&segment(&bench, 2)).is_ok(),
            "what is written from here on is in another"
        );
    }
}

#[test]
fn a_segment_that_is_as_full_as_can_be_is_not_taken_for_one_that_was_cut() {
    for pages in 1..=8 {
        let mut bench = killed_with(7, true);
        let mut volume = bench.reopen();
        // The settled shards have left 4 to 6 pages: one of these frames would fill them.
        volume.put_shard(shard(50, 0), &bytes(50, pages * 4096 - 400)).unwrap();
        drop(volume);
        bench.kill();
        bench.index.wipe();
        bench.options.segment_bytes *= 2;
        assert!(bench.reopen().packed(shard(50, 0)).is_ok(), "{pages} pages");
    }
}

/// As if a filesystem had allocated a part of a segment before it was full, and a crash came then.
#[test]
fn a_file_of_any_length_is_longer_than_its_frames_when_these_come_to_its_end() {
    for pages in 1..30 {
        let (bench, volume) = with_a_short_segment(3);
        drop(volume);
        bench.kill();
        // Behind the shards stands the opening that the fixture ends with.
        let length = FIRST + 3 * FRAME + (1 + pages) * 4096;
        bench.disk.open(&segment(&bench, 1), OpenMode::Write).unwrap().truncate(length).unwrap();
        let mut volume = bench.reopen();
        for number in 40..44 {
            put(&mut volume, number).unwrap();
            drop(volume);
            bench.kill();
            let (driver, report) = bench.open().unwrap();
            assert_eq!(report.lost_state, None, "{pages} pages");
            assert_eq!(driver.packed(shard(number, 0)).unwrap(), bytes(number, 30_000));
            volume = driver;
        }
    }
}

/// A volume with a short last segment that it goes on in: a frame was refused and taken back.
fn with_a_short_segment(frames: u64) -> (Bench, Driver) {
    let mut bench = Bench::new(1);
    bench.options.spare_segments = 0;
    let mut volume = bench.reopen();
    let before = if frames == 0 { 7 } else { frames };
    (0..before).for_each(|number| put(&mut volume, number).unwrap());
    // The header of a segment that begins is written before its first frame.
    let (skip, number) = if frames == 0 { (1, 2) } else { (0, 1) };
    let (under, failure) = (bench.path.join("log"), Failure::Full);
    let fault = bench.disk.inject(Fault { under, call: Call::Write, skip, times: 1, failure });
    let refused = (before..20).find(|number| put(&mut volume, *number).is_err());
    assert!(refused.is_some());
    drop(fault);
    let end = if frames == 0 { 4096 } else { FIRST + frames * FRAME };
    assert_eq!(length(&bench, number), end + SHORT_END_BYTES);
    if frames > 0 {
        drop(volume);
        bench.kill();
        volume = bench.reopen();
    }
    bench.clock.advance_ms(101);
    (bench, volume)
}

#[test]
fn a_segment_that_was_left_short_is_written_on_and_no_crash_cuts_it() {
    let mut is_met = false;
    for frames in [0, 3] {
        for (seed, has_room) in (0..6).flat_map(|seed| [(seed, true), (seed, false)]) {
            for cut in 0.. {
                let (bench, mut volume) = with_a_short_segment(frames);
                let (call, failure) = (Call::Resize, Failure::Full);
                // A whole segment does not fit.
                let under = bench.path.join("log");
                let fault =
                    bench.disk.inject(Fault { under, call, skip: 0, times: u64::from(!has_room), failure });
                bench.disk.cut_power_at(bench.disk.operations() + cut);
                let kept: Vec<u64> = (30..33).filter(|number| put(&mut volume, *number).is_ok()).collect();
                let is_done = !bench.disk.is_off();
                is_met |= fault.end() > 0;
                bench.disk.restart(seed, Keep::Some);
                bench.index.wipe();
                let volume = bench.reopen();
                for number in (0..frames).chain(kept) {
                    let story = format!("{frames} frames, seed {seed}, cut {cut}, shard {number}");
                    assert_eq!(
                        volume.packed(shard(number, 0)).expect(&story),
                        bytes(number, 30_000),
                        "{story}"
                    );
                }
                if is_done {
                    break;
                }
            }
        }
    }
    assert!(is_met);
}
