//! Cross-origin rules that are put through one node are in force through every other one.
//!
//! When the call returns, the very next preflight through each other node is answered by the new rules,
//! though each of them remembers an older view of the bucket; also while one node is gone.

use aws_sdk_s3::types::{CorsConfiguration, CorsRule};

use crate::harness::Node;
use crate::harness::cluster::cluster_of;
use crate::harness::raw::Raw;
use crate::harness::s3::{BUCKET, S3, done, on_time};

const PAGE: &str = "https://page.example";

/// Status of a preflight's answer through a node, and the origin that it allows.
async fn allowed(node: &Node) -> (u16, Option<String>) {
    on_time(|| allowed_once(node), |(status, _)| *status == 503).await
}

async fn allowed_once(node: &Node) -> (u16, Option<String>) {
    let mut preflight = Raw::idle(&node.endpoint).await;
    let lines = format!("Host: node\r\nOrigin: {PAGE}\r\nAccess-Control-Request-Method: PUT\r\n\r\n");
    preflight.body(format!("OPTIONS /{BUCKET}/k HTTP/1.1\r\n{lines}").as_bytes()).await.expect("a head");
    let head = preflight.head().await.expect("an answer");
    (head.status, head.header("access-control-allow-origin").map(str::to_owned))
}

async fn put(client: &S3, origin: &str) {
    let rule = CorsRule::builder().allowed_origins(origin).allowed_methods("PUT").build();
    let rules = CorsConfiguration::builder().cors_rules(rule.expect("origins and methods")).build();
    let put = client.sdk().put_bucket_cors().bucket(BUCKET).cors_configuration(rules.expect("rules"));
    done("putting rules", || put.clone().send()).await;
}

async fn delete(client: &S3) {
    let delete = client.sdk().delete_bucket_cors().bucket(BUCKET);
    done("deleting rules", || delete.clone().send()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_put_through_one_node_are_in_force_through_the_others_at_once() {
    let mut cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    for node in cluster.running() {
        assert_eq!(allowed(node).await, (403, None), "a view without rules is remembered");
    }
    for (round, origin) in [PAGE, "*", "https://*.example", PAGE].into_iter().enumerate() {
        put(&clients[round], origin).await;
        let named = if origin == "*" { "*" } else { PAGE };
        for other in (0..4).map(|other| (round + other) % 4) {
            let allowed = allowed(cluster.node(other)).await;
            assert_eq!(allowed, (200, Some(named.to_owned())), "{origin} through {other}");
        }
        delete(&clients[(round + 1) % 4]).await;
        for node in cluster.running() {
            assert_eq!(allowed(node).await, (403, None), "no rules");
        }
    }
    cluster.kill(3).await;
    put(&clients[0], PAGE).await;
    for node in cluster.running() {
        assert_eq!(allowed(node).await, (200, Some(PAGE.to_owned())), "while a node is gone");
    }
}
