//! Parts that the SDK can neither send nor show: bytes beyond ASCII in headers, and XML as it is written.
//!
//! Requests are presigned by the SDK, and written and read here byte by byte.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_s3::config::interceptors::AfterDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_sdk_s3::presigning::{PresignedRequest, PresigningConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

pub(super) fn an_hour() -> PresigningConfig {
    PresigningConfig::expires_in(Duration::from_hours(1)).expect("an hour is allowed")
}

/// The answer to a presigned GET, byte by byte.
pub(super) async fn raw(request: &PresignedRequest) -> Vec<u8> {
    let uri: http::Uri = request.uri().parse().expect("a uri");
    let (authority, target) = (uri.authority().expect("a host"), uri.path_and_query().expect("a path"));
    let mut connection = TcpStream::connect(authority.as_str()).await.expect("the node listens");
    let head = format!("GET {target} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).await.expect("the head");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.expect("an answer");
    answer
}

/// Sends a presigned request with more headers (whole lines) and a body; returns the answer's head
/// and body as they came.
pub(super) async fn exchange(request: &PresignedRequest, lines: &[&str], body: &[u8]) -> (String, Vec<u8>) {
    let uri: http::Uri = request.uri().parse().expect("a uri");
    let authority = uri.authority().expect("an absolute uri");
    let target = uri.path_and_query().expect("a path");
    let mut head = vec![
        format!("{} {target} HTTP/1.1", request.method()),
        format!("host: {authority}"),
        "connection: close".to_owned(),
        format!("content-length: {}", body.len()),
    ];
    let signed = request.headers().filter(|(name, _)| !matches!(*name, "host" | "content-length"));
    head.extend(signed.map(|(name, value)| format!("{name}: {value}")));
    head.extend(lines.iter().map(|&line| line.to_owned()));
    head.push("\r\n".to_owned());
    let mut connection = TcpStream::connect(authority.as_str()).await.expect("the node listens");
    connection.write_all(head.join("\r\n").as_bytes()).await.expect("the head");
    connection.write_all(body).await.expect("the body");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.expect("an answer");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    let body = answer.split_off(end + 4);
    (String::from_utf8(answer).expect("a head is text here"), body)
}

#[tokio::test]
async fn a_header_beyond_ascii_comes_back_byte_for_byte() {
    let (_node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").presigned(an_hour()).await.unwrap();
    let line = "content-disposition: attachment; filename=\"käse.txt\"";
    let (head, _) = exchange(&put, &[line], b"body").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let get = client.get_object().bucket(BUCKET).key("k").presigned(an_hour()).await.unwrap();
    let (head, body) = exchange(&get, &[], b"").await;
    assert!(head.contains(line), "{head}");
    assert_eq!(body, b"body");
}

#[tokio::test]
async fn a_head_of_a_range_is_206() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "0123456789").await;
    let head = client.head_object().bucket(BUCKET).key("k").presigned(an_hour()).await.unwrap();
    let (answer, body) = exchange(&head, &["range: bytes=2-4"], b"").await;
    assert!(answer.starts_with("HTTP/1.1 206"), "{answer}");
    assert!(answer.contains("content-range: bytes 2-4/10"), "{answer}");
    assert!(body.is_empty());
}

/// Keeps status and document of an answer.
#[derive(Debug, Clone, Default)]
pub(super) struct RawAnswer(pub(super) Arc<Mutex<(u16, String)>>);

impl Intercept for RawAnswer {
    fn name(&self) -> &'static str {
        "RawAnswer"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let bytes = context.response().body().bytes().unwrap_or_default();
        let status = context.response().status().as_u16();
        *self.0.lock().expect("no holder panics") = (status, std::str::from_utf8(bytes)?.to_owned());
        Ok(())
    }
}

#[tokio::test]
async fn control_characters_in_keys_are_references_in_xml() {
    let (_node, client) = a_bucket().await;
    put(&client, "a\rb\u{1}", "v").await;
    let document = RawAnswer::default();
    let list = client.list_objects_v2().bucket(BUCKET).customize().interceptor(document.clone());
    // Not every parser takes a reference to a character that XML does not have.
    drop(list.send().await);
    let document = document.0.lock().unwrap().1.clone();
    assert!(document.contains("<Key>a&#xD;b&#x1;</Key>"), "{document}");
}

#[tokio::test]
async fn the_location_of_a_bucket_in_us_east_1_is_empty() {
    let (_node, client) = a_bucket().await;
    let document = RawAnswer::default();
    let location = client.get_bucket_location().bucket(BUCKET).customize().interceptor(document.clone());
    location.send().await.unwrap();
    let document = document.0.lock().unwrap().1.clone();
    let root = document.split_once("?>").map_or(document.as_str(), |(_, root)| root).trim_start();
    assert!(root.starts_with("<LocationConstraint"), "{document}");
    assert!(!document.contains("us-east-1"), "{document}");
}

#[tokio::test]
async fn a_range_is_answered_while_if_range_names_the_object() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "k", "0123456789").await;
    let get = client.get_object().bucket(BUCKET).key("k").presigned(an_hour()).await.unwrap();
    let same = format!("if-range: {etag}");
    for (range, validator, status, expected) in [
        ("range: bytes=2-4", same.as_str(), "206", "234"),
        ("range: bytes=2-4", "if-range: \"other\"", "200", "0123456789"),
        ("range: bytes=2-4", "if-range: Sun, 06 Nov 1994 08:49:37 GMT", "200", "0123456789"),
        ("range: bytes=20-", "if-range: \"other\"", "200", "0123456789"),
        ("accept: */*", "if-range: \"other\"", "200", "0123456789"),
    ] {
        let (head, body) = exchange(&get, &[range, validator], b"").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{range}, {validator}: {head}");
        assert_eq!(body, expected.as_bytes(), "{range}, {validator}");
    }
    let (head, _) = exchange(&get, &["range: bytes=20-", &same], b"").await;
    assert!(head.starts_with("HTTP/1.1 416"), "{head}");
}

#[tokio::test]
async fn a_body_that_ends_early_stores_nothing() {
    let (_node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").presigned(an_hour()).await.unwrap();
    let uri: http::Uri = put.uri().parse().unwrap();
    let authority = uri.authority().unwrap();
    let head = format!(
        "PUT {} HTTP/1.1\r\nhost: {authority}\r\ncontent-length: 100\r\n\r\nonly this",
        uri.path_and_query().unwrap()
    );
    let mut connection = TcpStream::connect(authority.as_str()).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // The node may answer or only close; either way nothing is stored.
    drop(connection.read_to_end(&mut answer).await);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(code(client.head_object().bucket(BUCKET).key("k").send().await), is(404, "NotFound"));
}

/// Sends a PUT's head with more lines, and no byte of its body of 100 MB; returns all that is answered.
async fn answer_to_the_head(put: &PresignedRequest, lines: &str) -> String {
    let uri: http::Uri = put.uri().parse().expect("an address");
    let authority = uri.authority().expect("it names a node");
    let target = uri.path_and_query().expect("it is signed");
    let head =
        format!("PUT {target} HTTP/1.1\r\nhost: {authority}\r\ncontent-length: 100000000\r\n{lines}\r\n");
    let mut connection = TcpStream::connect(authority.as_str()).await.expect("it listens");
    connection.write_all(head.as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.expect("it answers");
    String::from_utf8(answer).expect("a text")
}

#[tokio::test]
async fn a_condition_that_fails_is_answered_before_the_body_is_taken() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "k", "v").await;
    let presigned = |key: &'static str| {
        let put = client.put_object().bucket(BUCKET).key(key);
        async move { put.presigned(an_hour()).await.unwrap() }
    };
    let there = presigned("k").await;
    let absent = presigned("none").await;
    for expect in ["", "expect: 100-continue\r\n"] {
        for (put, condition, refusal) in [
            (&there, "if-none-match: *\r\n", "412"),
            (&there, "if-match: \"other\"\r\n", "412"),
            (&absent, "if-match: *\r\n", "404"),
        ] {
            let answer = answer_to_the_head(put, &format!("{expect}{condition}")).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {refusal}")), "{expect}{condition}: {answer}");
            assert!(!answer.contains("100 Continue"), "{answer}");
        }
    }
    // A condition that holds lets the body come.
    let same = format!("if-match: {etag}");
    let (head, _) = exchange(&there, &[&same, "expect: 100-continue"], b"body").await;
    assert!(head.starts_with("HTTP/1.1 100"), "{head}");
    assert_eq!(get(&client, "k").await, b"body");
    let (head, _) = exchange(&absent, &["if-none-match: *"], b"new").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[tokio::test]
async fn a_call_that_is_sent_again_is_asked_for_its_body_and_no_other_is() {
    let (_node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").presigned(an_hour()).await.unwrap();
    let absent = "if-none-match: *";
    let (first, another) = ("amz-sdk-invocation-id: first", "amz-sdk-invocation-id: another");
    let (head, _) = exchange(&put, &[absent, first], b"body").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (head, _) = exchange(&put, &[absent, first, "expect: 100-continue"], b"body").await;
    assert!(head.starts_with("HTTP/1.1 100"), "{head}");
    let answer = answer_to_the_head(&put, &format!("{absent}\r\n{another}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 412"), "{answer}");
}
