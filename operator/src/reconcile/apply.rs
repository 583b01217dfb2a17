//! Makes children true by server-side apply: the operator's fields are put back as built, fields of
//! others stay. Only a network policy that the specification has turned off is deleted.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams, Preconditions, ValidationDirective};
use kube::{Api, Client, Resource as _, ResourceExt as _};

use super::children::Child;
use super::error::ReconcileError;
use super::validate::ValidCluster;
use crate::names::FIELD_MANAGER;

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

/// Applies children in order; the first that is refused ends it.
///
/// # Errors
/// [`ReconcileError::Api`] names the child.
pub(super) async fn apply(
    client: &Client,
    valid: &ValidCluster<'_>,
    children: &[Child],
    absent: &[String],
) -> Result<(), ReconcileError> {
    for Child { resource, name, object } in children {
        // Fields of a child are put back by force. An object that was absent when it was observed may have
        // been created by a person since: its fields then give a conflict, and the next reconcile finds its
        // owner.
        let force = !absent.contains(&format!("{} {name}", resource.kind));
        let params = PatchParams {
            field_validation: Some(ValidationDirective::Strict),
            force,
            ..PatchParams::apply(FIELD_MANAGER)
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &valid.names().namespace, resource);
        let applied = api.patch(name, &params, &Patch::Apply(object)).await;
        applied
            .map_err(|source| ReconcileError::api("apply", resource.kind.as_str().into(), name, source))?;
    }
    Ok(())
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
