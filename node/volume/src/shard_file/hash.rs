//! One blake3 hash per block of a payload, computed as the bytes pass.

use sherd_core::limits::HASH_BLOCK_BYTES;
use sherd_core::register::Digest;

/// Hashes a payload block by block.
#[derive(Debug, Default)]
pub(crate) struct BlockHasher {
    done: Vec<Digest>,
    /// The block that is not whole yet, and how much of it came.
    partial: blake3::Hasher,
    partial_bytes: usize,
}

impl BlockHasher {
    /// Starts a payload of a known length.
    pub(crate) fn with_length(payload_bytes: u64) -> Self {
        let blocks = usize::try_from(payload_bytes.div_ceil(HASH_BLOCK_BYTES as u64)).unwrap_or(0);
        Self { done: Vec::with_capacity(blocks), ..Self::default() }
    }

    /// Takes the next bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while let Some((block, rest)) = bytes.split_at_checked(HASH_BLOCK_BYTES - self.partial_bytes) {
            if self.partial_bytes == 0 {
                self.done.push(*blake3::hash(block).as_bytes());
            } else {
                self.partial.update(block);
                self.end_block();
            }
            bytes = rest;
        }
        self.partial.update(bytes);
        self.partial_bytes += bytes.len();
    }

    /// Ends the payload: a hash for each block, the last may be short.
    pub(crate) fn finish(mut self) -> Vec<Digest> {
        if self.partial_bytes > 0 {
            self.end_block();
        }
        self.done
    }

    fn end_block(&mut self) {
        self.done.push(*self.partial.finalize().as_bytes());
        self.partial.reset();
        self.partial_bytes = 0;
    }
}
