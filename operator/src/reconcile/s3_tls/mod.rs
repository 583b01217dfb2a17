//! S3 over TLS: which Secret pods take its certificate from, what that certificate lacks, and, where the
//! operator issues it, the certificate and the CA that clients trust. Plain functions over what was observed.
//!
//! ```text
//!   mode         certificate                           CAs that clients trust
//!   Operator     issued under the CA of <name>-s3-ca   that CA, and the one before while it is in use
//!   Secret       a Secret that the user names          its ca.crt
//!   CertManager  <name>-s3-issued, by a Certificate    its ca.crt
//! ```
//!
//! Pods go over to TLS once there is a certificate that a node takes, and stay with it: a Secret that is lost
//! later takes no cluster back to clear text. A cluster without pods waits for its certificate.

mod names;
mod parts;
mod pair;
mod issue;
mod judge;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::PodSpec;

use super::error::MaterialError;
use super::observe::ObservedCluster;
use crate::api::{StorageCluster, TlsMode};
use crate::names::Names;

pub(super) use judge::{S3Look, look};
pub(super) use names::{apart, broken_rules};
use parts::seconds;
pub use parts::{S3KeyPair, S3Material, S3Serving};

/// The volume of a pod with the certificate of S3.
pub(super) const VOLUME: &str = "s3-tls";

/// Decides and issues what a cluster needs for S3 over TLS. A certificate that holds is kept byte for byte.
///
/// # Errors
/// [`MaterialError::Issue`].
pub(super) fn material(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    now: Duration,
) -> Result<S3Material, MaterialError> {
    let mode = cluster.spec.tls.mode;
    let material = match look(cluster, names, observed, seconds(now)) {
        _ if mode == TlsMode::Operator => issue::material(cluster, names, observed, now)?,
        None => S3Material::default(),
        Some(look) => S3Material {
            serving: serving(&look, observed),
            trusted: look.trusted,
            requested: (mode == TlsMode::CertManager && observed.has_cert_manager)
                .then(|| names::all(cluster, names)),
            ..S3Material::default()
        },
    };
    Ok(S3Material { is_reached_by_tls: is_served(cluster, names, observed, seconds(now)), ..material })
}

/// Whether clients reach S3 by TLS, as the objects were when they were observed: what most of the pods serve.
/// Pods go over one by one, so that clients are sent to TLS when more of them find it there than do not, and
/// a rollout that stands still, or is put back, sends no client to what is not served.
pub(super) fn is_served(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    now_s: i64,
) -> bool {
    let specs: Vec<&PodSpec> = observed.pods.iter().filter_map(|pod| pod.spec.as_ref()).collect();
    if !specs.is_empty() {
        return specs.iter().filter(|spec| secret_of(spec).is_some()).count() * 2 > specs.len();
    }
    if observed.stateful_set.is_some() {
        return mounted(observed).is_some();
    }
    let look = look(cluster, names, observed, now_s);
    cluster.spec.tls.mode == TlsMode::Operator
        || look.is_some_and(|look| serving(&look, observed) != S3Serving::Clear)
}

/// A certificate that has none of the names takes the place of no other one, nor of clear text: every client
/// would refuse it. A cluster without pods serves with it, and has nothing to lose.
fn serving(look: &S3Look, observed: &ObservedCluster) -> S3Serving {
    let mounted = mounted(observed);
    let is_new = observed.stateful_set.is_none() && observed.pods.is_empty();
    let is_served = mounted.as_ref() == Some(&look.secret);
    if look.is_usable && (look.has_a_name || is_served || is_new) {
        return S3Serving::Tls(look.secret.clone());
    }
    match mounted {
        Some(secret) => S3Serving::Tls(secret),
        None if is_new => S3Serving::Awaited,
        None => S3Serving::Clear,
    }
}

/// The Secret that pods take the certificate from, by their template or else by themselves.
fn mounted(observed: &ObservedCluster) -> Option<String> {
    let set = observed.stateful_set.as_ref().and_then(|set| set.spec.as_ref()?.template.spec.as_ref());
    match set {
        Some(template) => secret_of(template),
        None => observed.pods.iter().filter_map(|pod| pod.spec.as_ref()).find_map(secret_of),
    }
}

/// The Secret that a pod takes the certificate from.
fn secret_of(spec: &PodSpec) -> Option<String> {
    let volume = spec.volumes.iter().flatten().find(|volume| volume.name == VOLUME)?;
    volume.secret.as_ref()?.secret_name.clone()
}
