//! S3 over TLS in the objects: the CA, the certificate and the CAs for clients, the request to cert-manager,
//! and how a pod takes the certificate up.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use super::parts::{self, ChildParts};
use super::secrets;
use crate::names::{CA_CERTIFICATE, CA_KEY, TLS_CERTIFICATE, TLS_KEY};
use crate::reconcile::children::{Child, certificate_resource};
use crate::reconcile::s3_tls::{S3KeyPair, S3Material, S3Serving, VOLUME, apart};
use crate::secret_text::SecretText;

/// Where a pod finds the certificate and its key.
pub(super) const FOLDER: &str = "/s3-tls";

/// The objects of a cluster for TLS, beside those that it has anyway.
pub(super) fn children(parts: &ChildParts<'_>) -> Vec<Child> {
    let names = parts.valid.names();
    let S3Material { serving: _, is_reached_by_tls: _, authority, certificate, trusted, requested } =
        &parts.material.s3;
    let mut children = Vec::new();
    if let Some(S3KeyPair { certificate, key: SecretText(key) }) = authority {
        let texts = [(CA_CERTIFICATE, certificate.as_str()), (CA_KEY, key.as_str())];
        children.push(parts.kept::<Secret>(&names.s3_authority(), secrets::data("Opaque", texts)));
    }
    if let Some(S3KeyPair { certificate, key: SecretText(key) }) = certificate {
        let trusted = trusted.as_deref().unwrap_or_default();
        let texts =
            [(TLS_CERTIFICATE, certificate.as_str()), (TLS_KEY, key.as_str()), (CA_CERTIFICATE, trusted)];
        let body = secrets::data("kubernetes.io/tls", texts);
        children.push(parts.owned::<Secret>(&names.s3_certificate(), body));
    }
    if let Some(trusted) = trusted {
        let body = json!({"data": {CA_CERTIFICATE: trusted}});
        children.push(parts.owned::<ConfigMap>(&names.s3_authority(), body));
    }
    children.extend(requested.as_ref().map(|requested| request(parts, requested)));
    children
}

/// The request to cert-manager.
fn request(parts: &ChildParts<'_>, requested: &BTreeSet<String>) -> Child {
    let names = parts.valid.names();
    let (dns_names, addresses) = apart(requested);
    let mut spec = json!({
        "secretName": names.s3_issued_certificate(),
        // By these the operator sees a change of the Secret.
        "secretTemplate": {"labels": names.labels()},
        "issuerRef": parts.valid.cluster().spec.tls.issuer_ref,
        "dnsNames": dns_names,
        "usages": ["digital signature", "server auth"],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8", "rotationPolicy": "Always"},
    });
    if !addresses.is_empty() {
        spec["ipAddresses"] = json!(addresses);
    }
    let name = names.s3_certificate_request();
    parts::owned_as(parts.valid, certificate_resource(), &name, json!({"spec": spec}))
}

/// Whether pods serve S3 over TLS.
pub(super) fn is_served(parts: &ChildParts<'_>) -> bool {
    matches!(parts.material.s3.serving, S3Serving::Tls(_))
}

/// The volume of a pod. The files in it follow the Secret, and the node follows the files.
pub(super) fn volume(parts: &ChildParts<'_>) -> Option<Value> {
    let S3Serving::Tls(secret) = &parts.material.s3.serving else { return None };
    let files = [TLS_CERTIFICATE, TLS_KEY].map(|key| json!({"key": key, "path": key}));
    // The process reads them as its group; others cannot, which the node insists on.
    Some(json!({"name": VOLUME, "secret": {"secretName": secret, "defaultMode": 0o440, "items": files}}))
}

/// The name of the volume with further certificates, and the folder that a container has it at: of each
/// Secret a folder of its name.
const FURTHER: (&str, &str) = ("s3-tls-further", "/s3-tls-further");

/// The Secrets with further certificates, where pods serve S3 over TLS.
fn further<'a>(parts: &'a ChildParts<'_>) -> Vec<&'a str> {
    if is_served(parts) { parts.valid.cluster().spec.tls.further_names() } else { Vec::new() }
}

/// The volume of a pod with further certificates. A Secret that is not there keeps no pod from starting:
/// nodes take its certificate up when it is.
pub(super) fn further_volume(parts: &ChildParts<'_>) -> Option<Value> {
    let source = |name: &str| {
        let files =
            [TLS_CERTIFICATE, TLS_KEY].map(|key| json!({"key": key, "path": format!("{name}/{key}")}));
        json!({"secret": {"name": name, "optional": true, "items": files}})
    };
    let sources: Vec<Value> = further(parts).into_iter().map(source).collect();
    let projected = json!({"defaultMode": 0o440, "sources": sources});
    (!sources.is_empty()).then(|| json!({"name": FURTHER.0, "projected": projected}))
}

/// The mount of the further certificates.
pub(super) fn further_mount(parts: &ChildParts<'_>) -> Option<Value> {
    let mount = json!({"name": FURTHER.0, "mountPath": FURTHER.1, "readOnly": true});
    (!further(parts).is_empty()).then_some(mount)
}

/// The variable with the folders. Not in the configuration's file, which a node of an older build reads, too,
/// when its container is started again: it would refuse a key that it does not know.
pub(super) fn further_variable(parts: &ChildParts<'_>) -> Option<Value> {
    let folders: Vec<String> = further(parts).iter().map(|name| format!("{}/{name}", FURTHER.1)).collect();
    (!folders.is_empty()).then(|| json!({"name": "SHERD_TLS_FURTHER", "value": folders.join(",")}))
}

/// The mount of a container.
pub(super) fn mount(parts: &ChildParts<'_>) -> Option<Value> {
    is_served(parts).then(|| json!({"name": VOLUME, "mountPath": FOLDER, "readOnly": true}))
}
