//! The claims that pods use and that have not the cluster's label: a StatefulSet takes its claims by name.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::stage::AskedSize;
use crate::api::ConditionType;
use crate::limits;
use crate::reconcile::condition::FALSE;
use crate::reconcile::error::ReconcileError;
use crate::reconcile::observe::ObservedCluster;
use crate::reconcile::validate::ValidCluster;

/// Returns the claims of the pool's pods that were not observed, as they have no label, and that stay.
/// All claims of the namespace are looked at for it, so it is asked only where one is missing while the
/// templates are about to change or claims grow.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn read(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    asked: &AskedSize,
) -> Result<Vec<PersistentVolumeClaim>, ReconcileError> {
    let (names, pool) = (valid.names(), valid.pool());
    let there: BTreeSet<&str> =
        observed.claims.iter().filter_map(|claim| claim.metadata.name.as_deref()).collect();
    let mut missing = names.claims(&pool.name, pool.nodes, pool.volumes_per_node);
    missing.retain(|name| !there.contains(name.as_str()));
    if missing.is_empty() || is_at_rest(valid, observed, asked) {
        return Ok(vec![]);
    }
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &names.namespace);
    let (mut found, mut params) = (Vec::new(), ListParams::default().limit(limits::LIST_MAX));
    loop {
        let page = api.list(&params).await.map_err(|source| {
            ReconcileError::api("list", "PersistentVolumeClaim".into(), "of the namespace", source)
        })?;
        found.extend(page.items.into_iter().filter(|claim| {
            claim.metadata.deletion_timestamp.is_none() && missing.contains(&claim.name_any())
        }));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// Whether the templates have the size, and no claim grew in the last report.
fn is_at_rest(valid: &ValidCluster<'_>, observed: &ObservedCluster, asked: &AskedSize) -> bool {
    let set = observed.stateful_set.as_ref().and_then(|set| set.spec.as_ref());
    let templates = set.and_then(|spec| spec.volume_claim_templates.as_ref());
    let status = valid.cluster().status.as_ref();
    let mut conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default().iter();
    let resizing = conditions.find(|found| found.type_ == ConditionType::StorageResizing.as_str());
    resizing.is_none_or(|resizing| resizing.status == FALSE)
        && templates.is_some_and(|templates| templates.iter().all(|claim| asked.is_asked_by(claim)))
}
