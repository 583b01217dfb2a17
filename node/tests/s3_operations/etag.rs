//! Entity tags: AWS's MD5 by default, and with `etag = "fast"` one that is marked as no MD5.

use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use md5::{Digest as _, Md5};

use super::*;
use crate::harness::empty;

/// Larger than what stays in its row.
const LARGE: usize = 100_000;

async fn a_fast_bucket() -> (Node, Client) {
    let node = empty().serve("etag = \"fast\"").start().await;
    let client = node.client();
    client.create_bucket().bucket(BUCKET).send().await.expect("a new bucket");
    (node, client)
}

fn md5_etag(body: &[u8]) -> String {
    format!("\"{}\"", hex::encode(Md5::digest(body)))
}

fn says_it_is_no_md5(etag: &str) -> bool {
    let digits = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix("-1\""));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Puts with a CRC-32C, and returns the entity tag.
async fn put_summed(client: &Client, key: &str, body: &[u8]) -> String {
    let put = client.put_object().bucket(BUCKET).key(key).checksum_algorithm(ChecksumAlgorithm::Crc32C);
    let put = put.body(ByteStream::from(body.to_vec())).send().await.expect("an object");
    put.e_tag.expect("an object has an entity tag")
}

#[tokio::test]
async fn a_tag_is_the_md5_unless_the_node_is_told_otherwise() {
    let (_node, client) = a_bucket().await;
    let body = some_bytes(LARGE);
    assert_eq!(put_summed(&client, "k", &body).await, md5_etag(&body));
}

#[tokio::test]
async fn a_fast_tag_never_pretends_to_be_an_md5() {
    let (_node, client) = a_fast_bucket().await;
    let body = some_bytes(LARGE);
    let first = put_summed(&client, "k", &body).await;
    assert!(says_it_is_no_md5(&first), "{first}");
    let head = client.head_object().bucket(BUCKET).key("k").send().await.expect("the object");
    assert_eq!(head.e_tag(), Some(first.as_str()));
    assert_eq!(get(&client, "k").await, body);
    let again = put_summed(&client, "k", &body).await;
    assert_ne!(first, again, "every write has a tag of its own");
    let put = || client.put_object().bucket(BUCKET).key("k").body(ByteStream::from_static(b"late"));
    let refused = put().if_match(first).send().await.expect_err("replaced");
    assert_eq!(refused.raw_response().expect("an answer").status().as_u16(), 412);
    put().if_match(again).send().await.expect("the tag is the current one's");
}

#[tokio::test]
async fn an_md5_is_computed_for_whoever_relies_on_it() {
    let (_node, client) = a_fast_bucket().await;
    let small = some_bytes(1000);
    assert_eq!(put_summed(&client, "small", &small).await, md5_etag(&small), "small ones cost nothing");
    let body = some_bytes(LARGE);
    let sum = || {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(Md5::digest(&body))
    };
    let put = client.put_object().bucket(BUCKET).key("k").content_md5(sum());
    let put = put.body(ByteStream::from(body.clone())).send().await.expect("an object");
    assert_eq!(put.e_tag, Some(md5_etag(&body)), "the client sent one");
    let put = client.put_object().bucket(BUCKET).key("k").checksum_md5(sum());
    let put = put.body(ByteStream::from(body.clone())).send().await.expect("an object");
    assert_eq!(put.e_tag, Some(md5_etag(&body)), "it is the checksum");
    let copied = client.copy_object().bucket(BUCKET).key("copy").copy_source(format!("{BUCKET}/k"));
    let copied = copied.send().await.expect("a copy").copy_object_result.expect("its result");
    assert_eq!(copied.e_tag, Some(md5_etag(&body)), "no request sent another checksum");
}

#[tokio::test]
async fn parts_with_fast_tags_become_an_object() {
    let (_node, client) = a_fast_bucket().await;
    let begun = client.create_multipart_upload().bucket(BUCKET).key("k");
    let begun = begun.checksum_algorithm(ChecksumAlgorithm::Crc32C).send().await.expect("an upload");
    let upload = begun.upload_id.expect("an upload has an id");
    let body = some_bytes(PART + 1234);
    let mut parts = Vec::new();
    for (number, bytes) in (1..).zip(body.chunks(PART)) {
        let part = client.upload_part().bucket(BUCKET).key("k").upload_id(&upload).part_number(number);
        let part = part.checksum_algorithm(ChecksumAlgorithm::Crc32C);
        let part = part.body(ByteStream::from(bytes.to_vec())).send().await.expect("a part");
        assert!(part.e_tag().is_some_and(says_it_is_no_md5), "{part:?}");
        let listed = CompletedPart::builder().part_number(number).set_e_tag(part.e_tag);
        parts.push(listed.set_checksum_crc32_c(part.checksum_crc32_c).build());
    }
    let listed = client.list_parts().bucket(BUCKET).key("k").upload_id(&upload).send().await;
    let listed: Vec<_> = listed.expect("the parts").parts().iter().map(|part| part.e_tag.clone()).collect();
    assert_eq!(listed, parts.iter().map(|part| part.e_tag.clone()).collect::<Vec<_>>());
    let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
    let complete = client.complete_multipart_upload().bucket(BUCKET).key("k").upload_id(&upload);
    let object = complete.multipart_upload(parts).send().await.expect("the object");
    assert!(object.e_tag().is_some_and(|etag| etag.ends_with("-2\"")), "{object:?}");
    assert_eq!(get(&client, "k").await, body);
}
