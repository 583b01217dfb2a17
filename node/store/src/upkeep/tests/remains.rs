//! Rows and data of a deleted bucket go; those of a bucket that is only sealed stay.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sherd_core::id::{BucketId, PartKey, RegisterKey, SetId};
use sherd_core::message::{Control, RowScan};
use sherd_core::record::{Attributes, Body, DataRef, ObjectTags, State, VersionKind};

use super::super::release::ReleaseOutcome;
use super::sweeps::{HOUR_MS, scrub_all, seal, tell};
use super::uploads::begun_upload;
use super::{Directories, Node, body, key_of, upload};
use crate::object::{CreateUpload, ObjectName, PartName, WriteConditions};
use crate::register::{Proposal, Writer};
use crate::upkeep::UpkeepTuning;
use crate::upkeep::final_seals::is_sealed_for_ever_on;
use crate::upkeep::rows::bring::heal_row;
use crate::upkeep::shards::subject::HealSubject;
use crate::upkeep::tuning::LiveTuning;

/// A node whose upkeep gives what is left of deleted buckets no grace.
async fn without_grace(directories: &Directories) -> Node {
    let mut node = directories.start().await;
    node.change_deps(|deps| {
        let tuning = UpkeepTuning { release_grace: Duration::ZERO, ..deps.settings.into() };
        deps.tuning = Arc::new(LiveTuning::new(tuning));
    });
    node
}

/// A part of an open upload: its register, and its data.
async fn part_of(
    node: &Node,
    name: &ObjectName,
    upload_id: sherd_core::id::UploadId,
    number: u16,
    bytes: usize,
) -> (RegisterKey, DataRef) {
    let part = PartName { name: name.clone(), upload: upload_id, number };
    node.objects.put_part(part, upload(&body(u64::from(number), bytes))).await.expect("a part is stored");
    let part = PartKey { upload: upload_id, number };
    let key = RegisterKey { part: Some(part), ..node.register(name.key.as_str()).await };
    let found = node.workers.deps.registers.read(&key).await.expect("readable").expect("there");
    let [data] = found.value.data_refs()[..] else { panic!("a part has one piece of data") };
    for register in [&key, &node.register(name.key.as_str()).await] {
        node.on_all_volumes(register).await;
    }
    node.complete(&key, &data).await;
    (key, data)
}

/// Two open uploads with a packed part and one in files, and a tombstone.
async fn with_open_uploads(node: &Node) -> Vec<(RegisterKey, DataRef)> {
    let mut parts = Vec::new();
    let (name, first) = begun_upload(node).await;
    parts.push(part_of(node, &name, first, 1, 100_000).await);
    parts.push(part_of(node, &name, first, 2, 3_000_000).await);
    let name = ObjectName { bucket: key_of("bucket").into(), key: key_of("b") };
    let create = CreateUpload {
        name: name.clone(),
        attributes: Attributes::default(),
        tags: ObjectTags::default(),
        checksum: None,
    };
    let second = node.objects.create_upload(create).await.expect("an upload is begun");
    parts.push(part_of(node, &name, second, 1, 3_000_000).await);
    node.put("deleted", &body(9, 1_000)).await;
    let deleted = ObjectName { bucket: key_of("bucket").into(), key: key_of("deleted") };
    node.objects.delete(deleted, WriteConditions::default()).await.expect("deleted");
    node.on_all_volumes(&node.register("deleted").await).await;
    parts
}

/// How many rows of a bucket each volume holds.
async fn rows_left(node: &Node, bucket: BucketId) -> Vec<usize> {
    let mut left = Vec::new();
    for volume in node.volumes.all() {
        let route = node.workers.deps.route_to(volume.id()).expect("a route");
        let request = RowScan::all(node.workers.deps.cluster.epoch(), None, 1_000);
        let page =
            route.peer.rows(volume.id(), &request).await.expect("answered").result.expect("not refused");
        left.push(page.rows.iter().filter(|row| row.key.bucket == bucket).count());
    }
    left
}

/// Shard files on all volumes.
fn files(directories: &Directories) -> Vec<PathBuf> {
    let shards = directories.paths().into_iter().map(|path| path.join("shards"));
    let homes = shards.flat_map(|shards| std::fs::read_dir(shards).expect("readable").flatten());
    homes
        .flat_map(|home| std::fs::read_dir(home.path()).into_iter().flatten().flatten())
        .map(|file| file.path())
        .collect()
}

async fn intact(node: &Node, (key, data): &(RegisterKey, DataRef)) -> usize {
    HealSubject::new(&node.workers.deps, key, *data).expect("fits its set").look(false).await.intact.len()
}

/// S3 lets a bucket go on which only uploads are open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_and_parts_of_a_deleted_bucket_go_from_every_volume() {
    let directories = Directories::new(4);
    let node = without_grace(&directories).await;
    node.create_bucket().await;
    let parts = with_open_uploads(&node).await;
    let bucket = parts[0].0.bucket;
    node.objects.delete_bucket(key_of("bucket"), true).await.expect("no object is in it");
    node.create_bucket().await;
    node.put_everywhere("a", &body(7, 3_000_000)).await;
    node.complete(&node.register("a").await, &node.data("a").await).await;
    let (name, second) = begun_upload(&node).await;
    let kept = part_of(&node, &name, second, 1, 3_000_000).await;

    node.workers.remains.look_for_remains().await;
    assert_eq!(rows_left(&node, bucket).await, [0; 4]);
    for part in &parts {
        assert_eq!(intact(&node, part).await, 0);
    }
    assert_eq!(files(&directories).len(), 8, "those of the object and the part that are named");
    assert_eq!(node.get("a").await, Some(body(7, 3_000_000)));
    assert_eq!(intact(&node, &kept).await, 4);
    node.clock.advance(72 * HOUR_MS);
    scrub_all(&node).await;
    assert_eq!(node.workers.scrubber.status().findings_count, 0);
    assert_eq!((node.workers.queue.mrf.status().len, node.workers.sweeper.status().suspects_len), (0, 0));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_deleted_bucket_left_is_no_damage() {
    let directories = Directories::new(4);
    let node = without_grace(&directories).await;
    node.create_bucket().await;
    let parts = with_open_uploads(&node).await;
    node.objects.delete_bucket(key_of("bucket"), true).await.expect("no object is in it");
    node.clock.advance(HOUR_MS);
    scrub_all(&node).await;
    assert!(rows_left(&node, parts[0].0.bucket).await.iter().all(|left| *left > 0), "nothing went yet");
    assert_eq!((node.workers.scrubber.status().findings_count, node.workers.queue.mrf.status().len), (0, 0));
    node.close().await;
}

/// A seal of a deletion that may be taken back, and the same once it was removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_under_another_seal_than_a_final_one() {
    let directories = Directories::new(4);
    let node = without_grace(&directories).await;
    node.create_bucket().await;
    let parts = with_open_uploads(&node).await;
    let bucket = parts[0].0.bucket;
    let before = rows_left(&node, bucket).await;
    let deletion = seal(&node, 0..4).await;
    node.workers.remains.look_for_remains().await;
    assert_eq!(rows_left(&node, bucket).await, before);
    tell(&node, 0..4, &Control::Unseal { bucket, deletion }).await;
    for part in &parts {
        assert_eq!(intact(&node, part).await, 4);
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_reads_of_a_deleted_bucket_stays_with_its_row() {
    let directories = Directories::new(4);
    let node = without_grace(&directories).await;
    node.create_bucket().await;
    let parts = with_open_uploads(&node).await;
    let bucket = parts[0].0.bucket;
    node.objects.delete_bucket(key_of("bucket"), true).await.expect("no object is in it");
    let pinned = node.workers.deps.pins.hold([(SetId(0), parts[1].1.id)]);
    node.workers.remains.look_for_remains().await;
    assert_eq!(rows_left(&node, bucket).await, [1; 4]);
    assert_eq!((intact(&node, &parts[0]).await, intact(&node, &parts[1]).await), (0, 4));
    drop(pinned);
    node.close().await;

    // A process that starts after it gives the readers of other nodes their full grace again.
    let node = directories.start().await;
    node.workers.remains.look_for_remains().await;
    assert_eq!((rows_left(&node, bucket).await, intact(&node, &parts[1]).await), (vec![1; 4], 4));
    node.close().await;
    let node = without_grace(&directories).await;
    node.workers.remains.look_for_remains().await;
    assert_eq!((rows_left(&node, bucket).await, intact(&node, &parts[1]).await), (vec![0; 4], 0));
    node.close().await;
}

/// No message reports the seals that became final meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_was_away_when_a_bucket_was_deleted_lets_go_of_it() {
    let directories = Directories::new(4);
    let node = without_grace(&directories).await;
    node.create_bucket().await;
    let parts = with_open_uploads(&node).await;
    let bucket = parts[0].0.bucket;
    heal_row(&node.workers.deps, &parts[0].0).await;
    let away = Arc::clone(&node.volumes.all()[3]);
    node.take_away(away.id()).await;
    node.objects.delete_bucket(key_of("bucket"), true).await.expect("no object is in it");
    std::fs::rename(away.path().with_extension("away"), away.path()).expect("moved back");
    node.back_online(away.id()).await;
    assert!(rows_left(&node, bucket).await[3] > 0);
    // The scrubber finds it before the volume was compared with its peers.
    node.clock.advance(HOUR_MS);
    node.workers.scrubber.scrub_pass(&away).await.expect("the pass ends");
    assert_eq!((node.workers.scrubber.status().findings_count, node.workers.queue.mrf.status().len), (0, 0));
    node.workers.remains.look_for_remains().await;
    assert_eq!(rows_left(&node, bucket).await, [0; 4]);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_comes_back_takes_the_final_seals_of_its_peers() {
    let directories = Directories::new(4);
    let node = without_grace(&directories).await;
    node.create_bucket().await;
    let bucket = node.register("a").await.bucket;
    tell(&node, 0..3, &Control::SealForEver { bucket }).await;
    let missed = Arc::clone(&node.volumes.all()[3]);
    assert!(node.comes_back(&missed).await);
    assert!(is_sealed_for_ever_on(&node.workers.deps, missed.id(), bucket));
    node.close().await;
}

/// Each volume's row names it, and the first that is looked through lets it go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_goes_although_the_page_that_it_names_is_gone() {
    let directories = Directories::new(4);
    let node = without_grace(&directories).await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    let (register, page) = (node.register("a").await, node.data("a").await);
    let listed = move |state: Option<&State>| {
        let Some(State::Object(object)) = state else { return Err(()) };
        let mut object = object.clone();
        let VersionKind::Content(content) = &mut object.versions[0].kind else { return Err(()) };
        content.body = Body::Manifest { page, parts: 1 };
        Ok(Proposal::of(State::Object(object)))
    };
    let ticket = node.workers.deps.registers.begin(&register);
    node.workers.deps.registers.change(ticket, Writer::new(listed)).await.expect("changed");
    tell(&node, 0..4, &Control::SealForEver { bucket: register.bucket }).await;
    assert_eq!(node.workers.releaser.delete_data(page).await, ReleaseOutcome::Done);
    node.workers.remains.look_for_remains().await;
    assert_eq!(rows_left(&node, register.bucket).await, [0; 4]);
    node.close().await;
}
