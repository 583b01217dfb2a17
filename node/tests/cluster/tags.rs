//! Tags of objects through four nodes: the others show the tags that one node sets, while a node is away and
//! after it came back with empty volumes.

use aws_sdk_s3::types::{Tag, Tagging};

use crate::harness::cluster::cluster_of;
use crate::harness::data::{Dice, Home};
use crate::harness::s3::{BUCKET, S3, done};

fn tag(value: &str) -> Tag {
    Tag::builder().key("k").value(value).build().expect("key and value")
}

async fn set_tag(s3: &S3, key: &str, value: &str) {
    let tagging = Tagging::builder().tag_set(tag(value)).build().expect("a set");
    let put = s3.sdk().put_object_tagging().bucket(BUCKET).key(key).tagging(tagging);
    done("three of four nodes are enough", || put.clone().send()).await;
}

async fn tags_of(s3: &S3, key: &str) -> Vec<Tag> {
    let get = s3.sdk().get_object_tagging().bucket(BUCKET).key(key).send().await;
    get.expect("three of four nodes are enough").tag_set
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_are_the_same_through_four_nodes_and_outlive_lost_volumes() {
    let mut dice = Dice::of_this_run("tags");
    let mut cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let bodies = [Home::Inline, Home::Packed, Home::File].map(|home| dice.body(home));
    let keys = ["inline", "packed", "file"];
    for (place, (key, body)) in keys.into_iter().zip(bodies).enumerate() {
        clients[place].put_settled(key, body).await;
        set_tag(&clients[place + 1], key, "first").await;
        for s3 in &clients {
            assert_eq!(tags_of(s3, key).await, [tag("first")], "{key}");
        }
    }
    cluster.kill(3).await;
    for key in keys {
        set_tag(&clients[0], key, "second").await;
        assert_eq!(tags_of(&clients[1], key).await, [tag("second")], "{key}");
    }
    cluster.wipe(3);
    cluster.start(3).await;
    cluster.until_whole().await;
    // Of the three that are left, one lost all that it had.
    cluster.kill(0).await;
    let clients = cluster.clients();
    for (key, body) in keys.into_iter().zip(bodies) {
        for s3 in &clients {
            assert_eq!(tags_of(s3, key).await, [tag("second")], "{key}");
            assert_eq!(s3.get_settled(key).await, Some(body), "{key}");
        }
    }
}
