//! One reconcile. Its steps, in the order in which they run, are a file or a folder each:
//!
//! ```text
//!   observe    reads the cluster's objects from the API server    -> ObservedCluster
//!   validate   checks the specification; a plain function         -> ValidCluster, or the rules it breaks
//!   geometry   checks the claims that are there against it
//!   plan       decides image, CA, credentials; a plain function   -> Plan, or a Blockage that a person ends
//!   material   issues certificates, derives credentials           -> Material
//!   growth     asks claims for the size that is asked for         -> ClaimGrowth
//!   build      makes the objects; a plain function                -> Child, one for each object
//!   apply      writes those that differ to the API server
//!   unstarted  replaces pods that never started
//!   nodes      asks the cluster's nodes over mTLS                 -> NodeAnswers
//!   losses     finds the volumes that lost their state              -> FoundLoss, one for each
//!   orders     hands the orders of annotations to nodes           -> OrderOutcome
//!   rollout    plans which pod may go; applies the budget         -> RolloutPlan
//!   status     judges all of it, writes the verdict               -> ClusterStatus
//!   events     publishes the conditions that changed
//!   rollout    evicts the pod that the status names
//!   rotate     records the next step of a replacement of the CA
//! ```
//!
//! Repeating a reconcile is harmless: the API server records no change where an object is applied as it is. A
//! status is written even where nothing could be changed, because people look there for the cause. A failed
//! request is retried with growing waits.

mod error;
pub(crate) mod condition;
mod words;
pub mod cache;
pub mod children;
mod certificate_request;
pub mod platform;
pub mod observe;
pub mod validate;
pub mod remarks;
pub mod image;
mod quantity;
mod node_memory;
mod blockage;
mod authority;
pub mod plan;
pub mod recovery;
mod geometry;
mod formed;
pub mod material;
pub mod s3_tls;
mod admin;
pub mod growth;
pub mod build;
mod revision;
mod apply;
mod leftover;
mod unstarted;
mod nodes;
mod losses;
mod orders;
mod rollout;
pub mod rotate;
pub mod status;
mod events;
mod report;
mod budget;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::Recorder;
use kube::{Client, Resource as _, ResourceExt as _};

use crate::api::{ClusterStatus, Reason, StorageCluster, VolumeOrderRecord};
use crate::calls::StoreCalls;
use crate::lease::{NamespaceClaim, NamespaceLeases};
use crate::metrics::Metrics;
use crate::names::Names;
use crate::rollout::{RolloutPlan, RolloutStep};
use crate::rotation::{AuthorityRecord, ClusterTrust, first_loaded_end_s};
use crate::secret_text::texts;
use crate::turns::UserTurns;
use apply::{AppliedCluster, ChildChange};
use cache::ObjectCache;
use children::AppliedChildren;
use growth::ClaimGrowth;
use image::ImageName;
use material::SigningAuthority;
use observe::{ObjectReader, ObservedCluster};
use plan::{AuthorityPlan, Blockage, BlockedPart, Plan, plan};
use platform::Platform;
use recovery::RememberedSecrets;
use remarks::Remark;
use revision::AskedTemplate;
use rotate::{AppliedAuthority, PlannedRotation, RecordWriter};
use status::{Evidence, Outcome};
use validate::{ValidCluster, validate};

pub use error::{MaterialError, ReconcileError};
pub(crate) use events::{note, publish, publish_ended_user, publish_foreign, publish_unclaimed};
pub use nodes::{NodeAnswers, NodeOrder, NodeQuestion, StatusSource, TlsNodes};
pub use report::PartialReports;
pub use rollout::EvictionRefusals;

/// Clients, clock and settings that all reconciles share.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// The image of clusters that name none.
    pub default_image: ImageName,
    /// How nodes are asked.
    pub nodes: Arc<dyn StatusSource>,
    /// How requests of S3 and IAM are sent to them.
    pub calls: Arc<dyn StoreCalls>,
    /// Where events are published.
    pub recorder: Recorder,
    /// Whether a namespace's clusters are this installation's.
    pub namespaces: NamespaceLeases,
    /// The source of pods' users.
    pub platform: Platform,
    /// The objects that the watches have seen.
    pub cache: ObjectCache,
    /// The last apply of each child.
    pub children: AppliedChildren,
    /// The values that were last applied and cannot be made again.
    pub remembered: RememberedSecrets,
    /// The last eviction of each cluster that was refused.
    pub refusals: EvictionRefusals,
    /// One change of a user of a cluster at a time.
    pub turns: UserTurns,
    /// The clusters whose definition drops parts of their status.
    pub partial_reports: PartialReports,
    /// The counters.
    pub metrics: Metrics,
    /// The clock.
    pub now: fn() -> Timestamp,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("default_image", &self.default_image).finish_non_exhaustive()
    }
}

impl Context {
    async fn publish_status(
        &self,
        cluster: &StorageCluster,
        judged: &ClusterStatus,
    ) -> Result<(), ReconcileError> {
        let Self { client, recorder, partial_reports, .. } = self;
        report::publish_status((client, recorder), partial_reports, cluster, judged).await
    }

    fn record_writer(&self) -> RecordWriter<'_> {
        let Self { client, children, remembered, .. } = self;
        RecordWriter { client, children, remembered }
    }
}

struct ReconcileAttempt<'a> {
    outcome: Outcome,
    remarks: Vec<Remark>,
    /// The cluster, where it is valid: its budget is judged, also where nothing else may change.
    valid: Option<ValidCluster<'a>>,
    /// The pods' template, where the children were applied.
    template: Option<AskedTemplate>,
    /// The claims, where they were asked for the size of the specification.
    growth: Option<ClaimGrowth>,
    /// The CAs, as the nodes are asked with them.
    trust: Option<Arc<ClusterTrust>>,
    /// The CAs, where they are known.
    record: Option<AuthorityRecord>,
    /// The CAs, where the children were applied.
    authority: Option<Box<AppliedAuthority>>,
    image: Option<ImageName>,
    /// When the first of the nodes' certificates ends, in seconds since the Unix epoch.
    first_expiry_s: Option<i64>,
    /// The failure that makes the reconcile run again.
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
            // The other operator writes the status.
            let reference = cluster.object_ref(&());
            publish_foreign(&context.recorder, &reference, &names.namespace, &other).await;
            return Ok(cluster.status.clone().unwrap_or_default());
        }
    };
    let observed = Box::pin(look(context, cluster, &names)).await;
    let observed = observed.map_err(|error| ReconcileError::Unobserved(Box::new(error)))?;
    let timestamp = (context.now)();
    let now = Duration::from_secs(u64::try_from(timestamp.as_second()).unwrap_or(0));
    let mut attempt = Box::pin(change(context, cluster, &observed, now)).await;
    // Where a pod is away no other may go, and nodes may be slow to answer.
    let is_closed = attempt.valid.as_ref().is_some_and(|valid| !rollout::are_pods_ready(valid, &observed));
    if is_closed {
        Box::pin(attempt.apply_budget(context, &observed, 0)).await;
    }
    drop(turn);
    let answers = match &attempt.trust {
        Some(trust) => {
            let pods = observed.pods.iter().map(kube::ResourceExt::name_any).collect();
            nodes::ask_all(context.nodes.as_ref(), trust, &names, pods, now).await
        }
        None => NodeAnswers::new(),
    };
    let orders = Box::pin(attempt.follow_orders(context, &observed, &answers, timestamp)).await;
    let plan = Box::pin(attempt.plan_step(context, &observed, &answers, timestamp, is_closed)).await;
    let rotation = attempt.plan_rotation(&observed, &answers, now);
    attempt.first_expiry_s = attempt.first_expiry_s.into_iter().chain(first_loaded_end_s(&answers)).min();
    attempt.show_expiries(context, &names);
    let s3 = s3_tls::look(cluster, &names, &observed, timestamp.as_second()).and_then(|look| look.ends_s);
    context.metrics.s3_certificate_expiry(&names.namespace, &names.cluster, s3);
    let judged = status::judge(&Evidence {
        cluster,
        outcome: attempt.outcome.clone(),
        rollout: plan.as_ref(),
        remarks: &attempt.remarks,
        observed: &observed,
        growth: attempt.growth.as_ref(),
        answers: &answers,
        orders: &orders,
        authority: attempt.record.as_ref(),
        rotation: rotation.as_ref(),
        first_expiry_s: attempt.first_expiry_s,
        credentials_proofs: &attempt.credentials_proofs(),
        image: attempt.image,
        now: timestamp,
    });
    context.metrics.report(&names.namespace, &names.cluster, &judged);
    Box::pin(context.publish_status(cluster, &judged)).await?;
    if let (Outcome::Applied, Some(rotation), Some(valid), Some(authority)) =
        (&attempt.outcome, rotation, &attempt.valid, attempt.authority)
    {
        let writer = context.record_writer();
        Box::pin(authority.take_step(&writer, valid, &observed, rotation.step, now)).await?;
    }
    if let (Outcome::Applied, Some(plan)) = (&attempt.outcome, &plan) {
        Box::pin(take_step(context, &names, cluster, plan)).await?;
    }
    attempt.failure.map_or(Ok(judged), Err)
}

/// Reads the objects of a cluster, and what the API server says of itself.
async fn look(
    context: &Context,
    cluster: &StorageCluster,
    names: &Names,
) -> Result<ObservedCluster, ReconcileError> {
    let users = context.platform.pod_users(&context.client).await?;
    let reader = ObjectReader { client: &context.client, cache: &context.cache, namespace: &names.namespace };
    let remembered = context.remembered.get(names, cluster.meta().uid.as_deref());
    let observed = observe::observe(&reader, cluster, names, remembered).await?;
    let leftovers = observe::leftovers(&reader, cluster, names).await?;
    Ok(ObservedCluster { leftovers, users, ..observed })
}

impl ReconcileAttempt<'_> {
    /// The proofs of the root credentials that nodes shall accept, where the children were applied.
    fn credentials_proofs(&self) -> Vec<[u8; 32]> {
        self.authority.as_ref().map(|applied| applied.material.credentials_proofs()).unwrap_or_default()
    }

    /// Gives the orders about volumes that a person wrote into annotations, unless the operator is to change
    /// nothing. Returns all that were ever given, as far as they are recorded.
    async fn follow_orders(
        &self,
        context: &Context,
        observed: &ObservedCluster,
        answers: &NodeAnswers,
        now: Timestamp,
    ) -> Vec<VolumeOrderRecord> {
        let (Some(valid), Some(trust)) = (&self.valid, &self.trust) else { return vec![] };
        let cluster = valid.cluster();
        if cluster.spec.paused {
            return cluster.status.as_ref().map(|status| status.volume_orders.clone()).unwrap_or_default();
        }
        let found = losses::find(valid, observed, answers);
        let nodes = context.nodes.as_ref();
        let outcome = orders::follow(nodes, trust, valid, &found, answers, now).await;
        events::publish_orders(&context.recorder, &cluster.object_ref(&()), &outcome.fresh).await;
        outcome.records
    }

    /// Plans the next step of the rollout, and applies the budget that goes with it; one that is closed was
    /// applied before. Without a template there is a budget and no step.
    async fn plan_step(
        &mut self,
        context: &Context,
        observed: &ObservedCluster,
        answers: &NodeAnswers,
        now: Timestamp,
        is_closed: bool,
    ) -> Option<RolloutPlan> {
        let (valid, template) = (self.valid.as_ref()?, self.template.as_ref());
        let has_template = template.is_some();
        let refusal = context.refusals.get(valid.names());
        let plan = rollout::plan_rollout(valid, observed, answers, template, refusal.as_ref(), now);
        if plan.budget > 0 || !is_closed {
            self.apply_budget(context, observed, plan.budget).await;
        }
        has_template.then_some(plan)
    }

    /// Shows when certificates end.
    fn show_expiries(&self, context: &Context, Names { cluster, namespace }: &Names) {
        if let Some(expiry) = self.first_expiry_s {
            context.metrics.certificate_expiry(namespace, cluster, expiry);
        }
        if let Some(expiry) = self.record.as_ref().and_then(AuthorityRecord::not_after_s) {
            context.metrics.authority_expiry(namespace, cluster, expiry);
        }
    }

    /// Plans the next step of a replacement of the CA, where the children were applied.
    fn plan_rotation(
        &self,
        observed: &ObservedCluster,
        answers: &NodeAnswers,
        now: Duration,
    ) -> Option<PlannedRotation> {
        Some(self.authority.as_ref()?.plan_step(self.valid.as_ref()?, observed, answers, now))
    }

    /// Applies the disruption budget, unless another object has its name. A cluster that is paused gets no
    /// budget, and one that it has goes on to follow what is healed.
    async fn apply_budget(&mut self, context: &Context, observed: &ObservedCluster, spare: u8) {
        let Some(valid) = &self.valid else { return };
        let budget = build::disruption_budget(valid, spare);
        if observed.foreign.iter().any(|foreign| foreign.object == budget.title()) {
            return;
        }
        if valid.cluster().spec.paused && !observed.children.contains_key(&budget.title()) {
            return;
        }
        match apply::apply_child(&context.client, valid, &budget, observed, &context.children).await {
            // The budget changes each time that a pod goes and is healed.
            Ok(None | Some(ChildChange::Changed)) => {}
            Ok(Some(change)) => {
                let reference = valid.cluster().object_ref(&());
                events::publish_changes(&context.recorder, &reference, &[(budget.title(), change)]).await;
            }
            Err(error) => self.fail(error),
        }
    }

    /// Adds the failure of a child to those that there are.
    fn fail(&mut self, error: ReconcileError) {
        let failure = match self.failure.take() {
            None => ReconcileError::Children(vec![error]),
            Some(ReconcileError::Children(mut failures)) => {
                failures.push(error);
                ReconcileError::Children(failures)
            }
            Some(first) => first,
        };
        if matches!(self.outcome, Outcome::Applied | Outcome::Rejected(_) | Outcome::Failed(_)) {
            self.outcome = Outcome::of_failure(&failure);
        }
        self.failure = Some(failure);
    }
}

/// Takes the step that the status names.
async fn take_step(
    context: &Context,
    names: &Names,
    cluster: &StorageCluster,
    plan: &RolloutPlan,
) -> Result<(), ReconcileError> {
    let RolloutStep::Evict(eviction) = &plan.step else { return Ok(()) };
    let evicted = rollout::evict(&context.client, names, cluster, eviction).await;
    if let Ok(result) = &evicted {
        context.refusals.set(names, eviction, result);
    }
    let reference = cluster.object_ref(&());
    events::publish_eviction(&context.recorder, &reference, &plan.record.message, &evicted).await;
    evicted.map(|_| ())
}

async fn change<'a>(
    context: &Context,
    cluster: &'a StorageCluster,
    observed: &ObservedCluster,
    now: Duration,
) -> ReconcileAttempt<'a> {
    let record = known_record(observed);
    let idle = |outcome, remarks| ReconcileAttempt {
        outcome,
        remarks,
        valid: None,
        template: None,
        growth: None,
        trust: record.as_ref().and_then(|record| ClusterTrust::of(record).ok()).map(Arc::new),
        record: record.clone(),
        authority: None,
        image: None,
        first_expiry_s: material::first_expiry_s(observed.certificates.as_ref()),
        failure: None,
    };
    let valid = match validate(cluster) {
        Ok(valid) => valid,
        Err(messages) => {
            let closed = close_budgets(context, cluster).await;
            let failure = closed.err().map(|error| ReconcileError::Children(vec![error]));
            return ReconcileAttempt { failure, ..idle(Outcome::Invalid(messages), vec![]) };
        }
    };
    let remarks = geometry::stray(&valid, observed).into_iter().chain(valid.remarks().iter().cloned());
    let remarks: Vec<Remark> = remarks.chain(image::from_status(cluster, &context.default_image)).collect();
    if cluster.spec.paused {
        // A fault that a person must mend is reported while nothing is changed, too.
        let planned = plan_valid(context, &valid, observed);
        let outcome = planned.map_or_else(Outcome::Blocked, |_| Outcome::PausedBySpec);
        let attempt = idle(outcome, remarks);
        return ReconcileAttempt { valid: Some(valid), ..attempt };
    }
    let attempt = match execute(context, &valid, observed, now).await {
        Ok(Ok(applied)) => ReconcileAttempt { remarks, ..applied },
        Ok(Err(blockage)) => idle(Outcome::Blocked(blockage), remarks),
        Err(error) => {
            let attempt = idle(Outcome::of_failure(&error), remarks);
            ReconcileAttempt { failure: Some(error), ..attempt }
        }
    };
    ReconcileAttempt { valid: Some(valid), ..attempt }
}

/// Closes the disruption budgets of a cluster that cannot be judged, by its namespace and name.
///
/// # Errors
/// [`ReconcileError::Api`] names the budget that is as it was.
pub async fn close_budgets(context: &Context, cluster: &impl kube::Resource) -> Result<(), ReconcileError> {
    let names = Names::new(&cluster.name_any(), &cluster.namespace().unwrap_or_default());
    let reader = ObjectReader { client: &context.client, cache: &context.cache, namespace: &names.namespace };
    budget::close(&reader, &names, &context.children).await
}

/// Reports that a cluster could not be observed, where that lasts: without it the last report would
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
    context.metrics.report(&cluster.namespace().unwrap_or_default(), &cluster.name_any(), &judged);
    context.publish_status(cluster, &judged).await?;
    Ok(())
}

/// Decides what is made, once the claims that are there can be used.
fn plan_valid(
    context: &Context,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
) -> Result<Plan, Blockage> {
    geometry::check(valid, observed)?;
    plan(valid, observed, &context.default_image)
}

async fn execute<'a>(
    context: &Context,
    valid: &ValidCluster<'a>,
    observed: &ObservedCluster,
    now: Duration,
) -> Result<Result<ReconcileAttempt<'a>, Blockage>, ReconcileError> {
    let plan = match plan_valid(context, valid, observed) {
        Ok(plan) => plan,
        Err(blockage) => return Ok(Err(blockage)),
    };
    let signing = match material::authority(&plan, now) {
        Ok(signing) => signing,
        Err(MaterialError::Entropy(error)) => return Err(MaterialError::Entropy(error).into()),
        Err(error) => {
            let message = format!("Secret {}: {error}: restore the Secret", valid.names().authority());
            let part = BlockedPart::Certificates;
            return Ok(Err(Blockage { part, reason: Reason::SecretMalformed, message }));
        }
    };
    let mut issued = material::material(&plan, &signing, now)?;
    let (names, client) = (valid.names(), &context.client);
    issued.material.s3 = s3_tls::material(valid.cluster(), names, observed, now)?;
    issued.material.admin = admin::material(valid.cluster(), names, observed, &signing, now)?;
    let mut children = build::children(valid, &plan, &issued.material);
    let growth = growth::grow(client, valid, observed, &mut children, now).await;
    let mut template =
        revision::choose(client, valid, observed, (&plan, &issued.material), &mut children).await?;
    let is_made = matches!(plan.authority, AuthorityPlan::Make | AuthorityPlan::MakeAgain { .. });
    if let Some(child) = children.first().filter(|_| is_made)
        && !observed.children.contains_key(&child.title())
    {
        apply::create_first(client, valid, child).await?;
    }
    context.remembered.insert(names, valid.cluster().uid(), issued.material.recovery());
    let AppliedCluster { mut changes, mut failures } =
        apply::apply(client, valid, &children, observed, &context.children).await;
    failures.extend(leftover::remove_former(client, valid, observed).await.err());
    if let Some(template) = &mut template {
        changes.extend(revision::settle(template, names, &children, observed, (&context.children, &changes)));
    }
    failures.extend(geometry::mend_claims(client, valid, observed).await.err());
    let config = children.iter().find(|child| child.resource.kind == "ConfigMap");
    let is_settled = template.as_ref().is_some_and(|template| template.is_settled(valid, observed));
    if let Some(config) = config.filter(|_| failures.is_empty() && is_settled) {
        failures.extend(leftover::remove_configurations(client, valid, observed, &config.name).await.err());
    }
    if template.as_ref().is_some_and(|template| template.is_in_place) {
        match unstarted::replace(client, &names.namespace, observed).await {
            Ok(pods) => {
                changes.extend(pods.iter().map(|pod| (format!("Pod {pod}"), ChildChange::NeverStarted)));
            }
            Err(failure) => failures.push(failure),
        }
    }
    events::publish_changes(&context.recorder, &valid.cluster().object_ref(&()), &changes).await;
    let failure = (!failures.is_empty()).then_some(ReconcileError::Children(failures));
    let SigningAuthority { accepted, signer } = signing;
    let trust = ClusterTrust { signer, roots: accepted.record.bundle() };
    let image = plan.image.clone();
    Ok(Ok(ReconcileAttempt {
        outcome: failure.as_ref().map_or(Outcome::Applied, Outcome::of_failure),
        remarks: vec![],
        valid: None,
        template,
        growth: Some(growth),
        trust: Some(Arc::new(trust)),
        record: Some(accepted.record.clone()),
        authority: Some(Box::new(AppliedAuthority { plan, material: issued.material, accepted })),
        image: Some(image),
        first_expiry_s: issued.first_expiry_s,
        failure,
    }))
}

/// The CAs of the observed Secret, or of its copy, with which nodes can be asked though nothing is changed.
fn known_record(observed: &ObservedCluster) -> Option<AuthorityRecord> {
    let copy = || AuthorityRecord::read(&observed.recovery.as_ref()?.texts()).ok();
    observed.authority.as_ref().and_then(|secret| AuthorityRecord::read(&texts(secret)).ok()).or_else(copy)
}

/// The means to reach the nodes of a cluster whose CA is in this Secret.
pub(crate) fn trust_of(secret: &Secret) -> Option<Arc<ClusterTrust>> {
    let record = AuthorityRecord::read(&texts(secret)).ok()?;
    ClusterTrust::of(&record).ok().map(Arc::new)
}
