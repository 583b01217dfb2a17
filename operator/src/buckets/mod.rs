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
//!   sweep      takes the keys of users that have no BucketUser any more
//! ```
//!
//! A request whose answer was lost may have been carried out. Every step is compared with what is there
//! before it is made, so a reconcile that was cut anywhere is gone on with by the next one.

mod finalizer;
mod cluster;
mod namespace;
pub mod document;
pub mod validate;
mod report;
pub mod bucket;
pub mod user;
pub mod sweep;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{AccessCondition, AccessReason};
use crate::limits;
use crate::reconcile::{Context, ReconcileError, publish_foreign};
use cluster::FoundCluster;

/// How soon an object is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextLook {
    /// When the object changes.
    OnChange,
    /// After this time.
    After(std::time::Duration),
}

impl NextLook {
    fn of(settled: bool) -> Self {
        Self::After(if settled { limits::RESYNC_ACCESS } else { limits::RESYNC_ACCESS_UNSETTLED })
    }
}

/// An object and its cluster, for the question whose they are to work on.
struct ClaimedObject<'a> {
    reference: &'a ObjectReference,
    /// The last report on it.
    conditions: &'a [Condition],
    is_deleted: bool,
    cluster_namespace: &'a str,
    found: &'a FoundCluster,
}

/// Whether this installation works on an object: where it holds the lease of the namespace of the object's
/// cluster. No lease of the object's own namespace is asked for: its tenant may write any there, and would
/// keep its rights by one.
///
/// An object that is being deleted is let go without the lease, and one whose cluster is gone is reported
/// without it: a namespace that is being deleted takes none. Where another installation may work on the
/// cluster, because this one cannot look at it, a report of another is left as it is.
async fn is_ours(context: &Context, object: &ClaimedObject<'_>) -> Result<bool, ReconcileError> {
    let ClaimedObject { reference, conditions, is_deleted, cluster_namespace, found } = *object;
    let is_gone = match found {
        FoundCluster::Unwatched(_) => return Ok(is_deleted || !is_reported_by_another(conditions)),
        FoundCluster::Gone(_) => true,
        FoundCluster::Usable(_) | FoundCluster::Unusable(_) => false,
    };
    match context.namespaces.other_holder(cluster_namespace).await {
        Ok(None) => Ok(true),
        Ok(Some(other)) => {
            publish_foreign(&context.recorder, reference, cluster_namespace, &other).await;
            Ok(false)
        }
        Err(_) if is_deleted || is_gone => Ok(true),
        Err(cause) => Err(ReconcileError::NamespaceLease { namespace: cluster_namespace.to_owned(), cause }),
    }
}

/// Whether a report says anything else than that the cluster is not found.
fn is_reported_by_another(conditions: &[Condition]) -> bool {
    let ready = conditions.iter().find(|condition| condition.type_ == AccessCondition::Ready.as_str());
    ready.is_some_and(|ready| ready.reason != AccessReason::ClusterMissing.as_str())
}
