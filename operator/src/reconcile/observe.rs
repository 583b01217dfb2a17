//! Reads the objects of a cluster from the API server. One look is not a snapshot; a reconcile is repeated
//! for every change of a child, so that the last one sees all of them.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::children::{child_names, title};
use super::error::ReconcileError;
use crate::api::StorageCluster;
use crate::limits;
use crate::names::{CLUSTER_LABEL, MANAGED_BY, MANAGED_BY_LABEL, Names};

/// The objects of a cluster that the API server has.
#[derive(Debug, Clone, Default)]
pub struct ObservedCluster {
    /// The Secret with the CA.
    pub authority: Option<Secret>,
    /// The Secret with the root credentials: the user's, or the operator's own.
    pub credentials: Option<Secret>,
    /// The Secret with the master key.
    pub master_key: Option<Secret>,
    /// The Secret with the certificates of the pool's nodes.
    pub certificates: Option<Secret>,
    /// The pool's StatefulSet.
    pub stateful_set: Option<StatefulSet>,
    /// The cluster's pods.
    pub pods: Vec<Pod>,
    /// The cluster's claims.
    pub claims: Vec<PersistentVolumeClaim>,
    /// Claims with the names of the cluster's claims but without its label; read only while the CA's Secret
    /// is missing.
    pub foreign_claims: Vec<ForeignObject>,
    /// Objects that have the names of the cluster's children and are not its children.
    pub foreign: Vec<ForeignObject>,
    /// The children that are there, by kind and name.
    pub children: BTreeMap<String, DynamicObject>,
    /// Whether the storage class that the pool names is missing.
    pub storage_class_missing: bool,
}

/// An object that has a name of the cluster's and is not the cluster's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignObject {
    /// Its kind and name.
    pub object: String,
    /// The StorageCluster that it is labelled with.
    pub cluster: Option<String>,
}

/// Reads a cluster's Secrets, StatefulSet, pods and claims.
///
/// # Errors
/// [`ReconcileError::Api`] names the object that could not be read.
pub(super) async fn observe(
    client: &Client,
    cluster: &StorageCluster,
    names: &Names,
) -> Result<ObservedCluster, ReconcileError> {
    let Some(pool) = cluster.spec.pools.first() else { return Ok(ObservedCluster::default()) };
    let namespace = names.namespace.as_str();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let selector: Vec<String> =
        names.selector().iter().map(|(key, value)| format!("{key}={value}")).collect();
    let of_nodes = ListParams::default().labels(&selector.join(",")).limit(limits::LIST_MAX);
    let of_cluster =
        ListParams::default().labels(&format!("{CLUSTER_LABEL}={}", names.cluster)).limit(limits::LIST_MAX);
    let secret = ApiResource::erase::<Secret>(&());
    let given = cluster.spec.credentials.as_ref().map(|given| given.secret_ref.name.as_str());
    let credentials = async {
        match given {
            Some(name) => get(client, namespace, &secret, name).await,
            None => Ok(None),
        }
    };
    let (authority_name, named) = (names.authority(), child_names(names, cluster, &pool.name));
    let read = named.iter().map(|(resource, name)| get(client, namespace, resource, name));
    let (authority, credentials, pods, claims_found, read, storage_class_missing) = tokio::try_join!(
        get(client, namespace, &secret, &authority_name),
        credentials,
        list(&pods, &of_nodes),
        list(&claims, &of_cluster),
        try_join_all(read),
        class_missing(client, pool.volume_claim_template.storage_class_name.as_deref()),
    )?;
    let foreign_claims = match &authority {
        Some(_) => vec![],
        None => claims_of_others(&claims, names, &pool.name).await?,
    };
    let mut children = BTreeMap::new();
    let mut foreign = Vec::new();
    for ((resource, name), object) in named.iter().zip(read) {
        let Some(object) = object else { continue };
        match owner_of(&object, cluster, names) {
            ChildOwner::Cluster => drop(children.insert(title(resource, name), object)),
            ChildOwner::Other(cluster) => {
                foreign.push(ForeignObject { object: title(resource, name), cluster });
            }
        }
    }
    // Their own Secrets of a cluster, whose names a person may have taken, are not read further.
    let own = |name: &str| children.get(&title(&secret, name));
    let observed = ObservedCluster {
        credentials: match given {
            Some(_) => typed(credentials.as_ref())?,
            None => typed(own(&names.credentials()))?,
        },
        master_key: typed(own(&names.master_key()))?,
        certificates: typed(own(&names.certificates(&pool.name)))?,
        stateful_set: typed(children.get(&format!("StatefulSet {}", names.pool(&pool.name))))?,
        authority: typed(authority.as_ref())?,
        pods,
        claims: claims_found,
        foreign_claims,
        foreign,
        children: BTreeMap::new(),
        storage_class_missing,
    };
    children.extend(authority.map(|authority| (title(&secret, &authority_name), authority)));
    Ok(ObservedCluster { children, ..observed })
}

/// The owner of an object with the name of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChildOwner {
    /// The cluster.
    Cluster,
    /// A person, or the cluster that its label names.
    Other(Option<String>),
}

/// Reads the owner of an object: this cluster by its labels, or by its controller reference where a person
/// changed the labels.
pub(super) fn owner_of(object: &DynamicObject, cluster: &StorageCluster, names: &Names) -> ChildOwner {
    let is = |label: &str, value: &str| object.labels().get(label).is_some_and(|found| found == value);
    let labelled = is(MANAGED_BY_LABEL, MANAGED_BY) && is(CLUSTER_LABEL, &names.cluster);
    let controlled = || {
        let mut owners = object.owner_references().iter();
        owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == cluster.meta().uid.as_ref())
    };
    if labelled || controlled() {
        return ChildOwner::Cluster;
    }
    let of_another = object.labels().get(CLUSTER_LABEL).filter(|other| **other != names.cluster);
    ChildOwner::Other(of_another.filter(|_| is(MANAGED_BY_LABEL, MANAGED_BY)).cloned())
}

/// The claims that have the names of the pool's and not the cluster's label. All claims of the namespace are
/// looked at for it, so it is asked only where a CA is about to be made.
async fn claims_of_others(
    api: &Api<PersistentVolumeClaim>,
    names: &Names,
    pool: &str,
) -> Result<Vec<ForeignObject>, ReconcileError> {
    let mut found = Vec::new();
    let mut params = ListParams::default().limit(limits::LIST_MAX);
    loop {
        let page = api.list_metadata(&params).await;
        let page = page.map_err(|source| {
            ReconcileError::api("list", "PersistentVolumeClaim".into(), "of the namespace", source)
        })?;
        let of_pool = page.items.iter().filter(|claim| {
            let label = claim.labels().get(CLUSTER_LABEL);
            names.is_claim(pool, &claim.name_any()) && label != Some(&names.cluster)
        });
        found.extend(of_pool.map(|claim| ForeignObject {
            object: format!("PersistentVolumeClaim {}", claim.name_any()),
            cluster: claim.labels().get(CLUSTER_LABEL).cloned(),
        }));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

async fn get(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
    name: &str,
) -> Result<Option<DynamicObject>, ReconcileError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let found = api.get_opt(name).await;
    found.map_err(|source| ReconcileError::api("read", resource.kind.as_str().into(), name, source))
}

/// Decodes an object as its kind.
fn typed<K: DeserializeOwned>(object: Option<&DynamicObject>) -> Result<Option<K>, ReconcileError> {
    let decoded = object.map(|object| serde_json::from_value(serde_json::json!(object))).transpose();
    decoded.map_err(ReconcileError::Decode)
}

async fn list<K>(api: &Api<K>, params: &ListParams) -> Result<Vec<K>, ReconcileError>
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let listed = api.list(params).await;
    let listed = listed.map_err(|source| ReconcileError::api("list", K::kind(&()), "of the cluster", source));
    Ok(listed?.into_iter().collect())
}

/// Whether a class that is named is not there. An operator that may not read classes assumes that it is:
/// the pods then say why they wait.
async fn class_missing(client: &Client, name: Option<&str>) -> Result<bool, ReconcileError> {
    let Some(name) = name else { return Ok(false) };
    let classes: Api<StorageClass> = Api::all(client.clone());
    match classes.get_opt(name).await {
        Ok(class) => Ok(class.is_none()),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        Err(source) => Err(ReconcileError::api("read", "StorageClass".into(), name, source)),
    }
}
