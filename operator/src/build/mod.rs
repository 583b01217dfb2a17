//! Builds the children of a cluster as they are applied: a plain function of what was validated,
//! planned and issued. The same input gives the same bytes, so that applying twice changes nothing.
//!
//! Children of the Kubernetes cluster's own are garbage with their StorageCluster; the Secrets that
//! data needs (CA, credentials) and the claims carry no owner and outlive it.

mod config;
mod network;
mod secrets;
mod workload;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::ApiResource;
use serde_json::{Value, json};
use sherd_core::id::ClusterId;

use crate::api::StorageCluster;
use crate::names::{self, Names};
use crate::plan::{CredentialsPlan, Plan};
use crate::validate::ValidCluster;

/// Secrets in the making: what was issued for the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// The cluster's id.
    pub cluster: ClusterId,
    /// The CA's certificate, as PEM.
    pub authority_certificate: String,
    /// The CA's key, as PEM.
    pub authority_key: SecretText,
    /// The root credentials, where the operator derives them.
    pub credentials: Option<RootCredentials>,
    /// Keys of the certificates' Secret with their texts.
    pub certificates: std::collections::BTreeMap<String, SecretText>,
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(pub String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText")
    }
}

/// The root credentials of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootCredentials {
    /// The access key's id.
    pub access_key_id: String,
    /// Its secret.
    pub secret_access_key: SecretText,
}

/// A child as it is applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The kind, and where it is served.
    pub resource: ApiResource,
    /// The child's name.
    pub name: String,
    /// The whole object.
    pub object: Value,
}

/// What the parts of the build read.
struct Parts<'a> {
    cluster: &'a StorageCluster,
    valid: &'a ValidCluster,
    plan: &'a Plan,
    material: &'a Material,
    names: &'a Names,
}

/// Names every object that [`children`] may make of a cluster, but for the CA's Secret: that one is judged by
/// what it holds, since a person may bring it back from a copy without labels.
pub fn child_names(names: &Names, cluster: &StorageCluster, pool: &str) -> Vec<(ApiResource, String)> {
    fn named<K: Resource<DynamicType = ()>>(name: String) -> (ApiResource, String) {
        (ApiResource::erase::<K>(&()), name)
    }
    let mut children = vec![
        named::<Secret>(names.certificates(pool)),
        named::<ServiceAccount>(names.node()),
        named::<ConfigMap>(names.config()),
        named::<Service>(names.headless_service()),
        named::<Service>(names.s3_service()),
        named::<PodDisruptionBudget>(names.pool(pool)),
        named::<StatefulSet>(names.pool(pool)),
    ];
    if cluster.spec.credentials.is_none() {
        children.push(named::<Secret>(names.credentials()));
    }
    if cluster.spec.network_policy.enabled {
        children.push(named::<NetworkPolicy>(names.node()));
    }
    children
}

/// Builds every child, in the order in which they are applied: what pods need comes before pods.
pub fn children(
    cluster: &StorageCluster,
    valid: &ValidCluster,
    plan: &Plan,
    material: &Material,
) -> Vec<Child> {
    let names = Names::new(&valid.name, &valid.namespace);
    let parts = Parts { cluster, valid, plan, material, names: &names };
    let toml = config::toml(&parts);
    let mut children = vec![parts.kept::<Secret>(&names.authority(), secrets::authority(&parts))];
    if let Some(credentials) = &material.credentials {
        children.push(parts.kept::<Secret>(&names.credentials(), secrets::credentials(credentials)));
    }
    let pool = &valid.pool.name;
    children.push(parts.owned::<Secret>(&names.certificates(pool), secrets::certificates(&parts)));
    children
        .push(parts.owned::<ServiceAccount>(&names.node(), json!({"automountServiceAccountToken": false})));
    children.push(parts.owned::<ConfigMap>(&names.config(), json!({"data": {"sherd.toml": toml}})));
    children.push(parts.owned::<Service>(&names.headless_service(), network::headless_service(&parts)));
    children.push(parts.owned::<Service>(&names.s3_service(), network::s3_service(&parts)));
    if cluster.spec.network_policy.enabled {
        children.push(parts.owned::<NetworkPolicy>(&names.node(), network::policy(&parts)));
    }
    children.push(parts.owned::<PodDisruptionBudget>(&names.pool(pool), workload::disruption_budget(&parts)));
    children.push(parts.owned::<StatefulSet>(&names.pool(pool), workload::stateful_set(&parts, &toml)));
    children
}

impl Parts<'_> {
    /// A child that is garbage with its cluster.
    fn owned<K: Resource<DynamicType = ()>>(&self, name: &str, body: Value) -> Child {
        let mut child = self.kept::<K>(name, body);
        if let Some(owner) = self.cluster.controller_owner_ref(&()) {
            child.object["metadata"]["ownerReferences"] = json!([owner]);
        }
        child
    }

    /// A child that outlives its cluster.
    fn kept<K: Resource<DynamicType = ()>>(&self, name: &str, body: Value) -> Child {
        let mut object = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {
                "name": name,
                "namespace": self.names.namespace,
                "labels": self.names.labels(),
            },
        });
        merge(&mut object, body);
        Child { resource: ApiResource::erase::<K>(&()), name: name.to_owned(), object }
    }

    /// The Secret that pods take their credentials from.
    fn credentials_secret(&self) -> String {
        match &self.plan.credentials {
            CredentialsPlan::Derive => self.names.credentials(),
            CredentialsPlan::Provided { secret } => secret.clone(),
        }
    }

    /// The labels of a pod or claim of the pool.
    fn pool_labels(&self) -> std::collections::BTreeMap<String, String> {
        let mut labels = self.names.labels();
        labels.insert(names::POOL_LABEL.to_owned(), self.valid.pool.name.clone());
        labels
    }
}

/// Lays one object over another, level by level.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}
