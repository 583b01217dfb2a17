//! Sets and removes the operator's finalizer of an object. The change is bound to the version of the object
//! that was looked at, so that finalizers of others are never lost.

use std::fmt::Debug;

use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::names::FIELD_MANAGER;
use crate::reconcile::ReconcileError;

/// Makes an object have a finalizer or not, and returns the object as it is then; nothing where it is gone.
///
/// # Errors
/// [`ReconcileError::Api`], a conflict among them where the object was changed meanwhile.
pub(super) async fn set<K>(
    client: &Client,
    object: &K,
    finalizer: &str,
    wanted: bool,
) -> Result<Option<K>, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let there = object.finalizers().iter().any(|found| found == finalizer);
    if there == wanted {
        return Ok(Some(object.clone()));
    }
    let mut finalizers: Vec<&str> = object.finalizers().iter().map(String::as_str).collect();
    if wanted {
        finalizers.push(finalizer);
    } else {
        finalizers.retain(|found| *found != finalizer);
    }
    let name = object.name_any();
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let metadata =
        json!({"resourceVersion": object.resource_version(), "uid": object.uid(), "finalizers": finalizers});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch(&name, &params, &Patch::Merge(json!({"metadata": metadata}))).await {
        Ok(changed) => Ok(Some(changed)),
        Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(None),
        Err(source) => Err(ReconcileError::api("set the finalizer of", K::kind(&()), &name, source)),
    }
}
