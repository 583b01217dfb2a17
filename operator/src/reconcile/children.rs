//! The children of a cluster: a child as it is applied, and the kinds and names of all of them.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::ApiResource;
use serde_json::Value;

use crate::api::StorageCluster;
use crate::names::Names;

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

/// Names every object that `build` may make of a cluster, but for the CA's Secret: that one is judged by its
/// content, since a person may bring it back from a copy without labels.
pub fn child_names(names: &Names, cluster: &StorageCluster, pool: &str) -> Vec<(ApiResource, String)> {
    fn named<K: Resource<DynamicType = ()>>(name: String) -> (ApiResource, String) {
        (ApiResource::erase::<K>(&()), name)
    }
    let mut children = vec![
        named::<Secret>(names.certificates(pool)),
        named::<Secret>(names.master_key()),
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
