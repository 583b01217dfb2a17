//! The AWS SDK for Rust as a client: its own signatures, framing and checksums.

use std::fmt::Write as _;
use std::time::Duration;

use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier};
use aws_sdk_s3::{Client, Config};
use sherd_s3::service::Limits;

use crate::wire::{ACCESS_KEY, SECRET, Server, TestClock};

fn client(server: &Server, path_style: bool) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .endpoint_url(format!("http://{}", server.address))
        .credentials_provider(Credentials::new(ACCESS_KEY, SECRET, None, None, "test"))
        .force_path_style(path_style)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

async fn start() -> (Server, Client) {
    let server = Server::start_with(TestClock::Running, Limits::default()).await;
    let client = client(&server, true);
    (server, client)
}

#[tokio::test]
async fn objects_go_in_and_out() {
    let (server, client) = start().await;
    client.create_bucket().bucket("bucket").send().await.expect("create");
    for (key, bytes) in [("a/b c+d", &b"hello"[..]), ("empty", b""), ("é//../x", b"odd")] {
        let put = client.put_object().bucket("bucket").key(key).metadata("colour", "blue");
        put.content_type("text/plain").body(ByteStream::from_static(bytes)).send().await.expect(key);
        let stored = server.memory.object("bucket", key).expect(key);
        assert_eq!(stored.bytes, bytes);
        assert_eq!(stored.content_type.as_deref(), Some("text/plain"));
        let got = client.get_object().bucket("bucket").key(key).send().await.expect(key);
        assert_eq!(got.body.collect().await.expect("whole").into_bytes(), bytes);
    }
    let listed = client.list_objects_v2().bucket("bucket").prefix("a b").send().await.expect("list");
    assert_eq!(listed.contents().len(), 3);
    let missing = client.get_object().bucket("bucket").key("none").send().await.expect_err("none");
    assert!(missing.into_service_error().is_no_such_key());
}

#[tokio::test]
async fn streamed_bodies_come_framed_with_a_trailer() {
    let (server, client) = start().await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let bytes = vec![b'x'; 300_000];
    std::fs::write(file.path(), &bytes).expect("written");
    let body = ByteStream::from_path(file.path()).await.expect("a body");
    client.put_object().bucket("bucket").key("k").body(body).send().await.expect("put");
    let stored = server.memory.object("bucket", "k").expect("stored");
    assert_eq!(stored.bytes, bytes);
    assert!(stored.trailer.is_some(), "the SDK sends its checksum in the trailer");
    assert_eq!(stored.size, 300_000);
}

#[tokio::test]
async fn multipart_uploads_and_batches_work() {
    let (server, client) = start().await;
    let upload = client.create_multipart_upload().bucket("bucket").key("k").send().await.expect("begin");
    let upload_id = upload.upload_id().expect("an id");
    let part = client.upload_part().bucket("bucket").key("k").upload_id(upload_id).part_number(1);
    let part = part.body(ByteStream::from_static(b"part")).send().await.expect("part");
    let part = CompletedPart::builder().part_number(1).e_tag(part.e_tag().expect("an etag")).build();
    let parts = CompletedMultipartUpload::builder().parts(part).build();
    let complete = client.complete_multipart_upload().bucket("bucket").key("k").upload_id(upload_id);
    complete.multipart_upload(parts).send().await.expect("complete");
    let key = ObjectIdentifier::builder().key("a&b").build().expect("a key");
    let delete = Delete::builder().objects(key).build().expect("keys");
    client.delete_objects().bucket("bucket").delete(delete).send().await.expect("delete");
    client.copy_object().bucket("bucket").key("c").copy_source("bucket/k").send().await.expect("copy");
    client.list_buckets().send().await.expect("list");
    assert_eq!(
        server.memory.calls(),
        [
            "CreateMultipartUpload",
            "UploadPart",
            "CompleteMultipartUpload",
            "DeleteObjects",
            "CopyObject",
            "ListBuckets",
        ]
    );
}

#[tokio::test]
async fn presigned_urls_of_the_sdk_are_served() {
    let (server, client) = start().await;
    let hour = PresigningConfig::expires_in(Duration::from_hours(1)).expect("in range");
    let put = client.put_object().bucket("bucket").key("a b").presigned(hour.clone()).await.expect("signed");
    let target = put.uri().split_once(&server.address.to_string()).expect("this server").1;
    let mut headers = String::new();
    for (name, value) in put.headers() {
        write!(headers, "{name}: {value}\r\n").expect("a string");
    }
    let request = format!(
        "PUT {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: 3\r\n{headers}\r\nabc",
        server.address
    );
    let answer = server.exchange(request.as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(server.memory.object("bucket", "a b").expect("stored").bytes, "abc");
    let get = client.get_object().bucket("bucket").key("a b").presigned(hour).await.expect("signed");
    let target = get.uri().split_once(&server.address.to_string()).expect("this server").1;
    let request = format!("GET {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address);
    assert_eq!(server.exchange(request.as_bytes()).await.text(), "abc");
}

#[tokio::test]
async fn features_that_are_lacking_say_so() {
    let (_server, client) = start().await;
    let error = client.get_bucket_analytics_configuration().bucket("bucket").id("1").send().await;
    let error = error.expect_err("not implemented");
    assert_eq!(error.raw_response().map(|response| response.status().as_u16()), Some(501));
    let put = client.put_object().bucket("bucket").key("k").object_lock_legal_hold_status("ON".into());
    let put = put.body(ByteStream::from_static(b"x"));
    let error = put.send().await.expect_err("not implemented");
    assert_eq!(error.raw_response().map(|response| response.status().as_u16()), Some(501));
}
