//! Reads the objects of a cluster, as the watches saw them or from the API server. One look is not a
//! snapshot; a reconcile is repeated for every change of a child, so that the last one sees all of them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::cache::ObjectCache;
use super::certificate_request;
use super::children::{certificate_resource, child_names, former_names, title};
use super::error::ReconcileError;
use super::platform::PodUsers;
use super::recovery::Recovery;
use crate::api::{Pool, StorageCluster, TlsMode};
use crate::limits;
use crate::names::{CLUSTER_LABEL, MANAGED_BY, MANAGED_BY_LABEL, Names, REVISION_LABEL};

/// The objects of a cluster that the API server has.
#[derive(Debug, Clone, Default)]
pub struct ObservedCluster {
    /// The Secret with the CA.
    pub authority: Option<Secret>,
    /// The values that cannot be made again, as the copy has it, or as the process remembers it.
    pub recovery: Option<Recovery>,
    /// Whether the copy's Secret is there; where it is not, `recovery` is what the process remembers.
    pub has_copy: bool,
    /// The Secret with the root credentials: the user's, or the operator's own.
    pub credentials: Option<Secret>,
    /// The Secret with the master key.
    pub master_key: Option<Secret>,
    /// The Secret with the certificates of the pool's nodes.
    pub certificates: Option<Secret>,
    /// The Secret with the CA of S3 that the operator made.
    pub s3_authority: Option<Secret>,
    /// The Secret with the certificate of S3, of the operator or of others.
    pub s3_certificate: Option<Secret>,
    /// The Secrets with further certificates of S3 that are there, by name.
    pub s3_further: BTreeMap<String, Secret>,
    /// Whether cert-manager's API is there; asked for only where it issues the certificate of S3.
    pub has_cert_manager: bool,
    /// The message of cert-manager on the certificate that it is asked for.
    pub certificate_words: Option<String>,
    /// The pool's StatefulSet.
    pub stateful_set: Option<StatefulSet>,
    /// The cluster's pods.
    pub pods: Vec<Pod>,
    /// The cluster's claims.
    pub claims: Vec<PersistentVolumeClaim>,
    /// Claims with the names of the cluster's claims but without its label; read only while the CA's Secret
    /// is missing.
    pub foreign_claims: Vec<ForeignObject>,
    /// The names of the ConfigMaps with the cluster's label.
    pub configurations: Vec<String>,
    /// Objects that have the names of the cluster's children and are not its children.
    pub foreign: Vec<ForeignObject>,
    /// The children that are there, by kind and name.
    pub children: BTreeMap<String, Arc<DynamicObject>>,
    /// Children that are there and that the specification no longer asks for.
    pub leftovers: Vec<(ApiResource, String)>,
    /// Why the API server refuses pods or claims that the StatefulSet's controller would make, in its words.
    pub refused_pods: Option<String>,
    /// Whether the storage class that the pool names is missing.
    pub storage_class_missing: bool,
    /// The source of pods' users.
    pub users: PodUsers,
}

impl ObservedCluster {
    /// The revision that pods are made of, once the StatefulSet's controller has seen the template.
    pub(super) fn target(&self) -> Option<&str> {
        let set = self.stateful_set.as_ref()?;
        let status = set.status.as_ref()?;
        let is_seen = status.observed_generation == set.metadata.generation;
        status.update_revision.as_deref().filter(|_| is_seen)
    }

    /// The pods that were made of an older template than the StatefulSet's, as its controller has seen it.
    pub(super) fn older_pods(&self) -> Vec<&Pod> {
        let Some(revision) = self.target() else { return vec![] };
        let is_older = |pod: &&Pod| pod.labels().get(REVISION_LABEL).is_some_and(|label| label != revision);
        self.pods.iter().filter(is_older).collect()
    }
}

/// An object that has a name of the cluster's and is not the cluster's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignObject {
    /// Kind and name of the object.
    pub object: String,
    /// The StorageCluster that it is labelled with.
    pub cluster: Option<String>,
}

/// The objects of one namespace: as the watches saw them, or else as the API server says.
#[derive(Clone, Copy)]
pub(super) struct ObjectReader<'a> {
    pub(super) client: &'a Client,
    pub(super) cache: &'a ObjectCache,
    pub(super) namespace: &'a str,
}

/// Reads a cluster's Secrets, StatefulSet, pods and claims. The values that the process remembers stand for a
/// copy that is gone or was edited.
///
/// # Errors
/// [`ReconcileError::Api`] names the object that could not be read.
pub(super) async fn observe(
    reader: &ObjectReader<'_>,
    cluster: &StorageCluster,
    names: &Names,
    remembered: Option<Recovery>,
) -> Result<ObservedCluster, ReconcileError> {
    let Some(pool) = cluster.spec.pools.first() else { return Ok(ObservedCluster::default()) };
    let of_cluster = [(CLUSTER_LABEL.to_owned(), names.cluster.clone())].into();
    let (secret, config_map) = (ApiResource::erase::<Secret>(&()), ApiResource::erase::<ConfigMap>(&()));
    let given = cluster.spec.credentials.as_ref().map(|given| given.secret_ref.name.as_str());
    let (authority_name, recovery_name) = (names.authority(), names.recovery());
    let children = child_names(names, cluster, &pool.name);
    let read = children.iter().map(|(resource, name)| reader.get(resource, name));
    let selector = names.selector();
    let request = certificate_request::observe(reader.client, reader.namespace, cluster, names).await?;
    let (s3_secret, s3_further) = s3_secrets(reader, cluster, names).await?;
    let (authority, recovery, config_maps, credentials, pods, claims_found, read) = tokio::try_join!(
        reader.get(&secret, &authority_name),
        reader.get(&secret, &recovery_name),
        reader.list_objects(&config_map, &of_cluster),
        reader.get_named(&secret, given),
        reader.list::<Pod>(&selector),
        reader.list::<PersistentVolumeClaim>(&of_cluster),
        try_join_all(read),
    )?;
    let obstacles = obstacles(reader, names, pool, &pods, authority.is_some()).await?;
    let copy = typed(recovery.as_deref())?.as_ref().and_then(Recovery::read).or(remembered);
    let mut sorted = SortedObjects::default();
    for ((resource, name), object) in children.iter().zip(read) {
        // A person may have taken the labels of a Secret that has no owner.
        let is_kept = |object: &DynamicObject| copy.as_ref().is_some_and(|copy| copy.holds(object));
        sorted.extend(cluster, names, title(resource, name), object, is_kept);
    }
    // Without its digest the copy is the cluster's where the labels say so.
    let title_of = |name: &str| title(&secret, name);
    let has_copy = recovery.is_some();
    sorted.extend(cluster, names, title_of(&recovery_name), recovery, |_| copy.is_some());
    sorted.extend(cluster, names, title_of(&authority_name), authority.clone(), |_| true);
    let is_own = |map: &Arc<DynamicObject>| owner_of(map, cluster, names) == ChildOwner::Cluster;
    let own_maps: Vec<_> = config_maps.into_iter().filter(is_own).collect();
    let configurations = own_maps.iter().map(|map| map.name_any()).collect();
    sorted.children.extend(own_maps.into_iter().map(|map| (title(&config_map, &map.name_any()), map)));
    let request_title = title(&certificate_resource(), &names.s3_certificate_request());
    sorted.extend(cluster, names, request_title, request.object, |_| false);
    let SortedObjects { children, foreign } = sorted;
    // A Secret under one of these names may be a person's: only those among the children are read further.
    let child = |title: String| children.get(&title).map(Arc::as_ref);
    let own = |name: &str| child(title(&secret, name));
    Ok(ObservedCluster {
        credentials: match given {
            Some(_) => typed(credentials.as_deref())?,
            None => typed(own(&names.credentials()))?,
        },
        master_key: typed(own(&names.master_key()))?,
        certificates: typed(own(&names.certificates(&pool.name)))?,
        s3_authority: typed(own(&names.s3_authority()))?,
        s3_certificate: match cluster.spec.tls.mode {
            TlsMode::Operator => typed(own(&names.s3_certificate()))?,
            _ => typed(s3_secret.as_deref())?,
        },
        s3_further,
        has_cert_manager: request.has_cert_manager,
        certificate_words: request.words,
        stateful_set: typed(child(format!("StatefulSet {}", names.pool(&pool.name))))?,
        authority: typed(authority.as_deref())?,
        recovery: copy,
        has_copy,
        configurations,
        pods,
        claims: claims_found,
        foreign_claims: obstacles.foreign_claims,
        storage_class_missing: obstacles.storage_class_missing,
        refused_pods: obstacles.refused_pods,
        foreign,
        children,
        // The rest is of the API server, and of former children.
        ..ObservedCluster::default()
    })
}

/// The Secrets of others with certificates of S3: that of the mode, and the further ones by name.
async fn s3_secrets(
    reader: &ObjectReader<'_>,
    cluster: &StorageCluster,
    names: &Names,
) -> Result<(Option<Arc<DynamicObject>>, BTreeMap<String, Secret>), ReconcileError> {
    let resource = ApiResource::erase::<Secret>(&());
    let first = certificate_request::secret_of_others(cluster, names);
    let first = reader.get_named(&resource, first.as_deref()).await?;
    let mut further = BTreeMap::new();
    for name in cluster.spec.tls.further_names() {
        let found = typed(reader.get(&resource, name).await?.as_deref())?;
        further.extend(found.map(|found: Secret| (name.to_owned(), found)));
    }
    Ok((first, further))
}

/// Finds the children that are there and that the specification no longer asks for.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn leftovers(
    reader: &ObjectReader<'_>,
    cluster: &StorageCluster,
    names: &Names,
) -> Result<Vec<(ApiResource, String)>, ReconcileError> {
    let of_cluster = [(CLUSTER_LABEL.to_owned(), names.cluster.clone())].into();
    let mut left = Vec::new();
    for (resource, name) in former_names(names, cluster) {
        // The objects are read as a list, which a watch has: the absence of one object would be a request at
        // each look.
        let found = reader.list_objects(&resource, &of_cluster).await?;
        let mut same = found.iter().filter(|found| found.name_any() == name);
        let is_left = same.any(|found| owner_of(found, cluster, names) == ChildOwner::Cluster);
        left.extend(is_left.then_some((resource, name)));
    }
    Ok(left)
}

/// Objects and refusals that keep a cluster from coming up; asked for only where it is not up.
struct Obstacles {
    foreign_claims: Vec<ForeignObject>,
    storage_class_missing: bool,
    refused_pods: Option<String>,
}

async fn obstacles(
    reader: &ObjectReader<'_>,
    names: &Names,
    pool: &Pool,
    pods: &[Pod],
    has_authority: bool,
) -> Result<Obstacles, ReconcileError> {
    let class = pool.volume_claim_template.storage_class_name.as_deref();
    let wanted = names.pods(&pool.name, pool.nodes);
    Ok(Obstacles {
        foreign_claims: if has_authority {
            vec![]
        } else {
            let claims = Api::namespaced(reader.client.clone(), reader.namespace);
            claims_of_others(&claims, names, &pool.name).await?
        },
        storage_class_missing: !all_have_hosts(pods, pool.nodes)
            && class_missing(reader.client, class).await?,
        refused_pods: refusal_of_pods(reader, &names.pool(&pool.name), &wanted, pods).await?,
    })
}

/// The objects with the names of children, by owner.
#[derive(Default)]
struct SortedObjects {
    children: BTreeMap<String, Arc<DynamicObject>>,
    foreign: Vec<ForeignObject>,
}

impl SortedObjects {
    /// Adds an object that is there. It is the cluster's by its owner, or by its content.
    fn extend(
        &mut self,
        cluster: &StorageCluster,
        names: &Names,
        title: String,
        object: Option<Arc<DynamicObject>>,
        is_own: impl Fn(&DynamicObject) -> bool,
    ) {
        let Some(object) = object else { return };
        match owner_of(&object, cluster, names) {
            ChildOwner::Other(cluster) if !is_own(&object) => {
                self.foreign.push(ForeignObject { object: title, cluster });
            }
            _ => drop(self.children.insert(title, object)),
        }
    }
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

impl ObjectReader<'_> {
    async fn get(
        &self,
        resource: &ApiResource,
        name: &str,
    ) -> Result<Option<Arc<DynamicObject>>, ReconcileError> {
        if let Some(seen) = self.cache.get(self.namespace, resource, name) {
            return Ok(Some(seen));
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), self.namespace, resource);
        let found = api.get_opt(name).await;
        let failed = |source| ReconcileError::api("read", resource.kind.as_str().into(), name, source);
        Ok(found.map_err(failed)?.map(Arc::new))
    }

    async fn get_named(
        &self,
        resource: &ApiResource,
        name: Option<&str>,
    ) -> Result<Option<Arc<DynamicObject>>, ReconcileError> {
        match name {
            Some(name) => self.get(resource, name).await,
            None => Ok(None),
        }
    }

    pub(super) async fn list_objects(
        &self,
        resource: &ApiResource,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Arc<DynamicObject>>, ReconcileError> {
        if let Some(seen) = self.cache.list(self.namespace, resource, labels) {
            return Ok(seen);
        }
        let selector: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let params = ListParams::default().labels(&selector.join(",")).limit(limits::LIST_MAX);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), self.namespace, resource);
        let listed = api.list(&params).await;
        let failed =
            |source| ReconcileError::api("list", resource.kind.as_str().into(), "of the cluster", source);
        Ok(listed.map_err(failed)?.items.into_iter().map(Arc::new).collect())
    }

    async fn list<K>(&self, labels: &BTreeMap<String, String>) -> Result<Vec<K>, ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let found = self.list_objects(&ApiResource::erase::<K>(&()), labels).await?;
        found.iter().filter_map(|object| typed(Some(object)).transpose()).collect()
    }
}

/// Whether every pod is there and has a host, so that its claims have what they need.
fn all_have_hosts(pods: &[Pod], nodes: i32) -> bool {
    let has_host = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    usize::try_from(nodes).is_ok_and(|nodes| pods.len() >= nodes) && pods.iter().all(has_host)
}

/// Decodes an object as its kind.
pub(super) fn typed<K: DeserializeOwned>(
    object: Option<&DynamicObject>,
) -> Result<Option<K>, ReconcileError> {
    let decoded = object.map(|object| serde_json::from_value(serde_json::json!(object))).transpose();
    decoded.map_err(ReconcileError::Decode)
}

/// Why pods that are not there are not made: the last event of the StatefulSet about one of them. An operator
/// that may not read events says nothing of it.
async fn refusal_of_pods(
    reader: &ObjectReader<'_>,
    set: &str,
    wanted: &[String],
    pods: &[Pod],
) -> Result<Option<String>, ReconcileError> {
    let is_there = |name: &String| pods.iter().any(|pod| pod.metadata.name.as_ref() == Some(name));
    let missing: Vec<&String> = wanted.iter().filter(|name| !is_there(name)).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let events: Api<Event> = Api::namespaced(reader.client.clone(), reader.namespace);
    let of_set =
        format!("involvedObject.kind=StatefulSet,involvedObject.name={set},reason=FailedCreate,type=Warning");
    let found = events.list(&ListParams::default().fields(&of_set).limit(limits::REFUSALS_MAX)).await;
    let found = match found {
        Ok(found) => found.items,
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(None),
        Err(source) => return Err(ReconcileError::api("list", "Event".into(), set, source)),
    };
    let names_missing = |event: &&Event| {
        let words: Vec<&str> = event.message.iter().flat_map(|message| message.split_whitespace()).collect();
        missing.iter().any(|name| words.contains(&name.as_str()))
    };
    let when = |event: &&Event| event.last_timestamp.as_ref().map(|time| time.0);
    Ok(found.iter().filter(names_missing).max_by_key(when).and_then(|event| event.message.clone()))
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
