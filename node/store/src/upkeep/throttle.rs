//! The cost that background work may have: bytes per second, and whether it may run at all.

use crate::upkeep::limits::CREDIT_MAX;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// A budget of bytes per second, shared by all that take from it.
#[derive(Debug)]
pub(crate) struct Throttle {
    bytes_per_second: AtomicU64,
    /// When the bytes handed out so far are paid for.
    paid_until: Mutex<Instant>,
    paused: watch::Sender<bool>,
}

impl Throttle {
    /// A budget; 0 for any number.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        let (bytes_per_second, paid_until) = (AtomicU64::new(bytes_per_second), Mutex::new(Instant::now()));
        Self { bytes_per_second, paid_until, paused: watch::Sender::new(false) }
    }

    /// Hands out another number of bytes per second from here on; 0 for any.
    pub(crate) fn set_bytes_per_second(&self, bytes_per_second: u64) {
        self.bytes_per_second.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Stops or resumes everything that takes from the budget.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    pub(crate) fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    pub(crate) async fn take(&self, bytes: u64) {
        let mut paused = self.paused.subscribe();
        // The sender lives as long as this budget.
        drop(paused.wait_for(|paused| !paused).await);
        let bytes_per_second = self.bytes_per_second.load(Ordering::Relaxed);
        if bytes_per_second == 0 {
            return;
        }
        let cost = Duration::from_micros(bytes.saturating_mul(1_000_000) / bytes_per_second);
        let begin = {
            let mut paid_until = self.paid_until.lock();
            let begin =
                Instant::now().checked_sub(CREDIT_MAX).map_or(*paid_until, |least| least.max(*paid_until));
            *paid_until = begin + cost;
            begin
        };
        tokio::time::sleep_until(begin).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_moved_is_paid_for_before_more_is() {
        let throttle = Throttle::new(1000);
        let begin = Instant::now();
        throttle.take(5_000).await;
        assert!(begin.elapsed() < Duration::from_millis(1));
        throttle.take(1).await;
        assert!(begin.elapsed() >= Duration::from_millis(4_900));
    }

    #[tokio::test(start_paused = true)]
    async fn another_rate_holds_for_what_is_taken_later() {
        let throttle = Throttle::new(1000);
        throttle.take(5_000).await;
        throttle.set_bytes_per_second(1_000_000);
        throttle.take(5_000_000).await;
        let begin = Instant::now();
        throttle.take(1).await;
        let waited = begin.elapsed();
        assert!(waited >= Duration::from_millis(4_900) && waited < Duration::from_secs(6), "{waited:?}");
        throttle.set_bytes_per_second(0);
        throttle.take(u64::MAX).await;
        throttle.take(1).await;
        assert_eq!(begin.elapsed(), waited);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_everything_until_it_ends() {
        let throttle = std::sync::Arc::new(Throttle::new(0));
        throttle.pause(true);
        let held = tokio::time::timeout(Duration::from_hours(1), throttle.take(1)).await;
        assert!(held.is_err());
        throttle.pause(false);
        throttle.take(1).await;
    }
}
