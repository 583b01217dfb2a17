//! A bucket that is configured through one node is so through all when the call returns (I-20): the very next
//! request through each other node is answered by it, fifty times over.
//!
//! The rules for requests across origins show in the headers of every answer. With a node that stands still
//! (SIGSTOP) the call still returns and the others are current; when that node goes on, it answers nothing by
//! the view that it had.

use aws_sdk_s3::types::{CorsConfiguration, CorsRule};
use rustix::process::Signal;

use crate::harness::cluster::cluster_of;
use crate::harness::data::{Dice, Home};
use crate::harness::raw::Raw;
use crate::harness::s3::{BUCKET, S3, done, on_time};
use crate::harness::wait::{LATER, bounded};

const ROUNDS: usize = 50;
const KEY: &str = "key";
const ORIGIN: &str = "https://a.example";
const OTHER: &str = "https://b.example";

/// Lets pages of one origin read the bucket.
async fn allow(s3: &S3, origin: &str) {
    let rule = CorsRule::builder().allowed_origins(origin).allowed_methods("GET").build();
    let rules = CorsConfiguration::builder().cors_rules(rule.expect("both lists are given")).build();
    let request = s3.sdk().put_bucket_cors().bucket(BUCKET);
    let request = request.cors_configuration(rules.expect("a rule is given"));
    done("configuring", || request.clone().send()).await;
}

async fn forbid(s3: &S3) {
    let request = s3.sdk().delete_bucket_cors().bucket(BUCKET);
    done("configuring", || request.clone().send()).await;
}

/// The status of an answer, and whether a page of [`ORIGIN`] may read it.
async fn read(s3: &S3) -> (u16, bool) {
    on_time(|| read_once(s3), |(status, _)| *status == 503).await
}

async fn read_once(s3: &S3) -> (u16, bool) {
    let head = Raw::get_from(s3, KEY, ORIGIN).await.head().await.expect("an answer");
    let allowed = head.header("access-control-allow-origin").map(str::to_owned);
    assert!(allowed.as_deref().is_none_or(|allowed| allowed == ORIGIN), "{allowed:?}");
    (head.status, allowed.is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_configured_through_every_node_when_the_call_returns() {
    let mut dice = Dice::of_this_run("configured");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    clients[0].put_settled(KEY, dice.body(Home::Inline)).await;
    for round in 0..ROUNDS {
        let is_allowed = match round % 5 {
            0 | 2 => {
                allow(&clients[0], ORIGIN).await;
                true
            }
            1 | 3 => {
                allow(&clients[0], OTHER).await;
                false
            }
            _ => {
                forbid(&clients[0]).await;
                false
            }
        };
        for (node, s3) in clients.iter().enumerate().rev() {
            assert_eq!(read(s3).await, (200, is_allowed), "round {round} through node {node}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stood_still_answers_nothing_by_the_view_that_it_had() {
    let mut dice = Dice::of_this_run("configured beside a stopped node");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    clients[0].put_settled(KEY, dice.body(Home::Inline)).await;
    allow(&clients[0], ORIGIN).await;
    for s3 in &clients {
        assert_eq!(read(s3).await, (200, true));
    }
    let stopped = 3;
    cluster.node(stopped).signal(Signal::STOP);
    allow(&clients[0], OTHER).await;
    for s3 in &clients[..stopped] {
        assert_eq!(read(s3).await, (200, false));
    }
    cluster.node(stopped).signal(Signal::CONT);
    let current = async {
        loop {
            match read_once(&clients[stopped]).await {
                // Connections of the node were lost meanwhile.
                (503, is_allowed) => assert!(!is_allowed),
                answer => return answer,
            }
        }
    };
    assert_eq!(bounded("a GET through the node that goes on", LATER, current).await, (200, false));
}
