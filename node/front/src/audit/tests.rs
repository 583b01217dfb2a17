//! Lines from a record's first word to its last, and what waits for a writer.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use sherd_store::observe::metrics::AuditMetrics;

use super::limits::{BATCH_BYTES, QUEUE_BYTES_MAX, QUEUE_LINES_MAX};
use super::queue::AuditQueue;
use super::record::AuditRecord;
use super::*;

struct Bench {
    queue: Arc<AuditQueue>,
    metrics: AuditMetrics,
}

impl Bench {
    fn new() -> Self {
        let metrics = AuditMetrics::unscraped();
        Self { queue: Arc::new(AuditQueue::new(metrics.clone())), metrics }
    }

    fn begin(&self, agent: &[u8]) -> AuditRecord {
        let headers = HeaderMap::from_iter([(
            http::header::USER_AGENT,
            HeaderValue::from_bytes(agent).expect("a header"),
        )]);
        let source = Source {
            address: "2001:db8::1".parse().expect("an address"),
            is_secure: true,
            tls_version: None,
        };
        let request = AuditedRequest {
            service: "s3",
            node: "n1",
            wall_ms: 1_369_353_600_007,
            source,
            certificate: None,
            method: &Method::GET,
            headers: &headers,
        };
        AuditRecord::begin(&self.queue, &request)
    }

    fn line(&self) -> serde_json::Value {
        let batch = self.queue.take();
        assert_eq!(batch.lines, 1);
        let text = String::from_utf8(batch.text).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).expect("one JSON object")
    }
}

#[test]
fn a_line_has_every_field() {
    let bench = Bench::new();
    let record = bench.begin(b"aws-cli/2");
    record.name_request("4D5E");
    record.name_operation("GetObject");
    record.name_object("bucket", "a/b");
    record.name_caller("arn:aws:iam::000000000001:root");
    record.name_access_key("harness", true);
    record.received(3);
    record.received(4);
    record.answered(StatusCode::NOT_FOUND);
    record.fail("NoSuchKey");
    let other = record.clone();
    drop(record);
    other.ended(271, AnswerEnd::Complete);
    drop(other);
    let mut line = bench.line();
    let took = |line: &mut serde_json::Value, name: &str| line[name].take().as_f64().expect("a number");
    let (first, whole) = (took(&mut line, "first_byte_ms"), took(&mut line, "ms"));
    assert!(0.0 <= first && first <= whole, "{first} {whole}");
    assert_eq!(
        line,
        serde_json::json!({
            "time": "2013-05-24T00:00:00.007Z", "node": "n1", "service": "s3", "source": "2001:db8::1",
            "tls": true, "certificate": null, "method": "GET", "user_agent": "aws-cli/2", "request_id": "4D5E",
            "operation": "GetObject", "bucket": "bucket", "key": "a/b",
            "caller": "arn:aws:iam::000000000001:root", "access_key": "harness", "status": 404,
            "code": "NoSuchKey", "bytes_in": 7, "bytes_out": 271, "first_byte_ms": null, "ms": null,
            "end": "complete",
        })
    );
}

#[test]
fn a_request_that_was_given_up_has_a_line() {
    let bench = Bench::new();
    drop(bench.begin(b"a"));
    let line = bench.line();
    for name in ["request_id", "operation", "bucket", "key", "caller", "access_key", "status", "code"] {
        assert!(line[name].is_null(), "{name}: {line}");
    }
    assert_eq!((&line["end"], &line["bytes_out"]), (&"cut_off".into(), &0.into()));
}

#[test]
fn texts_are_bounded_and_escaped_and_their_first_value_stays() {
    let bench = Bench::new();
    let record = bench.begin(&[b"x\"\\\xff\xc2\x9b".as_slice(), &[b'y'; 600]].concat());
    let key = "\n\u{202e}\u{7f}".to_owned() + &"\u{e4}".repeat(1000);
    record.name_object("bucket", &key);
    record.name_object("other", "other");
    record.name_caller("anonymous");
    record.name_caller("root");
    drop(record);
    let text = String::from_utf8(bench.queue.take().text).expect("text");
    assert!(text.chars().all(|character| character == '\n' || !character.is_control()), "{text:?}");
    assert!(text.contains("\\u000a\\u202e\\u007f"), "{text}");
    let line: serde_json::Value = serde_json::from_str(&text).expect("one JSON object");
    let agent = line["user_agent"].as_str().expect("text");
    assert!(agent.starts_with("x\"\\\u{fffd}\u{9b}yyy") && agent.len() == 256, "{agent}");
    let kept = line["key"].as_str().expect("text");
    assert!(key.starts_with(kept) && kept.len() == 1023, "{} bytes", kept.len());
    assert_eq!((&line["bucket"], &line["caller"]), (&"bucket".into(), &"anonymous".into()));
}

#[test]
fn an_unknown_access_key_is_named_where_it_cannot_be_a_secret() {
    for (id, exists, is_named) in [
        ("sherd", true, true),
        ("AKIAIOSFODNN7EXAMPLE", false, true),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", false, false),
        ("AKIAIOSFODNN7EXAMPLE7", false, false),
        ("AKIAiosfodnn7example", false, false),
    ] {
        let bench = Bench::new();
        bench.begin(b"a").name_access_key(id, exists);
        assert_eq!(bench.line()["access_key"].as_str(), is_named.then_some(id), "{id}");
    }
}

#[test]
fn lines_beyond_either_bound_are_dropped_and_counted() {
    let bench = Bench::new();
    for _ in 0..QUEUE_LINES_MAX + 3 {
        bench.queue.push("{}\n".to_owned());
    }
    assert_eq!(bench.metrics.dropped.get(), 3);
    let long = Bench::new();
    let line = "x".repeat(1 << 20);
    for _ in 0..9 {
        long.queue.push(line.clone());
    }
    assert_eq!(long.metrics.dropped.get(), 1);
    // Every line that is taken makes room for another.
    assert_eq!(long.queue.take().lines, 1);
    long.queue.push(line);
    assert_eq!(long.metrics.dropped.get(), 1);
    assert_eq!(QUEUE_BYTES_MAX, 8 << 20);
}

#[test]
fn what_waits_is_taken_after_the_close_and_nothing_behind_it() {
    let bench = Bench::new();
    let line = "y".repeat(BATCH_BYTES / 2) + "\n";
    for _ in 0..3 {
        bench.queue.push(line.clone());
    }
    bench.queue.reopen();
    bench.queue.close();
    bench.queue.push(line);
    let batches = [bench.queue.take(), bench.queue.take(), bench.queue.take()];
    assert_eq!(batches.each_ref().map(|batch| batch.lines), [2, 1, 0]);
    assert_eq!(batches.each_ref().map(|batch| batch.must_reopen), [true, false, false]);
    assert!(batches.iter().all(|batch| batch.is_closed));
    assert_eq!(bench.metrics.dropped.get(), 1);
    assert_eq!(bench.queue.pause(Duration::from_hours(1)), (true, false), "a closed queue has no pauses");
}
