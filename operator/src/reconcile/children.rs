//! The children of a cluster: a child as it is applied, the kinds and names of all of them, and what was last
//! applied to each.

use std::collections::HashMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::api::{StorageCluster, TlsMode};
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

impl Child {
    /// Returns its kind and name, as messages name it.
    pub fn title(&self) -> String {
        title(&self.resource, &self.name)
    }

    /// Whether the child is of a kind.
    pub(super) fn is<K: Resource<DynamicType = ()>>(&self) -> bool {
        self.resource.kind == K::kind(&())
    }
}

/// Returns the kind and name of an object, as messages name it.
pub(super) fn title(resource: &ApiResource, name: &str) -> String {
    format!("{} {name}", resource.kind)
}

/// Returns the kind of the objects that cert-manager issues certificates for.
pub(super) fn certificate_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("cert-manager.io", "v1", "Certificate");
    ApiResource::from_gvk_with_plural(&kind, "certificates")
}

/// Names every object that `build` may make of a cluster, but for some: the CA's Secret and the copy of it
/// are judged by their content, since a person may bring them back without labels, and the name of the
/// ConfigMap with `sherd.toml` follows from what is in it.
pub fn child_names(names: &Names, cluster: &StorageCluster, pool: &str) -> Vec<(ApiResource, String)> {
    fn named<K: Resource<DynamicType = ()>>(name: String) -> (ApiResource, String) {
        (ApiResource::erase::<K>(&()), name)
    }
    let mut children = vec![
        named::<Secret>(names.certificates(pool)),
        named::<Secret>(names.master_key()),
        named::<Secret>(names.node_credentials()),
        named::<ConfigMap>(names.live()),
        named::<ServiceAccount>(names.node()),
        named::<Service>(names.headless_service()),
        named::<Service>(names.s3_service()),
        named::<PodDisruptionBudget>(names.pool(pool)),
        named::<StatefulSet>(names.pool(pool)),
    ];
    if cluster.spec.credentials.is_none() {
        children.push(named::<Secret>(names.credentials()));
    }
    if cluster.spec.tls.mode == TlsMode::Operator {
        children.extend([names.s3_authority(), names.s3_certificate()].map(named::<Secret>));
    }
    if cluster.spec.admin_certificate.enabled {
        children.push(named::<Secret>(names.admin_certificate()));
    }
    let wanted = optional(names, cluster).into_iter().filter(|(is_asked, _)| *is_asked);
    children.extend(wanted.map(|(_, child)| child));
    children
}

/// Names the objects that `build` made of the specification before and that it no longer asks for.
pub fn former_names(names: &Names, cluster: &StorageCluster) -> Vec<(ApiResource, String)> {
    let former = optional(names, cluster).into_iter().filter(|(is_asked, _)| !*is_asked);
    former.map(|(_, child)| child).collect()
}

/// The children that the specification turns on and off, and whether it asks for them.
fn optional(names: &Names, cluster: &StorageCluster) -> [(bool, (ApiResource, String)); 2] {
    let policy = (ApiResource::erase::<NetworkPolicy>(&()), names.node());
    let iam = (ApiResource::erase::<Service>(&()), names.iam_service());
    [(cluster.spec.network_policy.enabled, policy), (cluster.spec.iam.enabled, iam)]
}

/// A digest of an object, or of what was asked of it.
pub(super) type ObjectDigest = [u8; 32];

/// Returns the digest of a child as it is asked for.
pub(super) fn asked(child: &Child) -> ObjectDigest {
    Sha256::digest(child.object.to_string()).into()
}

/// Returns the digest of an object without what changes by itself: its status, and what the API server
/// counts.
pub(super) fn fingerprint(object: &DynamicObject) -> ObjectDigest {
    let mut metadata = object.metadata.clone();
    metadata.managed_fields = None;
    metadata.resource_version = None;
    metadata.generation = None;
    let mut data = object.data.clone();
    if let Some(data) = data.as_object_mut() {
        data.remove("status");
    }
    Sha256::digest(serde_json::json!([metadata, data]).to_string()).into()
}

/// The last apply of each child, and the child as it left it. A child that still is what it was is
/// not written again. It is lost with the process: each child is then applied once more.
#[derive(Debug, Default)]
pub struct AppliedChildren {
    /// By namespace and cluster, then by kind and name.
    clusters: Mutex<HashMap<(String, String), HashMap<String, AppliedChild>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AppliedChild {
    pub(super) asked: ObjectDigest,
    pub(super) left: ObjectDigest,
    /// The version that the API server gave it.
    pub(super) version: Option<String>,
}

impl AppliedChildren {
    pub(super) fn get(&self, names: &Names, title: &str) -> Option<AppliedChild> {
        self.clusters.lock().get(&key(names))?.get(title).cloned()
    }

    pub(super) fn insert(&self, names: &Names, title: String, applied: AppliedChild) {
        self.clusters.lock().entry(key(names)).or_default().insert(title, applied);
    }

    /// Forgets the last apply of one child.
    pub(super) fn forget(&self, names: &Names, title: &str) {
        if let Some(applied) = self.clusters.lock().get_mut(&key(names)) {
            applied.remove(title);
        }
    }

    /// Whether a child is there as it is asked for: by the last apply, which an object that was observed
    /// before it does not have to be.
    pub(super) fn is_in_place(&self, names: &Names, child: &Child, observed: &DynamicObject) -> bool {
        let last = self.get(names, &child.title());
        last.is_some_and(|last| last.asked == asked(child) && last.left == fingerprint(observed))
    }

    /// Forgets the children that a cluster no longer has.
    pub(super) fn keep(&self, names: &Names, titles: &[String]) {
        if let Some(applied) = self.clusters.lock().get_mut(&key(names)) {
            applied.retain(|title, _| titles.contains(title));
        }
    }

    /// Forgets the clusters, by namespace and name, that are gone.
    pub fn retain(&self, is_there: impl Fn(&str, &str) -> bool) {
        self.clusters.lock().retain(|(namespace, cluster), _| is_there(namespace, cluster));
    }
}

fn key(names: &Names) -> (String, String) {
    (names.namespace.clone(), names.cluster.clone())
}
