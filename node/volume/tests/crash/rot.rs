//! Rot of what was acknowledged: never taken for a torn tail.

use sherd_core::heal::{DamagedData, HealEntry};
use sherd_core::id::Epoch;
use sherd_core::message::RowScan;
use sherd_core::register::Refusal;
use sherd_volume::disk::faulty::{Call, Failure, Fault, Keep};
use sherd_volume::disk::{Disk, OpenMode};
use sherd_volume::error::{Error, OpenError};
use sherd_volume::limits::SEGMENT_NUMBER_MAX;
use sherd_volume::options::{Durability, UnreadablePolicy};
use sherd_volume::write::upkeep::State;

use crate::support::{Bench, ballot, bytes, object, shard, value};

fn segment(bench: &Bench, number: u64) -> std::path::PathBuf {
    bench.path.join("log").join(format!("{number:020}.seg"))
}

/// Where the first operation's frame is: a volume's log begins with an empty one.
const FIRST: u64 = 2 * 4096;

/// Ten shards with a page each, in the first segment.
fn ten_shards(bench: &Bench) {
    let mut volume = bench.reopen();
    for count in 1..=10 {
        volume.put_shard(shard(count, 0), &bytes(count, 3_000)).unwrap();
    }
    volume.settle();
    bench.kill();
    bench.index.wipe();
}

#[test]
fn a_rotten_frame_in_the_middle_is_lost_state_and_the_rest_is_readable() {
    for page in 1..=10_u64 {
        let bench = Bench::new(page);
        ten_shards(&bench);
        bench
            .disk
            .rot(&segment(&bench, 1), FIRST + (page - 1) * 4096..FIRST + (page - 1) * 4096 + 48)
            .unwrap();
        let (volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some(), "page {page}: {report:?}");
        let state = volume.reader.status().state;
        assert_eq!(state, State::Recovering { may_write: false });
        for count in 1..=10 {
            assert_eq!(volume.packed(shard(count, 0)).is_ok(), count != page, "page {page}, shard {count}");
        }
        // A restart finds the same.
        drop(volume);
        bench.kill();
        let (mut volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some());
        let refused = volume.read(&object("a")).unwrap().result;
        assert_eq!(refused, Err(Refusal::Recovering));
    }
}

/// The last segment's number.
fn last_segment(bench: &Bench) -> u64 {
    let names = bench.disk.list(&bench.path.join("log")).unwrap();
    let numbers = names.iter().filter_map(|entry| entry.name.strip_suffix(".seg")?.parse().ok());
    numbers.max().unwrap()
}

#[test]
fn a_segment_whose_first_pages_rot_was_in_use_as_long_as_a_frame_is_left() {
    for frames in 0..10 {
        let bench = Bench::new(frames);
        ten_shards(&bench);
        let path = segment(&bench, 1);
        bench.disk.rot(&path, 0..FIRST + frames * 4096 + 48).unwrap();
        for opening in 0..2 {
            let (volume, report) = bench.open().unwrap();
            assert!(report.lost_state.is_some(), "{frames} frames, opening {opening}: {report:?}");
            assert!(bench.disk.file_id(&path).is_ok());
            for count in frames + 2..=10 {
                assert_eq!(volume.packed(shard(count, 0)).unwrap(), bytes(count, 3_000), "{frames}, {count}");
            }
            drop(volume);
            bench.kill();
        }
    }
}

#[test]
fn a_last_segment_whose_first_pages_rot_is_not_removed_and_what_lies_before_it_is_read() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for count in 0..18 {
        volume.put_shard(shard(count, 0), &bytes(count, 30_000)).unwrap();
        if count == 9 {
            // The checkpoint is in the segment before the last.
            volume.settle();
            volume.reader.flush().unwrap();
            assert_eq!(last_segment(&bench), 2);
        }
    }
    volume.settle();
    assert_eq!(last_segment(&bench), 3);
    drop(volume);
    bench.kill();
    let path = segment(&bench, 3);
    bench.disk.rot(&path, 0..2 * 4096).unwrap();
    // The record that keeps the segment before it stood in its first frame.
    for opening in 0..4 {
        let (volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some());
        assert!(bench.disk.file_id(&path).is_ok());
        let lost = (0..18).filter(|count| volume.packed(shard(*count, 0)).is_err()).count();
        assert_eq!(lost, 1, "what the first frame held, opening {opening}");
        drop(volume);
        bench.kill();
        if opening == 1 {
            bench.index.wipe();
        }
    }
}

/// The pages of the first segment that hold something: its header and every frame, the last of which
/// protects the one before.
const USED_PAGES: u64 = FIRST / 4096 + 11;

#[test]
fn unreadable_bytes_are_not_a_torn_tail_and_nothing_is_lost_by_trying_again() {
    for page in 0..USED_PAGES + 2 {
        let bench = Bench::new(page);
        ten_shards(&bench);
        let path = segment(&bench, 1);
        bench.disk.make_unreadable(&path, page * 4096..page * 4096 + 10).unwrap();
        let refused = bench.open().map(|(_, report)| report);
        match refused {
            Err(OpenError::Unreadable { path: named, offset, .. }) => {
                assert_eq!((named, offset), (path.clone(), page * 4096), "page {page}");
            }
            other => panic!("page {page}: {other:?}"),
        }
        bench.disk.make_readable(&path).unwrap();
        bench.kill();
        let volume = bench.reopen();
        for count in 1..=10 {
            assert_eq!(volume.packed(shard(count, 0)).unwrap(), bytes(count, 3_000), "page {page}");
        }
    }
}

#[test]
fn bytes_that_stay_unreadable_are_lost_state_in_any_place() {
    for page in 0..USED_PAGES + 2 {
        let mut bench = Bench::new(page);
        ten_shards(&bench);
        bench.options.unreadable = UnreadablePolicy::Lose;
        let path = segment(&bench, 1);
        bench.disk.make_unreadable(&path, page * 4096..page * 4096 + 10).unwrap();
        let (volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some(), "page {page}: {report:?}");
        let lost = (page + 1).checked_sub(FIRST / 4096).filter(|count| (1..=10).contains(count));
        for count in 1..=10 {
            let is_there = volume.packed(shard(count, 0)).is_ok();
            assert_eq!(is_there, lost != Some(count), "page {page}, shard {count}");
        }
    }
}

#[test]
fn a_read_that_lacks_memory_loses_nothing_under_any_policy() {
    let mut bench = Bench::new(1);
    ten_shards(&bench);
    bench.options.unreadable = UnreadablePolicy::Lose;
    for skip in 0..2 {
        let under = segment(&bench, 1);
        let failure = Failure::NoMemory;
        let fault = bench.disk.inject(Fault { under, call: Call::Read, skip, times: u64::MAX, failure });
        assert!(matches!(bench.open(), Err(OpenError::Unreadable { .. })), "after {skip} reads");
        drop(fault);
        bench.kill();
    }
    assert!(bench.reopen().packed(shard(10, 0)).is_ok());
}

#[test]
fn a_rotten_payload_is_that_records_fault_alone() {
    let bench = Bench::new(1);
    ten_shards(&bench);
    bench.disk.rot(&segment(&bench, 1), FIRST + 3 * 4096 + 2_000..FIRST + 3 * 4096 + 2_010).unwrap();
    let (mut volume, report) = bench.open().unwrap();
    assert_eq!(report.lost_state, None);
    assert_eq!(report.rotten.len(), 1);
    // Known damage is queued before the index lets the record be forgotten.
    volume.settle();
    volume.close();
    let (volume, report) = bench.open().unwrap();
    assert_eq!((report.replayed_records, report.rotten.len()), (0, 0), "a later start sees nothing of it");
    let heals = volume.reader.heals(None, 10).unwrap();
    let [(_, entry)] = &heals[..] else { panic!("{heals:?}") };
    assert_eq!(HealEntry::decode(entry.clone()).unwrap().data, Some(DamagedData::Id(shard(4, 0).data)));
    for count in 1..=10 {
        match volume.packed(shard(count, 0)) {
            Ok(found) => assert_eq!(found, bytes(count, 3_000)),
            Err(Error::Corrupt { .. }) => assert_eq!(count, 4),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_row_that_cannot_be_read_does_not_vote() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 3_000));
    volume.settle();
    bench.kill();
    bench.index.wipe();
    // The first frame holds the bound, the second the row.
    bench.disk.rot(&segment(&bench, 1), FIRST + 4096 + 240..FIRST + 4096 + 2_000).unwrap();
    let (mut volume, report) = bench.open().unwrap();
    assert_eq!(report.lost_state, None);
    assert!(matches!(volume.read(&object("a")), Err(Error::Corrupt { .. })));
}

#[test]
fn damage_behind_the_last_frame_is_a_torn_tail() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 3_000)).unwrap();
    volume.put_shard(shard(2, 0), &bytes(2, 3_000)).unwrap();
    // No frame follows: it is unknown whether the last one was acknowledged.
    bench.kill();
    bench.index.wipe();
    bench.disk.rot(&segment(&bench, 1), FIRST + 4096 + 500..FIRST + 4096 + 600).unwrap();
    let (mut volume, report) = bench.open().unwrap();
    assert_eq!(report.lost_state, None);
    assert!(report.torn_tail);
    assert!(volume.packed(shard(1, 0)).is_ok());
    assert!(matches!(volume.packed(shard(2, 0)), Err(Error::NotFound)));
    // The log goes on in a new segment, and the old end is not looked at again.
    volume.put_shard(shard(3, 0), &bytes(3, 3_000)).unwrap();
    assert_eq!(volume.reader.status().segments, 2);
    volume.settle();
    bench.kill();
    bench.index.wipe();
    let volume = bench.reopen();
    assert!(volume.packed(shard(3, 0)).is_ok());
}

#[test]
fn a_frame_behind_the_last_one_protects_it() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 3_000)).unwrap();
    volume.clock.advance_ms(101);
    volume.run();
    bench.kill();
    bench.index.wipe();
    bench.disk.rot(&segment(&bench, 1), FIRST..FIRST + 40).unwrap();
    let (_, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
}

#[test]
fn a_missing_segment_is_lost_state() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for count in 0..30 {
        volume.put_shard(shard(count, 0), &bytes(count, 30_000)).unwrap();
    }
    volume.settle();
    volume.reader.flush().unwrap();
    bench.kill();
    bench.disk.vanish(&segment(&bench, 2)).unwrap();
    for wipe in [false, true] {
        if wipe {
            bench.index.wipe();
        }
        let (volume, report) = bench.open().unwrap();
        assert!(report.lost_state.is_some(), "wiped index: {wipe}");
        let readable = (0..30).filter(|count| volume.packed(shard(*count, 0)).is_ok()).count();
        assert!((15..30).contains(&readable), "{readable}");
        bench.kill();
    }
}

#[test]
fn a_segment_under_the_name_of_another_is_refused_and_left_alone() {
    for wiped in [false, true] {
        let bench = Bench::new(1);
        let mut volume = bench.reopen();
        for count in 0..30 {
            volume.put_shard(shard(count, 0), &bytes(count, 30_000)).unwrap();
        }
        volume.settle();
        volume.reader.flush().unwrap();
        drop(volume);
        bench.kill();
        if wiped {
            bench.index.wipe();
        }
        let last = last_segment(&bench);
        assert!(last > 3);
        for number in 1..=last {
            let (right, wrong) = (segment(&bench, number), segment(&bench, last + 100));
            bench.disk.rename(&right, &wrong).unwrap();
            for _ in 0..2 {
                let refused = bench.open().map(|(_, report)| report);
                let Err(OpenError::Damaged { path, what }) = refused else { panic!("{number}: {refused:?}") };
                assert_eq!(path, wrong);
                assert!(what.contains(&format!("segment {number}, ")), "{what}");
                bench.kill();
            }
            bench.disk.rename(&wrong, &right).unwrap();
            let volume = bench.reopen();
            for count in 0..30 {
                assert_eq!(
                    volume.packed(shard(count, 0)).unwrap(),
                    bytes(count, 30_000),
                    "{number}, {count}"
                );
            }
            drop(volume);
            bench.kill();
        }
    }
}

/// A segment whose follower has no frame yet is named by the follower's header alone.
#[test]
fn a_segment_before_one_without_a_frame_is_refused_under_another_name() {
    let mut met = 0;
    for cut in 0.. {
        let bench = Bench::new(1);
        bench.disk.cut_power_at(bench.disk.operations() + cut);
        let mut there = 0;
        if let Ok((mut volume, _)) = bench.open() {
            let mut put = |count| volume.put_shard(shard(count, 0), &bytes(count, 30_000)).is_ok();
            there = (0..10).take_while(|count| put(*count)).count() as u64;
        }
        if !bench.disk.is_off() {
            break;
        }
        bench.disk.restart(cut, Keep::Everything);
        bench.index.wipe();
        let mut frame = [0; 8];
        let second = bench.disk.open(&segment(&bench, 2), OpenMode::Read);
        if !second.is_ok_and(|file| file.read_at(&mut frame, 4096).is_ok()) || frame != [0; 8] {
            continue;
        }
        met += 1;
        let (right, wrong) = (segment(&bench, 1), segment(&bench, 100));
        bench.disk.rename(&right, &wrong).unwrap();
        assert!(matches!(bench.open(), Err(OpenError::Damaged { path, .. }) if path == wrong));
        bench.disk.rename(&wrong, &right).unwrap();
        bench.kill();
        let volume = bench.reopen();
        assert!((0..there).all(|count| volume.packed(shard(count, 0)).is_ok()));
    }
    assert!(met > 0, "a power cut between the header and the first frame");
}

#[test]
fn an_empty_file_with_the_highest_number_there_is_leaves_numbers_for_the_log() {
    let bench = Bench::new(1);
    ten_shards(&bench);
    let stray = segment(&bench, SEGMENT_NUMBER_MAX);
    bench.disk.open(&stray, OpenMode::CreateNew).unwrap();
    let mut volume = bench.reopen();
    assert!(bench.disk.file_id(&stray).is_err());
    volume.put_shard(shard(20, 0), &bytes(20, 3_000)).unwrap();
    drop(volume);
    bench.kill();
    assert_eq!(last_segment(&bench), 2);
    assert!(bench.reopen().packed(shard(20, 0)).is_ok());
}

/// The rest, after a power cut, of a segment that was begun in a spare by a writer that does not sync.
#[test]
fn a_spare_that_got_its_name_and_no_header_is_half_a_segment() {
    for durability in [Durability::Fsync, Durability::None] {
        let mut bench = Bench::new(1);
        bench.options.durability = durability;
        bench.options.spare_segments = 0;
        let mut volume = bench.reopen();
        for count in 0..30 {
            volume.put_shard(shard(count, 0), &bytes(count, 30_000)).unwrap();
            if count > 0 {
                volume.delete_shard(shard(count, 0)).unwrap();
            }
        }
        volume.settle();
        volume.reader.flush().unwrap();
        let old = segment(&bench, 2);
        let file = bench.disk.open(&old, OpenMode::Read).unwrap();
        let mut old = vec![0; usize::try_from(bench.options.segment_bytes).unwrap()];
        file.read_at(&mut old, 0).unwrap();
        assert!(volume.compact() > 1);
        let leftover = segment(&bench, last_segment(&bench) + 1);
        volume.close();
        bench.kill();
        let file = bench.disk.open(&leftover, OpenMode::CreateNew).unwrap();
        file.write_at(&[std::io::IoSlice::new(&old)], 0).unwrap();
        let volume = bench.reopen();
        assert!(bench.disk.file_id(&leftover).is_err(), "{durability:?}");
        assert!(volume.packed(shard(0, 0)).is_ok());
    }
}

#[test]
fn a_log_behind_its_index_is_lost_state() {
    let mut bench = Bench::new(1);
    // The index follows at once: what is flushed is behind nothing.
    bench.options.fold_entries = 1;
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 3_000)).unwrap();
    bench.disk.set_lying(true);
    volume.put_shard(shard(2, 0), &bytes(2, 3_000)).unwrap();
    volume.reader.flush().unwrap();
    bench.disk.restart(1, Keep::Nothing);
    bench.index.crash();
    let (volume, report) = bench.open().unwrap();
    assert!(report.lost_state.is_some());
    let scan = RowScan { want_value: false, ..RowScan::all(Epoch::FIRST, None, 10) };
    assert!(volume.reader.rows(&scan).is_ok());
}

#[test]
fn a_reclaimed_segment_that_comes_back_brings_nothing_back() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    // The first segment is all dead, the second holds the deletes and is all dead then, too.
    for number in 1..9 {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    for number in 1..9 {
        volume.delete_shard(shard(number, 0)).unwrap();
    }
    for number in 20..34 {
        volume.put_shard(shard(number, 0), &bytes(number, 30_000)).unwrap();
    }
    for number in 20..34 {
        volume.delete_shard(shard(number, 0)).unwrap();
    }
    volume.settle();
    volume.reader.flush().unwrap();
    assert!(volume.compact() >= 2);
    for seed in 0..40 {
        let after = Bench { disk: bench.disk.fork(), ..bench.clone() };
        after.disk.restart(seed, Keep::Some);
        after.index.wipe();
        let volume = after.reopen();
        for number in (1..9).chain(20..34) {
            let found = volume.packed(shard(number, 0));
            assert!(matches!(found, Err(Error::NotFound)), "seed {seed}, shard {number}: {found:?}");
        }
    }
}
