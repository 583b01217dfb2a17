//! Checksums that PUTs carry in a header, for the store to verify.
//!
//! Each is computed before the head of its request is sent, at many GiB/s. This time is part of the client's
//! processor time.

use std::fmt;

use base64::Engine as _;
use crc_fast::{CrcAlgorithm, Digest};

use crate::client::payload::Payloads;

/// A checksum of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Checksum {
    /// CRC-64/NVME, which SDKs send by default.
    Crc64nvme,
    /// CRC-32C.
    Crc32c,
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crc64nvme => "crc64nvme",
            Self::Crc32c => "crc32c",
        })
    }
}

impl Checksum {
    /// The header that carries it.
    pub const fn header(self) -> &'static str {
        match self {
            Self::Crc64nvme => "x-amz-checksum-crc64nvme",
            Self::Crc32c => "x-amz-checksum-crc32c",
        }
    }

    /// The header's value for object `key`, which has `size` bytes.
    pub fn value(self, payloads: &Payloads, key: u64, size: u64) -> String {
        let (algorithm, bytes) = match self {
            Self::Crc64nvme => (CrcAlgorithm::Crc64Nvme, 8),
            Self::Crc32c => (CrcAlgorithm::Crc32Iscsi, 4),
        };
        let mut digest = Digest::new(algorithm);
        payloads.pieces(key, size, |piece| digest.update(piece));
        let sum = digest.finalize().to_be_bytes();
        base64::engine::general_purpose::STANDARD.encode(&sum[sum.len() - bytes..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_whole_object() {
        let payloads = Payloads::with_pool(1, 1 << 20);
        let size = (2 << 20) + 77;
        let mut whole = Vec::new();
        payloads.pieces(5, size, |piece| whole.extend_from_slice(piece));
        for (checksum, algorithm, length) in [
            (Checksum::Crc64nvme, CrcAlgorithm::Crc64Nvme, 12),
            (Checksum::Crc32c, CrcAlgorithm::Crc32Iscsi, 8),
        ] {
            let value = checksum.value(&payloads, 5, size);
            let mut digest = Digest::new(algorithm);
            digest.update(&whole);
            let sum = digest.finalize().to_be_bytes();
            let decoded = base64::engine::general_purpose::STANDARD.decode(&value).unwrap();
            assert_eq!((value.len(), &sum[8 - decoded.len()..]), (length, &decoded[..]), "{checksum}");
        }
    }

    #[test]
    fn the_check_values_are_the_published_ones() {
        for (algorithm, expected) in
            [(CrcAlgorithm::Crc64Nvme, 0xae8b_1486_0a79_9888), (CrcAlgorithm::Crc32Iscsi, 0xe306_9283)]
        {
            let mut digest = Digest::new(algorithm);
            digest.update(b"123456789");
            assert_eq!(digest.finalize(), expected);
        }
    }
}
