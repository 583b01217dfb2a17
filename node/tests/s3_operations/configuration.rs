//! Configurations that a bucket and an object lack: tools ask for them before they do anything else.

use aws_sdk_s3::types::{CreateBucketConfiguration, ObjectOwnership, Payer, Permission, Tag, Tagging};

use super::*;

/// Asks for a piece of configuration and returns how it is refused; twice, for the bucket there is and
/// for one that is not there.
macro_rules! none {
    ($client:expr, $verb:ident) => {{
        let nowhere = code($client.$verb().bucket("nowhere").send().await);
        assert_eq!(nowhere, is(404, "NoSuchBucket"), stringify!($verb));
        refused($client.$verb().bucket(BUCKET).send().await)
    }};
}

#[tokio::test]
async fn configurations_that_a_bucket_lacks_are_not_found() {
    let (_node, client) = a_bucket().await;
    let refusals = [
        (none!(client, get_bucket_tagging), "NoSuchTagSet"),
        (none!(client, get_bucket_policy), "NoSuchBucketPolicy"),
        (none!(client, get_bucket_policy_status), "NoSuchBucketPolicy"),
        (none!(client, get_bucket_cors), "NoSuchCORSConfiguration"),
        (none!(client, get_bucket_lifecycle_configuration), "NoSuchLifecycleConfiguration"),
        (none!(client, get_bucket_website), "NoSuchWebsiteConfiguration"),
        (none!(client, get_bucket_encryption), "ServerSideEncryptionConfigurationNotFoundError"),
        (none!(client, get_bucket_replication), "ReplicationConfigurationNotFoundError"),
        (none!(client, get_object_lock_configuration), "ObjectLockConfigurationNotFoundError"),
    ];
    for (refusal, expected) in refusals {
        assert_eq!((refusal.status, refusal.code.as_str()), (404, expected));
        let document = refusal.document();
        assert!(document.contains(&format!("<BucketName>{BUCKET}</BucketName>")), "{document}");
        assert!(!refusal.message.is_empty(), "{document}");
    }
}

#[tokio::test]
async fn configurations_of_every_bucket_are_answered() {
    let (_node, client) = a_bucket().await;
    let versioning = client.get_bucket_versioning().bucket(BUCKET).send().await.unwrap();
    assert_eq!((versioning.status(), versioning.mfa_delete()), (None, None));
    let logging = client.get_bucket_logging().bucket(BUCKET).send().await.unwrap();
    assert_eq!(logging.logging_enabled(), None);
    let notification = client.get_bucket_notification_configuration().bucket(BUCKET).send().await.unwrap();
    assert!(notification.topic_configurations().is_empty());
    let acceleration = client.get_bucket_accelerate_configuration().bucket(BUCKET).send().await.unwrap();
    assert_eq!(acceleration.status(), None);
    let payment = client.get_bucket_request_payment().bucket(BUCKET).send().await.unwrap();
    assert_eq!(payment.payer(), Some(&Payer::BucketOwner));
    let ownership = client.get_bucket_ownership_controls().bucket(BUCKET).send().await.unwrap();
    let rules = ownership.ownership_controls().expect("rules").rules().to_vec();
    assert_eq!(rules[0].object_ownership(), &ObjectOwnership::BucketOwnerEnforced);
    let acl = client.get_bucket_acl().bucket(BUCKET).send().await.unwrap();
    let grant = &acl.grants()[0];
    assert_eq!(grant.permission(), Some(&Permission::FullControl));
    assert_eq!(grant.grantee().and_then(|grantee| grantee.id()), acl.owner().and_then(|owner| owner.id()));
    let nowhere = client.get_bucket_versioning().bucket("nowhere").send().await;
    assert_eq!(code(nowhere), is(404, "NoSuchBucket"));
}

#[tokio::test]
async fn an_object_has_no_lock_and_its_owners_control() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    let acl = client.get_object_acl().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(acl.grants()[0].permission(), Some(&Permission::FullControl));
    let lock = is(400, "InvalidRequest");
    assert_eq!(code(client.get_object_retention().bucket(BUCKET).key("k").send().await), lock);
    assert_eq!(code(client.get_object_legal_hold().bucket(BUCKET).key("k").send().await), lock);
    let nothing = client.get_object_acl().bucket(BUCKET).key("none").send().await;
    assert_eq!(code(nothing), is(404, "NoSuchKey"));
}

/// Deletes a piece of configuration that is not there, of the bucket there is and of one that is not there.
macro_rules! deleted {
    ($client:expr, $($verb:ident)*) => {{
        $(
            $client.$verb().bucket(BUCKET).send().await.expect(stringify!($verb));
            let nowhere = code($client.$verb().bucket("nowhere").send().await);
            assert_eq!(nowhere, is(404, "NoSuchBucket"), stringify!($verb));
        )*
    }};
}

#[tokio::test]
async fn deleting_an_absent_configuration_succeeds() {
    let (_node, client) = a_bucket().await;
    deleted! {
        client,
        delete_bucket_policy
        delete_bucket_cors
        delete_bucket_lifecycle
        delete_bucket_tagging
        delete_bucket_website
        delete_bucket_encryption
        delete_bucket_replication
        delete_bucket_ownership_controls
        delete_public_access_block
    }
    client.head_bucket().bucket(BUCKET).send().await.expect("the bucket stays");
}

fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build().expect("key and value")
}

#[tokio::test]
async fn a_bucket_keeps_the_tags_that_it_was_made_with_until_it_gets_others() {
    let node = node().await;
    let client = node.client();
    let made = CreateBucketConfiguration::builder().tags(tag("team", "blue")).tags(tag("é", "")).build();
    let create = client.create_bucket().bucket(BUCKET).create_bucket_configuration(made);
    create.send().await.expect("a new bucket");
    let tags = async || client.get_bucket_tagging().bucket(BUCKET).send().await.map(|answer| answer.tag_set);
    assert_eq!(tags().await.unwrap(), [tag("team", "blue"), tag("é", "")]);
    let put = |tags: Vec<Tag>| {
        let tagging = Tagging::builder().set_tag_set(Some(tags)).build().expect("a set");
        client.put_bucket_tagging().bucket(BUCKET).tagging(tagging).send()
    };
    put(vec![tag("cost", "7")]).await.unwrap();
    assert_eq!(tags().await.unwrap(), [tag("cost", "7")]);
    assert_eq!(code(put(vec![tag("a", "1"), tag("a", "2")]).await), is(400, "InvalidTag"));
    let many = (0..51).map(|number| tag(&number.to_string(), "v")).collect();
    assert_eq!(code(put(many).await), is(400, "BadRequest"));
    for bad in [tag("a,b", "1"), tag("a", "<"), tag("aws:a", "1"), tag(&"k".repeat(129), ""), tag("", "1")] {
        let refusal = refused(put(vec![bad.clone()]).await);
        assert_eq!((refusal.status, refusal.code.as_str()), (400, "InvalidTag"), "{bad:?}");
        assert!(refusal.document().contains("<TagKey>"), "{}", refusal.document());
    }
    assert_eq!(tags().await.unwrap(), [tag("cost", "7")], "a refused change changes nothing");
    client.delete_bucket_tagging().bucket(BUCKET).send().await.unwrap();
    assert_eq!(code(tags().await), is(404, "NoSuchTagSet"));
    let refused = CreateBucketConfiguration::builder().tags(tag("aws:x", "1")).build();
    let create = client.create_bucket().bucket("other").create_bucket_configuration(refused);
    assert_eq!(code(create.send().await), is(400, "InvalidTag"));
    assert_eq!(code(client.head_bucket().bucket("other").send().await), is(404, "NotFound"));
}
