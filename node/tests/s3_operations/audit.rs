//! Audit lines of a whole node: one for each request however it ends, with what it was and no secret. Then,
//! lines while their file moves, and while nothing takes them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::{CorsConfiguration, CorsRule, Delete, ObjectIdentifier};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

use super::*;
use crate::harness::Stopped;
use crate::harness::form::Form;
use crate::harness::raw::Raw;
use crate::harness::wait::{LATER, SOON, bounded, eventually};

const ROOT: &str = "arn:aws:iam::000000000001:root";
/// The secret of the harness.
const SECRET: &str = "secret-of-the-harness";

/// A node that writes audit lines into a file of its folder.
fn audited(more: &str) -> (Stopped, PathBuf) {
    let stopped = empty();
    let path = stopped.dir().join("audit.log");
    let lines = format!("audit_log = \"{}\"\n{more}", path.display());
    (stopped.serve(&lines), path)
}

fn lines(path: &PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the audit log");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is a JSON object")).collect()
}

/// The only line about an operation on a key.
fn line<'a>(lines: &'a [Value], operation: &str, key: Option<&str>) -> &'a Value {
    let is_it = |line: &&Value| line["operation"] == operation && line["key"].as_str() == key;
    let found: Vec<_> = lines.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{operation} {key:?}: {found:?}");
    found[0]
}

/// Checks fields of a line.
fn has(line: &Value, fields: &[(&str, Value)]) {
    for (name, value) in fields {
        assert_eq!(&line[*name], value, "{name}: {line}");
    }
}

/// Sends a request as it is written, and returns its answer.
async fn send(node: &Node, head: &str) -> String {
    let address = node.endpoint.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("the node listens");
    let request = format!("{head}\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the node reads");
    let mut answer = String::new();
    bounded("an answer", LATER, stream.read_to_string(&mut answer)).await.expect("text");
    answer
}

async fn presigned(client: &Client, key: &str) -> String {
    let an_hour = PresigningConfig::expires_in(std::time::Duration::from_hours(1)).expect("an hour");
    let request = client.get_object().bucket(BUCKET).key(key).presigned(an_hour).await;
    request.expect("signing needs no server").uri().to_owned()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one request of each kind, and its line")]
async fn every_request_has_one_line_with_what_became_of_it() {
    let (stopped, path) = audited("");
    let node = stopped.start().await;
    let s3 = node.with_bucket().await;
    let client = s3.sdk();
    let host = node.endpoint.trim_start_matches("http://").to_owned();

    let etag = put(client, "whole \"ä\"\u{1}", "12345").await;
    assert!(etag.starts_with('"'));
    assert_eq!(get(client, "whole \"ä\"\u{1}").await, b"12345");
    put(client, "large", vec![7; 32 << 20]).await;
    let mut cut = Raw::get(&s3, "large").await;
    assert_eq!(cut.head().await.map(|head| head.status), Some(200));
    cut.reset();
    let missing = client.get_object().bucket(BUCKET).key("missing").send().await;
    assert_eq!(code(missing), is(404, "NoSuchKey"));
    let head = client.head_object().bucket(BUCKET).key("large").send().await.expect("the object");
    assert_eq!(head.content_length(), Some(32 << 20));

    // One digit of a signature is another one.
    let good = presigned(client, "presigned").await;
    let (start, digit) =
        good.split_at(good.find("X-Amz-Signature=").expect("signed") + "X-Amz-Signature=".len());
    let other = if digit.starts_with('0') { "1" } else { "0" };
    let bad = format!("{start}{other}{}", &digit[1..]).replace("/presigned?", "/presigned?x-id=GetObject&");
    let path_of = |url: &str| url.trim_start_matches("http://").trim_start_matches(&host).to_owned();
    let answer = send(&node, &format!("GET {} HTTP/1.1", path_of(&bad))).await;
    assert!(answer.contains("SignatureDoesNotMatch"), "{answer}");
    // A secret in the place of the access key.
    let swapped = format!(
        "GET /{BUCKET}/swapped HTTP/1.1\r\nAuthorization: AWS {SECRET}:c2ln\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT"
    );
    assert!(send(&node, &swapped).await.starts_with("HTTP/1.1 4"));
    let answer = send(
        &node,
        &format!("GET /{BUCKET}/anonymous HTTP/1.1\r\nUser-Agent: curl/8\r\nX-Forwarded-For: 192.0.2.1"),
    )
    .await;
    assert!(answer.contains("AccessDenied"), "{answer}");
    let answer = send(&node, &format!("GET /{BUCKET}?encryption HTTP/1.1")).await;
    assert!(answer.contains("AccessDenied"), "{answer}");
    // The request fails before anything of it is named.
    assert!(send(&node, "GET /%ff HTTP/1.1").await.contains("InvalidURI"));

    let rule = CorsRule::builder().allowed_methods("GET").allowed_origins("https://a.test").build();
    let cors = CorsConfiguration::builder().cors_rules(rule.expect("a rule")).build().expect("rules");
    client.put_bucket_cors().bucket(BUCKET).cors_configuration(cors).send().await.expect("rules");
    let preflight = "Origin: https://a.test\r\nAccess-Control-Request-Method: GET";
    let answer = send(&node, &format!("OPTIONS /{BUCKET}/page HTTP/1.1\r\n{preflight}")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(Form::new(&node, BUCKET, "form", "a file").v4(None).send().await.status, 204);
    let keys =
        ["whole \"ä\"\u{1}", "form"].map(|key| ObjectIdentifier::builder().key(key).build().expect("a key"));
    let delete = Delete::builder().set_objects(Some(keys.into())).build().expect("a list");
    let encryption = [("x-amz-server-side-encryption-customer-key", "c3NlLWMta2V5LW9mLXRoZS1oYXJuZXNz")];
    client.delete_objects().bucket(BUCKET).delete(delete).send().await.expect("deleted");
    let keyed = client.get_object().bucket(BUCKET).key("keyed").customize().mutate_request(move |request| {
        request.headers_mut().insert(encryption[0].0, encryption[0].1);
    });
    keyed.send().await.expect_err("there is no encryption by the customer's key");
    let _folder = node.stop().await;

    let found = lines(&path);
    assert_eq!(found.len(), 17, "{found:#?}");
    let whole = Some("whole \"ä\"\u{1}");
    let write = found.iter().find(|line| line["operation"] == "PutObject" && line["key"].as_str() == whole);
    has(
        write.expect("a line"),
        &[
            ("service", "s3".into()),
            ("node", Value::Null),
            ("source", "127.0.0.1".into()),
            ("tls", false.into()),
            ("certificate", Value::Null),
            ("method", "PUT".into()),
            ("bucket", BUCKET.into()),
            ("caller", ROOT.into()),
            ("access_key", "harness".into()),
            ("status", 200.into()),
            ("code", Value::Null),
            ("bytes_out", 0.into()),
            ("end", "complete".into()),
        ],
    );
    let write = write.expect("a line");
    assert!(write["bytes_in"].as_u64() >= Some(5), "frames are counted: {write}");
    assert!(write["user_agent"].as_str().is_some_and(|agent| agent.contains("aws-sdk-rust")), "{write}");
    assert!(write["request_id"].as_str().is_some_and(|id| id.len() == 16), "{write}");
    let time = write["time"].as_str().expect("a time");
    assert!(time.len() == 24 && time.ends_with('Z') && time.contains('T'), "{time}");
    assert!(write["first_byte_ms"].as_f64() <= write["ms"].as_f64(), "{write}");

    has(line(&found, "GetObject", whole), &[("bytes_out", 5.into()), ("end", "complete".into())]);
    let cut = line(&found, "GetObject", Some("large"));
    has(cut, &[("status", 200.into()), ("end", "cut_off".into()), ("caller", ROOT.into())]);
    assert!(cut["bytes_out"].as_u64() < Some(32 << 20), "{cut}");
    let missing = line(&found, "GetObject", Some("missing"));
    has(missing, &[("status", 404.into()), ("code", "NoSuchKey".into()), ("end", "complete".into())]);
    assert!(missing["bytes_out"].as_u64() > Some(0), "{missing}");
    has(line(&found, "HeadObject", Some("large")), &[("bytes_out", 0.into()), ("end", "complete".into())]);
    let bad = line(&found, "GetObject", Some("presigned"));
    has(
        bad,
        &[
            ("status", 403.into()),
            ("code", "SignatureDoesNotMatch".into()),
            ("caller", Value::Null),
            ("access_key", "harness".into()),
        ],
    );
    has(line(&found, "GetObject", Some("swapped")), &[("caller", Value::Null), ("access_key", Value::Null)]);
    has(
        line(&found, "GetObject", Some("anonymous")),
        &[
            ("status", 403.into()),
            ("code", "AccessDenied".into()),
            ("caller", "anonymous".into()),
            ("access_key", Value::Null),
            ("user_agent", "curl/8".into()),
            ("source", "127.0.0.1".into()),
        ],
    );
    let nameless = found.iter().find(|line| line["operation"].is_null()).expect("a line");
    has(nameless, &[("code", "InvalidURI".into()), ("status", 400.into()), ("bucket", Value::Null)]);
    let unserved = line(&found, "GetBucketEncryption", None);
    has(unserved, &[("status", 403.into()), ("caller", "anonymous".into()), ("bucket", BUCKET.into())]);
    let preflight = line(&found, "Preflight", Some("page"));
    has(preflight, &[("method", "OPTIONS".into()), ("status", 200.into()), ("caller", "anonymous".into())]);
    let form = line(&found, "PostObject", Some("form"));
    has(form, &[("status", 204.into()), ("caller", ROOT.into()), ("access_key", "harness".into())]);
    assert!(form["bytes_in"].as_u64() > Some(100), "{form}");
    has(line(&found, "DeleteObjects", None), &[("status", 200.into()), ("bucket", BUCKET.into())]);

    let text = fs::read_to_string(&path).expect("the audit log").to_lowercase();
    let signature = &digit[1..64];
    for secret in
        [SECRET, signature, "x-amz-signature", "authorization", "credential=", "c3nllwmta2v5", "c2ln"]
    {
        assert!(!text.contains(secret), "{secret} is in the audit log");
    }
}

#[tokio::test]
async fn the_file_is_made_again_after_it_was_moved_and_at_sighup() {
    let (stopped, path) = audited("trusted_proxies = \"127.0.0.1\"\n");
    let node = stopped.start().await;
    let client = node.client();
    let moved = |name: &str| path.with_file_name(name);
    client.create_bucket().bucket("first").send().await.expect("a bucket");
    let is_written = async |count: u32| {
        eventually("lines are written", SOON, async || {
            let written = node.metrics().await.get("sherd_audit_lines_total");
            if written >= f64::from(count) { Ok(()) } else { Err(format!("{written} of {count}")) }
        })
        .await;
    };
    is_written(1).await;
    fs::rename(&path, moved("audit.log.1")).expect("moved");
    node.signal(Signal::HUP);
    eventually("the file is made", SOON, async || path.exists().then_some(()).ok_or_else(String::new)).await;
    client.create_bucket().bucket("second").send().await.expect("a bucket");
    is_written(2).await;
    fs::rename(&path, moved("audit.log.2")).expect("moved");
    send(&node, "GET /third HTTP/1.1\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https").await;
    let _folder = node.stop().await;
    let buckets = ["audit.log.1", "audit.log.2", "audit.log"].map(|name| {
        let lines = lines(&moved(name));
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines[0]["bucket"].as_str().unwrap_or_default().to_owned()
    });
    assert_eq!(buckets, ["first", "second", "third"]);
    has(&lines(&path)[0], &[("source", "192.0.2.1".into()), ("tls", true.into())]);
}

/// Nothing reads the pipe: the queue fills, drops lines, and every request is answered.
#[tokio::test]
async fn a_pipe_that_is_not_read_costs_lines_and_no_request() {
    let (stopped, path) = audited("");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("a new pipe");
    let node = stopped.start().await;
    let client = node.client();
    client.create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    let address = node.endpoint.trim_start_matches("http://");
    let mut stream = BufStream::new(TcpStream::connect(address).await.expect("the node listens"));
    // Each character of the key takes six in its line.
    let head = format!("HEAD /{BUCKET}/{} HTTP/1.1\r\nHost: {address}\r\n\r\n", "%01".repeat(1000));
    let mut dropped = 0.0;
    while dropped == 0.0 {
        for _ in 0..200 {
            stream.write_all(head.as_bytes()).await.expect("the node reads");
            stream.flush().await.expect("the node reads");
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                let read = bounded("an answer", LATER, stream.read_line(&mut line)).await;
                assert!(read.expect("text") > 0, "the node answers");
            }
        }
        dropped = node.metrics().await.get("sherd_audit_dropped_total");
    }
    put(&client, "k", "v").await;
    assert_eq!(get(&client, "k").await, b"v");
    let reader = tokio::task::spawn_blocking(move || {
        let pipe = BufReader::new(fs::File::open(path).expect("the pipe"));
        let whole = |line: &str| serde_json::from_str::<Value>(line).is_ok();
        pipe.lines().map(|line| line.expect("text")).inspect(|line| assert!(whole(line), "{line}")).count()
    });
    eventually("the lines that waited are read", SOON, async || {
        let written = node.metrics().await.get("sherd_audit_lines_total");
        if written > 0.0 { Ok(()) } else { Err("none is".to_owned()) }
    })
    .await;
    client.delete_object().bucket(BUCKET).key("k").send().await.expect("deleted");
    let _folder = node.stop().await;
    let read = bounded("the end of the pipe", LATER, reader).await.expect("every line is whole");
    assert!(read > 200, "{read} lines");
}
