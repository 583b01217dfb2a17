//! A change has every other node forget the views that it made old, so that it is in force through all of
//! them when its call returns.
//!
//! ```text
//! commit -> this node forgets -> calls to all others at once -> each answered: done
//!                                                     -> not: 2.5 s after the commit
//! ```
//! A node that was not reached, or lacks the call, takes no view that was read before the commit after
//! these 2 s: a view is as old as the beginning of its read. Guards I-20 and I-21.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use sherd_core::id::ObjectKey;

use super::limits::{FORGET_CALLS_MAX, FORGET_MARGIN, FORGET_PAUSE, VIEW_PERIOD};
use crate::cluster::asker::{AskError, Gateways};

/// The views that a change made old.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChangedViews<'a> {
    /// The one of a bucket.
    Bucket(&'a ObjectKey),
    /// Those of all access keys, and of the account.
    Iam,
}

impl fmt::Display for ChangedViews<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(name) => write!(f, "the view of bucket {name}"),
            Self::Iam => f.write_str("the views of access keys"),
        }
    }
}

/// Calls that have the other nodes forget views. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ForgetCalls {
    others: Option<Arc<dyn Gateways>>,
    calls: Arc<Semaphore>,
}

impl ForgetCalls {
    /// To these nodes; `None` of a node alone.
    pub(crate) fn new(others: Option<Arc<dyn Gateways>>) -> Self {
        Self { others, calls: Arc::new(Semaphore::new(FORGET_CALLS_MAX)) }
    }

    /// Has every node forget views that a commit just made old, this one by `forget_here`. Returns when no
    /// node takes a view from before any more.
    pub(crate) async fn everywhere(&self, changed: ChangedViews<'_>, forget_here: impl FnOnce() + Send) {
        let until = Instant::now() + VIEW_PERIOD + FORGET_MARGIN;
        forget_here();
        let Some(others) = &self.others else { return };
        let told = others.names().into_iter().map(|node| async move {
            let told = timeout_at(until, self.tell(&**others, &node, changed)).await.unwrap_or(false);
            if !told {
                tracing::info!(node, %changed, "the node did not say that it forgot");
            }
            told
        });
        if !join_all(told).await.into_iter().all(|told| told) {
            sleep_until(until).await;
        }
    }

    /// Calls a node, again where it was not reached; `false` where it refuses.
    async fn tell(&self, others: &dyn Gateways, node: &str, changed: ChangedViews<'_>) -> bool {
        loop {
            let place = self.calls.acquire().await;
            let answer = match changed {
                ChangedViews::Bucket(name) => others.forget_bucket(node, name).await,
                ChangedViews::Iam => others.forget_iam(node).await,
            };
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
