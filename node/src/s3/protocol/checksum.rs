//! The checksums that S3 knows beside MD5: their names, their shapes, and their computation over a
//! body that is collected anyway.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// A checksum algorithm of S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumAlgorithm {
    /// CRC-32 as in gzip.
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
}

impl ChecksumAlgorithm {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// The header or trailer that carries it.
    pub const fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// The algorithm whose header has this name, in lower case.
    pub fn of_header(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.header() == name)
    }

    /// AWS's name, as `x-amz-sdk-checksum-algorithm` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// Bytes of the checksum.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Whether a value has the shape of this checksum: base64 of so many bytes.
    pub fn has_shape(self, value: &[u8]) -> bool {
        let mut bytes = [0; 36];
        matches!(STANDARD.decode_slice(value, &mut bytes), Ok(length) if length == self.bytes())
    }

    /// Computes the checksum of `body` in base64.
    pub fn of(self, body: &[u8]) -> String {
        let crc = |algorithm| crc_fast::checksum(algorithm, body).to_be_bytes();
        match self {
            Self::Crc32 => STANDARD.encode(&crc(CrcAlgorithm::Crc32IsoHdlc)[4..]),
            Self::Crc32c => STANDARD.encode(&crc(CrcAlgorithm::Crc32Iscsi)[4..]),
            Self::Crc64Nvme => STANDARD.encode(crc(CrcAlgorithm::Crc64Nvme)),
            Self::Sha1 => STANDARD.encode(Sha1::digest(body)),
            Self::Sha256 => STANDARD.encode(Sha256::digest(body)),
        }
    }
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
            let value = algorithm.of(b"123456789");
            assert!(algorithm.has_shape(value.as_bytes()), "{value}");
            assert_eq!(value, expected, "{algorithm:?}");
        }
        assert_eq!(ChecksumAlgorithm::Sha256.of(b""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[test]
    fn shapes_are_exact() {
        for (value, fits) in
            [("y/Q5Jg==", true), ("y/Q5Jg", false), ("y/Q5Jgo=", false), ("????", false), ("", false)]
        {
            assert_eq!(ChecksumAlgorithm::Crc32.has_shape(value.as_bytes()), fits, "{value}");
        }
        let long = STANDARD.encode([0; 64]);
        assert!(!ChecksumAlgorithm::Sha256.has_shape(long.as_bytes()));
    }
}
