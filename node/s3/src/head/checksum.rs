//! Checksum headers of uploads -> what the store expects, and what it stored -> headers and XML. Values are
//! base64; that of a composite checksum ends with `-N`, the number of parts it is made of.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue};
use s3s::dto::{ChecksumAlgorithm as AlgorithmName, ChecksumType};
use sherd_core::record::{Checksum, ChecksumAlgorithm, ChecksumKind};

use crate::head::request_head::RequestHead;
use crate::wire::checksum::{DeclaredChecksum, of_name, of_whole};
pub(crate) use crate::wire::checksum::{header, kind_text, name};
use crate::wire::refusal::{Code, Refusal};

/// The checksum of the whole object that CompleteMultipartUpload announces, composite or not.
///
/// # Errors
/// InvalidRequest for a number of parts that an object cannot have.
pub(crate) fn announced_whole(declared: DeclaredChecksum) -> Result<Option<Checksum>, Refusal> {
    match declared {
        DeclaredChecksum { header: Some(algorithm), value: None, .. } => Err(bad_value(header(algorithm))),
        DeclaredChecksum { value, .. } => Ok(value),
    }
}

/// The algorithm that a request names (`x-amz-checksum-algorithm`), in any case.
///
/// # Errors
/// InvalidRequest for any other.
pub(crate) fn by_name(name: &str) -> Result<ChecksumAlgorithm, Refusal> {
    of_name(name).ok_or_else(|| {
        Refusal::says(Code::InvalidRequest, "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, \
             CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXHASH128, XXHASH3, XXHASH64]")
    })
}

/// The algorithm in `x-amz-checksum-algorithm`.
///
/// # Errors
/// InvalidRequest for any other.
pub(crate) fn algorithm_header(head: &RequestHead<'_>) -> Result<Option<ChecksumAlgorithm>, Refusal> {
    head.get("x-amz-checksum-algorithm").map(|value| by_name(value.to_str().unwrap_or("?"))).transpose()
}

/// The kind of checksum that `x-amz-checksum-type` names, in any case.
///
/// # Errors
/// InvalidRequest for any other.
pub(crate) fn kind_header(head: &RequestHead<'_>) -> Result<Option<ChecksumKind>, Refusal> {
    let Some(sent) = head.get("x-amz-checksum-type").map(HeaderValue::as_bytes) else { return Ok(None) };
    let kinds = [ChecksumKind::Composite, ChecksumKind::FullObject];
    let named = kinds.into_iter().find(|kind| sent.eq_ignore_ascii_case(kind_text(*kind).as_bytes()));
    named.map(Some).ok_or_else(|| bad_value("x-amz-checksum-type"))
}

/// Whether a read wants checksums answered.
pub(crate) fn are_wanted(head: &RequestHead<'_>) -> bool {
    head.get("x-amz-checksum-mode").is_some_and(|mode| mode == "ENABLED")
}

/// The checksum that an upload asks for: its algorithm, and what it covers.
///
/// # Errors
/// InvalidRequest for a kind without an algorithm, or one that the algorithm does not know.
pub(crate) fn of_upload(
    head: &RequestHead<'_>,
) -> Result<Option<(ChecksumAlgorithm, ChecksumKind)>, Refusal> {
    let kind = kind_header(head)?;
    let Some(algorithm) = algorithm_header(head)? else {
        return match kind {
            None => Ok(None),
            Some(_) => Err(Refusal::says(
                Code::InvalidRequest,
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
            )),
        };
    };
    // Only CRCs of parts can be joined to that of the whole.
    let refused = match algorithm {
        ChecksumAlgorithm::Crc64Nvme => Some(ChecksumKind::Composite),
        ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => None,
        ChecksumAlgorithm::Sha1
        | ChecksumAlgorithm::Sha256
        | ChecksumAlgorithm::Sha512
        | ChecksumAlgorithm::Md5
        | ChecksumAlgorithm::XxHash64
        | ChecksumAlgorithm::XxHash3
        | ChecksumAlgorithm::XxHash128 => Some(ChecksumKind::FullObject),
    };
    if kind.is_some() && kind == refused {
        return Err(Refusal::says(
            Code::InvalidRequest,
            format!(
                "The {} checksum type cannot be used with the {} checksum algorithm.",
                kind_text(refused.expect("compared equal to a kind")),
                name(algorithm).to_ascii_lowercase()
            ),
        ));
    }
    let default = match algorithm {
        ChecksumAlgorithm::Crc64Nvme => ChecksumKind::FullObject,
        _ => ChecksumKind::Composite,
    };
    Ok(Some((algorithm, kind.unwrap_or(default))))
}

/// The checksum of a part as CompleteMultipartUpload lists it.
///
/// # Errors
/// InvalidArgument for several, or for a malformed value, with the text that was sent.
pub(crate) fn of_listed_part(
    mut sent: Vec<(ChecksumAlgorithm, String)>,
) -> Result<Option<Checksum>, Refusal> {
    sent.sort_by_key(|(algorithm, _)| *algorithm as u8);
    let checksum = match sent.as_slice() {
        [] => return Ok(None),
        [(algorithm, value)] => of_whole(*algorithm, value.as_bytes()),
        _ => None,
    };
    checksum.map(Some).ok_or_else(|| {
        let sent: Vec<String> =
            sent.iter().map(|(algorithm, value)| format!("{}:{value};", name(*algorithm))).collect();
        Refusal::bad_argument(
            "Invalid Base64 or multiple checksums present in request",
            "Checksum",
            &sent.concat(),
        )
    })
}

fn bad_value(header: &str) -> Refusal {
    Refusal::says(Code::InvalidRequest, format!("Value for {header} header is invalid."))
}

/// A checksum as S3 writes it.
pub(crate) fn text(checksum: &Checksum) -> String {
    let value = STANDARD.encode(&checksum.value);
    match checksum.composite_of {
        Some(parts) => format!("{value}-{parts}"),
        None => value,
    }
}

/// The kind of an object's checksums, as S3 writes it.
pub(crate) fn type_of(checksums: &[Checksum]) -> Option<ChecksumType> {
    checksums.first().map(|checksum| ChecksumType::from_static(kind_text(checksum.kind())))
}

/// The algorithms of an object's checksums, for listings.
pub(crate) fn algorithm_names(checksums: &[Checksum]) -> Option<Vec<AlgorithmName>> {
    let names = checksums.iter().map(|checksum| AlgorithmName::from_static(name(checksum.algorithm)));
    (!checksums.is_empty()).then(|| names.collect())
}

/// Adds the headers of an object's checksums, and of what that of the whole covers: of a part of an object
/// with a composite checksum, S3 gives the part's own and says `COMPOSITE`.
pub(crate) fn add_headers(checksums: &[Checksum], kind: Option<ChecksumKind>, headers: &mut HeaderMap) {
    for checksum in checksums {
        let value =
            HeaderValue::try_from(text(checksum)).expect("base64, a hyphen and digits are a header value");
        headers.insert(header(checksum.algorithm), value);
    }
    if let Some(kind) = kind.filter(|_| !checksums.is_empty()) {
        headers.insert("x-amz-checksum-type", HeaderValue::from_static(kind_text(kind)));
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::record::ChecksumBytes;

    use super::*;
    use crate::head::columns::{ChecksumUse, Columns, Verb};
    use crate::head::feature;
    use crate::wire::address::Level;

    fn crc32() -> Checksum {
        let value = ChecksumBytes::from_slice(&[0; 4]);
        Checksum { algorithm: ChecksumAlgorithm::Crc32, composite_of: None, value }
    }

    #[test]
    fn a_whole_object_may_have_a_composite_checksum() {
        let whole = |value: &str| {
            let head = RequestHead::with(&[("x-amz-checksum-crc32", value)]);
            let columns = Columns::of("CompleteMultipartUpload", Verb::Post, Level::Object, &["uploadId"]);
            let columns = Columns { checksum: ChecksumUse::JoinedObject, ..columns };
            let declared = feature::check(&head, &columns, false)?;
            announced_whole(declared)
        };
        assert_eq!(whole("AAAAAA==").unwrap(), Some(crc32()));
        let composite = whole("AAAAAA==-3").unwrap().unwrap();
        assert_eq!(composite.composite_of, Some(3));
        assert_eq!(text(&composite), "AAAAAA==-3");
        for bad in ["AAAAAA==-", "AAAAAA==-0", "AAAAAA==-10001", "AAAAAA==-+3", "AAAA-1", "-1", ""] {
            let refused = whole(bad).expect_err(bad);
            assert_eq!(refused.message, "Value for x-amz-checksum-crc32 header is invalid.", "{bad}");
        }
    }

    #[test]
    fn uploads_ask_for_an_algorithm_and_a_kind_that_fit() {
        let asked = |pairs: &[(&'static str, &str)]| of_upload(&RequestHead::with(pairs));
        let algorithm = |name| ("x-amz-checksum-algorithm", name);
        let kind = |name| ("x-amz-checksum-type", name);
        assert_eq!(asked(&[]).unwrap(), None);
        let cases = [
            ("CRC32", None, ChecksumKind::Composite),
            ("SHA256", None, ChecksumKind::Composite),
            ("CRC64NVME", None, ChecksumKind::FullObject),
            ("crc32c", Some("FULL_OBJECT"), ChecksumKind::FullObject),
            ("SHA1", Some("COMPOSITE"), ChecksumKind::Composite),
            ("SHA1", Some("composite"), ChecksumKind::Composite),
            ("CRC32", Some("Full_Object"), ChecksumKind::FullObject),
            ("SHA512", None, ChecksumKind::Composite),
            ("MD5", None, ChecksumKind::Composite),
            ("xxhash64", None, ChecksumKind::Composite),
            ("XXHASH3", Some("COMPOSITE"), ChecksumKind::Composite),
            ("XXHASH128", None, ChecksumKind::Composite),
        ];
        for (name, asked_kind, expected) in cases {
            let mut pairs = vec![algorithm(name)];
            pairs.extend(asked_kind.map(kind));
            assert_eq!(asked(&pairs).unwrap(), Some((by_name(name).unwrap(), expected)), "{name}");
        }
        for pairs in [
            vec![algorithm("SHA1"), kind("FULL_OBJECT")],
            vec![algorithm("SHA256"), kind("FULL_OBJECT")],
            vec![algorithm("SHA512"), kind("FULL_OBJECT")],
            vec![algorithm("MD5"), kind("FULL_OBJECT")],
            vec![algorithm("XXHASH64"), kind("FULL_OBJECT")],
            vec![algorithm("XXHASH3"), kind("FULL_OBJECT")],
            vec![algorithm("XXHASH128"), kind("FULL_OBJECT")],
            vec![algorithm("CRC64NVME"), kind("COMPOSITE")],
            vec![kind("COMPOSITE")],
            vec![algorithm("CRC32"), kind("PARTIAL")],
            vec![algorithm("MD4")],
        ] {
            assert!(asked(&pairs).is_err(), "{pairs:?}");
        }
    }

    #[test]
    fn a_listed_part_has_one_checksum_at_most() {
        let sent = |algorithm| (algorithm, "AAAAAA==".to_owned());
        assert_eq!(of_listed_part(Vec::new()).unwrap(), None);
        assert_eq!(of_listed_part(vec![sent(ChecksumAlgorithm::Crc32)]).unwrap(), Some(crc32()));
        for (sent, argument) in [
            (
                vec![sent(ChecksumAlgorithm::Crc32c), sent(ChecksumAlgorithm::Crc32)],
                "CRC32:AAAAAA==;CRC32C:AAAAAA==;",
            ),
            (vec![sent(ChecksumAlgorithm::Sha1)], "SHA1:AAAAAA==;"),
        ] {
            let refused = of_listed_part(sent).unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument);
            let details = refused.details;
            assert!(details.contains(&("ArgumentValue", argument.to_owned())), "{details:?}");
        }
    }

    #[test]
    fn stored_checksums_come_back_as_headers() {
        let mut answer = HeaderMap::new();
        add_headers(&[crc32()], Some(ChecksumKind::FullObject), &mut answer);
        assert_eq!(answer.get("x-amz-checksum-crc32").unwrap(), "AAAAAA==");
        assert_eq!(answer.get("x-amz-checksum-type").unwrap(), "FULL_OBJECT");
        let composite = Checksum { composite_of: Some(2), ..crc32() };
        add_headers(&[composite], Some(ChecksumKind::Composite), &mut answer);
        assert_eq!(answer.get("x-amz-checksum-crc32").unwrap(), "AAAAAA==-2");
        assert_eq!(answer.get("x-amz-checksum-type").unwrap(), "COMPOSITE");
        add_headers(&[], None, &mut answer);
        assert_eq!(answer.len(), 2);
    }
}
