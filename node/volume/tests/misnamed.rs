//! Files in the log's directory under wrong names: a segment under another name is refused and left alone,
//! and a stray file is not a part of the log.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use sherd_core::message::Control;
use sherd_core::register::recover::Guarantees;
use std::io::IoSlice;
use std::path::PathBuf;

use sherd_volume::disk::{Disk, OpenMode};
use sherd_volume::error::OpenError;
use sherd_volume::limits::SEGMENT_NUMBER_MAX;
use sherd_volume::log::segment_path;
use sherd_volume::options::{Durability, UnreadablePolicy};
use support::*;

const SHARDS: u64 = 30;

fn segment(bench: &Bench, number: u64) -> PathBuf {
    segment_path(&bench.path.join("log"), number)
}

/// A volume with several segments, and the number of the last one.
fn with_segments() -> (Bench, u64) {
    let (bench, last) = with_shards(SHARDS);
    assert!(last > 4);
    (bench, last)
}

/// A volume with `shards` shards, and the number of its last segment.
fn with_shards(shards: u64) -> (Bench, u64) {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for number in 0..shards {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
        if number + 8 == shards {
            volume.reader.flush().unwrap();
        }
    }
    volume.settle();
    let last = volume.reader.status().segments as u64;
    drop(volume);
    bench.kill();
    (bench, last)
}

fn rename_all(bench: &Bench, names: &[(u64, u64)]) {
    // Names may be exchanged.
    let aside = |to: u64| bench.path.join(format!("aside-{to}"));
    for (from, to) in names {
        bench.disk.rename(&segment(bench, *from), &aside(*to)).unwrap();
    }
    for (_, to) in names {
        bench.disk.rename(&aside(*to), &segment(bench, *to)).unwrap();
    }
}

#[test]
fn an_unreadable_stray_file_keeps_no_volume_from_opening() {
    let (bench, _) = with_segments();
    let theirs = bench.path.join("log").join("their notes");
    let file = bench.disk.open(&theirs, OpenMode::CreateNew).unwrap();
    file.write_at(&[IoSlice::new(&[1; 5_000])], 0).unwrap();
    bench.disk.make_unreadable(&theirs, 0..5_000).unwrap();
    let (volume, report) = bench.open().unwrap();
    assert_eq!(report.lost_state, None);
    assert_eq!(volume.packed(shard(0, 0)).unwrap(), bytes(0, 30_000));
}

#[test]
fn several_segments_under_the_names_of_others_are_refused_and_left_alone() {
    let (_, last) = with_segments();
    let far = SEGMENT_NUMBER_MAX;
    let cases = [
        vec![(2, last + 10), (3, last + 11)],
        vec![(2, last + 11), (3, last + 10)],
        vec![(1, last + 10), (last, last + 11)],
        vec![(2, far - 1), (4, far)],
        (1..=last).map(|number| (number, number + 100)).collect(),
        vec![(2, 3), (3, 2)],
        vec![(last - 1, last), (last, last - 1)],
        vec![(1, 2), (2, 3), (3, 1)],
    ];
    for (names, is_wiped) in cases.iter().flat_map(|names| [(names, false), (names, true)]) {
        let (bench, _) = with_segments();
        if is_wiped {
            bench.index.wipe();
        }
        rename_all(&bench, names);
        for _ in 0..2 {
            let refused = bench.open().map(|(_, report)| report);
            let Err(OpenError::Damaged { path, what }) = refused else { panic!("{names:?}: {refused:?}") };
            assert!(names.iter().any(|(_, to)| path == segment(&bench, *to)), "{names:?}: {path:?}");
            assert!(names.iter().any(|(from, _)| what.contains(&format!("segment {from}, "))), "{what}");
            bench.kill();
        }
        let back: Vec<(u64, u64)> = names.iter().map(|(from, to)| (*to, *from)).collect();
        rename_all(&bench, &back);
        let volume = bench.reopen();
        for number in 0..SHARDS {
            assert_eq!(
                volume.packed(shard(number, 0)).unwrap(),
                bytes(number, 30_000),
                "{names:?}, {number}"
            );
        }
    }
}

/// Each try to open looks for the segment first: the index's content is not read again.
#[test]
fn a_segment_under_another_name_is_refused_before_the_log_is_read() {
    for number in 2..=5 {
        let (bench, last) = with_segments();
        assert_eq!(last, 5);
        rename_all(&bench, &[(number, last + 10)]);
        let frames = 4096..bench.options.segment_bytes;
        bench.disk.make_unreadable(&segment(&bench, 1), frames).unwrap();
        let refused = bench.open().map(|(_, report)| report);
        assert!(matches!(refused, Err(OpenError::Damaged { .. })), "segment {number}: {refused:?}");
    }
}

/// A file that no log has left, and that the disk cannot read, is given up and left alone.
#[test]
fn an_unreadable_file_with_a_number_that_no_log_comes_near_is_not_a_part_of_it() {
    // Of the header, or of what may be frames.
    for unreadable in [0..100, 8192..8292] {
        let (mut bench, last) = with_segments();
        bench.options.unreadable = UnreadablePolicy::Lose;
        let strays = [segment(&bench, SEGMENT_NUMBER_MAX), segment(&bench, SEGMENT_NUMBER_MAX - 1)];
        for stray in &strays {
            let file = bench.disk.open(stray, OpenMode::CreateNew).unwrap();
            file.write_at(&[IoSlice::new(&[7; 3 * 4096])], 0).unwrap();
            bench.disk.make_unreadable(stray, unreadable.clone()).unwrap();
        }
        for round in 0..10 {
            let mut volume = bench.reopen();
            for number in 0..SHARDS + round {
                assert_eq!(volume.packed(shard(number, 0)).unwrap(), bytes(number, 30_000), "round {round}");
            }
            let number = SHARDS + round;
            volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
            volume.settle();
            drop(volume);
            bench.kill();
            if round == 5 {
                bench.index.wipe();
            }
        }
        assert!(bench.disk.file_id(&segment(&bench, last + 1)).is_ok(), "the numbers go on");
        assert!(strays.iter().all(|stray| bench.disk.file_id(stray).is_ok()));
    }
}

/// As an operator leaves a file that was moved aside. A copy of a segment that the log has let go, or has
/// under its own name, does not matter.
#[test]
fn a_segment_under_a_name_of_none_is_refused_and_can_be_put_back() {
    let asides = ["saved", "1.seg", "00000000000000000001.seg.bak"];
    for (shards, is_wiped) in [(4, false), (4, true), (SHARDS, false), (SHARDS, true)] {
        let (bench, last) = with_shards(shards);
        if is_wiped {
            bench.index.wipe();
        }
        for (number, aside) in (1..=last).flat_map(|number| asides.map(|aside| (number, aside))) {
            let (own, aside) = (segment(&bench, number), bench.path.join("log").join(aside));
            bench.disk.rename(&own, &aside).unwrap();
            for _ in 0..2 {
                let refused = bench.open().map(|(_, report)| report);
                let Err(OpenError::Damaged { path, what }) = refused else {
                    panic!("{shards} {number}: {refused:?}")
                };
                assert_eq!(path, aside);
                assert!(what.contains(&format!("segment {number}, ")), "{what}");
                bench.kill();
            }
            bench.disk.rename(&aside, &own).unwrap();
        }
        let volume = bench.reopen();
        assert!((0..shards).all(|number| volume.packed(shard(number, 0)).is_ok()));
    }
}

/// A segment that was given up stays given up: a volume that recovered does not ask for it again.
#[test]
fn a_segment_that_comes_back_under_another_name_after_a_recovery_is_not_a_part_of_the_log() {
    for (number, is_wiped) in (1..=4).flat_map(|number| [(number, false), (number, true)]) {
        let (bench, _) = with_segments();
        let (away, aside) = (bench.path.join("away"), bench.path.join("log").join("saved"));
        bench.disk.rename(&segment(&bench, number), &away).unwrap();
        let (mut volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some());
        volume
            .control(Control::TakeGuarantees { guarantees: Guarantees::default(), seals: Vec::new() })
            .unwrap()
            .unwrap();
        volume.control(finish()).unwrap().unwrap();
        volume.settle();
        drop(volume);
        bench.kill();
        bench.disk.rename(&away, &aside).unwrap();
        if is_wiped {
            bench.index.wipe();
        }
        bench.reopen();
    }
}

#[test]
fn a_copy_of_a_segment_is_not_a_part_of_the_log_even_without_the_segment() {
    let mut bench = Bench::new(1);
    bench.options.spare_segments = 0;
    let mut volume = bench.reopen();
    for number in 0..SHARDS {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    let mut whole = vec![0; usize::try_from(bench.options.segment_bytes).unwrap()];
    bench.disk.open(&segment(&bench, 2), OpenMode::Read).unwrap().read_at(&mut whole, 0).unwrap();
    let copy = bench.path.join("log").join("copy");
    bench.disk.open(&copy, OpenMode::CreateNew).unwrap().write_at(&[IoSlice::new(&whole)], 0).unwrap();
    drop(volume);
    bench.kill();
    let mut volume = bench.reopen();
    (1..SHARDS).for_each(|number| volume.delete_shard(shard(number, 0)).unwrap());
    volume.settle();
    volume.reader.flush().unwrap();
    assert!(volume.compact() > 1);
    assert!(bench.disk.file_id(&segment(&bench, 2)).is_err());
    volume.close();
    for is_wiped in [false, true] {
        bench.kill();
        if is_wiped {
            bench.index.wipe();
        }
        assert!(bench.reopen().packed(shard(0, 0)).is_ok());
        assert!(bench.disk.file_id(&copy).is_ok());
    }
}

/// An operator may miss the files: the report says what became of them.
#[test]
fn files_that_are_not_segments_are_removed_and_reported() {
    let (bench, last) = with_segments();
    let mut other = vec![0; usize::try_from(bench.options.segment_bytes).unwrap()];
    bench.disk.open(&segment(&bench, 1), OpenMode::Read).unwrap().read_at(&mut other, 0).unwrap();
    let strays =
        [(SEGMENT_NUMBER_MAX - 1, vec![7; 10_000]), (SEGMENT_NUMBER_MAX, Vec::new()), (last + 1, other)];
    for (number, content) in &strays {
        let file = bench.disk.open(&segment(&bench, *number), OpenMode::CreateNew).unwrap();
        file.write_at(&[IoSlice::new(content)], 0).unwrap();
    }
    let (volume, report) = bench.open().unwrap();
    assert_eq!(report.removed.len(), strays.len());
    for (number, content) in &strays {
        let path = segment(&bench, *number);
        let told = report.removed.iter().find(|one| one.path == path).expect("each is reported");
        assert_eq!(told.bytes, content.len() as u64);
        let what = if *number == last + 1 { "the header of segment 1" } else { "neither a header" };
        assert!(told.why.contains(what), "{told:?}");
        assert!(bench.disk.file_id(&path).is_err());
    }
    volume.close();
    bench.kill();
    assert_eq!(bench.open().unwrap().1.removed, []);
}

/// A writer that syncs leaves no half a segment under a segment's name.
#[test]
fn a_half_segment_is_one_though_a_stray_file_has_a_higher_number() {
    for durability in [Durability::Fsync, Durability::None] {
        let (mut bench, mut last) = with_segments();
        bench.options.durability = durability;
        if durability == Durability::None {
            let mut volume = bench.reopen();
            volume.put_shard(shard(SHARDS, 0), &bytes(SHARDS, 3_000)).unwrap();
            volume.close();
            bench.kill();
            last += 1;
        }
        for number in [last + 1, SEGMENT_NUMBER_MAX - 1, SEGMENT_NUMBER_MAX] {
            bench.disk.open(&segment(&bench, number), OpenMode::CreateNew).unwrap();
        }
        let (volume, report) = bench.open().unwrap();
        assert_eq!(report.lost_state.is_some(), durability == Durability::Fsync, "{durability:?}");
        assert!((0..SHARDS).all(|number| volume.packed(shard(number, 0)).is_ok()));
        let is_kept = |number| bench.disk.file_id(&segment(&bench, number)).is_ok();
        for number in [last + 1, SEGMENT_NUMBER_MAX] {
            assert_eq!(is_kept(number), durability == Durability::Fsync, "{durability:?}");
        }
    }
}
