//! The few requests around a run: is the store there, make the bucket, remove it. One at a time, on a
//! blocking connection.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use super::payload::Payloads;
use super::request::{Body, Headers, RequestBytes, Requests};
use super::response::{Decoder, Head, MalformedResponse, Progress};
use crate::blocking::read_some;
use crate::subject::{Endpoint, Subject};

const TIMEOUT: Duration = Duration::from_secs(30);
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Why a request around a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No answer.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No answer of HTTP.
    #[error("{0}")]
    Malformed(#[from] MalformedResponse),
    /// Another status than the right one.
    #[error("{what}: status {status}: {text}")]
    Status {
        /// What was asked.
        what: &'static str,
        /// The status.
        status: u16,
        /// The answer's body.
        text: String,
    },
}

/// Lists the buckets through each node, which needs it to answer and to know the credentials.
///
/// # Errors
/// There is no answer, or not the right one.
pub fn is_ready(subject: &Subject) -> Result<(), Error> {
    for node in subject.endpoints() {
        let (Head { status, .. }, text) = ask_node(subject, node, ["", ""], "GET", Body::None)?;
        if status != 200 {
            return Err(Error::Status { what: "list buckets", status, text });
        }
    }
    Ok(())
}

/// Makes `bucket`, and says whether it was not there before.
///
/// # Errors
/// It cannot be made.
pub fn make(subject: &Subject, bucket: &str) -> Result<bool, Error> {
    match ask(subject, bucket, "", "PUT", Body::Text(b""))? {
        (Head { status: 200, .. }, _) => Ok(true),
        (Head { status: 409, .. }, text) if text.contains("BucketAlreadyOwnedByYou") => Ok(false),
        (Head { status, .. }, text) => Err(Error::Status { what: "make the bucket", status, text }),
    }
}

/// Removes `bucket`, which must be empty.
///
/// # Errors
/// It cannot be removed.
pub fn remove(subject: &Subject, bucket: &str) -> Result<(), Error> {
    match ask(subject, bucket, "", "DELETE", Body::None)? {
        (Head { status: 204, .. }, _) => Ok(()),
        (Head { status, .. }, text) => Err(Error::Status { what: "remove the bucket", status, text }),
    }
}

/// The ETag of object `name` in `bucket`, with its quotes.
///
/// # Errors
/// There is no answer, or no such object.
pub fn etag(subject: &Subject, bucket: &str, name: &str) -> Result<String, Error> {
    let (Head { status, etag, .. }, text) = ask(subject, bucket, name, "HEAD", Body::None)?;
    match etag {
        Some(etag) if status == 200 => Ok(etag),
        _ => Err(Error::Status { what: "ask for an object's ETag", status, text }),
    }
}

fn ask(
    subject: &Subject,
    bucket: &str,
    name: &str,
    method: &str,
    body: Body<'_>,
) -> Result<(Head, String), Error> {
    ask_node(subject, &subject.endpoint, [bucket, name], method, body)
}

fn ask_node(
    subject: &Subject,
    node: &Endpoint,
    [bucket, name]: [&str; 2],
    method: &str,
    body: Body<'_>,
) -> Result<(Head, String), Error> {
    let mut stream = TcpStream::connect_timeout(&node.address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut out = RequestBytes::default();
    let mut requests = Requests::new(subject.credentials.clone(), &node.host, bucket);
    requests.build(method, |path| path.push_str(name), "", Headers::NONE, body, &mut out);
    // Nothing of an object is sent, so that nothing of the pool is needed.
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
            let room = TEXT_BYTES_MAX - text.len();
            text.extend_from_slice(&piece[..piece.len().min(room)]);
        };
        if decoder.feed(&scratch[..length], keep)? == Progress::Done {
            break;
        }
    }
    let head = decoder.head().cloned().unwrap_or_default();
    Ok((head, String::from_utf8_lossy(&text).into_owned()))
}
