//! Ranges, parts, overrides: GetObject and HeadObject.

use aws_sdk_s3::operation::get_object::GetObjectOutput;

use super::*;

async fn ranged(client: &Client, range: &str) -> GetObjectOutput {
    client.get_object().bucket(BUCKET).key("k").range(range).send().await.expect(range)
}

#[tokio::test]
async fn one_range_is_answered_with_its_bytes() {
    let (_node, client) = a_bucket().await;
    let body = some_bytes(200_000);
    put(&client, "k", body.clone()).await;
    for (range, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=0-199999", 0, 199_999),
        ("bytes=65535-65536", 65_535, 65_536),
        ("bytes=199999-", 199_999, 199_999),
        ("bytes=100000-9999999", 100_000, 199_999),
        ("bytes=-1", 199_999, 199_999),
        ("bytes=-9999999", 0, 199_999),
    ] {
        let object = ranged(&client, range).await;
        assert_eq!(object.content_range(), Some(format!("bytes {first}-{last}/200000").as_str()), "{range}");
        assert_eq!(object.content_length(), Some(i64::try_from(last - first + 1).unwrap()), "{range}");
        let bytes = object.body.collect().await.unwrap().to_vec();
        assert_eq!(Some(bytes.as_slice()), body.get(first..=last), "{range}");
    }
}

#[tokio::test]
async fn an_invalid_range_and_several_ranges_are_ignored() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "0123456789").await;
    for range in ["bytes=0-1,3-4", "bytes=5-3", "bytes=a-b", "lines=0-1", "bytes=", "0-1"] {
        let object = ranged(&client, range).await;
        assert_eq!(object.content_range(), None, "{range}");
        assert_eq!(object.body.collect().await.unwrap().to_vec(), b"0123456789", "{range}");
    }
}

#[tokio::test]
async fn a_range_behind_the_end_is_not_satisfiable() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "0123456789").await;
    put(&client, "empty", "").await;
    for (key, range, size) in [
        ("k", "bytes=10-", 10),
        ("k", "bytes=99-100", 10),
        ("k", "bytes=-0", 10),
        ("k", "bytes=99999999999999999999999-", 10),
        ("empty", "bytes=0-", 0),
        ("empty", "bytes=-5", 0),
    ] {
        let refusal = refused(client.get_object().bucket(BUCKET).key(key).range(range).send().await);
        assert_eq!((refusal.status, refusal.code.as_str()), (416, "InvalidRange"), "{range}");
        assert_eq!(refusal.header("content-range"), Some(format!("bytes */{size}").as_str()));
        assert!(refusal.document().contains(&format!("<ActualObjectSize>{size}</ActualObjectSize>")));
        assert!(refusal.header("x-sherd-error-details").is_none());
    }
    let head = refused(client.head_object().bucket(BUCKET).key("k").range("bytes=10-").send().await);
    assert_eq!(head.status, 416);
}

#[tokio::test]
async fn a_head_of_a_range_describes_the_range() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "0123456789").await;
    let head = client.head_object().bucket(BUCKET).key("k").range("bytes=2-4").send().await.unwrap();
    assert_eq!(head.content_length(), Some(3));
    assert_eq!(head.content_range(), Some("bytes 2-4/10"));
}

#[tokio::test]
async fn a_part_number_reads_one_part() {
    let (_node, client) = a_bucket().await;
    multipart::complete_upload(&client, "k", &[some_bytes(PART), b"tail".to_vec()]).await;
    let part = |number| client.get_object().bucket(BUCKET).key("k").part_number(number);
    let second = part(2).send().await.unwrap();
    assert_eq!(second.parts_count(), Some(2));
    assert_eq!(second.content_range(), Some(format!("bytes {PART}-{}/{}", PART + 3, PART + 4).as_str()));
    assert_eq!(second.body.collect().await.unwrap().to_vec(), b"tail");
    assert_eq!(code(part(3).send().await), is(416, "InvalidPartNumber"));
    assert_eq!(code(part(0).send().await), is(400, "InvalidArgument"));
    assert_eq!(code(part(10_001).send().await), is(400, "InvalidArgument"));
    assert_eq!(code(part(1).range("bytes=0-1").send().await), is(400, "InvalidRequest"));
    let head = client.head_object().bucket(BUCKET).key("k").part_number(1).send().await.unwrap();
    assert_eq!(head.content_length(), Some(i64::try_from(PART).unwrap()));
    assert_eq!(head.parts_count(), Some(2));
}

#[tokio::test]
async fn an_object_put_whole_is_one_part() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "whole").await;
    let part = client.get_object().bucket(BUCKET).key("k").part_number(1).send().await.unwrap();
    assert_eq!(part.parts_count(), None);
    assert_eq!(part.body.collect().await.unwrap().to_vec(), b"whole");
    let second = client.get_object().bucket(BUCKET).key("k").part_number(2).send().await;
    assert_eq!(code(second), is(416, "InvalidPartNumber"));
}

#[tokio::test]
async fn a_request_may_ask_for_other_headers() {
    let (_node, client) = a_bucket().await;
    client.put_object().bucket(BUCKET).key("k").content_type("text/plain").send().await.unwrap();
    let object = client
        .get_object()
        .bucket(BUCKET)
        .key("k")
        .response_content_type("image/png")
        .response_cache_control("no-store")
        .response_content_disposition("inline; filename=\"\u{e4} b\"".replace('\u{e4}', "a"))
        .response_content_encoding("br")
        .response_content_language("fr")
        .send()
        .await
        .unwrap();
    assert_eq!(object.content_type(), Some("image/png"));
    assert_eq!(object.cache_control(), Some("no-store"));
    assert_eq!(object.content_disposition(), Some("inline; filename=\"a b\""));
    assert_eq!(object.content_encoding(), Some("br"));
    assert_eq!(object.content_language(), Some("fr"));
    let head =
        client.head_object().bucket(BUCKET).key("k").response_content_type("a/b").send().await.unwrap();
    assert_eq!(head.content_type(), Some("a/b"));
}

#[tokio::test]
async fn the_null_version_is_the_only_one() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    let object = client.get_object().bucket(BUCKET).key("k").version_id("null").send().await.unwrap();
    assert_eq!(object.version_id(), Some("null"));
    let other = client.get_object().bucket(BUCKET).key("k").version_id("0".repeat(31) + "1").send().await;
    assert!(refused(other).status >= 400);
}
