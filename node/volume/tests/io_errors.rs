//! Disks that fail, fill up and lie: waiting callers are answered, nothing acknowledged is lost, and a failed
//! volume stays failed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use sherd_core::message::{Control, ValueLimit};
use sherd_core::record::BucketPhase;
use sherd_core::register::{Accept, Prepare};
use sherd_volume::disk::faulty::{Call, Failure, Fault, InjectedFault, Keep};
use sherd_volume::error::{Error, OpenError};
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::request::Op;
use support::*;

fn fault(bench: &Bench, below: &str, call: Call, failure: Failure) -> InjectedFault {
    bench.disk.inject(Fault { under: bench.path.join(below), call, skip: 0, times: 1, failure })
}

#[test]
fn a_failed_sync_fails_the_volume_for_good_and_everybody_who_waits() {
    for call in [Call::Sync, Call::Write] {
        let bench = Bench::new(1);
        let mut volume = bench.reopen();
        volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
        let _fault = fault(&bench, "log", call, Failure::Io);
        let (first, done) = slot();
        volume.volume.submit(Op::PutShard {
            shard: shard(2, 0),
            target: target(&object("a")),
            payload: vec![bytes(2, 100)],
            done,
        });
        let (second, done) = slot();
        volume.volume.submit(Op::DeleteShard { shard: shard(1, 0), done });
        volume.run();
        for answer in [first.lock().take(), second.lock().take()] {
            assert!(matches!(answer, Some(Err(Error::Failed { .. }))), "{call:?}: {answer:?}");
        }
        assert!(matches!(volume.put_shard(shard(3, 0), &bytes(3, 1)), Err(Error::Failed { .. })));
        assert!(matches!(volume.packed(shard(1, 0)), Err(Error::Failed { .. })));
        drop(volume);
        bench.kill();
        assert!(matches!(bench.open(), Err(OpenError::Failed { .. })), "it stays failed");
    }
}

#[test]
fn an_answer_that_depends_on_a_row_in_the_batch_is_not_given_before_its_sync() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 10));
    let _fault = fault(&bench, "log", Call::Sync, Failure::Io);
    let key = target(&object("a"));
    let accept = || Accept {
        ballot: ballot(2),
        value: value(2, 10),
        introduces: Vec::new(),
        finishes: false,
        positions: std::sync::Arc::default(),
        origin: sherd_core::register::ValueOrigin::default(),
    };
    let (stored, done) = slot();
    volume.volume.submit(Op::Accept { target: key.clone(), accept: accept(), heal: None, done });
    let (read, done) = slot();
    volume.volume.submit(Op::Read { target: key.clone(), values: ValueLimit::NOTHING, done });
    let (promised, done) = slot();
    let prepare = Prepare { ballot: ballot(3) };
    volume.volume.submit(Op::Prepare { target: key.clone(), prepare, values: ValueLimit::NOTHING, done });
    let (again, done) = slot();
    volume.volume.submit(Op::Accept { target: key, accept: accept(), heal: None, done });
    volume.run();
    assert!(matches!(stored.lock().take(), Some(Err(Error::Failed { .. }))));
    assert!(matches!(read.lock().take(), Some(Err(Error::Failed { .. }))), "it showed a row that is gone");
    assert!(matches!(promised.lock().take(), Some(Err(Error::Failed { .. }))));
    assert!(matches!(again.lock().take(), Some(Err(Error::Failed { .. }))));
}

#[test]
fn a_record_that_cannot_be_read_is_reported_and_the_rest_is_served() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
    volume.put_shard(shard(2, 0), &bytes(2, 100)).unwrap();
    let segment = bench.path.join("log").join(format!("{:020}.seg", 1));
    bench.disk.make_unreadable(&segment, 2 * 4096..3 * 4096).unwrap();
    assert!(matches!(volume.packed(shard(1, 0)), Err(Error::Corrupt { .. })));
    assert!(volume.packed(shard(2, 0)).is_ok());
    assert_eq!(volume.reader.status().corrupt_reads, 1);
    assert!(matches!(volume.reader.verify_packed(shard(1, 0)), Err(Error::Corrupt { .. })));
    assert_eq!(volume.reader.verify_packed(shard(2, 0)).unwrap(), 100);
    // Compaction keeps what it cannot read, and a new copy heals it.
    volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
    assert_eq!(volume.packed(shard(1, 0)).unwrap(), bytes(1, 100));
}

/// Memory hides damage on the device from all reads except those for verification.
#[test]
fn verification_reads_from_the_device() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 9_000)).unwrap();
    let key = object("row");
    volume.accept(&key, ballot(5), &value(1, 300)).unwrap();
    let inline = |source| volume.reader.inline(&target(&key), ballot(5), source).and_then(Lookup::or_busy);
    let packed = |source| volume.reader.packed(shard(1, 0), 0..9_000, source).and_then(Lookup::or_busy);
    assert_eq!(volume.reader.verify_packed(shard(1, 0)).unwrap(), 9_000);
    volume.reader.verify_row(&key).unwrap();
    // Into memory again, and then the device goes bad.
    assert!(inline(Source::Disk).is_ok() && packed(Source::Disk).is_ok());
    let segment = bench.path.join("log").join(format!("{:020}.seg", 1));
    bench.disk.rot_device(&segment, 4096..64 << 10).unwrap();
    assert!(inline(Source::Cache).is_ok() && packed(Source::Cache).is_ok());
    assert!(matches!(volume.reader.verify_packed(shard(1, 0)), Err(Error::Corrupt { .. })));
    assert!(matches!(volume.reader.verify_row(&key), Err(Error::Corrupt { .. })));
}

/// The same on a filesystem that takes other positions than ours past its cache: pages are dropped first.
#[test]
fn verification_reads_from_the_device_where_nothing_goes_past_the_page_cache() {
    let bench = Bench::new(1);
    bench.disk.set_direct_align(1 << 20);
    let mut volume = bench.reopen();
    volume.put_shard(shard(1, 0), &bytes(1, 9_000)).unwrap();
    let segment = bench.path.join("log").join(format!("{:020}.seg", 1));
    bench.disk.rot_device(&segment, 4096..64 << 10).unwrap();
    assert!(volume.packed(shard(1, 0)).is_ok());
    assert!(matches!(volume.reader.verify_packed(shard(1, 0)), Err(Error::Corrupt { .. })));
}

/// Fills the disk until new data is refused.
fn fill(bench: &Bench, volume: &mut Driver) -> u64 {
    for _ in 0..4 {
        volume.reader.upkeep().unwrap();
    }
    bench.disk.set_capacity(4 << 20);
    for count in 0..1_000 {
        bench.clock.advance_ms(101);
        match volume.put_shard(shard(count, 0), &bytes(count, 30_000)) {
            Ok(()) => {
                let _ = volume.reader.upkeep();
            }
            Err(Error::Full) => return count,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk never fills");
}

#[test]
fn a_full_disk_refuses_new_data_and_takes_deletes_tombstones_and_floors() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    volume.write(&object("a"), ballot(1), &value(1, 100));
    volume.write(&object("bucket"), ballot(1), &bucket(1, 1, BucketPhase::Active));
    let count = fill(&bench, &mut volume);
    assert!(volume.reader.status().full);
    assert!(volume.reader.status().spares >= 2, "the reserve is there");
    let ask = ballot(2);
    volume.prepare(&object("a"), ask).unwrap().result.unwrap();
    // A value that is larger than the one it replaces needs room; a smaller one makes some.
    assert!(matches!(volume.accept(&object("a"), ask, &value(2, 1_000)), Err(Error::Full)));
    volume.accept(&object("a"), ask, &tombstone(2)).unwrap().result.unwrap();
    // A bucket can be deleted, the deletion be undone and be done again; another cannot be made.
    let deletion = change(9);
    for (number, phase) in [
        (2, BucketPhase::Deleting { deletion }),
        (3, BucketPhase::Active),
        (4, BucketPhase::Deleting { deletion }),
        (5, BucketPhase::Deleted),
    ] {
        volume.prepare(&object("bucket"), ballot(number)).unwrap().result.unwrap();
        let accepted = volume.accept(&object("bucket"), ballot(number), &bucket(number, 1, phase));
        accepted.unwrap().result.unwrap();
    }
    volume.prepare(&object("bucket"), ballot(6)).unwrap().result.unwrap();
    let again = volume.accept(&object("bucket"), ballot(6), &bucket(6, 2, BucketPhase::Active));
    assert!(matches!(again, Err(Error::Full)));
    volume.control(Control::RaiseFloor { floor: ballot(1) }).unwrap().unwrap();
    volume.heal_put(sherd_core::heal::HealId([1; 16]), &bytes(1, 50)).unwrap();
    for one in 0..count {
        volume.delete_shard(shard(one, 0)).unwrap();
    }
    volume.settle();
    // With the deletes compaction makes room, and the volume takes data again.
    volume.reader.flush().unwrap();
    assert!(volume.compact() > 0);
    volume.reader.upkeep().unwrap();
    bench.clock.advance_ms(101);
    volume.run();
    assert!(!volume.reader.status().full, "{:?}", volume.reader.status());
    volume.put_shard(shard(5_000, 0), &bytes(1, 30_000)).unwrap();
    bench.kill();
    let mut volume = bench.reopen();
    let row = volume.read(&object("a")).unwrap().result.unwrap().row.unwrap();
    assert_eq!(row.head.ballot, ballot(2));
}

#[test]
fn a_disk_without_any_room_refuses_and_does_not_fail() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    bench.disk.set_capacity(1 << 20);
    let mut refused = 0;
    for count in 0..100 {
        match volume.heal_put(sherd_core::heal::HealId([count; 16]), &bytes(1, 4_000)) {
            Ok(()) => {}
            Err(Error::Full) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
    let held = volume.reader.heals(None, 1_000).unwrap().len();
    assert_eq!(held, 100 - refused);
    bench.disk.set_capacity(1 << 40);
    volume.heal_put(sherd_core::heal::HealId([200; 16]), &bytes(1, 4_000)).unwrap();
    bench.kill();
    assert_eq!(bench.reopen().reader.heals(None, 1_000).unwrap().len(), held + 1);
}

#[test]
fn a_disk_that_lies_about_syncs_is_found_out_by_the_position_that_peers_remember() {
    let bench = Bench::new(1);
    let mut volume = bench.reopen();
    bench.disk.set_lying(true);
    volume.put_shard(shard(1, 0), &bytes(1, 100)).unwrap();
    let told = volume.reader.answerer().position();
    bench.disk.restart(3, Keep::Nothing);
    bench.index.crash();
    let (volume, _) = bench.open().unwrap();
    assert!(volume.reader.openings().lacks(&told));
}

#[test]
fn a_directory_that_is_taken_away_fails_the_volume_until_it_is_opened_again() {
    let bench = Bench::new(1);
    let volume = bench.reopen();
    volume.reader.check_directory().unwrap();
    bench.disk.vanish(&bench.path).unwrap();
    assert!(matches!(volume.reader.check_directory(), Err(Error::Failed { .. })));
    assert!(matches!(volume.packed(shard(1, 0)), Err(Error::Failed { .. })));
}
