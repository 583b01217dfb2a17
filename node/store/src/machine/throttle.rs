//! The cost that background work may have: bytes per second, and whether it may run at all.
//!
//! Bytes are counted, not time: when the rate changes, bytes that are still unpaid are paid for at the new
//! rate, also by tasks that wait for them already.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::limits::CREDIT_MAX;

/// A budget of bytes per second, shared by all that take from it.
#[derive(Debug)]
pub(crate) struct Throttle {
    ledger: Mutex<ByteLedger>,
    rate_changes: watch::Sender<()>,
    paused: watch::Sender<bool>,
}

/// The bytes that were handed out and paid for, in billionths: a rate times nanoseconds.
#[derive(Debug)]
struct ByteLedger {
    bytes_per_second: u64,
    handed_out: u128,
    paid: u128,
    /// When `paid` was counted last.
    counted: Instant,
}

const BILLION: u128 = 1_000_000_000;

impl ByteLedger {
    fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, handed_out: 0, paid: 0, counted: Instant::now() }
    }

    /// Counts what was paid for until now, at most a little ahead of what was handed out.
    fn count(&mut self) {
        let now = Instant::now();
        let rate = u128::from(self.bytes_per_second);
        let paid = self.paid.saturating_add(now.duration_since(self.counted).as_nanos().saturating_mul(rate));
        let credit = CREDIT_MAX.as_nanos().saturating_mul(rate);
        self.paid = paid.min(self.handed_out.saturating_add(credit));
        self.counted = now;
    }

    /// Counts bytes that were handed out as paid for: they are not waited for any more.
    fn forgive(&mut self, bytes: u64) {
        self.paid = self.paid.saturating_add(u128::from(bytes) * BILLION).min(self.handed_out);
    }

    /// Another rate from here on. Without one nothing is counted, and nothing is left to be paid for.
    fn change_rate(&mut self, bytes_per_second: u64) {
        self.count();
        if bytes_per_second == 0 {
            self.paid = self.handed_out;
        }
        self.bytes_per_second = bytes_per_second;
    }

    /// Hands out bytes, and returns what has to be paid for before they are moved.
    fn hand_out(&mut self, bytes: u64) -> u128 {
        self.count();
        let before = self.handed_out;
        if self.bytes_per_second > 0 {
            self.handed_out = before.saturating_add(u128::from(bytes) * BILLION);
        }
        before
    }

    /// The time until this is paid for.
    fn time_until(&mut self, due: u128) -> Duration {
        self.count();
        let left = due.saturating_sub(self.paid);
        let left_ns = left.div_ceil(u128::from(self.bytes_per_second).max(1));
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        Duration::from_nanos(u64::try_from(left_ns).unwrap_or(u64::MAX))
    }
}

impl Throttle {
    /// A budget; 0 for any number.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        let ledger = Mutex::new(ByteLedger::new(bytes_per_second));
        Self { ledger, rate_changes: watch::Sender::new(()), paused: watch::Sender::new(false) }
    }

    /// Hands out another number of bytes per second from here on; 0 for any. Bytes that were handed out and
    /// not paid for are paid for at the new rate: at a low one they may be hours.
    pub(crate) fn set_bytes_per_second(&self, bytes_per_second: u64) {
        self.ledger.lock().change_rate(bytes_per_second);
        self.rate_changes.send_replace(());
    }

    /// Stops or resumes everything that takes from the budget.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    pub(crate) fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// The rate in force; 0 for none.
    pub(crate) fn bytes_per_second(&self) -> u64 {
        self.ledger.lock().bytes_per_second
    }

    /// As [`Self::take`], but waits for `patience` at most: bytes that are not paid for by then are moved
    /// unpaid.
    pub(crate) async fn take_within(&self, bytes: u64, patience: Duration) {
        let mut is_handed_out = false;
        let taken = tokio::time::timeout(patience, self.take_noting(bytes, &mut is_handed_out)).await;
        if taken.is_err() && is_handed_out {
            self.ledger.lock().forgive(bytes);
        }
    }

    /// Waits while everything is stopped, for work that moves next to no bytes.
    pub(crate) async fn wait_while_paused(&self) {
        let mut paused = self.paused.subscribe();
        // The sender lives as long as this budget.
        drop(paused.wait_for(|paused| !paused).await);
    }

    pub(crate) async fn take(&self, bytes: u64) {
        self.take_noting(bytes, &mut false).await;
    }

    async fn take_noting(&self, bytes: u64, is_handed_out: &mut bool) {
        let mut paused = self.paused.subscribe();
        // The sender lives as long as this budget.
        drop(paused.wait_for(|paused| !paused).await);
        let mut rate_changes = self.rate_changes.subscribe();
        let due = self.ledger.lock().hand_out(bytes);
        *is_handed_out = true;
        loop {
            // A pause that came meanwhile holds this, too, although it is paid for.
            drop(paused.wait_for(|paused| !paused).await);
            let wait = self.ledger.lock().time_until(due);
            if wait.is_zero() && !self.is_paused() {
                return;
            }
            // Cancel-safe: a change that comes meanwhile is seen by the next wait.
            drop(tokio::time::timeout(wait, rate_changes.changed()).await);
        }
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

    async fn waited(throttle: &Throttle, bytes: u64) -> Duration {
        let begin = Instant::now();
        throttle.take(bytes).await;
        begin.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_unpaid_is_paid_for_at_the_new_rate() {
        let throttle = Throttle::new(1000);
        // A little below an hour at the first rate.
        throttle.take(3_500_000).await;
        throttle.set_bytes_per_second(1_000_000);
        let raised = waited(&throttle, 5_000_000).await;
        assert!(raised >= Duration::from_secs(3) && raised < Duration::from_secs(4), "{raised:?}");
        throttle.set_bytes_per_second(100_000);
        let lowered = waited(&throttle, 1).await;
        assert!(lowered >= Duration::from_secs(49) && lowered < Duration::from_secs(51), "{lowered:?}");
        throttle.set_bytes_per_second(0);
        assert_eq!(waited(&throttle, u64::MAX).await, Duration::ZERO);
        assert_eq!(waited(&throttle, 1).await, Duration::ZERO);
        throttle.set_bytes_per_second(1000);
        assert_eq!(waited(&throttle, 1000).await, Duration::ZERO, "without a rate nothing was owed");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_waits_already_follows_the_new_rate() {
        let throttle = Throttle::new(1000);
        throttle.take(3_600_000).await;
        let begin = Instant::now();
        let raise = async {
            tokio::time::sleep(Duration::from_mins(10)).await;
            throttle.set_bytes_per_second(1_000_000);
        };
        tokio::join!(throttle.take(1), raise);
        let waited = begin.elapsed();
        assert!(waited >= Duration::from_secs(602) && waited < Duration::from_secs(604), "{waited:?}");
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

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_what_waits_for_its_payment() {
        let throttle = Throttle::new(1000);
        throttle.take(5_000).await;
        let rests = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            throttle.pause(true);
            tokio::time::sleep(Duration::from_secs(59)).await;
            throttle.pause(false);
        };
        let ((), took) = tokio::join!(rests, waited(&throttle, 1));
        assert_eq!(took.as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_were_moved_unpaid_hold_up_no_other() {
        let throttle = Throttle::new(1000);
        throttle.take(20_000).await;
        throttle.take_within(1_000_000, Duration::from_secs(5)).await;
        assert_eq!(waited(&throttle, 1).await.as_secs(), 15);
        throttle.pause(true);
        throttle.take_within(1_000_000, Duration::from_secs(5)).await;
        throttle.pause(false);
        assert_eq!(waited(&throttle, 1).await, Duration::ZERO, "a pause forgives no debt of others");
    }
}
