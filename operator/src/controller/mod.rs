//! Runs reconciles: a controller for each watched namespace, triggered by changes of clusters, of their
//! children, pods and claims, and by time. Bounded in number; failures wait longer each time.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::PartialObjectMeta;
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::events::{Event, EventType};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt as _};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::StorageCluster;
use crate::limits;
use crate::names::{CLUSTER_LABEL, MANAGED_BY, MANAGED_BY_LABEL};
use crate::reconcile::{
    Context, ReconcileError, is_settled, note, publish_unclaimed, reconcile, report_unobserved,
};

/// One object that cannot be decoded must not hide the others.
type GuardedCluster = DeserializeGuard<StorageCluster>;

struct SharedState {
    context: Context,
    /// Failures in a row, by cluster.
    failures: Mutex<HashMap<String, u32>>,
    /// The clusters of each watched namespace.
    stores: Mutex<Vec<Store<GuardedCluster>>>,
}

/// Runs until it is stopped; running reconciles end first. No namespace means all.
pub async fn run(context: Context, namespaces: &[String], stop: CancellationToken) {
    let shared = Arc::new(SharedState { context, failures: Mutex::default(), stores: Mutex::default() });
    let scopes: Vec<Option<String>> =
        if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() };
    let controllers: FuturesUnordered<_> =
        scopes.into_iter().map(|scope| run_scope(Arc::clone(&shared), scope, stop.clone())).collect();
    tokio::select! {
        // Only controllers end by themselves; a renewal that is dropped is made by the next leader.
        biased;
        () = controllers.collect::<()>() => {}
        () = shared.context.namespaces.keep() => {}
    }
}

async fn run_scope(shared: Arc<SharedState>, namespace: Option<String>, stop: CancellationToken) {
    let scope = Scope { client: shared.context.client.clone(), namespace };
    let controller = Controller::new(scope.api::<GuardedCluster>(), watcher::Config::default())
        .with_config(Config::default().concurrency(limits::RECONCILES_MAX));
    shared.stores.lock().push(controller.store());
    let controller = scope.watch_children::<Secret>(controller);
    let controller = scope.watch_children::<ServiceAccount>(controller);
    let controller = scope.watch_children::<ConfigMap>(controller);
    let controller = scope.watch_children::<Service>(controller);
    let controller = scope.watch_children::<NetworkPolicy>(controller);
    let controller = scope.watch_children::<PodDisruptionBudget>(controller);
    let controller = scope.watch_children::<StatefulSet>(controller);
    let controller = scope.watch_children::<Pod>(controller);
    let controller = scope.watch_children::<PersistentVolumeClaim>(controller);
    controller
        .graceful_shutdown_on(async move { stop.cancelled().await })
        .run(step, |guarded, error, shared| wait_after(&guarded, error, &shared), Arc::clone(&shared))
        .for_each(|ended| {
            if let Err(error) = ended {
                log_failure(&error);
                // A cluster that was deleted comes here and not to a reconcile.
                forget_clusters_that_are_gone(&shared);
            }
            std::future::ready(())
        })
        .await;
}

/// Failed reconciles are logged where their wait is decided; the rest is about watches.
fn log_failure(error: &kube::runtime::controller::Error<ReconcileError, watcher::Error>) {
    use kube::runtime::controller::Error;
    match error {
        Error::ReconcilerFailed(..) | Error::ObjectNotFound(_) => {}
        Error::QueueError(_) | Error::RunnerError(_) => tracing::warn!(%error, "watch"),
    }
}

/// One namespace, or all.
struct Scope {
    client: kube::Client,
    namespace: Option<String>,
}

impl Scope {
    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    /// Watches a kind of children; their label names the cluster, so that children without an owner
    /// trigger a reconcile too.
    fn watch_children<K>(&self, controller: Controller<GuardedCluster>) -> Controller<GuardedCluster>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + Sync + 'static,
    {
        let labels = format!("{MANAGED_BY_LABEL}={MANAGED_BY}");
        let config = watcher::Config::default().labels(&labels);
        controller.watches(self.api::<PartialObjectMeta<K>>(), config, |child| {
            let cluster = child.labels().get(CLUSTER_LABEL)?;
            Some(ObjectRef::new(cluster).within(&child.namespace()?))
        })
    }
}

async fn step(guarded: Arc<GuardedCluster>, shared: Arc<SharedState>) -> Result<Action, ReconcileError> {
    let context = &shared.context;
    let begun = Instant::now();
    context.metrics.begin();
    let ended = match &guarded.0 {
        Ok(cluster) => {
            let reconciled =
                tokio::time::timeout(limits::RECONCILE_TIME_MAX, reconcile(context, cluster)).await;
            let reconciled = reconciled.unwrap_or(Err(ReconcileError::Time(limits::RECONCILE_TIME_MAX)));
            if let Err(error) = &reconciled {
                report_lasting(&shared, &guarded, cluster, error).await;
            }
            reconciled.map(|status| {
                let wait =
                    if is_settled(&status) { limits::RESYNC_SETTLED } else { limits::RESYNC_UNSETTLED };
                Action::requeue(jittered(wait))
            })
        }
        Err(invalid) => {
            tracing::warn!(cluster = guarded.name_any(), error = invalid.error, "decode a StorageCluster");
            report_undecodable(context, &guarded, &invalid.error).await;
            Ok(Action::await_change())
        }
    };
    context.metrics.end(begun.elapsed().as_secs_f64(), ended.as_ref().err().map(ReconcileError::category));
    if ended.is_ok() {
        shared.failures.lock().remove(&key(&guarded));
    }
    forget_clusters_that_are_gone(&shared);
    ended
}

/// Reports a failure that a reconcile could not report itself, once it lasts.
async fn report_lasting(
    shared: &SharedState,
    guarded: &GuardedCluster,
    cluster: &StorageCluster,
    error: &ReconcileError,
) {
    let failures = shared.failures.lock().get(&key(guarded)).copied().unwrap_or(0);
    if let ReconcileError::NamespaceLease { .. } = error
        && failures >= limits::FAILURES_UNREPORTED
    {
        publish_unclaimed(&shared.context.recorder, cluster, &error.to_string()).await;
    }
    let lasts = error.is_refusal() || failures >= limits::FAILURES_UNREPORTED;
    if !error.is_unreported() || !lasts {
        return;
    }
    let reported = report_unobserved(&shared.context, cluster, error);
    match tokio::time::timeout(limits::REQUEST_TIME_MAX, reported).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "report a cluster that cannot be looked at"),
        Err(_) => tracing::warn!("report a cluster that cannot be looked at: no answer"),
    }
}

async fn report_undecodable(context: &Context, guarded: &GuardedCluster, error: &str) {
    let event = Event {
        type_: EventType::Warning,
        reason: "SpecInvalid".to_owned(),
        note: Some(note(&format!("the object cannot be decoded: {error}"))),
        action: "Decode".to_owned(),
        secondary: None,
    };
    let reference = kube::core::Resource::object_ref(guarded, &());
    if let Err(error) = context.recorder.publish(&event, &reference).await {
        tracing::warn!(%error, "publish an event");
    }
}

fn forget_clusters_that_are_gone(shared: &SharedState) {
    let stores = shared.stores.lock();
    shared.context.metrics.retain(|namespace, name| {
        let reference = ObjectRef::new(name).within(namespace);
        stores.iter().any(|store| store.get(&reference).is_some())
    });
}

/// Decides how long to wait after a failure.
fn wait_after(guarded: &GuardedCluster, error: &ReconcileError, shared: &SharedState) -> Action {
    let mut failures = shared.failures.lock();
    let count = failures.entry(key(guarded)).or_insert(0);
    let wait = limits::RETRY_MIN.saturating_mul(1 << (*count).min(6)).min(limits::RETRY_MAX);
    *count = count.saturating_add(1);
    drop(failures);
    tracing::warn!(cluster = guarded.name_any(), namespace = guarded.namespace(), %error, ?wait, "reconcile");
    Action::requeue(jittered(wait))
}

fn key(guarded: &GuardedCluster) -> String {
    format!("{}/{}", guarded.namespace().unwrap_or_default(), guarded.name_any())
}

/// A wait and up to a tenth of it, so that clusters do not come all at once.
fn jittered(wait: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(0);
    wait + wait.mul_f64(f64::from(random) / f64::from(u32::MAX) / 10.0)
}
