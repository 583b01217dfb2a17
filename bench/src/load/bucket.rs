//! The few requests around a run: make the bucket, read an ETag, remove the bucket. One at a time.

use std::thread;
use std::time::{Duration, Instant};

use super::ask::{Error, TIMEOUT, ask_at};
use super::request::Body;
use super::response::Head;
use crate::subject::{Endpoint, Subject};

/// Between two questions to a node that does not take writes yet.
const POLL: Duration = Duration::from_millis(100);

/// Makes `bucket` through every node, and says whether it was not there before. A node that does not take
/// writes yet, as one that has just met its peers, is asked again.
///
/// # Errors
/// It cannot be made.
pub fn make(subject: &Subject, bucket: &str) -> Result<bool, Error> {
    let (begin, mut is_made) = (Instant::now(), false);
    for node in subject.endpoints() {
        loop {
            match ask_node(subject, node, [bucket, ""], "PUT", Body::Text(b""))? {
                (Head { status: 200, .. }, _) => is_made = true,
                (Head { status: 409, .. }, text) if text.contains("BucketAlreadyOwnedByYou") => {}
                (Head { status: 503, .. }, _) if begin.elapsed() < TIMEOUT => {
                    thread::park_timeout(POLL);
                    continue;
                }
                (Head { status, .. }, text) => {
                    return Err(Error::Status { what: "make the bucket", status, text });
                }
            }
            break;
        }
    }
    Ok(is_made)
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
    path: [&str; 2],
    method: &str,
    body: Body<'_>,
) -> Result<(Head, String), Error> {
    ask_at(node.address, &node.host, &subject.credentials, path, method, body)
}
