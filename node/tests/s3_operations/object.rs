//! Attributes that are stored with an object, and those that are not.

use std::collections::HashMap;

use aws_sdk_s3::types::{ObjectCannedAcl, ServerSideEncryption, StorageClass};

use super::*;
use crate::harness::VOLUMES;
use crate::harness::volumes::shard_files;
use crate::harness::wait::{SOON, eventually};

#[tokio::test]
async fn an_object_comes_back_as_it_was_put() {
    let (_node, client) = a_bucket().await;
    for len in [0, 1, 4096, 70_000, 3 << 20] {
        let body = some_bytes(len);
        let etag = put(&client, "k", body.clone()).await;
        assert!(etag.len() == 34 && etag.starts_with('"') && etag.ends_with('"'), "{etag}");
        let object = client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
        assert_eq!(object.e_tag(), Some(etag.as_str()));
        assert_eq!(object.content_length(), Some(i64::try_from(len).unwrap()));
        assert_eq!(object.accept_ranges(), Some("bytes"));
        assert!(object.last_modified().is_some());
        assert_eq!(object.body.collect().await.unwrap().to_vec(), body);
    }
}

#[tokio::test]
async fn the_entity_tag_is_the_md5() {
    let (_node, client) = a_bucket().await;
    assert_eq!(put(&client, "k", "").await, "\"d41d8cd98f00b204e9800998ecf8427e\"");
    assert_eq!(put(&client, "k", "hello").await, "\"5d41402abc4b2a76b9719d911017c592\"");
}

#[tokio::test]
async fn headers_and_metadata_come_back() {
    let (_node, client) = a_bucket().await;
    let put = client
        .put_object()
        .bucket(BUCKET)
        .key("k")
        .content_type("text/plain; charset=utf-8")
        .cache_control("max-age=60")
        .content_disposition("attachment; filename=\"a.txt\"")
        .content_encoding("gzip")
        .content_language("de, en")
        .metadata("Colour", "Blue")
        .metadata("empty", "")
        .customize()
        .mutate_request(|request| {
            request.headers_mut().insert("expires", "Thu, 01 Dec 2044 16:00:00 GMT");
        });
    put.send().await.unwrap();
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(head.content_type(), Some("text/plain; charset=utf-8"));
    assert_eq!(head.cache_control(), Some("max-age=60"));
    assert_eq!(head.content_disposition(), Some("attachment; filename=\"a.txt\""));
    assert_eq!(head.content_encoding(), Some("gzip"), "aws-chunked is the transfer's, not the object's");
    assert_eq!(head.content_language(), Some("de, en"));
    assert_eq!(head.expires_string(), Some("Thu, 01 Dec 2044 16:00:00 GMT"));
    let metadata = head.metadata().unwrap();
    assert_eq!(metadata.get("colour").map(String::as_str), Some("Blue"));
    assert_eq!(metadata.get("empty").map(String::as_str), Some(""));
}

#[tokio::test]
async fn an_object_without_a_content_type_gets_the_default() {
    let (_node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").customize().mutate_request(|request| {
        request.headers_mut().remove("content-type");
    });
    put.send().await.unwrap();
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(head.content_type(), Some("binary/octet-stream"));
}

#[tokio::test]
async fn an_expiry_that_is_not_a_date_is_kept_as_it_is() {
    let (_node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").customize().mutate_request(|request| {
        request.headers_mut().insert("expires", "never");
    });
    put.send().await.unwrap();
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(head.expires_string(), Some("never"));
}

#[tokio::test]
async fn metadata_beyond_ascii_comes_back_encoded() {
    let (_node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").metadata("a", "=?UTF-8?B?w4RNw4Q=?=");
    put.send().await.unwrap();
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    let value = head.metadata().and_then(|metadata| metadata.get("a")).cloned();
    assert_eq!(value.as_deref(), Some("=?UTF-8?B?w4RNw4Q=?="));
}

#[tokio::test]
async fn too_much_metadata_is_refused() {
    let (_node, client) = a_bucket().await;
    let put = |len| client.put_object().bucket(BUCKET).key("k").metadata("a", "v".repeat(len)).send();
    put(2047).await.unwrap();
    assert_eq!(code(put(2048).await), is(400, "MetadataTooLarge"));
}

#[tokio::test]
async fn a_put_replaces_all_of_an_object() {
    let (_node, client) = a_bucket().await;
    let first = client.put_object().bucket(BUCKET).key("k").metadata("a", "1").content_language("de");
    first.send().await.unwrap();
    put(&client, "k", "second").await;
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(head.content_language(), None);
    assert!(head.metadata().is_none_or(HashMap::is_empty));
}

#[tokio::test]
async fn absent_objects_are_not_found() {
    let (_node, client) = a_bucket().await;
    let missed = refused(client.get_object().bucket(BUCKET).key("none").send().await);
    assert_eq!((missed.status, missed.code.as_str()), (404, "NoSuchKey"));
    assert!(missed.document().contains("<RequestId>"));
    assert_eq!(missed.header("content-type"), Some("application/xml"));
    assert_eq!(code(client.head_object().bucket(BUCKET).key("none").send().await), is(404, "NotFound"));
}

#[tokio::test]
async fn a_body_beyond_5_gib_is_refused_before_it_comes() {
    let (_node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").customize().mutate_request(|request| {
        let headers = request.headers_mut();
        let name = if headers.get("x-amz-decoded-content-length").is_some() {
            "x-amz-decoded-content-length"
        } else {
            "content-length"
        };
        headers.insert(name, "5368709121");
    });
    assert_eq!(code(put.send().await), is(400, "EntityTooLarge"));
}

#[tokio::test]
async fn a_digest_is_checked() {
    let (_node, client) = a_bucket().await;
    let put = |digest: &str| {
        let body = ByteStream::from_static(b"hello");
        client.put_object().bucket(BUCKET).key("k").content_md5(digest).body(body).send()
    };
    assert_eq!(code(put("nonsense").await), is(400, "InvalidDigest"));
    assert_eq!(code(put("1B2M2Y8AsgTpgAmY7PhCfg==").await), is(400, "BadDigest"));
    assert_eq!(code(client.head_object().bucket(BUCKET).key("k").send().await), is(404, "NotFound"));
    put("XUFAKrxLKna5cZ2REBfFkg==").await.unwrap();
}

/// The digest is known when the last stripe is written already.
#[tokio::test]
async fn a_large_body_with_a_wrong_digest_leaves_nothing() {
    let (node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").content_md5("1B2M2Y8AsgTpgAmY7PhCfg==");
    let refused = put.body(ByteStream::from(some_bytes(5 << 20))).send().await;
    assert_eq!(code(refused), is(400, "BadDigest"));
    assert_eq!(code(client.head_object().bucket(BUCKET).key("k").send().await), is(404, "NotFound"));
    eventually("its shards are removed", SOON, async || {
        let left: Vec<_> = (1..=VOLUMES).flat_map(|number| shard_files(&node.volume(number))).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

#[tokio::test]
async fn nothing_answers_200_for_what_it_does_not_do() {
    let (_node, client) = a_bucket().await;
    let put = || client.put_object().bucket(BUCKET).key("k");
    let refusals = [
        code(put().server_side_encryption(ServerSideEncryption::Aes256).send().await),
        code(put().storage_class(StorageClass::Glacier).send().await),
        code(put().acl(ObjectCannedAcl::PublicRead).send().await),
        code(put().expected_bucket_owner("123456789012").send().await),
    ];
    for (status, code) in refusals {
        assert!(status >= 400, "{code}");
    }
    assert_eq!(code(client.head_object().bucket(BUCKET).key("k").send().await), is(404, "NotFound"));
    put().storage_class(StorageClass::Standard).acl(ObjectCannedAcl::Private).send().await.unwrap();
}
