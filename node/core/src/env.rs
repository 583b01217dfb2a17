//! Clock and randomness: two of the five seams.
//!
//! Production passes the machine's clock and the kernel's entropy, the simulator passes a seed.
//! Code in `node/*` takes these traits and never asks the system, which is what makes a failing
//! seed replay. `HybridClock` turns a wall clock into strictly increasing timestamps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::id::Timestamp;

/// Source of the time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns wall-clock milliseconds since the Unix epoch. May step in either direction.
    fn wall_ms(&self) -> u64;

    /// Returns monotonic microseconds since an arbitrary start. Never decreases.
    fn monotonic_us(&self) -> u64;
}

/// Gives unpredictable bytes.
pub trait Rng: Send + Sync + std::fmt::Debug {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// Returns 64 random bits.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns 16 random bytes, the width of every random id.
    fn next_id(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes
    }
}

/// Makes strictly increasing timestamps from a clock that may step back.
///
/// A hybrid logical clock (Kulkarni et al., 2014): the physical time where it moves on, the last
/// timestamp plus one where it does not. One per process; ballots and data ids come from it.
#[derive(Debug)]
pub struct HybridClock {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl HybridClock {
    /// Makes a hybrid clock over `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: AtomicU64::new(0) }
    }

    /// Returns the clock below.
    pub fn wall(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Returns a timestamp greater than every one returned before.
    pub fn tick(&self) -> Timestamp {
        self.tick_above(Timestamp::ZERO)
    }

    /// Returns a timestamp greater than `seen` and than every one returned before.
    ///
    /// The caller judges first whether `seen` is plausible: following a timestamp from a broken
    /// clock would spread it.
    pub fn tick_above(&self, seen: Timestamp) -> Timestamp {
        let physical = Timestamp::from_ms(self.clock.wall_ms()).as_u64();
        let floor = physical.max(seen.as_u64().saturating_add(1));
        let previous = self
            .last
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(floor.max(last.saturating_add(1))))
            .unwrap_or_else(|last| last);
        Timestamp::from_u64(floor.max(previous.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct SteppingClock(AtomicU64);

    impl Clock for SteppingClock {
        fn wall_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
        fn monotonic_us(&self) -> u64 {
            0
        }
    }

    #[test]
    fn timestamps_increase_when_the_clock_steps_back() {
        let wall = Arc::new(SteppingClock(AtomicU64::new(1_000)));
        let clock = HybridClock::new(Arc::clone(&wall) as Arc<dyn Clock>);
        let first = clock.tick();
        wall.0.store(10, Ordering::Relaxed);
        let second = clock.tick();
        assert!(second > first);
        assert_eq!(second.as_ms(), 1_000);
    }

    #[test]
    fn a_seen_timestamp_is_passed() {
        let clock = HybridClock::new(Arc::new(SteppingClock(AtomicU64::new(5))));
        let seen = Timestamp::from_ms(90);
        assert!(clock.tick_above(seen) > seen);
        assert!(clock.tick() > seen);
    }
}
