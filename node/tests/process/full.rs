//! Volumes run full: writes are refused with 507, and everything else goes on.
//!
//! Four small filesystems are filled to the brim. Acknowledged objects are read, deletes work, and once the
//! grace for readers is over the space is there again, without a restart: that is ignored, for it takes
//! minutes. Needs to mount; prints a message where it cannot.

use std::time::Duration;

use crate::harness::data::{Body, Dice, Home};
use crate::harness::mounts::Mounts;
use crate::harness::s3::{BUCKET, Failure, outcome};
use crate::harness::wait::{SOON, eventually};
use crate::harness::{Node, empty};

/// Size of a volume's filesystem: its log, spare segments and the space held back for deletes take about
/// half.
const FILESYSTEM: &str = "640m";
/// Objects until a volume of that size must be full: far more than fit.
const OBJECTS_MAX: usize = 2000;
/// For the grace of two minutes (the shortest there is), and what comes after it.
const GRACE_AND_MORE: Duration = Duration::from_mins(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_volumes_refuse_writes_and_take_deletes() {
    if let Some(full) = filled().await {
        let FullNode { mounts, node, kept, .. } = full;
        for (key, body) in &kept {
            assert_eq!(node.s3().get_settled(key).await, Some(*body), "{key}");
        }
        node.stop().await.is_clean();
        drop(mounts);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: the grace"]
async fn full_volumes_recover_by_deletes() {
    if let Some(full) = filled().await {
        takes_writes_again(full).await;
    }
}

/// A node whose volumes ran full, and from which half of the objects were deleted.
struct FullNode {
    /// Unmounted when the node has ended.
    mounts: Mounts,
    node: Node,
    /// Free space when half of the objects were just deleted.
    free_bytes: f64,
    kept: Vec<(String, Body)>,
    deleted: Vec<(String, Body)>,
}

/// Fills a node, sees what it refuses and what it does not, and deletes half of the objects. Nothing where
/// this user cannot mount.
async fn filled() -> Option<FullNode> {
    let mut dice = Dice::of_this_run("full");
    let stopped = empty().serve("upkeep.release_grace = \"2m\"");
    let Some(mounts) = Mounts::new(stopped.volumes(), FILESYSTEM) else {
        eprintln!("SKIPPED: this user cannot mount filesystems of its own");
        return None;
    };
    let node = stopped.start().await;
    let s3 = node.with_bucket().await;
    let empty_bucket = s3.sdk().create_bucket().bucket("empty-one").send().await;
    empty_bucket.expect("there is space for a bucket");
    let upload = s3.sdk().create_multipart_upload().bucket(BUCKET).key("upload").send().await;
    let upload = upload.expect("there is space for an upload").upload_id.expect("an upload has an id");
    let mut objects: Vec<(String, Body)> = Vec::new();
    let refusal = loop {
        assert!(objects.len() < OBJECTS_MAX, "small filesystems never get full");
        let (key, body) = (format!("full/{}", objects.len()), Body { id: dice.next(), len: 4 << 20 });
        match s3.put(&key, body).await {
            Ok(()) => objects.push((key, body)),
            Err(failure) => break failure,
        }
    };
    let full = Failure::Unavailable { status: 507, code: "InsufficientStorage".to_owned() };
    assert_eq!(refusal, full, "after {} objects", objects.len());
    eprintln!("full: {} objects of 4 MiB fit", objects.len());

    says_that_it_is_full(&node).await;

    // Smaller ones may still fit into the log; in the end nothing does, and nothing else is said.
    for home in [Home::File, Home::Packed, Home::Inline] {
        let key = format!("small/{home:?}");
        match s3.put(&key, dice.body(home)).await {
            Ok(()) => s3.delete(&key).await.expect("deletes work on full volumes"),
            Err(failure) => assert_eq!(failure, full),
        }
    }
    // Requests that store are refused, those that remove are not.
    let sdk = s3.sdk();
    let refused = Err(full);
    assert_eq!(outcome(sdk.create_bucket().bucket("another-one").send().await).map(drop), refused);
    let begun = sdk.create_multipart_upload().bucket(BUCKET).key("another").send().await;
    assert_eq!(outcome(begun).map(drop), refused);
    let aborted = sdk.abort_multipart_upload().bucket(BUCKET).key("upload").upload_id(upload).send().await;
    outcome(aborted).expect("an upload is given up on full volumes");
    let not_empty = outcome(sdk.delete_bucket().bucket(BUCKET).send().await).expect_err("it holds objects");
    assert!(not_empty.is_refused(), "the deletion of a bucket is undone on full volumes: {not_empty:?}");
    outcome(sdk.delete_bucket().bucket("empty-one").send().await).expect("a bucket goes on full volumes");
    for (key, body) in &objects {
        assert_eq!(s3.get_settled(key).await, Some(*body), "{key}");
    }
    let kept = objects.split_off(objects.len() / 2);
    for (key, _) in &objects {
        s3.delete(key).await.expect("deletes work on full volumes");
    }
    assert_eq!(s3.list("full/").await.expect("a listing").len(), kept.len());
    let free_bytes = free_bytes(&node).await;
    Some(FullNode { mounts, node, free_bytes, kept, deleted: objects })
}

async fn free_bytes(node: &Node) -> f64 {
    node.metrics().await.sum("sherd_volume_free_bytes")
}

/// Waits for the space of what was deleted, and writes it again.
async fn takes_writes_again(full: FullNode) {
    let FullNode { mounts, node, free_bytes: before, kept, deleted: objects } = full;
    let s3 = node.s3();
    eventually("the deleted objects' space comes back", GRACE_AND_MORE, async || {
        let freed = free_bytes(&node).await - before;
        // A half of what was written: 2+2 doubles it.
        #[expect(clippy::cast_precision_loss, reason = "some hundreds of mebibytes")]
        let wanted = (objects.len() * (8 << 20)) as f64 * 0.8;
        if freed >= wanted { Ok(()) } else { Err(format!("{freed} of {wanted} bytes")) }
    })
    .await;
    says_that_it_takes_writes(&node).await;
    for (number, (_, body)) in objects.iter().take(objects.len() / 2).enumerate() {
        s3.put_settled(&format!("again/{number}"), *body).await;
    }
    for (key, body) in &kept {
        assert_eq!(s3.get_settled(key).await, Some(*body), "{key}");
    }
    node.until_healed().await;
    node.stop().await.is_clean();
    drop(mounts);
}

/// Readiness says that writes are refused and until when, and the log has said so once.
async fn says_that_it_is_full(node: &Node) {
    let ready = node.readiness().await;
    let why = ready["writes_refused"].as_str().unwrap_or_default();
    assert!(ready["ready"] == true && why.contains("2m"), "{ready}");
    assert_eq!(node.log_lines("writes are refused with 507"), 1, "said once");
}

/// Readiness says nothing of the kind any more, and the log has still said it once.
async fn says_that_it_takes_writes(node: &Node) {
    eventually("the node says that it takes writes", SOON, async || {
        let why = node.readiness().await["writes_refused"].clone();
        if why == "" { Ok(()) } else { Err(why.to_string()) }
    })
    .await;
    assert_eq!(node.log_lines("writes are refused with 507"), 1, "said once");
}
