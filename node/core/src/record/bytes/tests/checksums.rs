//! The numbers and lengths of the checksum algorithms, wherever a value or a page has one.

use super::*;

/// Number, bytes of a value.
const STORED: [(ChecksumAlgorithm, u8, usize); 10] = [
    (ChecksumAlgorithm::Crc32, 1, 4),
    (ChecksumAlgorithm::Crc32c, 2, 4),
    (ChecksumAlgorithm::Crc64Nvme, 3, 8),
    (ChecksumAlgorithm::Sha1, 4, 20),
    (ChecksumAlgorithm::Sha256, 5, 32),
    (ChecksumAlgorithm::Sha512, 6, 64),
    (ChecksumAlgorithm::Md5, 7, 16),
    (ChecksumAlgorithm::XxHash64, 8, 8),
    (ChecksumAlgorithm::XxHash3, 9, 8),
    (ChecksumAlgorithm::XxHash128, 10, 16),
];

const UNKNOWN: DecodeError = DecodeError::Invalid { field: "checksum algorithm" };

/// A part of number 1 without bytes, and its stored form.
fn with_checksum(algorithm: ChecksumAlgorithm) -> PartRef {
    let value = ChecksumBytes::from_slice(&vec![0xab; algorithm.bytes()]);
    let checksum = Some(Checksum { algorithm, composite_of: None, value });
    PartRef { number: 1, tag: [0x0d; 16], checksum, data: None }
}

fn stored(number: u8, bytes: usize) -> Bytes {
    let (tag, value) = ("0d".repeat(16), "ab".repeat(bytes));
    unhex(&format!("02 01000000 0100 {tag} 01 {number:02x} 0000 {value} 00"))
}

#[test]
fn each_algorithm_has_its_number_and_length() {
    assert_eq!(STORED.map(|(algorithm, ..)| algorithm), ChecksumAlgorithm::ALL);
    for (algorithm, number, bytes) in STORED {
        let parts = vec![with_checksum(algorithm)];
        assert_eq!(hex(&encode_manifest(&parts)), hex(&stored(number, bytes)), "{algorithm:?}");
        assert_eq!(decode_manifest(stored(number, bytes)), Ok(parts), "{algorithm:?}");
        assert!(decode_manifest(stored(number, bytes - 1)).is_err(), "{algorithm:?} cut short");
    }
}

#[test]
fn an_unknown_algorithm_is_refused() {
    for number in [0, 11, 255] {
        assert_eq!(decode_manifest(stored(number, 64)), Err(UNKNOWN));
    }
    let upload = |number: u8| {
        let (id, initiated) = ("0c".repeat(16), "00".repeat(8));
        unhex(&format!("04 {initiated} 00 00 01 00000000 01000000 {id} {initiated} 00 {number:02x} 01"))
    };
    for (algorithm, number, _) in STORED {
        let value = Value::decode(upload(number)).expect("an upload");
        assert_eq!(hex(&value.encode()), hex(&upload(number)));
        let State::Object(object) = value.state else { panic!("an object") };
        let checksum = object.uploads.first().and_then(|upload| upload.checksum);
        assert_eq!(checksum, Some((algorithm, ChecksumKind::Composite)));
    }
    assert_eq!(Value::decode(upload(11)), Err(UNKNOWN));
}

#[test]
fn ten_thousand_parts_with_the_longest_checksum_fit_a_manifest_page() {
    let part =
        |number| PartRef { number, data: part(number).data, ..with_checksum(ChecksumAlgorithm::Sha512) };
    let parts: Vec<PartRef> = (1..=10_000).map(part).collect();
    assert_eq!(decode_manifest(encode_manifest(&parts)), Ok(parts));
}
