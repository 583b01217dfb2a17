//! Shortest and longest stored forms: they bound the counts that a decoder believes, and the room of an
//! encoder.

use super::data_ref::DATA_REF_BYTES;
use crate::limits;
use crate::record::ChecksumAlgorithm;

/// Bytes of the shortest version: a delete marker.
pub(super) const VERSION_BYTES_MIN: usize = 16 + 8 + 1;
/// Bytes of the shortest upload: no attributes, no checksum.
pub(super) const UPLOAD_BYTES_MIN: usize = 16 + 8 + 1 + 1;
/// Bytes of the shortest attribute: two empty texts.
pub(super) const PAIR_BYTES_MIN: usize = 4 + 4;
/// Bytes of the shortest part reference: no checksum, no data.
pub(super) const PART_REF_BYTES_MIN: usize = 2 + 16 + 1 + 1;
/// Bytes of the longest checksum: SHA-512's.
pub(super) const CHECKSUM_BYTES_MAX: usize = 1 + 2 + ChecksumAlgorithm::Sha512.bytes();
/// Bytes of the longest part reference.
pub(super) const PART_REF_BYTES_MAX: usize = PART_REF_BYTES_MIN + CHECKSUM_BYTES_MAX + DATA_REF_BYTES;
/// Bytes of the longest manifest page.
pub(super) const MANIFEST_BYTES_MAX: usize = 1 + 4 + limits::PARTS_MAX as usize * PART_REF_BYTES_MAX;
