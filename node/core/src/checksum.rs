//! Checksums of what is stored: blake3 over payload, one hash per 64 KiB block, and CRC-32C over
//! headers.
//!
//! A payload arrives as a list of buffers and is hashed as it is, never joined; where it is cut
//! makes no difference to the hashes. A range is verified by the blocks it touches.
//! CRC-32C guards against torn and misplaced headers only, and is seeded with what says whose the
//! header is.

use std::ops::Range;

use crate::limits::{DATA_BYTES_MAX, HASH_BLOCK_BYTES};

/// A blake3 hash.
pub type Digest = [u8; 32];

const BLOCK_BYTES: u64 = HASH_BLOCK_BYTES as u64;

/// Bytes are not what was hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("block {block} does not match its hash")]
pub struct Mismatch {
    /// Number of the block.
    pub block: usize,
}

/// BLAKE3 of the hashes of a shard's blocks, one behind the other: of the shard as a whole, without a second
/// look at its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardDigest(pub Digest);

impl ShardDigest {
    /// The digest of a shard with these hashes of its blocks.
    pub fn of(hashes: &[Digest]) -> Self {
        Self(*blake3::hash(hashes.as_flattened()).as_bytes())
    }
}

/// Hashes a payload block by block as it comes.
///
/// blake3 is fast on whole runs of 16 KiB only, and buffers from a network end anywhere: the incomplete runs
/// at both ends of a buffer are gathered first, everything between is hashed where it lies.
#[derive(Debug, Default)]
pub struct BlockHasher {
    done: Vec<Digest>,
    /// The block that is not whole yet.
    hasher: blake3::Hasher,
    /// Bytes of that block so far, gathered ones included.
    taken: usize,
    /// The run that is not whole yet.
    run: Vec<u8>,
    /// Bytes still to come, where the payload's length is known.
    left: Option<u64>,
}

/// Bytes that the widest vector unit hashes side by side: 16 times blake3's 1 KiB.
const RUN_BYTES: usize = 16 << 10;

const _: () = assert!(HASH_BLOCK_BYTES.is_multiple_of(RUN_BYTES), "a block is whole runs");

impl BlockHasher {
    /// Starts a payload.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a payload of a known length: the list of hashes is allocated once, and a payload in
    /// one buffer needs no gathering. Another length than said gives the right hashes too.
    pub fn with_length(payload_bytes: u64) -> Self {
        // The length may come from an untrusted header: the room is at most that of the longest payload.
        let blocks = payload_bytes.min(DATA_BYTES_MAX).div_ceil(BLOCK_BYTES);
        let blocks = usize::try_from(blocks).expect("the longest payload has few blocks");
        Self { done: Vec::with_capacity(blocks), left: Some(payload_bytes), ..Self::default() }
    }

    /// Takes the next bytes, as many as there are.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).expect("a buffer's length fits 64 bits");
        let ends = self.left == Some(length);
        self.left = self.left.map(|left| left.saturating_sub(length));
        while !bytes.is_empty() {
            let room = HASH_BLOCK_BYTES - self.taken;
            let in_block = bytes.len().min(room);
            let whole_runs =
                if ends || in_block == room { in_block } else { in_block - in_block % RUN_BYTES };
            let later = if self.run.is_empty() && whole_runs > 0 {
                let (now, later) = bytes.split_at(whole_runs);
                self.hash(now);
                later
            } else {
                let (now, later) = bytes.split_at(in_block.min(RUN_BYTES - self.run.len()));
                self.gather(now);
                later
            };
            bytes = later;
        }
    }

    /// Ends the payload: one hash per block, the last over what was left. None for no bytes.
    pub fn finish(mut self) -> Vec<Digest> {
        if self.taken > 0 {
            self.end_block();
        }
        self.done
    }

    /// Hashes bytes of one block where they lie.
    fn hash(&mut self, bytes: &[u8]) {
        if bytes.len() == HASH_BLOCK_BYTES {
            self.done.push(*blake3::hash(bytes).as_bytes());
            return;
        }
        self.hasher.update(bytes);
        self.taken += bytes.len();
        if self.taken == HASH_BLOCK_BYTES {
            self.end_block();
        }
    }

    /// Gathers bytes of one run, and hashes the run when it is whole.
    fn gather(&mut self, bytes: &[u8]) {
        if self.run.capacity() == 0 {
            self.run.reserve_exact(RUN_BYTES);
        }
        self.run.extend_from_slice(bytes);
        self.taken += bytes.len();
        if self.taken == HASH_BLOCK_BYTES {
            self.end_block();
        } else if self.run.len() == RUN_BYTES {
            self.hasher.update(&self.run);
            self.run.clear();
        }
    }

    fn end_block(&mut self) {
        self.hasher.update(&self.run);
        self.run.clear();
        self.done.push(*self.hasher.finalize().as_bytes());
        self.hasher.reset();
        self.taken = 0;
    }
}

/// Whether a whole block is the one that was hashed. A missing hash is a mismatch.
///
/// # Errors
/// [`Mismatch`] names the block.
pub fn verify(hashes: &[Digest], block: usize, bytes: &[u8]) -> Result<(), Mismatch> {
    match hashes.get(block) {
        Some(hash) if blake3::hash(bytes) == *hash => Ok(()),
        _ => Err(Mismatch { block }),
    }
}

/// Blocks that a range of a payload touches.
pub const fn blocks_of(range: &Range<u64>) -> Range<u64> {
    if range.start >= range.end {
        return 0..0;
    }
    range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)
}

/// Bytes of a payload that are in a block; none behind its end.
pub fn block_range(block: u64, payload_bytes: u64) -> Range<u64> {
    let start = block.saturating_mul(BLOCK_BYTES).min(payload_bytes);
    start..start.saturating_add(BLOCK_BYTES).min(payload_bytes)
}

/// CRC-32C of a header, begun with `seed`: what another CRC gave, or whose header it is. With the
/// CRC of what stands before as the seed it is the CRC of both.
pub fn header_crc(seed: u32, header: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, header)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn payload(length: usize) -> Vec<u8> {
        (0..length).map(|at| u8::try_from((at * 31 + at / 257) % 251).expect("below 251")).collect()
    }

    fn hashes(parts: &[&[u8]]) -> Vec<Digest> {
        let mut hasher = BlockHasher::new();
        for part in parts {
            hasher.update(part);
        }
        hasher.finish()
    }

    #[test]
    fn each_block_has_its_own_hash() {
        let payload = payload(2 * HASH_BLOCK_BYTES + 5);
        let expected: Vec<Digest> =
            payload.chunks(HASH_BLOCK_BYTES).map(|block| *blake3::hash(block).as_bytes()).collect();
        assert_eq!(hashes(&[&payload]), expected);
        assert_eq!(hashes(&[]), Vec::<Digest>::new());
        assert_eq!(hashes(&[&[], &[]]), Vec::<Digest>::new());
        assert_eq!(hashes(&[&payload[..HASH_BLOCK_BYTES]]), expected[..1]);
    }

    #[test]
    fn a_changed_short_or_unknown_block_does_not_verify() {
        let payload = payload(HASH_BLOCK_BYTES + 10);
        let hashes = hashes(&[&payload]);
        let (first, second) = payload.split_at(HASH_BLOCK_BYTES);
        assert_eq!(verify(&hashes, 0, first), Ok(()));
        assert_eq!(verify(&hashes, 1, second), Ok(()));
        assert_eq!(verify(&hashes, 1, &second[..9]), Err(Mismatch { block: 1 }));
        assert_eq!(verify(&hashes, 1, first), Err(Mismatch { block: 1 }));
        assert_eq!(verify(&hashes, 2, &[]), Err(Mismatch { block: 2 }));
        let mut changed = second.to_vec();
        changed[3] ^= 1;
        assert_eq!(verify(&hashes, 1, &changed), Err(Mismatch { block: 1 }));
    }

    #[test]
    fn blocks_and_ranges_are_those_they_touch() {
        let block = BLOCK_BYTES;
        assert_eq!(blocks_of(&(0..1)), 0..1);
        assert_eq!(blocks_of(&(block - 1..block + 1)), 0..2);
        assert_eq!(blocks_of(&(block..2 * block)), 1..2);
        assert_eq!(blocks_of(&(7..7)), 0..0);
        assert_eq!(block_range(1, block + 3), block..block + 3);
        assert_eq!(block_range(0, block + 3), 0..block);
        assert_eq!(block_range(9, 5), 5..5);
        assert_eq!(block_range(u64::MAX, u64::MAX), u64::MAX..u64::MAX);
    }

    #[test]
    fn header_crcs_are_crc32c_and_go_on_from_a_seed() {
        assert_eq!(header_crc(0, b"123456789"), 0xe306_9283);
        assert_eq!(header_crc(header_crc(0, b"1234"), b"56789"), 0xe306_9283);
        assert_ne!(header_crc(1, b"123456789"), 0xe306_9283);
    }

    proptest! {
        #[test]
        fn header_crcs_are_the_same_for_every_split(
            seed: u32,
            header in proptest::collection::vec(any::<u8>(), 0..300),
            mut cuts in proptest::collection::vec(0..300_usize, 0..5),
        ) {
            cuts.retain(|cut| *cut <= header.len());
            cuts.extend([0, header.len()]);
            cuts.sort_unstable();
            let split = cuts.windows(2).fold(seed, |crc, pair| header_crc(crc, &header[pair[0]..pair[1]]));
            prop_assert_eq!(split, header_crc(seed, &header));
        }

        #[test]
        fn hashes_are_the_same_for_every_split(
            length in 0..3 * HASH_BLOCK_BYTES,
            mut cuts in proptest::collection::vec(0..3 * HASH_BLOCK_BYTES, 0..12),
            said in prop_oneof![0..3 * BLOCK_BYTES, 0..100_u64, Just(u64::MAX)],
        ) {
            let payload = payload(length);
            cuts.retain(|cut| *cut <= length);
            cuts.extend([0, length]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &payload[pair[0]..pair[1]]).collect();
            let split = hashes(&parts);
            // A length that is said, right or wrong, changes nothing but the work.
            let mut hasher = BlockHasher::with_length(said);
            for part in &parts {
                hasher.update(part);
            }
            prop_assert_eq!(&hasher.finish(), &split);
            prop_assert_eq!(&split, &hashes(&[&payload]));
            for (index, block) in payload.chunks(HASH_BLOCK_BYTES).enumerate() {
                prop_assert_eq!(verify(&split, index, block), Ok(()));
            }
        }
    }
}
