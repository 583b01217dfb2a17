//! All nodes are restarted one at a time, each healed before the next, and no client notices.
//!
//! Clients work through a load balancer that asks for readiness, each request tried up to five times as the
//! SDK does it. Between two restarts nothing is asked but what an operator asks: `sherd-node status`, of the
//! node that was restarted, until it ends with 0. Reads and writes go on all the while: not one request fails
//! in the end, and every answer fits one order (I-3, I-18). A key has one writer, for a request that is tried
//! again may happen twice.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::harness::balancer::Balancer;
use crate::harness::cluster::{ClusterShape, TestCluster, cluster_of};
use crate::harness::data::{Dice, Home};
use crate::harness::s3::S3;
use crate::harness::wait::{SOON, eventually};
use crate::load::{Load, Plan, Step};
use sherd_net::tls::Role;

/// Tries of one request.
const ATTEMPTS: u32 = 5;
/// Clients that write keys of their own, and keys of each.
const WRITERS: usize = 2;
const KEYS: usize = 4;
/// Clients that read and list everything.
const READERS: usize = 2;
/// Answers before the first restart, and while a node is away.
const ANSWERS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_are_restarted_one_by_one_and_no_request_fails() {
    no_request_fails(cluster_of(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn three_nodes_of_two_volumes_are_restarted_one_by_one() {
    no_request_fails(cluster_of(3).of_volumes(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn four_nodes_are_restarted_one_by_one() {
    no_request_fails(cluster_of(4)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn six_nodes_of_two_volumes_are_restarted_one_by_one() {
    no_request_fails(cluster_of(6).of_volumes(2)).await;
}

/// All of k + f shards are asked for while every node is up, and a node that has just died counts as up: its
/// shards are not there, and one try must still be enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_beside_a_dying_node_of_two_volumes_succeed_at_the_first_try() {
    let mut dice = Dice::of_this_run("dying node");
    let mut cluster = cluster_of(3).of_volumes(2).start().await;
    let clients = cluster.with_bucket().await;
    let dying = 2;
    cluster.kill(dying).await;
    let mut writes = JoinSet::new();
    for (number, home) in [Home::Packed, Home::File, Home::Packed, Home::File].into_iter().enumerate() {
        let (s3, key, body) = (clients[number % dying].clone(), format!("dying/{number}"), dice.body(home));
        writes.spawn(async move { (s3.put(&key, body).await, key, body) });
    }
    for (put, key, body) in writes.join_all().await {
        assert_eq!(put, Ok(()), "{key}");
        for s3 in &clients[..dying] {
            assert_eq!(s3.get(&key).await, Ok(Some(body)), "{key}");
        }
    }
}

async fn no_request_fails(shape: ClusterShape) {
    let mut dice = Dice::of_this_run("restarts");
    let load = Load::new("restarts/");
    let mut cluster = shape.start().await;
    cluster.with_bucket().await;
    let admin = cluster.pki.issue("anna", Role::Admin);
    let balancer = Balancer::start(cluster.len()).await;
    for node in 0..cluster.len() {
        balancer.know(node, cluster.node(node));
        until_balanced(&balancer, node).await;
    }
    let clients = clients(&load, &cluster, &balancer, &mut dice);
    load.answers(ANSWERS).await;
    for node in 0..cluster.len() {
        cluster.stop(node).await;
        load.answers(ANSWERS).await;
        cluster.start(node).await;
        balancer.know(node, cluster.node(node));
        cluster.until_status_is_healed(node, &admin).await;
        until_balanced(&balancer, node).await;
    }
    load.answers(ANSWERS).await;
    load.stop(clients).await;
    load.recorder.check();
    eprintln!("restarts: {} operations while {} nodes restarted", load.recorder.len(), cluster.len());
    cluster.stop_all().await;
    cluster.is_clean();
}

async fn until_balanced(balancer: &Balancer, node: usize) {
    eventually("the balancer finds the node ready", SOON, async || {
        if balancer.is_ready(node) { Ok(()) } else { Err("it is not".to_owned()) }
    })
    .await;
}

/// Starts writers of keys of their own, and readers of all keys; any failure fails the test.
fn clients(load: &Arc<Load>, cluster: &TestCluster, balancer: &Balancer, dice: &mut Dice) -> JoinSet<()> {
    let s3 = || S3::over(cluster.node(0).client_with_attempts(&balancer.endpoint(), ATTEMPTS));
    let keys = |writer: usize| (0..KEYS).map(move |key| format!("{writer}-{key}"));
    let keys = |writer| keys(writer).map(|key| load.key(key)).collect::<Vec<_>>();
    let mut clients = JoinSet::new();
    for writer in 0..WRITERS {
        let plan = Plan { keys: keys(writer), steps: changes(), all_succeeds: true };
        clients.spawn(ended(load.start(&s3(), dice, 1, &plan)));
    }
    let all: Vec<String> = (0..WRITERS).flat_map(keys).collect();
    for _ in 0..READERS {
        let plan = Plan { keys: all.clone(), steps: looks(), all_succeeds: true };
        clients.spawn(ended(load.start(&s3(), dice, 1, &plan)));
    }
    clients
}

async fn ended(clients: JoinSet<()>) {
    clients.join_all().await;
}

fn changes() -> Vec<Step> {
    let puts = [Home::Inline, Home::Inline, Home::Packed, Home::Packed, Home::File].map(Step::Put);
    [&puts[..], &[Step::Upload, Step::Delete, Step::Get]].concat()
}

fn looks() -> Vec<Step> {
    vec![Step::Get, Step::Get, Step::Get, Step::Head, Step::List]
}
