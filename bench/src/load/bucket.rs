//! The few requests around a run, one at a time: make the bucket, remove the bucket.

use std::thread;
use std::time::Instant;

use crate::client::ask::{Error, ask_at};
use crate::client::request::Body;
use crate::client::response::Head;
use crate::limits::{ASK_TIMEOUT, BUCKET_POLL};
use crate::subject::{Endpoint, Subject};

/// Makes `bucket` through every node; true when it was not there before. A node that answers 503, as one that
/// is still connecting to its peers does, is asked again.
///
/// # Errors
/// It cannot be made.
pub fn make(subject: &Subject, bucket: &str) -> Result<bool, Error> {
    let (begin, mut is_made) = (Instant::now(), false);
    for node in subject.endpoints() {
        loop {
            match ask(subject, node, bucket, "PUT", Body::Text(b""))? {
                (Head { status: 200, .. }, _) => is_made = true,
                (Head { status: 409, .. }, text) if text.contains("BucketAlreadyOwnedByYou") => {}
                (Head { status: 503, .. }, _) if begin.elapsed() < ASK_TIMEOUT => {
                    thread::park_timeout(BUCKET_POLL);
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
    match ask(subject, &subject.endpoint, bucket, "DELETE", Body::None)? {
        (Head { status: 204, .. }, _) => Ok(()),
        (Head { status, .. }, text) => Err(Error::Status { what: "remove the bucket", status, text }),
    }
}

fn ask(
    subject: &Subject,
    node: &Endpoint,
    bucket: &str,
    method: &str,
    body: Body<'_>,
) -> Result<(Head, String), Error> {
    ask_at((node.address, &node.host), node.tls.as_ref(), &subject.credentials, bucket, method, body)
}
