//! Removes what the specification no longer asks for: a child that is turned off, and the configurations that
//! no pod mounts.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ApiResource, DynamicObject, Preconditions};
use kube::{Api, Client, Resource as _, ResourceExt as _};

use super::error::ReconcileError;
use super::observe::ObservedCluster;
use super::validate::ValidCluster;

/// Removes the children that the specification turned off; one that the cluster does not own stays.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn remove_former(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
) -> Result<(), ReconcileError> {
    for (resource, name) in &observed.leftovers {
        remove_owned(client, valid, resource, name).await?;
    }
    Ok(())
}

/// Removes the cluster's configurations but the one that is asked for and those that pods mount.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn remove_configurations(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    asked: &str,
) -> Result<(), ReconcileError> {
    let is_mounted = |name: &str| observed.pods.iter().any(|pod| mounts(pod, name));
    for name in &observed.configurations {
        if name != asked && !is_mounted(name) && valid.names().is_config(name) {
            remove_owned(client, valid, &ApiResource::erase::<ConfigMap>(&()), name).await?;
        }
    }
    Ok(())
}

fn mounts(pod: &Pod, config_map: &str) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| volume.config_map.as_ref()).any(|mounted| mounted.name == config_map)
}

async fn remove_owned(
    client: &Client,
    valid: &ValidCluster<'_>,
    resource: &ApiResource,
    name: &str,
) -> Result<(), ReconcileError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &valid.names().namespace, resource);
    let failed = |source| ReconcileError::api("delete", resource.kind.as_str().into(), name, source);
    let Some(found) = api.get_metadata_opt(name).await.map_err(failed)? else { return Ok(()) };
    let uid = valid.cluster().meta().uid.as_deref().unwrap_or_default();
    if !found.owner_references().iter().any(|owner| owner.uid == uid) {
        return Ok(());
    }
    let params = kube::api::DeleteParams {
        preconditions: Some(Preconditions { uid: found.uid(), resource_version: None }),
        ..kube::api::DeleteParams::default()
    };
    match api.delete(name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(failed(source)),
    }
}
