//! Compare-and-set as its clients see it: every acknowledged `If-Match` is one link of one chain.
//!
//! Clients replace what a HEAD has shown them, over and over, on two keys, at every geometry whose
//! quorums differ. Each body is written once, so an entity tag names one write, and the writer knows
//! what it replaced. From what a key holds in the end, the links lead back to its first write: what was
//! acknowledged and is not on that way was lost, and two acknowledged writes that replaced the same one
//! cannot both be on it (I-3, I-5).
//!
//! `SHERD_CHAIN_SECONDS` makes it as long as wanted; otherwise a number of writes ends it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::harness::data::{Dice, Home};
use crate::harness::empty;
use crate::harness::s3::{Condition, Failure, S3};
use crate::harness::wait::{SOON, eventually};

const CLIENTS: usize = 16;
const KEYS: [&str; 2] = ["chain/one", "chain/other"];
/// Answers to writes after which a short run ends.
const ANSWERS: usize = 1500;

/// A write that was sent: by the entity tag of what it wrote.
#[derive(Debug, Clone)]
struct Link {
    replaces: String,
    is_acknowledged: bool,
}

#[derive(Debug, Default)]
struct Chain {
    links: Mutex<HashMap<String, Link>>,
    answers: AtomicUsize,
}

impl Chain {
    fn send(&self, etag: &str, replaces: &str) {
        let link = Link { replaces: replaces.to_owned(), is_acknowledged: false };
        let before = self.links.lock().expect("no client panics here").insert(etag.to_owned(), link);
        assert!(before.is_none(), "a body is written once");
    }

    /// A write that was refused changes nothing: it must not be on the chain.
    fn refuse(&self, etag: &str) {
        self.links.lock().expect("no client panics here").remove(etag);
    }

    fn acknowledge(&self, etag: &str) {
        let mut links = self.links.lock().expect("no client panics here");
        links.get_mut(etag).expect("it was sent").is_acknowledged = true;
    }

    /// Follows the links from the last write to the first, and returns how many acknowledged ones it met.
    fn check(&self, key: &str, first: &str, last: &str) -> usize {
        let links = self.links.lock().expect("no client panics here");
        let mut heirs: HashMap<&str, Vec<&str>> = HashMap::new();
        for (etag, link) in links.iter().filter(|(_, link)| link.is_acknowledged) {
            heirs.entry(&link.replaces).or_default().push(etag);
        }
        let split: Vec<_> = heirs.iter().filter(|(_, heirs)| heirs.len() > 1).collect();
        assert!(split.is_empty(), "{key}: replaced twice, and both were acknowledged: {split:?}");
        let (mut at, mut met, mut passed) = (last, 0, 0);
        while at != first {
            let link = links.get(at).unwrap_or_else(|| panic!("{key}: {at} is of a write that was refused"));
            met += usize::from(link.is_acknowledged);
            passed += 1;
            assert!(passed <= links.len(), "{key}: the links lead round in a circle");
            at = &link.replaces;
        }
        let acknowledged = links.values().filter(|link| link.is_acknowledged).count();
        assert_eq!(met, acknowledged, "{key}: acknowledged writes are missing from its chain");
        met
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_replaced_is_one_chain_on_one_volume() {
    one_chain_per_key(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_replaced_is_one_chain_on_three_volumes() {
    one_chain_per_key(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_replaced_is_one_chain_on_four_volumes() {
    one_chain_per_key(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_replaced_is_one_chain_on_five_volumes() {
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
        let last = s3.get_settled(key).await.expect("nobody deletes it").etag();
        let met = chain.check(key, &first, &last);
        let answers = chain.answers.load(Ordering::Relaxed);
        eprintln!("chain on {volumes} volumes: {key}: {met} links, {answers} answers");
        assert!(met > 0, "somebody got through");
    }
}

/// Replaces what is there, as often as the story takes.
async fn replace(s3: S3, mut dice: Dice, key: &'static str, chain: Arc<Chain>, until: Option<Instant>) {
    let goes_on = || match until {
        Some(until) => Instant::now() < until,
        None => chain.answers.load(Ordering::Relaxed) < ANSWERS / KEYS.len(),
    };
    while goes_on() {
        let Ok(Some(seen)) = s3.head(key).await else { continue };
        let body = dice.body(Home::Inline);
        let etag = body.etag();
        chain.send(&etag, &seen);
        match s3.put_if(key, body, Condition::IfMatch(seen)).await {
            Ok(()) => chain.acknowledge(&etag),
            Err(Failure::Refused { status: 412, .. }) => chain.refuse(&etag),
            Err(Failure::Unavailable { .. }) => {}
            Err(other) => panic!("a PUT on {key}: {other:?}"),
        }
        chain.answers.fetch_add(1, Ordering::Relaxed);
    }
}
