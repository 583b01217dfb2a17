//! Closes the disruption budgets of a cluster that cannot be judged: its specification is invalid, or its
//! objects could not be read. A budget that stays open would let a drain take a ready pod beside one that is
//! not healed.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::children::{AppliedChildren, title};
use super::error::ReconcileError;
use super::observe::ObjectReader;
use crate::names::{CLUSTER_LABEL, FIELD_MANAGER, MANAGED_BY, MANAGED_BY_LABEL, Names};

/// Writes 0 to every budget with the cluster's labels that lets a ready pod go.
///
/// # Errors
/// [`ReconcileError::Api`] names the budget.
pub(super) async fn close(
    reader: &ObjectReader<'_>,
    names: &Names,
    applied: &AppliedChildren,
) -> Result<(), ReconcileError> {
    let resource = ApiResource::erase::<PodDisruptionBudget>(&());
    let labels = [(CLUSTER_LABEL, names.cluster.as_str()), (MANAGED_BY_LABEL, MANAGED_BY)];
    let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned())).into();
    let budgets = reader.list_objects(&resource, &labels).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(reader.client.clone(), reader.namespace, &resource);
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    for budget in budgets.iter().filter(|budget| is_open(budget)) {
        let name = budget.name_any();
        let closed = json!({"spec": {"maxUnavailable": 0, "minAvailable": null}});
        let patched = api.patch(&name, &params, &Patch::Merge(&closed)).await;
        patched
            .map_err(|source| ReconcileError::api("close", resource.kind.as_str().into(), &name, source))?;
        // The patch changed what the last apply left: forgotten, so that it does not count as another's
        // change.
        applied.forget(names, &title(&resource, &name));
    }
    Ok(())
}

fn is_open(budget: &DynamicObject) -> bool {
    let spec = &budget.data["spec"];
    spec["maxUnavailable"] != 0 || !spec["minAvailable"].is_null()
}
