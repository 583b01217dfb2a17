//! A change of a bucket has every node forget its view, so that it is in force through all of them when its
//! call returns.
//!
//! ```text
//! commit -> this node forgets -> calls to all others at once -> each answered: done
//!                                                     -> not: 2.5 s after the commit
//! ```
//! A node that was not reached, or lacks the call, takes no view that was read before the commit after
//! these 2 s: a view is as old as the beginning of its read. Guards I-20.

use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use sherd_core::id::ObjectKey;

use super::look_up::BucketRegisters;
use crate::cluster::asker::{AskError, Gateways};
use crate::object::limits::{BUCKET_VIEW_PERIOD, FORGET_CALLS_MAX, FORGET_MARGIN, FORGET_PAUSE};

/// The nodes that remember views of buckets, this one and the others. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::object) struct ViewForgetting {
    pub(super) under: BucketRegisters,
    others: Option<Arc<dyn Gateways>>,
    calls: Arc<Semaphore>,
}

impl ViewForgetting {
    pub(in crate::object) fn new(under: BucketRegisters, others: Option<Arc<dyn Gateways>>) -> Self {
        Self { under, others, calls: Arc::new(Semaphore::new(FORGET_CALLS_MAX)) }
    }

    /// Has every node forget its view of a bucket that was just changed. Returns when no node takes a view
    /// from before any more.
    pub(super) async fn everywhere(&self, bucket: &ObjectKey) {
        let until = Instant::now() + BUCKET_VIEW_PERIOD + FORGET_MARGIN;
        self.under.views.forget(bucket);
        let Some(others) = &self.others else { return };
        let told = others.names().into_iter().map(|node| async move {
            let told = timeout_at(until, self.tell(&**others, &node, bucket)).await.unwrap_or(false);
            if !told {
                tracing::info!(node, %bucket, "the node did not say that it forgot the bucket's view");
            }
            told
        });
        if !join_all(told).await.into_iter().all(|told| told) {
            sleep_until(until).await;
        }
    }

    /// Calls a node, again where it was not reached; `false` where it refuses.
    async fn tell(&self, others: &dyn Gateways, node: &str, bucket: &ObjectKey) -> bool {
        loop {
            let place = self.calls.acquire().await;
            let answer = others.forget_bucket(node, bucket).await;
            drop(place);
            match answer {
                Ok(()) => return true,
                Err(AskError::Refused { reason }) => {
                    tracing::debug!(node, reason, "a node does not forget views when it is told");
                    return false;
                }
                Err(AskError::Unreachable { .. }) => sleep(FORGET_PAUSE).await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
