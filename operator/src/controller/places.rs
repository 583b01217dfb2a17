//! A bound on the reconciles that run at one time. A controller's own counts one namespace only.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits;

/// Places of reconciles, by kind, so that clusters whose nodes answer slowly hold up no Bucket.
#[derive(Default)]
pub(super) struct Places(Mutex<HashMap<&'static str, Arc<Semaphore>>>);

impl Places {
    /// A place, once one is free. It is given back when it is dropped.
    pub(super) async fn take(&self, kind: &'static str) -> Option<OwnedSemaphorePermit> {
        let new = || Arc::new(Semaphore::new(limits::RECONCILES_MAX.into()));
        let places = Arc::clone(self.0.lock().entry(kind).or_insert_with(new));
        // Nothing closes them.
        places.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn reconciles_of_one_kind_are_bounded_and_those_of_another_go_on() {
        let places = Places::default();
        let mut taken = Vec::new();
        for _ in 0..limits::RECONCILES_MAX {
            taken.push(places.take("bucket").now_or_never().flatten().expect("a free place"));
        }
        let mut next = Box::pin(places.take("bucket"));
        assert!(next.as_mut().now_or_never().is_none());
        assert!(places.take("cluster").now_or_never().flatten().is_some());
        drop(taken.pop());
        assert!(next.now_or_never().flatten().is_some());
    }
}
