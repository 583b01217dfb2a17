//! Sixteen writers of one key through all nodes: none is refused for it, and together they are no slower than one
//! alone (I-5, I-6).
//!
//! At three, four and five volumes a set. Writers that only write are acknowledged; writers that replace what they
//! have seen are told 412 or win, and what they replaced is one chain. One writer and many take turns, so that a busy
//! machine slows both. A gateway that hardly gets to run may see a batch of its own overtaken by sixteen others
//! between two tries, and then nobody can say what came of it: some writes may be in doubt, none is refused.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::harness::chain::Chain;
use crate::harness::cluster::cluster_of;
use crate::harness::data::{Dice, Home};
use crate::harness::s3::{Failure, S3};
use crate::harness::wait::{SOON, bounded};

/// Writers of the key.
const WRITERS: usize = 16;
/// How often one and many take turns, and for how long each time.
const TURNS: usize = 3;
const TURN: Duration = Duration::from_millis(1500);
/// The key that all write to, and the one that all replace.
const WRITTEN: &str = "contention/written";
const REPLACED: &str = "contention/replaced";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_writers_of_one_key_through_three_nodes_are_never_refused() {
    nobody_is_refused(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_writers_of_one_key_through_four_nodes_are_never_refused() {
    nobody_is_refused(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_writers_of_one_key_through_five_nodes_are_never_refused() {
    nobody_is_refused(5).await;
}

async fn nobody_is_refused(nodes: usize) {
    let mut dice = Dice::of_this_run(&format!("contention on {nodes} nodes"));
    let cluster = cluster_of(nodes).start().await;
    let clients = cluster.with_bucket().await;
    let (mut one, mut many, mut in_doubt) = (0, 0, 0);
    for _ in 0..TURNS {
        let (alone, none) = writes(&clients, &mut dice, 1).await;
        let (together, some) = writes(&clients, &mut dice, WRITERS).await;
        assert_eq!(none, 0, "nobody is in the way of one writer");
        (one, many, in_doubt) = (one + alone, many + together, in_doubt + some);
    }
    let first = dice.body(Home::Inline);
    clients[0].put(REPLACED, first).await.expect("a healthy cluster");
    let chain = Arc::new(Chain::default());
    let (mut one_links, mut many_links) = (0, 0);
    for _ in 0..TURNS {
        one_links += replacements(&chain, &clients, &mut dice, 1).await;
        many_links += replacements(&chain, &clients, &mut dice, WRITERS).await;
    }
    eprintln!(
        "contention on {nodes} nodes: {WRITERS} writers {many} writes, one {one}; {many_links} links, one {one_links}"
    );
    eprintln!("contention on {nodes} nodes: {in_doubt} writes in doubt, {} replacements", chain.in_doubt());
    assert_eq!(chain.refused(), 0, "nobody who replaces is refused for the others");
    let mut shown = Vec::new();
    for s3 in &clients {
        shown.push(s3.get(REPLACED).await.expect("a healthy cluster").expect("nobody deletes it").etag());
    }
    assert!(shown.iter().all(|etag| *etag == shown[0]), "nodes show different objects: {shown:?}");
    let met = chain.check(REPLACED, &first.etag(), &shown[0]);
    assert_eq!(met, one_links + many_links, "every acknowledged replacement is a link");
    assert!(many >= one, "{WRITERS} writers of one key: {many} writes, one alone: {one}");
}

/// How many writes so many writers get through in one turn, and how many are in doubt. None may be refused.
async fn writes(clients: &[S3], dice: &mut Dice, writers: usize) -> (usize, usize) {
    let end = Instant::now() + TURN;
    let mut running = JoinSet::new();
    for writer in 0..writers {
        let (s3, mut dice) = (clients[writer % clients.len()].clone(), dice.split());
        running.spawn(async move {
            let (mut done, mut in_doubt) = (0, 0);
            while Instant::now() < end {
                match s3.put(WRITTEN, dice.body(Home::Inline)).await {
                    Ok(()) => done += 1,
                    Err(Failure::Unavailable { status: 500, .. }) => in_doubt += 1,
                    Err(refused) => panic!("a writer is refused for the others: {refused:?}"),
                }
            }
            (done, in_doubt)
        });
    }
    let counts = bounded("the writers", SOON, running.join_all()).await;
    counts.into_iter().fold((0, 0), |(done, in_doubt), (more, some)| (done + more, in_doubt + some))
}

/// How many replacements so many clients get through in one turn.
async fn replacements(chain: &Arc<Chain>, clients: &[S3], dice: &mut Dice, writers: usize) -> usize {
    let (end, before) = (Instant::now() + TURN, chain.acknowledged());
    let mut running = JoinSet::new();
    for writer in 0..writers {
        let (chain, s3, mut dice) =
            (Arc::clone(chain), clients[writer % clients.len()].clone(), dice.split());
        running.spawn(async move {
            while Instant::now() < end {
                chain.replace(&s3, &mut dice, REPLACED).await.expect("a HEAD, and an answer");
            }
        });
    }
    bounded("those who replace", SOON, running.join_all()).await;
    chain.acknowledged() - before
}
