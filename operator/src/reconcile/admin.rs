//! The certificate of an admin, which a cluster asks for by `spec.adminCertificate`. Its Secret lets its
//! readers give orders to the cluster's nodes, and change users and keys, as the root credentials beside it
//! do.
//!
//! The operator deletes no Secret, and a certificate cannot be called back. So it lives for a day, and ends
//! by itself where it was withdrawn.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::ApiResource;
use sherd_trust::Role;

use super::children::title;
use super::error::MaterialError;
use super::material::{AdminCertificate, LeafRule, LeafVerdict, SigningAuthority, judge_leaf, millis};
use super::observe::{ObservedCluster, typed};
use crate::api::StorageCluster;
use crate::limits;
use crate::names::{Names, TLS_CERTIFICATE, TLS_KEY};
use crate::secret_text::{SecretText, texts};

/// The name in it.
const NAME: &str = "kubernetes";

/// Keeps the certificate that is there while it holds, or issues one; nothing where none is asked for.
///
/// # Errors
/// [`MaterialError::Issue`].
pub(super) fn material(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    signing: &SigningAuthority,
    now: Duration,
) -> Result<Option<AdminCertificate>, MaterialError> {
    if !cluster.spec.admin_certificate.enabled {
        return Ok(None);
    }
    let rule = LeafRule { name: NAME, role: Role::Admin, renewed: limits::ADMIN_CERTIFICATE_RENEWED };
    let holds = |found: &AdminCertificate| {
        let AdminCertificate { certificate, key: SecretText(key) } = found;
        matches!(judge_leaf(&signing.accepted, &rule, certificate, key, now), LeafVerdict::Holds(_))
    };
    if let Some(found) = read(names, observed).filter(holds) {
        return Ok(Some(found));
    }
    let issued = signing.signer.issue(NAME, Role::Admin, millis(now), limits::ADMIN_CERTIFICATE_LIFE);
    let issued = issued.map_err(|source| MaterialError::Issue { name: NAME.to_owned(), source })?;
    Ok(Some(AdminCertificate { certificate: issued.certificate, key: SecretText(issued.key) }))
}

/// The certificate of the Secret; nothing where a part is missing.
fn read(names: &Names, observed: &ObservedCluster) -> Option<AdminCertificate> {
    let secret = title(&ApiResource::erase::<Secret>(&()), &names.admin_certificate());
    let secret: Secret = typed(observed.children.get(&secret).map(AsRef::as_ref)).ok()??;
    let mut texts = texts(&secret);
    let (certificate, key) = (texts.remove(TLS_CERTIFICATE)?, texts.remove(TLS_KEY)?);
    Some(AdminCertificate { certificate, key: SecretText(key) })
}
