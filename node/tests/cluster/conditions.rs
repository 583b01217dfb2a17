//! Compare-and-set through several nodes: one creates a key, and what was replaced is one chain (I-5).
//!
//! Twelve clients create one key through four nodes at once, and one of them does. Sixteen clients replace
//! what they have seen through all nodes while nodes are killed one after the other and started again: from
//! what a key holds in the end, the links lead back to its first write through every acknowledged one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::harness::chain::Chain;
use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::data::{Dice, Home};
use crate::harness::s3::{Condition, Failure, S3};
use crate::harness::wait::{LATER, SOON, eventually, is_quiet};

/// Clients that create one key at once, and how often.
const CREATORS: usize = 12;
const ROUNDS: usize = 8;
/// Clients of the chains, and their keys.
const CLIENTS: usize = 16;
const KEYS: [&str; 2] = ["chain/one", "chain/other"];
/// Answers to writes between two events of a chain's cluster.
const ANSWERS: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_twelve_creates_a_key_through_four_nodes() {
    let mut dice = Dice::of_this_run("create through four");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    for round in 0..ROUNDS {
        let key = format!("create/{round}");
        let start = Arc::new(Barrier::new(CREATORS));
        let mut creators = JoinSet::new();
        for creator in 0..CREATORS {
            let (s3, start, key) = (clients[creator % 4].clone(), Arc::clone(&start), key.clone());
            let body = dice.body(Home::Inline);
            creators.spawn(async move {
                start.wait().await;
                (body, s3.put_if(&key, body, Condition::IfAbsent).await)
            });
        }
        let (mut winners, mut in_doubt) = (Vec::new(), Vec::new());
        for (body, outcome) in creators.join_all().await {
            match outcome {
                Ok(()) => winners.push(body),
                Err(Failure::Refused { status: 412, .. }) => {}
                // By nodes that are late: it may be the winner.
                Err(Failure::Unavailable { .. }) if !is_quiet() => in_doubt.push(body),
                Err(other) => panic!("a loser got {other:?}"),
            }
        }
        assert!(
            winners.len() == 1 || winners.is_empty() && !in_doubt.is_empty(),
            "one creates {key}: {winners:?}"
        );
        for s3 in &clients {
            let found = s3.get_settled(&key).await;
            match winners.first() {
                Some(winner) => assert_eq!(found, Some(*winner), "the winner's body is there"),
                None => {
                    assert!(found.is_none_or(|body| in_doubt.contains(&body)), "{found:?} of {in_doubt:?}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes, with those on five"]
async fn replaced_versions_are_one_chain_on_three_nodes() {
    one_chain_per_key(3, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_versions_are_one_chain_on_four_nodes() {
    one_chain_per_key(4, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn replaced_versions_are_one_chain_on_five_nodes() {
    one_chain_per_key(5, 30).await;
}

/// Clients of the nodes that run, which change with every start: S3 ports are new then.
type Gateways = Arc<Mutex<Vec<S3>>>;

/// The clients of one key.
struct Story {
    key: &'static str,
    chain: Arc<Chain>,
    gateways: Gateways,
    is_over: Arc<AtomicBool>,
}

async fn one_chain_per_key(nodes: usize, kills: usize) {
    let mut dice = Dice::of_this_run(&format!("chain on {nodes} nodes"));
    let mut cluster = cluster_of(nodes).start().await;
    let first_s3 = cluster.with_bucket().await;
    let gateways: Gateways = Arc::new(Mutex::new(first_s3.clone()));
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut chains, mut clients) = (Vec::new(), JoinSet::new());
    for key in KEYS {
        let body = dice.body(Home::Inline);
        first_s3[0].put_settled(key, body).await;
        let chain = Arc::new(Chain::default());
        for client in 0..CLIENTS / KEYS.len() {
            let (chain, gateways, is_over) =
                (Arc::clone(&chain), Arc::clone(&gateways), Arc::clone(&is_over));
            clients.spawn(replace(Story { key, chain, gateways, is_over }, dice.split(), client));
        }
        chains.push((key, body.etag(), chain));
    }
    for kill in 0..kills {
        more_answers(&chains).await;
        let victim = (kill + dice.below(2)) % nodes;
        cluster.kill(victim).await;
        more_answers(&chains).await;
        cluster.start(victim).await;
        *gateways.lock().expect("no client panics here") = cluster.clients();
        cluster.until_ready().await;
    }
    more_answers(&chains).await;
    is_over.store(true, Ordering::Relaxed);
    clients.join_all().await;
    check(&cluster, chains).await;
}

async fn check(cluster: &TestCluster, chains: Vec<(&'static str, String, Arc<Chain>)>) {
    for (key, first, chain) in chains {
        let mut last = None;
        for s3 in cluster.clients() {
            let seen = s3.get_settled(key).await.expect("it is never deleted").etag();
            assert_eq!(
                *last.get_or_insert_with(|| seen.clone()),
                seen,
                "{key}: nodes show different objects"
            );
        }
        let met = chain.check(key, &first, &last.expect("a node runs"));
        eprintln!("chain on {} nodes: {key}: {met} links, {} answers", cluster.len(), chain.answers());
        assert!(met > 0, "a client got through");
    }
}

/// Waits until the clients of every key had some more answers.
async fn more_answers(chains: &[(&'static str, String, Arc<Chain>)]) {
    for (key, _, chain) in chains {
        let wanted = chain.answers() + ANSWERS;
        eventually(&format!("{key} is replaced"), LATER, async || match chain.answers() {
            answers if answers >= wanted => Ok(()),
            answers => Err(format!("{answers} of {wanted} answers")),
        })
        .await;
    }
}

/// Replaces what is there until the story is over, through one node after the other; a node that is gone is
/// passed over.
async fn replace(story: Story, mut dice: Dice, client: usize) {
    let Story { key, chain, gateways, is_over } = story;
    for turn in client.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let s3 = {
            let gateways = gateways.lock().expect("no client panics here");
            gateways[turn % gateways.len()].clone()
        };
        let answer = tokio::time::timeout(SOON, chain.replace(&s3, &mut dice, key)).await;
        match answer
            .unwrap_or_else(|elapsed| panic!("a write on {key} has no answer within {SOON:?}: {elapsed}"))
        {
            Ok(()) | Err(Failure::Unavailable { .. } | Failure::Lost(_)) => {}
            Err(refused) => panic!("a write on {key}: {refused:?}"),
        }
    }
}
