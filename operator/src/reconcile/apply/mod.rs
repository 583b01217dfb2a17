//! Makes children true by server-side apply: the operator's fields are put back as built, fields of others
//! stay. A child that is as the last apply left it is not written. One that the API server refuses keeps no
//! other from being made: each is tried, and all refusals are returned.
//!
//! A merge can be refused for good: a list of ports that merges by number gets a second port of the same name,
//! a budget with another person's `minAvailable` a second bound. Such a child is replaced as a whole.

mod replace;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams, Preconditions, ValidationDirective};
use kube::{Api, Client, Resource as _, ResourceExt as _};

use super::children::{AppliedChild, AppliedChildren, Child, asked, fingerprint};
use super::error::ReconcileError;
use super::observe::ObservedCluster;
use super::validate::ValidCluster;
use crate::names::FIELD_MANAGER;

/// What an apply did to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildChange {
    /// It was not there.
    Created,
    /// Another person's or program's change was undone.
    PutBack,
    /// Another object is asked for than before.
    Changed,
    /// It was deleted, to be made again by the next reconcile; its pods stay.
    Orphaned,
}

/// What an apply of all children came to.
#[derive(Debug, Default)]
pub(super) struct AppliedCluster {
    /// Kind and name of each child that was changed.
    pub(super) changes: Vec<(String, ChildChange)>,
    /// A failure for each child that could not be made true.
    pub(super) failures: Vec<ReconcileError>,
}

/// Creates the first Secret of a cluster, and fails where another operator was faster: the CA that
/// certificates are issued under is never replaced by a second one.
///
/// # Errors
/// [`ReconcileError::Api`], a conflict among them.
pub(super) async fn create_authority(
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
    let names = valid.names();
    let mut cluster = AppliedCluster::default();
    for child in children {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &names.namespace, &child.resource);
        let live = observed.children.get(&child.title());
        if live.is_some_and(|live| live.metadata.deletion_timestamp.is_some()) {
            // Its end begins the next reconcile.
            continue;
        }
        let (last, asked) = (applied.get(names, &child.title()), asked(child));
        let before = live.map(fingerprint);
        if last.is_some_and(|last| last.asked == asked && Some(last.left) == before) {
            continue;
        }
        let change = match write(&api, valid, child, live.is_some()).await {
            Ok(Some(object)) => {
                let left = fingerprint(&object);
                applied.insert(names, child.title(), AppliedChild { asked, left });
                match before {
                    None => Some(ChildChange::Created),
                    Some(before) if before == left => None,
                    Some(_) if last.is_some_and(|last| last.asked != asked) => Some(ChildChange::Changed),
                    Some(_) => Some(ChildChange::PutBack),
                }
            }
            Ok(None) => Some(ChildChange::Orphaned),
            Err(failure) => {
                cluster.failures.push(failure);
                None
            }
        };
        cluster.changes.extend(change.map(|change| (child.title(), change)));
    }
    applied.keep(names, children);
    cluster
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
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(refusal)) if refusal.code == 422 && is_there => {
            let replaced = replace::replace(api, valid, child, kube::Error::Api(refusal)).await;
            replaced.map_err(failed)
        }
        Err(source) => Err(failed(source)),
    }
}

/// Applies a child. Fields of one that was observed are put back by force. An object that was absent then may
/// have been created by a person since: its fields give a conflict, and the next reconcile finds its owner.
async fn patch(api: &Api<DynamicObject>, child: &Child, force: bool) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        force,
        ..PatchParams::apply(FIELD_MANAGER)
    };
    api.patch(&child.name, &params, &Patch::Apply(&child.object)).await
}

/// Removes the network policy of a cluster that asks for none; a policy that the cluster does not own stays.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn remove_unwanted(client: &Client, valid: &ValidCluster<'_>) -> Result<(), ReconcileError> {
    let (cluster, names) = (valid.cluster(), valid.names());
    if cluster.spec.network_policy.enabled {
        return Ok(());
    }
    let name = names.node();
    let api: Api<NetworkPolicy> = Api::namespaced(client.clone(), &names.namespace);
    let failed = |source| ReconcileError::api("delete", "NetworkPolicy".into(), &name, source);
    let Some(found) = api.get_metadata_opt(&name).await.map_err(failed)? else { return Ok(()) };
    let uid = cluster.meta().uid.as_deref().unwrap_or_default();
    if !found.owner_references().iter().any(|owner| owner.uid == uid) {
        return Ok(());
    }
    let params = kube::api::DeleteParams {
        preconditions: Some(Preconditions { uid: found.uid(), resource_version: None }),
        ..kube::api::DeleteParams::default()
    };
    match api.delete(&name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(failed(source)),
    }
}
