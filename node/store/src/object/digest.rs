//! The digests of one body, computed in one pass while its bytes are in cache.
//!
//! A body arrives as a list of buffers; each buffer goes through every digest once, in order, and
//! is never joined to its neighbours. The values are what S3 compares, stores and returns: MD5 for
//! the entity tag, and the ten `x-amz-checksum-*` algorithms.

use crc_fast::{CrcAlgorithm, Digest as Crc};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use smallvec::SmallVec;
use xxhash_rust::xxh3::Xxh3;
use xxhash_rust::xxh64::Xxh64;

use sherd_core::md5::Md5;
use sherd_core::record::{Checksum, ChecksumAlgorithm, ChecksumBytes, Checksums};

/// The checksum of a body whose client sent none, and whose upload names no algorithm (AWS, "Checking object
/// integrity"): the one that is joined out of those of parts.
pub(crate) const DEFAULT_ALGORITHM: ChecksumAlgorithm = ChecksumAlgorithm::Crc64Nvme;

/// Whether Complete may announce such a checksum only where its upload names the algorithm. Of the five older
/// ones AWS takes any there, unread (AWS, "Checking object integrity for data uploads").
pub(crate) const fn has_to_be_named(algorithm: ChecksumAlgorithm) -> bool {
    match algorithm {
        ChecksumAlgorithm::Crc32
        | ChecksumAlgorithm::Crc32c
        | ChecksumAlgorithm::Crc64Nvme
        | ChecksumAlgorithm::Sha1
        | ChecksumAlgorithm::Sha256 => false,
        ChecksumAlgorithm::Sha512
        | ChecksumAlgorithm::Md5
        | ChecksumAlgorithm::XxHash64
        | ChecksumAlgorithm::XxHash3
        | ChecksumAlgorithm::XxHash128 => true,
    }
}

/// Digests in the making.
#[derive(Debug)]
pub struct Digests {
    /// For the entity tag; `None` also where MD5 is among the checksums.
    md5: Option<Md5>,
    // Most bodies have one: no allocation.
    checksums: SmallVec<[(ChecksumAlgorithm, Hasher); 1]>,
}

/// One checksum in the making.
pub struct Hasher(Inner);

/// States of more than 200 bytes are boxed: those of most bodies then stay small.
enum Inner {
    Crc32(Crc),
    Crc64(Crc),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
    Md5(Md5),
    XxHash64(Xxh64),
    XxHash3(Box<Xxh3>),
    XxHash128(Box<Xxh3>),
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

/// The digests of a whole body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestValues {
    /// MD5 of the body; `None` where it was left out and the checksums have no MD5.
    pub md5: Option<[u8; 16]>,
    /// The checksums asked for, in the order in which they were.
    pub checksums: Checksums,
}

impl Digests {
    /// Begins MD5 and the checksums asked for.
    pub fn new(algorithms: impl IntoIterator<Item = ChecksumAlgorithm>) -> Self {
        let checksums: SmallVec<_> =
            algorithms.into_iter().map(|algorithm| (algorithm, Hasher::new(algorithm))).collect();
        let has_md5 = checksums.iter().any(|(algorithm, _)| *algorithm == ChecksumAlgorithm::Md5);
        Self { md5: (!has_md5).then(Md5::new), checksums }
    }

    /// Leaves MD5 out.
    #[must_use]
    pub fn without_md5(self) -> Self {
        Self { md5: None, ..self }
    }

    /// Takes the next bytes of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        for (_, hasher) in &mut self.checksums {
            hasher.update(bytes);
        }
    }

    /// Takes out the MD5 for the entity tag, to be hashed beside those of other bodies; until it is back all
    /// others alone take the next bytes.
    pub(crate) fn take_md5(&mut self) -> Option<Md5> {
        self.md5.take()
    }

    /// Puts back the MD5 that was taken out.
    pub(crate) fn put_md5_back(&mut self, md5: Md5) {
        debug_assert!(self.md5.is_none(), "one is taken out at a time");
        self.md5 = Some(md5);
    }

    /// Ends.
    pub fn finish(self) -> DigestValues {
        let checksums: Checksums = self
            .checksums
            .into_iter()
            .map(|(algorithm, hasher)| Checksum { algorithm, composite_of: None, value: hasher.finish() })
            .collect();
        let md5 = self.md5.map(Md5::finish).or_else(|| {
            let sum = checksums.iter().find(|checksum| checksum.algorithm == ChecksumAlgorithm::Md5)?;
            sum.value.as_slice().try_into().ok()
        });
        DigestValues { md5, checksums }
    }
}

/// Computes the checksum of bytes at hand.
pub fn checksum(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> ChecksumBytes {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish()
}

/// Computes the checksum of a body from those of its parts, in order: CRCs can be joined without
/// the bytes. `None` for an algorithm that cannot, or checksums of the wrong length.
pub(crate) fn join_checksums<'a>(
    algorithm: ChecksumAlgorithm,
    parts: impl Iterator<Item = (&'a ChecksumBytes, u64)>,
) -> Option<ChecksumBytes> {
    let crc = match algorithm {
        ChecksumAlgorithm::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
        ChecksumAlgorithm::Crc32c => CrcAlgorithm::Crc32Iscsi,
        ChecksumAlgorithm::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1
        | ChecksumAlgorithm::Sha256
        | ChecksumAlgorithm::Sha512
        | ChecksumAlgorithm::Md5
        | ChecksumAlgorithm::XxHash64
        | ChecksumAlgorithm::XxHash3
        | ChecksumAlgorithm::XxHash128 => return None,
    };
    let mut joined = Crc::new(crc).finalize();
    for (value, length) in parts {
        if value.len() != algorithm.bytes() {
            return None;
        }
        let value = value.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        joined = crc_fast::checksum_combine(crc, joined, value, length);
    }
    let wide = joined.to_be_bytes();
    Some(ChecksumBytes::from_slice(&wide[wide.len() - algorithm.bytes()..]))
}

impl Hasher {
    /// Begins.
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        Self(match algorithm {
            ChecksumAlgorithm::Crc32 => Inner::Crc32(Crc::new(CrcAlgorithm::Crc32IsoHdlc)),
            ChecksumAlgorithm::Crc32c => Inner::Crc32(Crc::new(CrcAlgorithm::Crc32Iscsi)),
            ChecksumAlgorithm::Crc64Nvme => Inner::Crc64(Crc::new(CrcAlgorithm::Crc64Nvme)),
            ChecksumAlgorithm::Sha1 => Inner::Sha1(Sha1::new()),
            ChecksumAlgorithm::Sha256 => Inner::Sha256(Sha256::new()),
            ChecksumAlgorithm::Sha512 => Inner::Sha512(Box::new(Sha512::new())),
            ChecksumAlgorithm::Md5 => Inner::Md5(Md5::new()),
            ChecksumAlgorithm::XxHash64 => Inner::XxHash64(Xxh64::new(0)),
            ChecksumAlgorithm::XxHash3 => Inner::XxHash3(Box::new(Xxh3::new())),
            ChecksumAlgorithm::XxHash128 => Inner::XxHash128(Box::new(Xxh3::new())),
        })
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Inner::Crc32(crc) | Inner::Crc64(crc) => crc.update(bytes),
            Inner::Sha1(sha) => sha.update(bytes),
            Inner::Sha256(sha) => sha.update(bytes),
            Inner::Sha512(sha) => sha.update(bytes),
            Inner::Md5(md5) => md5.update(bytes),
            Inner::XxHash64(hash) => hash.update(bytes),
            Inner::XxHash3(hash) | Inner::XxHash128(hash) => hash.update(bytes),
        }
    }

    /// Ends; the value as S3 sends it: big endian.
    pub fn finish(self) -> ChecksumBytes {
        match self.0 {
            Inner::Crc32(crc) => {
                let value = u32::try_from(crc.finalize()).expect("a 32-bit CRC fits 32 bits");
                ChecksumBytes::from_slice(&value.to_be_bytes())
            }
            Inner::Crc64(crc) => ChecksumBytes::from_slice(&crc.finalize().to_be_bytes()),
            Inner::Sha1(sha) => ChecksumBytes::from_slice(&sha.finalize()),
            Inner::Sha256(sha) => ChecksumBytes::from_slice(&sha.finalize()),
            Inner::Sha512(sha) => ChecksumBytes::from_slice(&sha.finalize()),
            Inner::Md5(md5) => ChecksumBytes::from_slice(&md5.finish()),
            Inner::XxHash64(hash) => ChecksumBytes::from_slice(&hash.digest().to_be_bytes()),
            Inner::XxHash3(hash) => ChecksumBytes::from_slice(&hash.digest().to_be_bytes()),
            Inner::XxHash128(hash) => ChecksumBytes::from_slice(&hash.digest128().to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The check values of each algorithm's published specification, over "123456789".
    #[test]
    fn check_values_match_the_specifications() {
        let cases = [
            (ChecksumAlgorithm::Crc32, "cbf43926"),
            (ChecksumAlgorithm::Crc32c, "e3069283"),
            (ChecksumAlgorithm::Crc64Nvme, "ae8b14860a799888"),
            (
                ChecksumAlgorithm::Sha512,
                "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a\
                 d27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
            ),
            (ChecksumAlgorithm::Md5, "25f9e794323b453885f5181f1b624d0b"),
            // As the reference implementation, xxHash 0.8, writes them: big endian.
            (ChecksumAlgorithm::XxHash64, "8cb841db40e6ae83"),
            (ChecksumAlgorithm::XxHash3, "72dcb18b67a17dff"),
            (ChecksumAlgorithm::XxHash128, "33119477ede5dcd5e9716427681d5860"),
        ];
        for (algorithm, expected) in cases {
            assert_eq!(hex::encode(checksum(algorithm, b"123456789")), expected, "{algorithm:?}");
        }
        assert_eq!(
            hex::encode(checksum(ChecksumAlgorithm::Sha1, b"abc")),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert_eq!(
            hex::encode(checksum(ChecksumAlgorithm::Sha256, b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn joined_checksums_are_those_of_the_whole() {
        use ChecksumAlgorithm::{Crc32, Crc32c, Crc64Nvme};
        let body = b"one part, another part, and the last";
        for algorithm in ChecksumAlgorithm::ALL {
            if !matches!(algorithm, Crc32 | Crc32c | Crc64Nvme) {
                assert_eq!(join_checksums(algorithm, std::iter::empty()), None, "{algorithm:?}");
                continue;
            }
            let parts = [&body[..8], &body[8..8], &body[8..30], &body[30..]];
            let sums: Vec<(ChecksumBytes, u64)> =
                parts.iter().map(|part| (checksum(algorithm, part), part.len() as u64)).collect();
            let joined = join_checksums(algorithm, sums.iter().map(|(sum, length)| (sum, *length)));
            assert_eq!(joined, Some(checksum(algorithm, body)), "{algorithm:?}");
        }
    }

    #[test]
    fn an_md5_among_the_checksums_is_computed_once_and_never_left_out() {
        let mut digests = Digests::new([ChecksumAlgorithm::Md5]).without_md5();
        assert!(digests.md5.is_none());
        digests.update(b"123456789");
        assert_eq!(digests.finish().md5, Some(Md5::digest(b"123456789")));
    }

    #[test]
    fn an_md5_that_is_taken_out_is_hashed_elsewhere_and_the_checksums_here() {
        let mut digests = Digests::new([ChecksumAlgorithm::Crc32]);
        digests.update(b"1234");
        let mut md5 = digests.take_md5().expect("it has one");
        digests.update(b"56789");
        md5.update(b"56789");
        digests.put_md5_back(md5);
        let values = digests.finish();
        assert_eq!(values.md5, Some(Md5::digest(b"123456789")));
        assert_eq!(values.checksums[0].value, checksum(ChecksumAlgorithm::Crc32, b"123456789"));
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same_values(
            body in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..300),
                prop::collection::vec(any::<u8>(), 0..20_000),
            ],
            mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let whole = {
                let mut digests = Digests::new(ChecksumAlgorithm::ALL);
                digests.update(&body);
                digests.finish()
            };
            let mut list = Digests::new(ChecksumAlgorithm::ALL);
            cuts.sort_by_key(|cut| cut.index(body.len() + 1));
            let mut left = body.as_slice();
            for cut in cuts {
                // The same place twice makes an empty buffer.
                let taken = body.len() - left.len();
                let (buffer, behind) = left.split_at(cut.index(body.len() + 1) - taken);
                list.update(buffer);
                left = behind;
            }
            list.update(left);
            prop_assert_eq!(&list.finish(), &whole);
            prop_assert_eq!(whole.md5, Some(Md5::digest(&body)));
            for computed in whole.checksums {
                prop_assert_eq!(&computed.value, &checksum(computed.algorithm, &body));
            }
        }
    }
}
