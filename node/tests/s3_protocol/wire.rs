//! A server on a port of its own, and a client that writes and signs every byte itself.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper_util::rt::TokioIo;
use sha2::{Digest as _, Sha256};
use sherd_core::env::Clock;
use sherd_front::callers::{Credentials, StaticCredentials};
use sherd_s3::operation::Operations;
use sherd_s3::service::{Config, Limits, Protocol, UnsupportedAcl};
use sherd_signature::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::memory::Memory;
use crate::record::{Recorder, Recording, StartOptions};

pub(crate) const ACCESS_KEY: &str = "AKIDTEST";
pub(crate) const SECRET: &str = "secret-that-nobody-prints";
/// 2013-05-24T00:00:00Z.
pub(crate) const NOW_MS: u64 = 1_369_353_600_000;
pub(crate) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Configuration with which a node answers as the layer does here.
const CONFIGURATION: &str =
    "region = \"eu-west-1\"\ndomains = [\"s3.test\"]\n[limits]\nstall_timeout = \"5s\"\n";

/// Stands still, for requests signed here; runs, for requests signed by an SDK.
#[derive(Debug)]
pub(crate) enum TestClock {
    Still,
    Running,
}

impl Clock for TestClock {
    fn wall_ms(&self) -> u64 {
        match self {
            Self::Still => NOW_MS,
            Self::Running => {
                let since = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
                u64::try_from(since.as_millis()).expect("before the year 584 million")
            }
        }
    }
    fn monotonic_us(&self) -> u64 {
        0
    }
}

/// A running server; its tasks end with it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) memory: Memory,
    _tasks: JoinSet<()>,
    /// The recorder that clients go through, if the test is recorded.
    _recorder: Option<Recorder>,
}

/// The layer over operations that keep what they are given.
pub(crate) fn protocol(clock: TestClock, limits: Limits, memory: Memory) -> Protocol {
    let credentials = StaticCredentials::single(ACCESS_KEY, Secret::new(SECRET));
    protocol_over(clock, limits, Arc::new(credentials), Arc::new(memory))
}

/// The layer over operations, for callers with these keys.
pub(crate) fn protocol_over(
    clock: TestClock,
    limits: Limits,
    credentials: Arc<dyn Credentials>,
    operations: Arc<dyn Operations>,
) -> Protocol {
    let config = Config {
        region: "eu-west-1".to_owned(),
        domains: vec!["s3.test".to_owned()],
        host_id: "node-0".to_owned(),
        request_id_seed: 7,
        sigv2_presigned: true,
        unsupported_acl: UnsupportedAcl::Refuse,
        reserved_buckets: &[],
        limits,
    };
    Protocol::new(config, credentials, Arc::new(clock), operations)
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(TestClock::Still, Limits::default()).await
    }

    pub(crate) async fn start_with(clock: TestClock, limits: Limits) -> Self {
        let recording = Recording::of_this_test();
        if let Some(recording) = &recording {
            recording.started(&StartOptions {
                how: "protocol",
                volume_count: 4,
                access_key: ACCESS_KEY,
                secret_key: SECRET,
                clock_s: clock.wall_ms() / 1000,
                lines: CONFIGURATION,
            });
        }
        let memory = Memory::new(recording.clone());
        let server = Self::of(protocol(clock, limits, memory.clone()), memory).await;
        let Some(recording) = recording else { return server };
        let recorder = Recorder::start(server.address, recording).await;
        Self { address: recorder.address, _recorder: Some(recorder), ..server }
    }

    /// Serves a protocol, whose requests this memory takes.
    pub(crate) async fn of(protocol: Protocol, memory: Memory) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let protocol = protocol.clone();
                connections.spawn(async move {
                    let mut http = hyper::server::conn::http1::Builder::new();
                    http.half_close(true);
                    // The client may go when it has its answer.
                    let _ = http.serve_connection(TokioIo::new(stream), protocol).await;
                });
            }
        });
        Self { address, memory, _tasks: tasks, _recorder: None }
    }

    /// Sends bytes, closes the sending half, and reads the answer.
    pub(crate) async fn exchange(&self, bytes: &[u8]) -> Answer {
        let mut connection = self.connect().await;
        connection.send(bytes).await;
        connection.finish().await;
        connection.answer().await
    }

    pub(crate) async fn send(&self, request: &Asking) -> Answer {
        let mut connection = self.connect().await;
        connection.send(&request.signed()).await;
        connection.answer().await
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection { stream: TcpStream::connect(self.address).await.expect("the server listens") }
    }
}

pub(crate) struct Connection {
    stream: TcpStream,
}

impl Connection {
    /// Sends; a server that has already refused may not read to the end.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    pub(crate) async fn finish(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Reads one head.
    pub(crate) async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.expect("a whole head"));
        }
        String::from_utf8(head).expect("ASCII")
    }

    /// Reads the answer; its end is the end of the connection.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.head().await;
        let mut body = Vec::new();
        // A server that refused with bytes unread resets the connection after its answer.
        let _ = self.stream.read_to_end(&mut body).await;
        Answer::parse(&head, body)
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn parse(head: &str, body: Vec<u8>) -> Self {
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.parse().expect("a number"),
            headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
            body,
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The text of an element of the document.
    pub(crate) fn element(&self, name: &str) -> Option<String> {
        let text = self.text();
        let (_, after) = text.split_once(&format!("<{name}>"))?;
        Some(after.split_once(&format!("</{name}>"))?.0.to_owned())
    }

    /// Status and code.
    pub(crate) fn refusal(&self) -> (u16, String) {
        (self.status, self.element("Code").unwrap_or_default())
    }
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

/// A request to be signed.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    method: &'static str,
    target: String,
    headers: Vec<(String, String)>,
    unsigned: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    payload: String,
    pub(crate) date: &'static str,
    pub(crate) region: &'static str,
    pub(crate) service: &'static str,
    pub(crate) access_key: &'static str,
}

impl Asking {
    pub(crate) fn new(method: &'static str, target: &str) -> Self {
        Self {
            method,
            target: target.to_owned(),
            headers: vec![("host".to_owned(), "127.0.0.1".to_owned())],
            unsigned: vec![("connection".to_owned(), "close".to_owned())],
            body: Vec::new(),
            payload: EMPTY.to_owned(),
            date: "20130524T000000Z",
            region: "eu-west-1",
            service: "s3",
            access_key: ACCESS_KEY,
        }
    }

    pub(crate) fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.headers[0].1);
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A header that the signature does not cover.
    pub(crate) fn unsigned(mut self, name: &str, value: &str) -> Self {
        self.unsigned.push((name.to_owned(), value.to_owned()));
        self
    }

    /// An unsigned header in place of the one that was there.
    pub(crate) fn relabelled(mut self, name: &str, value: &str) -> Self {
        self.unsigned.retain(|(other, _)| other != name);
        self.unsigned(name, value)
    }

    /// A body with its length and its hash.
    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.payload = hex::encode(Sha256::digest(body));
        self.body = body.to_vec();
        self.unsigned("content-length", &body.len().to_string())
    }

    /// The value of `x-amz-content-sha256`.
    pub(crate) fn payload(mut self, payload: &str) -> Self {
        payload.clone_into(&mut self.payload);
        self
    }

    /// A framed body of `decoded` bytes; `framed` is its form on the wire.
    pub(crate) fn framed(self, form: &str, decoded: usize, framed: &[u8]) -> Self {
        let mut asking = self.header("x-amz-decoded-content-length", &decoded.to_string()).payload(form);
        asking.body = framed.to_vec();
        asking.unsigned("content-length", &framed.len().to_string())
    }

    fn scope(&self) -> String {
        format!("{}/{}/{}/aws4_request", &self.date[..8], self.region, self.service)
    }

    fn key(&self) -> Vec<u8> {
        let mut key = format!("AWS4{SECRET}").into_bytes();
        for part in [&self.date[..8], self.region, self.service, "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        key
    }

    fn signature(&self, target: &str, headers: &[(String, String)], payload: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut pairs: Vec<String> =
            query.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
        for pair in &mut pairs {
            if !pair.contains('=') {
                pair.push('=');
            }
        }
        pairs.sort_by(|one, other| one.split_once('=').cmp(&other.split_once('=')));
        let mut canonical = format!("{}\n{path}\n{}\n", self.method, pairs.join("&"));
        for (name, value) in headers {
            writeln!(canonical, "{name}:{value}").expect("a string");
        }
        write!(canonical, "\n{}\n{payload}", names(headers)).expect("a string");
        let hash = hex::encode(Sha256::digest(canonical));
        let text = format!("AWS4-HMAC-SHA256\n{}\n{}\n{hash}", self.date, self.scope());
        hex::encode(hmac(&self.key(), text.as_bytes()))
    }

    fn signed_headers(&self) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        headers.push(("x-amz-date".to_owned(), self.date.to_owned()));
        headers.push(("x-amz-content-sha256".to_owned(), self.payload.clone()));
        headers.sort();
        headers
    }

    /// The signature of the request, which the first frame's signature builds on.
    pub(crate) fn seed(&self) -> String {
        self.signature(&self.target, &self.signed_headers(), &self.payload)
    }

    /// Signs the next frame of a body over the signature before it.
    pub(crate) fn frame(&self, previous: &str, payload: &[u8]) -> String {
        let hash = hex::encode(Sha256::digest(payload));
        let text =
            format!("AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{previous}\n{EMPTY}\n{hash}", self.date, self.scope());
        hex::encode(hmac(&self.key(), text.as_bytes()))
    }

    /// Signs the trailer.
    pub(crate) fn trailer(&self, previous: &str, lines: &str) -> String {
        let hash = hex::encode(Sha256::digest(lines));
        let text = format!("AWS4-HMAC-SHA256-TRAILER\n{}\n{}\n{previous}\n{hash}", self.date, self.scope());
        hex::encode(hmac(&self.key(), text.as_bytes()))
    }

    /// The bytes to send, signed in the header.
    pub(crate) fn signed(&self) -> Vec<u8> {
        let headers = self.signed_headers();
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
            self.access_key,
            self.scope(),
            names(&headers),
            self.seed()
        );
        self.bytes(&self.target, &headers, Some(&authorization))
    }

    /// The bytes to send, signed in the query, valid for `seconds`.
    pub(crate) fn presigned(&self, seconds: i64) -> Vec<u8> {
        let mut headers = self.headers.clone();
        headers.sort();
        let credential = format!("{}/{}", self.access_key, self.scope()).replace('/', "%2F");
        let separator = if self.target.contains('?') { '&' } else { '?' };
        let target = format!(
            "{}{separator}X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={}\
             &X-Amz-Expires={seconds}&X-Amz-SignedHeaders={}",
            self.target,
            self.date,
            names(&headers).replace(';', "%3B")
        );
        let payload = headers.iter().find(|(name, _)| name == "x-amz-content-sha256");
        let payload = payload.map_or("UNSIGNED-PAYLOAD", |(_, value)| value);
        let signature = self.signature(&target, &headers, payload);
        self.bytes(&format!("{target}&X-Amz-Signature={signature}"), &headers, None)
    }

    /// The bytes to send with no signature, or another.
    pub(crate) fn bare(&self, authorization: Option<&str>) -> Vec<u8> {
        self.bytes(&self.target, &self.headers, authorization)
    }

    fn bytes(&self, target: &str, headers: &[(String, String)], authorization: Option<&str>) -> Vec<u8> {
        let mut text = format!("{} {target} HTTP/1.1\r\n", self.method);
        for (name, value) in headers.iter().chain(&self.unsigned) {
            write!(text, "{name}: {value}\r\n").expect("a string");
        }
        if let Some(authorization) = authorization {
            write!(text, "authorization: {authorization}\r\n").expect("a string");
        }
        text.push_str("\r\n");
        [text.as_bytes(), &self.body].concat()
    }
}

fn names(headers: &[(String, String)]) -> String {
    headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";")
}

/// Frames payloads without signatures.
pub(crate) fn unsigned_frames(payloads: &[&[u8]], trailer: &str) -> Vec<u8> {
    let mut framed = Vec::new();
    for payload in payloads {
        framed.extend_from_slice(format!("{:x}\r\n", payload.len()).as_bytes());
        framed.extend_from_slice(payload);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend_from_slice(format!("0\r\n{trailer}\r\n\r\n").as_bytes());
    framed
}

/// Limits that a test reaches soon.
pub(crate) fn small_limits() -> Limits {
    Limits {
        header_count_max: 20,
        header_bytes_max: 2000,
        uri_bytes_max: 400,
        xml_bytes_max: 300,
        body_idle: Duration::from_millis(20),
        ..Limits::default()
    }
}
