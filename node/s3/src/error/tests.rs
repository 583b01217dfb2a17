//! Every variant of the store's errors, and what S3 says for it.

use sherd_core::record::ChecksumAlgorithm::{self, Crc32, Sha256};
use sherd_core::record::ChecksumKind;

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
            | Invalid::PartChecksumMissing { .. }
            | Invalid::ChecksumAlgorithm { .. }
            | Invalid::ChecksumKind { .. }
            | Invalid::ObjectSize { .. }
            | Invalid::TooLarge { .. }
            | Invalid::TooManyUploads
            | Invalid::ReservedTag { .. }
            | Invalid::CopyOntoItself
            | Invalid::BucketName
            | Invalid::Argument { .. },
        )
        | Error::Body(
            BodyError::BadDigest { .. }
            | BodyError::ChecksumMismatch(_)
            | BodyError::WholeChecksumMismatch(_)
            | BodyError::Length { .. }
            | BodyError::Stream(_),
        )
        | Error::PreconditionFailed { .. }
        | Error::TagsChanged
        | Error::NotModified { .. }
        | Error::BucketAlreadyOwnedByYou
        | Error::BucketNotEmpty
        | Error::BucketReserved
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
        (Invalid::Part { number: 2, etag: etag() }.into(), "InvalidPart", 400),
        (Invalid::PartOrder.into(), "InvalidPartOrder", 400),
        (Invalid::PartTooSmall { number: 1, size: 9, etag: etag() }.into(), "EntityTooSmall", 400),
        (Invalid::TooLarge { size: 9, max: 5 }.into(), "EntityTooLarge", 400),
        (Invalid::PartChecksumMissing { number: 1, algorithm: Sha256 }.into(), "InvalidRequest", 400),
        (Invalid::ChecksumAlgorithm { expected: Some(Sha256), actual: None }.into(), "InvalidRequest", 400),
        (Invalid::ChecksumKind { upload: Some(ChecksumKind::Composite) }.into(), "InvalidRequest", 400),
        (Invalid::ObjectSize { announced: 1, computed: 2 }.into(), "InvalidRequest", 400),
        (Invalid::TooManyUploads.into(), "InvalidRequest", 400),
        (Invalid::ReservedTag { key: "k".to_owned(), is_removed: true }.into(), "InvalidTag", 400),
        (Invalid::CopyOntoItself.into(), "InvalidRequest", 400),
        (Invalid::BucketName.into(), "InvalidBucketName", 400),
        (Invalid::Argument { name: "max-keys" }.into(), "InvalidArgument", 400),
        (BodyError::BadDigest { expected: [0; 16], computed: [1; 16] }.into(), "BadDigest", 400),
        (BodyError::ChecksumMismatch(ChecksumAlgorithm::Crc32c).into(), "BadDigest", 400),
        (BodyError::WholeChecksumMismatch(Sha256).into(), "BadDigest", 400),
        (BodyError::Length { expected: 2, got: 1 }.into(), "IncompleteBody", 400),
        (BodyError::Length { expected: 1, got: 2 }.into(), "UnexpectedContent", 400),
        (BodyError::Stream(lost()).into(), "IncompleteBody", 400),
        (Error::PreconditionFailed { header: "If-Match" }, "PreconditionFailed", 412),
        (
            Error::NotModified { etag: etag(), modified_ms: 0, attributes: Attributes::default() },
            "NotModified",
            304,
        ),
        (Error::BucketAlreadyOwnedByYou, "BucketAlreadyOwnedByYou", 409),
        (Error::TagsChanged, "ServiceUnavailable", 503),
        (Error::BucketNotEmpty, "BucketNotEmpty", 409),
        (Error::BucketReserved, "AccessDenied", 403),
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
        let answer = super::refusal(error, GRACE);
        assert_eq!((answer.code.name(), answer.code.status().as_u16()), (code, status), "{said}");
        assert!(!answer.message.is_empty(), "{said}");
    }
}

fn headers(error: Error) -> HeaderMap {
    super::refusal(error, GRACE).headers.into_iter().collect()
}

#[test]
fn an_invalid_range_says_how_large_the_object_is() {
    let refusal = super::refusal(Invalid::Range { size: 1234 }.into(), GRACE);
    assert_eq!(refusal.headers, [(CONTENT_RANGE, HeaderValue::from_static("bytes */1234"))]);
    assert_eq!(refusal.details, [("ActualObjectSize", "1234".to_owned())]);
}

#[test]
fn not_modified_carries_what_a_cache_keeps() {
    let pairs =
        [("content-type", "a/b"), ("cache-control", "max-age=9"), ("expires", "soon"), ("x-amz-meta-a", "1")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let headers = headers(Error::NotModified {
        etag: "0123".to_owned(),
        modified_ms: 784_111_777_999,
        attributes: Attributes { pairs },
    });
    assert_eq!(headers.get(ETAG).unwrap(), "\"0123\"");
    assert_eq!(headers.get(LAST_MODIFIED).unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(headers.get(CACHE_CONTROL).unwrap(), "max-age=9");
    assert_eq!(headers.get(EXPIRES).unwrap(), "soon");
    assert_eq!(headers.len(), 4, "what describes the bytes stays with them");
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
    let answer = super::refusal(Error::OutcomeUnknown, GRACE);
    assert_eq!(answer.code.status(), 500);
    assert!(answer.message.contains("unknown"));
    assert!(!headers(Error::OutcomeUnknown).contains_key(RETRY_AFTER));
}

#[test]
fn a_checksum_that_differs_is_named() {
    let answer = super::refusal(BodyError::ChecksumMismatch(ChecksumAlgorithm::Crc64Nvme).into(), GRACE);
    assert_eq!(answer.message, "The CRC64NVME you specified did not match the calculated checksum.");
}

/// The sentences are AWS's.
#[test]
fn what_does_not_fit_an_upload_is_said_in_the_words_of_s3() {
    let said = |invalid: Invalid| super::refusal(invalid.into(), GRACE).message;
    assert_eq!(
        said(Invalid::PartChecksumMissing { number: 1, algorithm: Sha256 }),
        "The upload was created using a sha256 checksum. The complete request must include the checksum for each part. \
         It was missing for part 1 in the request."
    );
    assert_eq!(
        said(Invalid::ChecksumAlgorithm { expected: Some(Sha256), actual: Some(Crc32) }),
        "Checksum Type mismatch occurred, expected checksum Type: sha256, actual checksum Type: crc32"
    );
    assert_eq!(
        said(Invalid::ChecksumAlgorithm { expected: Some(Crc32), actual: None }),
        "Checksum Type mismatch occurred, expected checksum Type: crc32, actual checksum Type: null"
    );
    assert_eq!(
        said(Invalid::ChecksumKind { upload: Some(ChecksumKind::FullObject) }),
        "The upload was created using the FULL_OBJECT checksum mode. The complete request must use the same checksum \
         mode."
    );
    assert_eq!(
        said(Invalid::ObjectSize { announced: 1, computed: 2 }),
        "The provided 'x-amz-mp-object-size' header value 1 does not match what was computed: 2"
    );
    let whole = super::refusal(BodyError::WholeChecksumMismatch(Crc32).into(), GRACE);
    assert_eq!(whole.message, "The crc32 you specified did not match the calculated checksum.");
}

#[test]
fn what_broke_inside_stays_inside() {
    let answer = super::refusal(Error::Internal { what: "a secret place".to_owned() }, GRACE);
    assert!(!answer.message.contains("secret"));
}

#[test]
fn an_operation_fails_with_its_own_answer_or_with_the_stores() {
    let id = RequestId::from_u64(1);
    let refused = answer(GRACE, id, Copies::Nothing, Refusal::new(Code::InvalidTag).into());
    assert_eq!(refused.code, Code::InvalidTag);
    let failed = answer(GRACE, id, Copies::Nothing, Failure::Store(Error::Full));
    assert_eq!(failed.code, Code::InsufficientStorage);
}

#[test]
fn a_copy_fails_by_its_source() {
    let said = |copies, error: Error| answer(GRACE, RequestId::from_u64(1), copies, error.into()).code;
    for copies in [Copies::Object, Copies::Part] {
        let error =
            Error::NotModified { etag: String::new(), modified_ms: 0, attributes: Attributes::default() };
        assert_eq!(said(copies, error), Code::PreconditionFailed);
        assert_eq!(said(copies, Invalid::TooLarge { size: 2, max: 1 }.into()), Code::InvalidRequest);
        assert_eq!(said(copies, Error::Full), Code::InsufficientStorage);
    }
    let range = || Error::from(Invalid::Range { size: 5 });
    assert_eq!(said(Copies::Object, range()), Code::InvalidRange);
    assert_eq!(said(Copies::Part, range()), Code::InvalidArgument);
}
