//! How many bytes may be in flight at one time: memory has a cap, and beyond it callers wait.
//!
//! Uploads take their share before they read the next stripe from the network, downloads before they read the
//! next window from the volumes, documents before they arrive and lists before they are made. A request that
//! waits too long is answered with `SlowDown`. No holder of a share waits for another one while only it can
//! give the first back: all of them could do so at once. Participants share the budget evenly, and a request
//! that waits asks slow connections for their shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::machine::limits::ASK_EVERY;
use crate::machine::reclaim::Reclaim;

const PERMIT_BYTES: usize = 4 << 10;

/// How the cap of the buffer pool is divided among what is in flight: none of them can starve another. Values
/// lie in memory of their own, so the pool hands out less by what they may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CapShares {
    pub(crate) uploads: usize,
    pub(crate) downloads: usize,
    /// Register values that are longer than an answer carries without being asked for their length.
    pub(crate) values: usize,
}

impl CapShares {
    /// Half for uploads, an eighth for values, and the rest for downloads.
    pub(crate) const fn of(cap_bytes: usize) -> Self {
        let (uploads, values) = (cap_bytes / 2, cap_bytes / 8);
        Self { uploads, downloads: cap_bytes - uploads - values, values }
    }
}

/// Bytes that may be in flight.
#[derive(Debug, Clone)]
pub struct Budget {
    permits: Arc<Semaphore>,
    permits_max: usize,
    wait_max: Duration,
    reclaim: Reclaim,
    takers: Arc<AtomicUsize>,
}

/// A participant of a budget, for as long as it lives.
#[derive(Debug)]
pub(crate) struct BudgetShare(Arc<AtomicUsize>);

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A share of the budget; goes back when dropped.
#[derive(Debug)]
pub struct Share {
    permit: OwnedSemaphorePermit,
}

impl Share {
    /// Gives back what is more than `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let unneeded = self.permit.num_permits().saturating_sub(bytes.div_ceil(PERMIT_BYTES));
        drop(self.permit.split(unneeded));
    }

    /// Splits off `bytes` of it, or all of it where that is less.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let permits = bytes.div_ceil(PERMIT_BYTES).min(self.permit.num_permits());
        Self { permit: self.permit.split(permits).expect("at most what it has") }
    }
}

/// Nothing became free in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("buffer budget exhausted")]
pub struct BudgetExhausted;

impl Budget {
    /// A budget of `bytes`; callers wait at most `wait_max`, and ask for buffers by `reclaim` meanwhile.
    pub fn new(bytes: usize, wait_max: Duration, reclaim: Reclaim) -> Self {
        let permits_max = bytes.div_ceil(PERMIT_BYTES).max(1);
        let permits = Arc::new(Semaphore::new(permits_max));
        let takers = Arc::default();
        Self { permits, permits_max, wait_max, reclaim, takers }
    }

    pub(crate) fn join(&self) -> BudgetShare {
        self.takers.fetch_add(1, Ordering::AcqRel);
        BudgetShare(Arc::clone(&self.takers))
    }

    /// How many participate.
    pub(crate) fn takers(&self) -> usize {
        self.takers.load(Ordering::Acquire)
    }

    pub(crate) fn fair_bytes(&self) -> usize {
        self.permits_max * PERMIT_BYTES / self.takers().max(1)
    }

    /// Takes a share of `bytes`, or of everything where that is less: one huge request goes alone.
    ///
    /// # Errors
    /// [`BudgetExhausted`] when no room was free in time.
    pub async fn take(&self, bytes: usize) -> Result<Share, BudgetExhausted> {
        let permits = self.permits(bytes)?;
        let acquire = Arc::clone(&self.permits).acquire_many_owned(permits);
        match tokio::time::timeout(self.wait_max, self.ask_until(acquire)).await {
            Ok(Ok(permit)) => Ok(Share { permit }),
            Ok(Err(_)) | Err(_) => Err(BudgetExhausted),
        }
    }

    /// Whether a holder whose client moves `bytes_per_second` is to give its share up, as
    /// [`Reclaim::takes`].
    pub(crate) fn takes(&self, bytes_per_second: u64) -> bool {
        self.reclaim.takes(bytes_per_second)
    }

    /// Waits for permits, and asks slow connections for theirs from time to time.
    async fn ask_until<T>(
        &self,
        acquire: impl Future<Output = Result<T, AcquireError>>,
    ) -> Result<T, AcquireError> {
        let mut acquire = std::pin::pin!(acquire);
        if let std::task::Poll::Ready(permit) = futures::poll!(acquire.as_mut()) {
            return permit;
        }
        let _waiting = self.reclaim.wait();
        let begun = Instant::now();
        loop {
            match tokio::time::timeout(ASK_EVERY, acquire.as_mut()).await {
                Ok(permit) => return permit,
                Err(_elapsed) => self.reclaim.ask(begun.elapsed()),
            }
        }
    }

    /// As [`Self::take`], when it is free at this moment: for work ahead of what is needed.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Share> {
        let permits = self.permits(bytes).ok()?;
        let permit = Arc::clone(&self.permits).try_acquire_many_owned(permits).ok()?;
        Some(Share { permit })
    }

    fn permits(&self, bytes: usize) -> Result<u32, BudgetExhausted> {
        let permits = bytes.div_ceil(PERMIT_BYTES).clamp(1, self.permits_max);
        u32::try_from(permits).map_err(|_| BudgetExhausted)
    }

    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> usize {
        self.permits.available_permits() * PERMIT_BYTES
    }
}

/// Bytes that keep a share taken for as long as any slice of them is held: the memory behind them is in use
/// until then.
pub fn with_share(bytes: Bytes, share: &Arc<Share>) -> Bytes {
    struct CountedBytes {
        bytes: Bytes,
        _share: Arc<Share>,
    }
    impl AsRef<[u8]> for CountedBytes {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    Bytes::from_owner(CountedBytes { bytes, _share: Arc::clone(share) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beyond_the_budget_callers_wait_and_then_give_up() {
        let budget = Budget::new(8 << 10, Duration::from_secs(5), Reclaim::default());
        let first = budget.take(8 << 10).await.expect("free");
        assert_eq!(budget.take(1).await.err(), Some(BudgetExhausted));
        drop(first);
        assert!(budget.try_take(8 << 10).is_some());
        budget.take(1 << 30).await.expect("more than the budget takes all of it");
    }

    #[tokio::test]
    async fn a_share_gives_back_what_it_does_not_need() {
        let budget = Budget::new(16 << 10, Duration::ZERO, Reclaim::default());
        let mut share = budget.take(16 << 10).await.expect("free");
        share.shrink(5 << 10);
        assert_eq!(budget.free_bytes(), 8 << 10);
        share.shrink(1 << 30);
        assert_eq!(budget.free_bytes(), 8 << 10);
        drop(share);
        assert_eq!(budget.free_bytes(), 16 << 10);
    }

    #[tokio::test]
    async fn a_share_comes_back_with_the_last_slice_of_its_bytes() {
        let budget = Budget::new(8 << 10, Duration::ZERO, Reclaim::default());
        let share = Arc::new(budget.take(8 << 10).await.expect("free"));
        let [one, two] = [b"one", b"two"].map(|text| with_share(Bytes::from_static(text), &share));
        drop(share);
        let slice = two.slice(1..);
        drop((one, two));
        assert_eq!((&slice[..], budget.free_bytes()), (&b"wo"[..], 0));
        assert!(budget.try_take(1).is_none());
        drop(slice);
        assert_eq!(budget.free_bytes(), 8 << 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_read_asks_for_buffers_and_withdraws_when_it_has_them() {
        let reclaim = Reclaim::default();
        let budget = Budget::new(8 << 10, Duration::from_secs(15), reclaim.clone());
        let first = budget.take(8 << 10).await.expect("free");
        assert!(!reclaim.takes(0), "no read waited");
        let mut second = Box::pin(budget.take(4 << 10));
        assert!(futures::poll!(second.as_mut()).is_pending());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(futures::poll!(second.as_mut()).is_pending());
        assert!(reclaim.takes(0), "a connection that does not move gives up");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(first);
        second.await.expect("what was given up");
        assert!(!reclaim.takes(0), "no read waits any more");
    }

    #[test]
    fn those_who_take_part_share_evenly() {
        let budget = Budget::new(1 << 20, Duration::ZERO, Reclaim::default());
        assert_eq!(budget.fair_bytes(), 1 << 20);
        let takers = [budget.join(), budget.join(), budget.join(), budget.join()];
        assert_eq!(budget.fair_bytes(), 1 << 18);
        drop(takers);
        assert_eq!(budget.fair_bytes(), 1 << 20);
    }
}
