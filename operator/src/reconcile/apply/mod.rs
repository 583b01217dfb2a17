//! Makes children true by server-side apply: the operator's fields are put back as built, fields of others
//! stay. A child that is as the last apply left it is not written. One that the API server refuses keeps no
//! other from being made: each is tried, and all refusals are returned.
//!
//! The pods' template is the operator's alone: it is replaced as a whole.
//!
//! A merge can be refused for good: a list of ports that merges by number gets a second port of the same
//! name, a budget with another person's `minAvailable` a second bound. Such a child is replaced as a whole.

mod patch;
mod replace;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client, ResourceExt as _};

use self::patch::patch;
use super::children::{AppliedChild, AppliedChildren, Child, asked, fingerprint, title};
use super::error::ReconcileError;
use super::observe::{ChildOwner, ObservedCluster, owner_of};
use super::validate::ValidCluster;
use crate::names::FIELD_MANAGER;

/// The change that an apply made to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildChange {
    /// The child was not there.
    Created,
    /// Another person's or program's change was undone.
    PutBack,
    /// Another object is asked for than before, or than an earlier process left.
    Changed,
    /// The child was deleted, to be made again by the next reconcile; its pods stay.
    Orphaned,
    /// A pod that never started was deleted.
    NeverStarted,
    /// A template that its pods were to keep is gone.
    TemplateLost,
}

/// The changes and failures of an apply of all children.
#[derive(Debug, Default)]
pub(super) struct AppliedCluster {
    /// Kind and name of each child that was changed.
    pub(super) changes: Vec<(String, ChildChange)>,
    /// A failure for each child that could not be made true.
    pub(super) failures: Vec<ReconcileError>,
}

/// Creates the first Secret of a cluster, with all that cannot be made again, and fails where another
/// operator was faster: the CA that certificates are issued under is never replaced by a second one.
///
/// # Errors
/// [`ReconcileError::Api`], a conflict among them.
pub(super) async fn create_first(
    client: &Client,
    valid: &ValidCluster<'_>,
    child: &Child,
) -> Result<(), ReconcileError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &valid.names().namespace);
    let secret = serde_json::from_value(child.object.clone()).map_err(ReconcileError::Build)?;
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let created = api.create(&params, &secret).await;
    created.map(|_| ()).map_err(|source| ReconcileError::api("create", "Secret".into(), &child.name, source))
}

/// Applies all children, in order.
pub(super) async fn apply(
    client: &Client,
    valid: &ValidCluster<'_>,
    children: &[Child],
    observed: &ObservedCluster,
    applied: &AppliedChildren,
) -> AppliedCluster {
    let mut cluster = AppliedCluster::default();
    for child in children {
        match apply_child(client, valid, child, observed, applied).await {
            Ok(change) => cluster.changes.extend(change.map(|change| (child.title(), change))),
            Err(failure) => cluster.failures.push(failure),
        }
    }
    // The budget is applied by itself.
    let budget = ApiResource::erase::<PodDisruptionBudget>(&());
    let budget = title(&budget, &valid.names().pool(&valid.pool().name));
    let titles: Vec<String> = children.iter().map(Child::title).chain([budget]).collect();
    applied.keep(valid.names(), &titles);
    cluster
}

/// Applies one child, where it differs.
///
/// # Errors
/// [`ReconcileError::Api`] names the child.
pub(super) async fn apply_child(
    client: &Client,
    valid: &ValidCluster<'_>,
    child: &Child,
    observed: &ObservedCluster,
    applied: &AppliedChildren,
) -> Result<Option<ChildChange>, ReconcileError> {
    let names = valid.names();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &names.namespace, &child.resource);
    let live = observed_child(&api, valid, child, observed).await?;
    if live.as_ref().is_some_and(|live| live.metadata.deletion_timestamp.is_some()) {
        // The end of the child begins the next reconcile.
        return Ok(None);
    }
    let (last, asked) = (applied.get(names, &child.title()), asked(child));
    let before = live.as_ref().map(|live| fingerprint(live));
    if last.as_ref().is_some_and(|last| last.asked == asked && Some(last.left) == before) {
        return Ok(None);
    }
    let Some(object) = write(&api, valid, child, live.is_some()).await? else {
        return Ok(Some(ChildChange::Orphaned));
    };
    let (left, version) = (fingerprint(&object), object.resource_version());
    // The watch may not have seen the last apply yet.
    let is_known = last.as_ref().is_some_and(|last| last.version == version);
    let was_asked = last.as_ref().map(|last| last.asked);
    applied.insert(names, child.title(), AppliedChild { asked, left, version });
    Ok(match before {
        None => Some(ChildChange::Created),
        Some(before) if before == left || is_known => None,
        Some(_) if was_asked == Some(asked) => Some(ChildChange::PutBack),
        Some(_) => Some(ChildChange::Changed),
    })
}

/// Returns a child as an apply would leave it, and applies nothing; nothing where the API server refuses it.
///
/// # Errors
/// [`ReconcileError::Api`] names the child.
pub(super) async fn would_be(
    client: &Client,
    valid: &ValidCluster<'_>,
    child: &Child,
) -> Result<Option<DynamicObject>, ReconcileError> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &valid.names().namespace, &child.resource);
    match patch::dry_run(&api, child).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(refusal)) if refusal.code == 422 => Ok(None),
        Err(source) => {
            Err(ReconcileError::api("try to apply", child.resource.kind.as_str().into(), &child.name, source))
        }
    }
}

/// The child as it was observed. A ConfigMap is named by its content, so that one whose labels a person took
/// is looked for here.
async fn observed_child(
    api: &Api<DynamicObject>,
    valid: &ValidCluster<'_>,
    child: &Child,
    observed: &ObservedCluster,
) -> Result<Option<Arc<DynamicObject>>, ReconcileError> {
    let seen = observed.children.get(&child.title()).cloned();
    if seen.is_some() || child.resource.kind != "ConfigMap" {
        return Ok(seen);
    }
    let found = api.get_opt(&child.name).await;
    let failed = |source| ReconcileError::api("read", "ConfigMap".into(), &child.name, source);
    let is_own =
        |found: &DynamicObject| owner_of(found, valid.cluster(), valid.names()) == ChildOwner::Cluster;
    Ok(found.map_err(failed)?.filter(is_own).map(Arc::new))
}

/// Writes one child, and returns it as it is then; nothing where it was deleted, to be made again.
async fn write(
    api: &Api<DynamicObject>,
    valid: &ValidCluster<'_>,
    child: &Child,
    is_there: bool,
) -> Result<Option<DynamicObject>, ReconcileError> {
    let failed =
        |source| ReconcileError::api("apply", child.resource.kind.as_str().into(), &child.name, source);
    match patch(api, child, is_there).await {
        Ok(_) if is_there && child.is::<StatefulSet>() => {
            patch::replace_template(api, child).await.map(Some).map_err(failed)
        }
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(refusal)) if refusal.code == 422 && is_there => {
            let replaced = replace::replace(api, valid, child, kube::Error::Api(refusal)).await;
            replaced.map_err(failed)
        }
        Err(source) => Err(failed(source)),
    }
}
