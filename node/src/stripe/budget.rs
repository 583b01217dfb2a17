//! How many bytes may be in flight at one time: memory has a cap, and beyond it callers wait.
//!
//! Uploads take their share before they read the next stripe from the network, downloads before
//! they read the next window from the volumes. Whoever waits too long is told to slow down. Nobody
//! waits for a share while it holds one that only it can give back: all of them could.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one permit stands for.
const PERMIT_BYTES: usize = 4 << 10;

/// Bytes that may be in flight.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    permits_max: usize,
    wait_max: Duration,
}

/// A share of the budget; goes back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    _permit: OwnedSemaphorePermit,
}

/// Nothing became free in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("buffer budget exhausted")]
pub(crate) struct Exhausted;

impl Budget {
    /// A budget of `bytes`; callers wait at most `wait_max`.
    pub(crate) fn new(bytes: usize, wait_max: Duration) -> Self {
        let permits_max = bytes.div_ceil(PERMIT_BYTES).max(1);
        Self { permits: Arc::new(Semaphore::new(permits_max)), permits_max, wait_max }
    }

    /// Takes a share of `bytes`, or of everything where that is less: one huge request goes alone.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Share, Exhausted> {
        let permits = self.permits(bytes)?;
        let acquire = Arc::clone(&self.permits).acquire_many_owned(permits);
        match tokio::time::timeout(self.wait_max, acquire).await {
            Ok(Ok(permit)) => Ok(Share { _permit: permit }),
            Ok(Err(_)) | Err(_) => Err(Exhausted),
        }
    }

    /// As [`Self::take`], when it is free at this moment: for work ahead of what is needed.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Share> {
        let permits = self.permits(bytes).ok()?;
        let permit = Arc::clone(&self.permits).try_acquire_many_owned(permits).ok()?;
        Some(Share { _permit: permit })
    }

    fn permits(&self, bytes: usize) -> Result<u32, Exhausted> {
        let permits = bytes.div_ceil(PERMIT_BYTES).clamp(1, self.permits_max);
        u32::try_from(permits).map_err(|_| Exhausted)
    }

    /// Bytes that nobody has a share of.
    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> usize {
        self.permits.available_permits() * PERMIT_BYTES
    }
}

/// Bytes that keep a share taken for as long as any slice of them is held: the memory behind them is
/// in use until then, by whoever.
pub(super) fn with_share(bytes: Bytes, share: &Arc<Share>) -> Bytes {
    struct Counted {
        bytes: Bytes,
        _share: Arc<Share>,
    }
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    Bytes::from_owner(Counted { bytes, _share: Arc::clone(share) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beyond_the_budget_callers_wait_and_then_give_up() {
        let budget = Budget::new(8 << 10, Duration::from_secs(5));
        let first = budget.take(8 << 10).await.expect("free");
        assert_eq!(budget.take(1).await.err(), Some(Exhausted));
        drop(first);
        assert!(budget.try_take(8 << 10).is_some());
        budget.take(1 << 30).await.expect("more than the budget takes all of it");
    }

    #[tokio::test]
    async fn a_share_comes_back_with_the_last_slice_of_its_bytes() {
        let budget = Budget::new(8 << 10, Duration::ZERO);
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
}
