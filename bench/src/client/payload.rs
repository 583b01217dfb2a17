//! Contents of the generator's objects: random bytes that can be verified without being stored.
//!
//! ```text
//! object   | stamp 16 B | window 0 ...          1 MiB | window 1 ...   2 MiB | ...
//!                          ^ pool[offset(key, 0)..]     ^ pool[offset(key, 1)..]
//! ```
//!
//! One pool of random bytes serves all objects. Every window of an object is a slice of it, at an
//! offset drawn from the object's key and the window's place, so that nothing repeats within an object
//! of any size; the stamp makes small objects distinct too. Writing costs no computation, and reading
//! is verified at the speed of a comparison, every byte of it.

use super::random::mix;

/// Bytes of the pool: larger than the caches of most processors, so that neither side is flattered.
pub const POOL_BYTES: usize = 64 << 20;
/// Bytes of an object that lie in one piece in the pool.
pub const WINDOW_BYTES: usize = 1 << 20;
/// Bytes at the start of an object that are its own alone.
pub const STAMP_BYTES: usize = 16;

/// The contents of all objects of one seed.
#[derive(Debug)]
pub struct Payloads {
    pool: Vec<u8>,
    /// Offsets that a window may begin at.
    offsets: u64,
    seed: u64,
}

/// An object's bytes differ from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The first byte that differs, from the start of the object.
    pub at: u64,
}

impl Payloads {
    /// The contents of seed `seed`, cut from a pool of [`POOL_BYTES`].
    pub fn new(seed: u64) -> Self {
        Self::with_pool(seed, POOL_BYTES)
    }

    /// The contents of seed `seed` from a pool of `pool_bytes`: small ones for tests, and where memory
    /// counts.
    pub fn with_pool(seed: u64, pool_bytes: usize) -> Self {
        let mut pool = vec![0; pool_bytes + WINDOW_BYTES];
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"sherd-bench payload").update(&seed.to_le_bytes());
        hasher.finalize_xof().fill(&mut pool);
        Self { pool, offsets: pool_bytes as u64, seed }
    }

    /// The first bytes of object `key`, as far as it is that long.
    pub fn stamp(&self, key: u64) -> [u8; STAMP_BYTES] {
        let mut stamp = [0; STAMP_BYTES];
        let (head, tail) = stamp.split_at_mut(8);
        head.copy_from_slice(&mix(key).to_le_bytes());
        tail.copy_from_slice(&mix(!key ^ self.seed).to_le_bytes());
        stamp
    }

    /// The bytes of object `key` from byte `at` on, up to the end of the window; the stamp, which lies
    /// over the first bytes, is not in them.
    pub fn window(&self, key: u64, at: u64) -> &[u8] {
        let window = at / WINDOW_BYTES as u64;
        let within = at % WINDOW_BYTES as u64;
        let offset = mix(mix(key ^ self.seed).wrapping_add(window)) % self.offsets;
        let begin = usize::try_from(offset + within).expect("lies in the pool");
        let end = usize::try_from(offset).expect("lies in the pool") + WINDOW_BYTES;
        &self.pool[begin..end]
    }

    /// Hands the bytes of object `key`, which has `size` of them, to `take`, piece by piece.
    pub fn pieces(&self, key: u64, size: u64, mut take: impl FnMut(&[u8])) {
        let stamp = self.stamp(key);
        let mut at = size.min(STAMP_BYTES as u64);
        take(&stamp[..usize::try_from(at).expect("at most a stamp")]);
        while at < size {
            let window = self.window(key, at);
            let length = usize::try_from(size - at).unwrap_or(usize::MAX).min(window.len());
            take(&window[..length]);
            at += length as u64;
        }
    }

    /// Compares `bytes`, which were read from object `key` at `at`, with what was written.
    ///
    /// # Errors
    /// They differ, and where first.
    pub fn verify(&self, key: u64, mut at: u64, mut bytes: &[u8]) -> Result<(), Mismatch> {
        if at < STAMP_BYTES as u64 {
            let begin = usize::try_from(at).expect("below the stamp's length");
            let stamp = self.stamp(key);
            let length = bytes.len().min(STAMP_BYTES - begin);
            compare(&stamp[begin..begin + length], &bytes[..length], at)?;
            at += length as u64;
            bytes = &bytes[length..];
        }
        while !bytes.is_empty() {
            let expected = self.window(key, at);
            let length = bytes.len().min(expected.len());
            compare(&expected[..length], &bytes[..length], at)?;
            at += length as u64;
            bytes = &bytes[length..];
        }
        Ok(())
    }
}

/// Compares two slices of one length, the second read at `at`.
fn compare(expected: &[u8], found: &[u8], at: u64) -> Result<(), Mismatch> {
    // Slices compare as memcmp does; the place is looked for only after a difference.
    if expected == found {
        return Ok(());
    }
    let same = expected.iter().zip(found).take_while(|(expected, found)| expected == found).count();
    Err(Mismatch { at: at + same as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The object's bytes the way a writer sends them.
    fn object(payloads: &Payloads, key: u64, size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        payloads.pieces(key, size as u64, |piece| bytes.extend_from_slice(piece));
        assert_eq!(bytes.len(), size);
        bytes
    }

    #[test]
    fn objects_of_every_length_are_known_again_in_pieces_of_any_length() {
        let payloads = Payloads::with_pool(1, 1 << 20);
        for size in [0, 1, 15, 16, 17, 4096, WINDOW_BYTES, WINDOW_BYTES + 1, 3 * WINDOW_BYTES + 777] {
            let bytes = object(&payloads, 9, size);
            for piece in [7_usize, 4096, 1 << 20, 5 << 20].into_iter().filter(|piece| size / piece < 1000) {
                for (index, part) in bytes.chunks(piece).enumerate() {
                    assert_eq!(payloads.verify(9, (index * piece) as u64, part), Ok(()));
                }
            }
        }
    }

    #[test]
    fn one_flipped_bit_is_found_wherever_it_is() {
        let payloads = Payloads::with_pool(1, 1 << 20);
        let mut bytes = object(&payloads, 3, 2 * WINDOW_BYTES + 100);
        for at in [0, 15, 16, 4095, WINDOW_BYTES - 1, WINDOW_BYTES, 2 * WINDOW_BYTES + 99] {
            bytes[at] ^= 1;
            assert_eq!(payloads.verify(3, 0, &bytes), Err(Mismatch { at: at as u64 }));
            bytes[at] ^= 1;
        }
        assert_eq!(payloads.verify(3, 0, &bytes), Ok(()));
    }

    #[test]
    fn no_object_passes_for_another_and_no_window_for_its_neighbour() {
        let payloads = Payloads::with_pool(1, 1 << 20);
        let one = object(&payloads, 1, 3 * WINDOW_BYTES);
        assert!(payloads.verify(2, 0, &one[..16]).is_err());
        let second = &one[WINDOW_BYTES..2 * WINDOW_BYTES];
        assert!(payloads.verify(1, 2 * WINDOW_BYTES as u64, second).is_err());
        assert!(Payloads::with_pool(2, 1 << 20).verify(1, 0, &one[..16]).is_err());
    }
}
