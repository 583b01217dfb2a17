//! A probe of a scripted endpoint: what it sends, and what it makes of each answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use sherd_front::callers::StaticCredentials;
use sherd_front::verifier::Verifier;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use sherd_store::machine::system::{SystemClock, SystemRng};

const SECRET: &str = "long-enough";

fn variable(name: &str) -> Option<String> {
    match name {
        ACCESS_KEY_LINE => Some("root".to_owned()),
        SECRET_KEY_LINE => Some(SECRET.to_owned()),
        _ => None,
    }
}

/// How the endpoint answers a request.
#[derive(Clone)]
enum Answer {
    /// With this status and body.
    Fixed(u16, &'static str),
    /// With the body of the last PUT.
    Echo,
    /// With bytes that are not HTTP.
    Garbage,
    /// Not at all.
    Silence,
}

/// Answers one connection each, and returns `METHOD path` of what came, and the connections without an
/// answer.
async fn serve(listener: TcpListener, answers: Vec<Answer>) -> (Vec<String>, Vec<TcpStream>) {
    let mut answers = VecDeque::from(answers);
    let (mut heads, mut kept, mut open) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(answer) = answers.pop_front() {
        let (mut stream, _) = listener.accept().await.expect("a request");
        let mut read = Vec::new();
        let end = loop {
            if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            assert_ne!(stream.read_buf(&mut read).await.expect("connected"), 0, "a whole head");
        };
        let head = String::from_utf8(read[..end].to_vec()).expect("ASCII");
        verify(&head);
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let length: usize = length.unwrap_or(0);
        let mut body = read[end..].to_vec();
        while body.len() < length {
            assert_ne!(stream.read_buf(&mut body).await.expect("connected"), 0, "a whole body");
        }
        if length > 0 {
            kept = body;
        }
        heads.push(head.split(" HTTP").next().expect("never empty").to_owned());
        let (status, body) = match answer {
            Answer::Fixed(status, body) => (status, body.as_bytes().to_vec()),
            Answer::Echo => (200, kept.clone()),
            Answer::Garbage => {
                stream.write_all(b"SSH-2.0-x\r\n").await.expect("connected");
                continue;
            }
            Answer::Silence => {
                open.push(stream);
                continue;
            }
        };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.expect("connected");
        stream.write_all(&body).await.expect("connected");
    }
    (heads, open)
}

/// Checks the signature as a node does.
fn verify(head: &str) {
    let mut lines = head.lines();
    let mut line = lines.next().expect("a request line").split(' ');
    let mut request =
        Request::builder().method(line.next().expect("a method")).uri(line.next().expect("a path"));
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    let (parts, ()) = request.body(()).expect("a request").into_parts();
    let credentials = Arc::new(StaticCredentials::single("root", Secret::new(SECRET)));
    let verifier = Verifier::new("eu-test-1", credentials, Arc::new(SystemClock::new()));
    let proven = verifier.verify(&parts, &Query::default(), None).now_or_never();
    proven.expect("a static key takes no wait").expect("signed");
}

async fn run(answers: Vec<Answer>) -> (Result<(), ProbeError>, Vec<String>) {
    run_in(None, answers).await
}

async fn run_in(bucket: Option<&str>, answers: Vec<Answer>) -> (Result<(), ProbeError>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
    let endpoint = Endpoint::parse(&endpoint).expect("a URL");
    let bucket = bucket.map(str::to_owned);
    let arguments = ProbeArgs { endpoint, ca: None, region: "eu-test-1".to_owned(), bucket };
    let clock = SystemClock::new();
    let (outcome, (heads, _open)) =
        tokio::join!(ask(&arguments, &variable, &clock, &SystemRng), serve(listener, answers));
    (outcome, heads)
}

const OK: Answer = Answer::Fixed(200, "");
const GONE: Answer = Answer::Fixed(204, "");

#[tokio::test]
async fn an_object_that_comes_back_is_removed_with_its_bucket() {
    let (outcome, heads) = run(vec![OK, OK, Answer::Echo, GONE, GONE]).await;
    outcome.expect("it came back");
    let bucket = heads[0].strip_prefix("PUT ").expect("the bucket first");
    assert!(bucket.starts_with("/probe-"), "{bucket}");
    let object = format!("{bucket}/object");
    let expected = [
        format!("PUT {bucket}"),
        format!("PUT {object}"),
        format!("GET {object}"),
        format!("DELETE {object}"),
        format!("DELETE {bucket}"),
    ];
    assert_eq!(heads, expected);
}

#[tokio::test]
async fn a_bucket_that_is_named_is_neither_made_nor_deleted() {
    let (outcome, heads) = run_in(Some("photos"), vec![OK, Answer::Echo, GONE]).await;
    outcome.expect("it came back");
    let object = heads[0].strip_prefix("PUT ").expect("the object first");
    assert!(object.starts_with("/photos/probe-"), "{object}");
    assert_eq!(heads, [format!("PUT {object}"), format!("GET {object}"), format!("DELETE {object}")]);
    let (outcome, heads) = run_in(Some("photos"), vec![Answer::Fixed(403, ""), GONE]).await;
    let error = outcome.expect_err("refused");
    assert!(matches!(error, ProbeError::Refused { step: ProbeStep::PutObject, .. }), "{error}");
    assert_eq!(heads.len(), 2, "the object is removed, and the bucket is not");
    assert_eq!(bucket_name("photos.eu-1"), Ok("photos.eu-1".to_owned()));
    for name in ["ab", "Photos", "a/b", "a?b", ""] {
        assert!(bucket_name(name).is_err(), "{name}");
    }
}

#[tokio::test]
async fn another_object_is_told_and_what_was_made_is_removed() {
    let (outcome, heads) = run(vec![OK, OK, Answer::Fixed(200, "other"), GONE, GONE]).await;
    let error = outcome.expect_err("another object");
    assert!(matches!(error, ProbeError::Different { got: 5, put: OBJECT_BYTES }), "{error}");
    assert!(heads[3].starts_with("DELETE /probe-") && heads[4].starts_with("DELETE /probe-"), "{heads:?}");
}

#[tokio::test]
async fn a_refusal_is_told_by_step_status_and_the_servers_words() {
    let refusal = "<Error><Code>SlowDown</Code><Message>too\nbusy</Message></Error>";
    let (outcome, _) = run(vec![OK, Answer::Fixed(503, refusal), GONE, GONE]).await;
    let said = outcome.expect_err("refused").to_string();
    assert_eq!(said, "PutObject was answered 503 Service Unavailable: SlowDown: too busy");
    assert_eq!(words_of(b" "), "no reason given");
    assert_eq!(words_of(&[b'x'; 1000]).len(), WORDS_MAX);
}

#[tokio::test]
async fn an_endpoint_that_is_not_http_or_not_there_is_told() {
    let (outcome, _) = run(vec![Answer::Garbage, GONE, GONE]).await;
    let error = outcome.expect_err("not HTTP");
    let ProbeError::Exchange { step: ProbeStep::CreateBucket, failure } = &error else { panic!("{error}") };
    assert!(matches!(failure, ExchangeFailure::Http(_)), "{error}");

    let free = TcpListener::bind("127.0.0.1:0").await.expect("loopback").local_addr().expect("bound");
    let endpoint = Endpoint::parse(&format!("http://{free}/")).expect("a URL");
    let arguments = ProbeArgs { endpoint, ca: None, region: REGION.to_owned(), bucket: None };
    let error = ask(&arguments, &variable, &SystemClock::new(), &SystemRng).await.expect_err("nothing there");
    assert!(error.to_string().starts_with(&format!("CreateBucket: connect to {free}: ")), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_endpoint_fails_the_probe_within_thirty_seconds() {
    let begin = tokio::time::Instant::now();
    let (outcome, _) = run(vec![Answer::Silence]).await;
    assert!(matches!(outcome, Err(ProbeError::TimedOut)), "{outcome:?}");
    assert!(begin.elapsed() <= Duration::from_secs(30));
}

#[test]
fn credentials_come_from_the_environment_and_endpoints_are_bare() {
    let endpoint = Endpoint::parse("http://localhost:9000").expect("a URL");
    let arguments = ProbeArgs { endpoint, ca: None, region: REGION.to_owned(), bucket: None };
    let half = |name: &str| variable(name).filter(|_| name != SECRET_KEY_LINE);
    let error = probe(&arguments, &half, &SystemClock::new(), &SystemRng).expect_err("half of a pair");
    assert_eq!(error.to_string(), "AWS_SECRET_ACCESS_KEY is not set");
    let endpoint = Endpoint::parse("http://localhost:9000").expect("a URL");
    let arguments =
        ProbeArgs { endpoint, ca: Some("ca.crt".into()), region: REGION.to_owned(), bucket: None };
    let error = probe(&arguments, &variable, &SystemClock::new(), &SystemRng).expect_err("in clear");
    assert!(matches!(error, ProbeError::CaInClear), "{error}");
    for (text, address) in [
        ("http://localhost", "localhost:80"),
        ("https://localhost", "localhost:443"),
        ("https://[::1]:9000", "[::1]:9000"),
        ("http://h:9000/", "h:9000"),
        ("http://[::1]:9000", "[::1]:9000"),
    ] {
        assert_eq!(Endpoint::parse(text).expect(text).address, address);
    }
    for text in ["ftp://h", "h:9000", "http://", "http://h/path", "http://h/?a", "http://u:p@h", ""] {
        Endpoint::parse(text).expect_err(text);
    }
}
