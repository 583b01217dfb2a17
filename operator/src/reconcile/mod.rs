//! One reconcile: observe, validate, plan, build, apply, status. Repeating it is harmless: what is as it
//! should be is applied as it is, and the API server then records no change.
//!
//! A status is written even where nothing could be changed, because it is where people look for the
//! cause. What fails on the way to the API server is retried with growing waits.

mod apply;
mod counts;
mod events;
mod material;
mod nodes;
mod observe;
pub mod status;
mod pod_failure;

pub(crate) use events::{note, publish_unclaimed};
pub use material::MaterialError;
pub use nodes::{NodeAnswers, NodeQuestion, StatusSource, TlsStatusSource};

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::Recorder;
use kube::{Client, Resource as _, ResourceExt as _};
use sherd_trust::Authority;

use crate::api::{ClusterStatus, ConditionType, Reason, StorageCluster};
use crate::build;
use crate::lease::{NAMESPACE_LEASE, NamespaceClaim, NamespaceLeases};
use crate::metrics::Metrics;
use crate::names::Names;
use crate::plan::{AuthorityPlan, Blockage, BlockedPart, DefaultImage, ObservedCluster, plan};
use crate::validate::{ValidCluster, validate};
use status::{Evidence, Outcome};

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API server refused, or could not be asked.
    #[error("{operation} {kind} {name}: {source}")]
    Api {
        /// What was tried.
        operation: &'static str,
        /// The object's kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
    /// A child that was built is none of its kind.
    #[error("a child was built wrong: {0}")]
    Build(#[source] serde_json::Error),
    /// The Secrets of the plan could not be made.
    #[error(transparent)]
    Material(#[from] MaterialError),
    /// The lease that says which operator manages this namespace could not be read.
    #[error("the lease {NAMESPACE_LEASE} in namespace {namespace}: {cause}")]
    NamespaceLease {
        /// The namespace.
        namespace: String,
        /// Why.
        cause: String,
    },
    /// What there is of the cluster could not be read.
    #[error(transparent)]
    Unobserved(Box<Self>),
    /// It took too long.
    #[error("the reconcile took longer than {0:?}")]
    Time(Duration),
}

impl ReconcileError {
    fn api(operation: &'static str, kind: Cow<'_, str>, name: &str, source: kube::Error) -> Self {
        Self::Api { operation, kind: kind.into_owned(), name: name.to_owned(), source: Box::new(source) }
    }

    /// Returns what a metric counts it as.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => match status.code {
                    401 | 403 => "forbidden",
                    404 | 410 => "missing",
                    409 => "conflict",
                    400..=499 => "rejected",
                    _ => "server",
                },
                _ => "unreachable",
            },
            Self::Build(_) => "build",
            Self::Material(_) => "material",
            Self::NamespaceLease { .. } => "lease",
            Self::Unobserved(error) => error.category(),
            Self::Time(_) => "time",
        }
    }

    /// Whether it ended before the cluster was judged, so that the last report still stands.
    pub fn is_unreported(&self) -> bool {
        matches!(self, Self::Unobserved(_) | Self::Time(_))
    }

    /// Whether the API server answered and will not take it as it is.
    pub fn is_refusal(&self) -> bool {
        matches!(self.category(), "forbidden" | "missing" | "conflict" | "rejected")
    }
}

/// What every reconcile shares.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// What is used where a cluster names no image.
    pub default_image: DefaultImage,
    /// How nodes are asked.
    pub nodes: Arc<dyn StatusSource>,
    /// Where events are published.
    pub recorder: Recorder,
    /// Whether a namespace's clusters are this installation's.
    pub namespaces: NamespaceLeases,
    /// What is counted.
    pub metrics: Metrics,
    /// The clock.
    pub now: fn() -> Timestamp,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("default_image", &self.default_image).finish_non_exhaustive()
    }
}

/// How far the changes came, before the status is judged.
struct Attempt {
    outcome: Outcome,
    warnings: Vec<String>,
    authority: Option<Arc<Authority>>,
    image: Option<String>,
    /// When the first of the nodes' certificates ends, in seconds since the Unix epoch.
    first_expiry_s: Option<i64>,
    /// What is to be tried again.
    failure: Option<ReconcileError>,
}

/// Makes a cluster true as far as it can be, and returns what was reported of it.
///
/// # Errors
/// [`ReconcileError`] when it is to be tried again.
pub async fn reconcile(context: &Context, cluster: &StorageCluster) -> Result<ClusterStatus, ReconcileError> {
    if cluster.meta().deletion_timestamp.is_some() {
        return Ok(cluster.status.clone().unwrap_or_default());
    }
    let names = Names::new(&cluster.name_any(), &cluster.namespace().unwrap_or_default());
    let claimed = context.namespaces.claim(&names.namespace).await;
    let claimed = claimed
        .map_err(|cause| ReconcileError::NamespaceLease { namespace: names.namespace.clone(), cause })?;
    let turn = match claimed {
        NamespaceClaim::Own(turn) => turn,
        NamespaceClaim::Foreign(other) => {
            // The status is the other one's to write.
            events::publish_foreign(&context.recorder, cluster, &names.namespace, &other).await;
            return Ok(cluster.status.clone().unwrap_or_default());
        }
    };
    let observed = Box::pin(observe::observe(&context.client, cluster, &names)).await;
    let observed = observed.map_err(|error| ReconcileError::Unobserved(Box::new(error)))?;
    let timestamp = (context.now)();
    let now = Duration::from_secs(u64::try_from(timestamp.as_second()).unwrap_or(0));
    let attempt = Box::pin(change(context, cluster, &names, &observed, now)).await;
    drop(turn);
    let answers = match &attempt.authority {
        Some(authority) => {
            let pods = observed.pods.iter().map(kube::ResourceExt::name_any).collect();
            nodes::ask_all(context.nodes.as_ref(), authority, &names, pods, now).await
        }
        None => NodeAnswers::new(),
    };
    if let Some(expiry) = attempt.first_expiry_s {
        context.metrics.certificate_expiry(&names.namespace, &names.cluster, expiry);
    }
    let judged = status::judge(&Evidence {
        cluster,
        outcome: attempt.outcome,
        warnings: &attempt.warnings,
        observed: &observed,
        answers: &answers,
        authority: attempt.authority.as_deref(),
        first_expiry_s: attempt.first_expiry_s,
        image: attempt.image,
        now: timestamp,
    });
    context.metrics.conditions(&names.namespace, &names.cluster, &judged.conditions);
    status::write(&context.client, cluster, &judged).await?;
    events::publish(&context.recorder, cluster, &judged).await;
    attempt.failure.map_or(Ok(judged), Err)
}

/// Validates, plans, builds and applies.
async fn change(
    context: &Context,
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    now: Duration,
) -> Attempt {
    let idle = |outcome, warnings| Attempt {
        outcome,
        warnings,
        authority: known_authority(observed),
        image: None,
        first_expiry_s: material::first_expiry_s(observed.certificates.as_ref()),
        failure: None,
    };
    let valid = match validate(cluster) {
        Ok(valid) => valid,
        Err(messages) => return idle(Outcome::Invalid(messages), vec![]),
    };
    if cluster.spec.paused {
        // What a person must mend is said all the same.
        let planned = plan(cluster, &valid, observed, &context.default_image);
        let outcome = planned.map_or_else(Outcome::Blocked, |_| Outcome::PausedBySpec);
        return idle(outcome, valid.warnings);
    }
    match execute(context, cluster, &valid, names, observed, now).await {
        Ok(Ok(applied)) => Attempt { warnings: valid.warnings, ..applied },
        Ok(Err(blockage)) => idle(Outcome::Blocked(blockage), valid.warnings),
        Err(error) => {
            let outcome = if error.is_refusal() { Outcome::Rejected } else { Outcome::Failed };
            let attempt = idle(outcome(error.to_string()), valid.warnings);
            Attempt { failure: Some(error), ..attempt }
        }
    }
}

/// Reports of a cluster that it could not be looked at, where that lasts: without it the last report would
/// stand as if it were true.
///
/// # Errors
/// [`ReconcileError::Api`] when the status cannot be written either.
pub async fn report_unobserved(
    context: &Context,
    cluster: &StorageCluster,
    error: &ReconcileError,
) -> Result<(), ReconcileError> {
    let judged = status::unobserved(cluster, &error.to_string(), (context.now)());
    context.metrics.conditions(
        &cluster.namespace().unwrap_or_default(),
        &cluster.name_any(),
        &judged.conditions,
    );
    status::write(&context.client, cluster, &judged).await?;
    events::publish(&context.recorder, cluster, &judged).await;
    Ok(())
}

/// Plans, builds and applies; a blockage is a result like another.
async fn execute(
    context: &Context,
    cluster: &StorageCluster,
    valid: &ValidCluster,
    names: &Names,
    observed: &ObservedCluster,
    now: Duration,
) -> Result<Result<Attempt, Blockage>, ReconcileError> {
    let plan = match plan(cluster, valid, observed, &context.default_image) {
        Ok(plan) => plan,
        Err(blockage) => return Ok(Err(blockage)),
    };
    let authority = match material::authority(&plan.authority, now) {
        Ok(authority) => Arc::new(authority),
        Err(MaterialError::Entropy(error)) => return Err(MaterialError::Entropy(error).into()),
        Err(error) => {
            let message = format!("Secret {}: {error}: restore the Secret", names.authority());
            let part = BlockedPart::Certificates;
            return Ok(Err(Blockage { part, reason: Reason::SecretMalformed, message }));
        }
    };
    let issued = material::material(&plan, &authority, now)?;
    let children = build::children(cluster, valid, &plan, &issued.material);
    if let (AuthorityPlan::Make, Some(child)) = (&plan.authority, children.first()) {
        apply::create_authority(&context.client, names, child).await?;
    }
    apply::apply(&context.client, names, &children, &observed.absent).await?;
    apply::remove_unwanted(&context.client, names, cluster).await?;
    Ok(Ok(Attempt {
        outcome: Outcome::Applied,
        warnings: vec![],
        authority: Some(authority),
        image: Some(plan.image),
        first_expiry_s: issued.first_expiry_s,
        failure: None,
    }))
}

/// The CA that is there, with which nodes can be asked though nothing is changed.
fn known_authority(observed: &ObservedCluster) -> Option<Arc<Authority>> {
    let data = observed.authority.as_ref()?.data.as_ref()?;
    let text = |key: &str| std::str::from_utf8(&data.get(key)?.0).ok();
    let authority = Authority::load(text(crate::names::CA_CERTIFICATE)?, text(crate::names::CA_KEY)?).ok()?;
    Some(Arc::new(authority))
}

/// Whether a cluster needs no look before the slow one.
pub fn is_settled(status: &ClusterStatus) -> bool {
    let is = |condition: ConditionType, expected: &str| {
        status.conditions.iter().any(|found| found.type_ == condition.as_str() && found.status == expected)
    };
    is(ConditionType::Ready, "True")
        && is(ConditionType::PoolsReady, "True")
        && is(ConditionType::Degraded, "False")
        && is(ConditionType::Progressing, "False")
}
