//! Public access blocks and ownership controls: those of a new bucket, changed, deleted, refused.

use aws_sdk_s3::types::{
    ObjectOwnership, OwnershipControls, OwnershipControlsRule, PublicAccessBlockConfiguration,
};

use super::*;

/// A block with these settings: of lists, of lists ignored, of policies, of public buckets.
fn block(settings: [bool; 4]) -> PublicAccessBlockConfiguration {
    let [acls, ignored, policy, buckets] = settings;
    PublicAccessBlockConfiguration::builder()
        .block_public_acls(acls)
        .ignore_public_acls(ignored)
        .block_public_policy(policy)
        .restrict_public_buckets(buckets)
        .build()
}

#[tokio::test]
async fn a_new_bucket_blocks_all_public_access() {
    let (_node, client) = a_bucket().await;
    let read = async || client.get_public_access_block().bucket(BUCKET).send().await;
    let shown = async || read().await.expect("a block").public_access_block_configuration;
    assert_eq!(shown().await, Some(block([true; 4])));
    let put = |settings| {
        let put = client.put_public_access_block().bucket(BUCKET);
        put.public_access_block_configuration(block(settings)).send()
    };
    for settings in [[false, false, true, false], [true, true, false, true], [false; 4]] {
        put(settings).await.expect("a change");
        assert_eq!(shown().await, Some(block(settings)));
    }
    // A setting that is not named is off.
    let some = PublicAccessBlockConfiguration::builder().restrict_public_buckets(true).build();
    let put_some = client.put_public_access_block().bucket(BUCKET);
    put_some.public_access_block_configuration(some).send().await.expect("a change");
    assert_eq!(shown().await, Some(block([false, false, false, true])));
    for _ in 0..2 {
        client.delete_public_access_block().bucket(BUCKET).send().await.expect("deleted");
        let refusal = refused(read().await);
        assert_eq!((refusal.status, &*refusal.code), (404, "NoSuchPublicAccessBlockConfiguration"));
        assert!(refusal.document().contains(&format!("<BucketName>{BUCKET}</BucketName>")));
    }
    put([true; 4]).await.expect("a change");
    assert_eq!(shown().await, Some(block([true; 4])));
    let nowhere = client.put_public_access_block().bucket("nowhere");
    let nowhere = nowhere.public_access_block_configuration(block([true; 4])).send().await;
    assert_eq!(code(nowhere), is(404, "NoSuchBucket"));
    let nowhere = client.get_public_access_block().bucket("nowhere").send().await;
    assert_eq!(code(nowhere), is(404, "NoSuchBucket"));
}

#[tokio::test]
async fn deleted_ownership_controls_are_not_found_until_they_are_put() {
    let (_node, client) = a_bucket().await;
    let read = async || client.get_bucket_ownership_controls().bucket(BUCKET).send().await;
    let ownership = async || {
        let controls = read().await.expect("controls").ownership_controls.expect("rules");
        controls.rules()[0].object_ownership().clone()
    };
    assert_eq!(ownership().await, ObjectOwnership::BucketOwnerEnforced, "as a new bucket of AWS's");
    for _ in 0..2 {
        client.delete_bucket_ownership_controls().bucket(BUCKET).send().await.expect("deleted");
        assert_eq!(code(read().await), is(404, "OwnershipControlsNotFoundError"));
    }
    let refused = client.put_object().bucket(BUCKET).key("k").grant_read("id=1").send().await;
    assert_eq!(code(refused), is(400, "AccessControlListNotSupported"), "lists stay without effect");
    let enforced = ObjectOwnership::BucketOwnerEnforced;
    let rule = OwnershipControlsRule::builder().object_ownership(enforced).build().expect("a rule");
    let controls = OwnershipControls::builder().rules(rule).build().expect("rules");
    let put = client.put_bucket_ownership_controls().bucket(BUCKET).ownership_controls(controls);
    put.send().await.expect("a change");
    assert_eq!(ownership().await, ObjectOwnership::BucketOwnerEnforced);
}
