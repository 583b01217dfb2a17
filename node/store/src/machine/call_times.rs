//! How long the calls took that requests waited for: counted by any thread, read each second.
//!
//! A bucket is a thirty-second to a sixteenth of its times wide, fine enough to see a time double: the ends
//! of two buckets are an eighth off together at most. Counting neither waits nor allocates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Sixteen buckets for each doubling, from 64 microseconds to 67 seconds. The first takes what is shorter,
/// the last what is longer.
const BUCKETS: usize = 320;
const OF_DOUBLING: usize = 16;
/// The logarithm of the end of the first bucket's times, which are counted together, in microseconds.
const FIRST_LOG: u32 = 6;

/// Counts calls by the time that they took.
#[derive(Debug)]
pub struct CallTimes {
    begun: AtomicU64,
    ended: [AtomicU64; BUCKETS],
}

/// A call under way. It is counted when it is dropped: with its answer, or where its caller gave up.
#[derive(Debug)]
pub struct TimedCall {
    times: Arc<CallTimes>,
    since: Instant,
}

impl Drop for TimedCall {
    fn drop(&mut self) {
        self.times.end(self.since.elapsed());
    }
}

/// Counts of calls by the time that they took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCounts([u64; BUCKETS]);

impl Default for CallTimes {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), ended: [const { AtomicU64::new(0) }; BUCKETS] }
    }
}

impl CallTimes {
    /// Begins a call.
    pub fn begin(self: &Arc<Self>) -> TimedCall {
        self.begun.fetch_add(1, Ordering::Relaxed);
        TimedCall { times: Arc::clone(self), since: Instant::now() }
    }

    fn end(&self, took: Duration) {
        self.ended[bucket(took)].fetch_add(1, Ordering::Relaxed);
    }

    /// The calls that ended since the start.
    pub fn counts(&self) -> CallCounts {
        CallCounts(std::array::from_fn(|bucket| self.ended[bucket].load(Ordering::Relaxed)))
    }

    /// Counts the calls that are under way.
    pub fn under_way(&self) -> u64 {
        self.begun.load(Ordering::Relaxed).saturating_sub(self.counts().total())
    }

    /// Counts a call that ended.
    #[cfg(test)]
    pub(crate) fn count(&self, took: Duration) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.end(took);
    }
}

impl Default for CallCounts {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl CallCounts {
    /// The calls that were counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|bucket| self.0[bucket].saturating_sub(earlier.0[bucket])))
    }

    /// Adds others.
    pub fn add(&mut self, others: &Self) {
        for (count, other) in self.0.iter_mut().zip(others.0) {
            *count += other;
        }
    }

    /// Adds calls that took this time.
    pub(crate) fn add_calls(&mut self, count: u64, took: Duration) {
        self.0[bucket(took)] += count;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Counts the calls that took `limit` or longer, by whole buckets: too few rather than too many.
    pub fn over(&self, limit: Duration) -> u64 {
        let over = self.0.iter().enumerate().filter(|(bucket, _)| shortest(*bucket) >= limit);
        over.map(|(_, count)| count).sum()
    }

    /// A time that 99 of 100 calls are below, the end of their bucket; zero without calls.
    pub fn p99(&self) -> Duration {
        let rank = (self.total() * 99).div_ceil(100);
        let mut below = 0;
        let found = self.0.iter().position(|count| {
            below += count;
            below >= rank
        });
        found.filter(|_| rank > 0).map_or(Duration::ZERO, |bucket| shortest(bucket + 1))
    }
}

fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let Some(log) = micros.checked_ilog2().filter(|log| *log >= FIRST_LOG) else { return 0 };
    // The four bits behind the first.
    let sixteenth = (micros >> (log - 4)) & 15;
    ((log - FIRST_LOG) as usize * OF_DOUBLING + sixteenth as usize).min(BUCKETS - 1)
}

/// The shortest time of a bucket.
fn shortest(bucket: usize) -> Duration {
    let (doublings, sixteenth) = (bucket / OF_DOUBLING, bucket % OF_DOUBLING);
    Duration::from_micros(((16 + sixteenth as u64) << doublings) << (FIRST_LOG - 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn a_time_is_counted_in_the_bucket_that_begins_at_or_below_it() {
        let cases = [(0, 0), (63, 0), (64, 0), (67, 0), (68, 1), (124, 15), (127, 15), (128, 16), (135, 16)];
        for (time, expected) in cases {
            assert_eq!(bucket(micros(time)), expected, "{time}");
        }
        for bucket_index in 0..BUCKETS {
            assert_eq!(bucket(shortest(bucket_index)), bucket_index);
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_say_how_many_took_longer_and_what_nearly_all_are_below() {
        let times = CallTimes::default();
        let before = times.counts();
        assert_eq!((before.total(), before.p99()), (0, Duration::ZERO));
        for _ in 0..98 {
            times.count(micros(1_000));
        }
        times.count(micros(8_192));
        times.count(micros(90_000));
        let counts = times.counts().since(&before);
        assert_eq!(counts.total(), 100);
        assert_eq!(counts.p99(), micros(8_704), "the end of the second longest's bucket");
        assert_eq!([1_025, 8_192, 8_193, 200_000].map(|limit| counts.over(micros(limit))), [2, 2, 1, 0]);
        let mut twice = counts.clone();
        twice.add(&counts);
        assert_eq!((twice.total(), twice.over(micros(8_192))), (200, 4));
        assert_eq!(times.counts().since(&times.counts()), CallCounts::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_under_way_until_it_is_answered_or_given_up() {
        let times = Arc::new(CallTimes::default());
        let calls = [times.begin(), times.begin()];
        assert_eq!((times.under_way(), times.counts().total()), (2, 0));
        tokio::time::advance(Duration::from_secs(3)).await;
        drop(calls);
        assert_eq!((times.under_way(), times.counts().over(Duration::from_secs(2))), (0, 2));
    }
}
