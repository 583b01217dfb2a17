//! A change of a bucket has every node forget its view, so that it is in force through all of them when its
//! call returns. Guards I-20.

use std::sync::Arc;

use sherd_core::id::ObjectKey;

use super::look_up::BucketRegisters;
use crate::cluster::asker::Gateways;
use crate::views::{ChangedViews, ForgetCalls};

/// The nodes that remember views of buckets, this one and the others. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::object) struct ViewForgetting {
    pub(super) under: BucketRegisters,
    calls: ForgetCalls,
}

impl ViewForgetting {
    pub(in crate::object) fn new(under: BucketRegisters, others: Option<Arc<dyn Gateways>>) -> Self {
        Self { under, calls: ForgetCalls::new(others) }
    }

    /// Has every node forget its view of a bucket that was just changed. Returns when no node takes a view
    /// from before any more.
    pub(super) async fn everywhere(&self, bucket: &ObjectKey) {
        self.calls.everywhere(ChangedViews::Bucket(bucket), || self.under.views.forget(bucket)).await;
    }
}

#[cfg(test)]
mod tests;
