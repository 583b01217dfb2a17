//! Replaces pods that never started and were made of another template than the one that is asked for: with an
//! image that cannot be pulled and was taken back, or for a host that does not exist. The StatefulSet's
//! controller leaves such a pod as it is. It never opened a volume, so its end costs nothing.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};

use super::error::ReconcileError;
use super::observe::ObservedCluster;

/// Deletes the pods that never started, and returns their names.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn replace(
    client: &Client,
    namespace: &str,
    observed: &ObservedCluster,
) -> Result<Vec<String>, ReconcileError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut replaced = Vec::new();
    for pod in observed.older_pods().into_iter().filter(|pod| never_started(pod)) {
        // A pod that began meanwhile has another version, and stays.
        let preconditions = Preconditions { uid: pod.uid(), resource_version: pod.resource_version() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let name = pod.name_any();
        match api.delete(&name, &params).await {
            Ok(_) => replaced.push(name),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(source) => return Err(ReconcileError::api("delete", "Pod".into(), &name, source)),
        }
    }
    Ok(replaced)
}

/// Whether no container of a pod ever ran, and none is about to: it has no host, or waits for what its
/// template asks for in vain.
fn never_started(pod: &Pod) -> bool {
    let status = pod.status.clone().unwrap_or_default();
    let has_host = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let containers: Vec<ContainerStatus> = status
        .container_statuses
        .into_iter()
        .flatten()
        .chain(status.init_container_statuses.into_iter().flatten())
        .collect();
    if containers.is_empty() {
        return !has_host;
    }
    let waits_in_vain = |container: &ContainerStatus| {
        let state = container.state.clone().unwrap_or_default();
        let reason = state.waiting.and_then(|waiting| waiting.reason).unwrap_or_default();
        let failures = [
            "ImagePullBackOff",
            "ErrImagePull",
            "InvalidImageName",
            "ErrImageNeverPull",
            "ImageInspectError",
            "CreateContainerConfigError",
        ];
        let ended = container.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
        container.restart_count == 0 && !ended && failures.contains(&reason.as_str())
    };
    pod.metadata.deletion_timestamp.is_none() && containers.iter().all(waits_in_vain)
}
