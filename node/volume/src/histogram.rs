//! How often values of which size came: counted in fixed buckets by one thread, read by any.
//!
//! Nothing waits and nothing allocates where it counts. A reader may see a value in its bucket and not
//! yet in the sum: figures for people, not for decisions.

use crate::limits::HISTOGRAM_BUCKETS_MAX;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts values.
#[derive(Debug)]
pub struct Histogram {
    /// The largest value of each bucket, ascending.
    bounds: &'static [u64],
    counts: [AtomicU64; HISTOGRAM_BUCKETS_MAX + 1],
    sum: AtomicU64,
}

/// Counts of a histogram.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distribution {
    /// The largest value of each bucket, ascending.
    pub bounds: &'static [u64],
    /// Values of each bucket by itself; one more than there are bounds, for what is larger.
    pub counts: Vec<u64>,
    /// All values together.
    pub sum: u64,
}

impl Distribution {
    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Histogram {
    /// Counts nothing yet.
    ///
    /// # Panics
    /// With more than 16 bounds.
    pub const fn new(bounds: &'static [u64]) -> Self {
        assert!(bounds.len() <= HISTOGRAM_BUCKETS_MAX, "a few buckets");
        Self {
            bounds,
            counts: [const { AtomicU64::new(0) }; HISTOGRAM_BUCKETS_MAX + 1],
            sum: AtomicU64::new(0),
        }
    }

    /// Counts a value.
    pub fn count(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn distribution(&self) -> Distribution {
        let used = self.counts.iter().take(self.bounds.len() + 1);
        Distribution {
            bounds: self.bounds,
            counts: used.map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(&[10, 20, 50]);
        for value in [0, 10, 11, 20, 21, 50, 51, u64::from(u32::MAX)] {
            histogram.count(value);
        }
        let found = histogram.distribution();
        assert_eq!(found.counts, [2, 2, 2, 2]);
        assert_eq!(found.count(), 8);
        assert_eq!(found.sum, 163 + u64::from(u32::MAX));
    }
}
