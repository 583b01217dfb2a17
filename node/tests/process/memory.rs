//! Memory of a node while it starts, idle and at work, measured from outside.
//!
//! RssAnon of /proc/PID/status is what the process allocated; the page cache is not its. The caps
//! are promises of an optimised binary, so they are asserted for one alone; the figures are printed
//! always. `SHERD_LONG_TESTS=1` adds the gibibyte.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::harness::raw::Raw;
use crate::harness::s3::S3;
use crate::harness::wait::{LATER, bounded};
use crate::harness::{Node, Stopped, empty, is_optimised};

/// Bytes sent at once, again and again.
const PIECE: usize = 1 << 20;
/// Most memory of an idle node, in KiB.
const IDLE_MAX_KIB: u64 = 40 << 10;
/// Most memory of a node under any load, in KiB.
const LOADED_MAX_KIB: u64 = 256 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stays_under_its_cap() {
    let long = std::env::var("SHERD_LONG_TESTS").is_ok_and(|value| value == "1");
    let (one, many) = if long { (1024, (32, 64)) } else { (128, (8, 16)) };
    if !long {
        eprintln!("SKIPPED the gibibyte and its 32 companions: set SHERD_LONG_TESTS=1");
    }
    let node = Arc::new(empty().start().await);
    let s3 = node.with_bucket().await;
    let idle = node.memory_kib("RssAnon");
    within("idle", idle, IDLE_MAX_KIB);

    let peak = peak_while(&node, Box::pin(put(&s3, "one", one))).await;
    within(&format!("PUT of {one} MiB"), peak, LOADED_MAX_KIB);
    let peak = peak_while(&node, Box::pin(get(&s3, "one", one))).await;
    within(&format!("GET of {one} MiB"), peak, LOADED_MAX_KIB);

    let (count, size) = many;
    let keys: Vec<_> = (0..count).map(|number| format!("many/{number}")).collect();
    let puts = futures::future::join_all(keys.iter().map(|key| put(&s3, key, size)));
    let peak = peak_while(&node, Box::pin(puts)).await;
    within(&format!("{count} PUTs of {size} MiB at once"), peak, LOADED_MAX_KIB);
    let gets = futures::future::join_all(keys.iter().map(|key| get(&s3, key, size)));
    let peak = peak_while(&node, Box::pin(gets)).await;
    within(&format!("{count} GETs of {size} MiB at once"), peak, LOADED_MAX_KIB);
}

/// Bytes of an object whose shards are packed in the log.
const PACKED_BYTES: usize = 256 << 10;
/// Writers of such objects at one time.
const WRITERS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_stays_under_the_cap_for_every_replay() {
    let long = std::env::var("SHERD_LONG_TESTS").is_ok_and(|value| value == "1");
    let each = if long { 150 } else { 10 };
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let writers = (0..WRITERS).map(|writer| {
        let s3 = s3.clone();
        async move {
            for number in 0..each {
                put_packed(&s3, &format!("start/{writer}/{number}")).await;
            }
        }
    });
    futures::future::join_all(writers).await;
    let stopped = node.kill().await;
    let node = peak_of_start("after a kill", stopped).await;
    let stopped = node.kill().await;
    for volume in stopped.volumes() {
        std::fs::remove_dir_all(volume.join("index")).expect("an index");
    }
    let node = peak_of_start("with all indexes lost", stopped).await;
    let s3 = node.s3();
    let mut raw = Raw::get(&s3, &format!("start/{}/{}", WRITERS - 1, each - 1)).await;
    let head = raw.head().await.expect("an answer");
    assert_eq!((head.status, head.len()), (200, PACKED_BYTES));
}

/// Starts a node and watches its memory until it is ready.
async fn peak_of_start(what: &str, stopped: Stopped) -> Node {
    let node = Arc::new(stopped.start().await);
    let ready = Arc::clone(&node);
    let peak = peak_while(&node, Box::pin(async move { ready.until_ready().await })).await;
    within(&format!("start {what}"), peak, LOADED_MAX_KIB);
    Arc::into_inner(node).expect("no watcher is left")
}

async fn put_packed(s3: &S3, key: &str) {
    let mut raw = Raw::put(s3, key, PACKED_BYTES).await;
    raw.body(&piece(0)[..PACKED_BYTES]).await.expect("the node takes bodies");
    let head = bounded("a PUT", LATER, raw.head()).await;
    assert_eq!(head.map(|head| head.status), Some(200), "{key}");
}

/// Prints a figure, and compares it where the binary is an optimised one.
fn within(what: &str, kib: u64, max_kib: u64) {
    eprintln!("memory: {what}: {} MiB of at most {} MiB", kib >> 10, max_kib >> 10);
    assert!(kib < max_kib || !is_optimised(), "{what} takes {kib} KiB");
}

/// The most that the node took while something happened.
async fn peak_while<T>(node: &Arc<Node>, work: Pin<Box<impl Future<Output = T>>>) -> u64 {
    let peak = Arc::new(AtomicU64::new(0));
    let watch = {
        let (node, peak) = (Arc::clone(node), Arc::clone(&peak));
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(std::time::Duration::from_millis(5));
            loop {
                ticks.tick().await;
                peak.fetch_max(node.memory_kib("RssAnon"), Ordering::Relaxed);
            }
        })
    };
    work.await;
    watch.abort();
    // The task holds the node until it has ended.
    drop(watch.await);
    peak.load(Ordering::Relaxed)
}

/// A piece of an object, by its place: no two pieces are the same.
fn piece(number: usize) -> Vec<u8> {
    let mut bytes = vec![0; PIECE];
    blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

async fn put(s3: &S3, key: &str, mebibytes: usize) {
    let mut raw = Raw::put(s3, key, mebibytes * PIECE).await;
    for number in 0..mebibytes {
        raw.body(&piece(number)).await.expect("the node takes bodies");
    }
    let head = bounded("a PUT", LATER, raw.head()).await;
    assert_eq!(head.map(|head| head.status), Some(200), "{key}");
}

async fn get(s3: &S3, key: &str, mebibytes: usize) {
    let mut raw = Raw::get(s3, key).await;
    let head = raw.head().await.expect("an answer");
    assert_eq!((head.status, head.len()), (200, mebibytes * PIECE), "{key}");
    // Pieces do not end where reads do.
    let mut left = Vec::new();
    for number in 0..mebibytes {
        while left.len() < PIECE {
            let some = raw.some().await;
            assert!(!some.is_empty(), "{key} ends in piece {number}");
            left.extend_from_slice(&some);
        }
        let next = left.split_off(PIECE);
        assert!(left == piece(number), "piece {number} of {key} differs");
        left = next;
    }
    assert!(left.is_empty(), "{key} is longer than it was");
}
