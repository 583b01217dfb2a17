//! The geometry of a pool on its claims. Volumes keep what their cluster was formed with, so a
//! StorageCluster that is made again over claims of another geometry cannot run: it is refused before any
//! pod is made.
//!
//! The operator writes the geometry on the claims of a formed cluster. Claims without it, of a cluster that
//! never formed, are not judged; the nodes refuse what does not fit.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::error::ReconcileError;
use super::formed::has_formed;
use super::observe::ObservedCluster;
use super::plan::{Blockage, BlockedPart};
use super::remarks::Remark;
use super::validate::ValidCluster;
use super::words::listed;
use crate::api::Reason;
use crate::names::GEOMETRY_ANNOTATION;

/// The geometry that a specification asks for, as claims carry it.
fn asked(valid: &ValidCluster<'_>) -> String {
    let (nodes, volumes) = (valid.pool().nodes, valid.pool().volumes_per_node);
    let geometry = valid.sets().geometry();
    format!(
        "nodes={nodes},volumesPerNode={volumes},setSize={},parity={}",
        geometry.volumes(),
        geometry.parity_shards()
    )
}

fn said(claim: &PersistentVolumeClaim) -> Option<&String> {
    claim.annotations().get(GEOMETRY_ANNOTATION)
}

/// The claims with names of the pool, with any ordinals.
fn of_pool<'a>(
    valid: &'a ValidCluster<'_>,
    observed: &'a ObservedCluster,
) -> impl Iterator<Item = &'a PersistentVolumeClaim> {
    let (names, pool) = (valid.names(), &valid.pool().name);
    observed.claims.iter().filter(move |claim| names.is_claim(pool, &claim.name_any()))
}

/// Checks that the claims that are there are of the geometry that is asked for. A cluster that was formed
/// is not judged: its geometry cannot change.
///
/// # Errors
/// The [`Blockage`] says what the claims are of and how to go on.
pub(super) fn check(valid: &ValidCluster<'_>, observed: &ObservedCluster) -> Result<(), Blockage> {
    if has_formed(valid.cluster()) {
        return Ok(());
    }
    let asked = asked(valid);
    let others: Vec<_> = of_pool(valid, observed)
        .filter_map(|claim| Some((claim.name_any(), said(claim)?)))
        .filter(|(_, said)| **said != asked)
        .collect();
    let Some((_, other)) = others.first() else { return Ok(()) };
    let cluster = &valid.names().cluster;
    let claims: Vec<&str> = others.iter().map(|(claim, _)| claim.as_str()).collect();
    let message = format!(
        "claims {} are of a cluster of {other}, and the specification asks for {asked}: delete the StorageCluster and make it again with the geometry of its claims; only if their data is not wanted, delete them (kubectl delete pvc -l sherd.dev/cluster={cluster})",
        listed(&claims)
    );
    Err(Blockage { part: BlockedPart::Geometry, reason: Reason::GeometryDiffers, message })
}

/// Names the claims with the cluster's label that no pod of it uses; `None` where all are used.
pub(super) fn stray(valid: &ValidCluster<'_>, observed: &ObservedCluster) -> Option<Remark> {
    let pool = valid.pool();
    let pods = valid.names().pods(&pool.name, pool.nodes);
    let is_used = |claim: &str| {
        let parts = claim.strip_prefix('v').and_then(|rest| rest.split_once('-'));
        parts.is_some_and(|(volume, pod)| {
            let volume = volume.parse::<i32>().unwrap_or(0);
            (1..=pool.volumes_per_node).contains(&volume) && pods.iter().any(|wanted| wanted == pod)
        })
    };
    let names = observed.claims.iter().map(PersistentVolumeClaim::name_any);
    let mut stray: Vec<String> = names.filter(|claim| !is_used(claim)).collect();
    stray.sort_unstable();
    (!stray.is_empty()).then(|| {
        let text = format!(
            "claims {} have the cluster's label and no pod uses them: they may hold data of a cluster of another geometry or pool",
            listed(&stray.iter().map(String::as_str).collect::<Vec<_>>())
        );
        Remark { reason: Reason::StrayClaims, text }
    })
}

/// Writes the geometry on the claims of a formed cluster that do not say it.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn mend_claims(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
) -> Result<(), ReconcileError> {
    if !has_formed(valid.cluster()) {
        return Ok(());
    }
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &valid.names().namespace);
    let asked = asked(valid);
    for claim in of_pool(valid, observed).filter(|claim| said(claim).is_none()) {
        let name = claim.name_any();
        let mended = json!({"metadata": {"uid": claim.uid(), "annotations": {GEOMETRY_ANNOTATION: asked}}});
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(mended)).await {
            Ok(_) => {}
            // The claim was deleted, or made again, since it was seen.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(source) => {
                return Err(ReconcileError::api("patch", "PersistentVolumeClaim".into(), &name, source));
            }
        }
    }
    Ok(())
}
