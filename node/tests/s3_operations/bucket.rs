//! Buckets: create, head, delete, list, location.

use aws_sdk_s3::types::{BucketLocationConstraint, CreateBucketConfiguration};

use super::*;

#[tokio::test]
async fn a_bucket_is_created_found_and_deleted() {
    let (_node, client) = a_bucket().await;
    let head = client.head_bucket().bucket(BUCKET).send().await.unwrap();
    assert_eq!(head.bucket_region(), Some("us-east-1"));
    client.delete_bucket().bucket(BUCKET).send().await.unwrap();
    assert_eq!(code(client.head_bucket().bucket(BUCKET).send().await), is(404, "NotFound"));
    assert_eq!(code(client.delete_bucket().bucket(BUCKET).send().await), is(404, "NoSuchBucket"));
}

#[tokio::test]
async fn creating_ones_own_bucket_again_succeeds_in_us_east_1() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "kept").await;
    client.create_bucket().bucket(BUCKET).send().await.unwrap();
    assert_eq!(get(&client, "k").await, b"kept");
}

#[tokio::test]
async fn a_bucket_name_obeys_the_rules() {
    let node = node().await;
    let client = node.client();
    for name in ["ab", "Upper", "under_score", "192.168.0.1", "xn--a", "end-"] {
        let refusal = code(client.create_bucket().bucket(name).send().await);
        assert_eq!(refusal, is(400, "InvalidBucketName"), "{name}");
    }
    client.create_bucket().bucket("a.b-c.1").send().await.unwrap();
}

#[tokio::test]
async fn a_bucket_is_in_this_region_only() {
    let node = node().await;
    let client = node.client();
    let elsewhere =
        CreateBucketConfiguration::builder().location_constraint(BucketLocationConstraint::EuWest1).build();
    let created = client.create_bucket().bucket(BUCKET).create_bucket_configuration(elsewhere).send().await;
    assert_eq!(code(created), is(400, "IllegalLocationConstraintException"));
    client.create_bucket().bucket(BUCKET).send().await.unwrap();
    let location = client.get_bucket_location().bucket(BUCKET).send().await.unwrap();
    assert!(location.location_constraint().is_none_or(|region| region.as_str().is_empty()));
    let nowhere = client.get_bucket_location().bucket("nowhere").send().await;
    assert_eq!(code(nowhere), is(404, "NoSuchBucket"));
}

#[tokio::test]
async fn a_bucket_with_objects_stays() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "").await;
    assert_eq!(code(client.delete_bucket().bucket(BUCKET).send().await), is(409, "BucketNotEmpty"));
    client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
    client.delete_bucket().bucket(BUCKET).send().await.unwrap();
}

#[tokio::test]
async fn a_bucket_made_again_shows_nothing_of_the_old_one() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "old").await;
    client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
    client.delete_bucket().bucket(BUCKET).send().await.unwrap();
    client.create_bucket().bucket(BUCKET).send().await.unwrap();
    assert_eq!(code(client.get_object().bucket(BUCKET).key("k").send().await), is(404, "NoSuchKey"));
    assert_eq!(client.list_objects_v2().bucket(BUCKET).send().await.unwrap().key_count(), Some(0));
}

#[tokio::test]
async fn buckets_are_listed_by_name_prefix_and_page() {
    let node = node().await;
    let client = node.client();
    assert!(client.list_buckets().send().await.unwrap().buckets().is_empty());
    for name in ["bbb", "aab", "aaa", "aac"] {
        client.create_bucket().bucket(name).send().await.unwrap();
    }
    let all = client.list_buckets().send().await.unwrap();
    let names: Vec<&str> = all.buckets().iter().filter_map(|bucket| bucket.name()).collect();
    assert_eq!(names, ["aaa", "aab", "aac", "bbb"]);
    assert!(all.buckets().iter().all(|bucket| bucket.creation_date().is_some()));
    assert!(all.owner().and_then(|owner| owner.id()).is_some());

    let first = client.list_buckets().prefix("aa").max_buckets(2).send().await.unwrap();
    assert_eq!(first.buckets().len(), 2);
    let token = first.continuation_token().expect("there are more");
    let rest = client.list_buckets().prefix("aa").continuation_token(token).send().await.unwrap();
    let names: Vec<&str> = rest.buckets().iter().filter_map(|bucket| bucket.name()).collect();
    assert_eq!(names, ["aac"]);
    assert_eq!(rest.continuation_token(), None);
}

#[tokio::test]
async fn a_bad_page_of_buckets_is_refused() {
    let node = node().await;
    let client = node.client();
    for max in [-1, 0, 10_001] {
        let listed = client.list_buckets().max_buckets(max).send().await;
        assert_eq!(code(listed), is(400, "InvalidArgument"), "{max}");
    }
    let listed = client.list_buckets().continuation_token("tampered").send().await;
    assert_eq!(code(listed), is(400, "InvalidArgument"));
}

#[tokio::test]
async fn every_operation_misses_a_bucket_that_is_not_there() {
    let node = node().await;
    let client = node.client();
    let missing = is(404, "NoSuchBucket");
    assert_eq!(code(client.get_object().bucket("none").key("k").send().await), missing);
    assert_eq!(code(client.put_object().bucket("none").key("k").send().await), missing);
    assert_eq!(code(client.delete_object().bucket("none").key("k").send().await), missing);
    assert_eq!(code(client.list_objects().bucket("none").send().await), missing);
    assert_eq!(code(client.list_objects_v2().bucket("none").send().await), missing);
    assert_eq!(code(client.list_multipart_uploads().bucket("none").send().await), missing);
    assert_eq!(code(client.create_multipart_upload().bucket("none").key("k").send().await), missing);
    assert_eq!(
        code(client.copy_object().bucket("none").key("k").copy_source("none/k").send().await),
        missing
    );
}
