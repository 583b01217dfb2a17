//! How fast a client moves the bytes for which the node holds memory.

use std::time::Duration;

use tokio::time::Instant;

use crate::machine::limits::{LOOK_EVERY, PACE_OVER, PAUSE_MIN};

/// The pace of one client: of its reads while answers are written, or of its writes while bodies arrive.
/// Only the time in which the node waits for it counts. One of a connection lasts over its requests.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Since the last measurement.
    bytes: u64,
    /// Time that was waited for them, without a wait that goes on.
    waited: Duration,
    waits_since: Option<Instant>,
    last_progress: Instant,
    looked_at: Instant,
    /// Bytes per second over the last whole [`PACE_OVER`].
    measured: Option<u64>,
}

impl Pace {
    /// Of a client of which nothing is known yet.
    pub const fn new(now: Instant) -> Self {
        let (bytes, waited, waits_since, measured) = (0, Duration::ZERO, None, None);
        Self { bytes, waited, waits_since, last_progress: now, looked_at: now, measured }
    }

    /// `bytes` were moved; a wait ends.
    pub fn progress(&mut self, bytes: u64, now: Instant) {
        self.bytes += bytes;
        self.last_progress = now;
        if let Some(since) = self.waits_since.take() {
            self.waited += now - since;
        }
    }

    /// A wait begins, or goes on. After a pause it is another request's, which begins with the pace that was
    /// measured last.
    pub fn wait(&mut self, now: Instant) {
        if self.waits_since.is_none() {
            if now - self.last_progress > PAUSE_MIN {
                *self = Self { measured: self.measured, ..Self::new(now) };
            }
            self.waits_since = Some(now);
        }
    }

    /// When a client that is waited for is looked at again, however many waits come before.
    pub fn next_look(&self) -> Instant {
        self.looked_at + LOOK_EVERY
    }

    /// Looks: bytes per second, over the last three seconds of waits or since, where that is more. `None`
    /// while it is too early to say.
    pub fn bytes_per_second(&mut self, now: Instant) -> Option<u64> {
        self.looked_at = now;
        let waited = self.waited + self.waits_since.map_or(Duration::ZERO, |since| now - since);
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let since = self.bytes.saturating_mul(1000) / waited_ms.max(1);
        if waited < PACE_OVER {
            return self.measured.map(|measured| measured.max(since));
        }
        self.measured = Some(since);
        (self.bytes, self.waited) = (0, Duration::ZERO);
        self.waits_since = self.waits_since.map(|_| now);
        self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_waits_for_the_client_count() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..3 {
            now += SECOND;
            pace.wait(now);
            now += SECOND;
            assert_eq!(pace.bytes_per_second(now - SECOND / 4), None, "too early to say");
            pace.progress(1000, now);
        }
        assert_eq!(pace.bytes_per_second(now), Some(1000));
        pace.wait(now);
        assert_eq!(pace.bytes_per_second(now + PACE_OVER - SECOND), Some(1000), "until it is measured again");
        assert_eq!(pace.bytes_per_second(now + PACE_OVER), Some(0));
    }

    #[test]
    fn a_client_that_paused_and_goes_on_fast_is_not_slow() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        pace.wait(now);
        now += PACE_OVER;
        assert_eq!(pace.bytes_per_second(now), Some(0));
        for _ in 0..10 {
            pace.progress(1 << 20, now);
            pace.wait(now);
            now += SECOND / 100;
            assert!(pace.bytes_per_second(now).is_some_and(|pace| pace >= 100 << 20));
        }
        now += PACE_OVER;
        assert!(pace.bytes_per_second(now).is_some_and(|pace| pace < 4 << 20), "it paused again");
        assert_eq!(pace.bytes_per_second(now + PACE_OVER), Some(0));
    }

    #[test]
    fn a_wait_long_after_the_last_byte_begins_with_the_pace_that_was_measured() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        pace.wait(begun);
        pace.progress(9, begun + PACE_OVER);
        assert_eq!(pace.bytes_per_second(begun + PACE_OVER), Some(3));
        let later = begun + PACE_OVER + PAUSE_MIN + SECOND;
        pace.wait(later);
        assert_eq!(pace.bytes_per_second(later + SECOND), Some(3));
        pace.progress(1 << 20, later + SECOND);
        assert_eq!(pace.bytes_per_second(later + SECOND), Some(1 << 20), "it is fast from its bytes on");
    }
}
