//! A bucket that is emptied gives its space back a grace later, whichever nodes were killed meanwhile.
//!
//! One node overwrites objects and another deletes them, and each is killed before the grace of the data it
//! replaced is over. Where two other nodes have its notes, the killed node never gets them again: those
//! release the data. No other node is restarted. In the longer story nodes are killed under a load of
//! conditional writes; the remains of the writes that the kills cut short are left to the sweep, and bounded
//! by the kills.

use std::time::Duration;

use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::data::{Body, Dice, Home};
use crate::harness::volumes;
use crate::harness::wait::{SOON, eventually};
use crate::load::{Expected, Load, Plan, Step};

/// The shortest there is.
const GRACE: &str = "release_grace = \"2m\"";
/// For the grace, and what comes after it.
const AFTER_GRACE: Duration = Duration::from_mins(6);
/// Large objects, and as many small ones.
const OBJECTS: u32 = 12;
/// Kills of the longer story, and its writers at one time.
const KILLS: usize = 8;
const WRITERS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: the grace"]
async fn an_emptied_bucket_gives_its_space_back_though_its_nodes_were_killed() {
    let mut cluster = cluster_of(4).with_upkeep(GRACE).start().await;
    let clients = cluster.with_bucket().await;
    for id in 0..2 * OBJECTS {
        for (home, len) in [("file", 2 << 20), ("packed", 100_000)] {
            let key = format!("{home}/{}", id % OBJECTS);
            clients[0].put_settled(&key, Body { id: id.into(), len }).await;
        }
    }
    until_noted(&cluster, 0).await;
    cluster.kill(0).await;
    cluster.start(0).await;
    cluster.until_whole().await;
    for id in 0..OBJECTS {
        for home in ["file", "packed"] {
            clients[1].delete_settled(&format!("{home}/{id}")).await;
        }
    }
    until_noted(&cluster, 1).await;
    cluster.kill(1).await;
    cluster.start(1).await;
    cluster.until_whole().await;
    until_files(&cluster, 0).await;
    cluster.stop_all().await;
    let said = cluster.inspected();
    assert!(said.contains("unnamed shards: 0, 0 bytes"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn a_bucket_that_was_written_while_nodes_were_killed_gives_its_space_back() {
    let mut dice = Dice::of_this_run("emptied");
    let load = Load::new("emptied/");
    let mut cluster = cluster_of(4).with_upkeep(GRACE).start().await;
    cluster.with_bucket().await;
    let keys: Vec<String> = (0..12).map(|key| load.key(key)).collect();
    let steps = [Step::Put(Home::Packed), Step::Put(Home::File), Step::Create, Step::Swap, Step::Delete];
    let plan = Plan { keys: keys.clone(), steps: steps.to_vec(), expected: Expected::Answered };
    for kill in 0..KILLS {
        let node = kill % cluster.len();
        let clients = load.start(&cluster.clients()[node], &mut dice, WRITERS, &plan);
        load.answers(60).await;
        cluster.kill(node).await;
        load.stop(clients).await;
        cluster.start(node).await;
        cluster.until_whole().await;
    }
    let clients = cluster.clients();
    for key in &keys {
        clients[0].delete_settled(key).await;
    }
    load.recorder.check();
    // Each writer had one write under way when its node was killed, and what its last ones replaced may not
    // be noted.
    let cut = KILLS * WRITERS * 2;
    until_files(&cluster, cut).await;
    cluster.stop_all().await;
    let said = cluster.inspected();
    assert!(said.contains("of them noted for release: 0,"), "{said}");
}

/// Waits until what a node replaced is queued there, and small objects have taken the notes of it into the
/// logs.
async fn until_noted(cluster: &TestCluster, node: usize) {
    let wanted = 2 * OBJECTS;
    eventually("what was replaced is queued", SOON, async || {
        match cluster.node(node).metrics().await.get("sherd_release_queue_length") {
            queued if queued >= f64::from(wanted) => Ok(()),
            queued => Err(format!("{queued} of {wanted}")),
        }
    })
    .await;
    let s3 = &cluster.clients()[node];
    for id in 0..OBJECTS {
        s3.put_settled("small", Body { id: id.into(), len: 100 }).await;
    }
    s3.delete_settled("small").await;
}

/// Waits until each volume has at most `count_max` shard files.
async fn until_files(cluster: &TestCluster, count_max: usize) {
    eventually("the space is given back", AFTER_GRACE, async || {
        let volumes = cluster.volumes();
        let left: Vec<usize> = volumes.iter().map(|volume| volumes::shard_files(volume).len()).collect();
        let queued: Vec<f64> = {
            let mut queued = Vec::new();
            for node in cluster.running() {
                queued.push(node.metrics().await.get("sherd_release_queue_length"));
            }
            queued
        };
        let is_done =
            left.iter().all(|files| *files <= count_max) && queued.iter().all(|entries| *entries == 0.0);
        if is_done { Ok(()) } else { Err(format!("{left:?} shard files, {queued:?} entries queued")) }
    })
    .await;
}
