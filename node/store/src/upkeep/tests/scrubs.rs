//! Rows that were young when the scrubber looked at their page, and are looked at when its pass ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use sherd_core::heal::HealEntry;
use sherd_core::id::{BucketId, DataId, ObjectKey, ProposerId, RegisterKey, ShardId};
use sherd_core::message::{RowScan, ScannedRow, SeenShard, ShardPage};
use sherd_core::record::DataRef;

use super::{DEADLINE, Directories, Node, body, name};
use crate::object::WriteConditions;
use crate::peer::scripted::{Fate, ScriptedPeer, says};
use crate::peer::{LocalPeer, VolumeRoute};
use crate::upkeep::walks::place::ScrubPlace;

const SECOND_MS: u64 = 1_000;

/// Puts an object whose row and shards are on all volumes; without one of the shards then.
async fn put_without_a_shard(node: &Node, key: &str, seed: u64) -> (RegisterKey, DataRef) {
    node.put_everywhere(key, &body(seed, 3_000_000)).await;
    let (register, data) = (node.register(key).await, node.data(key).await);
    node.complete(&register, &data).await;
    std::fs::remove_file(node.file(&register, &data, 0)).expect("removed");
    (register, data)
}

/// The rows of these registers on a volume, once all are marked as committed.
async fn committed(node: &Node, own: &VolumeRoute, registers: &[&RegisterKey]) -> Vec<ScannedRow> {
    let rows = async {
        loop {
            let request = RowScan::all(node.workers.deps.cluster.epoch(), None, 1_000);
            let answer = own.peer.rows(own.volume, &request).await.expect("answered");
            let mut rows = answer.result.expect("not refused").rows;
            rows.retain(|row| row.row.head.committed && registers.contains(&&row.key));
            if rows.len() == registers.len() {
                return rows;
            }
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, rows).await.expect("they are committed")
}

/// Of three rows that were postponed one stays, one is written again and one is deleted before their turn
/// comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postponed_row_is_judged_as_it_is_when_its_turn_comes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (stays, stayed) = put_without_a_shard(&node, "stays", 1).await;
    let (again, replaced) = put_without_a_shard(&node, "again", 2).await;
    let (gone, deleted) = put_without_a_shard(&node, "gone", 3).await;
    let own = node.workers.deps.cluster.set_of(&stays).routes[0].clone();
    let mut postponed = Vec::new();
    for row in committed(&node, &own, &[&stays, &again, &gone]).await {
        node.workers.scrubber.scrub_row(&own, &row, &mut postponed).await;
    }
    assert_eq!(postponed.len(), 3, "all are young");
    let finds = |register: &RegisterKey, data: DataRef| {
        let entry = HealEntry { key: register.clone(), data: Some(data.into()), since_ms: 0 };
        node.workers.queue.mrf.contains(entry.id())
    };

    node.clock.advance(60 * SECOND_MS);
    let (_, rewritten) = put_without_a_shard(&node, "again", 4).await;
    node.objects.delete(name("gone"), WriteConditions::default()).await.expect("deleted");
    node.on_all_volumes(&gone).await;
    node.workers.scrubber.scrub_postponed(&own, &postponed).await;
    assert!(finds(&stays, stayed), "it is not young any more");
    assert!(!finds(&again, rewritten), "its last shard may be on its way");

    node.clock.advance(60 * SECOND_MS);
    node.workers.scrubber.scrub_postponed(&own, &postponed).await;
    assert!(finds(&again, rewritten), "another pass finds it");
    assert!(!finds(&again, replaced) && !finds(&gone, deleted), "they are named by nothing");
    node.close().await;
}

/// A heal that comes behind a page of files waits for the one that is looked at, and not for all of them.
#[tokio::test]
async fn a_page_of_files_is_paid_for_file_by_file() {
    const BYTES: u64 = 1_000_000;
    let directories = Directories::new(1);
    let node = directories.start().await;
    let volume = node.volumes.all()[0].id();
    let peer = Arc::new(ScriptedPeer::new(LocalPeer::new(node.volumes.clone())));
    let own = VolumeRoute::through(volume, &peer);
    let seen = |index| SeenShard {
        shard: ShardId { data: DataId { birth: node.workers.deps.now(), proposer: ProposerId(1) }, index },
        key: RegisterKey::object(BucketId([1; 16]), ObjectKey::new("k").expect("a key")),
        is_whole: true,
    };
    let page = ShardPage { shards: (0..8).map(seen).collect(), next: None };
    says(&peer.shard_pages, move |_, ()| Fate::Instead(Ok(page.clone())));
    says(&peer.verifies, |_, _| Fate::Instead(Ok(BYTES)));
    let (scrubber, throttle) = (&node.workers.scrubber, &node.workers.deps.throttle);
    throttle.set_bytes_per_second(BYTES);
    tokio::time::pause();
    let scrub = async {
        let place = ScrubPlace::Files { directory: 0, after: None };
        let (next, cost) = scrubber.scrub_page(&own, &place, &mut Vec::new()).await.expect("it is looked at");
        scrubber.pace(node.local(volume), cost).await;
        (next, cost)
    };
    let heal = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let begun = Instant::now();
        throttle.take(1).await;
        begun.elapsed()
    };
    let (looked_at, waited) = tokio::join!(scrub, heal);
    assert_eq!(looked_at, (None, 8 * BYTES));
    assert!(waited < Duration::from_secs(2), "{waited:?}");
}
