//! CopyObject: source, directives, conditions on both ends.

use aws_sdk_s3::operation::copy_object::builders::CopyObjectFluentBuilder;
use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{ChecksumAlgorithm, MetadataDirective};

use super::harness::volumes::{ShardFile, shard_files};
use super::multipart::begin;
use super::*;

fn copy(client: &Client, from: &str, to: &str) -> CopyObjectFluentBuilder {
    client.copy_object().bucket(BUCKET).key(to).copy_source(format!("{BUCKET}/{from}"))
}

#[tokio::test]
async fn a_copy_has_the_bytes_and_the_metadata_of_its_source() {
    let (_node, client) = a_bucket().await;
    client.create_bucket().bucket("other").send().await.unwrap();
    let body = some_bytes(300_000);
    let put = client.put_object().bucket(BUCKET).key("from").content_type("a/b").metadata("m", "1");
    let etag = put.body(body.clone().into()).send().await.unwrap().e_tag;
    let copied = client.copy_object().bucket("other").key("to").copy_source(format!("/{BUCKET}/from"));
    let result = copied.send().await.unwrap().copy_object_result.unwrap();
    assert_eq!(result.e_tag, etag);
    assert!(result.last_modified.is_some());
    let object = client.get_object().bucket("other").key("to").send().await.unwrap();
    assert_eq!(object.content_type(), Some("a/b"));
    assert_eq!(object.metadata().and_then(|metadata| metadata.get("m")).map(String::as_str), Some("1"));
    assert_eq!(object.body.collect().await.unwrap().to_vec(), body);
}

#[tokio::test]
async fn metadata_is_replaced_when_asked() {
    let (_node, client) = a_bucket().await;
    client.put_object().bucket(BUCKET).key("k").content_type("a/b").metadata("m", "1").send().await.unwrap();
    let onto_itself = code(copy(&client, "k", "k").send().await);
    assert_eq!(onto_itself, is(400, "InvalidRequest"), "a copy onto itself must change something");
    let replace = copy(&client, "k", "k").metadata_directive(MetadataDirective::Replace).metadata("n", "2");
    replace.send().await.unwrap();
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(head.content_type(), Some("binary/octet-stream"));
    let metadata = head.metadata().unwrap();
    assert_eq!((metadata.len(), metadata.get("n").map(String::as_str)), (1, Some("2")));
    let unknown = copy(&client, "k", "l").metadata_directive(MetadataDirective::from("MERGE")).send().await;
    assert_eq!(code(unknown), is(400, "InvalidArgument"));
}

#[tokio::test]
async fn a_source_is_named_percent_encoded() {
    let (_node, client) = a_bucket().await;
    let named = [
        ("a b", "a%20b"),
        ("a b", "a+b"),
        ("a+b", "a%2Bb"),
        ("ä/?x", "%C3%A4/%3Fx"),
        ("a%b", "a%25b"),
        ("a b+ü.txt", "a+b%2B%C3%BC.txt"),
    ];
    for key in named.map(|(key, _)| key) {
        put(&client, key, key).await;
    }
    let upload = begin(&client, "upload").await;
    for (key, source) in named {
        copy(&client, source, "to").send().await.expect(source);
        assert_eq!(get(&client, "to").await, key.as_bytes());
        let part = client.upload_part_copy().bucket(BUCKET).key("upload").upload_id(&upload).part_number(1);
        part.copy_source(format!("{BUCKET}/{source}")).send().await.expect(source);
        let parts = client.list_parts().bucket(BUCKET).key("upload").upload_id(&upload).send().await.unwrap();
        assert_eq!(parts.parts()[0].size(), i64::try_from(key.len()).ok(), "{source}");
    }
    copy(&client, "a+b?versionId=null", "to").send().await.unwrap();
    assert_eq!(get(&client, "to").await, b"a b");
    assert_eq!(code(copy(&client, "c+d", "to").send().await), is(404, "NoSuchKey"));
}

#[tokio::test]
async fn a_source_that_is_not_there_is_missed() {
    let (_node, client) = a_bucket().await;
    assert_eq!(code(copy(&client, "none", "to").send().await), is(404, "NoSuchKey"));
    let copy = client.copy_object().bucket(BUCKET).key("to").copy_source("nowhere/k").send().await;
    assert_eq!(code(copy), is(404, "NoSuchBucket"));
    let copy = client.copy_object().bucket(BUCKET).key("to").copy_source("nothing").send().await;
    assert_eq!(code(copy), is(400, "InvalidArgument"));
}

#[tokio::test]
async fn a_source_that_cannot_be_read_to_its_end_is_the_stores_error() {
    let (node, client) = a_bucket().await;
    put(&client, "from", some_bytes(8 << 20)).await;
    let shards: Vec<_> = node.volumes().into_iter().flat_map(|volume| shard_files(&volume)).collect();
    assert!(shards.len() > 2, "{}", shards.len());
    shards.iter().for_each(ShardFile::cut);
    let refused = refused(copy(&client, "from", "to").send().await);
    assert!(refused.status >= 500, "{refused:?}");
    assert_eq!(code(client.get_object().bucket(BUCKET).key("to").send().await), is(404, "NoSuchKey"));
}

#[tokio::test]
async fn a_source_obeys_conditions() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "k", "v").await;
    let (past, future) = (DateTime::from_secs(1), DateTime::from_secs(4_000_000_000));
    copy(&client, "k", "to").copy_source_if_match(&etag).send().await.unwrap();
    copy(&client, "k", "to").copy_source_if_none_match("\"x\"").send().await.unwrap();
    copy(&client, "k", "to").copy_source_if_modified_since(past).send().await.unwrap();
    copy(&client, "k", "to").copy_source_if_unmodified_since(future).send().await.unwrap();
    let failed = is(412, "PreconditionFailed");
    assert_eq!(code(copy(&client, "k", "to").copy_source_if_match("\"x\"").send().await), failed);
    assert_eq!(code(copy(&client, "k", "to").copy_source_if_none_match(&etag).send().await), failed);
    assert_eq!(code(copy(&client, "k", "to").copy_source_if_unmodified_since(past).send().await), failed);
    assert_eq!(code(copy(&client, "k", "to").copy_source_if_modified_since(future).send().await), failed);
}

#[tokio::test]
async fn a_target_obeys_conditions() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    let create = || {
        copy(&client, "k", "to").customize().mutate_request(|request| {
            request.headers_mut().insert("if-none-match", "*");
        })
    };
    create().send().await.unwrap();
    assert_eq!(code(create().send().await), is(412, "PreconditionFailed"));
    let replace = copy(&client, "k", "to").customize().mutate_request(|request| {
        request.headers_mut().insert("if-match", "\"other\"");
    });
    assert_eq!(code(replace.send().await), is(412, "PreconditionFailed"));
}

#[tokio::test]
async fn a_copy_may_ask_for_another_checksum() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "123456789").await;
    let copied = copy(&client, "k", "to").checksum_algorithm(ChecksumAlgorithm::Crc32C).send().await.unwrap();
    assert_eq!(copied.copy_object_result.unwrap().checksum_crc32_c(), Some("4waSgw=="));
}
