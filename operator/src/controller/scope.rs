//! A watched namespace, or all: its API, and the controllers and watches of its objects.

use std::fmt::Debug;
use std::time::Duration;

use futures::Stream;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::runtime::controller::{Config, Controller};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, reflector};
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::limits;
use crate::reconcile::cache::ObjectCache;

/// One object that cannot be decoded must not hide the others.
pub(super) type GuardedObject<K> = DeserializeGuard<K>;

/// A kind whose objects a controller can watch.
pub(super) trait WatchedKind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> WatchedKind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// The namespaces whose objects are worked on. `*` means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedNamespaces {
    /// Namespaces whose StorageClusters, Buckets and BucketUsers are worked on.
    pub clusters: Vec<String>,
    /// Further namespaces, of which Buckets and BucketUsers alone are worked on.
    pub buckets: Vec<String>,
}

/// One namespace, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScopeName {
    pub(super) namespace: Option<String>,
    /// Whether the operator works on Buckets and BucketUsers alone there: it sees no list of Secrets.
    pub(super) is_of_tenants: bool,
}

impl WatchedNamespaces {
    /// The scopes of StorageClusters.
    pub(super) fn of_clusters(&self) -> Vec<ScopeName> {
        names(&self.clusters, false)
    }

    /// The scopes of Buckets and BucketUsers, each namespace in one of them.
    pub(super) fn of_buckets(&self) -> Vec<ScopeName> {
        let watched = self.of_clusters();
        let is_all = |scopes: &[ScopeName]| scopes.iter().any(|scope| scope.namespace.is_none());
        let further = names(&self.buckets, true);
        if is_all(&watched) {
            return watched;
        }
        if is_all(&further) {
            return further;
        }
        let is_new = |scope: &ScopeName| watched.iter().all(|one| one.namespace != scope.namespace);
        let further: Vec<ScopeName> = further.into_iter().filter(is_new).collect();
        [watched, further].concat()
    }
}

fn names(namespaces: &[String], is_of_tenants: bool) -> Vec<ScopeName> {
    if namespaces.iter().any(|namespace| namespace == "*") {
        return vec![ScopeName { namespace: None, is_of_tenants }];
    }
    let named = |namespace: &String| ScopeName { namespace: Some(namespace.clone()), is_of_tenants };
    namespaces.iter().filter(|namespace| !namespace.is_empty()).map(named).collect()
}

/// The API of one namespace, or of all.
pub(super) struct Scope {
    pub(super) client: kube::Client,
    pub(super) name: ScopeName,
}

impl Scope {
    pub(super) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        match &self.name.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    pub(super) fn controller<K: WatchedKind>(&self) -> Controller<GuardedObject<K>> {
        Controller::new(self.api::<GuardedObject<K>>(), watcher::Config::default())
            .with_config(Config::default().concurrency(limits::RECONCILES_MAX))
    }

    /// A controller that only a change of the specification, of an annotation or of the object's end begins a
    /// reconcile in: the operator writes the status itself.
    pub(super) fn controller_of_changes<K: WatchedKind>(&self) -> Controller<GuardedObject<K>> {
        let (store, writer) = reflector::store();
        let seen = watcher(self.api::<GuardedObject<K>>(), watcher::Config::default());
        Controller::for_stream(changes(reflector(writer, seen).applied_objects()), store)
            .with_config(Config::default().concurrency(limits::RECONCILES_MAX))
    }

    /// Watches objects whose label names the StorageCluster that they belong to, and keeps them in the cache.
    pub(super) fn watch_cached<K: WatchedKind>(
        &self,
        controller: Controller<GuardedObject<K>>,
        cache: &ObjectCache,
        resource: ApiResource,
        label: &'static str,
    ) -> Controller<GuardedObject<K>> {
        let api: Api<DynamicObject> = match &self.name.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let writer = Writer::new(resource.clone());
        cache.add(self.name.namespace.clone(), resource.clone(), writer.as_reader());
        let seen = reflector(writer, watcher(api, watcher::Config::default().labels(label)));
        let owner = move |object: DynamicObject| {
            let owner = object.labels().get(label)?;
            Some(ObjectRef::new(owner).within(&object.namespace()?))
        };
        controller.watches_stream_with(seen.touched_objects(), owner, resource)
    }

    /// Watches objects whose label names the object that they belong to: the operator's own, and others
    /// that a person gave it.
    pub(super) fn watch_labelled<K, C>(
        &self,
        controller: Controller<GuardedObject<K>>,
        label: &'static str,
    ) -> Controller<GuardedObject<K>>
    where
        K: WatchedKind,
        C: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + Sync + 'static,
    {
        let config = watcher::Config::default().labels(label);
        controller.watches(self.api::<PartialObjectMeta<C>>(), config, move |child| {
            let owner = child.labels().get(label)?;
            Some(ObjectRef::new(owner).within(&child.namespace()?))
        })
    }
}

/// The objects of a stream whose specification, annotations or end changed.
fn changes<K: Resource + 'static>(
    objects: impl Stream<Item = Result<K, watcher::Error>>,
) -> impl Stream<Item = Result<K, watcher::Error>> {
    let matters = predicates::generation.combine(predicates::annotations);
    objects.predicate_filter(matters, PredicateConfig::default())
}

/// A wait and up to a tenth of it, so that objects do not come all at once.
pub(super) fn jittered(wait: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(0);
    wait + wait.mul_f64(f64::from(random) / f64::from(u32::MAX) / 10.0)
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};
    use serde_json::json;

    use super::*;
    use crate::api::StorageCluster;

    #[test]
    fn each_namespace_has_one_scope_and_those_of_tenants_have_no_clusters() {
        let scopes = |clusters: &[&str], buckets: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let watched = WatchedNamespaces { clusters: owned(clusters), buckets: owned(buckets) };
            let text = |scope: ScopeName| {
                let tenants = if scope.is_of_tenants { "~" } else { "" };
                format!("{}{tenants}", scope.namespace.unwrap_or_else(|| "*".to_owned()))
            };
            let texts = |scopes: Vec<ScopeName>| scopes.into_iter().map(text).collect::<Vec<_>>().join(" ");
            (texts(watched.of_clusters()), texts(watched.of_buckets()))
        };
        let pair = |clusters: &str, buckets: &str| (clusters.to_owned(), buckets.to_owned());
        assert_eq!(scopes(&["storage"], &[""]), pair("storage", "storage"));
        assert_eq!(scopes(&["storage", "a"], &["a", "b"]), pair("storage a", "storage a b~"));
        assert_eq!(scopes(&["*"], &["b"]), pair("*", "*"));
        assert_eq!(scopes(&["storage"], &["*"]), pair("storage", "*~"));
    }

    /// A status that the operator writes must not begin its next reconcile.
    #[tokio::test]
    async fn a_change_of_the_status_begins_no_reconcile() {
        let cluster = |generation: i64, endpoint: &str, annotation: &str| {
            let document = json!({
                "apiVersion": "sherd.dev/v1alpha1", "kind": "StorageCluster",
                "metadata": {
                    "name": "demo", "namespace": "storage", "uid": "u", "generation": generation,
                    "annotations": {"asks": annotation},
                },
                "spec": {"pools": []},
                "status": {"endpoint": endpoint},
            });
            Ok(serde_json::from_value::<StorageCluster>(document).expect("of the right form"))
        };
        let seen = [
            cluster(1, "", ""),
            cluster(1, "one", ""),
            cluster(2, "one", ""),
            cluster(2, "two", ""),
            cluster(2, "two", "for more"),
        ];
        let begun: Vec<_> = changes(stream::iter(seen)).collect().await;
        assert_eq!(begun.len(), 3, "the first sight, the specification, the annotation");
    }
}
