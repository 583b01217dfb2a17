//! The objects of clusters as the watches last saw them. A cluster at rest is looked at without a request:
//! what is not here, a name that a person took or an object without labels, is asked of the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;

/// The objects that the watches of all namespaces have seen. Without watches it is empty, and everything is
/// asked for.
#[derive(Default)]
pub struct ObjectCache {
    kinds: Mutex<Vec<CachedKind>>,
}

/// The objects of one kind, in one namespace or in all.
struct CachedKind {
    resource: ApiResource,
    namespace: Option<String>,
    store: Store<DynamicObject>,
}

impl std::fmt::Debug for ObjectCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectCache").field("kinds", &self.kinds.lock().len()).finish()
    }
}

impl ObjectCache {
    /// Adds what one watch sees, of a namespace or of all.
    pub fn add(&self, namespace: Option<String>, resource: ApiResource, store: Store<DynamicObject>) {
        self.kinds.lock().push(CachedKind { resource, namespace, store });
    }

    /// Returns an object that was seen.
    pub(super) fn get(
        &self,
        namespace: &str,
        resource: &ApiResource,
        name: &str,
    ) -> Option<Arc<DynamicObject>> {
        let reference = ObjectRef::new_with(name, resource.clone()).within(namespace);
        self.store(namespace, resource)?.get(&reference)
    }

    /// Returns the objects of a namespace with these labels; nothing before all of them were seen.
    pub(super) fn list(
        &self,
        namespace: &str,
        resource: &ApiResource,
        labels: &BTreeMap<String, String>,
    ) -> Option<Vec<Arc<DynamicObject>>> {
        let store = self.store(namespace, resource)?;
        let all_seen = matches!(store.wait_until_ready().now_or_never(), Some(Ok(())));
        all_seen.then(|| {
            let mut found = store.state_filter(|object| {
                let has = |(label, value): (&String, &String)| object.labels().get(label) == Some(value);
                object.metadata.namespace.as_deref() == Some(namespace) && labels.iter().all(has)
            });
            found.sort_by_key(|object| object.name_any());
            found
        })
    }

    fn store(&self, namespace: &str, resource: &ApiResource) -> Option<Store<DynamicObject>> {
        let kinds = self.kinds.lock();
        let watches = |kind: &&CachedKind| {
            kind.resource == *resource && kind.namespace.as_deref().is_none_or(|watched| watched == namespace)
        };
        kinds.iter().find(watches).map(|kind| kind.store.clone())
    }
}
