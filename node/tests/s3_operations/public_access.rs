//! Public access blocks and ownership controls: those of a new bucket, changed, deleted, refused.

use aws_sdk_s3::primitives::SdkBody;
use aws_sdk_s3::types::{
    ObjectOwnership, OwnershipControls, OwnershipControlsRule, PublicAccessBlockConfiguration,
};

use super::wire::RawAnswer;
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

/// Asks S3 Control about the account's block, by a request of S3 that is turned into it before it is signed.
/// The answer's status and document.
async fn control(
    client: &Client,
    method: &'static str,
    account: &'static str,
    body: &'static str,
) -> (u16, String) {
    let answer = RawAnswer::default();
    let request = client.delete_bucket_cors().bucket(BUCKET).customize().interceptor(answer.clone());
    let request = request.mutate_request(move |request| {
        request.set_method(method).expect("a method");
        let origin = request.uri().split("/bucket").next().expect("an origin").to_owned();
        request.set_uri(format!("{origin}/v20180820/configuration/publicAccessBlock")).expect("a path");
        if !account.is_empty() {
            request.headers_mut().insert("x-amz-account-id", account);
        }
        *request.body_mut() = SdkBody::from(body);
        request.headers_mut().insert("content-length", body.len().to_string());
    });
    match request.send().await {
        Ok(_) => answer.0.lock().expect("no holder panics").clone(),
        Err(error) => {
            let answer = error.into_raw();
            let document = answer.body().bytes().unwrap_or_default();
            (answer.status().as_u16(), String::from_utf8_lossy(document).into_owned())
        }
    }
}

const OWN: &str = "000000000001";
const BLOCK: &str = "<PublicAccessBlockConfiguration xmlns=\"http://awss3control.amazonaws.com/doc/2018-08-20/\">\
                     <BlockPublicPolicy>true</BlockPublicPolicy></PublicAccessBlockConfiguration>";

#[tokio::test]
async fn the_account_has_a_public_access_block_by_s3_control() {
    let (_node, client) = a_bucket().await;
    let missing = async || {
        let (status, document) = control(&client, "GET", OWN, "").await;
        assert_eq!(status, 404);
        let code = "<ErrorResponse><Error><Code>NoSuchPublicAccessBlockConfiguration</Code>";
        assert!(document.contains(code), "{document}");
    };
    missing().await;
    assert_eq!(control(&client, "PUT", OWN, BLOCK).await.0, 200);
    let (status, document) = control(&client, "GET", OWN, "").await;
    assert_eq!(status, 200);
    for part in [
        "<PublicAccessBlockConfiguration xmlns=\"http://awss3control.amazonaws.com/doc/2018-08-20/\">",
        "<BlockPublicPolicy>true</BlockPublicPolicy>",
        "<RestrictPublicBuckets>false</RestrictPublicBuckets>",
    ] {
        assert!(document.contains(part), "{document}");
    }
    let (status, document) = control(&client, "PUT", OWN, "<Block/>").await;
    assert_eq!(status, 400);
    assert!(document.contains("<Code>MalformedXML</Code>"), "{document}");
    for other in ["111122223333", "sherd"] {
        let (status, document) = control(&client, "GET", other, "").await;
        assert_eq!(status, 403);
        assert!(document.contains("<Code>AccessDenied</Code>"), "{document}");
    }
    assert_eq!(control(&client, "POST", OWN, "").await.0, 405);
    assert_eq!(control(&client, "DELETE", OWN, "").await.0, 204);
    assert_eq!(control(&client, "DELETE", OWN, "").await.0, 204);
    missing().await;
}

#[tokio::test]
async fn the_block_of_the_account_counts_beside_that_of_the_bucket() {
    let (_node, client) = a_bucket().await;
    client.delete_public_access_block().bucket(BUCKET).send().await.expect("deleted");
    let put = || client.put_bucket_policy().bucket(BUCKET).policy(super::policy::public(BUCKET)).send();
    assert_eq!(control(&client, "PUT", OWN, BLOCK).await.0, 200);
    assert_eq!(code(put().await), is(403, "AccessDenied"));
    assert_eq!(control(&client, "DELETE", OWN, "").await.0, 204);
    put().await.expect("a policy");
}

#[tokio::test]
async fn an_object_may_have_the_path_of_s3_control() {
    let (_node, client) = a_bucket().await;
    client.create_bucket().bucket("v20180820").send().await.expect("a bucket");
    let key = "configuration/publicAccessBlock";
    client.put_object().bucket("v20180820").key(key).body(b"v".to_vec().into()).send().await.expect("stored");
    let (status, body) = control(&client, "GET", "", "").await;
    assert_eq!((status, body.as_str()), (200, "v"));
    assert_eq!(control(&client, "GET", OWN, "").await.0, 404, "the account's, which has none");
}
