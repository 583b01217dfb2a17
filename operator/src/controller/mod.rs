//! Runs reconciles: a controller for each kind in each watched namespace, triggered by changes of the
//! objects, of what belongs to them, and by time. Bounded in number; failures wait longer each time.

mod brake;
mod scope;
mod kind;
mod permits;

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::ResourceExt as _;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::brake::Brake;
use self::kind::{ReadyKind, ReconciledKind};
use self::permits::ReconcilePermits;
pub use self::scope::WatchedNamespaces;
use self::scope::{GuardedObject, Scope, jittered};
use crate::api::{Bucket, BucketUser, StorageCluster};
use crate::api_words::{words, words_of_watch};
use crate::buckets;
use crate::limits;
use crate::metrics::{AccessState, number};
use crate::reconcile::{Context, ReconcileError, note};

struct SharedState {
    context: Context,
    /// Failures in a row, by kind, namespace and name.
    failures: Mutex<HashMap<String, u32>>,
    /// When reconciles began.
    brake: Brake,
    permits: ReconcilePermits,
    /// The clusters of each watched namespace.
    clusters: Mutex<Vec<Store<GuardedObject<StorageCluster>>>>,
}

/// Runs until it is stopped; running reconciles end first.
pub async fn run(context: Context, watched: &WatchedNamespaces, stop: CancellationToken) {
    let shared = Arc::new(SharedState {
        context,
        failures: Mutex::default(),
        brake: Brake::default(),
        permits: ReconcilePermits::default(),
        clusters: Mutex::default(),
    });
    let scope = |name| Arc::new(Scope { client: shared.context.client.clone(), name });
    let controllers: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    let mut shown: Vec<ShownAccess> = Vec::new();
    for scope in watched.of_clusters().into_iter().map(scope) {
        let clusters = StorageCluster::controller(&scope);
        shared.clusters.lock().push(clusters.store());
        controllers.push(Box::pin(run_scope(Arc::clone(&shared), scope, clusters, stop.clone())));
    }
    for scope in watched.of_buckets().into_iter().map(scope) {
        let buckets = Bucket::controller(&scope);
        shown.push(shown_access(buckets.store()));
        controllers.push(Box::pin(run_scope(Arc::clone(&shared), Arc::clone(&scope), buckets, stop.clone())));
        let users = BucketUser::controller(&scope);
        shown.push(shown_access(users.store()));
        controllers.push(Box::pin(run_scope(Arc::clone(&shared), scope, users, stop.clone())));
    }
    shared.context.metrics.show_access(move || shown.iter().flat_map(|shown| shown()).collect());
    tokio::select! {
        // Only controllers end by themselves; a renewal or a sweep that is dropped is made by the next
        // leader.
        biased;
        () = controllers.collect::<()>() => {}
        () = shared.context.namespaces.keep() => {}
        () = buckets::sweep::run(&shared.context, || clusters_of(&shared)) => {}
    }
}

type ShownAccess = Box<dyn Fn() -> Vec<AccessState> + Send>;

/// Returns the objects of a store as metrics show them.
fn shown_access<K: ReadyKind>(store: Store<GuardedObject<K>>) -> ShownAccess {
    let state = |guarded: &GuardedObject<K>| {
        let (status, reason) = match &guarded.0 {
            Ok(object) => object.ready().unwrap_or_default(),
            Err(_) => ("False", "SpecInvalid"),
        };
        AccessState {
            kind: K::KIND,
            namespace: guarded.namespace().unwrap_or_default(),
            name: guarded.name_any(),
            ready: number(status),
            reason: reason.to_owned(),
        }
    };
    Box::new(move || store.state().iter().map(|guarded| state(guarded)).collect())
}

async fn run_scope<K: ReconciledKind>(
    shared: Arc<SharedState>,
    scope: Arc<Scope>,
    controller: Controller<GuardedObject<K>>,
    stop: CancellationToken,
) {
    K::watch(&shared.context, &scope, controller)
        .graceful_shutdown_on(async move { stop.cancelled().await })
        .run(step::<K>, |guarded, error, shared| wait_after(&guarded, error, &shared), Arc::clone(&shared))
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
        Error::QueueError(error) => tracing::warn!(error = words_of_watch(error), "watch"),
        Error::RunnerError(error) => tracing::warn!(%error, "watch"),
    }
}

async fn step<K: ReconciledKind>(
    guarded: Arc<GuardedObject<K>>,
    shared: Arc<SharedState>,
) -> Result<Action, ReconcileError> {
    let context = &shared.context;
    let _permit = shared.permits.take(K::CONTROLLER).await;
    if let Some(wait) = shared.brake.wait(&key(&guarded), K::apart()) {
        return Ok(Action::requeue(wait));
    }
    let begun = Instant::now();
    context.metrics.begin();
    let ended = match &guarded.0 {
        Ok(object) => {
            let reconciled = tokio::time::timeout(limits::RECONCILE_TIME_MAX, object.step(context)).await;
            let reconciled = reconciled.unwrap_or(Err(ReconcileError::Time(limits::RECONCILE_TIME_MAX)));
            if let Err(error) = &reconciled {
                let failures = shared.failures.lock().get(&key(&guarded)).copied().unwrap_or(0);
                let lasts = error.is_refusal() || failures >= limits::FAILURES_UNREPORTED;
                object.report(context, error, lasts).await;
            }
            reconciled
        }
        Err(invalid) => {
            let (kind, name, error) = (K::CONTROLLER, guarded.name_any(), &invalid.error);
            tracing::warn!(kind, name, error, "decode an object");
            report_undecodable(context, &guarded, &invalid.error).await;
            K::secure(context, &guarded).await;
            Ok(Action::await_change())
        }
    };
    let category = ended.as_ref().err().map(ReconcileError::category);
    context.metrics.end(K::CONTROLLER, begun.elapsed().as_secs_f64(), category);
    if ended.is_ok() {
        shared.failures.lock().remove(&key(&guarded));
    }
    forget_clusters_that_are_gone(&shared);
    ended
}

async fn report_undecodable<K: ReconciledKind>(context: &Context, guarded: &GuardedObject<K>, error: &str) {
    let event = Event {
        type_: EventType::Warning,
        reason: "SpecInvalid".to_owned(),
        note: Some(note(&format!("the object cannot be decoded: {error}"))),
        action: "Decode".to_owned(),
        secondary: None,
    };
    let reference = kube::core::Resource::object_ref(guarded, &());
    if let Err(error) = context.recorder.publish(&event, &reference).await {
        tracing::warn!(error = words(&error), "publish an event");
    }
}

/// The clusters that the watches have seen.
fn clusters_of(shared: &SharedState) -> Vec<Arc<StorageCluster>> {
    let stores = shared.clusters.lock();
    let seen = stores.iter().flat_map(Store::state);
    seen.filter_map(|guarded| guarded.0.as_ref().ok().cloned().map(Arc::new)).collect()
}

fn forget_clusters_that_are_gone(shared: &SharedState) {
    let stores = shared.clusters.lock();
    let is_there = |namespace: &str, name: &str| {
        let reference = ObjectRef::new(name).within(namespace);
        stores.iter().any(|store| store.get(&reference).is_some())
    };
    shared.context.metrics.retain(is_there);
    shared.context.children.retain(is_there);
    shared.context.refusals.retain(is_there);
    shared.context.partial_reports.retain(is_there);
    shared.context.remembered.retain(is_there);
}

/// Decides how long to wait after a failure.
fn wait_after<K: ReconciledKind>(
    guarded: &GuardedObject<K>,
    error: &ReconcileError,
    shared: &SharedState,
) -> Action {
    let mut failures = shared.failures.lock();
    let count = failures.entry(key(guarded)).or_insert(0);
    let wait = limits::RETRY_MIN.saturating_mul(1 << (*count).min(6)).min(K::retry_max(error));
    *count = count.saturating_add(1);
    drop(failures);
    let (kind, name, namespace) = (K::CONTROLLER, guarded.name_any(), guarded.namespace());
    tracing::warn!(kind, name, namespace, %error, ?wait, "reconcile");
    Action::requeue(jittered(wait))
}

fn key<K: ReconciledKind>(guarded: &GuardedObject<K>) -> String {
    format!("{} {}/{}", K::CONTROLLER, guarded.namespace().unwrap_or_default(), guarded.name_any())
}
