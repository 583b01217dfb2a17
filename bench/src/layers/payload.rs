//! Bodies: random bytes that nobody has to make again, and a judge of what comes back.
//!
//! One arena of random bytes stands for every object: an object begins somewhere in it, where its
//! number says, and goes round. So a body of any size costs no allocation and no copy, differs from
//! its neighbours, and is compared with what was read byte by byte.

use bytes::Bytes;

/// Bytes of the arena. Its length has no factor in common with stripe units and hash blocks, so no
/// two stripes of a large object are alike.
const ARENA_BYTES: usize = (8 << 20) + 4_099;
/// Bytes of a piece at most, as a body comes from a socket: what the server's buffer holds.
const PIECE_BYTES: usize = 256 << 10;

/// Random bytes. Clones are the same bytes.
#[derive(Debug, Clone)]
pub(crate) struct Arena(Bytes);

impl Arena {
    /// Draws the bytes.
    pub(crate) fn new() -> Self {
        let mut bytes = vec![0; ARENA_BYTES];
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes once it has booted");
        Self(bytes.into())
    }

    /// The body of an object by its number.
    pub(crate) fn body(&self, number: u64, bytes: u64) -> Body {
        // An odd factor spreads neighbours over the whole arena.
        let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ARENA_BYTES as u64;
        Body { arena: self.0.clone(), at: usize::try_from(at).expect("inside the arena"), left: bytes }
    }
}

/// What is left of one object's bytes: pieces in order, or what others are compared with.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    arena: Bytes,
    at: usize,
    left: u64,
}

impl Body {
    /// Bytes that are left.
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// The next piece, of at most `most` bytes; empty at the end.
    fn peek(&self, most: usize) -> &[u8] {
        let end = self.arena.len().min(self.at.saturating_add(most));
        let piece = self.arena.get(self.at..end).unwrap_or_default();
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        piece.get(..left).unwrap_or(piece)
    }

    fn advance(&mut self, bytes: usize) {
        self.left -= bytes as u64;
        self.at = (self.at + bytes) % self.arena.len();
    }

    /// The next piece as it would come from a socket.
    pub(crate) fn next_piece(&mut self) -> Option<Bytes> {
        self.next_of(PIECE_BYTES)
    }

    /// The next piece, of at most `most` bytes.
    pub(crate) fn next_of(&mut self, most: usize) -> Option<Bytes> {
        let piece = self.peek(most);
        let length = piece.len();
        let bytes = (length > 0).then(|| self.arena.slice_ref(piece))?;
        self.advance(length);
        Some(bytes)
    }

    /// Whether `bytes` are the next ones; they are taken.
    pub(crate) fn is_next(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let expected = self.peek(bytes.len());
            let length = expected.len();
            if length == 0 || !bytes.starts_with(expected) {
                return false;
            }
            bytes = bytes.get(length..).unwrap_or_default();
            self.advance(length);
        }
        true
    }
}

impl Iterator for Body {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.next_piece()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_as_long_as_asked_and_the_same_every_time() {
        let arena = Arena::new();
        for bytes in [0, 1, 4096, (20 << 20) + 7] {
            let pieces: Vec<Bytes> = arena.body(7, bytes).collect();
            assert_eq!(pieces.iter().map(|piece| piece.len() as u64).sum::<u64>(), bytes);
            let mut judge = arena.body(7, bytes);
            assert!(pieces.iter().all(|piece| judge.is_next(piece)));
            assert_eq!(judge.left(), 0);
        }
    }

    #[test]
    fn another_byte_and_one_too_many_are_found_out() {
        let arena = Arena::new();
        let mut read = arena.body(3, 100).collect::<Vec<_>>().concat();
        assert!(arena.body(3, 100).is_next(&read));
        assert!(!arena.body(3, 99).is_next(&read));
        assert!(!arena.body(4, 100).is_next(&read));
        read[50] ^= 1;
        assert!(!arena.body(3, 100).is_next(&read));
    }
}
