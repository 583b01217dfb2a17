//! A bucket is opened to requests without a signature, and closed again, through every node when the call
//! returns.
//!
//! The policy of the bucket, its public access block and that of the account are each changed through one
//! node; the very next anonymous read through each of the others is answered by the change, though each of
//! them remembers an older view. The account and its canonical id are the same through all nodes, and after
//! a restart.

use aws_sdk_s3::primitives::SdkBody;

use crate::harness::Node;
use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::data::{Dice, Home};
use crate::harness::raw::Raw;
use crate::harness::s3::{BUCKET, S3, done, on_time};

const KEY: &str = "key";

/// The status of an anonymous read through a node.
async fn read(node: &Node) -> u16 {
    on_time(|| read_once(node), |status| *status == 503).await
}

async fn read_once(node: &Node) -> u16 {
    let mut reader = Raw::idle(&node.endpoint).await;
    let request = format!("GET /{BUCKET}/{KEY} HTTP/1.1\r\nHost: node\r\n\r\n");
    reader.body(request.as_bytes()).await.expect("a head");
    reader.head().await.expect("an answer").status
}

/// A policy that lets everyone read, longer than what a bucket's record holds itself where it is padded.
fn policy(padding: usize) -> String {
    let id = "i".repeat(padding);
    format!(
        "{{\"Version\":\"2012-10-17\",\"Id\":\"{id}\",\"Statement\":[{{\"Effect\":\"Allow\",\"Principal\":\"*\",\
         \"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::{BUCKET}/*\"}}]}}"
    )
}

async fn put_policy(s3: &S3, padding: usize) {
    let put = s3.sdk().put_bucket_policy().bucket(BUCKET).policy(policy(padding));
    done("putting a policy", || put.clone().send()).await;
}

async fn delete_policy(s3: &S3) {
    let delete = s3.sdk().delete_bucket_policy().bucket(BUCKET);
    done("deleting a policy", || delete.clone().send()).await;
}

/// Gives the bucket a block that restricts public buckets, or none.
async fn restrict(s3: &S3, is_restricted: bool) {
    let block = aws_sdk_s3::types::PublicAccessBlockConfiguration::builder();
    let block = block.restrict_public_buckets(is_restricted).build();
    let put = s3.sdk().put_public_access_block().bucket(BUCKET).public_access_block_configuration(block);
    done("putting a block", || put.clone().send()).await;
}

/// Gives the account a block that restricts public buckets, or none: a call of S3 Control.
async fn restrict_account(s3: &S3, is_restricted: bool) {
    let request = || {
        s3.sdk().delete_bucket_cors().bucket(BUCKET).customize().mutate_request(move |request| {
            let origin = request.uri().split(&format!("/{BUCKET}")).next().expect("an origin").to_owned();
            request.set_uri(format!("{origin}/v20180820/configuration/publicAccessBlock")).expect("a path");
            request.headers_mut().insert("x-amz-account-id", "000000000001");
            request.set_method(if is_restricted { "PUT" } else { "DELETE" }).expect("a method");
            if is_restricted {
                let setting = "<RestrictPublicBuckets>true</RestrictPublicBuckets>";
                let name = "PublicAccessBlockConfiguration";
                let block = format!("<{name}>{setting}</{name}>");
                request.headers_mut().insert("content-length", block.len().to_string());
                *request.body_mut() = SdkBody::from(block);
            }
        })
    };
    done("changing the account's block", || request().send()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_opened_and_closed_through_every_node_when_the_call_returns() {
    let mut dice = Dice::of_this_run("anonymous");
    let mut cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    clients[0].put_settled(KEY, dice.body(Home::Inline)).await;
    let all = async |cluster: &TestCluster, expected: u16, when: &str| {
        for node in cluster.running() {
            assert_eq!(read(node).await, expected, "{when}");
        }
    };
    all(&cluster, 403, "a new bucket is its owner's").await;
    for (round, padding) in [0, 2000, 0, 15_000].into_iter().enumerate() {
        let client = |step: usize| &clients[(round + step) % 4];
        restrict(client(0), false).await;
        all(&cluster, 403, "without a policy").await;
        put_policy(client(1), padding).await;
        all(&cluster, 200, "by the policy").await;
        restrict(client(2), true).await;
        all(&cluster, 403, "restricted by the bucket").await;
        restrict(client(3), false).await;
        all(&cluster, 200, "by the policy again").await;
        restrict_account(client(0), true).await;
        all(&cluster, 403, "restricted by the account").await;
        restrict_account(client(1), false).await;
        all(&cluster, 200, "by the policy without the account's block").await;
        delete_policy(client(2)).await;
        all(&cluster, 403, "without the policy").await;
    }
    cluster.kill(3).await;
    put_policy(&clients[0], 0).await;
    all(&cluster, 200, "while a node is gone").await;
    restrict(&clients[1], true).await;
    all(&cluster, 403, "while a node is gone").await;
}

/// The canonical id of the owner, and of each grantee, as a node shows them.
async fn owner(s3: &S3) -> Vec<String> {
    let acl = done("the list", || s3.sdk().get_bucket_acl().bucket(BUCKET).send()).await;
    let list = done("buckets", || s3.sdk().list_buckets().send()).await;
    let owners = [acl.owner(), list.owner()].map(|owner| owner.and_then(|owner| owner.id()));
    let grantees = acl.grants().iter().map(|grant| grant.grantee().and_then(|grantee| grantee.id()));
    owners.into_iter().chain(grantees).map(|id| id.expect("an id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_has_one_canonical_id_through_all_nodes_and_after_a_restart() {
    let mut cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let ids = owner(&clients[0]).await;
    assert!(ids.iter().all(|id| *id == ids[0] && id.len() == 64), "{ids:?}");
    for client in &clients {
        assert_eq!(owner(client).await, ids);
        let expected = client.sdk().head_bucket().bucket(BUCKET).expected_bucket_owner("000000000001");
        done("the account", || expected.clone().send()).await;
    }
    cluster.kill(1).await;
    cluster.start(1).await;
    assert_eq!(owner(&cluster.node(1).s3()).await, ids);
}
