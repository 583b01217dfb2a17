//! Builds the children of a cluster as they are applied: a plain function of what was validated,
//! planned and issued. The same input gives the same bytes, so that applying twice changes nothing.
//!
//! Children of the Kubernetes cluster's own are garbage with their StorageCluster; the Secrets that
//! data needs (CA, credentials, master key) and the claims carry no owner and outlive it.

mod parts;
mod secrets;
mod certificates;
mod network;
mod config;
mod place;
mod s3_tls;
mod workload;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sherd_core::id::ClusterId;

use super::children::Child;
use super::material::Material;
use super::plan::{CredentialsPlan, Plan};
use super::s3_tls::S3Serving;
use super::validate::ValidCluster;
use crate::api::NodeSettings;
use crate::names;
use parts::ChildParts;

/// Builds every child but the disruption budget, in the order in which they are applied: objects that pods
/// mount come before the pods.
pub fn children(valid: &ValidCluster<'_>, plan: &Plan, material: &Material) -> Vec<Child> {
    let (names, pool) = (valid.names(), &valid.pool().name);
    let parts = ChildParts { valid, plan, material };
    let toml = config::toml(&parts);
    let digest = config::digest(&toml);
    let mut children = authorities(valid, plan, material);
    if let (CredentialsPlan::Generated, Some(credentials)) = (&plan.credentials, &material.credentials) {
        children.push(parts.kept::<Secret>(&names.credentials(), secrets::credentials(credentials)));
    }
    children.push(parts.owned::<Secret>(&names.node_credentials(), secrets::node_credentials(&parts)));
    children.push(parts.kept::<Secret>(&names.master_key(), secrets::master_key(&parts)));
    children.push(parts.owned::<Secret>(&names.certificates(pool), secrets::certificates(&parts)));
    let admin = material.admin.as_ref().map(|admin| secrets::admin(&parts, admin));
    children.extend(admin.map(|body| parts.owned::<Secret>(&names.admin_certificate(), body)));
    children
        .push(parts.owned::<ServiceAccount>(&names.node(), json!({"automountServiceAccountToken": false})));
    // A pod mounts the configuration that it was made with: another one has another name.
    let config = json!({"immutable": true, "data": {"sherd.toml": toml}});
    children.push(parts.owned::<ConfigMap>(&names.config(&digest), config));
    let formed = plan.is_formed.then_some(material.cluster);
    let live = json!({"data": {names::LIVE_CONFIG: config::live_toml(&valid.cluster().spec.config, formed)}});
    children.push(parts.owned::<ConfigMap>(&names.live(), live));
    children.extend(s3_tls::children(&parts));
    children.push(parts.owned::<Service>(&names.headless_service(), network::headless_service(&parts)));
    children.push(parts.owned::<Service>(&names.s3_service(), network::s3_service(&parts)));
    if valid.cluster().spec.iam.enabled {
        children.push(parts.owned::<Service>(&names.iam_service(), network::iam_service(&parts)));
    }
    if valid.cluster().spec.network_policy.enabled {
        children.push(parts.owned::<NetworkPolicy>(&names.node(), network::policy(&parts)));
    }
    if material.s3.serving != S3Serving::Awaited {
        children.push(parts.owned::<StatefulSet>(&names.pool(pool), workload::stateful_set(&parts, &digest)));
    }
    children
}

/// Returns the digest that a node reports of the live file of these settings: SHA-256 of its text. `formed`
/// is the cluster where the file says that it was formed before.
pub fn live_digest(settings: &NodeSettings, formed: Option<ClusterId>) -> [u8; 32] {
    Sha256::digest(config::live_toml(settings, formed)).into()
}

/// Builds the copy of what cannot be made again, which is the first Secret that is made and from which the
/// others can be put back, and the Secret with the CA.
pub(super) fn authorities(valid: &ValidCluster<'_>, plan: &Plan, material: &Material) -> Vec<Child> {
    let (names, parts) = (valid.names(), ChildParts { valid, plan, material });
    vec![
        parts.kept::<Secret>(&names.recovery(), secrets::recovery(&parts)),
        parts.kept::<Secret>(&names.authority(), secrets::authority(&parts)),
    ]
}

/// Builds the disruption budget of the pool, which lets `spare` ready pods go at one time. It is applied by
/// itself, after the nodes were asked.
pub fn disruption_budget(valid: &ValidCluster<'_>, spare: u8) -> Child {
    let name = valid.names().pool(&valid.pool().name);
    parts::owned::<PodDisruptionBudget>(valid, &name, workload::disruption_budget(valid, spare))
}
