//! Bytes by number: random, different for every number, made without a copy and compared in place.

use bytes::Bytes;

/// Bytes that a window is cut from, beside the longest window.
const SPREAD_BYTES: u64 = (4 << 20) + 4_099;

/// Random bytes; each number's begin somewhere else in them. Clones are the same bytes.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Bytes);

impl Pattern {
    /// Draws bytes for windows of up to `longest` bytes.
    pub(super) fn new(longest: u64) -> Self {
        let bytes = usize::try_from(SPREAD_BYTES + longest).expect("patterns fit memory");
        let mut bytes = vec![0; bytes];
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes once it has booted");
        Self(bytes.into())
    }

    /// The bytes of a number.
    pub(super) fn bytes(&self, number: u64, length: u64) -> Bytes {
        // An odd factor spreads neighbours over the whole.
        let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % SPREAD_BYTES;
        let range = at..at + length;
        let at = |position: u64| usize::try_from(position).expect("patterns fit memory");
        self.0.slice(at(range.start)..at(range.end))
    }

    /// Whether a list of buffers holds the bytes of a number, and nothing else.
    pub(super) fn is(&self, number: u64, length: u64, found: &[Bytes]) -> bool {
        let expected = self.bytes(number, length);
        let mut rest = &expected[..];
        for buffer in found {
            match rest.strip_prefix(&buffer[..]) {
                Some(left) => rest = left,
                None => return false,
            }
        }
        rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_again_however_they_are_cut() {
        let pattern = Pattern::new(1 << 20);
        let bytes = pattern.bytes(7, 100_000);
        assert!(pattern.is(7, 100_000, &[bytes.slice(..4096), bytes.slice(4096..)]));
        assert!(!pattern.is(8, 100_000, std::slice::from_ref(&bytes)));
        assert!(!pattern.is(7, 100_000, &[bytes.slice(..99_999)]));
        assert!(!pattern.is(7, 99_999, &[bytes]));
    }
}
