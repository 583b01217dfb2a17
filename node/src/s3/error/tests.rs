//! Every variant of the store's errors, and what S3 says for it.

use sherd_core::record::ChecksumAlgorithm;

use super::*;

const GRACE: Duration = Duration::from_mins(10);

/// Fails to compile when a variant is added, so that the table below is looked at again.
fn is_in_the_table(error: &Error) {
    match error {
        Error::Missing(
            MissingResource::Bucket
            | MissingResource::Key
            | MissingResource::Version
            | MissingResource::Upload,
        )
        | Error::Invalid(
            Invalid::Range { .. }
            | Invalid::PartNumber
            | Invalid::Part { .. }
            | Invalid::PartOrder
            | Invalid::PartTooSmall { .. }
            | Invalid::TooLarge { .. }
            | Invalid::TooManyUploads
            | Invalid::CopyOntoItself
            | Invalid::BucketName
            | Invalid::Argument { .. },
        )
        | Error::Body(
            BodyError::BadDigest
            | BodyError::ChecksumMismatch(_)
            | BodyError::Length { .. }
            | BodyError::Stream(_),
        )
        | Error::PreconditionFailed { .. }
        | Error::NotModified { .. }
        | Error::BucketAlreadyOwnedByYou
        | Error::BucketNotEmpty
        | Error::BucketBusy
        | Error::Unavailable(
            UnavailableReason::Quorum
            | UnavailableReason::Data
            | UnavailableReason::Overloaded
            | UnavailableReason::ListsBusy
            | UnavailableReason::Sealed,
        )
        | Error::Full
        | Error::OutcomeUnknown
        | Error::Internal { .. } => {}
    }
}

fn table() -> Vec<(Error, &'static str, u16)> {
    let etag = || "0123".to_owned();
    let lost = || Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
    vec![
        (MissingResource::Bucket.into(), "NoSuchBucket", 404),
        (MissingResource::Key.into(), "NoSuchKey", 404),
        (MissingResource::Version.into(), "NoSuchVersion", 404),
        (MissingResource::Upload.into(), "NoSuchUpload", 404),
        (Invalid::Range { size: 7 }.into(), "InvalidRange", 416),
        (Invalid::PartNumber.into(), "InvalidPartNumber", 416),
        (Invalid::Part { number: 2 }.into(), "InvalidPart", 400),
        (Invalid::PartOrder.into(), "InvalidPartOrder", 400),
        (Invalid::PartTooSmall { number: 1, size: 9, etag: etag() }.into(), "EntityTooSmall", 400),
        (Invalid::TooLarge { size: 9, max: 5 }.into(), "EntityTooLarge", 400),
        (Invalid::TooManyUploads.into(), "InvalidRequest", 400),
        (Invalid::CopyOntoItself.into(), "InvalidRequest", 400),
        (Invalid::BucketName.into(), "InvalidBucketName", 400),
        (Invalid::Argument { name: "max-keys" }.into(), "InvalidArgument", 400),
        (BodyError::BadDigest.into(), "BadDigest", 400),
        (BodyError::ChecksumMismatch(ChecksumAlgorithm::Crc32c).into(), "BadDigest", 400),
        (BodyError::Length { expected: 2, got: 1 }.into(), "IncompleteBody", 400),
        (BodyError::Length { expected: 1, got: 2 }.into(), "UnexpectedContent", 400),
        (BodyError::Stream(lost()).into(), "IncompleteBody", 400),
        (Error::PreconditionFailed { header: "If-Match" }, "PreconditionFailed", 412),
        (Error::NotModified { etag: etag(), modified_ms: 0 }, "NotModified", 304),
        (Error::BucketAlreadyOwnedByYou, "BucketAlreadyOwnedByYou", 409),
        (Error::BucketNotEmpty, "BucketNotEmpty", 409),
        (Error::BucketBusy, "OperationAborted", 409),
        (UnavailableReason::Quorum.into(), "SlowDown", 503),
        (UnavailableReason::Data.into(), "ServiceUnavailable", 503),
        (UnavailableReason::Overloaded.into(), "SlowDown", 503),
        (UnavailableReason::ListsBusy.into(), "SlowDown", 503),
        (UnavailableReason::Sealed.into(), "ServiceUnavailable", 503),
        (Error::Full, "InsufficientStorage", 507),
        (Error::OutcomeUnknown, "InternalError", 500),
        (Error::Internal { what: "a secret place".to_owned() }, "InternalError", 500),
    ]
}

#[test]
fn every_error_has_its_code_and_status() {
    for (error, code, status) in table() {
        is_in_the_table(&error);
        let said = error.to_string();
        let answer = to_s3(error, GRACE);
        assert_eq!(answer.code().as_str(), code, "{said}");
        assert_eq!(answer.status_code().map(|status| status.as_u16()), Some(status), "{said}");
        assert!(answer.message().is_some_and(|message| !message.is_empty()), "{said}");
    }
}

fn headers(error: Error) -> HeaderMap {
    to_s3(error, GRACE).headers().cloned().unwrap_or_default()
}

#[test]
fn an_invalid_range_says_how_large_the_object_is() {
    let mut headers = headers(Invalid::Range { size: 1234 }.into());
    assert_eq!(headers.get(CONTENT_RANGE).unwrap(), "bytes */1234");
    assert_eq!(take_details(&mut headers), [("ActualObjectSize".to_owned(), "1234".to_owned())]);
    assert!(!headers.contains_key(DETAILS));
    assert_eq!(headers.get("content-type").unwrap(), "application/xml");
}

#[test]
fn details_survive_any_text() {
    let mut headers =
        headers(Invalid::PartTooSmall { number: 3, size: 1, etag: "a&b=c%\u{e4}".to_owned() }.into());
    let details = take_details(&mut headers);
    assert_eq!(details.len(), 4);
    assert_eq!(details.first(), Some(&("ETag".to_owned(), "a&b=c%\u{e4}".to_owned())));
    assert!(take_details(&mut headers).is_empty());
}

#[test]
fn not_modified_carries_what_a_cache_keeps() {
    let headers = headers(Error::NotModified { etag: "0123".to_owned(), modified_ms: 784_111_777_999 });
    assert_eq!(headers.get(ETAG).unwrap(), "\"0123\"");
    assert_eq!(headers.get(LAST_MODIFIED).unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(headers.len(), 2);
}

#[test]
fn whoever_may_try_again_is_told_when() {
    for unavailable in [
        UnavailableReason::Overloaded,
        UnavailableReason::ListsBusy,
        UnavailableReason::Quorum,
        UnavailableReason::Data,
        UnavailableReason::Sealed,
    ] {
        assert_eq!(headers(unavailable.into()).get(RETRY_AFTER).unwrap(), "1");
    }
    assert!(!headers(Error::Full).contains_key(RETRY_AFTER));
}

#[test]
fn an_unknown_outcome_is_never_called_unavailable() {
    let answer = to_s3(Error::OutcomeUnknown, GRACE);
    assert_eq!(answer.status_code().map(|status| status.as_u16()), Some(500));
    assert!(answer.message().unwrap().contains("unknown"));
    assert!(!headers(Error::OutcomeUnknown).contains_key(RETRY_AFTER));
}

#[test]
fn an_answer_of_the_protocol_layer_passes_through() {
    let source = S3Error::new(S3ErrorCode::SignatureDoesNotMatch);
    let answer = to_s3(BodyError::Stream(Box::new(source)).into(), GRACE);
    assert_eq!(answer.code(), &S3ErrorCode::SignatureDoesNotMatch);
}

#[test]
fn a_checksum_that_differs_is_named() {
    let answer = to_s3(BodyError::ChecksumMismatch(ChecksumAlgorithm::Crc64Nvme).into(), GRACE);
    assert_eq!(answer.message(), Some("The CRC64NVME you specified did not match the calculated checksum."));
}

#[test]
fn what_broke_inside_stays_inside() {
    let answer = to_s3(Error::Internal { what: "a secret place".to_owned() }, GRACE);
    assert!(!answer.message().unwrap().contains("secret"));
    assert!(answer.source().is_none());
}

#[test]
fn an_operation_fails_with_its_own_answer_or_with_the_stores() {
    let refused = answer(GRACE, None, S3Error::new(S3ErrorCode::InvalidTag).into());
    assert_eq!(refused.code(), &S3ErrorCode::InvalidTag);
    let failed = answer(GRACE, None, Failure::Store(Error::Full));
    assert_eq!(failed.code().as_str(), "InsufficientStorage");
}
