//! Whether a cluster was formed before, which `cluster.formed` in the live file of its nodes says: then those
//! whose volumes are all empty form no other one of the same id, that would look well.
//!
//! ```text
//! forms, serves -> status: a version, Ready not Forming -> the next reconcile writes the key
//! status lost   -> the ConfigMap of this StorageCluster has the key, so it stays
//! made again    -> claims say of what geometry their cluster was formed: the key is there before the pods
//! all claims lost, as every node reports -> DataLost, and an order -> the annotation has it: no key
//! formed again  -> no order in the status: the key is back
//! ```
//! A StorageCluster that is made again without any claim is a new one. No key is written before S3 served:
//! until then a formation that was cut short may begin again. Plain functions over values.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Resource as _, ResourceExt as _};
use sha2::{Digest as _, Sha256};
use sherd_core::id::ClusterId;
use sherd_proto::v1::StatusReply;

use super::losses::{PAGE, lacks_topology, process_of};
use super::nodes::NodeAnswers;
use super::observe::ObservedCluster;
use super::words::listed;
use crate::api::{ConditionType, Reason, StorageCluster};
use crate::limits;
use crate::names::{CLUSTER_ID_LABEL, FORM_EMPTY_ANNOTATION, GEOMETRY_ANNOTATION, LIVE_CONFIG, Names};

/// A cluster that was formed before and of which no volume is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LostCluster {
    /// [`Reason::DataLost`], or [`Reason::DataAtRisk`] while nodes that may hold it do not answer.
    pub(super) reason: Reason,
    /// Names the loss, and the way on.
    pub(super) message: String,
    /// The text of the annotation by which it forms again, empty.
    pub(super) order: Option<String>,
}

/// Whether the cluster was formed once: only a formed node's answer gives a version.
pub(super) fn has_formed(cluster: &StorageCluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| status.version.is_some())
}

/// Whether the cluster was ready at some time: its last report is more than that it forms.
pub(super) fn has_served(cluster: &StorageCluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|condition| condition.type_ == ConditionType::Ready.as_str());
    ready.any(|condition| condition.reason != Reason::Forming.as_str())
}

/// Whether the live file of the nodes is to say that the cluster of this id was formed before.
pub(super) fn is_written(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    id: ClusterId,
) -> bool {
    let was_lost = cluster.status.as_ref().is_some_and(|status| status.form_empty_order.is_some());
    let is_formed = (has_formed(cluster) && has_served(cluster))
        || was_lost
        || was_written(cluster, names, observed, id)
        || pool_claims(cluster, names, observed).any(|claim| is_of_formed(claim, id));
    is_formed && !is_let_go(cluster, &order(cluster, names, observed, id))
}

/// Whether the live file of this StorageCluster's nodes says it already.
fn was_written(cluster: &StorageCluster, names: &Names, observed: &ObservedCluster, id: ClusterId) -> bool {
    let Some(live) = observed.children.get(&format!("ConfigMap {}", names.live())) else { return false };
    let is_own = live.owner_references().iter().any(|owner| Some(&owner.uid) == cluster.meta().uid.as_ref());
    let text = live.data["data"][LIVE_CONFIG].as_str().unwrap_or_default();
    is_own && text.lines().any(|line| line == formed_line(id))
}

/// Returns the line of a live file, in its table `[cluster]`, that says that a cluster was formed before.
pub(super) fn formed_line(cluster: ClusterId) -> String {
    format!("formed = \"{cluster}\"")
}

/// Whether a claim is of a cluster that was formed: then it says of what geometry. One that is being deleted
/// counts no more: the next claim of its name is empty.
fn is_of_formed(claim: &PersistentVolumeClaim, id: ClusterId) -> bool {
    let is_of = claim.labels().get(CLUSTER_ID_LABEL).is_some_and(|label| *label == id.to_string());
    is_of
        && claim.meta().deletion_timestamp.is_none()
        && claim.annotations().contains_key(GEOMETRY_ANNOTATION)
}

/// The claims with names of the pool.
fn pool_claims<'a>(
    cluster: &'a StorageCluster,
    names: &'a Names,
    observed: &'a ObservedCluster,
) -> impl Iterator<Item = &'a PersistentVolumeClaim> {
    let pool = cluster.spec.pools.first().map(|pool| pool.name.as_str());
    let is_of = move |claim: &&PersistentVolumeClaim| {
        pool.is_some_and(|pool| names.is_claim(pool, &claim.name_any()))
    };
    observed.claims.iter().filter(is_of)
}

/// The text by which a person lets a lost cluster form again. It holds for the claims, pods and processes
/// that were seen: in an annotation that stays it allows nothing for a later loss.
fn order(cluster: &StorageCluster, names: &Names, observed: &ObservedCluster, id: ClusterId) -> String {
    let claims = pool_claims(cluster, names, observed).filter_map(PersistentVolumeClaim::uid);
    let mut seen: Vec<String> = claims.chain(observed.pods.iter().filter_map(process_of)).collect();
    seen.sort_unstable();
    let digest = hex::encode(Sha256::digest(seen.join(",")));
    format!("{id}={}", &digest[..limits::ORDER_DIGEST_CHARACTERS])
}

/// Whether a person lets the cluster form again. Once it has, the status has no order any more.
fn is_let_go(cluster: &StorageCluster, order: &str) -> bool {
    let offered = cluster.status.as_ref().and_then(|status| status.form_empty_order.as_deref());
    let asked = cluster.annotations().get(FORM_EMPTY_ANNOTATION).map(|text| text.trim());
    offered == Some(order) && asked == Some(order)
}

/// Judges whether no volume of the cluster is left. A node that answers and serves has one; one that begins
/// may have one, and reports it soon.
pub(super) fn find_lost(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    answers: &NodeAnswers,
    id: ClusterId,
) -> Option<LostCluster> {
    let is_formed = |reply: &StatusReply| reply.formation.as_ref().is_some_and(|formation| formation.formed);
    if answers.values().flatten().any(is_formed) {
        return None;
    }
    let order = order(cluster, names, observed, id);
    if is_let_go(cluster, &order) {
        let message = format!(
            "the nodes form cluster {id} again, empty, as annotation {FORM_EMPTY_ANNOTATION} orders; they take it within two minutes"
        );
        return Some(LostCluster { reason: Reason::DataLost, message, order: Some(order) });
    }
    let pool = cluster.spec.pools.first()?;
    let (mut empty, mut silent) = (Vec::new(), Vec::new());
    let pods = names.pods(&pool.name, pool.nodes);
    for pod in &pods {
        match answers.get(pod) {
            Some(Ok(reply)) if lacks_topology(reply) => empty.push(pod.as_str()),
            Some(Ok(_)) => return None,
            Some(Err(_)) | None => silent.push(pod.as_str()),
        }
    }
    if empty.is_empty() {
        return None;
    }
    if !silent.is_empty() {
        let message = format!(
            "cluster {id} was formed before, and no volume of it is on pods {}: bring back pods {} and their claims, which may hold it; until then nothing is formed. {PAGE}",
            listed(&empty),
            listed(&silent)
        );
        return Some(LostCluster { reason: Reason::DataAtRisk, message, order: None });
    }
    let has_other = cluster.annotations().contains_key(FORM_EMPTY_ANNOTATION);
    let other = if has_other { " (what it says is of other claims or pods)" } else { "" };
    let message = format!(
        "cluster {id} was formed before, and no volume of it is on any of its {} nodes: all that it stored is lost unless claims come back as they were, and nothing is formed in the empty ones; to begin again without the data, set annotation {FORM_EMPTY_ANNOTATION} to {order}{other}. {PAGE}",
        pods.len()
    );
    Some(LostCluster { reason: Reason::DataLost, message, order: Some(order) })
}
