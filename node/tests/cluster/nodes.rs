//! One store through any node, and nothing lost with any one of them (I-3, I-11).
//!
//! A write that one node acknowledged is read and listed by every other one. A node is killed under load,
//! another one loses its volume and is rebuilt by the rest; afterwards everything acknowledged is found
//! through each node, every answer fits one order, and the volumes of all nodes verify.

use crate::harness::cluster::cluster_of;
use crate::harness::data::{Dice, Home};
use crate::harness::s3::{BUCKET, Failure, S3, outcome};
use crate::harness::wait::{SOON, eventually};
use crate::load::{Expected, Load, Plan, Step};

/// Nodes of both stories.
const NODES: usize = 4;
/// Clients of each node.
const CLIENTS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_one_node_acknowledged_is_shown_by_every_other_one() {
    let mut dice = Dice::of_this_run("each through others");
    let load = Load::new("each/");
    let cluster = cluster_of(NODES).start().await;
    let clients = cluster.with_bucket().await;
    let mut keys = Vec::new();
    for (node, s3) in clients.iter().enumerate() {
        for (number, home) in Home::ALL.into_iter().enumerate() {
            let key = load.key(format_args!("{node}-{number}"));
            load.step_settled(s3, &mut dice, &key, Step::Put(home)).await;
            keys.push(key);
        }
        let key = load.key(format_args!("{node}-upload"));
        load.step_settled(s3, &mut dice, &key, Step::Upload).await;
        keys.push(key);
    }
    for s3 in &clients {
        load.read_all(s3, &keys).await;
        load.list_all(s3, &keys).await;
    }
    // Each node overwrites and deletes what another one wrote.
    for (index, key) in keys.iter().enumerate() {
        let s3 = &clients[(index + 1) % NODES];
        let step = if index % 3 == 0 { Step::Delete } else { Step::Swap };
        load.step_settled(s3, &mut dice, key, step).await;
        load.step_settled(&clients[(index + 2) % NODES], &mut dice, key, Step::Create).await;
    }
    for s3 in &clients {
        load.read_all(s3, &keys).await;
        load.list_all(s3, &keys).await;
    }
    load.recorder.check();
    eprintln!("nodes: {} operations on {} keys", load.recorder.len(), keys.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_killed_and_a_node_wiped_lose_nothing() {
    let mut dice = Dice::of_this_run("killed and wiped");
    let load = Load::new("lost/");
    let mut cluster = cluster_of(NODES).start().await;
    cluster.with_bucket().await;
    let keys: Vec<_> = (0..24).map(|key| load.key(key)).collect();
    let (killed, wiped) = (3, 1);

    under_load(&load, &cluster.clients(), &mut dice, &keys, async || {
        cluster.kill(killed).await;
    })
    .await;
    cluster.start(killed).await;
    cluster.until_ready().await;
    cluster.until_whole().await;

    cluster.kill(wiped).await;
    cluster.wipe(wiped);
    under_load(&load, &cluster.clients(), &mut dice, &keys, async || {
        cluster.start(wiped).await;
    })
    .await;
    cluster.until_ready().await;
    cluster.until_whole().await;

    for s3 in &cluster.clients() {
        load.read_all(s3, &keys).await;
        load.list_all(s3, &keys).await;
    }
    load.recorder.check();
    cluster.stop_all().await;
    cluster.is_clean();
    eprintln!("nodes: {} operations on {} keys", load.recorder.len(), keys.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_made_again_is_there_through_every_node() {
    let mut dice = Dice::of_this_run("bucket made again");
    let cluster = cluster_of(NODES).start().await;
    let clients = cluster.with_bucket().await;
    for round in 0..NODES {
        // Every node has used the bucket, and may have cached its former state.
        let key = format!("round/{round}");
        for s3 in &clients {
            s3.put_settled(&key, dice.body(Home::Inline)).await;
        }
        clients[round].delete_settled(&key).await;
        let (removed, made) = (clients[round].sdk(), clients[(round + 1) % NODES].sdk());
        outcome(removed.delete_bucket().bucket(BUCKET).send().await).expect("it is empty");
        outcome(made.create_bucket().bucket(BUCKET).send().await).expect("it is gone");
        for (node, s3) in clients.iter().enumerate() {
            // A node's cached bucket is first used by a write in one round, by a read in the next one.
            if round % 2 == 1 {
                let found = s3.get(&key).await;
                assert_eq!(found, Ok(None), "an old object in a new bucket, through node {node}");
            }
            let body = dice.body(Home::Inline);
            // The node may ask its client to come again; that the bucket is not there would be wrong.
            eventually("a write into the new bucket", SOON, async || match s3.put(&key, body).await {
                Ok(()) => Ok(()),
                Err(failure @ Failure::Unavailable { .. }) => Err(format!("{failure:?}")),
                Err(wrong) => panic!("the new bucket through node {node} in round {round}: {wrong:?}"),
            })
            .await;
            s3.delete_settled(&key).await;
        }
    }
}

/// Has clients of all nodes work before, while and after something happens to one. A client whose node is
/// gone ends.
async fn under_load(
    load: &std::sync::Arc<Load>,
    clients: &[S3],
    dice: &mut Dice,
    keys: &[String],
    happens: impl AsyncFnOnce(),
) {
    let plan = Plan { keys: keys.to_vec(), steps: steps(), expected: Expected::Answered };
    let running: Vec<_> = clients.iter().map(|s3| load.start(s3, dice, CLIENTS, &plan)).collect();
    load.answers(60).await;
    happens().await;
    load.answers(60).await;
    for clients in running {
        load.stop(clients).await;
    }
}

fn steps() -> Vec<Step> {
    let puts = [Home::Inline, Home::Inline, Home::Packed, Home::Packed, Home::File].map(Step::Put);
    [&puts[..], &[Step::Get; 5], &[Step::Create, Step::Swap, Step::Delete, Step::Head, Step::List]].concat()
}
