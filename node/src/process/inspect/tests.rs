//! A clean cluster is clean; what is broken in it is found and named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sherd_core::id::{DataId, Epoch, PartKey, ProposerId, RegisterKey, ShardId, Slot, Timestamp};
use sherd_core::limits::{KEY_BYTES_MAX, ORPHAN_AGE_MS};
use sherd_core::message::{ShardFileHeader, Target};
use sherd_core::record::{Attributes, ObjectTags, State};
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::error::OpenError;
use sherd_volume::options::Options;

use super::*;
use sherd_store::machine::system::{SystemClock, SystemRng};
use sherd_store::object::{CreateUpload, ObjectName};
use sherd_store::peer::{LocalPeer, Peer, ShardPeer};
use sherd_store::register::{Proposal, Writer};
use sherd_store::testing::{DEADLINE, Directories, body, key_of, uploads};

fn inspect(directories: &[PathBuf]) -> Result<Report, InspectError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    run(&disk, &clock, &SystemRng, directories, InspectRequest { verify: true, json: true }, &mut Vec::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_shards_are_named_and_a_healthy_cluster_is_clean() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put_everywhere("inline", &body(1, 100)).await;
    node.put_everywhere("packed", &body(2, 100_000)).await;
    node.put_everywhere("file", &body(3, 2_000_000)).await;
    assert!(matches!(inspect(&directories.paths()), Err(InspectError::Open(OpenError::InUse { .. }))));
    let (register, data) = (node.register("file").await, node.data("file").await);
    // A write waits for its last shards a little, and not for ever.
    node.complete(&register, &data).await;
    let (missing, rotten) = (node.file(&register, &data, 0), node.file(&register, &data, 3));
    node.close().await;

    let clean = inspect(&directories.paths()).expect("readable");
    assert_eq!(clean.problems, Vec::<String>::new());
    assert_eq!((clean.registers, clean.data_ids, clean.shards_elsewhere), (4, 2, 0));
    assert!(clean.volumes.iter().all(|volume| volume.rows == 4));

    let two = inspect(&directories.paths()[..2]).expect("readable");
    assert!(two.is_clean(), "{:?}", two.problems);
    assert_eq!(two.shards_elsewhere, 4);

    std::fs::remove_file(missing).expect("removed");
    let mut stored = std::fs::read(&rotten).expect("read");
    stored[300_000] ^= 1;
    std::fs::write(&rotten, stored).expect("written");
    let broken = inspect(&directories.paths()).expect("readable");
    let about = |index: &str| broken.problems.iter().any(|problem| problem.contains(index));
    assert!(about("shard 0 of") && about("shard 3 of"), "{:?}", broken.problems);

    let arguments = InspectArgs { directories: directories.paths(), verify: true, json: false };
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let code = super::inspect(&arguments, &mut out, &mut errors);
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::from(1)));
    let said = String::from_utf8(out).expect("text");
    assert!(said.contains("PROBLEM") && errors.is_empty(), "{said}");
}

/// Overwrites a byte of what a log holds, wherever it holds it; returns in how many places.
fn rot_in_log(volume: &Path, bytes: &[u8]) -> usize {
    let mut places = 0;
    for file in std::fs::read_dir(volume.join("log")).expect("a log") {
        let path = file.expect("a segment").path();
        let mut log = std::fs::read(&path).expect("readable");
        let found = log.windows(bytes.len()).position(|window| window == bytes);
        if let Some(at) = found {
            log[at] ^= 1;
            std::fs::write(&path, log).expect("writable");
            places += 1;
        }
    }
    places
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rot_that_was_replaced_is_no_problem_and_rot_that_is_live_is() {
    let directories = Directories::new(4);
    let (old, new) = (body(1, 200), body(2, 200));
    let node = directories.start().await;
    node.create_bucket().await;
    node.put_everywhere("key", &old).await;
    // By its volume's knowledge, a rotten last frame of a log was never acknowledged.
    node.put_everywhere("behind", &body(3, 200)).await;
    node.close().await;
    let volume = directories.paths().swap_remove(0);
    assert_eq!(rot_in_log(&volume, &old), 1, "every volume has the row with its bytes");
    // Without its index the volume reads its log from the beginning.
    std::fs::remove_dir_all(volume.join("index")).expect("an index");
    let live = inspect(&directories.paths()).expect("readable");
    assert!(!live.is_clean());
    assert_eq!(live.superseded_rotten, 0);

    let node = directories.start().await;
    node.put_everywhere("key", &new).await;
    node.close().await;
    std::fs::remove_dir_all(volume.join("index")).expect("an index");
    let replaced = inspect(&directories.paths()).expect("readable");
    assert_eq!(replaced.problems, Vec::<String>::new());
    assert_eq!(replaced.superseded_rotten, 1);
}

/// Packed shards and shard files that were written for a key, which never came to name them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_that_nothing_names_are_counted_by_age_and_are_no_problem() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put_everywhere("packed", &body(2, 100_000)).await;
    node.put_everywhere("file", &body(3, 2_000_000)).await;
    let (_, complete) = uploads::uploaded(&node).await;
    node.objects().complete_upload(complete).await.expect("an object of parts");
    let key = node.register("packed").await;
    let (volumes, target) = (node.volumes(), Target::new(key.clone(), Slot(0), Epoch::FIRST));
    let peer = LocalPeer::new(volumes.clone());
    let now_ms = SystemClock::new().wall_ms();
    for (volume, age_ms) in volumes.all().iter().zip([0, 0, 0, ORPHAN_AGE_MS + 60_000]) {
        let birth = Timestamp::from_ms(now_ms - age_ms);
        let shard = |index| ShardId { data: DataId { birth, proposer: ProposerId(1) }, index };
        peer.put_shard(volume.id(), shard(0), &target, vec![body(5, 1_000)]).await.expect("stored");
        let header = ShardFileHeader {
            shard: shard(1),
            key: key.clone(),
            data_shards: 2,
            parity_shards: 2,
            stripe_unit: 1 << 20,
            shard_bytes: 3_000,
        };
        let mut sink = peer.create_shard(volume.id(), &target, header, false);
        sink.append(vec![body(6, 3_000)]).await.expect("taken");
        sink.finish().await.expect("stored");
    }
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
    let found = inspect(&directories.paths()).expect("readable");
    assert_eq!(found.problems, Vec::<String>::new());
    let UnnamedShards { count, bytes, noted_count, sweepable_count, data } = &found.unnamed;
    assert_eq!((*count, *bytes, *noted_count, *sweepable_count), (8, 4 * 4_000, 0, 2), "{data:?}");
    assert_eq!(data.len(), 2);
    let arguments = InspectArgs { directories: directories.paths(), verify: true, json: false };
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let code = super::inspect(&arguments, &mut out, &mut errors);
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::SUCCESS));
    let said = String::from_utf8(out).expect("text");
    let line = "unnamed shards: 8, 16000 bytes; of them noted for release: 0, older than 48 h: 2\n";
    assert!(said.contains(line) && errors.is_empty(), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_upload_has_its_attributes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let attributes = Attributes { pairs: vec![("x-amz-meta-a".to_owned(), "v".to_owned())] };
    let name = ObjectName { bucket: key_of("bucket").into(), key: key_of("a") };
    let create = CreateUpload { name, attributes, tags: ObjectTags::default(), checksum: None };
    let upload = node.objects().create_upload(create).await.expect("an upload");
    let part = PartKey { upload, number: PartKey::ATTRIBUTES };
    let part = RegisterKey { part: Some(part), ..node.register("a").await };
    node.close().await;
    let whole = inspect(&directories.paths()).expect("readable");
    assert_eq!((whole.registers, whole.rows_unneeded, whole.problems), (3, 0, Vec::new()));

    let node = directories.start().await;
    let gone = |_: Option<&State>| Ok::<_, ()>(Proposal::of(State::Tombstone));
    let ticket = node.registers().begin(&part);
    node.registers().change(ticket, Writer::new(gone)).await.expect("changed");
    node.close().await;
    let lost = inspect(&directories.paths()).expect("readable");
    assert_eq!(lost.problems.len(), 1, "{:?}", lost.problems);
    assert!(lost.problems[0].contains("attributes of its open upload"), "{:?}", lost.problems);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_a_crash_left_open_is_no_problem() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (part, complete) = uploads::uploaded(&node).await;
    let stored = node.registers().read(&part).await.expect("readable").expect("there").value.state;
    let data = stored.data_refs()[0];
    node.complete(&part, &data).await;
    node.close().await;
    let open = inspect(&directories.paths()).expect("readable");
    assert_eq!((open.rows_unneeded, open.data_ids, open.problems), (0, 1, Vec::new()));

    let node = directories.start().await;
    node.objects().complete_upload(complete).await.expect("an object");
    uploads::until_closed(&node, &part).await;
    uploads::put_back(&node, &part, stored).await;
    node.put_everywhere("a", &body(2, 100)).await;
    // As upkeep does for what an object named that was replaced.
    let volumes = node.volumes();
    let peer = LocalPeer::new(volumes.clone());
    for (volume, index) in volumes.all().iter().flat_map(|volume| (0..4).map(move |index| (volume, index))) {
        let deleted = peer.delete_shard(volume.id(), ShardId { data: data.id, index }, data.home).await;
        deleted.expect("deleted");
    }
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
    let closed = inspect(&directories.paths()).expect("readable");
    assert_eq!((closed.rows_unneeded, closed.data_ids, closed.problems), (1, 0, Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_is_recovering_is_named_and_no_problem() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("inline", &body(1, 100)).await;
    node.put("packed", &body(2, 100_000)).await;
    node.close().await;
    let volume = directories.paths().swap_remove(0);
    std::fs::remove_dir_all(volume.join("log")).expect("a log");
    let found = inspect(&directories.paths()).expect("readable");
    assert_eq!(found.problems_count, 1, "it is a problem when it is found: {:?}", found.problems);
    assert!(found.problems[0].contains("lost state"), "{:?}", found.problems);
    let recovering = inspect(&directories.paths()).expect("readable");
    assert_eq!(recovering.problems, Vec::<String>::new());
    assert!(recovering.volumes[0].state.starts_with("recovering"), "{}", recovering.volumes[0].state);
    assert_eq!((recovering.data_ids, recovering.shards_elsewhere), (1, 1));
}

/// Only the keys that were looked up last are kept in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_are_verified_however_many_there_are_behind_them() {
    let directories = Directories::new(1);
    let node = directories.start().await;
    node.create_bucket().await;
    let old = body(1, 100_000);
    node.put("old", &old).await;
    let named_by = RegisterKey { key: key_of(&"k".repeat(KEY_BYTES_MAX)), ..node.register("old").await };
    let volumes = node.volumes();
    let (volume, peer) = (volumes.all()[0].id(), LocalPeer::new(volumes.clone()));
    let target = Target::new(named_by, Slot(0), Epoch::FIRST);
    // The entry of each holds its key.
    let count = Options::default().recent_bytes / KEY_BYTES_MAX as u64 + 1;
    for from in (0..count).step_by(1_000) {
        let puts = (from..count.min(from + 1_000)).map(|n| {
            let birth = Timestamp::from_ms(4_000_000_000_000 + n);
            let shard = ShardId { data: DataId { birth, proposer: ProposerId(1) }, index: 0 };
            peer.put_shard(volume, shard, &target, vec![body(n, 100)])
        });
        let refused: Vec<_> =
            futures::future::join_all(puts).await.into_iter().filter_map(Result::err).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());

    let clean = inspect(&directories.paths()).expect("readable");
    assert_eq!(clean.problems, Vec::<String>::new());
    assert_eq!((clean.volumes[0].packed_shards, clean.unnamed_broken), (count + 1, 0));

    assert_eq!(rot_in_log(&directories.paths()[0], &old[..200]), 1);
    let broken = inspect(&directories.paths()).expect("readable");
    assert!(broken.problems.iter().any(|problem| problem.contains("packed shard")), "{:?}", broken.problems);
    assert_eq!(broken.unnamed_broken, 0);
}
