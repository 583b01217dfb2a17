//! The one match from the store's errors to S3's codes, messages and headers. Messages are AWS's where AWS
//! has them.

use std::time::Duration;

use http::header::{
    CACHE_CONTROL, CONTENT_LOCATION, CONTENT_RANGE, ETAG, EXPIRES, HeaderMap, HeaderValue, LAST_MODIFIED,
    RETRY_AFTER, VARY,
};
use sherd_core::limits::{PART_BYTES_MIN, PUT_BYTES_MAX};
use sherd_core::record::Attributes;

use crate::answer::Failure;
use crate::head::columns::Copies;
use crate::head::{attributes, names, tagging, timestamp};
use crate::wire::checksum;
use crate::wire::context::RequestId;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::machine::quantity::Period;
use sherd_store::object::{BodyError, Error, Invalid, MissingResource, UnavailableReason};

/// Seconds after which a client may try again when the node is overloaded or volumes are missing.
const RETRY_SECONDS: u16 = 1;

/// The form of an error of the store that an operation with a source has.
fn of_copy(copies: Copies, error: Error) -> Failure {
    match (copies, error) {
        (Copies::Part, Error::Invalid(Invalid::Range { size })) => {
            let message = format!("Range specified is not valid for source object of size: {size}");
            Refusal::says(Code::InvalidArgument, message).into()
        }
        (Copies::Object | Copies::Part, Error::NotModified { .. }) => {
            Error::PreconditionFailed { header: "x-amz-copy-source-If-None-Match" }.into()
        }
        (Copies::Object | Copies::Part, Error::Invalid(Invalid::TooLarge { .. })) => {
            let message = format!(
                "The specified copy source is larger than the maximum allowable size for a copy source: \
                 {PUT_BYTES_MAX}"
            );
            Refusal::says(Code::InvalidRequest, message).into()
        }
        (_, error) => error.into(),
    }
}

/// An operation's failure as S3 answers it.
pub(super) fn answer(
    release_grace: Duration,
    request_id: RequestId,
    copies: Copies,
    failure: Failure,
) -> Refusal {
    let failure = match failure {
        Failure::Request(refusal) => return refusal,
        Failure::Store(error) => of_copy(copies, error),
    };
    match failure {
        Failure::Request(refusal) => refusal,
        Failure::Store(error) => logged(release_grace, request_id, error),
    }
}

/// The store's error as S3 says it; what broke inside goes to the log.
pub(super) fn logged(release_grace: Duration, request_id: RequestId, error: Error) -> Refusal {
    if let Error::Internal { what } = &error {
        tracing::error!(%request_id, what, "request failed by an internal error");
    }
    refusal(error, release_grace)
}

/// The store's error as S3 says it; `release_grace` is how long the space of deleted objects stays taken.
pub(super) fn refusal(error: Error, release_grace: Duration) -> Refusal {
    match error {
        Error::Missing(missing) => of_missing(missing),
        Error::Invalid(invalid) => of_invalid(invalid),
        Error::Body(body) => of_body(&body),
        Error::PreconditionFailed { header } => {
            Refusal::new(Code::PreconditionFailed).with("Condition", header)
        }
        Error::TagsChanged => Refusal::new(Code::ServiceUnavailable),
        Error::NotModified { etag, modified_ms, attributes } => not_modified(&etag, modified_ms, &attributes),
        Error::BucketAlreadyOwnedByYou => Refusal::new(Code::BucketAlreadyOwnedByYou),
        Error::BucketNotEmpty => Refusal::new(Code::BucketNotEmpty),
        Error::BucketReserved => Refusal::new(Code::AccessDenied),
        Error::BucketBusy => Refusal::new(Code::OperationAborted),
        Error::Unavailable(unavailable) => of_unavailable(unavailable),
        Error::Full => Refusal::says(
            Code::InsufficientStorage,
            format!(
                "There is no space left for new data. Objects can still be read and deleted; the space of deleted \
                 objects comes back after {}.",
                Period(release_grace)
            ),
        ),
        // Never 503, which promises that nothing changed. SDKs try again after either.
        Error::OutcomeUnknown => Refusal::says(
            Code::InternalError,
            "The result of this request is unknown: it may have taken effect or not. Read before you try again.",
        ),
        Error::Internal { what: _ } => Refusal::new(Code::InternalError),
    }
}

fn of_missing(missing: MissingResource) -> Refusal {
    match missing {
        MissingResource::Bucket => Refusal::new(Code::NoSuchBucket),
        MissingResource::Key => Refusal::new(Code::NoSuchKey),
        MissingResource::Version => Refusal::new(Code::NoSuchVersion),
        MissingResource::Upload => names::no_such_upload(),
    }
}

/// The fault of a request, as S3 says it.
pub(super) fn of_invalid(invalid: Invalid) -> Refusal {
    match invalid {
        Invalid::Range { size } => {
            let range = HeaderValue::try_from(format!("bytes */{size}")).expect("digits are a header value");
            Refusal::new(Code::InvalidRange)
                .with("ActualObjectSize", size.to_string())
                .with_header(CONTENT_RANGE, range)
        }
        Invalid::PartNumber => Refusal::new(Code::InvalidPartNumber),
        Invalid::Part { number, etag } => {
            Refusal::new(Code::InvalidPart).with("PartNumber", number.to_string()).with("ETag", etag)
        }
        Invalid::PartChecksumMissing { .. }
        | Invalid::ChecksumAlgorithm { .. }
        | Invalid::ChecksumKind { .. }
        | Invalid::ObjectSize { .. } => Refusal::says(Code::InvalidRequest, mismatch_text(&invalid)),
        Invalid::PartOrder => Refusal::new(Code::InvalidPartOrder),
        Invalid::PartTooSmall { number, size, etag } => Refusal::new(Code::EntityTooSmall)
            .with("ETag", etag)
            .with("MinSizeAllowed", PART_BYTES_MIN.to_string())
            .with("ProposedSize", size.to_string())
            .with("PartNumber", number.to_string()),
        Invalid::TooLarge { size, max } => Refusal::new(Code::EntityTooLarge)
            .with("ProposedSize", size.to_string())
            .with("MaxSizeAllowed", max.to_string()),
        Invalid::TooManyUploads => Refusal::says(
            Code::InvalidRequest,
            "Too many multipart uploads are open on this key. Complete or abort some of them.",
        ),
        Invalid::ReservedTag { key, is_removed } => tagging::reserved(&key, is_removed),
        Invalid::CopyOntoItself => Refusal::says(
            Code::InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing the \
             object's metadata, storage class, website redirect location or encryption attributes.",
        ),
        Invalid::BucketName => Refusal::new(Code::InvalidBucketName),
        Invalid::Argument { name } => Refusal::new(Code::InvalidArgument).with("ArgumentName", name),
    }
}

/// The refusal of a part or a Complete that does not fit its upload.
fn mismatch_text(invalid: &Invalid) -> String {
    let lower = |algorithm| checksum::name(algorithm).to_ascii_lowercase();
    match invalid {
        Invalid::PartChecksumMissing { number, algorithm } => format!(
            "The upload was created using a {} checksum. The complete request must include the checksum for each \
             part. It was missing for part {number} in the request.",
            lower(*algorithm)
        ),
        Invalid::ChecksumAlgorithm { expected, actual } => {
            let [expected, actual] =
                [expected, actual].map(|algorithm| algorithm.map_or_else(|| "null".to_owned(), lower));
            format!(
                "Checksum Type mismatch occurred, expected checksum Type: {expected}, actual checksum Type: {actual}"
            )
        }
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

fn of_body(body: &BodyError) -> Refusal {
    let mismatch = |name: &str| {
        let message = format!("The {name} you specified did not match the calculated checksum.");
        Refusal::says(Code::BadDigest, message)
    };
    match body {
        BodyError::BadDigest { expected, computed } => Refusal::bad_md5(expected, computed),
        BodyError::ChecksumMismatch(algorithm) => mismatch(checksum::name(*algorithm)),
        BodyError::WholeChecksumMismatch(algorithm) => {
            mismatch(&checksum::name(*algorithm).to_ascii_lowercase())
        }
        BodyError::Length { expected, got } if got >= expected => Refusal::new(Code::UnexpectedContent),
        // The protocol layer answers instead where the bytes of the body are wrong.
        BodyError::Length { .. } | BodyError::Stream(_) => Refusal::says(
            Code::IncompleteBody,
            "You did not provide the number of bytes specified by the Content-Length HTTP header",
        ),
    }
}

fn of_unavailable(unavailable: UnavailableReason) -> Refusal {
    let (code, message) = match unavailable {
        UnavailableReason::Quorum => (Code::SlowDown, "Too few volumes can be reached. Please try again."),
        UnavailableReason::Data => {
            (Code::ServiceUnavailable, "Too few shards of the object can be reached. Please try again.")
        }
        UnavailableReason::Overloaded => (Code::SlowDown, "Please reduce your request rate."),
        UnavailableReason::ListsBusy => {
            (Code::SlowDown, "Too many lists are under way. Please reduce your rate of list requests.")
        }
        UnavailableReason::Sealed => {
            (Code::ServiceUnavailable, "A deletion of the bucket is under way. Please try again.")
        }
    };
    Refusal::says(code, message).with_header(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
}

/// 304, with what a cache needs to keep its copy: the headers of a 200 that RFC 9110, section 15.4.5, lists.
fn not_modified(etag: &str, modified_ms: u64, stored: &Attributes) -> Refusal {
    let mut refusal = Refusal::new(Code::NotModified);
    let mut headers = HeaderMap::new();
    attributes::add_headers(stored, &mut headers);
    for name in [CACHE_CONTROL, EXPIRES, VARY, CONTENT_LOCATION] {
        if let Some(value) = headers.remove(&name) {
            refusal = refusal.with_header(name, value);
        }
    }
    if let Ok(etag) = HeaderValue::try_from(format!("\"{etag}\"")) {
        refusal = refusal.with_header(ETAG, etag);
    }
    refusal.with_header(LAST_MODIFIED, timestamp::in_header(modified_ms))
}

/// Says that a bucket has no configuration of some kind.
pub(super) fn not_configured(code: Code, bucket: &str) -> Refusal {
    Refusal::new(code).with("BucketName", bucket)
}

#[cfg(test)]
mod tests;
