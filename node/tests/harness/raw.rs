//! HTTP by hand: requests that no client library would send, over connections that end when and how
//! the test wants. Presigned, so that a request is a line and its body is anything.

use std::time::Duration;

use aws_sdk_s3::presigning::PresigningConfig;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::s3::{BUCKET, S3};
use super::wait::{LATER, SOON, bounded};

/// Bytes of the longest response head that is read.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A connection with a request on it.
#[derive(Debug)]
pub(crate) struct Raw {
    stream: TcpStream,
    /// Bytes that were read behind the head.
    rest: Vec<u8>,
}

/// Bytes that a steady body announces: more than it sends.
pub(crate) const STEADY_LEN: usize = 1 << 30;

/// A body that goes on, so fast that its request keeps its place; its connection closes with it.
#[derive(Debug)]
pub(crate) struct SteadyBody(JoinSet<()>);

impl SteadyBody {
    /// Sends over a connection on which a request announced [`STEADY_LEN`] bytes.
    pub(crate) fn send(mut stream: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (piece, mut ticks) = (vec![7; 16 << 10], tokio::time::interval(Duration::from_millis(20)));
        let mut sending = JoinSet::new();
        sending.spawn(async move {
            while stream.write_all(&piece).await.is_ok() {
                ticks.tick().await;
            }
        });
        Self(sending)
    }
}

/// The head of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    text: String,
}

impl Head {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// Bytes of the body.
    pub(crate) fn len(&self) -> usize {
        self.header("content-length").and_then(|len| len.parse().ok()).expect("an answer has a length")
    }
}

impl Raw {
    /// Sends the head of a PUT that announces `len` bytes.
    pub(crate) async fn put(s3: &S3, key: &str, len: usize) -> Self {
        let presigned = s3.sdk().put_object().bucket(BUCKET).key(key).presigned(an_hour()).await;
        let url = presigned.expect("signing needs no server").uri().to_owned();
        Self::send("PUT", &url, &format!("Content-Length: {len}\r\n")).await
    }

    /// As [`Self::put`], and asks whether the body is to be sent: the node answers 100 when it takes it.
    pub(crate) async fn put_expecting(s3: &S3, key: &str, len: usize) -> Self {
        let presigned = s3.sdk().put_object().bucket(BUCKET).key(key).presigned(an_hour()).await;
        let url = presigned.expect("signing needs no server").uri().to_owned();
        Self::send("PUT", &url, &format!("Content-Length: {len}\r\nExpect: 100-continue\r\n")).await
    }

    /// Sends a GET.
    pub(crate) async fn get(s3: &S3, key: &str) -> Self {
        let presigned = s3.sdk().get_object().bucket(BUCKET).key(key).presigned(an_hour()).await;
        let url = presigned.expect("signing needs no server").uri().to_owned();
        Self::send("GET", &url, "").await
    }

    /// As [`Self::get`], by a page of this origin.
    pub(crate) async fn get_from(s3: &S3, key: &str, origin: &str) -> Self {
        let presigned = s3.sdk().get_object().bucket(BUCKET).key(key).presigned(an_hour()).await;
        let url = presigned.expect("signing needs no server").uri().to_owned();
        Self::send("GET", &url, &format!("Origin: {origin}\r\n")).await
    }

    /// A connection on which nothing was sent.
    pub(crate) async fn idle(endpoint: &str) -> Self {
        let address = endpoint.strip_prefix("http://").expect("plain HTTP");
        let stream = bounded("connecting", SOON, TcpStream::connect(address)).await;
        Self { stream: stream.expect("the node listens"), rest: Vec::new() }
    }

    async fn send(method: &str, url: &str, headers: &str) -> Self {
        let rest = url.strip_prefix("http://").expect("plain HTTP");
        let (host, path) = rest.split_once('/').expect("a URL has a path");
        let mut raw = Self::idle(&format!("http://{host}")).await;
        let head = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
        raw.body(head.as_bytes()).await.expect("a new connection takes a head");
        raw
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The connection's: the node may have closed it.
    pub(crate) async fn body(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        bounded("sending", LATER, self.stream.write_all(bytes)).await
    }

    /// Sends a steady body from here on.
    pub(crate) fn steady(self) -> SteadyBody {
        SteadyBody::send(self.stream)
    }

    /// Says that no more bytes come, and goes on reading.
    pub(crate) async fn half_close(&mut self) {
        self.stream.shutdown().await.expect("the connection is open");
    }

    /// Ends the connection at once, without a farewell (RST).
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().expect("the connection is open");
    }

    /// Reads the head of the answer; nothing when the node closes instead.
    pub(crate) async fn head(&mut self) -> Option<Head> {
        let mut read = Vec::new();
        loop {
            if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                self.rest = read.split_off(end + 4);
                let text = String::from_utf8(read).expect("a head is text");
                let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
                return Some(Head { status: status.expect("an answer has a status"), text });
            }
            assert!(read.len() < HEAD_BYTES_MAX, "a head has an end");
            let mut buffer = vec![0; 4096];
            // A node that closes with bytes of ours unread resets the connection.
            let count = bounded("an answer", LATER, self.stream.read(&mut buffer)).await.unwrap_or(0);
            if count == 0 {
                return None;
            }
            read.extend_from_slice(&buffer[..count]);
        }
    }

    /// Reads some of the answer's body; nothing at its end.
    pub(crate) async fn some(&mut self) -> Vec<u8> {
        if !self.rest.is_empty() {
            return std::mem::take(&mut self.rest);
        }
        let mut buffer = vec![0; 64 << 10];
        let count = bounded("a body", LATER, self.stream.read(&mut buffer)).await.unwrap_or(0);
        buffer.truncate(count);
        buffer
    }

    /// Reads `len` bytes of the answer's body.
    pub(crate) async fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut read = Vec::with_capacity(len);
        while read.len() < len {
            let some = self.some().await;
            assert!(!some.is_empty(), "the body ends after {} of {len} bytes", read.len());
            read.extend_from_slice(&some);
        }
        read
    }

    /// Waits until the node closes the connection; what it says before is read away.
    pub(crate) async fn until_closed(&mut self) {
        while !self.some().await.is_empty() {}
    }
}

fn an_hour() -> PresigningConfig {
    PresigningConfig::expires_in(Duration::from_hours(1)).expect("an hour is a valid time")
}
