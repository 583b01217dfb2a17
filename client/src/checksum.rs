//! Checksums of whole objects that are computed part by part: CRC64NVME, CRC32 and CRC32C can be combined.
//!
//! Uploads send CRC64NVME with each body. Downloads verify whichever of the three the object has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

/// An algorithm whose checksums of parts make that of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumAlgorithm {
    /// The default of S3 since 2024.
    Crc64Nvme,
    /// CRC-32C, of iSCSI.
    Crc32C,
    /// CRC-32, of ISO-HDLC.
    Crc32,
}

impl ChecksumAlgorithm {
    /// All, the strongest first.
    pub(crate) const ALL: [Self; 3] = [Self::Crc64Nvme, Self::Crc32C, Self::Crc32];

    /// S3's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "CRC64NVME",
            Self::Crc32C => "CRC32C",
            Self::Crc32 => "CRC32",
        }
    }

    /// The header with the checksum of a body or an object.
    pub(crate) const fn header(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Crc32C => "x-amz-checksum-crc32c",
            Self::Crc32 => "x-amz-checksum-crc32",
        }
    }

    const fn parameters(self) -> CrcAlgorithm {
        match self {
            Self::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
            Self::Crc32C => CrcAlgorithm::Crc32Iscsi,
            Self::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
        }
    }

    /// A checksum's value as it travels: Base64 of its bytes, the first one most significant.
    pub(crate) fn encode(self, value: u64) -> String {
        let bytes = value.to_be_bytes();
        match self {
            Self::Crc64Nvme => STANDARD.encode(bytes),
            Self::Crc32C | Self::Crc32 => STANDARD.encode(&bytes[4..]),
        }
    }
}

/// The checksum of some bytes, and how many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) algorithm: ChecksumAlgorithm,
    pub(crate) value: u64,
    pub(crate) bytes: u64,
}

impl Checksum {
    /// The checksum of bytes in memory.
    pub(crate) fn of(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> Self {
        let mut summer = Summer::new(algorithm);
        summer.update(bytes);
        summer.finish()
    }

    /// The checksum of these bytes with those of `next` behind them.
    pub(crate) fn followed_by(self, next: Self) -> Self {
        let value = match (self.bytes, next.bytes) {
            (_, 0) => self.value,
            (0, _) => next.value,
            (_, bytes) => checksum_combine(self.algorithm.parameters(), self.value, next.value, bytes),
        };
        Self { value, bytes: self.bytes + next.bytes, ..self }
    }

    /// The value as it travels.
    pub(crate) fn text(&self) -> String {
        self.algorithm.encode(self.value)
    }
}

/// Computes a checksum of bytes that come one after the other.
#[derive(Debug)]
pub(crate) struct Summer {
    algorithm: ChecksumAlgorithm,
    digest: Digest,
    bytes: u64,
}

impl Summer {
    pub(crate) fn new(algorithm: ChecksumAlgorithm) -> Self {
        Self { algorithm, digest: Digest::new(algorithm.parameters()), bytes: 0 }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn finish(&self) -> Checksum {
        Checksum { algorithm: self.algorithm, value: self.digest.finalize(), bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_the_published_ones_and_combine() {
        for (algorithm, expected) in [
            (ChecksumAlgorithm::Crc64Nvme, 0xAE8B_1486_0A79_9888),
            (ChecksumAlgorithm::Crc32C, 0xE306_9283),
            (ChecksumAlgorithm::Crc32, 0xCBF4_3926),
        ] {
            let whole = Checksum::of(algorithm, b"123456789");
            assert_eq!(whole.value, expected, "{}", algorithm.name());
            for at in 0..=9 {
                let (one, other) = b"123456789".split_at(at);
                let combined = Checksum::of(algorithm, one).followed_by(Checksum::of(algorithm, other));
                assert_eq!(combined, whole, "{} at {at}", algorithm.name());
            }
        }
        assert_eq!(ChecksumAlgorithm::Crc32.encode(0xCBF4_3926), "y/Q5Jg==");
    }
}
