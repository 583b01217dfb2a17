//! A client that reads slowly through one node while the object is replaced through another one: its bytes
//! stay until it has read them, for its gateway has leases on all volumes and renews them.
//!
//! For longer than a lease lasts that is not renewed. Data that was replaced at the same time and has no
//! reader goes after its grace meanwhile, and the other data once its reader is done.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::data::Body;
use crate::harness::raw::Raw;
use crate::harness::volumes;
use crate::harness::wait::eventually;

/// The shortest there is.
const GRACE: &str = "release_grace = \"2m\"";
/// No client is cut off.
const LINES: &str = "[limits]\nstall_timeout = \"10m\"\n";
/// More than sockets and the node read ahead.
const LEN: usize = 32 << 20;
/// For a lease of five minutes, and the grace.
const READS_FOR: Duration = Duration::from_mins(8);
/// Between two reads of a few KiB.
const PAUSE: Duration = Duration::from_secs(5);
/// For the grace, and what comes after it.
const AFTER_GRACE: Duration = Duration::from_mins(6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn slowly_read_data_stays_while_it_is_replaced_through_another_node() {
    let cluster = cluster_of(4).with_upkeep(GRACE).configured(LINES).start().await;
    let clients = cluster.with_bucket().await;
    let [read, new] = [1, 2].map(|id| Body { id, len: LEN });
    for key in ["read", "unread"] {
        clients[0].put_settled(key, read).await;
    }
    let mut reader = Raw::get(&clients[0], "read").await;
    assert_eq!(reader.head().await.map(|head| head.status), Some(200));
    for key in ["read", "unread"] {
        clients[1].put_settled(key, new).await;
    }
    let (begun, mut seen, mut unread_gone) = (Instant::now(), Vec::new(), None);
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while begun.elapsed() < READS_FOR {
        ticks.tick().await;
        seen.extend_from_slice(&reader.some().await);
        let left = files(&cluster);
        assert!(left.iter().all(|count| *count >= 3), "what is read is there: {left:?} shard files");
        if unread_gone.is_none() && left.iter().all(|count| *count == 3) {
            unread_gone = Some(begun.elapsed());
        }
    }
    eprintln!(
        "readers: {} of {LEN} bytes in {READS_FOR:?}, the other data went after {unread_gone:?}",
        seen.len()
    );
    assert!(unread_gone.is_some(), "releases run meanwhile: {:?} shard files", files(&cluster));
    assert!(seen.len() < LEN / 2, "most of it was not read yet: {} bytes", seen.len());
    seen.extend(reader.bytes(LEN - seen.len()).await);
    assert_eq!(Body::recognise(&seen), Ok(read), "what the client began to read");
    drop(reader);
    eventually("what was read goes", AFTER_GRACE, async || {
        let left = files(&cluster);
        if left.iter().all(|count| *count == 2) { Ok(()) } else { Err(format!("{left:?} shard files")) }
    })
    .await;
    for (node, s3) in clients.iter().enumerate() {
        assert_eq!(s3.get_settled("read").await, Some(new), "through node {node}");
    }
}

/// Shard files on each volume: one for each version of a large object.
fn files(cluster: &TestCluster) -> Vec<usize> {
    cluster.volumes().iter().map(|volume| volumes::shard_files(volume).len()).collect()
}
