//! One request and its answer, on a blocking connection of its own.

use std::io;
use std::net::SocketAddr;

use super::payload::Payloads;
use super::request::{Body, Headers, RequestBytes, Requests};
use super::response::{Decoder, Head, MalformedResponse, Progress};
use super::sign::Credentials;
use crate::blocking::read_some;
use crate::limits::{ASK_TEXT_BYTES_MAX, ASK_TIMEOUT};
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
    let mut stream = ClientStream::connect(address, tls, ASK_TIMEOUT)?;
    let mut out = RequestBytes::default();
    let mut requests = Requests::new(credentials.clone(), host, bucket);
    requests.build(method, |_| (), "", Headers::NONE, body, &mut out);
    // The request sends no bytes of an object, and so needs none of the pool.
    let payloads = Payloads::with_pool(0, 0);
    while !out.is_sent() {
        out.send(&mut stream, &payloads)?;
    }
    let (mut decoder, mut text, mut scratch) = (Decoder::default(), Vec::new(), vec![0; 16 << 10]);
    decoder.begin(method == "HEAD");
    loop {
        let length = read_some(&mut stream, &mut scratch)?;
        if length == 0 {
            decoder.close()?;
            break;
        }
        let keep = &mut |_: &_, piece: &[u8]| {
            let room = ASK_TEXT_BYTES_MAX - text.len();
            text.extend_from_slice(&piece[..piece.len().min(room)]);
        };
        if decoder.feed(&scratch[..length], keep)? == Progress::Done {
            break;
        }
    }
    let head = decoder.head().cloned().unwrap_or_default();
    Ok((head, String::from_utf8_lossy(&text).into_owned()))
}
