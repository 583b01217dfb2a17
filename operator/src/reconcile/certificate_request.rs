//! Reads the Certificate that asks cert-manager for the certificate of S3, and whether its API is there.

use std::sync::Arc;

use kube::api::DynamicObject;
use kube::{Api, Client};

use super::children::certificate_resource;
use super::error::ReconcileError;
use crate::api::{StorageCluster, TlsMode};
use crate::names::Names;

/// The request as it was found.
#[derive(Default)]
pub(super) struct ObservedRequest {
    /// The Certificate of cert-manager.
    pub(super) object: Option<Arc<DynamicObject>>,
    pub(super) has_cert_manager: bool,
    /// The message of its condition Ready.
    pub(super) words: Option<String>,
}

/// Reads the request of a cluster whose certificate cert-manager issues; of another one, nothing. It is not
/// watched, since its API may not be there: it is read at each look.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn observe(
    client: &Client,
    namespace: &str,
    cluster: &StorageCluster,
    names: &Names,
) -> Result<ObservedRequest, ReconcileError> {
    if cluster.spec.tls.mode != TlsMode::CertManager {
        return Ok(ObservedRequest::default());
    }
    let (resource, name) = (certificate_resource(), names.s3_certificate_request());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    match api.get(&name).await {
        Ok(found) => {
            let words = words(&found);
            Ok(ObservedRequest { object: Some(Arc::new(found)), has_cert_manager: true, words })
        }
        // Of an object, or of the whole API.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let has_cert_manager = has_api(client).await?;
            Ok(ObservedRequest { has_cert_manager, ..ObservedRequest::default() })
        }
        Err(source) => Err(ReconcileError::api("read", resource.kind.into(), &name, source)),
    }
}

/// The Secret with a certificate of S3 that the operator does not write.
pub(super) fn secret_of_others(cluster: &StorageCluster, names: &Names) -> Option<String> {
    match (cluster.spec.tls.mode, &cluster.spec.tls.secret_ref) {
        (TlsMode::Secret, Some(given)) => Some(given.name.clone()),
        (TlsMode::CertManager, _) => Some(names.s3_issued_certificate()),
        _ => None,
    }
}

async fn has_api(client: &Client) -> Result<bool, ReconcileError> {
    let resource = certificate_resource();
    match client.list_api_group_resources(&resource.api_version).await {
        Ok(found) => Ok(found.resources.iter().any(|found| found.kind == resource.kind)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(source) => Err(ReconcileError::api("read", "API".into(), &resource.api_version, source)),
    }
}

fn words(request: &DynamicObject) -> Option<String> {
    let conditions = request.data["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    Some(ready["message"].as_str()?.to_owned())
}
