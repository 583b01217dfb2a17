//! Objects: their heads, bytes, copies, tags and removal.

use std::collections::HashSet;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use md5::{Digest as _, Md5};
use sherd_signature::signer::{encode_path, encode_query};

use crate::checksum::{Checksum, ChecksumAlgorithm};
use crate::client::{Answer, Call, Client};
use crate::document::{self, DeleteResult, TagDocument, TaggedResult};
use crate::error::{Error, Refusal};
use crate::payload::{Meter, Payload};

/// Headers of an object that go with it from one service to another.
const CARRIED: [&str; 5] =
    ["content-type", "cache-control", "content-encoding", "content-disposition", "content-language"];
const METADATA: &str = "x-amz-meta-";

/// Headers and tags of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectAttributes {
    /// Headers, `content-type` and `x-amz-meta-...` among them, in lower case.
    pub headers: Vec<(String, String)>,
    /// Tags.
    pub tags: Vec<(String, String)>,
}

/// The head of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Bytes of the whole object.
    pub bytes: u64,
    /// The entity tag with its quotes.
    pub etag: String,
    /// The time at which it was stored, in whole seconds.
    pub modified: Option<SystemTime>,
    /// The checksum of the whole object, in Base64, of an algorithm that can be combined.
    pub checksum: Option<(ChecksumAlgorithm, String)>,
    /// The version; none in a bucket without versions.
    pub version: Option<String>,
    /// The storage class; none is `STANDARD`.
    pub storage_class: Option<String>,
    /// Headers that it was stored with.
    pub attributes: ObjectAttributes,
}

impl ObjectInfo {
    fn of(answer: &Answer) -> Option<Self> {
        let text = |name: &str| {
            let value = answer.headers().get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let of_range = text("content-range").and_then(|range| range.rsplit('/').next()?.parse().ok());
        let bytes = match of_range {
            Some(bytes) => bytes,
            None => text("content-length")?.parse().ok()?,
        };
        let is_whole = text("x-amz-checksum-type").is_none_or(|kind| kind == "FULL_OBJECT");
        let checksum = ChecksumAlgorithm::ALL.into_iter().find_map(|algorithm| {
            let value = text(algorithm.header()).filter(|value| is_whole && !value.contains('-'))?;
            Some((algorithm, value))
        });
        let is_carried = |name: &&str| CARRIED.contains(name) || name.starts_with(METADATA);
        let names = answer.headers().keys().map(http::HeaderName::as_str).filter(is_carried);
        let headers = names.filter_map(|name| Some((name.to_owned(), text(name)?))).collect();
        Some(Self {
            bytes,
            etag: text("etag")?,
            modified: text("last-modified").and_then(|date| httpdate::parse_http_date(&date).ok()),
            checksum,
            version: text("x-amz-version-id").filter(|version| version != "null"),
            storage_class: text("x-amz-storage-class"),
            attributes: ObjectAttributes { headers, tags: Vec::new() },
        })
    }
}

/// A range of one version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectRange {
    /// The first byte.
    pub(crate) offset: u64,
    /// Bytes; at least one.
    pub(crate) bytes: u64,
    /// The entity tag of the version.
    pub(crate) etag: String,
}

/// An object's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
}

impl ObjectName {
    /// Names an object.
    pub fn new(bucket: impl Into<String>, key: impl Into<String>) -> Self {
        Self { bucket: bucket.into(), key: key.into() }
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

/// An object that is to be copied within a service.
#[derive(Debug, Clone)]
pub(crate) struct CopySource<'a> {
    pub(crate) object: &'a ObjectName,
    /// The version that is meant.
    pub(crate) etag: &'a str,
}

impl CopySource<'_> {
    pub(crate) fn headers(&self, call: Call) -> Call {
        let ObjectName { bucket, key } = self.object;
        call.header("x-amz-copy-source", format!("/{}/{}", encode_path(bucket), encode_path(key)))
            .header("x-amz-copy-source-if-match", self.etag)
    }
}

/// A key that was not deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteRefusal {
    /// The key.
    pub key: String,
    /// Why.
    pub refusal: Refusal,
}

pub(crate) fn with_attributes(mut call: Call, attributes: &ObjectAttributes) -> Call {
    call.more_headers.extend(attributes.headers.iter().cloned());
    if !attributes.tags.is_empty() {
        let tags = attributes.tags.iter();
        let tags: Vec<_> =
            tags.map(|(key, value)| format!("{}={}", encode_query(key), encode_query(value))).collect();
        call = call.header("x-amz-tagging", tags.join("&"));
    }
    call
}

impl Client {
    /// Returns an object's head, its checksum among it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn head(&self, object: &ObjectName) -> Result<ObjectInfo, Error> {
        let call = Call::object(Method::HEAD, &object.bucket, &object.key);
        let answer = self.send(&call.header("x-amz-checksum-mode", "ENABLED")).await?;
        info(object, &answer)
    }

    /// Begins to read an object, or a range of one version of it.
    pub(crate) async fn get(
        &self,
        object: &ObjectName,
        range: Option<&ObjectRange>,
    ) -> Result<(ObjectInfo, Answer), Error> {
        let mut call = Call::object(Method::GET, &object.bucket, &object.key);
        call = match range {
            Some(ObjectRange { offset, bytes, etag }) => call
                .header("range", format!("bytes={offset}-{}", offset + bytes - 1))
                .header("if-match", etag.as_str()),
            None => call.header("x-amz-checksum-mode", "ENABLED"),
        };
        let answer = match self.send(&call).await {
            Err(Error::Refused { refusal, resource })
                if range.is_some() && matches!(refusal.status, 412 | 404) =>
            {
                return Err(Error::ObjectChanged { resource });
            }
            answer => answer?,
        };
        let info = info(object, &answer)?;
        match range {
            Some(range) if range.etag != info.etag => {
                Err(Error::ObjectChanged { resource: object.to_string() })
            }
            Some(range) if !is_range(&answer, range, info.bytes) => {
                Err(Error::Malformed { resource: object.to_string(), what: "another range was asked for" })
            }
            _ => Ok((info, answer)),
        }
    }

    /// Stores an object whose checksum is known. Returns its entity tag.
    pub(crate) async fn put(
        &self,
        object: &ObjectName,
        payload: Payload,
        checksum: Checksum,
        attributes: &ObjectAttributes,
        meter: &Meter,
    ) -> Result<String, Error> {
        let call = Call::object(Method::PUT, &object.bucket, &object.key).payload(payload);
        let mut call = with_attributes(call.header(checksum.algorithm.header(), checksum.text()), attributes);
        call.meter = meter.clone();
        let answer = self.send(&call).await?;
        Ok(etag(&answer))
    }

    /// Copies an object of at most 5 GiB within the service. Returns the entity tag.
    pub(crate) async fn copy(
        &self,
        source: &CopySource<'_>,
        object: &ObjectName,
        attributes: Option<&ObjectAttributes>,
    ) -> Result<String, Error> {
        let mut call = source.headers(Call::object(Method::PUT, &object.bucket, &object.key));
        if let Some(attributes) = attributes {
            call = with_attributes(call.header("x-amz-metadata-directive", "REPLACE"), attributes);
        }
        let body = self.document(&call).await?;
        let result: Option<TaggedResult> = document::read(&body);
        let malformed = || Error::Malformed {
            resource: object.to_string(),
            what: "the body is not the result of a copy",
        };
        Ok(result.ok_or_else(malformed)?.etag)
    }

    /// Removes an object; one that is not there counts as removed.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete(&self, object: &ObjectName) -> Result<(), Error> {
        self.document(&Call::object(Method::DELETE, &object.bucket, &object.key)).await.map(drop)
    }

    /// Removes an object if it still is this version; one that is not there counts as removed.
    ///
    /// # Errors
    /// [`Error::ObjectChanged`] for another version, where the service has conditional deletes.
    pub(crate) async fn delete_unchanged(&self, object: &ObjectName, etag: &str) -> Result<(), Error> {
        let call = Call::object(Method::DELETE, &object.bucket, &object.key).header("if-match", etag);
        match self.document(&call).await {
            Err(Error::Refused { refusal, .. }) if refusal.status == 404 => Ok(()),
            Err(error) => Err(changed(error, object)),
            Ok(_) => Ok(()),
        }
    }

    /// Removes up to 1,000 objects of a bucket, and returns those that were not.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<DeleteRefusal>, Error> {
        let body = document::delete_body(keys.iter().map(String::as_str));
        let digest = STANDARD.encode(Md5::digest(&body));
        let call = Call::bucket(Method::POST, bucket).query("delete", "").header("content-md5", digest);
        let answer = self.document(&call.payload(Payload::Bytes(body))).await?;
        let result: Option<DeleteResult> = document::read(&answer);
        let malformed = |what| Error::Malformed { resource: format!("s3://{bucket}"), what };
        let result = result.ok_or_else(|| malformed("the body is not the result of deletes"))?;
        // A fault whose key differs from what was sent leaves open which object is still there.
        let asked: HashSet<&str> = keys.iter().map(String::as_str).collect();
        if result.error.iter().any(|fault| !asked.contains(fault.key.as_str())) {
            return Err(malformed("it names keys that were not to be deleted"));
        }
        let fault = |fault: document::DeleteFault| DeleteRefusal {
            key: fault.key,
            refusal: Refusal {
                status: 200,
                code: fault.code,
                message: fault.message,
                request_id: String::new(),
            },
        };
        Ok(result.error.into_iter().map(fault).collect())
    }

    /// Returns the tags of an object.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn tags(&self, object: &ObjectName) -> Result<Vec<(String, String)>, Error> {
        let call = Call::object(Method::GET, &object.bucket, &object.key).query("tagging", "");
        let body = self.document(&call).await?;
        let tagging: Option<TagDocument> = document::read(&body);
        let malformed = || Error::Malformed { resource: object.to_string(), what: "these are no tags" };
        let tags = tagging.ok_or_else(malformed)?.tag_set.tag;
        Ok(tags.into_iter().map(|tag| (tag.key, tag.value)).collect())
    }

    /// Replaces the tags of an object; without tags, removes them.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn put_tags(&self, object: &ObjectName, tags: &[(String, String)]) -> Result<(), Error> {
        let method = if tags.is_empty() { Method::DELETE } else { Method::PUT };
        let call = Call::object(method, &object.bucket, &object.key).query("tagging", "");
        let body = if tags.is_empty() { bytes::Bytes::new() } else { document::tagging_body(tags) };
        let call = call.header("content-md5", STANDARD.encode(Md5::digest(&body)));
        self.document(&call.payload(Payload::Bytes(body))).await.map(drop)
    }
}

fn info(object: &ObjectName, answer: &Answer) -> Result<ObjectInfo, Error> {
    let malformed =
        || Error::Malformed { resource: object.to_string(), what: "an object's length or ETag is missing" };
    ObjectInfo::of(answer).ok_or_else(malformed)
}

/// Whether an answer has the bytes that were asked for, of an object of `bytes`.
fn is_range(answer: &Answer, range: &ObjectRange, bytes: u64) -> bool {
    if answer.status() != http::StatusCode::PARTIAL_CONTENT {
        return range.offset == 0 && range.bytes == bytes;
    }
    let text = answer.headers().get("content-range").and_then(|value| value.to_str().ok());
    let ends = text.and_then(|text| text.strip_prefix("bytes ")?.split('/').next()?.split_once('-'));
    let [first, last] = [range.offset, range.offset + range.bytes - 1].map(|end| end.to_string());
    ends == Some((first.as_str(), last.as_str()))
}

pub(crate) fn etag(answer: &Answer) -> String {
    let value = answer.headers().get("etag");
    value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

/// The error of a request that asks for one version of an object.
pub(crate) fn changed(error: Error, object: &ObjectName) -> Error {
    match error {
        Error::Refused { refusal, .. } if refusal.status == 412 => {
            Error::ObjectChanged { resource: object.to_string() }
        }
        error => error,
    }
}
