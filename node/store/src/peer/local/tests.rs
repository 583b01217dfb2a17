//! This node's volumes through the seam: what a call does, and what it does when it cannot.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use sherd_core::checksum::ShardDigest;
use sherd_core::id::{
    Ballot, BucketId, DataId, Epoch, ObjectKey, ProposerId, RegisterKey, Sequence, ShardId, Slot, Timestamp,
    UploadId, VolumeId,
};
use sherd_core::message::{
    Control, Error, PartsScan, ReadPurpose, RowScan, ShardFileHeader, ShardRange, ShardScan, Target,
};
use sherd_core::record::Home;
use sherd_core::register::Refusal;

use super::LocalPeer;
use crate::machine::workers::Workers;
use crate::observe::metrics::VolumeFault;
use crate::peer::limits::{APPENDS_UNDER_WAY_MAX, LATE_TRANSFERS_MAX, VERIFY_TURNS_MAX};
use crate::peer::watch::CallLength;
use crate::peer::{Peer, RegisterPeer, ShardPeer};
use crate::upkeep::tests::{DEADLINE, Directories, body};
use crate::volumes::{HealPace, VolumeState, Volumes, WORKERS};

const BYTES: usize = 300_000;

fn shard(n: u64) -> ShardId {
    ShardId { data: DataId { birth: Timestamp::from_ms(n), proposer: ProposerId(1) }, index: 0 }
}

fn target() -> Target {
    Target::new(key(), Slot(7), Epoch::FIRST)
}

fn key() -> RegisterKey {
    RegisterKey::object(BucketId([1; 16]), ObjectKey::new("k").expect("a key"))
}

fn header(n: u64) -> ShardFileHeader {
    ShardFileHeader {
        shard: shard(n),
        key: key(),
        data_shards: 1,
        parity_shards: 0,
        stripe_unit: 1 << 18,
        shard_bytes: BYTES as u64,
    }
}

fn whole(n: u64) -> ShardRange {
    ShardRange {
        shard: shard(n),
        home: Home::File,
        offset: 0,
        length: BYTES as u64,
        wanted: ReadPurpose::ByClient,
    }
}

async fn a_volume(directories: &Directories) -> (Volumes, LocalPeer, VolumeId) {
    let volumes = directories.start().await.volumes();
    let id = volumes.all()[0].id();
    (volumes.clone(), LocalPeer::new(volumes), id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_appended_in_order_are_read_back_in_order() {
    let directories = Directories::new(1);
    let (_volumes, peer, volume) = a_volume(&directories).await;
    let bytes = body(1, BYTES);
    let mut sink = peer.create_shard(volume, &target(), header(1), false);
    for piece in bytes.chunks(70_000) {
        sink.append(vec![Bytes::copy_from_slice(piece)]).await.expect("appended");
    }
    sink.finish().await.expect("durable");
    let read = peer.read_shard(volume, whole(1)).await.expect("read");
    assert_eq!(read.concat(), bytes);
    assert_eq!(peer.verify_shard(volume, shard(1), Home::File).await, Ok(BYTES as u64));
    let mut found = Vec::new();
    for directory in 0..=u8::MAX {
        let scan = ShardScan::Files { directory, after: None, limit: 10 };
        found.extend(peer.shards(volume, scan).await.expect("listed").shards);
    }
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].shard, &found[0].key), (shard(1), &key()));
}

/// A verified shard takes the turns of a heal on its volume, a mebibyte at one time, and at rest none.
#[tokio::test]
async fn a_shard_is_verified_at_the_pace_of_healing() {
    const MIB: u64 = 1 << 20;
    let directories = Directories::new(1);
    let (volumes, peer, volume) = a_volume(&directories).await;
    let header = ShardFileHeader { shard_bytes: 5 * MIB, ..header(1) };
    let mut sink = peer.create_shard(volume, &target(), header, false);
    for piece in body(1, 5 << 20).chunks(1 << 18) {
        sink.append(vec![Bytes::copy_from_slice(piece)]).await.expect("appended");
    }
    sink.finish().await.expect("durable");
    peer.put_shard(volume, shard(2), &target(), vec![body(2, 200_000)]).await.expect("durable");
    let lanes = volumes.heal_lanes();
    assert_eq!(lanes.charged_most(), 0, "clients write it");
    tokio::time::pause();
    lanes.set(HealPace { bytes_per_second: Some(MIB), ..HealPace::default() });
    let begun = Instant::now();
    assert_eq!(peer.verify_shard(volume, shard(1), Home::File).await, Ok(5 * MIB));
    assert_eq!((begun.elapsed().as_secs(), lanes.charged_most()), (4, 5 * MIB), "the last step is unpaid");
    assert_eq!(peer.verify_shard(volume, shard(2), Home::Packed).await, Ok(200_000));
    assert_eq!((begun.elapsed().as_secs(), lanes.charged_most()), (5, 200_000));
    lanes.set(HealPace { rests: true, ..HealPace::default() });
    let begun = Instant::now();
    let rest = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(lanes.charged_most(), 0);
        lanes.set(HealPace::default());
    };
    let (verified, ()) = tokio::join!(peer.verify_shard(volume, shard(1), Home::File), rest);
    assert_eq!((verified, begun.elapsed().as_secs()), (Ok(5 * MIB), 2));
}

/// However little healing may move, a shard is verified before its caller gives up.
#[tokio::test]
async fn a_shard_that_waited_for_its_turns_for_long_is_verified_without_them() {
    let directories = Directories::new(1);
    let (volumes, peer, volume) = a_volume(&directories).await;
    let bytes = 70 << 20;
    let header = ShardFileHeader { shard_bytes: bytes, ..header(1) };
    let mut sink = peer.create_shard(volume, &target(), header, false);
    for _ in 0..70 {
        sink.append(vec![body(1, 1 << 20)]).await.expect("appended");
    }
    sink.finish().await.expect("durable");
    tokio::time::pause();
    volumes.heal_lanes().set(HealPace { bytes_per_second: Some(1), ..HealPace::default() });
    let begun = Instant::now();
    assert_eq!(peer.verify_shard(volume, shard(1), Home::File).await, Ok(bytes));
    assert_eq!(begun.elapsed().as_secs(), VERIFY_TURNS_MAX.as_secs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_that_wait_for_the_volume_are_written_in_their_order_and_each_answered() {
    let directories = Directories::new(1);
    let (volumes, peer, volume) = a_volume(&directories).await;
    let serving = volumes.all()[0].serving().expect("it serves");
    let bytes = body(7, BYTES);
    let piece = BYTES / APPENDS_UNDER_WAY_MAX;
    let hung = hang(&serving.writes);
    let mut sink = peer.create_shard(volume, &target(), header(7), false);
    let appends: Vec<_> =
        bytes.chunks(piece).map(|piece| sink.append(vec![Bytes::copy_from_slice(piece)])).collect();
    let finish = sink.finish();
    drop(hung);
    for append in appends {
        assert_eq!(append.await, Ok(()));
    }
    assert_eq!(finish.await, peer.life(volume));
    assert_eq!(peer.read_shard(volume, whole(7)).await.expect("read").concat(), bytes);
    // Behind a failure nothing is written, and each append fails.
    let mut twice = peer.create_shard(volume, &target(), header(7), false);
    let failed: Vec<_> = (0..3).map(|_| twice.append(vec![body(7, 10)])).collect();
    for append in failed {
        assert!(append.await.is_err());
    }
    assert!(twice.finish().await.is_err());
    assert_eq!(peer.read_shard(volume, whole(7)).await.expect("read").concat(), bytes);
}

/// The bytes of a later append would stand where those of the refused one belong, and be as many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_append_ends_the_file_behind_those_under_way() {
    let directories = Directories::new(1);
    let (volumes, peer, volume) = a_volume(&directories).await;
    let serving = volumes.all()[0].serving().expect("it serves");
    let piece = || vec![body(7, BYTES / (APPENDS_UNDER_WAY_MAX + 1))];
    let hung = hang(&serving.writes);
    let mut sink = peer.create_shard(volume, &target(), header(7), false);
    let appends: Vec<_> = (0..APPENDS_UNDER_WAY_MAX).map(|_| sink.append(piece())).collect();
    assert_eq!(sink.append(piece()).await, Err(Error::Busy), "no more are under way");
    drop(hung);
    for append in appends {
        assert_eq!(append.await, Ok(()), "it came before");
    }
    until(|| files(&directories) == 0).await;
    assert_eq!(sink.append(piece()).await, Err(Error::Busy));
    assert_eq!(sink.finish().await, Err(Error::Busy));
    assert_eq!(peer.read_shard(volume, whole(7)).await, Err(Error::NotFound));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_that_no_worker_has_room_for_ends_the_file() {
    let directories = Directories::new(1);
    let (volumes, peer, volume) = a_volume(&directories).await;
    let serving = volumes.all()[0].serving().expect("it serves");
    let mut sink = peer.create_shard(volume, &target(), header(7), false);
    sink.append(vec![body(7, BYTES / 2)]).await.expect("appended");
    // The answer comes before the worker gives the file back.
    let hung = hang_all(&serving.writes).await;
    assert_eq!(files(&directories), 1);
    while serving.writes.run(|| {}).is_ok() {}
    assert_eq!(sink.append(vec![body(8, BYTES / 2)]).await, Err(Error::Busy));
    drop(hung);
    until(|| files(&directories) == 0).await;
    assert_eq!(sink.append(vec![body(9, BYTES / 2)]).await, Err(Error::Busy));
    assert_eq!(sink.finish().await, Err(Error::Busy));
    assert_eq!(peer.read_shard(volume, whole(7)).await, Err(Error::NotFound));
}

/// A writer with bad memory must not make a volume that is well suspect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_come_wrongly_are_refused_and_no_fault_of_the_volume() {
    let directories = Directories::new(1);
    let (volumes, peer, volume) = a_volume(&directories).await;
    let mut sink = peer.create_shard(volume, &target(), header(8), false);
    sink.append(vec![body(8, BYTES)]).await.expect("appended");
    sink.expect(ShardDigest([7; 32]));
    assert!(matches!(sink.finish().await, Err(Error::Corrupt { .. })));
    let mut sink = peer.create_shard(volume, &target(), header(9), false);
    assert!(matches!(sink.append(vec![body(9, BYTES + 1)]).await, Err(Error::Corrupt { .. })));
    let serving = volumes.all()[0].serving().expect("it serves");
    assert_eq!(serving.faults.of(VolumeFault::Corrupt), 0);
    assert_eq!(peer.read_shard(volume, whole(8)).await, Err(Error::NotFound));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_not_finished_is_removed() {
    let directories = Directories::new(1);
    let (_volumes, peer, volume) = a_volume(&directories).await;
    let mut sink = peer.create_shard(volume, &target(), header(2), false);
    sink.append(vec![body(2, 70_000)]).await.expect("appended");
    drop(sink);
    let gone = async {
        while peer.shard_bytes(volume, shard(2), Home::File).await != Err(Error::NotFound) {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(crate::upkeep::tests::DEADLINE, gone).await.expect("removed in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heal_puts_the_whole_file_over_the_old_one() {
    let directories = Directories::new(1);
    let (_volumes, peer, volume) = a_volume(&directories).await;
    for (seed, replace) in [(3, false), (4, true)] {
        let mut sink = peer.create_shard(volume, &target(), header(3), replace);
        sink.append(vec![body(seed, BYTES)]).await.expect("appended");
        sink.finish().await.expect("durable");
        assert_eq!(peer.read_shard(volume, whole(3)).await.expect("read").concat(), body(seed, BYTES));
    }
    let again = peer.create_shard(volume, &target(), header(3), false).append(vec![body(5, BYTES)]).await;
    assert!(again.is_err(), "a data id is written once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absent_volume_is_unreachable_at_once_and_says_why() {
    let directories = Directories::new(1);
    let (volumes, peer, volume) = a_volume(&directories).await;
    let unknown = peer.read_shard(VolumeId([9; 16]), whole(1)).await;
    assert!(matches!(unknown, Err(Error::Unreachable { .. })));
    assert_eq!(peer.read_shard(volume, whole(1)).await, Err(Error::NotFound));
    let local = Arc::clone(&volumes.all()[0]);
    assert_eq!(volumes.close(crate::upkeep::tests::DEADLINE).await, Vec::new());
    assert_eq!(local.state(), VolumeState::Closed);
    let closed = peer.put_shard(volume, shard(1), &target(), vec![body(1, 10)]).await;
    assert!(matches!(closed, Err(Error::Unreachable { reason }) if reason.contains("closed")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_a_topology_out_of_force_is_refused() {
    let directories = Directories::new(1);
    let (_volumes, peer, volume) = a_volume(&directories).await;
    let epoch = Epoch(2);
    let record = Control::RecordEpoch { slot: target().slot, epoch };
    assert!(peer.control(volume, record).await.expect("it serves").result.is_ok());
    let stale = Refusal::StaleEpoch { epoch };
    let refused = Error::Refused(stale);

    let put = |target: Target| peer.put_shard(volume, shard(1), &target, vec![body(1, 10)]);
    assert_eq!(put(target()).await, Err(refused.clone()));
    assert_eq!(peer.shard_bytes(volume, shard(1), Home::Packed).await, Err(Error::NotFound));
    let mut sink = peer.create_shard(volume, &target(), header(2), false);
    assert_eq!(sink.append(vec![body(1, 10)]).await, Err(refused.clone()));
    assert_eq!(peer.inline(volume, &target(), Ballot::ZERO).await, Err(refused));
    let dropped = peer.drop_row(volume, &target(), Ballot::ZERO).await.expect("it answers");
    assert_eq!(dropped.result, Err(stale));
    let (slot, upload) = (target().slot, UploadId([1; 16]));
    let parts = |epoch| PartsScan { bucket: BucketId([1; 16]), upload, slot, epoch, after: None, limit: 10 };
    assert_eq!(peer.parts(volume, &parts(Epoch::FIRST)).await.expect("it answers").result, Err(stale));
    let rows = |epoch| {
        let (since, until) = (Sequence(0), Sequence::MAX);
        RowScan { epoch, after: None, since, until, limit: 10, want_value: false }
    };
    assert_eq!(peer.rows(volume, &rows(Epoch::FIRST)).await.expect("it answers").result, Err(stale));

    // The topology in force is served, and requests for another slot are refused.
    assert!(put(Target::new(key(), slot, epoch)).await.is_ok());
    assert!(put(Target::new(key(), Slot(8), Epoch::FIRST)).await.is_ok());
    assert!(peer.parts(volume, &parts(epoch)).await.expect("it answers").result.is_ok());
    assert!(peer.rows(volume, &rows(epoch)).await.expect("it answers").result.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_whose_caller_is_gone_when_its_turn_comes_is_not_begun() {
    let directories = Directories::new(1);
    let (volumes, peer, volume) = a_volume(&directories).await;
    let serving = volumes.all()[0].serving().expect("it serves");
    let hung = hang(&serving.reads);
    let begun = Arc::new(AtomicUsize::new(0));
    let read = || {
        let begun = Arc::clone(&begun);
        peer.answer_on_readers(volume, CallLength::Long, move |_, answering| {
            begun.fetch_add(1, Ordering::SeqCst);
            answering.answer(Ok(()));
        })
    };
    for _ in 0..10 {
        drop(read());
    }
    let waited_for = read();
    drop(hung);
    assert_eq!(waited_for.await, Ok(()));
    assert_eq!(begun.load(Ordering::SeqCst), 1);
}

/// Bytes that were given up still stand in its queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_volume_is_unreachable_for_more_bytes_when_enough_wait_for_it() {
    let directories = Directories::new(1);
    let (volumes, peer, volume) = a_volume(&directories).await;
    let serving = volumes.all()[0].serving().expect("it serves");
    let hung = hang(&serving.writes);
    let append = |n| {
        let mut sink = peer.create_shard(volume, &target(), header(n), false);
        let appended = sink.append(vec![body(1, 1_000)]);
        (sink, appended)
    };
    let put = |n| peer.put_shard(volume, shard(n), &target(), vec![body(1, 1_000)]);
    let (sink, owed) = append(0);
    for n in 1..LATE_TRANSFERS_MAX as u64 {
        drop(append(n));
    }
    until(|| peer.has_overdue(volume)).await;
    let told = |refused: Result<(), Error>| match refused {
        Err(Error::Unreachable { reason }) => assert!(reason.contains("late"), "{reason}"),
        other => panic!("{other:?}"),
    };
    let (mut refused, first) = append(200);
    told(first.await);
    told(put(101).await.map(drop));
    drop((sink, hung));
    assert_eq!(owed.await, Ok(()));
    until(|| !peer.has_overdue(volume)).await;
    told(refused.append(vec![body(1, 1_000)]).await);
    assert!(put(102).await.is_ok(), "it has answered all of them");
}

/// Keeps all threads of a pool busy until what it gives is dropped, once they have done what came before.
fn hang(workers: &Workers) -> std::sync::mpsc::Sender<()> {
    hang_counted(workers, &Arc::default())
}

/// As [`hang`], and returns when all of them are.
async fn hang_all(workers: &Workers) -> std::sync::mpsc::Sender<()> {
    let hanging = Arc::default();
    let hung = hang_counted(workers, &hanging);
    until(|| hanging.load(Ordering::SeqCst) == WORKERS).await;
    hung
}

fn hang_counted(workers: &Workers, hanging: &Arc<AtomicUsize>) -> std::sync::mpsc::Sender<()> {
    let (hung, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(parking_lot::Mutex::new(wait));
    for _ in 0..WORKERS {
        let (wait, hanging) = (Arc::clone(&wait), Arc::clone(hanging));
        let job = move || {
            hanging.fetch_add(1, Ordering::SeqCst);
            assert!(wait.lock().recv().is_err(), "nothing is sent");
        };
        workers.run(job).expect("room");
    }
    hung
}

/// The shard files of the volume, finished or not.
fn files(directories: &Directories) -> usize {
    fn count(directory: &Path) -> usize {
        let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
        entries.flatten().map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
    }
    count(&directories.paths()[0].join("shards"))
}

async fn until(is_so: impl Fn() -> bool) {
    let seen = async {
        while !is_so() {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, seen).await.expect("in time");
}
