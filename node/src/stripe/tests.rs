//! Bodies over a whole node whose budgets have room for little.

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use sherd_core::id::SetId;
use sherd_core::record::DataRef;

use crate::stripe::{self, ReadError};
use crate::upkeep::tests::{Directories, body};

/// A pool whose halves are a window of a download and a stripe of an upload each.
const POOL_BYTES: usize = 2 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_larger_than_the_budgets_go_through_side_by_side() {
    let directories = Directories::new(4);
    let node = directories.start_with_pool(POOL_BYTES).await;
    node.create_bucket().await;
    let bodies: Vec<(String, Bytes)> = (0..4).map(|n| (format!("k{n}"), body(n, 3 << 20))).collect();
    // Each has one share and wants the next: whoever waited while it holds one would stop them all.
    futures::future::join_all(bodies.iter().map(|(key, bytes)| node.put(key, bytes))).await;
    let reads = bodies.iter().map(async |(key, bytes)| {
        let (register, data) = (node.register(key).await, node.data(key).await);
        let mut read = stripe::read(node.stripes(), &register, data, 0..data.size);
        let mut hasher = blake3::Hasher::new();
        // As a connection does: what was sent is let go.
        while let Some(piece) = read.next().await {
            hasher.update(&piece.expect("there is a share in time"));
        }
        assert!(hasher.finalize() == blake3::hash(bytes), "{key}");
    });
    futures::future::join_all(reads).await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_has_its_share_until_its_bytes_are_gone() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("key", &body(1, 3 << 20)).await;
    let (register, data) = (node.register("key").await, node.data("key").await);
    let stripes = node.stripes();
    let free = || stripes.inner.downloads.free_bytes();
    let all = free();
    let mut read = stripe::read(stripes, &register, data, 0..data.size);
    let first = read.next().await.expect("there are bytes").expect("they are whole");
    let rest: Vec<Bytes> = read.try_collect().await.expect("they are whole");
    assert!(all - free() >= 3 << 20, "who reads holds all of it");
    drop(rest);
    assert_eq!(all - free(), 1 << 20, "the window of the first bytes is held");
    drop(first);
    assert_eq!(free(), all);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_is_read_from_the_set_that_it_names_or_else_from_its_key_s() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let bytes = body(1, 100_000);
    node.put("key", &bytes).await;
    let (register, data) = (node.register("key").await, node.data("key").await);
    assert_eq!(data.set, Some(SetId(0)), "what is written names its set");
    let read = async |data: DataRef| {
        let pieces = stripe::read(node.stripes(), &register, data, 0..data.size);
        pieces.try_collect::<Vec<Bytes>>().await.map(|pieces| pieces.concat())
    };
    assert_eq!(read(data).await.as_deref(), Ok(&bytes[..]));
    assert_eq!(
        read(DataRef { set: None, ..data }).await.as_deref(),
        Ok(&bytes[..]),
        "stored before sets were"
    );
    assert_eq!(read(DataRef { set: Some(SetId(1)), ..data }).await, Err(ReadError::Geometry), "not there");
    node.close().await;
}
