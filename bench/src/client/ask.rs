//! Requests one at a time, each with its answer, on a blocking connection.

use std::io;
use std::net::SocketAddr;

use super::payload::Payloads;
use super::request::{Body, Headers, RequestBytes, Requests};
use super::response::{Decoder, Head, MalformedResponse, Progress};
use super::sign::Credentials;
use crate::blocking::read_some;
use crate::limits::{ASK_READ_BYTES, ASK_TEXT_BYTES_MAX, ASK_TIMEOUT};
use crate::tls::authority::TlsTrust;
use crate::tls::stream::ClientStream;

/// Why a request around a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The answer is not HTTP.
    #[error("{0}")]
    Malformed(#[from] MalformedResponse),
    /// Another status than the right one.
    #[error("{what}: status {status}: {text}")]
    Status {
        /// The request.
        what: &'static str,
        /// The status.
        status: u16,
        /// The answer's body.
        text: String,
    },
}

/// Lists the buckets, which shows that the node at `address` answers and accepts the credentials; over TLS if
/// there is a `tls`.
///
/// # Errors
/// No answer comes, or another one than 200.
pub fn list_buckets(
    (address, host): (SocketAddr, &str),
    tls: Option<&TlsTrust>,
    credentials: &Credentials,
) -> Result<(), Error> {
    let (Head { status, .. }, text) = ask_at((address, host), tls, credentials, "", "GET", Body::None)?;
    if status == 200 { Ok(()) } else { Err(Error::Status { what: "list buckets", status, text }) }
}

/// Sends one request to a bucket of the server at `address` and reads its answer's head and text.
///
/// # Errors
/// The connection fails, or no byte comes for [`ASK_TIMEOUT`]. A text is cut at [`ASK_TEXT_BYTES_MAX`].
pub fn ask_at(
    (address, host): (SocketAddr, &str),
    tls: Option<&TlsTrust>,
    credentials: &Credentials,
    bucket: &str,
    method: &str,
    body: Body<'_>,
) -> Result<(Head, String), Error> {
    let mut connection = Connection::new((address, host), tls, credentials, bucket);
    let mut text = Vec::new();
    let request = Request { method, key: "", query: "", headers: Headers::NONE, body };
    // The request sends no bytes of an object, and so needs none of the pool.
    let head = connection.ask(&request, &Payloads::with_pool(0, 0), &mut |_, piece| {
        let room = ASK_TEXT_BYTES_MAX - text.len();
        text.extend_from_slice(&piece[..piece.len().min(room)]);
    })?;
    Ok((head, String::from_utf8_lossy(&text).into_owned()))
}

/// A request to a bucket.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// The object's key, of letters that a path need not encode; empty for the bucket itself.
    pub key: &'a str,
    /// The query, its names in order and percent-encoded.
    pub query: &'a str,
    /// Headers beside those that every request has.
    pub headers: Headers<'a>,
    /// The body.
    pub body: Body<'a>,
}

impl<'a> Request<'a> {
    /// Reads an object, or asks the bucket itself where the key is empty.
    pub const fn get(key: &'a str, query: &'a str) -> Self {
        Self { method: "GET", key, query, headers: Headers::NONE, body: Body::None }
    }
}

/// A connection to a bucket of one node, for one request after another. It is made for the first one, and
/// again after an error or where the node ended it.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    tls: Option<TlsTrust>,
    requests: Requests,
    stream: Option<ClientStream>,
    out: RequestBytes,
    read: Vec<u8>,
}

impl Connection {
    /// A connection to `bucket` at `address`, over TLS if there is a `tls`.
    pub fn new(
        (address, host): (SocketAddr, &str),
        tls: Option<&TlsTrust>,
        credentials: &Credentials,
        bucket: &str,
    ) -> Self {
        Self {
            address,
            tls: tls.cloned(),
            requests: Requests::new(credentials.clone(), host, bucket),
            stream: None,
            out: RequestBytes::default(),
            read: vec![0; ASK_READ_BYTES],
        }
    }

    /// Sends a request, with bytes of objects from `payloads`, and gives the pieces of its answer's body to
    /// `take`.
    ///
    /// # Errors
    /// The connection fails, or no byte comes for [`ASK_TIMEOUT`].
    pub fn ask(
        &mut self,
        request: &Request<'_>,
        payloads: &Payloads,
        take: &mut impl FnMut(&Head, &[u8]),
    ) -> Result<Head, Error> {
        let &Request { method, key, query, headers, body } = request;
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => ClientStream::connect(self.address, self.tls.as_ref(), ASK_TIMEOUT)?,
        };
        self.requests.build(method, |path| path.push_str(key), query, headers, body, &mut self.out);
        while !self.out.is_sent() {
            self.out.send(&mut stream, payloads)?;
        }
        let mut decoder = Decoder::default();
        decoder.begin(method == "HEAD");
        let is_open = loop {
            let length = read_some(&mut stream, &mut self.read)?;
            if length == 0 {
                decoder.close()?;
                break false;
            }
            if decoder.feed(&self.read[..length], take)? == Progress::Done {
                break true;
            }
        };
        let head = decoder.head().cloned().unwrap_or_default();
        self.stream = (is_open && !head.closes).then_some(stream);
        Ok(head)
    }
}
