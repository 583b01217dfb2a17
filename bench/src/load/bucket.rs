//! The few requests around a run: is the store there, make the bucket, remove it. One at a time, on a
//! blocking connection.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::Duration;

use super::payload::Payloads;
use super::request::{Body, Outgoing, Requests};
use super::response::{Decoder, Malformed, Progress};
use crate::subject::Subject;

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
    Malformed(#[from] Malformed),
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

/// Lists the buckets, which needs the store to answer and to know the credentials.
///
/// # Errors
/// There is no answer, or not the right one.
pub fn is_ready(subject: &Subject) -> Result<(), Error> {
    let (status, text) = ask(subject, "", "GET", Body::None)?;
    if status == 200 { Ok(()) } else { Err(Error::Status { what: "list buckets", status, text }) }
}

/// Makes `bucket`, and says whether it was not there before.
///
/// # Errors
/// It cannot be made.
pub fn make(subject: &Subject, bucket: &str) -> Result<bool, Error> {
    match ask(subject, bucket, "PUT", Body::Text(b""))? {
        (200, _) => Ok(true),
        (409, text) if text.contains("BucketAlreadyOwnedByYou") => Ok(false),
        (status, text) => Err(Error::Status { what: "make the bucket", status, text }),
    }
}

/// Removes `bucket`, which must be empty.
///
/// # Errors
/// It cannot be removed.
pub fn remove(subject: &Subject, bucket: &str) -> Result<(), Error> {
    match ask(subject, bucket, "DELETE", Body::None)? {
        (204, _) => Ok(()),
        (status, text) => Err(Error::Status { what: "remove the bucket", status, text }),
    }
}

fn ask(subject: &Subject, bucket: &str, method: &str, body: Body<'_>) -> Result<(u16, String), Error> {
    let mut stream = TcpStream::connect_timeout(&subject.address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut out = Outgoing::default();
    let mut requests = Requests::new(subject.credentials.clone(), &subject.host, bucket);
    requests.build(method, |_| {}, "", "", body, &mut out);
    // Nothing of an object is sent, so that nothing of the pool is needed.
    let payloads = Payloads::with_pool(0, 0);
    while !out.is_sent() {
        out.send(&mut stream, &payloads)?;
    }
    let (mut decoder, mut text, mut scratch) = (Decoder::default(), Vec::new(), vec![0; 16 << 10]);
    decoder.begin(false);
    loop {
        let length = stream.read(&mut scratch)?;
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
    let status = decoder.head().map(|head| head.status).unwrap_or_default();
    Ok((status, String::from_utf8_lossy(&text).into_owned()))
}
