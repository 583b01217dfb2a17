//! A watched namespace, or all: its API, and the controllers and watches of its objects.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::PartialObjectMeta;
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::runtime::controller::{Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::limits;
use crate::names::{MANAGED_BY, MANAGED_BY_LABEL};

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

/// One namespace, or all.
pub(super) struct Scope {
    pub(super) client: kube::Client,
    pub(super) namespace: Option<String>,
}

impl Scope {
    pub(super) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    pub(super) fn controller<K: WatchedKind>(&self) -> Controller<GuardedObject<K>> {
        Controller::new(self.api::<GuardedObject<K>>(), watcher::Config::default())
            .with_config(Config::default().concurrency(limits::RECONCILES_MAX))
    }

    /// Watches objects of the operator's whose label names the object that they belong to.
    pub(super) fn watch_labelled<K, C>(
        &self,
        controller: Controller<GuardedObject<K>>,
        label: &'static str,
    ) -> Controller<GuardedObject<K>>
    where
        K: WatchedKind,
        C: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + Sync + 'static,
    {
        let labels = format!("{MANAGED_BY_LABEL}={MANAGED_BY},{label}");
        let config = watcher::Config::default().labels(&labels);
        controller.watches(self.api::<PartialObjectMeta<C>>(), config, move |child| {
            let owner = child.labels().get(label)?;
            Some(ObjectRef::new(owner).within(&child.namespace()?))
        })
    }
}

/// A wait and up to a tenth of it, so that objects do not come all at once.
pub(super) fn jittered(wait: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(0);
    wait + wait.mul_f64(f64::from(random) / f64::from(u32::MAX) / 10.0)
}
