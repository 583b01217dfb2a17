//! Leader election by a Lease, as client-go does it: a lease is another's until it was seen unchanged
//! for its whole duration by *this* process' own clock; the times written in it are not compared.
//!
//! ```text
//! candidate: every 2 s read; free, released or unchanged for 15 s: replace (resourceVersion decides)
//! leader:    every 2 s replace; not replaced for 10 s: stop, before another may begin
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api_words::words;
use crate::limits::{
    LEASE_DURATION, LEASE_RENEW_DEADLINE, LEASE_RETRY, NAMESPACE_LEASE_DURATION, NAMESPACE_LEASE_RENEWED,
    NAMESPACES_RENEWED_MAX, REQUEST_TIME_MAX,
};

/// A candidate for one lease.
pub struct Elector {
    leases: Api<Lease>,
    name: String,
    identity: String,
    duration: Duration,
    /// The lease as it was last seen, and when it was first seen like that.
    seen: Option<(LeaseSpec, Instant)>,
    /// When the last try began that took or renewed it: it may have been written then already.
    renewed: Option<Instant>,
    now: fn() -> Timestamp,
}

impl std::fmt::Debug for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elector")
            .field("name", &self.name)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum LeaseTry {
    /// The lease is this process'.
    Held,
    /// The lease is another process', or another was faster.
    Foreign(String),
    /// The API server could not be asked.
    Failed(String),
}

impl Elector {
    /// Prepares a candidate; `identity` must differ between processes.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, now: fn() -> Timestamp) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: LEASE_DURATION,
            seen: None,
            renewed: None,
            now,
        }
    }

    /// Waits until the lease is this process'; false when it was stopped before.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        let mut holder = String::new();
        loop {
            let tried = tokio::select! {
                // A try that is dropped has taken the lease or not; a later one finds out.
                biased;
                () = stop.cancelled() => return false,
                tried = self.try_once() => tried,
            };
            match tried {
                LeaseTry::Held => return true,
                LeaseTry::Foreign(other) if other != holder => {
                    tracing::info!(holder = other, "another operator leads");
                    holder = other;
                }
                LeaseTry::Foreign(_) => {}
                LeaseTry::Failed(error) => tracing::warn!(error, "take the lease"),
            }
            tokio::select! {
                // Neither holds anything that could be lost.
                biased;
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(LEASE_RETRY) => {}
            }
        }
    }

    /// Renews the lease until it is lost or this process is stopped; true when it was stopped.
    pub async fn hold(&mut self, stop: &CancellationToken) -> bool {
        let mut renewed = self.renewed.unwrap_or_else(Instant::now);
        loop {
            tokio::select! {
                // Neither holds anything that could be lost.
                biased;
                () = stop.cancelled() => return true,
                () = tokio::time::sleep(LEASE_RETRY) => {}
            }
            let left = LEASE_RENEW_DEADLINE.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.try_once()).await {
                Ok(LeaseTry::Held) => renewed = self.renewed.unwrap_or(renewed),
                Ok(LeaseTry::Foreign(holder)) => {
                    tracing::error!(holder, "the lease was taken by another operator");
                    return false;
                }
                Ok(LeaseTry::Failed(error)) => tracing::warn!(error, "renew the lease"),
                Err(_) => tracing::warn!("renew the lease: no answer"),
            }
            if renewed.elapsed() >= LEASE_RENEW_DEADLINE {
                tracing::error!("the lease could not be renewed in time");
                return false;
            }
        }
    }

    /// Gives the lease back, so that the next leader need not wait for it to end.
    pub async fn release(&mut self) {
        let released = async {
            let mut lease = self.leases.get(&self.name).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(self.identity.as_str()) {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                spec.renew_time = Some(MicroTime((self.now)()));
                self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        match tokio::time::timeout(LEASE_RETRY, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error = words(&error), "release the lease"),
            Err(_) => tracing::warn!("release the lease: no answer"),
        }
    }

    async fn try_once(&mut self) -> LeaseTry {
        let begun = Instant::now();
        match tokio::time::timeout(REQUEST_TIME_MAX, self.try_lease(begun)).await {
            Ok(Ok(tried)) => {
                if matches!(tried, LeaseTry::Held) {
                    self.renewed = Some(begun);
                }
                tried
            }
            Ok(Err(error)) => LeaseTry::Failed(words(&error)),
            Err(_) => LeaseTry::Failed("no answer".to_owned()),
        }
    }

    async fn try_lease(&mut self, begun: Instant) -> Result<LeaseTry, kube::Error> {
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.spec(None)) };
            return self.won(self.leases.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if *seen == spec => *since,
            _ => Instant::now(),
        };
        self.seen = Some((spec.clone(), since));
        let holder = spec.holder_identity.clone().unwrap_or_default();
        // The lease has been like this since it was first seen, at the latest, and was so at the begin of
        // this look, at the earliest.
        let unchanged = begun.saturating_duration_since(since);
        if !may_take(&holder, &self.identity, unchanged, self.duration) {
            return Ok(LeaseTry::Foreign(holder));
        }
        lease.spec = Some(self.spec(Some(&spec)));
        self.won(self.leases.replace(&self.name, &PostParams::default(), &lease).await)
    }

    /// A conflict means that another was faster.
    fn won(&self, written: Result<Lease, kube::Error>) -> Result<LeaseTry, kube::Error> {
        match written {
            Ok(_) => Ok(LeaseTry::Held),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Ok(LeaseTry::Failed(format!("{} was written by another operator meanwhile", self.name)))
            }
            Err(error) => Err(error),
        }
    }

    fn spec(&self, last: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime((self.now)());
        let was_held = last.and_then(|last| last.holder_identity.as_deref()) == Some(self.identity.as_str());
        let transitions = last.and_then(|last| last.lease_transitions).unwrap_or(0);
        let acquired = last.and_then(|last| last.acquire_time.clone()).filter(|_| was_held);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.duration.as_secs()).ok(),
            acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions.saturating_add(i32::from(!was_held && last.is_some()))),
            ..LeaseSpec::default()
        }
    }
}

/// A lease is taken that is free, one's own, or was seen unchanged for its whole duration.
fn may_take(holder: &str, identity: &str, unchanged: Duration, duration: Duration) -> bool {
    holder.is_empty() || holder == identity || unchanged >= duration
}

/// The lease in each namespace whose clusters are worked on.
pub const NAMESPACE_LEASE: &str = "sherd-clusters";

/// The installation that manages a namespace's clusters.
#[derive(Debug)]
pub enum NamespaceClaim {
    /// This one. While the guard is held, no other reconcile changes anything in the namespace: clusters
    /// whose children have the same names are reconciled one after the other.
    Own(OwnedMutexGuard<()>),
    /// Another one, by its name.
    Foreign(String),
}

/// Keeps two installations that watch one namespace from undoing each other's changes: the first to work
/// there holds the lease [`NAMESPACE_LEASE`] in it, and renews it for as long as it runs. The processes of
/// one installation share the name; which of them works is decided by their own [`Elector`].
pub struct NamespaceLeases {
    client: Client,
    installation: String,
    now: fn() -> Timestamp,
    held: Mutex<HashMap<String, Arc<HeldNamespace>>>,
}

/// A namespace as one installation has it.
struct HeldNamespace {
    elector: tokio::sync::Mutex<Elector>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl std::fmt::Debug for NamespaceLeases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceLeases").field("installation", &self.installation).finish_non_exhaustive()
    }
}

impl NamespaceLeases {
    /// Prepares the claims of one installation; its name is the same in all its processes.
    pub fn new(client: Client, installation: &str, now: fn() -> Timestamp) -> Self {
        Self { client, installation: installation.to_owned(), now, held: Mutex::default() }
    }

    /// Returns the installation that manages a namespace's clusters, and takes or renews the lease where it
    /// is free or this installation's.
    ///
    /// # Errors
    /// A text, when the API server could not be asked or another was faster.
    pub async fn claim(&self, namespace: &str) -> Result<NamespaceClaim, String> {
        let namespace = self.namespace(namespace);
        let claimed = namespace.claim().await?;
        Ok(match claimed {
            None => NamespaceClaim::Own(Arc::clone(&namespace.turn).lock_owned().await),
            Some(other) => NamespaceClaim::Foreign(other),
        })
    }

    /// Returns the other installation that manages a namespace's clusters, or nothing where it is this one.
    /// No turn is taken: for changes that do not touch the namespace's objects.
    ///
    /// # Errors
    /// As [`NamespaceLeases::claim`].
    pub async fn other_holder(&self, namespace: &str) -> Result<Option<String>, String> {
        self.namespace(namespace).claim().await
    }

    /// Renews the leases that were taken, without an end: their clusters may wait for longer than a lease
    /// lasts.
    pub async fn keep(&self) {
        loop {
            tokio::time::sleep(NAMESPACE_LEASE_RENEWED).await;
            let held: Vec<_> = self.held.lock().values().cloned().collect();
            let renewed = futures::stream::iter(held).map(|namespace| async move { namespace.renew().await });
            renewed.buffer_unordered(NAMESPACES_RENEWED_MAX).collect::<()>().await;
        }
    }

    fn namespace(&self, name: &str) -> Arc<HeldNamespace> {
        let mut held = self.held.lock();
        let namespace = held.entry(name.to_owned()).or_insert_with(|| {
            let elector =
                Elector::new(self.client.clone(), name, NAMESPACE_LEASE, &self.installation, self.now);
            let elector = Elector { duration: NAMESPACE_LEASE_DURATION, ..elector };
            Arc::new(HeldNamespace { elector: tokio::sync::Mutex::new(elector), turn: Arc::default() })
        });
        Arc::clone(namespace)
    }
}

impl HeldNamespace {
    /// Takes or renews the lease where it must be; returns the holder where that is another installation.
    async fn claim(&self) -> Result<Option<String>, String> {
        let mut elector = self.elector.lock().await;
        // Renewed on time it is at most this old, and one that is older is tried before anything is changed.
        let fresh = NAMESPACE_LEASE_RENEWED + REQUEST_TIME_MAX;
        if elector.renewed.is_some_and(|renewed| renewed.elapsed() < fresh) {
            return Ok(None);
        }
        elector.renewed = None;
        match elector.try_once().await {
            LeaseTry::Held => Ok(None),
            LeaseTry::Foreign(other) => Ok(Some(other)),
            LeaseTry::Failed(error) => Err(error),
        }
    }

    /// Renews a lease that this installation holds. The timer never takes one that it does not hold.
    async fn renew(&self) {
        let mut elector = self.elector.lock().await;
        if elector.renewed.is_none() {
            return;
        }
        match elector.try_once().await {
            LeaseTry::Held => {}
            LeaseTry::Foreign(other) => {
                tracing::error!(other, "a namespace was taken by another installation");
                elector.renewed = None;
            }
            LeaseTry::Failed(error) => tracing::warn!(error, "renew the lease of a namespace"),
        }
    }
}
