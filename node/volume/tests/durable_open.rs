//! After its opening a volume's whole content is durable, however it was written: a power cut behind an
//! opening takes none of it back, and a sync that failed is never taken for a good one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use sherd_volume::disk::faulty::{Call, Failure, Fault, Keep};
use sherd_volume::error::OpenError;
use sherd_volume::options::Durability;
use support::*;

const SHARDS: u64 = 30;

/// A log of several segments, all behind the index's checkpoint, of which nothing was ever synced.
fn never_synced() -> Bench {
    let mut bench = Bench::new(1);
    bench.reopen().close();
    bench.kill();
    bench.options.durability = Durability::None;
    let mut volume = bench.reopen();
    for count in 0..SHARDS {
        volume.put_shard(shard(count, 0), &bytes(count, 30_000)).unwrap();
    }
    volume.settle();
    assert!(volume.reader.status().segments > 3);
    volume.close();
    bench.kill();
    bench.options.durability = Durability::Fsync;
    bench
}

#[test]
fn a_log_that_was_never_synced_is_durable_once_it_was_opened() {
    let bench = never_synced();
    let mut volume = bench.reopen();
    volume.put_shard(shard(SHARDS, 0), &bytes(SHARDS, 3_000)).unwrap();
    drop(volume);
    for (seed, keep) in [(1, Keep::Nothing), (2, Keep::Some), (3, Keep::Some)] {
        for wiped in [false, true] {
            let after = Bench { disk: bench.disk.fork(), index: bench.index.fork(), ..bench.clone() };
            after.disk.restart(seed, keep);
            if wiped {
                after.index.wipe();
            }
            let volume = after.reopen();
            for count in 0..SHARDS {
                assert_eq!(volume.packed(shard(count, 0)).unwrap(), bytes(count, 30_000), "shard {count}");
            }
            assert!(volume.packed(shard(SHARDS, 0)).is_ok());
        }
    }
}

#[test]
fn an_open_of_what_is_durable_syncs_only_what_it_replays_and_writes_that_it_is_one() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    for count in 0..SHARDS {
        volume.put_shard(shard(count, 0), &bytes(count, 30_000)).unwrap();
    }
    volume.settle();
    assert!(volume.reader.status().segments > 3);
    volume.close();
    bench.kill();
    let before = bench.disk.history().len();
    let volume = bench.reopen();
    let done = bench.disk.history().split_off(before);
    let count = |call| done.iter().filter(|operation| operation.call == call).count();
    assert_eq!((count(Call::Sync), count(Call::Write), count(Call::SyncDir)), (2, 1, 2), "{done:?}");
    drop(volume);
}

#[test]
fn a_segment_that_was_put_away_by_a_process_that_died_is_not_used_again_before_its_name_is_durable() {
    let mut bench = Bench::new(1);
    bench.options.spare_segments = 8;
    let mut volume = bench.reopen();
    for count in 0..SHARDS {
        volume.put_shard(shard(count, 0), &bytes(count, 30_000)).unwrap();
        volume.delete_shard(shard(count, 0)).unwrap();
    }
    volume.settle();
    volume.reader.flush().unwrap();
    // The process dies when it has renamed the segment and not synced the directory.
    let under = bench.path.join("log");
    let failure = Failure::NoDescriptor;
    let fault = bench.disk.inject(Fault { under, call: Call::SyncDir, skip: 0, times: u64::MAX, failure });
    while volume.volume.compact_step(64 << 10).is_ok() {}
    drop(fault);
    drop(volume);
    bench.kill();
    // Power is cut anywhere in what comes next, the beginning of a segment in that spare among it.
    for cut in 0.. {
        let after = Bench { disk: bench.disk.fork(), index: bench.index.fork(), ..bench.clone() };
        after.disk.cut_power_at(after.disk.operations() + cut);
        let mut written = 0;
        if let Ok((mut volume, _)) = after.open() {
            while written < SHARDS
                && volume.put_shard(shard(100 + written, 0), &bytes(written, 30_000)).is_ok()
            {
                written += 1;
            }
        }
        let is_done = !after.disk.is_off();
        after.disk.restart(cut, Keep::Nothing);
        after.index.wipe();
        let volume = after.reopen();
        for count in 0..written {
            assert_eq!(volume.packed(shard(100 + count, 0)).unwrap(), bytes(count, 30_000), "cut {cut}");
        }
        if is_done {
            break;
        }
    }
}

#[test]
fn a_sync_that_failed_while_a_volume_was_opened_is_never_tried_again() {
    for (below, call, failure) in [
        ("log/00000000000000000002.seg", Call::Sync, Failure::Io),
        ("log/00000000000000000002.seg", Call::Sync, Failure::Full),
        ("log", Call::SyncDir, Failure::Io),
    ] {
        let bench = never_synced();
        let under = bench.path.join(below);
        let fault = bench.disk.inject(Fault { under, call, skip: 0, times: 1, failure });
        for round in 0..2 {
            let refused = bench.open().map(|(_, report)| report);
            assert!(
                matches!(refused, Err(OpenError::Failed { .. })),
                "{call:?} {failure:?} {round}: {refused:?}"
            );
        }
        assert_eq!(fault.fired(), 1);
    }
}

#[test]
fn bytes_that_found_no_room_during_an_opening_are_read_from_the_device() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 3_000)).unwrap();
    volume.settle();
    // The process dies before it has synced the last frame: it was not acknowledged.
    bench.disk.set_lying(true);
    volume.put_shard(shard(2, 0), &bytes(2, 3_000)).unwrap();
    bench.disk.set_lying(false);
    drop(volume);
    bench.kill();
    let under = bench.path.join("log");
    let fault =
        bench.disk.inject(Fault { under, call: Call::Sync, skip: 0, times: 1, failure: Failure::Full });
    assert!(matches!(bench.open(), Err(OpenError::Io { .. })), "room may come");
    drop(fault);
    let volume = bench.reopen();
    assert_eq!(volume.packed(shard(1, 0)).unwrap(), bytes(1, 3_000));
    let found = volume.packed(shard(2, 0)).ok();
    drop(volume);
    bench.disk.restart(1, Keep::Nothing);
    bench.index.wipe();
    assert_eq!(bench.reopen().packed(shard(2, 0)).ok(), found, "what was found is durable");
}

/// A segment's header says whether its writer syncs, and that has to stay true of the whole of it.
#[test]
fn a_volume_that_is_opened_with_another_durability_goes_on_in_a_new_segment() {
    let mut bench = Bench::new(1);
    let mut expected = 0;
    for durability in [Durability::Fsync, Durability::None, Durability::Fsync, Durability::Fsync] {
        let is_new = durability != bench.options.durability || expected == 0;
        bench.options.durability = durability;
        let mut volume = bench.reopen();
        volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
        expected += usize::from(is_new);
        assert_eq!(volume.reader.status().segments, expected, "{durability:?}");
        volume.close();
        bench.kill();
    }
}
