//! Deletions and seals whose bucket's register this node's own volumes do not show, or show as it was.

use std::sync::Arc;
use std::time::Duration;

use sherd_core::id::{ChangeId, ProposerId, Timestamp};
use sherd_core::record::BucketPhase;
use sherd_core::register::seal::Seals;

use super::sweeps::{move_bucket, phase, seal};
use super::{DEADLINE, Directories, Node, body, key_of};
use crate::object::{ObjectName, WriteConditions};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::final_seals::is_gone_for_ever;

/// Runs `work` on the bucket's register while the first volume is away.
async fn while_the_first_is_away(node: &Node, work: impl AsyncFnOnce()) {
    let first = Arc::clone(&node.volumes.all()[0]);
    node.take_away(first.id()).await;
    work().await;
    std::fs::rename(first.path().with_extension("away"), first.path()).expect("moved back");
    node.back_online(first.id()).await;
}

fn with_patience(node: &mut Node, deletion_after: Duration) {
    let workers = Arc::get_mut(&mut node.workers).expect("nothing runs yet");
    workers.deletion_watcher.deps.settings.deletion_after = deletion_after;
}

/// The gateway was killed before its first seal, so no node got a report of the deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_only_other_nodes_volumes_show_is_undone_when_somebody_meets_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let deletion =
        ChangeId { made: Timestamp::from_ms(node.workers.deps.wall_ms()), proposer: ProposerId(1) };
    while_the_first_is_away(&node, async || move_bucket(&node, BucketPhase::Deleting { deletion }).await)
        .await;
    let mut other = node.another_node(0..1);
    with_patience(&mut other, Duration::from_hours(1));
    other.workers.deletion_watcher.look_after_buckets().await;
    other.workers.deps.deletions.suspect();
    other.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(phase(&node).await, BucketPhase::Deleting { deletion }, "its gateway may be at it");
    with_patience(&mut other, Duration::ZERO);
    other.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(phase(&node).await, BucketPhase::Active, "it is watched from when it was met");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seal_becomes_final_though_this_nodes_volume_shows_its_bucket_as_it_was() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let register = node.register("a").await;
    let deletion = seal(&node, 0..1).await;
    let deleted_elsewhere = async || {
        move_bucket(&node, BucketPhase::Deleting { deletion }).await;
        move_bucket(&node, BucketPhase::Deleted).await;
        node.create_bucket().await;
    };
    while_the_first_is_away(&node, deleted_elsewhere).await;
    let other = node.another_node(0..1);
    other.workers.deletion_watcher.look_after_buckets().await;
    assert!(is_gone_for_ever(&other.workers.deps, &register));
    for volume in node.volumes.all() {
        let serving = volume.serving().expect("it serves");
        assert_eq!(serving.reader.seals_of(register.bucket), Seals::Final, "on every volume");
    }
    node.close().await;
}

/// The hint of each settled row waits for a volume that is silent and not late yet: tries without a pause
/// would find in doubt what the one before settled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_deleted_right_after_its_object_beside_a_silent_volume() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let silent = node.volumes.all()[3].id();
    says(&script.accepts, move |volume, _| if volume == silent { Fate::Silence } else { Fate::Through });
    for _ in 0..4 {
        gateway.create_bucket().await;
        gateway.put("a", &body(1, 100)).await;
        let a = ObjectName { bucket: key_of("bucket").into(), key: key_of("a") };
        gateway.objects.delete(a, WriteConditions::default()).await.expect("three volumes take it");
        gateway.objects.delete_bucket(key_of("bucket"), true).await.expect("it is empty");
    }
    node.close().await;
}

/// No volume is late for a seal that takes long, so nothing else may show that it hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_makes_no_seal_is_not_waited_for_to_the_end() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let silent = node.volumes.all()[3].id();
    says(&script.controls, move |volume, _| if volume == silent { Fate::Silence } else { Fate::Through });
    // An hour in these tests, for the seal and for the one that stays.
    let deletion = gateway.objects.delete_bucket(key_of("bucket"), true);
    let deleted = tokio::time::timeout(DEADLINE, deletion).await;
    deleted.expect("in time").expect("three volumes sealed it");
    // A volume that made the seal and then hangs: an hour for its list.
    node.create_bucket().await;
    says(&script.controls, |_, _| Fate::Through);
    says(&script.lists, move |volume, ()| if volume == silent { Fate::Silence } else { Fate::Through });
    let deletion = gateway.objects.delete_bucket(key_of("bucket"), true);
    let deleted = tokio::time::timeout(DEADLINE, deletion).await;
    deleted.expect("in time").expect("three volumes listed it");
    node.close().await;
}
