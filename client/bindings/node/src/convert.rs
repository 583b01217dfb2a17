//! Values of the library as values of JavaScript.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use sherd_client::s3::buckets::BucketEntry;
use sherd_client::service::many::ReadObject;
use sherd_client::{DeleteRefusal, Error, ListEntry, ObjectAttributes, ObjectInfo};

/// The head of an object.
#[napi(object)]
pub struct Head {
    /// Bytes of the whole object.
    pub bytes: i64,
    /// The entity tag.
    pub etag: String,
    /// Milliseconds since 1970.
    pub modified: Option<f64>,
    /// The algorithm of the checksum.
    pub checksum_algorithm: Option<String>,
    /// The checksum in Base64.
    pub checksum: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// The storage class.
    pub storage_class: Option<String>,
    /// Headers that it was stored with.
    pub headers: HashMap<String, String>,
}

impl From<ObjectInfo> for Head {
    fn from(info: ObjectInfo) -> Self {
        let ObjectInfo { bytes, etag, modified, checksum, version, storage_class, attributes } = info;
        let (checksum_algorithm, checksum) =
            checksum.map(|(algorithm, value)| (algorithm.name().to_owned(), value)).unzip();
        Self {
            bytes: number(bytes),
            etag,
            modified: modified.and_then(milliseconds),
            checksum_algorithm,
            checksum,
            version,
            storage_class,
            headers: attributes.headers.into_iter().collect(),
        }
    }
}

/// A line of a list: an object, or a prefix.
#[napi(object)]
pub struct Line {
    /// The key or prefix.
    pub key: String,
    /// Bytes; none of a prefix.
    pub bytes: Option<i64>,
    /// Milliseconds since 1970.
    pub modified: Option<f64>,
    /// The entity tag.
    pub etag: Option<String>,
    /// The storage class.
    pub storage_class: Option<String>,
}

impl From<ListEntry> for Line {
    fn from(entry: ListEntry) -> Self {
        match entry {
            ListEntry::Object(object) => Self {
                key: object.key,
                bytes: Some(number(object.bytes)),
                modified: object.modified.and_then(milliseconds),
                etag: Some(object.etag),
                storage_class: object.storage_class,
            },
            ListEntry::Prefix(key) => {
                Self { key, bytes: None, modified: None, etag: None, storage_class: None }
            }
        }
    }
}

/// A bucket of a list.
#[napi(object)]
pub struct BucketLine {
    /// The name.
    pub name: String,
    /// Milliseconds since 1970.
    pub created: Option<f64>,
}

impl From<BucketEntry> for BucketLine {
    fn from(bucket: BucketEntry) -> Self {
        Self { name: bucket.name, created: bucket.created.and_then(milliseconds) }
    }
}

/// A key that was not deleted.
#[napi(object)]
pub struct Refusal {
    /// The key.
    pub key: String,
    /// The service's word.
    pub code: String,
    /// The service's words.
    pub message: String,
}

impl From<DeleteRefusal> for Refusal {
    fn from(refused: DeleteRefusal) -> Self {
        Self { key: refused.key, code: refused.refusal.code, message: refused.refusal.message }
    }
}

/// An object of many: its key, and its bytes or why they could not be read.
#[napi(object)]
pub struct Sample {
    /// The key.
    pub key: String,
    /// The bytes.
    pub data: Option<Buffer>,
    /// The failure, as of a promise.
    pub failure: Option<String>,
}

impl From<ReadObject> for Sample {
    fn from((key, read): ReadObject) -> Self {
        match read {
            Ok(bytes) => Self { key, data: Some(buffer(bytes)), failure: None },
            Err(error) => Self { key, data: None, failure: Some(failure_text(&error)) },
        }
    }
}

/// Headers and tags of an object.
#[napi(object)]
pub struct Attributes {
    /// Headers, with names in lower case.
    pub headers: HashMap<String, String>,
    /// Tags.
    pub tags: HashMap<String, String>,
}

impl From<Attributes> for ObjectAttributes {
    fn from(given: Attributes) -> Self {
        Self { headers: given.headers.into_iter().collect(), tags: given.tags.into_iter().collect() }
    }
}

/// A number of bytes; JavaScript's are exact up to 2^53.
pub(crate) fn number(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn milliseconds(time: SystemTime) -> Option<f64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64() * 1000.0)
}

/// A number from JavaScript, which `index.js` has checked to be a whole one.
pub(crate) fn size(count: i64) -> napi::Result<u64> {
    u64::try_from(count).map_err(|_| refused("a number is below 0"))
}

/// A buffer of JavaScript, of the same memory where nothing else holds it.
pub(crate) fn buffer(bytes: Bytes) -> Buffer {
    Buffer::from(Vec::from(bytes))
}

/// The error as `index.js` reads it.
pub(crate) fn failed(error: &Error) -> napi::Error {
    napi::Error::from_reason(failure_text(error))
}

/// A failure as JSON, in the place of words.
fn failure_text(error: &Error) -> String {
    let refusal = match error {
        Error::Refused { refusal, .. } => Some(refusal),
        _ => None,
    };
    let errno = match error {
        Error::File { source, .. } => source.raw_os_error(),
        _ => None,
    };
    let failure = serde_json::json!({
        "kind": error.kind(),
        "message": error.to_string(),
        "status": refusal.map(|refusal| refusal.status),
        "code": refusal.map(|refusal| &refusal.code),
        "requestId": refusal.map(|refusal| &refusal.request_id),
        "errno": errno,
    });
    failure.to_string()
}

/// The error of an option that cannot be.
pub(crate) fn refused(message: &str) -> napi::Error {
    napi::Error::from_reason(serde_json::json!({ "kind": "plan", "message": message }).to_string())
}
