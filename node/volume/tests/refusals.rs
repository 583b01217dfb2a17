//! A disk that refuses, and is well again: after every refusal for lack of space, descriptors or memory the
//! volume reports it and goes on. A write that it reported as not stored is not, whenever the power is cut.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "crash/ledger.rs"]
mod ledger;
#[path = "crash/script.rs"]
mod script;
mod support;

use sherd_core::limits::SEGMENT_FILES_MAX;
use sherd_volume::disk::faulty::{Call, Failure, Fault, Keep};
use sherd_volume::error::Error;
use sherd_volume::write::upkeep::State;

use ledger::Ledger;
use script::Script;
use support::*;

const STEPS: usize = 240;

/// Runs a workload on a disk that refuses calls from the given one on; whether it ever did.
fn refuse_and_check(call: Call, skip: u64, times: u64, failure: Failure) -> bool {
    let story = format!("{failure:?} of {call:?} number {skip}, {times} times");
    let bench = Bench::new(5);
    let mut ledger = Ledger::default();
    let mut script = Script::new(5);
    let mut volume = bench.reopen();
    let fault = bench.disk.inject(Fault { under: bench.path.clone(), call, skip, times, failure });
    for _ in 0..STEPS {
        script.step(&mut volume, &mut ledger);
    }
    let fired = fault.end();
    if let State::Failed { reason } = volume.reader.status().state {
        // Only what could not be taken back ends a run, and none ends the volume's life.
        assert!(reason.contains("take a frame back"), "{story}: {reason}");
        bench.kill();
        volume = bench.reopen();
    }
    ledger.check(&mut volume, &story);
    let mut script = Script::new(1005);
    script.skip_to(5_000);
    bench.clock.advance_ms(10_000);
    for _ in 0..6 {
        script.step(&mut volume, &mut ledger);
    }
    bench.disk.restart(skip, Keep::Some);
    bench.index.crash();
    let mut volume = bench.reopen();
    ledger.check(&mut volume, &format!("{story}, power cut"));
    bench.kill();
    bench.index.wipe();
    let mut volume = bench.reopen();
    ledger.check(&mut volume, &format!("{story}, index rebuilt"));
    fired > 0
}

/// Refuses every call of a kind once, one after the other, `stride` apart, and for some time.
fn refuse_each(call: Call, failure: Failure, stride: u64) {
    let mut refused = 0;
    for skip in (0..).step_by(usize::try_from(stride).unwrap()) {
        let once = refuse_and_check(call, skip, 1, failure);
        refuse_and_check(call, skip, 5, failure);
        if !once {
            break;
        }
        refused += 1;
    }
    assert!(refused > 0, "{call:?} is called: {refused}");
}

#[test]
fn a_disk_without_room_is_full_and_comes_back() {
    refuse_each(Call::Create, Failure::Full, 1);
    refuse_each(Call::Rename, Failure::Full, 1);
    refuse_each(Call::Resize, Failure::Full, 1);
    refuse_each(Call::Write, Failure::Full, 19);
}

#[test]
fn a_filesystem_that_allocates_late_is_full_and_comes_back() {
    refuse_each(Call::Sync, Failure::Full, 19);
}

#[test]
fn a_process_without_descriptors_is_busy_and_comes_back() {
    refuse_each(Call::Create, Failure::NoDescriptor, 1);
    refuse_each(Call::SyncDir, Failure::NoDescriptor, 1);
    refuse_each(Call::Open, Failure::NoDescriptor, 19);
}

#[test]
fn a_system_without_memory_is_busy_and_comes_back() {
    refuse_each(Call::Write, Failure::NoMemory, 29);
    refuse_each(Call::Read, Failure::NoMemory, 61);
    refuse_each(Call::Remove, Failure::NoMemory, 1);
}

#[test]
fn a_failed_sync_is_never_tried_again_under_any_error_code() {
    for (call, failure) in [
        (Call::Sync, Failure::Io),
        (Call::Sync, Failure::NoMemory),
        (Call::SyncDir, Failure::Io),
        (Call::SyncDir, Failure::Full),
    ] {
        let bench = Bench::new(1);
        let mut volume = bench.reopen();
        let fault =
            bench.disk.inject(Fault { under: bench.path.join("log"), call, skip: 0, times: 1, failure });
        for count in 0..30 {
            if matches!(volume.put_shard(shard(count, 0), &bytes(count, 30_000)), Err(Error::Failed { .. })) {
                break;
            }
        }
        assert_eq!(fault.fired(), 1);
        drop(volume);
        bench.kill();
        assert!(bench.open().is_err(), "{failure:?} of {call:?}: it stays failed");
    }
}

#[test]
fn a_write_that_is_refused_answers_full_and_the_next_one_is_taken() {
    for call in [Call::Write, Call::Sync] {
        let bench = Bench::new(1);
        let mut volume = bench.reopen();
        volume.put_shard(shard(1, 0), &bytes(1, 5_000)).unwrap();
        let under = bench.path.join("log");
        let fault = bench.disk.inject(Fault { under, call, skip: 0, times: 1, failure: Failure::Full });
        assert!(matches!(volume.put_shard(shard(2, 0), &bytes(2, 20_000)), Err(Error::Full)));
        drop(fault);
        // Whether the process dies or the power goes: no record is found that was reported as not stored.
        for keep in [None, Some(Keep::Everything), Some(Keep::Nothing)] {
            let fork = Bench { disk: bench.disk.fork(), ..bench.clone() };
            if let Some(keep) = keep {
                fork.disk.restart(1, keep);
            }
            fork.index.wipe();
            let volume = fork.reopen();
            assert_eq!(volume.packed(shard(1, 0)).unwrap(), bytes(1, 5_000));
            assert!(matches!(volume.packed(shard(2, 0)), Err(Error::NotFound)), "{call:?}, {keep:?}");
        }
        assert!(volume.reader.status().full, "what the filesystem says is free was not");
        bench.clock.advance_ms(101);
        assert!(!volume.reader.status().full);
        volume.put_shard(shard(3, 0), &bytes(3, 5_000)).unwrap();
        for keep in [Keep::Everything, Keep::Nothing] {
            let fork = Bench { disk: bench.disk.fork(), ..bench.clone() };
            fork.disk.restart(1, keep);
            fork.index.wipe();
            let volume = fork.reopen();
            assert_eq!(volume.packed(shard(1, 0)).unwrap(), bytes(1, 5_000));
            assert!(matches!(volume.packed(shard(2, 0)), Err(Error::NotFound)), "it was said to be absent");
            assert_eq!(volume.packed(shard(3, 0)).unwrap(), bytes(3, 5_000));
        }
    }
}

#[test]
fn segments_that_are_read_have_a_bounded_number_of_open_files() {
    let mut bench = Bench::new(1);
    bench.options.segment_bytes = 64 << 10;
    let mut volume = bench.reopen();
    let segments = SEGMENT_FILES_MAX as u64 + 20;
    let mut count = 0;
    while (volume.reader.status().segments as u64) < segments {
        volume.put_shard(shard(count, 0), &bytes(count, 12_000)).unwrap();
        count += 1;
    }
    for round in 0..2 {
        for one in 0..count {
            assert_eq!(volume.packed(shard(one, 0)).unwrap(), bytes(one, 12_000));
        }
        let open = bench.disk.open_files();
        // Files of the cache, the tail, volume.json.
        assert!(open <= SEGMENT_FILES_MAX as u64 + 4, "round {round}: {open}");
        drop(volume);
        bench.kill();
        volume = bench.reopen();
    }
}
