//! How many bytes may be in flight at one time: memory has a cap, and beyond it callers wait.
//!
//! Uploads take their share before they read the next stripe from the network, downloads before
//! they read the next window from the volumes. Whoever waits too long is told to slow down.

use std::sync::Arc;
use std::time::Duration;

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
        let permits = bytes.div_ceil(PERMIT_BYTES).clamp(1, self.permits_max);
        let permits = u32::try_from(permits).map_err(|_| Exhausted)?;
        let acquire = Arc::clone(&self.permits).acquire_many_owned(permits);
        match tokio::time::timeout(self.wait_max, acquire).await {
            Ok(Ok(permit)) => Ok(Share { _permit: permit }),
            Ok(Err(_)) | Err(_) => Err(Exhausted),
        }
    }
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
        budget.take(1 << 30).await.expect("more than the budget takes all of it");
    }
}
