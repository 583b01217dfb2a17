//! The faulty disk's random choices, and the seeded numbers that decide them.

/// Rest of the bytes that were not durable, after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// None of it.
    Nothing,
    /// All of it.
    Everything,
    /// An arbitrary part of it, decided by the seed.
    Some,
}

/// SplitMix64 (Steele, Lea, Flood, 2014): small, seeded, and all that a disk's bad luck needs.
#[derive(Debug, Clone)]
pub(super) struct SplitMix(u64);

impl SplitMix {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("below a usize")
    }
}
