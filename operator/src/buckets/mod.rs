//! Reconciles of `Bucket` and `BucketUser`: objects of a StorageCluster that Kubernetes does not have, so
//! that they are compared and set by requests of S3 and IAM to its nodes.
//!
//! ```text
//!   cluster    finds the StorageCluster, its CA and its nodes, and whether this namespace may use it
//!   validate   checks the specification; a plain function
//!   bucket     observes, plans (a plain function), applies and reports a Bucket
//!   user       the same of a BucketUser: grants, policies, keys, Secret
//!   report     conditions, status, events
//!   finalizer  keeps an object until what it made is gone
//! ```
//!
//! A request whose answer was lost may have been carried out. Every step is compared with what is there
//! before it is made, so a reconcile that was cut anywhere is gone on with by the next one.

mod finalizer;
mod cluster;
pub mod document;
pub mod validate;
mod report;
pub mod bucket;
pub mod user;

use k8s_openapi::api::core::v1::ObjectReference;

use crate::lease::NamespaceClaim;
use crate::limits;
use crate::reconcile::{Context, ReconcileError, publish_foreign};

/// How soon an object is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextLook {
    /// When it changes.
    OnChange,
    /// After this time.
    After(std::time::Duration),
}

impl NextLook {
    fn of(settled: bool) -> Self {
        Self::After(if settled { limits::RESYNC_ACCESS } else { limits::RESYNC_ACCESS_UNSETTLED })
    }
}

/// Whether this installation works on a namespace. An object that is being deleted is let go without the
/// lease: a namespace that is being deleted takes none.
async fn is_ours(
    context: &Context,
    namespace: &str,
    reference: &ObjectReference,
    is_deleted: bool,
) -> Result<bool, ReconcileError> {
    match context.namespaces.claim(namespace).await {
        // The turn is given back at once: the order of changes in the cluster does not follow namespaces.
        Ok(NamespaceClaim::Own(_)) => Ok(true),
        Ok(NamespaceClaim::Foreign(other)) => {
            publish_foreign(&context.recorder, reference, namespace, &other).await;
            Ok(false)
        }
        Err(_) if is_deleted => Ok(true),
        Err(cause) => Err(ReconcileError::NamespaceLease { namespace: namespace.to_owned(), cause }),
    }
}
