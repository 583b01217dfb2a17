//! DeleteObject and DeleteObjects.

use aws_sdk_s3::operation::delete_objects::DeleteObjectsOutput;
use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};

use super::*;

fn listed(key: &str) -> ObjectIdentifier {
    ObjectIdentifier::builder().key(key).build().expect("it has a key")
}

fn list(objects: Vec<ObjectIdentifier>) -> Delete {
    Delete::builder().set_objects(Some(objects)).build().expect("it has objects")
}

async fn delete(client: &Client, objects: Vec<ObjectIdentifier>) -> DeleteObjectsOutput {
    client.delete_objects().bucket(BUCKET).delete(list(objects)).send().await.expect("a batch")
}

fn deleted(output: &DeleteObjectsOutput) -> Vec<&str> {
    let mut keys: Vec<&str> = output.deleted().iter().filter_map(|object| object.key()).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn a_deleted_object_is_gone_and_deleting_it_again_succeeds() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    for _ in 0..2 {
        client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
        assert_eq!(code(client.get_object().bucket(BUCKET).key("k").send().await), is(404, "NoSuchKey"));
    }
    put(&client, "k", "again").await;
    client.delete_object().bucket(BUCKET).key("k").version_id("null").send().await.unwrap();
    assert_eq!(code(client.get_object().bucket(BUCKET).key("k").send().await), is(404, "NoSuchKey"));
}

#[tokio::test]
async fn a_batch_deletes_what_is_there_and_what_is_not() {
    let (_node, client) = a_bucket().await;
    for key in ["a", "b/c", "ä&<>"] {
        put(&client, key, "v").await;
    }
    let output = delete(&client, ["a", "b/c", "ä&<>", "none"].map(listed).into()).await;
    assert_eq!(deleted(&output), ["a", "b/c", "none", "ä&<>"]);
    assert!(output.errors().is_empty());
    assert_eq!(client.list_objects_v2().bucket(BUCKET).send().await.unwrap().key_count(), Some(0));
}

#[tokio::test]
async fn a_batch_names_keys_exactly() {
    let (_node, client) = a_bucket().await;
    let keys = [
        "a",
        " a",
        "a ",
        "a\tb",
        "a\nb",
        "a\rb",
        "a\r\nb",
        "<&>'\"",
        "a%20b",
        "a+b",
        "//",
        "\u{1F9F1}",
        "&amp;",
    ];
    for key in keys {
        put(&client, key, "v").await;
    }
    for key in keys {
        let output = delete(&client, vec![listed(key)]).await;
        assert!(output.errors().is_empty(), "{key:?}");
        assert_eq!(
            code(client.head_object().bucket(BUCKET).key(key).send().await),
            is(404, "NotFound"),
            "{key:?}"
        );
    }
    client.delete_bucket().bucket(BUCKET).send().await.unwrap();
}

/// XML has no way to write them; what can be put and listed can be deleted, and what once could be put.
#[tokio::test]
async fn a_batch_deletes_keys_that_xml_cannot_write() {
    let (_node, client) = a_bucket().await;
    let keys = ["a\u{1}b", "a\u{1f}b", "a\u{FFFE}b", "a\u{FFFF}b", "a\0b"];
    for key in keys.into_iter().filter(|key| !key.contains('\0')) {
        put(&client, key, "v").await;
    }
    let output = delete(&client, keys.map(listed).into()).await;
    let mut expected = keys;
    expected.sort_unstable();
    assert_eq!(deleted(&output), expected, "and the answer names them");
    assert!(output.errors().is_empty());
    for key in keys {
        let head = client.head_object().bucket(BUCKET).key(key).send().await;
        assert_eq!(code(head), is(404, "NotFound"), "{key:?}");
    }
    client.delete_bucket().bucket(BUCKET).send().await.unwrap();
}

/// The answer to a list of keys as it is written.
async fn delete_written(client: &Client, keys: &str) -> DeleteObjectsOutput {
    let document = format!("<Delete><Object><Key>{keys}</Key></Object></Delete>");
    let md5 = STANDARD.encode(Md5::digest(&document));
    let request = client.delete_objects().bucket(BUCKET).delete(list(vec![listed("other")]));
    let request = request.customize().mutate_request(move |request| {
        let headers = request.headers_mut();
        let checksums = headers.iter().map(|(name, _)| name.to_owned());
        let checksums: Vec<String> = checksums.filter(|name| name.contains("checksum")).collect();
        for name in checksums {
            headers.remove(&name);
        }
        headers.insert("content-md5", md5.clone());
        headers.insert("content-length", document.len().to_string());
        *request.body_mut() = document.clone().into();
    });
    request.send().await.expect("a batch")
}

#[tokio::test]
async fn a_key_in_a_cdata_section_is_that_key_and_no_other() {
    let (_node, client) = a_bucket().await;
    for key in ["a", "ab", "a&#1;b", "a\u{1}b"] {
        put(&client, key, "v").await;
    }
    assert_eq!(deleted(&delete_written(&client, "a<![CDATA[b]]>").await), ["ab"]);
    assert_eq!(deleted(&delete_written(&client, "<![CDATA[a&#1;b]]>").await), ["a&#1;b"]);
    for (key, is_there) in [("a", true), ("ab", false), ("a&#1;b", false), ("a\u{1}b", true)] {
        let head = client.head_object().bucket(BUCKET).key(key).send().await;
        assert_eq!(head.is_ok(), is_there, "{key:?}");
    }
}

#[tokio::test]
async fn a_key_listed_twice_is_answered_once() {
    let (_node, client) = a_bucket().await;
    put(&client, "a", "v").await;
    let output = delete(&client, ["a", "a", "b", "a"].map(listed).into()).await;
    assert_eq!(deleted(&output), ["a", "b"]);
}

#[tokio::test]
async fn a_quiet_batch_says_only_what_failed() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "a", "v").await;
    put(&client, "b", "v").await;
    let conditional = |key: &str, etag: &str| {
        ObjectIdentifier::builder().key(key).e_tag(etag).build().expect("it has a key")
    };
    let objects = vec![conditional("a", &etag), conditional("b", "\"other\"")];
    let quiet = Delete::builder().set_objects(Some(objects)).quiet(true).build().unwrap();
    let output = client.delete_objects().bucket(BUCKET).delete(quiet).send().await.unwrap();
    assert!(output.deleted().is_empty());
    let errors = output.errors();
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].key(), errors[0].code()), (Some("b"), Some("PreconditionFailed")));
    assert_eq!(get(&client, "b").await, b"v");
    assert_eq!(code(client.get_object().bucket(BUCKET).key("a").send().await), is(404, "NoSuchKey"));
}

#[tokio::test]
async fn a_batch_has_1_to_1000_keys() {
    let (_node, client) = a_bucket().await;
    let keys = |count: usize| (0..count).map(|number| listed(&number.to_string())).collect::<Vec<_>>();
    assert_eq!(deleted(&delete(&client, keys(1000)).await).len(), 1000);
    let too_many = client.delete_objects().bucket(BUCKET).delete(list(keys(1001))).send().await;
    assert_eq!(code(too_many), is(400, "MalformedXML"));
    let none = client.delete_objects().bucket(BUCKET).delete(list(Vec::new())).send().await;
    assert_eq!(code(none), is(400, "MalformedXML"));
}

#[tokio::test]
async fn a_batch_on_no_bucket_fails_whole() {
    let node = node().await;
    let batch = node.client().delete_objects().bucket("none").delete(list(vec![listed("a")])).send().await;
    assert_eq!(code(batch), is(404, "NoSuchBucket"));
}
