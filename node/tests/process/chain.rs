//! Compare-and-set on one node: every acknowledged `If-Match` is one link of one chain (I-3, I-5).
//!
//! Clients replace what a HEAD has shown them, over and over, on two keys, at every geometry whose
//! quorums differ; `harness/chain.rs` follows the links.
//!
//! `SHERD_CHAIN_SECONDS` makes it as long as wanted; otherwise a number of writes ends it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::harness::chain::Chain;
use crate::harness::data::{Dice, Home};
use crate::harness::empty;
use crate::harness::s3::{Failure, S3};
use crate::harness::wait::{SOON, eventually};

const CLIENTS: usize = 16;
const KEYS: [&str; 2] = ["chain/one", "chain/other"];
/// Answers to writes after which a short run ends.
const ANSWERS: usize = 600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_versions_are_one_chain_on_one_volume() {
    one_chain_per_key(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_versions_are_one_chain_on_three_volumes() {
    one_chain_per_key(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_versions_are_one_chain_on_four_volumes() {
    one_chain_per_key(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_versions_are_one_chain_on_five_volumes() {
    one_chain_per_key(5).await;
}

async fn one_chain_per_key(volumes: usize) {
    let mut dice = Dice::of_this_run(&format!("chain on {volumes} volumes"));
    let node = empty().of_volumes(volumes).start().await;
    let s3 = node.with_bucket().await;
    let long = std::env::var("SHERD_CHAIN_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let until = long.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut chains = Vec::new();
    let mut clients = JoinSet::new();
    for key in KEYS {
        let body = dice.body(Home::Inline);
        let put = eventually("the first write", SOON, async || {
            s3.put(key, body).await.map_err(|failure| format!("{failure:?}"))
        });
        put.await;
        let chain = Arc::new(Chain::default());
        for _ in 0..CLIENTS / KEYS.len() {
            clients.spawn(replace(s3.clone(), dice.split(), key, Arc::clone(&chain), until));
        }
        chains.push((key, body.etag(), chain));
    }
    clients.join_all().await;
    for (key, first, chain) in chains {
        let last = s3.get_settled(key).await.expect("it is never deleted").etag();
        let met = chain.check(key, &first, &last);
        let answers = chain.answers();
        eprintln!("chain on {volumes} volumes: {key}: {met} links, {answers} answers");
        assert!(met > 0, "a writer got through");
    }
}

/// Replaces what is there, as often as the story takes.
async fn replace(s3: S3, mut dice: Dice, key: &'static str, chain: Arc<Chain>, until: Option<Instant>) {
    let goes_on = || match until {
        Some(until) => Instant::now() < until,
        None => chain.answers() < ANSWERS / KEYS.len(),
    };
    while goes_on() {
        match chain.replace(&s3, &mut dice, key).await {
            // A connection that was idle for long is closed beside what is sent on it.
            Ok(()) | Err(Failure::Unavailable { .. } | Failure::Lost(_)) => {}
            Err(other) => panic!("a write on {key}: {other:?}"),
        }
    }
}
