//! The generator's only randomness: splitmix64, seeded, so that a run can be repeated.
//!
//! Its finaliser is a bijection of 64-bit numbers, which makes it the generator's hash too: distinct
//! keys get distinct names without keeping a set of them.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scatters `value` over all 64-bit numbers; distinct values stay distinct.
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A sequence of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// The next number below `end`, evenly spread; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product: without a division, and off by less than one in 2^64 / end.
        let wide = u128::from(self.next_u64()) * u128::from(end);
        u64::try_from(wide >> 64).expect("the high half of 128 bits has 64")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn neighbours_are_scattered_and_stay_distinct() {
        let mixed: HashSet<u64> = (0..10_000).map(mix).collect();
        assert_eq!(mixed.len(), 10_000);
        assert!(mix(1).abs_diff(mix(2)) > 1 << 40);
    }

    #[test]
    fn numbers_stay_below_their_end_and_reach_all_of_it() {
        let mut random = Random::new(7);
        let seen: HashSet<u64> = (0..1000).map(|_| random.below(10)).collect();
        assert_eq!(seen, (0..10).collect());
    }
}
