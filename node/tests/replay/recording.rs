//! Recordings as `node/tests/harness/record.rs` writes them, read back as steps in the order in which they
//! began.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::message::{Head, Request, request_body, split_answer};

/// How a server was started when it was recorded.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// `dev`, `serve`, or `protocol` for the layer alone.
    pub(crate) how: String,
    pub(crate) volume_count: usize,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    /// Seconds since 1970 of its clock.
    pub(crate) clock_s: i64,
    pub(crate) lines: String,
}

/// An event of a recording.
#[derive(Debug)]
pub(crate) enum Step {
    Start(Start),
    /// The node was stopped, or killed.
    Stop {
        is_kill: bool,
    },
    /// An object was put there by no request.
    Object {
        bucket: String,
        key: String,
        body: Vec<u8>,
    },
    Request(Box<Request>),
}

struct Frame<'a> {
    kind: &'a str,
    connection: u64,
    payload: &'a [u8],
}

/// The bytes of one direction of a connection, and where in them each frame begins.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    /// Offset in the bytes, place among the frames.
    frames: Vec<(usize, usize)>,
    /// The place of its end.
    end: Option<usize>,
}

impl Stream {
    /// The place of the frame that holds a byte.
    fn place(&self, offset: usize) -> usize {
        let after = self.frames.partition_point(|(begin, _)| *begin <= offset);
        self.frames[after.saturating_sub(1)].1
    }
}

/// Reads a recording.
pub(crate) fn read(path: &Path) -> Vec<Step> {
    let bytes = fs::read(path).expect("a recording is readable");
    steps(&bytes)
}

fn steps(bytes: &[u8]) -> Vec<Step> {
    let frames = frames(bytes);
    let mut connections: BTreeMap<u64, (Stream, Stream)> = BTreeMap::new();
    let mut steps: BTreeMap<usize, Step> = BTreeMap::new();
    for (place, frame) in frames.iter().enumerate() {
        let (requests, answers) = connections.entry(frame.connection).or_default();
        let (stream, is_end) = match frame.kind {
            "request" => (requests, false),
            "request-end" => (requests, true),
            "answer" => (answers, false),
            "answer-end" => (answers, true),
            other => {
                steps.insert(place, mark(other, frame.payload));
                continue;
            }
        };
        if is_end {
            stream.end = Some(place);
        } else {
            stream.frames.push((stream.bytes.len(), place));
            stream.bytes.extend_from_slice(frame.payload);
        }
    }
    for (connection, (requests, answers)) in connections {
        for (place, request) in exchanges(connection, &requests, &answers) {
            // Two requests in one frame were sent behind each other.
            let request = Step::Request(Box::new(request));
            assert!(steps.insert(place, request).is_none(), "pipelined requests are not recorded");
        }
    }
    steps.into_values().collect()
}

fn frames(bytes: &[u8]) -> Vec<Frame<'_>> {
    let (mut frames, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let line = bytes[at..].iter().position(|&byte| byte == b'\n').expect("a frame has a first line");
        let text = std::str::from_utf8(&bytes[at..at + line]).expect("its first line is text");
        let mut words = text.split(' ');
        let kind = words.next().expect("a kind");
        let connection = words.next().and_then(|word| word.parse().ok()).expect("a connection");
        let len: usize = words.next().and_then(|word| word.parse().ok()).expect("a length");
        at += line + 1;
        // A test that ends may cut its last frame.
        let Some(payload) = bytes.get(at..at + len) else { break };
        frames.push(Frame { kind, connection, payload });
        at += len + 1;
    }
    frames
}

/// A frame that is of no connection.
fn mark(kind: &str, payload: &[u8]) -> Step {
    let text = std::str::from_utf8(payload).expect("a mark is text");
    match kind {
        "start" => {
            let (head, lines) = text.split_once("\n\n").expect("a start has settings and lines");
            let value = |name: &str| {
                let pairs = head.lines().filter_map(|line| line.split_once('='));
                let value = pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value);
                value.unwrap_or_else(|| panic!("a start has {name}")).to_owned()
            };
            Step::Start(Start {
                how: value("how"),
                volume_count: value("volumes").parse().expect("a number"),
                access_key: value("access_key"),
                secret_key: value("secret_key"),
                clock_s: value("clock_s").parse().expect("a number"),
                lines: lines.to_owned(),
            })
        }
        "stop" => Step::Stop { is_kill: text == "kill" },
        "object" => {
            let mut parts = text.splitn(3, '\n');
            let mut part = || parts.next().unwrap_or_default().to_owned();
            Step::Object { bucket: part(), key: part(), body: part().into_bytes() }
        }
        other => panic!("a frame of kind {other}"),
    }
}

/// The requests of a connection, each with the place of its first byte.
fn exchanges(connection: u64, requests: &Stream, answers: &Stream) -> Vec<(usize, Request)> {
    let (mut exchanges, mut at, mut answered) = (Vec::new(), 0, 0);
    while at < requests.bytes.len() {
        let rest = &requests.bytes[at..];
        let place = requests.place(at);
        let (head, body, is_whole) = match Head::split(rest) {
            None => (None, rest.to_vec(), false),
            Some((head, len)) => {
                let (body, is_whole) = request_body(&head, &rest[len..]);
                at += len;
                (Some(head), rest[len..len + body].to_vec(), is_whole)
            }
        };
        at += body.len();
        let is_head = head.as_ref().is_some_and(|head| head.method() == "HEAD");
        let answer = split_answer(&answers.bytes[answered..], is_head, true);
        let answer_place = answer.as_ref().map_or(usize::MAX, |_| answers.place(answered));
        let is_half_closed = at == requests.bytes.len() && requests.end.is_some_and(|end| end < answer_place);
        let recorded = answer.map(|(answer, len)| {
            answered += len;
            answer
        });
        exchanges.push((place, Request { connection, head, body, is_whole, is_half_closed, recorded }));
    }
    exchanges
}

#[test]
fn requests_are_steps_in_the_order_in_which_they_began() {
    let frames: &[(&str, u64, &str)] = &[
        ("start", 0, "how=dev\nvolumes=4\naccess_key=a\nsecret_key=s\nclock_s=7\n\n"),
        ("request", 1, "PUT /b/k HTTP/1.1\r\ncontent-length: 4\r\n\r\nab"),
        ("request", 2, "GET /b HTTP/1.1\r\n\r\n"),
        ("answer", 2, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
        ("request", 1, "cd"),
        ("answer", 1, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("request", 1, "DELETE /b/k HTTP/1.1\r\ncontent-length: 9\r\n\r\nshort"),
        ("request-end", 1, ""),
        ("answer-end", 1, ""),
        ("stop", 0, "kill"),
    ];
    let frame = |(kind, connection, payload): &(&str, u64, &str)| {
        format!("{kind} {connection} {}\n{payload}\n", payload.len())
    };
    let steps = steps(frames.iter().map(frame).collect::<String>().as_bytes());
    let shown: Vec<String> = steps
        .iter()
        .map(|step| match step {
            Step::Start(start) => format!("start {} {}", start.how, start.clock_s),
            Step::Stop { is_kill } => format!("kill {is_kill}"),
            Step::Object { .. } => "object".to_owned(),
            Step::Request(request) => {
                let Request { head, body, is_whole, is_half_closed, recorded, .. } = &**request;
                let method = head.as_ref().map_or("", Head::method);
                let status = recorded.as_ref().map_or(0, |answer| answer.head.status());
                format!("{method} {} {is_whole} {is_half_closed} {status}", body.len())
            }
        })
        .collect();
    let expected =
        ["start dev 7", "PUT 4 true false 200", "GET 0 true false 404", "DELETE 5 false true 0", "kill true"];
    assert_eq!(shown, expected);
}
