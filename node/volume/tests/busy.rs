//! A process that lacks descriptors for the moment is busy, at any call: nothing is half applied, no run
//! ends, and callers that must not wait do not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sherd_core::heal::HealId;
use sherd_core::limits::SEGMENT_FILES_MAX;
use sherd_core::message::Control;
use sherd_core::register::recover::Guarantees;
use sherd_volume::disk::Disk;
use sherd_volume::disk::faulty::{Call, Failure, Fault};
use sherd_volume::error::{Error, FaultClass};
use sherd_volume::index::IndexError;
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::request::Op;
use support::hooked::{HookedSource, IndexCall};
use support::*;

/// A volume whose index refuses lookups from the given one on.
fn refusing_lookups(bench: &Bench) -> (Driver, Arc<AtomicU64>) {
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let allowed = Arc::clone(&left);
    let hook = move |call| match call {
        IndexCall::Get => {
            let take = |left: u64| left.checked_sub(1);
            let error = IndexError::Unavailable { what: "no descriptor".to_owned(), class: FaultClass::Busy };
            allowed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map(drop).map_err(|_| error)
        }
        IndexCall::Found | IndexCall::Flush => Ok(()),
    };
    let (volume, _) = bench.open_volume_with(Box::new(HookedSource::new(&bench.index, hook))).unwrap();
    (Driver::new(volume, Arc::clone(&bench.clock)), left)
}

/// Where upkeep is far behind, writers flush: a refused flush is not the answer to their writes.
#[test]
fn a_flush_that_lacks_descriptors_holds_up_no_write_and_undoes_none() {
    let mut bench = Bench::new(1);
    bench.options.flush_bytes = 1;
    let refused = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&refused);
    let hook = move |call| match call {
        IndexCall::Flush => {
            count.fetch_add(1, Ordering::Relaxed);
            Err(IndexError::Unavailable { what: "no descriptor".to_owned(), class: FaultClass::Busy })
        }
        IndexCall::Get | IndexCall::Found => Ok(()),
    };
    let (volume, _) = bench.open_volume_with(Box::new(HookedSource::new(&bench.index, hook))).unwrap();
    let mut volume = Driver::new(volume, Arc::clone(&bench.clock));
    for number in 1..10 {
        volume.put_shard(shard(number, 0), &bytes(number, 100)).unwrap();
        // The visible batch is folded by the step that finds the next one queued.
        bench.clock.advance_ms(5_000);
    }
    assert!(refused.load(Ordering::Relaxed) >= 8, "each fold tried");
    (1..10).for_each(|number| assert_eq!(volume.packed(shard(number, 0)).unwrap(), bytes(number, 100)));
}

#[test]
fn an_index_that_lacks_descriptors_makes_any_operation_busy_and_ends_no_run() {
    let mut bench = Bench::new(1);
    // Nothing is answered from memory, and a segment begins with every third shard.
    bench.options.recent_bytes = 0;
    bench.options.fold_entries = 1;
    bench.options.segment_bytes = 64 << 10;
    let (mut volume, left) = refusing_lookups(&bench);
    volume.write(&object("a"), ballot(1), &value(1, 100));
    let mut held = Vec::new();
    for number in 0..40 {
        // The first lookups are allowed, one more each time.
        left.store(number % 8, Ordering::Relaxed);
        let put = volume.put_shard(shard(number, 0), &bytes(number, 15_000));
        volume.commit(&object("a"), ballot(1));
        volume.volume.submit(Op::HealDone { id: HealId([1; 16]) });
        volume.settle();
        let healed = volume.heal_put(HealId([2; 16]), &bytes(1, 10));
        let deleted = number.checked_sub(1).map_or(Ok(()), |before| volume.delete_shard(shard(before, 0)));
        left.store(u64::MAX, Ordering::Relaxed);
        for result in [&put, &healed, &deleted] {
            assert!(matches!(result, Ok(()) | Err(Error::Busy)), "{number}: {result:?}");
        }
        if deleted.is_ok() {
            held.retain(|held| held + 1 != number);
        }
        if put.is_ok() {
            held.push(number);
        }
        bench.clock.advance_ms(101);
    }
    assert!(volume.reader.status().segments > 3);
    let check = |volume: &mut Driver| {
        for number in 0..40 {
            assert_eq!(volume.packed(shard(number, 0)).is_ok(), held.contains(&number), "shard {number}");
        }
        assert!(volume.read(&object("a")).unwrap().result.unwrap().row.unwrap().head.committed);
    };
    volume.settle();
    check(&mut volume);
    drop(volume);
    bench.kill();
    bench.index.wipe();
    check(&mut bench.reopen());
}

#[test]
fn an_end_of_a_heal_that_the_index_could_not_read_is_written_later() {
    let mut bench = Bench::new(1);
    bench.options.recent_bytes = 0;
    bench.options.fold_entries = 1;
    let (mut volume, left) = refusing_lookups(&bench);
    volume.heal_put(HealId([1; 16]), &bytes(1, 50)).unwrap();
    volume.settle();
    left.store(0, Ordering::Relaxed);
    volume.volume.submit(Op::HealDone { id: HealId([1; 16]) });
    let before = volume.reader.status().frame_records.count();
    volume.settle();
    let frames = volume.reader.status().frame_records.count() - before;
    assert!(frames < 10, "it is not tried all the time: {frames}");
    assert_eq!(volume.reader.heals(None, 10).unwrap().len(), 1);
    left.store(u64::MAX, Ordering::Relaxed);
    volume.settle();
    assert_eq!(volume.reader.heals(None, 10).unwrap(), []);
}

#[test]
fn a_read_that_must_not_wait_opens_no_file() {
    let mut bench = Bench::new(1);
    bench.options.segment_bytes = 64 << 10;
    let mut volume = bench.reopen();
    let mut count = 0;
    while volume.reader.status().segments < SEGMENT_FILES_MAX + 20 {
        volume.put_shard(shard(count, 0), &bytes(count, 12_000)).unwrap();
        count += 1;
    }
    for one in 0..count {
        assert!(volume.packed(shard(one, 0)).is_ok());
    }
    let under = bench.path.join("log");
    let (call, failure) = (Call::Open, Failure::NoDescriptor);
    let fault = bench.disk.inject(Fault { under, call, skip: 0, times: u64::MAX, failure });
    let mut pending = 0;
    for one in 0..count {
        match volume.reader.packed(shard(one, 0), 0..100, Source::Cache).unwrap() {
            Lookup::Immediate(found) => assert_eq!(found.concat(), bytes(one, 12_000)[..100]),
            Lookup::Pending => pending += 1,
        }
    }
    assert_eq!(fault.end(), 0, "no file was opened");
    assert!(pending > 0, "some files are not open");
}

#[test]
fn a_volume_that_cannot_note_the_end_of_its_recovery_is_never_seen_to_vote() {
    let bench = Bench::new(1);
    bench.disk.vanish(&bench.path).unwrap();
    bench.disk.create_dir(&bench.path).unwrap();
    bench.index.wipe();
    bench.create(2, Some("replaced".to_owned())).unwrap();
    let (volume, _) = bench.open_volume().unwrap();
    let mut volume = Driver::unconfirmed(volume, Arc::clone(&bench.clock));
    let guarantees = Guarantees::default();
    volume.control(Control::TakeGuarantees { guarantees, seals: Vec::new() }).unwrap().unwrap();
    let under = bench.path.join("volume.json.new");
    let (call, failure) = (Call::Create, Failure::NoDescriptor);
    let fault = bench.disk.inject(Fault { under, call, skip: 0, times: 1, failure });
    let refused = volume.control(finish());
    assert!(matches!(refused, Err(Error::Failed { .. })), "{refused:?}");
    assert!(!volume.reader.answerer().votes, "volume.json does not say so");
    drop((fault, volume));
    bench.kill();
    // The log says that it finished.
    assert!(bench.reopen().reader.answerer().votes);
}

#[test]
fn segments_that_are_kept_open_are_closed_where_no_descriptor_is_left() {
    let mut bench = Bench::new(1);
    bench.options.segment_bytes = 64 << 10;
    bench.options.spare_segments = 0;
    let mut volume = bench.reopen();
    let mut count = 0;
    while volume.reader.status().segments < 4 {
        volume.put_shard(shard(count, 0), &bytes(count, 12_000)).unwrap();
        count += 1;
    }
    for call in [Call::Open, Call::Create, Call::SyncDir] {
        volume.packed(shard(0, 0)).unwrap();
        let under = bench.path.join("log");
        let fault =
            bench.disk.inject(Fault { under, call, skip: 0, times: 1, failure: Failure::NoDescriptor });
        // Of a segment that is not open yet, and into those that are begun.
        assert_eq!(volume.packed(shard(count - 1, 0)).unwrap(), bytes(count - 1, 12_000), "{call:?}");
        for _ in 0..6 {
            volume.put_shard(shard(count, 0), &bytes(count, 12_000)).unwrap();
            count += 1;
        }
        assert_eq!(fault.end(), 1, "{call:?}");
    }
}

#[test]
fn a_flush_that_lacks_descriptors_is_due_again() {
    let mut bench = Bench::new(1);
    bench.options.spare_segments = 0;
    let hook = |call| match call {
        IndexCall::Get | IndexCall::Found => Ok(()),
        IndexCall::Flush => {
            Err(IndexError::Unavailable { what: "no descriptor".to_owned(), class: FaultClass::Busy })
        }
    };
    let (volume, _) = bench.open_volume_with(Box::new(HookedSource::new(&bench.index, hook))).unwrap();
    let mut volume = Driver::new(volume, Arc::clone(&bench.clock));
    volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
    volume.settle();
    assert!(matches!(volume.reader.flush(), Err(Error::Busy)));
    bench.clock.advance_ms(bench.options.flush_after_us / 1000 + 1);
    assert!(volume.volume.step().upkeep);
}
