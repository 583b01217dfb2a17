//! Version ids in a bucket without versioning: `null` is the version that each object has, 32 hexadecimal
//! digits name one that is not there, and any other text is invalid.

use aws_sdk_s3::types::{Delete, ObjectAttributes, ObjectIdentifier, Tag, Tagging};

use super::multipart::begin;
use super::*;

/// An id as a bucket with versioning would have.
const UNKNOWN: &str = "0000018bcfe568000f1e2d3c4b5a6978";
/// An id in AWS's form.
const FOREIGN: &str = "3sL4kqtJlcpXroDTDmJrmSpXd3dIbrHY";

/// How each operation that takes a version of an object refuses this one.
async fn refusals(client: &Client, key: &str, version: &str) -> Vec<Refusal> {
    let tag = Tag::builder().key("a").value("b").build().expect("a tag");
    let tags = Tagging::builder().tag_set(tag).build().expect("tags");
    let upload = begin(client, "upload").await;
    let source = format!("{BUCKET}/{key}?versionId={version}");
    let part = client.upload_part_copy().bucket(BUCKET).key("upload").upload_id(upload).part_number(1);
    let attributes = client.get_object_attributes().bucket(BUCKET).key(key).version_id(version);
    vec![
        refused(client.get_object().bucket(BUCKET).key(key).version_id(version).send().await),
        refused(client.get_object_tagging().bucket(BUCKET).key(key).version_id(version).send().await),
        refused(
            client
                .put_object_tagging()
                .bucket(BUCKET)
                .key(key)
                .version_id(version)
                .tagging(tags)
                .send()
                .await,
        ),
        refused(client.delete_object_tagging().bucket(BUCKET).key(key).version_id(version).send().await),
        refused(attributes.object_attributes(ObjectAttributes::Etag).send().await),
        refused(client.get_object_acl().bucket(BUCKET).key(key).version_id(version).send().await),
        refused(client.copy_object().bucket(BUCKET).key("to").copy_source(&source).send().await),
        refused(part.copy_source(&source).send().await),
    ]
}

#[tokio::test]
async fn a_version_that_is_not_there_is_missed_and_no_version_id_is_invalid() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    for key in ["k", "none"] {
        for refusal in refusals(&client, key, UNKNOWN).await {
            assert_eq!((refusal.status, refusal.code.as_str()), (404, "NoSuchVersion"), "{refusal:?}");
        }
        for refusal in refusals(&client, key, FOREIGN).await {
            let said = (refusal.status, refusal.code.as_str(), refusal.message.as_str());
            assert_eq!(said, (400, "InvalidArgument", "Invalid version id specified"));
            let document = refusal.document();
            let named =
                format!("<ArgumentName>versionId</ArgumentName><ArgumentValue>{FOREIGN}</ArgumentValue>");
            assert!(document.contains(&named), "{document}");
        }
        let head = |version| client.head_object().bucket(BUCKET).key(key).version_id(version).send();
        assert_eq!(refused(head(UNKNOWN).await).status, 404);
        assert_eq!(refused(head(FOREIGN).await).status, 400);
        for refusal in refusals(&client, key, "").await {
            assert_eq!(refusal.message, "Version id cannot be the empty string");
        }
    }
    let nowhere = client.get_object().bucket("nowhere").key("k").version_id(UNKNOWN).send().await;
    assert_eq!(code(nowhere), is(404, "NoSuchBucket"));
    let found = client.get_object().bucket(BUCKET).key("k").version_id("null").send().await.unwrap();
    assert_eq!(found.version_id(), Some("null"));
}

#[tokio::test]
async fn the_deletion_of_a_version_that_is_not_there_deletes_nothing() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    let delete = |version| client.delete_object().bucket(BUCKET).key("k").version_id(version).send();
    assert_eq!(delete(UNKNOWN).await.expect("204").version_id(), Some(UNKNOWN));
    assert_eq!(code(delete(FOREIGN).await), is(400, "InvalidArgument"));
    assert_eq!(get(&client, "k").await, b"v");

    let entry = |version: &str| {
        ObjectIdentifier::builder().key("k").version_id(version).build().expect("a key and a version")
    };
    let batch = |versions: &[&str]| {
        let entries = versions.iter().map(|version| entry(version)).collect();
        let delete = Delete::builder().set_objects(Some(entries)).build().expect("entries");
        client.delete_objects().bucket(BUCKET).delete(delete).send()
    };
    let answer = batch(&[UNKNOWN, FOREIGN]).await.unwrap();
    let deleted: Vec<_> = answer.deleted().iter().map(|deleted| deleted.version_id()).collect();
    assert_eq!(deleted, [Some(UNKNOWN)]);
    let failed: Vec<_> = answer.errors().iter().map(|error| (error.version_id(), error.code())).collect();
    assert_eq!(failed, [(Some(FOREIGN), Some("NoSuchVersion"))]);
    assert_eq!(get(&client, "k").await, b"v");

    let answer = batch(&[UNKNOWN, "null"]).await.unwrap();
    assert_eq!(answer.deleted().len(), 2);
    let missing = client.get_object().bucket(BUCKET).key("k").send().await;
    assert_eq!(code(missing), is(404, "NoSuchKey"));
}
