//! Bytes by number: random, different from its neighbours' for every number, made without a copy and
//! compared in place. They begin on a page, as the units of a stripe do when they reach a volume: shard
//! files are written past the page cache only then.

use bytes::Bytes;

/// Pages that a window may begin on: a prime number of them.
const PAGES: u64 = 4_093;
/// Bytes of a page.
const PAGE_BYTES: u64 = 4_096;

/// Random bytes; each number's begin somewhere else in them. Clones are the same bytes.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Bytes);

impl Pattern {
    /// Draws bytes for windows of up to `longest` bytes.
    pub(super) fn new(longest: u64) -> Self {
        let mut bytes = vec![0; length((PAGES + 1) * PAGE_BYTES + longest)];
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes once it has booted");
        let odd = bytes.as_ptr().align_offset(length(PAGE_BYTES));
        Self(Bytes::from(bytes).slice(odd..))
    }

    /// The bytes of a number.
    pub(super) fn bytes(&self, number: u64, bytes: u64) -> Bytes {
        // An odd factor spreads neighbours over the whole.
        let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % PAGES * PAGE_BYTES;
        self.0.slice(length(at)..length(at + bytes))
    }

    /// Whether a list of buffers holds the bytes of a number, and nothing else.
    pub(super) fn is(&self, number: u64, bytes: u64, found: &[Bytes]) -> bool {
        let expected = self.bytes(number, bytes);
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

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("patterns fit memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_again_however_they_are_cut() {
        let pattern = Pattern::new(1 << 20);
        let bytes = pattern.bytes(7, 100_000);
        assert!(bytes.as_ptr().addr().is_multiple_of(4096), "it begins on a page");
        assert!(pattern.is(7, 100_000, &[bytes.slice(..4096), bytes.slice(4096..)]));
        assert!(!pattern.is(8, 100_000, std::slice::from_ref(&bytes)));
        assert!(!pattern.is(7, 100_000, &[bytes.slice(..99_999)]));
        assert!(!pattern.is(7, 99_999, &[bytes]));
    }
}
