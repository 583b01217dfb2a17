//! Buckets that are made and deleted all the time, by clients in each other's way, while the node is killed.
//!
//! A client that finds its bucket changed by another one gets the outcome, or a conflict; only a write that a
//! volume took before its bucket went may have an unknown outcome. A deletion that a kill cut short is undone
//! right after the start: no bucket stays closed (I-15).

use std::time::Duration;

use tokio::task::JoinSet;

use crate::harness::s3::{Failure, Outcome, S3, outcome};
use crate::harness::wait::{LATER, SOON, bounded, eventually, promised};
use crate::harness::{Node, empty};

/// Kills.
const ROUNDS: usize = 6;
/// Buckets, each of which two clients make, fill, empty and delete.
const BUCKETS: usize = 4;
/// How long a bucket may be closed after a start: less than it takes to believe another gateway dead.
const CLOSED_MAX: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bucket_stays_closed_after_a_kill() {
    let mut node = empty().start().await;
    for round in 0..ROUNDS {
        let mut clients = JoinSet::new();
        for number in 0..2 * BUCKETS {
            clients.spawn(makes_and_deletes(node.s3(), format!("bucket-{}", number % BUCKETS)));
        }
        until_deleted(&node, 20 + 7 * round).await;
        let stopped = node.kill().await;
        bounded("the clients", SOON, clients.join_all()).await;
        node = stopped.start().await;
        node.until_ready().await;
        let s3 = node.s3();
        for number in 0..BUCKETS {
            let bucket = format!("bucket-{number}");
            eventually(&format!("{bucket} is open"), promised(CLOSED_MAX), async || {
                opens(&s3, &bucket).await.map_err(|failure| format!("{failure:?}"))
            })
            .await;
        }
    }
    node.until_whole().await;
    node.stop().await.is_clean();
}

/// Waits until `wanted` deletions of buckets were answered.
async fn until_deleted(node: &Node, wanted: usize) {
    eventually("buckets are deleted", LATER, async || {
        let deleted = node.metrics().await.sum_with("sherd_s3_requests_total", "api=\"DeleteBucket\"");
        #[expect(clippy::cast_precision_loss, reason = "a few requests")]
        if deleted >= wanted as f64 { Ok(()) } else { Err(format!("{deleted} of {wanted}")) }
    })
    .await;
}

/// Does what a client does until the node is gone.
async fn makes_and_deletes(s3: S3, bucket: String) {
    loop {
        for (writes_object, outcome) in [
            (false, create(&s3, &bucket).await),
            (true, put(&s3, &bucket).await),
            (true, delete_object(&s3, &bucket).await),
            (false, delete(&s3, &bucket).await),
        ] {
            match outcome {
                Ok(()) | Err(Failure::Refused { status: 404 | 409, .. }) => {}
                // 503: its bucket was made again while the write was under way.
                Err(Failure::Unavailable { status: 500 | 503, .. }) if writes_object => {}
                Err(Failure::Lost(_)) => return,
                Err(other) => panic!("{bucket}: {other:?}"),
            }
        }
    }
}

/// Writes into a bucket that is there, and makes one that is not.
async fn opens(s3: &S3, bucket: &str) -> Outcome<()> {
    match create(s3, bucket).await {
        Ok(()) => {}
        Err(Failure::Refused { code, .. }) if code == "BucketAlreadyOwnedByYou" => {}
        Err(failure) => return Err(failure),
    }
    put(s3, bucket).await?;
    delete_object(s3, bucket).await
}

async fn create(s3: &S3, bucket: &str) -> Outcome<()> {
    let create = s3.sdk().create_bucket().bucket(bucket).send();
    outcome(bounded("a new bucket", SOON, create).await).map(drop)
}

async fn delete(s3: &S3, bucket: &str) -> Outcome<()> {
    let delete = s3.sdk().delete_bucket().bucket(bucket).send();
    outcome(bounded("a bucket's deletion", SOON, delete).await).map(drop)
}

async fn put(s3: &S3, bucket: &str) -> Outcome<()> {
    let put = s3.sdk().put_object().bucket(bucket).key("key").body(b"body".to_vec().into()).send();
    outcome(bounded("a PUT", SOON, put).await).map(drop)
}

async fn delete_object(s3: &S3, bucket: &str) -> Outcome<()> {
    let delete = s3.sdk().delete_object().bucket(bucket).key("key").send();
    outcome(bounded("a DELETE", SOON, delete).await).map(drop)
}
