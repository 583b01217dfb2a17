//! Uids of namespaces. A namespace that is made again has the name of the one before and another uid, and is
//! another tenant's.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _};

use crate::reconcile::{Context, ReconcileError};

/// Returns the uid of a namespace; nothing where it is not there.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn uid(context: &Context, name: &str) -> Result<Option<String>, ReconcileError> {
    let api: Api<Namespace> = Api::all(context.client.clone());
    let found = api.get_metadata_opt(name).await;
    let found = found.map_err(|source| ReconcileError::api("read", "Namespace".into(), name, source))?;
    Ok(found.and_then(|found| found.uid()))
}

/// Returns the uid of the namespace of an object, which is there while its object is.
///
/// # Errors
/// [`ReconcileError::Api`], also where the namespace is not there.
pub(super) async fn uid_of_object(context: &Context, namespace: &str) -> Result<String, ReconcileError> {
    let api: Api<Namespace> = Api::all(context.client.clone());
    let found = api.get_metadata(namespace).await;
    let found = found.map_err(|source| ReconcileError::api("read", "Namespace".into(), namespace, source))?;
    Ok(found.uid().unwrap_or_default())
}
