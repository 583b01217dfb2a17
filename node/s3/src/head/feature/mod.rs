//! `x-amz-*` headers: the table `HEADERS` says which are taken, which are ignored and which are refused.
//!
//! A write with a header that is not known is answered 501: ignoring it would answer 200 for bytes or
//! properties that were not stored. A read changes no stored byte, so there an unknown header is ignored,
//! as S3 ignores it: SDKs add headers to reads by default (`x-amz-te: append-md5`). One pass over the
//! headers does it all, weighs the user metadata on the way, and compares the owner that a bucket is
//! expected to have with the one there is.

use http::HeaderValue;
use s3s::dto::StorageClass;
use sherd_core::limits::METADATA_BYTES_MAX;
use sherd_core::record::{Checksum, ChecksumAlgorithm};

use crate::head::acl::{self, UnsupportedAcl};
use crate::head::columns::{ChecksumUse, Columns, Makes};
use crate::head::owner;
use crate::head::request_head::RequestHead;
use crate::wire::checksum::{self, DeclaredChecksum};
use crate::wire::refusal::{Code, Refusal};

fn not_implemented(name: &str) -> Refusal {
    Refusal::says(Code::NotImplemented, "A header you provided implies functionality that is not implemented")
        .with("Header", name)
}

/// Checks every `x-amz-*` header of a request for the operation of these columns, whose body is followed by a
/// trailer or not.
///
/// # Errors
/// [`Refusal`]: `NotImplemented` for features that are lacking, `MetadataTooLarge`, and
/// `InvalidRequest` for checksums that contradict each other.
pub(crate) fn check(
    head: &RequestHead<'_>,
    columns: &Columns,
    has_trailer: bool,
) -> Result<DeclaredChecksum, Refusal> {
    let mut declared = DeclaredChecksum::default();
    let mut metadata_bytes = 0;
    let mut asked = None;
    let is_read = columns.is_read();
    for (name, value) in head.lines() {
        let Some(rest) = name.as_str().strip_prefix("x-amz-") else { continue };
        if let Some(key) = rest.strip_prefix("meta-") {
            metadata_bytes += key.len() + value.len();
        } else if is_read && rest.starts_with("checksum-") {
            // A checksum of the body that a read does not have.
        } else if rest.starts_with("checksum-") && !is_about_checksums(rest) {
            let algorithm = checksum::of_header(name.as_str());
            let algorithm = algorithm.ok_or_else(|| not_implemented(name.as_str()))?;
            let value = value_of(algorithm, value, columns)?;
            if declared.header.replace(algorithm).is_some() {
                return Err(several_checksums());
            }
            declared.value = value;
        } else if rest == "trailer" {
            declared.trailer = Some(trailer(value)?);
        } else if rest == "sdk-checksum-algorithm" {
            asked = Some(value);
        } else if matches!(rest, "expected-bucket-owner" | "source-expected-bucket-owner") {
            check_owner(value)?;
        } else if rest == "account-id" && columns.is_of_account() {
            check_account(value)?;
        } else if head.lists() == UnsupportedAcl::Refuse || !acl::is_list(rest) {
            judge(rest, value, columns)?;
        }
    }
    if head.all("x-amz-trailer").iter().nth(1).is_some() {
        return Err(several_checksums());
    }
    if !has_trailer && declared.header.is_some() && declared.header == declared.trailer {
        // The SDK for Java announces a trailer over http that it does not send: the header has the checksum.
        declared.trailer = None;
    }
    if declared.header.is_some() && declared.trailer.is_some() {
        return Err(several_checksums());
    }
    if declared.trailer.is_some() && !has_trailer {
        return Err(Refusal::new(Code::MalformedTrailerError));
    }
    if !is_read {
        check_asked(asked, &declared, columns.checksum)?;
    }
    if metadata_bytes > METADATA_BYTES_MAX {
        return Err(Refusal::new(Code::MetadataTooLarge)
            .with("Size", metadata_bytes.to_string())
            .with("MaxSizeAllowed", METADATA_BYTES_MAX.to_string()));
    }
    Ok(declared)
}

fn several_checksums() -> Refusal {
    Refusal::says(
        Code::InvalidRequest,
        "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
    )
}

/// `x-amz-checksum-*` headers that carry no checksum.
fn is_about_checksums(rest: &str) -> bool {
    matches!(rest, "checksum-algorithm" | "checksum-mode" | "checksum-type")
}

/// The checksum in a header. That of a CompleteMultipartUpload is its object's; where it is one of parts, and
/// their number is wrong, there is `None`, and the operation refuses it.
fn value_of(
    algorithm: ChecksumAlgorithm,
    value: &HeaderValue,
    columns: &Columns,
) -> Result<Option<Checksum>, Refusal> {
    let value = value.as_bytes();
    let checksum = if columns.checksum == ChecksumUse::JoinedObject {
        // A composite checksum carries the number of its parts.
        let cut = value.iter().position(|byte| *byte == b'-').unwrap_or(value.len());
        checksum::has_shape(algorithm, value.split_at(cut).0).then(|| checksum::of_object(algorithm, value))
    } else {
        checksum::of_whole(algorithm, value).map(Some)
    };
    checksum.ok_or_else(|| {
        let message = format!("Value for {} header is invalid.", checksum::header(algorithm));
        Refusal::says(Code::InvalidRequest, message)
    })
}

fn trailer(value: &HeaderValue) -> Result<ChecksumAlgorithm, Refusal> {
    let name = value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
    checksum::of_header(&name).ok_or_else(|| {
        Refusal::says(
            Code::InvalidRequest,
            "The value specified in the x-amz-trailer header is not supported",
        )
    })
}

/// Checks that a checksum which the SDK says it made is there.
fn check_asked(
    asked: Option<&HeaderValue>,
    declared: &DeclaredChecksum,
    checksum: ChecksumUse,
) -> Result<(), Refusal> {
    let Some(asked) = asked.filter(|_| checksum != ChecksumUse::Wish) else { return Ok(()) };
    let found = declared.header.or(declared.trailer);
    match found {
        None if checksum == ChecksumUse::RequiredOfBody => Err(Refusal::says(
            Code::InvalidRequest,
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer \
             headers were found.",
        )),
        Some(algorithm) if !asked.as_bytes().eq_ignore_ascii_case(checksum::name(algorithm).as_bytes()) => {
            Err(Refusal::says(
                Code::InvalidRequest,
                "Value for x-amz-sdk-checksum-algorithm header is invalid.",
            ))
        }
        _ => Ok(()),
    }
}

/// Refuses a request for the buckets of an account that owns none here.
fn check_owner(expected: &HeaderValue) -> Result<(), Refusal> {
    let expected = String::from_utf8_lossy(expected.as_bytes());
    if expected.len() != owner::ACCOUNT.len() || !expected.bytes().all(|byte| byte.is_ascii_digit()) {
        let message = format!("{} [{expected}]", Code::InvalidBucketOwnerAWSAccountID.message());
        return Err(Refusal::says(Code::InvalidBucketOwnerAWSAccountID, message));
    }
    if expected == owner::ACCOUNT { Ok(()) } else { Err(Refusal::new(Code::AccessDenied)) }
}

/// Refuses a request about another account than the one there is.
fn check_account(account: &HeaderValue) -> Result<(), Refusal> {
    if account == owner::ACCOUNT { Ok(()) } else { Err(Refusal::new(Code::AccessDenied)) }
}

/// How a header is treated.
enum Treatment {
    /// Read by this layer or by the operations, or of no consequence.
    Taken,
    /// Read by the operations whose row names it. Other writes refuse it, and reads ignore it.
    TakenWhereNamed,
    /// Taken by writes with these values, which ask for no feature, and refused with any other; ignored by
    /// reads.
    WrittenAs(&'static [&'static str]),
    /// Taken or refused by writes, with an error of its own; ignored by reads.
    Judged(fn(&Columns, &HeaderValue) -> Result<(), Refusal>),
    /// Refused by reads and writes: it changes what a read is answered.
    Refused,
}

/// The treatment of each `x-amz-*` header, without that start; a name that ends in `*` stands for all that
/// begin so. Writes refuse a header that is not here with 501, reads ignore it. Beside it stand
/// `x-amz-meta-*`, `x-amz-checksum-*`, `x-amz-trailer` and the expected owners, which [`check`] reads itself.
const HEADERS: &[(&str, Treatment)] = &[
    ("date", Treatment::Taken),
    ("api-version", Treatment::Taken),
    ("content-sha256", Treatment::Taken),
    ("decoded-content-length", Treatment::Taken),
    ("checksum-algorithm", Treatment::Taken),
    ("checksum-mode", Treatment::Taken),
    ("checksum-type", Treatment::Taken),
    // Names the client's call, see `ClientCall`.
    ("client-token", Treatment::Taken),
    // The confirmation of a change that is never refused: root can always read, put and delete the policy.
    ("confirm-remove-self-bucket-access", Treatment::TakenWhereNamed),
    ("copy-source", Treatment::Taken),
    ("copy-source-if-match", Treatment::Taken),
    ("copy-source-if-none-match", Treatment::Taken),
    ("copy-source-if-modified-since", Treatment::Taken),
    ("copy-source-if-unmodified-since", Treatment::Taken),
    ("copy-source-range", Treatment::Taken),
    ("metadata-directive", Treatment::Taken),
    ("mp-object-size", Treatment::Taken),
    ("object-attributes", Treatment::Taken),
    ("max-parts", Treatment::Taken),
    ("part-number-marker", Treatment::Taken),
    ("optional-object-attributes", Treatment::Taken),
    ("request-payer", Treatment::Taken),
    // A destination that nothing is sent to needs no check.
    ("skip-destination-validation", Treatment::TakenWhereNamed),
    ("tagging", Treatment::TakenWhereNamed),
    ("tagging-directive", Treatment::Taken),
    ("website-redirect-location", Treatment::TakenWhereNamed),
    ("user-agent", Treatment::Taken),
    // Nothing is locked here, so there is nothing to bypass.
    ("bypass-governance-retention", Treatment::Taken),
    ("acl", Treatment::Judged(|columns, value| acl::canned(value, no_list(columns)))),
    ("grant-*", Treatment::Judged(|columns, _| Err(Refusal::new(no_list(columns))))),
    ("storage-class", Treatment::Judged(|_, value| storage_class(value.as_bytes()))),
    ("object-ownership", Treatment::Judged(|_, value| acl::ownership(value))),
    ("bucket-object-lock-enabled", Treatment::WrittenAs(&["false", "False", "FALSE"])),
    // With a customer's key a read is answered with other bytes, or with an error where nothing is encrypted.
    ("server-side-encryption*", Treatment::Refused),
];

/// The code for an access control list that gives access to others than the owner.
const fn no_list(columns: &Columns) -> Code {
    match columns.makes {
        Makes::Bucket => Code::InvalidBucketAclWithObjectOwnership,
        Makes::Nothing | Makes::Object => Code::AccessControlListNotSupported,
    }
}

/// Judges a header of a request, named without its `x-amz-`.
///
/// # Errors
/// NotImplemented, or the error of its own.
fn judge(rest: &str, value: &HeaderValue, columns: &Columns) -> Result<(), Refusal> {
    let row = HEADERS.iter().find(|(name, _)| match name.strip_suffix('*') {
        Some(start) => rest.starts_with(start),
        None => *name == rest,
    });
    let is_read = columns.is_read();
    let is_taken = match row {
        None => is_read,
        Some((_, Treatment::Taken)) => true,
        Some((name, Treatment::TakenWhereNamed)) => is_read || columns.takes.contains(name),
        Some((_, Treatment::WrittenAs(values))) => {
            is_read || values.iter().any(|taken| taken.as_bytes() == value.as_bytes())
        }
        Some((_, Treatment::Judged(judge))) => return if is_read { Ok(()) } else { judge(columns, value) },
        Some((_, Treatment::Refused)) => false,
    };
    if is_taken { Ok(()) } else { Err(not_implemented(&format!("x-amz-{rest}"))) }
}

/// Judges the storage class of a new object. There is one class.
///
/// # Errors
/// InvalidStorageClass for any other, also for one that AWS has: a client tries a 501 again.
pub(crate) fn storage_class(value: &[u8]) -> Result<(), Refusal> {
    if value == StorageClass::STANDARD.as_bytes() {
        return Ok(());
    }
    let asked = String::from_utf8_lossy(value);
    Err(Refusal::new(Code::InvalidStorageClass).with("StorageClassRequested", asked))
}

#[cfg(test)]
mod tests;
