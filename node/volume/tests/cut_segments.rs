//! Segments whose files end early. One that ends within a frame was cut from outside, and what lay behind the cut was
//! acknowledged: no crash leaves such a file, though refused frames leave short ones that are written on.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::PathBuf;

use sherd_volume::disk::faulty::{Call, Failure, Fault, Keep};
use sherd_volume::disk::{Disk, OpenMode};
use sherd_volume::error::Error;
use sherd_volume::log::segment_path;
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

fn put(volume: &mut Driver, number: u64) -> Result<(), Error> {
    volume.put_shard(shard(number, 0), &bytes(number, 30_000))
}

/// An index that is rebuilt knows of nothing that the log has not.
#[test]
fn a_file_that_ends_within_a_frame_was_cut_and_lost_what_was_acknowledged() {
    for frame in 0..SHARDS {
        let start = FIRST + frame * FRAME;
        for (cut, is_found) in
            [(0, false), (10, true), (48, true), (4096, true), (FRAME - 1, true), (FRAME, false)]
        {
            let bench = Bench::new(1);
            let mut volume = bench.reopen();
            (0..SHARDS).for_each(|number| put(&mut volume, number).unwrap());
            volume.settle();
            drop(volume);
            bench.kill();
            bench.index.wipe();
            bench.disk.open(&segment(&bench, 1), OpenMode::Write).unwrap().truncate(start + cut).unwrap();
            let (volume, report) = bench.open().unwrap();
            assert_eq!(report.lost_state.is_some(), is_found, "frame {frame}, cut at {cut}");
            for number in 0..SHARDS {
                let is_there = number < frame || number == frame && cut == FRAME;
                assert_eq!(volume.packed(shard(number, 0)).is_ok(), is_there, "frame {frame}, cut at {cut}");
            }
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
    assert_eq!(length(&bench, number), if frames == 0 { 4096 } else { FIRST + frames * FRAME });
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
                // There is no room for a whole segment.
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
