//! Places for what reads many records: few at one time, and none waits without end.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::{IamError, Result};
use super::limits::PLACE_WAIT;

/// A number of places. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Semaphore>);

/// The place of a call that reads many records, free again when it is dropped. Functions that read all users
/// ask for it.
#[derive(Debug)]
pub struct SearchPlace(#[expect(dead_code, reason = "free again when it is dropped")] OwnedSemaphorePermit);

impl From<OwnedSemaphorePermit> for SearchPlace {
    fn from(permit: OwnedSemaphorePermit) -> Self {
        Self(permit)
    }
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Takes a place, which is free again when the permit is dropped.
    ///
    /// # Errors
    /// [`IamError::Busy`] where others hold all places for [`PLACE_WAIT`].
    pub(super) async fn take(&self) -> Result<OwnedSemaphorePermit> {
        match timeout(PLACE_WAIT, Arc::clone(&self.0).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(IamError::Busy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_place_that_others_hold_is_waited_for_and_then_refused() {
        let places = Places::new(2);
        let (first, second) = (places.take().await.expect("free"), places.take().await.expect("free"));
        assert!(matches!(places.take().await, Err(IamError::Busy)));
        drop(first);
        let third = places.take().await;
        assert!(third.is_ok(), "a place was given back");
        drop((second, third));
    }
}
