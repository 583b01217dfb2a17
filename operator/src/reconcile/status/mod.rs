//! Judges a cluster: turns the observed objects and the nodes' answers into conditions, each with a fixed
//! reason and a message that names the pods, sets or Secrets concerned. A plain function over values.

mod capacity;
mod counts;
mod losses;
mod config;
mod resizing;
mod degraded;
mod rollout;
mod pod_failure;
mod certificates;
mod credentials;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use sherd_proto::v1::{SetStatus, StatusReply};

use certificates::CertificateFacts;
use counts::{absent, count, ready_pods, versions, wire_version};
use losses::LossReport;
use pod_failure::PodFailure;

use super::condition::{self, ConditionText, FALSE, TRUE, UNKNOWN};
use super::error::ReconcileError;
use super::formed::{has_formed, has_served};
use super::growth::stage::largest_claimed;
use super::growth::{ClaimGrowth, used_claims};
use super::image::ImageName;
use super::nodes::NodeAnswers;
use super::observe::ObservedCluster;
use super::plan::{Blockage, BlockedPart};
use super::remarks::Remark;
use super::rotate::PlannedRotation;
use super::s3_tls;
use super::words::listed;
use crate::api::{ClusterStatus, ConditionType, Reason, StorageCluster, VolumeOrderRecord};
use crate::names::Names;
use crate::rollout::RolloutPlan;
use crate::rotation::AuthorityRecord;

/// How far a reconcile came.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The specification contradicts itself.
    Invalid(Vec<String>),
    /// A person must act before anything is changed.
    Blocked(Blockage),
    /// The specification asks for no changes.
    PausedBySpec,
    /// The API server refused a child.
    Rejected(String),
    /// A change failed on its way, and is tried again.
    Failed(String),
    /// Every child is as built.
    Applied,
}

impl Outcome {
    /// The outcome of a reconcile that failed on its way.
    pub fn of_failure(failure: &ReconcileError) -> Self {
        let outcome = if failure.is_refusal() { Self::Rejected } else { Self::Failed };
        outcome(failure.to_string())
    }
}

/// Everything that a judgement reads.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    /// The cluster, with the status of the last judgement.
    pub cluster: &'a StorageCluster,
    /// How far the reconcile came.
    pub outcome: Outcome,
    /// The next step of the rollout, where the operator may take one.
    pub rollout: Option<&'a RolloutPlan>,
    /// The limits of the geometry and of the settings.
    pub remarks: &'a [Remark],
    /// The objects that the API server has.
    pub observed: &'a ObservedCluster,
    /// The claims after this reconcile's requests, where it asked them for the size of the specification.
    pub growth: Option<&'a ClaimGrowth>,
    /// The nodes' answers.
    pub answers: &'a NodeAnswers,
    /// The orders about volumes that were given or refused.
    pub orders: &'a [VolumeOrderRecord],
    /// The CAs, once there is one.
    pub authority: Option<&'a AuthorityRecord>,
    /// The step of a replacement of the CA, where everything was applied.
    pub rotation: Option<&'a PlannedRotation>,
    /// When the first of the nodes' certificates ends, in seconds since the Unix epoch.
    pub first_expiry_s: Option<i64>,
    /// The proofs of the root credentials that nodes shall accept, where everything was applied.
    pub credentials_proofs: &'a [[u8; 32]],
    /// The image that pods are made with, once planned.
    pub image: Option<ImageName>,
    /// The time of conditions that change.
    pub now: Timestamp,
}

struct ConditionVerdict {
    condition: ConditionType,
    status: &'static str,
    reason: Reason,
    message: String,
}

/// Judges a cluster: returns its conditions and counts.
pub fn judge(evidence: &Evidence<'_>) -> ClusterStatus {
    let Evidence { cluster, observed, answers, .. } = evidence;
    let pool = cluster.spec.pools.first();
    let names = Names::new(&cluster.name_any(), &cluster.namespace().unwrap_or_default());
    let wanted = pool.map(|pool| names.pods(&pool.name, pool.nodes)).unwrap_or_default();
    let ready = ready_pods(&observed.pods);
    let view = best_view(answers);
    let id = evidence.authority.map(|authority| authority.cluster);
    let losses = LossReport::new(cluster, observed, answers, view, id);
    let mut verdicts = spec_verdicts(evidence);
    let pods = pods_verdict(evidence, &wanted, &ready);
    verdicts.push(ready_or_lost(ready_verdict(evidence, view, &wanted, &ready), &losses));
    verdicts.push(progress_verdict(evidence, &pods, view));
    verdicts.push(match losses.degrades(evidence.orders) {
        Some((reason, message)) => ConditionVerdict::new(ConditionType::Degraded, TRUE, reason, message),
        None => degraded_verdict(evidence, view, &ready),
    });
    verdicts.push(pods);
    let claims = claims(evidence, &names);
    verdicts.extend(change_verdicts(evidence, &claims));
    let conditions = ConditionType::ALL.into_iter().filter_map(|condition| {
        let verdict = verdicts.iter().find(|verdict| verdict.condition == condition)?;
        Some(dated(verdict, cluster, evidence.now))
    });
    let conditions = conditions.collect();
    let last = cluster.status.clone().unwrap_or_default();
    // Of a CA that was refused nothing is recorded; what the Secret says later is judged by the first.
    let accepted = evidence.authority.filter(|_| evidence.outcome == Outcome::Applied);
    // An image that no pod served with yet may be a mistake, which a reverted specification must end.
    let served =
        evidence.image.clone().filter(|image| serves_with(&observed.pods, &ready, &image.to_string()));
    // A change that was not applied yet does not reach clients.
    let last_endpoint = last.endpoint.filter(|_| evidence.outcome != Outcome::Applied);
    let endpoint = last_endpoint.unwrap_or_else(|| {
        let is_over_tls = s3_tls::is_served(cluster, &names, observed, evidence.now.as_second());
        names.endpoint(is_over_tls, cluster.spec.gateway.service.port())
    });
    let mut status = ClusterStatus {
        observed_generation: cluster.meta().generation,
        conditions,
        cluster_id: last.cluster_id.or_else(|| accepted.map(|authority| authority.cluster.to_string())),
        authority_key: accepted
            .and(evidence.rotation)
            .and_then(|rotation| rotation.named_key.clone())
            .or(last.authority_key),
        image: served.as_ref().map(ImageName::to_string).or(last.image),
        recorded_image: served.as_ref().map(ImageName::recorded).or(last.recorded_image),
        endpoint: Some(endpoint),
        version: versions(view).or(last.version),
        wire_version: wire_version(answers, last.wire_version),
        rollout: evidence.rollout.map(|plan| plan.record.clone()).or(last.rollout),
        volume_losses: losses.listed(),
        volume_orders: evidence.orders.to_vec(),
        form_empty_order: losses.form_empty_order(),
        ..ClusterStatus::default()
    };
    if let Some(pool) = pool {
        count(&mut status, pool, &wanted, &ready, view);
        for pool in &mut status.pools {
            pool.claim_capacity = largest_claimed(&claims).map(|claimed| claimed.0);
        }
    }
    status
}

/// The verdicts on changes that take their time.
fn change_verdicts(evidence: &Evidence<'_>, claims: &[PersistentVolumeClaim]) -> Vec<ConditionVerdict> {
    let Evidence { cluster, observed, answers, growth, .. } = evidence;
    let may_change =
        !matches!(evidence.outcome, Outcome::Invalid(_) | Outcome::Blocked(_) | Outcome::PausedBySpec);
    let pool = cluster.spec.pools.first();
    let resizing = pool.map(|pool| resizing::verdict(pool, claims, &observed.pods, *growth));
    let none = (FALSE, Reason::NotNeeded, "nothing of the kind is under way".to_owned());
    let verdicts = [
        (ConditionType::UpgradeBlocked, rollout::blocked_verdict(observed, evidence.rollout)),
        (ConditionType::SettingsLoaded, config::verdict(cluster, may_change, observed, answers)),
        (ConditionType::StorageResizing, resizing.unwrap_or_else(|| none.clone())),
        (ConditionType::DeletionBlocked, none),
    ];
    let verdicts = verdicts.into_iter().map(|(condition, (status, reason, message))| {
        ConditionVerdict::new(condition, status, reason, message)
    });
    verdicts.collect()
}

/// The claims that pods use, as the last request left them.
fn claims(evidence: &Evidence<'_>, names: &Names) -> Vec<PersistentVolumeClaim> {
    let pool = evidence.cluster.spec.pools.first();
    match (evidence.growth, pool) {
        (Some(growth), _) => growth.claims.clone(),
        (None, Some(pool)) => used_claims(names, pool, evidence.observed),
        (None, None) => vec![],
    }
}

/// Whether a pod that passes its readiness probe has this image.
fn serves_with(pods: &[Pod], ready: &BTreeSet<String>, image: &str) -> bool {
    pods.iter().filter(|pod| ready.contains(&pod.name_any())).any(|pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.into_iter().any(|container| container.image.as_deref() == Some(image))
    })
}

impl ConditionVerdict {
    fn new(
        condition: ConditionType,
        status: &'static str,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self { condition, status, reason, message: message.into() }
    }

    fn waiting(condition: ConditionType) -> Self {
        Self::new(condition, UNKNOWN, Reason::Waiting, "not judged before what it needs is there")
    }
}

/// The condition as it is written.
fn dated(verdict: &ConditionVerdict, cluster: &StorageCluster, now: Timestamp) -> Condition {
    let ConditionVerdict { condition, status, reason, message } = verdict;
    let last = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let text = ConditionText {
        type_: condition.as_str(),
        status,
        reason: reason.as_str(),
        message,
        keeps_message: [Reason::ApplyFailed, Reason::ApplyRejected, Reason::NotObserved].contains(reason),
    };
    condition::dated(last, cluster.meta().generation, now, text)
}

/// The verdicts on the specification and on the Secrets that it names.
fn spec_verdicts(evidence: &Evidence<'_>) -> Vec<ConditionVerdict> {
    use ConditionType::{CertificatesReady, CredentialsReady, SpecValid};
    let Evidence { cluster, outcome, remarks, observed, .. } = evidence;
    let spec = match outcome {
        Outcome::Invalid(messages) => {
            ConditionVerdict::new(SpecValid, FALSE, Reason::SpecInvalid, messages.join("; "))
        }
        Outcome::Blocked(Blockage { part: BlockedPart::Geometry, reason, message }) => {
            ConditionVerdict::new(SpecValid, FALSE, *reason, message.clone())
        }
        _ => {
            let (reason, message) = Remark::verdict(remarks);
            ConditionVerdict::new(SpecValid, TRUE, reason, message)
        }
    };
    let mut credentials = credentials_verdict(evidence);
    let names = Names::new(&cluster.name_any(), &cluster.namespace().unwrap_or_default());
    let facts = CertificateFacts {
        secret: &names.authority(),
        authority: evidence.authority,
        rotation: evidence.rotation,
        first_expiry_s: evidence.first_expiry_s,
        is_applied: *outcome == Outcome::Applied,
        now: evidence.now,
    };
    let certified =
        |(status, reason, message)| ConditionVerdict::new(CertificatesReady, status, reason, message);
    let expiring = || facts.expiring().map(certified);
    let mut certificates = ConditionVerdict::new(
        CertificatesReady,
        TRUE,
        Reason::Issued,
        format!("CA in Secret {}-ca", cluster.name_any()),
    );
    match outcome {
        Outcome::Blocked(Blockage { part: BlockedPart::Credentials, reason, message }) => {
            credentials = ConditionVerdict::new(CredentialsReady, FALSE, *reason, message.clone());
            certificates = expiring().unwrap_or_else(|| ConditionVerdict::waiting(CertificatesReady));
        }
        Outcome::Blocked(Blockage { part: BlockedPart::Certificates, reason, message }) => {
            certificates = ConditionVerdict::new(CertificatesReady, FALSE, *reason, message.clone());
            credentials = ConditionVerdict::waiting(CredentialsReady);
        }
        Outcome::Applied => certificates = certified(facts.verdict()),
        _ if observed.authority.is_none() => {
            credentials = ConditionVerdict::waiting(CredentialsReady);
            certificates = ConditionVerdict::waiting(CertificatesReady);
        }
        _ => certificates = expiring().unwrap_or(certificates),
    }
    let names = Names::new(&cluster.name_any(), &cluster.namespace().unwrap_or_default());
    let s3 = s3_tls::look(cluster, &names, observed, evidence.now.as_second());
    if let Some((reason, message)) = s3.and_then(|look| look.fault).filter(|_| certificates.status == TRUE) {
        certificates = ConditionVerdict::new(CertificatesReady, FALSE, reason, message);
    }
    vec![spec, credentials, certificates, paused_verdict(cluster)]
}

/// The verdict on the root credentials, where nothing is wrong with their Secret.
fn credentials_verdict(evidence: &Evidence<'_>) -> ConditionVerdict {
    let Evidence { cluster, answers, credentials_proofs, .. } = evidence;
    let (reason, secret) = match &cluster.spec.credentials {
        Some(given) => (Reason::Provided, format!("Secret {}", given.secret_ref.name)),
        None => (Reason::Generated, format!("Secret {}-root-credentials", cluster.name_any())),
    };
    let (reason, message) = match credentials::loading(answers, credentials_proofs) {
        Some(words) => (Reason::LoadingCredentials, format!("{secret}; {words}")),
        None => (reason, secret),
    };
    ConditionVerdict::new(ConditionType::CredentialsReady, TRUE, reason, message)
}

fn paused_verdict(cluster: &StorageCluster) -> ConditionVerdict {
    let condition = ConditionType::Paused;
    if cluster.spec.paused {
        let message = "spec.paused is set: the operator changes nothing";
        ConditionVerdict::new(condition, TRUE, Reason::PausedBySpec, message)
    } else {
        ConditionVerdict::new(condition, FALSE, Reason::NotPaused, "spec.paused is not set")
    }
}

/// Whether every pod serves, else the first cause that a person can act on.
fn pods_verdict(evidence: &Evidence<'_>, wanted: &[String], ready: &BTreeSet<String>) -> ConditionVerdict {
    let condition = ConditionType::PoolsReady;
    let missing: Vec<&str> = absent(wanted, ready);
    if missing.is_empty() && !wanted.is_empty() {
        return ConditionVerdict::new(
            condition,
            TRUE,
            Reason::AsAsked,
            format!("all {} pods serve", wanted.len()),
        );
    }
    if evidence.observed.storage_class_missing {
        let pool = evidence.cluster.spec.pools.first();
        let class = pool.and_then(|pool| pool.volume_claim_template.storage_class_name.as_deref());
        let message = format!("StorageClass {} is not there", class.unwrap_or_default());
        return ConditionVerdict::new(condition, FALSE, Reason::StorageClassMissing, message);
    }
    if let Some(PodFailure { reason, message }) = pod_failure::of_cluster(evidence.observed) {
        return ConditionVerdict::new(condition, FALSE, reason, message);
    }
    ConditionVerdict::new(
        condition,
        FALSE,
        Reason::PodsNotReady,
        format!("waiting for pods {}", listed(&missing)),
    )
}

/// Whether S3 takes reads and writes.
fn ready_verdict(
    evidence: &Evidence<'_>,
    view: Option<&StatusReply>,
    wanted: &[String],
    ready: &BTreeSet<String>,
) -> ConditionVerdict {
    let condition = ConditionType::Ready;
    let missing = absent(wanted, ready);
    if let Outcome::Invalid(messages) = &evidence.outcome
        && view.is_none()
        && !has_formed(evidence.cluster)
    {
        return ConditionVerdict::new(condition, FALSE, Reason::SpecInvalid, messages.join("; "));
    }
    if let Outcome::Blocked(Blockage { reason, message, .. }) = &evidence.outcome
        && view.is_none()
    {
        // Nodes that run already may serve behind a CA that does not let the operator ask them.
        let status = if has_formed(evidence.cluster) { UNKNOWN } else { FALSE };
        return ConditionVerdict::new(condition, status, *reason, message.clone());
    }
    let Some(view) = view else {
        let message = waiting_message(evidence, &missing);
        if !has_formed(evidence.cluster) {
            return ConditionVerdict::new(condition, FALSE, Reason::Forming, message);
        }
        // Pods that pass their probe serve, though the operator is cut off from them.
        let status = if ready.is_empty() { FALSE } else { UNKNOWN };
        let message = format!("no node answers the operator: {message}");
        return ConditionVerdict::new(condition, status, Reason::NodesSilent, message);
    };
    let takes_writes = |set: &&SetStatus| set.voting >= set.accept.max(set.prepare) && set.takes_shards;
    let short: Vec<String> =
        view.sets.iter().filter(|set| !takes_writes(set)).map(|set| set.set.to_string()).collect();
    if !short.is_empty() || view.sets.is_empty() {
        if let Some(message) = capacity::full(view) {
            return ConditionVerdict::new(condition, FALSE, Reason::Full, message);
        }
        let short: Vec<&str> = short.iter().map(String::as_str).collect();
        let (short, missing) = (listed(&short), listed(&missing));
        let message = format!("sets that take no writes: {short}; pods that do not serve: {missing}");
        // A cluster that never served has not lost its quorum while its pods still come up.
        let comes_up = !absent(wanted, ready).is_empty() && !has_served(evidence.cluster);
        let reason = if comes_up { Reason::Forming } else { Reason::QuorumLost };
        return ConditionVerdict::new(condition, FALSE, reason, message);
    }
    if ready.is_empty() {
        let message = format!("sets have their quorum; no pod is ready yet: {}", listed(&missing));
        return ConditionVerdict::new(condition, FALSE, Reason::PodsNotReady, message);
    }
    if let Some(message) = capacity::nearly_full(view) {
        return ConditionVerdict::new(condition, TRUE, Reason::NearlyFull, message);
    }
    let message =
        format!("S3 takes reads and writes on {} of {} nodes", ready.len().min(wanted.len()), wanted.len());
    ConditionVerdict::new(condition, TRUE, Reason::Serving, message)
}

/// The verdict on a cluster that does not serve, by its losses where it has any.
fn ready_or_lost(judged: ConditionVerdict, losses: &LossReport) -> ConditionVerdict {
    let lost = match judged.reason {
        Reason::QuorumLost => losses.stands_still(),
        Reason::Forming | Reason::NodesSilent => losses.is_lost(),
        _ => None,
    };
    match lost {
        Some((reason, message)) => ConditionVerdict { status: FALSE, reason, message, ..judged },
        None => judged,
    }
}

/// Names the pods that a cluster waits for, with what is known of each.
fn waiting_message(evidence: &Evidence<'_>, missing: &[&str]) -> String {
    let replies = evidence.answers.values().flatten().filter_map(|reply| reply.formation.as_ref());
    let mut waited_for: BTreeSet<&str> =
        replies.clone().flat_map(|formation| &formation.waiting_for).map(String::as_str).collect();
    if waited_for.is_empty() {
        waited_for.extend(missing);
    }
    let waited_for: Vec<&str> = waited_for.into_iter().collect();
    let mut message = format!("waiting for pods {}", listed(&waited_for));
    if let Outcome::Rejected(words) = &evidence.outcome {
        return format!("{message}: {words}");
    }
    let why = replies.map(|formation| formation.reason.as_str()).find(|reason| !reason.is_empty());
    let unanswered = evidence.answers.iter().find_map(|(pod, answer)| Some((pod, answer.as_ref().err()?)));
    if let Some(failure) = pod_failure::of_cluster(evidence.observed) {
        message = format!("{message}: {}", failure.message);
    } else if let Some(why) = why {
        message = format!("{message}: {why}");
    } else if let Some((pod, error)) = unanswered {
        message = format!("{message}: {pod} does not answer: {error}");
    }
    message
}

fn progress_verdict(
    evidence: &Evidence<'_>,
    pods: &ConditionVerdict,
    view: Option<&StatusReply>,
) -> ConditionVerdict {
    let condition = ConditionType::Progressing;
    let step = rollout::under_way(evidence.rollout);
    match &evidence.outcome {
        Outcome::Rejected(message) => {
            ConditionVerdict::new(condition, FALSE, Reason::ApplyRejected, message.clone())
        }
        Outcome::Failed(message) => {
            ConditionVerdict::new(condition, FALSE, Reason::ApplyFailed, message.clone())
        }
        Outcome::Invalid(_) => {
            ConditionVerdict::new(condition, FALSE, Reason::SpecInvalid, "the specification is invalid")
        }
        Outcome::Blocked(blockage) => {
            ConditionVerdict::new(condition, FALSE, blockage.reason, blockage.message.clone())
        }
        Outcome::PausedBySpec => {
            ConditionVerdict::new(condition, FALSE, Reason::PausedBySpec, "spec.paused is set")
        }
        Outcome::Applied if step.is_some() => {
            ConditionVerdict::new(condition, TRUE, Reason::RollingOut, step.unwrap_or_default())
        }
        Outcome::Applied if pods.status == TRUE => {
            ConditionVerdict::new(condition, FALSE, Reason::AsAsked, "the cluster is as asked for")
        }
        Outcome::Applied => {
            let formed = view.is_some() || has_formed(evidence.cluster);
            let reason = if formed { Reason::PodsNotReady } else { Reason::Forming };
            ConditionVerdict::new(condition, TRUE, reason, pods.message.clone())
        }
    }
}

fn degraded_verdict(
    evidence: &Evidence<'_>,
    view: Option<&StatusReply>,
    ready: &BTreeSet<String>,
) -> ConditionVerdict {
    let condition = ConditionType::Degraded;
    let Evidence { cluster, answers, now, .. } = evidence;
    let (status, reason, message) = match view {
        Some(view) => degraded::verdict((cluster, *now), answers, view),
        None if has_formed(cluster) && !matches!(evidence.outcome, Outcome::Blocked(_)) => {
            let status = if ready.is_empty() { TRUE } else { UNKNOWN };
            (status, Reason::NodesSilent, "no node answers the operator".to_owned())
        }
        None => return ConditionVerdict::waiting(condition),
    };
    ConditionVerdict::new(condition, status, reason, message)
}

/// The last status, with what cannot be said of a cluster that could not be looked at.
pub(super) fn unobserved(cluster: &StorageCluster, error: &str, now: Timestamp) -> ClusterStatus {
    let unknown = [
        ConditionVerdict::new(ConditionType::Ready, UNKNOWN, Reason::NotObserved, error),
        ConditionVerdict::new(ConditionType::Progressing, FALSE, Reason::NotObserved, error),
        ConditionVerdict::new(ConditionType::Degraded, UNKNOWN, Reason::NotObserved, error),
    ];
    let mut status = cluster.status.clone().unwrap_or_default();
    for verdict in unknown.into_iter().chain([paused_verdict(cluster)]) {
        let condition = dated(&verdict, cluster, now);
        match status.conditions.iter_mut().find(|last| last.type_ == condition.type_) {
            Some(last) => *last = condition,
            None => status.conditions.push(condition),
        }
    }
    status
}

/// The answer of a formed node that sees the most nodes: one that is cut off sees too few.
fn best_view(answers: &NodeAnswers) -> Option<&StatusReply> {
    let formed = answers
        .values()
        .flatten()
        .filter(|reply| reply.formation.as_ref().is_some_and(|formation| formation.formed));
    formed.max_by_key(|reply| {
        let voting: u32 = reply.sets.iter().map(|set| set.voting).sum();
        (voting, reply.nodes.iter().filter(|node| node.up).count())
    })
}
