//! The machine's own clock and entropy: the production side of `sherd_core::env`.
//!
//! The only file of the node that asks the system for the time or for random bytes. Everything
//! else takes the two traits, so that a simulated run has one history per seed.

#![expect(clippy::disallowed_methods, reason = "this file is the seam to clock and entropy")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sherd_core::env::{Clock, Rng};

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts the monotonic clock at zero.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    /// A clock set before 1970 reads as 1970, one after the year 584 million as then.
    fn wall_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// The kernel's entropy.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRng;

impl Rng for SystemRng {
    fn fill(&self, bytes: &mut [u8]) {
        // Without entropy neither ids nor secrets can be made: the process must stop.
        getrandom::fill(bytes).expect("the kernel gives random bytes once it has booted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_decreases_and_wall_time_is_after_2020() {
        let clock = SystemClock::new();
        let first = clock.monotonic_us();
        assert!(clock.monotonic_us() >= first);
        assert!(clock.wall_ms() > 1_577_836_800_000);
    }

    #[test]
    fn two_ids_differ() {
        assert_ne!(SystemRng.next_id(), SystemRng.next_id());
    }
}
