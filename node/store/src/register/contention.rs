//! Signs of other gateways that write the same keys, and the durations of this gateway's own rounds.
//!
//! A prepare refuses the accept of every gateway that prepared before it and has not been accepted yet. Where
//! several write one key they would do that to each other for ever, and so would readers that finish what
//! they find. A gateway that notices another one at a key *looks* before its next prepare: it reads the key,
//! which waits for a write under way and refuses none. How long it waits follows from what rounds take here:
//! a pause that is shorter than a round ends in the middle of another one's. Called by [`super::change`],
//! [`super::batch`] and [`super::read`]; nothing that is decided depends on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::limits::{MARKED_FOR, PATIENCE_MAX, PAUSE_MAX, ROUND_MIN};
use tokio::time::Instant;

/// Cells for marks, each for the keys of some hashes: 8 KiB. Keys that share a cell are looked at before
/// they are written, which costs them a read round.
const MARKS: usize = 1 << 10;
/// A new sample weighs one eighth: a single slow sync changes little.
const SAMPLES: u64 = 8;

/// Other gateways at the keys that this one writes.
#[derive(Debug)]
pub(super) struct Contention {
    began: Instant,
    /// Until when keys count as written by others, in milliseconds after `began`.
    marks: Box<[AtomicU64]>,
    prepare: MeanTime,
    accept: MeanTime,
}

/// A moving mean, in microseconds; 0 before the first sample.
#[derive(Debug, Default)]
struct MeanTime(AtomicU64);

impl MeanTime {
    /// Two samples at one time may lose one of them.
    fn add(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let mean = match self.0.load(Ordering::Relaxed) {
            0 => took,
            mean => mean - mean / SAMPLES + took / SAMPLES,
        };
        self.0.store(mean.max(1), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

impl Contention {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            marks: std::iter::repeat_with(AtomicU64::default).take(MARKS).collect(),
            prepare: MeanTime::default(),
            accept: MeanTime::default(),
        }
    }

    /// Another gateway was noticed at a key, by the hash of that.
    pub(super) fn note(&self, hash: u64) {
        let until = self.elapsed_ms() + u64::try_from(MARKED_FOR.as_millis()).unwrap_or(u64::MAX);
        self.mark(hash).fetch_max(until, Ordering::Relaxed);
    }

    pub(super) fn is_noted(&self, hash: u64) -> bool {
        self.mark(hash).load(Ordering::Relaxed) > self.elapsed_ms()
    }

    pub(super) fn prepared(&self, took: Duration) {
        self.prepare.add(took);
    }

    pub(super) fn accepted(&self, took: Duration) {
        self.accept.add(took);
    }

    /// The pause after `conflicts` in a row: about a round after the first, since by then the accept that was
    /// in the way has arrived; twice as long after each further one. `random` spreads it from half as long to
    /// one and a half times.
    pub(super) fn pause(&self, conflicts: u32, random: u64) -> Duration {
        let round = self.prepare.get().max(ROUND_MIN);
        let about = round.saturating_mul(1_u32.checked_shl(conflicts).unwrap_or(u32::MAX)).min(PAUSE_MAX);
        let about_us = u64::try_from(about.as_micros()).unwrap_or(u64::MAX).max(1);
        about / 2 + Duration::from_micros(random % about_us)
    }

    /// How long a read waits for a write under way: about two commit times, each taken for twice the mean,
    /// and `least`. A read that finishes what is merely slow refuses the accept that is about to commit it.
    pub(super) fn patience(&self, least: Duration) -> Duration {
        self.accept.get().saturating_mul(4).min(PATIENCE_MAX).max(least)
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn mark(&self, hash: u64) -> &AtomicU64 {
        let index = usize::try_from(hash % MARKS as u64).expect("below the number of marks");
        &self.marks[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_noted_for_a_while_and_no_other_is() {
        let contention = Contention::new();
        assert!(!contention.is_noted(7));
        contention.note(7);
        assert!(contention.is_noted(7) && !contention.is_noted(8));
        tokio::time::advance(MARKED_FOR / 2).await;
        contention.note(7);
        tokio::time::advance(MARKED_FOR * 3 / 4).await;
        assert!(contention.is_noted(7), "noticed again");
        tokio::time::advance(MARKED_FOR / 4).await;
        assert!(!contention.is_noted(7));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_follow_the_rounds_and_double_up_to_a_limit() {
        let contention = Contention::new();
        assert_eq!(contention.pause(0, 0), ROUND_MIN / 2, "nothing is known yet");
        contention.prepared(Duration::from_millis(8));
        assert_eq!(contention.pause(0, 0), Duration::from_millis(4));
        assert_eq!(contention.pause(0, 7_999), Duration::from_micros(11_999));
        assert_eq!(contention.pause(2, 0), Duration::from_millis(16));
        for conflicts in [5, 31, 32, u32::MAX] {
            assert_eq!(contention.pause(conflicts, 0), PAUSE_MAX / 2);
        }
        for _ in 0..100 {
            contention.prepared(Duration::from_millis(80));
        }
        let about = contention.pause(0, 0);
        assert!(about > Duration::from_millis(39) && about <= Duration::from_millis(40), "{about:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_two_slow_commit_times_within_bounds() {
        let (contention, least) = (Contention::new(), Duration::from_millis(60));
        assert_eq!(contention.patience(least), least);
        contention.accepted(Duration::from_millis(5));
        assert_eq!(contention.patience(least), least);
        let slow = Contention::new();
        slow.accepted(Duration::from_millis(50));
        assert_eq!(slow.patience(least), Duration::from_millis(200));
        let stuck = Contention::new();
        stuck.accepted(Duration::from_secs(5));
        assert_eq!(stuck.patience(least), PATIENCE_MAX);
    }
}
