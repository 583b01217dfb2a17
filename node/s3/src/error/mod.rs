//! The one match from the store's errors to S3's codes, messages and headers.
//!
//! Messages are AWS's where AWS has them. What AWS adds to the XML of some errors (the size behind
//! InvalidRange, the condition behind PreconditionFailed) has no place in an s3s error, so it
//! travels in one private header, [`DETAILS`], which the protocol layer turns into elements.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_LOCATION, CONTENT_RANGE, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED, RETRY_AFTER, VARY,
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use s3s::{S3Error, S3ErrorCode, S3Request};
use sherd_core::record::Attributes;

use super::header::{attributes, timestamp};
use super::names;
use super::protocol::checksum;
use crate::protocol::context::{RequestContext, RequestId};
use sherd_store::machine::quantity::Period;
use sherd_store::object::{BodyError, Error, Invalid, MissingResource, UnavailableReason};

/// Carries details of an error to the protocol layer, which takes it off the answer: pairs
/// `Name=value`, values percent-encoded, joined by `&`.
pub(super) const DETAILS: HeaderName = HeaderName::from_static("x-sherd-error-details");

/// Seconds after which a client may try again when the node is overloaded or volumes are missing.
const RETRY_SECONDS: u16 = 1;

/// Takes the details of an error off the headers of its answer: XML element names and texts.
pub(super) fn take_details(headers: &mut HeaderMap) -> Vec<(String, String)> {
    let Some(value) = headers.remove(DETAILS) else { return Vec::new() };
    let pairs = value.to_str().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, text)| (name.to_owned(), percent_decode_str(text).decode_utf8_lossy().into_owned()))
        .collect()
}

/// An operation failed: in the store, or before it came there.
#[derive(Debug)]
pub(super) enum Failure {
    /// In the store.
    Store(Error),
    /// Before: the request asks for what S3 refuses.
    Request(S3Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<S3Error> for Failure {
    fn from(error: S3Error) -> Self {
        Self::Request(error)
    }
}

/// What operations return.
pub(super) type Outcome<T> = Result<T, Failure>;

/// The id of a request, for the log; `None` when the request never passed the protocol layer.
pub(super) fn request_id<T>(request: &S3Request<T>) -> Option<RequestId> {
    RequestContext::of(&request.extensions).map(|context| context.request_id)
}

/// An operation's failure as S3 answers it.
pub(super) fn answer(release_grace: Duration, request_id: Option<RequestId>, failure: Failure) -> S3Error {
    match failure {
        Failure::Request(error) => error,
        Failure::Store(error) => logged(release_grace, request_id, error),
    }
}

/// The store's error as S3 says it; what broke inside goes to the log.
pub(super) fn logged(release_grace: Duration, request_id: Option<RequestId>, error: Error) -> S3Error {
    if let Error::Internal { what } = &error {
        tracing::error!(
            request_id = request_id.map(tracing::field::display),
            what,
            "request failed by an internal error"
        );
    }
    to_s3(error, release_grace)
}

/// The store's error as S3 says it; `release_grace` is how long the space of deleted objects stays taken.
fn to_s3(error: Error, release_grace: Duration) -> S3Error {
    let internal = "We encountered an internal error. Please try again.";
    match error {
        Error::Missing(missing) => of_missing(missing),
        Error::Invalid(invalid) => of_invalid(invalid),
        Error::Body(body) => of_body(body),
        Error::PreconditionFailed { header } => Builder::new(
            S3ErrorCode::PreconditionFailed,
            "At least one of the pre-conditions you specified did not hold",
        )
        .detail("Condition", &header)
        .build(),
        Error::NotModified { etag, modified_ms, attributes } => not_modified(&etag, modified_ms, &attributes),
        Error::BucketAlreadyOwnedByYou => S3Error::with_message(
            S3ErrorCode::BucketAlreadyOwnedByYou,
            "Your previous request to create the named bucket succeeded and you already own it.",
        ),
        Error::BucketNotEmpty => {
            S3Error::with_message(S3ErrorCode::BucketNotEmpty, "The bucket you tried to delete is not empty")
        }
        Error::BucketBusy => S3Error::with_message(
            S3ErrorCode::OperationAborted,
            "A conflicting conditional operation is currently in progress against this resource. Please try again.",
        ),
        Error::Unavailable(unavailable) => of_unavailable(unavailable),
        Error::Full => custom(
            "InsufficientStorage",
            StatusCode::INSUFFICIENT_STORAGE,
            format!(
                "There is no space left for new data. Objects can still be read and deleted; the space of deleted \
                 objects comes back after {}.",
                Period(release_grace)
            ),
        ),
        // Never 503, which promises that nothing changed. SDKs try again after either.
        Error::OutcomeUnknown => S3Error::with_message(
            S3ErrorCode::InternalError,
            "The result of this request is unknown: it may have taken effect or not. Read before you try again.",
        ),
        Error::Internal { what: _ } => S3Error::with_message(S3ErrorCode::InternalError, internal),
    }
}

fn of_missing(missing: MissingResource) -> S3Error {
    match missing {
        MissingResource::Bucket => {
            S3Error::with_message(S3ErrorCode::NoSuchBucket, "The specified bucket does not exist")
        }
        MissingResource::Key => {
            S3Error::with_message(S3ErrorCode::NoSuchKey, "The specified key does not exist.")
        }
        MissingResource::Version => {
            S3Error::with_message(S3ErrorCode::NoSuchVersion, "The specified version does not exist.")
        }
        MissingResource::Upload => names::no_such_upload(),
    }
}

/// What is wrong with a request, as S3 says it.
pub(super) fn of_invalid(invalid: Invalid) -> S3Error {
    match invalid {
        Invalid::Range { size } => {
            let range = HeaderValue::try_from(format!("bytes */{size}")).expect("digits are a header value");
            Builder::new(S3ErrorCode::InvalidRange, "The requested range is not satisfiable")
                .detail("ActualObjectSize", &size)
                .header(CONTENT_RANGE, range)
                .build()
        }
        Invalid::PartNumber => custom(
            "InvalidPartNumber",
            StatusCode::RANGE_NOT_SATISFIABLE,
            "The requested partnumber is not satisfiable",
        ),
        Invalid::Part { number, etag } => Builder::new(
            S3ErrorCode::InvalidPart,
            "One or more of the specified parts could not be found.  The part may not have been uploaded, or \
             the specified entity tag may not match the part's entity tag.",
        )
        .detail("PartNumber", &number)
        .detail("ETag", &etag)
        .build(),
        Invalid::PartChecksumMissing { .. }
        | Invalid::PartChecksumAlgorithm { .. }
        | Invalid::ChecksumKind { .. }
        | Invalid::ObjectSize { .. } => {
            S3Error::with_message(S3ErrorCode::InvalidRequest, mismatch_text(&invalid))
        }
        Invalid::PartOrder => S3Error::with_message(
            S3ErrorCode::InvalidPartOrder,
            "The list of parts was not in ascending order. Parts must be ordered by part number.",
        ),
        Invalid::PartTooSmall { number, size, etag } => Builder::new(
            S3ErrorCode::EntityTooSmall,
            "Your proposed upload is smaller than the minimum allowed size",
        )
        .detail("ETag", &etag)
        .detail("MinSizeAllowed", &sherd_core::limits::PART_BYTES_MIN)
        .detail("ProposedSize", &size)
        .detail("PartNumber", &number)
        .build(),
        Invalid::TooLarge { size, max } => {
            Builder::new(S3ErrorCode::EntityTooLarge, "Your proposed upload exceeds the maximum allowed size")
                .detail("ProposedSize", &size)
                .detail("MaxSizeAllowed", &max)
                .build()
        }
        Invalid::TooManyUploads => S3Error::with_message(
            S3ErrorCode::InvalidRequest,
            "Too many multipart uploads are open on this key. Complete or abort some of them.",
        ),
        Invalid::CopyOntoItself => S3Error::with_message(
            S3ErrorCode::InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing the \
             object's metadata, storage class, website redirect location or encryption attributes.",
        ),
        Invalid::BucketName => {
            S3Error::with_message(S3ErrorCode::InvalidBucketName, "The specified bucket is not valid.")
        }
        Invalid::Argument { name } => Builder::new(S3ErrorCode::InvalidArgument, "Invalid Argument")
            .detail("ArgumentName", &name)
            .build(),
    }
}

/// What S3 says of a part or a Complete that does not fit its upload.
fn mismatch_text(invalid: &Invalid) -> String {
    let lower = |algorithm| checksum::name(algorithm).to_ascii_lowercase();
    match invalid {
        Invalid::PartChecksumMissing { number, algorithm } => format!(
            "The upload was created using a {} checksum. The complete request must include the checksum for each \
             part. It was missing for part {number} in the request.",
            lower(*algorithm)
        ),
        Invalid::PartChecksumAlgorithm { expected, actual } => format!(
            "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
            lower(*expected),
            actual.map_or_else(|| "null".to_owned(), lower)
        ),
        Invalid::ChecksumKind { upload } => format!(
            "The upload was created using the {} checksum mode. The complete request must use the same checksum mode.",
            upload.map_or("null", checksum::kind_text)
        ),
        Invalid::ObjectSize { announced, computed } => format!(
            "The provided 'x-amz-mp-object-size' header value {announced} does not match what was computed: {computed}"
        ),
        other => other.to_string(),
    }
}

fn of_body(body: BodyError) -> S3Error {
    match body {
        BodyError::BadDigest => S3Error::with_message(
            S3ErrorCode::BadDigest,
            "The Content-MD5 you specified did not match what we received.",
        ),
        BodyError::ChecksumMismatch(algorithm) => S3Error::with_message(
            S3ErrorCode::BadDigest,
            format!("The {} you specified did not match the calculated checksum.", checksum::name(algorithm)),
        ),
        BodyError::WholeChecksumMismatch(algorithm) => S3Error::with_message(
            S3ErrorCode::BadDigest,
            format!(
                "The {} you specified did not match the calculated checksum.",
                checksum::name(algorithm).to_ascii_lowercase()
            ),
        ),
        BodyError::Length { expected, got } if got < expected => incomplete_body(),
        BodyError::Length { .. } => S3Error::with_message(
            S3ErrorCode::UnexpectedContent,
            "The body has more bytes than the Content-Length HTTP header specified",
        ),
        BodyError::Stream(source) => of_stream(source),
    }
}

/// What was wrong with the body the protocol layer knows better, and answers instead of this.
fn of_stream(source: Box<dyn std::error::Error + Send + Sync>) -> S3Error {
    match source.downcast::<S3Error>() {
        Ok(error) => *error,
        Err(source) => {
            let mut error = incomplete_body();
            error.set_source(source);
            error
        }
    }
}

fn incomplete_body() -> S3Error {
    S3Error::with_message(
        S3ErrorCode::IncompleteBody,
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
    )
}

fn of_unavailable(unavailable: UnavailableReason) -> S3Error {
    let (code, message) = match unavailable {
        UnavailableReason::Quorum => {
            (S3ErrorCode::SlowDown, "Too few volumes can be reached. Please try again.")
        }
        UnavailableReason::Data => (
            S3ErrorCode::ServiceUnavailable,
            "Too few shards of the object can be reached. Please try again.",
        ),
        UnavailableReason::Overloaded => (S3ErrorCode::SlowDown, "Please reduce your request rate."),
        UnavailableReason::ListsBusy => {
            (S3ErrorCode::SlowDown, "Too many lists are under way. Please reduce your rate of list requests.")
        }
        UnavailableReason::Sealed => {
            (S3ErrorCode::ServiceUnavailable, "A deletion of the bucket is under way. Please try again.")
        }
    };
    Builder::new(code, message).retry_later().build()
}

/// 304, with what a cache needs to keep its copy: the headers of a 200 that RFC 9110, section 15.4.5, lists.
fn not_modified(etag: &str, modified_ms: u64, stored: &Attributes) -> S3Error {
    let mut builder = Builder::new(S3ErrorCode::NotModified, "Not Modified");
    let mut stored = attributes::to_headers(stored, 0);
    for name in [CACHE_CONTROL, EXPIRES, VARY, CONTENT_LOCATION] {
        if let Some(value) = stored.remove(&name) {
            builder = builder.header(name, value);
        }
    }
    if let Ok(etag) = HeaderValue::try_from(format!("\"{etag}\"")) {
        builder = builder.header(ETAG, etag);
    }
    builder.header(LAST_MODIFIED, timestamp::in_header(modified_ms)).build()
}

/// Says that a bucket has no configuration of some kind.
pub(super) fn not_configured(
    code: &'static str,
    status: StatusCode,
    message: &'static str,
    bucket: &str,
) -> S3Error {
    Builder { error: custom(code, status, message), headers: HeaderMap::new(), details: String::new() }
        .detail("BucketName", &bucket)
        .build()
}

/// An argument that is none, with its name and what was sent.
pub(super) fn bad_argument(message: &'static str, name: &str, value: &str) -> S3Error {
    Builder::new(S3ErrorCode::InvalidArgument, message)
        .detail("ArgumentName", &name)
        .detail("ArgumentValue", &value)
        .build()
}

/// An error whose code s3s does not know, or with another status.
fn custom(code: &'static str, status: StatusCode, message: impl Into<Cow<'static, str>>) -> S3Error {
    let code = S3ErrorCode::from_bytes(code.as_bytes()).expect("codes are UTF-8");
    let mut error = S3Error::with_message(code, message);
    error.set_status_code(status);
    error
}

/// An error with headers.
struct Builder {
    error: S3Error,
    headers: HeaderMap,
    details: String,
}

impl Builder {
    fn new(code: S3ErrorCode, message: &'static str) -> Self {
        let error = S3Error::with_message(code, message);
        Self { error, headers: HeaderMap::new(), details: String::new() }
    }

    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    fn detail(mut self, name: &'static str, text: &dyn std::fmt::Display) -> Self {
        let text = text.to_string();
        let separator = if self.details.is_empty() { "" } else { "&" };
        write!(self.details, "{separator}{name}={}", utf8_percent_encode(&text, NON_ALPHANUMERIC))
            .expect("writing to a string never fails");
        self
    }

    fn retry_later(self) -> Self {
        self.header(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
    }

    fn build(mut self) -> S3Error {
        if !self.details.is_empty() {
            let details =
                HeaderValue::try_from(self.details).expect("percent-encoded text is a header value");
            self.headers.insert(DETAILS, details);
        }
        if !self.headers.is_empty() {
            // s3s drops its own headers for ours, the content type with them.
            if self.error.code() != &S3ErrorCode::NotModified {
                self.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
            }
            self.error.set_headers(self.headers);
        }
        self.error
    }
}

#[cfg(test)]
mod tests;
