//! The checksums that S3 has beside MD5, as a request and its answer name them: the one table of
//! names and headers, the shape of a value, and its computation over a body that is at hand.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use s3s::dto::ChecksumType;
use sherd_core::limits::PARTS_MAX;
use sherd_core::record::{Checksum, ChecksumAlgorithm, ChecksumKind};

use sherd_store::object;

/// An algorithm, AWS's name of it, the header or trailer of its checksum, and the element of a document.
type AlgorithmRow = (ChecksumAlgorithm, &'static str, &'static str, &'static str);

/// Every algorithm.
pub const ALGORITHMS: [AlgorithmRow; 10] = [
    (ChecksumAlgorithm::Crc32, "CRC32", "x-amz-checksum-crc32", "ChecksumCRC32"),
    (ChecksumAlgorithm::Crc32c, "CRC32C", "x-amz-checksum-crc32c", "ChecksumCRC32C"),
    (ChecksumAlgorithm::Crc64Nvme, "CRC64NVME", "x-amz-checksum-crc64nvme", "ChecksumCRC64NVME"),
    (ChecksumAlgorithm::Sha1, "SHA1", "x-amz-checksum-sha1", "ChecksumSHA1"),
    (ChecksumAlgorithm::Sha256, "SHA256", "x-amz-checksum-sha256", "ChecksumSHA256"),
    (ChecksumAlgorithm::Sha512, "SHA512", "x-amz-checksum-sha512", "ChecksumSHA512"),
    (ChecksumAlgorithm::Md5, "MD5", "x-amz-checksum-md5", "ChecksumMD5"),
    (ChecksumAlgorithm::XxHash64, "XXHASH64", "x-amz-checksum-xxhash64", "ChecksumXXHASH64"),
    (ChecksumAlgorithm::XxHash3, "XXHASH3", "x-amz-checksum-xxhash3", "ChecksumXXHASH3"),
    (ChecksumAlgorithm::XxHash128, "XXHASH128", "x-amz-checksum-xxhash128", "ChecksumXXHASH128"),
];

/// The body's checksum as the headers declare it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredChecksum {
    /// The algorithm whose value stands in a header.
    pub header: Option<ChecksumAlgorithm>,
    /// The value in the header: of all bytes of the body, and in a CompleteMultipartUpload of the object, all
    /// of it or its parts'. `None` where the number of those parts is wrong.
    pub value: Option<Checksum>,
    /// The algorithm whose value follows in the trailer.
    pub trailer: Option<ChecksumAlgorithm>,
}

fn row(algorithm: ChecksumAlgorithm) -> &'static AlgorithmRow {
    ALGORITHMS.iter().find(|known| known.0 == algorithm).expect("the table names every algorithm")
}

/// AWS's name of an algorithm, as headers, XML and messages spell it.
pub fn name(algorithm: ChecksumAlgorithm) -> &'static str {
    row(algorithm).1
}

/// AWS's name of what an object's checksum covers.
pub fn kind_text(kind: ChecksumKind) -> &'static str {
    match kind {
        ChecksumKind::Composite => ChecksumType::COMPOSITE,
        ChecksumKind::FullObject => ChecksumType::FULL_OBJECT,
    }
}

/// The header or trailer that carries an algorithm's checksum.
pub fn header(algorithm: ChecksumAlgorithm) -> &'static str {
    row(algorithm).2
}

/// The algorithm of that name, in any case.
pub fn of_name(name: &str) -> Option<ChecksumAlgorithm> {
    ALGORITHMS.iter().find(|known| known.1.eq_ignore_ascii_case(name)).map(|known| known.0)
}

/// The algorithm whose header has this name, in lower case.
pub fn of_header(header: &str) -> Option<ChecksumAlgorithm> {
    ALGORITHMS.iter().find(|known| known.2 == header).map(|known| known.0)
}

/// The algorithm whose checksum an element of this name has.
pub(crate) fn of_element(element: &[u8]) -> Option<ChecksumAlgorithm> {
    ALGORITHMS.iter().find(|known| known.3.as_bytes() == element).map(|known| known.0)
}

/// The bytes of a checksum in base64; nothing when it has not the shape of its algorithm.
pub fn decoded(algorithm: ChecksumAlgorithm, value: &[u8]) -> Option<Vec<u8>> {
    // A value of the wrong length is not decoded, however long it is.
    let fits = value.len() == algorithm.bytes().div_ceil(3) * 4;
    let bytes = if fits { STANDARD.decode(value).ok()? } else { return None };
    (bytes.len() == algorithm.bytes()).then_some(bytes)
}

/// The checksum of a whole body; nothing when its value has not the shape of its algorithm.
pub fn of_whole(algorithm: ChecksumAlgorithm, value: &[u8]) -> Option<Checksum> {
    Some(Checksum { algorithm, composite_of: None, value: decoded(algorithm, value)?.into() })
}

/// A checksum over all bytes of an object, or over its parts' checksums: then it ends with `-N`, the number
/// of parts.
pub fn of_object(algorithm: ChecksumAlgorithm, value: &[u8]) -> Option<Checksum> {
    // Standard base64 has no hyphen, so the suffix is unambiguous.
    let Some(cut) = value.iter().position(|byte| *byte == b'-') else { return of_whole(algorithm, value) };
    let (value, parts) = value.split_at(cut);
    let parts = str::from_utf8(parts.get(1..)?).ok()?;
    let digits = !parts.is_empty() && parts.bytes().all(|byte| byte.is_ascii_digit());
    let parts = parts.parse().ok().filter(|parts| digits && (1..=PARTS_MAX).contains(parts))?;
    Some(Checksum { composite_of: Some(parts), ..of_whole(algorithm, value)? })
}

/// Whether a value has the shape of an algorithm's checksum: base64 of its number of bytes.
pub fn has_shape(algorithm: ChecksumAlgorithm, value: &[u8]) -> bool {
    decoded(algorithm, value).is_some()
}

/// Computes the checksum of `body` in base64.
pub fn of(algorithm: ChecksumAlgorithm, body: &[u8]) -> String {
    STANDARD.encode(object::checksum(algorithm, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_the_check_text_are_the_published_ones() {
        for (algorithm, expected) in [
            (ChecksumAlgorithm::Crc32, "y/Q5Jg=="),
            (ChecksumAlgorithm::Crc32c, "4waSgw=="),
            (ChecksumAlgorithm::Crc64Nvme, "rosUhgp5mIg="),
            (ChecksumAlgorithm::Sha1, "98O8HYCOBHMq32eZZczDTKeuNEE="),
        ] {
            let value = of(algorithm, b"123456789");
            assert!(has_shape(algorithm, value.as_bytes()), "{value}");
            assert_eq!(value, expected, "{algorithm:?}");
        }
        assert_eq!(of(ChecksumAlgorithm::Sha256, b""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[test]
    fn shapes_are_exact() {
        for (value, fits) in
            [("y/Q5Jg==", true), ("y/Q5Jg", false), ("y/Q5Jgo=", false), ("????", false), ("", false)]
        {
            assert_eq!(has_shape(ChecksumAlgorithm::Crc32, value.as_bytes()), fits, "{value}");
        }
        for algorithm in ChecksumAlgorithm::ALL {
            let fitting = |bytes| has_shape(algorithm, STANDARD.encode(vec![0; bytes]).as_bytes());
            let bytes = algorithm.bytes();
            assert_eq!((fitting(bytes - 1), fitting(bytes), fitting(bytes + 1)), (false, true, false));
        }
    }

    #[test]
    fn every_algorithm_is_found_by_its_names() {
        assert_eq!(ALGORITHMS.map(|known| known.0), ChecksumAlgorithm::ALL);
        for (algorithm, of, carried, element) in ALGORITHMS {
            assert_eq!((name(algorithm), header(algorithm)), (of, carried));
            assert_eq!(carried, format!("x-amz-checksum-{}", of.to_ascii_lowercase()));
            assert_eq!(element, format!("Checksum{of}"));
            assert_eq!(of_element(element.as_bytes()), Some(algorithm));
            assert_eq!(of_name(&of.to_ascii_lowercase()), Some(algorithm));
            assert_eq!(of_header(carried), Some(algorithm));
        }
        assert_eq!((of_name("MD4"), of_header("X-Amz-Checksum-Crc32")), (None, None));
        assert_eq!(of_element(b"checksumCRC32"), None);
    }
}
