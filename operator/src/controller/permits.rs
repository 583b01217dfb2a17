//! A bound on the reconciles that run at one time. A controller's own counts one namespace only.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits;

/// Permits of reconciles, by kind, so that clusters whose nodes answer slowly hold up no Bucket.
#[derive(Default)]
pub(super) struct ReconcilePermits(Mutex<HashMap<&'static str, Arc<Semaphore>>>);

impl ReconcilePermits {
    /// A permit, once one is free. It is given back when it is dropped.
    pub(super) async fn take(&self, kind: &'static str) -> Option<OwnedSemaphorePermit> {
        let new = || Arc::new(Semaphore::new(limits::RECONCILES_MAX.into()));
        let permits = Arc::clone(self.0.lock().entry(kind).or_insert_with(new));
        // The semaphores are never closed.
        permits.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn reconciles_of_one_kind_are_bounded_and_those_of_another_go_on() {
        let permits = ReconcilePermits::default();
        let mut taken = Vec::new();
        for _ in 0..limits::RECONCILES_MAX {
            taken.push(permits.take("bucket").now_or_never().flatten().expect("a free permit"));
        }
        let mut next = Box::pin(permits.take("bucket"));
        assert!(next.as_mut().now_or_never().is_none());
        assert!(permits.take("cluster").now_or_never().flatten().is_some());
        drop(taken.pop());
        assert!(next.now_or_never().flatten().is_some());
    }
}
