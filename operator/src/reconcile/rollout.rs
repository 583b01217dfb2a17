//! The next step of a cluster's rollout: gathers what the planner asks for from the observed objects and the
//! nodes' answers, and takes the step that it chose. The planner itself is [`crate::rollout`].
//!
//! The step is in the status before it is taken. It is taken only while the API server's own copy of the
//! cluster still has it there, so an operator with an old copy, or a former leader, takes none.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::error::ReconcileError;
use super::nodes::NodeAnswers;
use super::observe::ObservedCluster;
use super::revision::{AskedTemplate, TemplateOrigin};
use super::validate::ValidCluster;
use crate::api::{ReplacedPod, StorageCluster};
use crate::names::{Names, REVISION_LABEL};
use crate::rollout::{
    Eviction, KeptTemplate, PodState, PoolHealth, RolloutInput, RolloutPlan, RolloutStep, UpgradeRules,
    listed, plan,
};

/// The message of a cluster at rest whose pods this operator would make otherwise.
const TEMPLATE_KEPT: &str = "the pods are as an operator of another version made them, and this one would make them otherwise: they stay until a part of the specification that reaches them changes; to take the change now, set spec.upgrade.followOperator: true, or change the annotation sherd.dev/restart";

/// The message of a cluster at rest whose pods have a template that others changed.
const EDITS_KEPT: &str = "pods run the template as others changed it, which is put back in the StatefulSet: those that are ready stay, and one that is made for another reason is as the operator makes it";

/// Plans the next step for a cluster with this template; where none could be built, the budget is all that
/// is asked for.
pub(super) fn plan_rollout(
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    answers: &NodeAnswers,
    template: Option<&AskedTemplate>,
    refusal: Option<&EvictionRefusal>,
    now: Timestamp,
) -> RolloutPlan {
    let pool = valid.pool();
    let names = valid.names().pods(&pool.name, pool.nodes);
    let pods: Vec<Option<PodState>> = names
        .iter()
        .map(|name| observed.pods.iter().find(|pod| pod.name_any() == *name).map(pod_state))
        .collect();
    let last = valid.cluster().status.as_ref().and_then(|status| status.rollout.clone());
    let mut last = last.unwrap_or_default();
    if template.is_some_and(|template| template.is_failure_over) {
        last.failed = None;
    }
    let target = observed.target().filter(|_| template.is_some_and(|template| template.is_in_place));
    let mut plan = plan(&RolloutInput {
        names: &names,
        pods: &pods,
        sets: valid.sets(),
        health: &PoolHealth::read(&names, valid.sets(), answers),
        target,
        equal: template.and_then(|template| template.equal(target?)),
        has_additions: template
            .is_some_and(|template| template.is_in_place && !template.additions.is_empty()),
        template: template.map_or("", |template| &template.digest),
        rules: UpgradeRules { is_paused: valid.upgrade().is_paused || template.is_none(), ..valid.upgrade() },
        refusal: refusal.map(|EvictionRefusal { uid, words }| (uid.as_str(), words.as_str())),
        last: &last,
        now,
    });
    if let Some(template) = template {
        plan.record.recorded = template.recorded(target, observed);
        explain_kept(&mut plan, template);
    }
    plan
}

/// Says why pods keep a template.
fn explain_kept(plan: &mut RolloutPlan, template: &AskedTemplate) {
    let rests = matches!(plan.step, RolloutStep::Done | RolloutStep::Unknown);
    let additions: Vec<&str> = template.additions.iter().map(String::as_str).collect();
    let message = match plan.kept {
        _ if rests && !template.is_in_place && !additions.is_empty() => {
            plan.kept = Some(KeptTemplate::Equal);
            format!("others added {} to the pods' template, which is put back", listed(&additions))
        }
        Some(KeptTemplate::Equal) if additions.is_empty() => EDITS_KEPT.to_owned(),
        Some(KeptTemplate::Equal) => format!(
            "others add {} to the pods' template each time that the operator writes it: no pod that is ready is replaced for it, and one that is made for another reason has it",
            listed(&additions)
        ),
        _ if plan.step == RolloutStep::Done && template.origin == TemplateOrigin::Recorded => {
            plan.kept = Some(KeptTemplate::OfAnotherOperator);
            TEMPLATE_KEPT.to_owned()
        }
        _ => return,
    };
    plan.record.message = message;
}

/// Whether every pod of the pool is ready: where one is not, no ready one may go, also when all nodes answer.
pub(super) fn are_pods_ready(valid: &ValidCluster<'_>, observed: &ObservedCluster) -> bool {
    let pool = valid.pool();
    valid.names().pods(&pool.name, pool.nodes).iter().all(|name| {
        let pod = observed.pods.iter().find(|pod| pod.name_any() == *name).map(pod_state);
        pod.is_some_and(|pod| pod.is_ready && !pod.is_terminating)
    })
}

fn pod_state(pod: &Pod) -> PodState {
    let status = pod.status.as_ref();
    let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let mut containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    PodState {
        uid: pod.uid().unwrap_or_default(),
        revision: pod.labels().get(REVISION_LABEL).cloned().unwrap_or_default(),
        is_ready: conditions.any(|found| found.type_ == "Ready" && found.status == "True"),
        is_terminating: pod.metadata.deletion_timestamp.is_some(),
        is_running: containers
            .any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some())),
        lacks_its_host: lacks_its_host(pod),
    }
}

/// Whether the scheduler finds no host for a pod because one is closed or away, by its words, and no part of
/// the pod's template is among its reasons.
fn lacks_its_host(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let scheduled = conditions.find(|found| found.type_ == "PodScheduled" && found.status == "False");
    let Some(words) = scheduled.and_then(|found| found.message.as_deref()) else { return false };
    let of_hosts = ["were unschedulable", "untolerated taint(s)", "untolerated taint {node.kubernetes.io/"];
    let of_template = ["node affinity/selector", "Insufficient"];
    of_hosts.iter().any(|reason| words.contains(reason))
        && !of_template.iter().any(|reason| words.contains(reason))
}

/// An eviction that the API server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EvictionRefusal {
    /// The pod's.
    pub(super) uid: String,
    /// The API server's.
    pub(super) words: String,
}

/// The last refusal of each cluster, until the next report has it: a step is taken after the report.
#[derive(Debug, Default)]
pub struct EvictionRefusals {
    /// By namespace and cluster.
    clusters: Mutex<HashMap<(String, String), EvictionRefusal>>,
}

impl EvictionRefusals {
    pub(super) fn get(&self, names: &Names) -> Option<EvictionRefusal> {
        self.clusters.lock().get(&(names.namespace.clone(), names.cluster.clone())).cloned()
    }

    /// Keeps the refusal of an eviction, or forgets the last one where there was none.
    pub(super) fn set(&self, names: &Names, eviction: &Eviction, result: &EvictionResult) {
        let key = (names.namespace.clone(), names.cluster.clone());
        match result {
            EvictionResult::Kept(words) | EvictionResult::Refused(words) => {
                let refusal = EvictionRefusal { uid: eviction.uid.clone(), words: words.clone() };
                self.clusters.lock().insert(key, refusal);
            }
            EvictionResult::Accepted | EvictionResult::Overtaken => drop(self.clusters.lock().remove(&key)),
        }
    }

    /// Forgets the clusters, by namespace and name, that are gone.
    pub fn retain(&self, is_there: impl Fn(&str, &str) -> bool) {
        self.clusters.lock().retain(|(namespace, cluster), _| is_there(namespace, cluster));
    }
}

/// The result of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EvictionResult {
    /// The pod ends.
    Accepted,
    /// A disruption budget keeps it, in the words of the API server; it is asked again.
    Kept(String),
    /// The API server refuses it for another reason, in its words; it is asked again.
    Refused(String),
    /// Something changed meanwhile, which begins the next reconcile.
    Overtaken,
}

/// Evicts a pod that the cluster's stored status names, or deletes it where that is the step.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn evict(
    client: &Client,
    names: &Names,
    cluster: &StorageCluster,
    eviction: &Eviction,
) -> Result<EvictionResult, ReconcileError> {
    let clusters: Api<StorageCluster> = Api::namespaced(client.clone(), &names.namespace);
    let stored = clusters
        .get_opt(&names.cluster)
        .await
        .map_err(|source| ReconcileError::api("read", "StorageCluster".into(), &names.cluster, source))?;
    if !stored.is_some_and(|stored| asks_for(&stored, cluster, eviction)) {
        return Ok(EvictionResult::Overtaken);
    }
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": eviction.pod, "namespace": names.namespace},
        "deleteOptions": {"preconditions": {"uid": eviction.uid}},
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), &names.namespace);
    let evicted = if eviction.is_deletion {
        let preconditions = Preconditions { uid: Some(eviction.uid.clone()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        pods.delete(&eviction.pod, &params).await.map(|_| ())
    } else {
        let params = PostParams::default();
        pods.create_subresource::<Value, Value>("eviction", &eviction.pod, &params, &body).await.map(|_| ())
    };
    match evicted {
        Ok(()) => Ok(EvictionResult::Accepted),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(EvictionResult::Overtaken),
        Err(kube::Error::Api(status)) if status.code == 429 => {
            Ok(EvictionResult::Kept(status.message.clone()))
        }
        Err(kube::Error::Api(status)) => Ok(EvictionResult::Refused(status.message.clone())),
        Err(source) => Err(ReconcileError::api("evict", "Pod".into(), &eviction.pod, source)),
    }
}

/// Whether the stored cluster is the one that was judged, still asks for the same, and names the pod.
fn asks_for(stored: &StorageCluster, judged: &StorageCluster, eviction: &Eviction) -> bool {
    let rollout = stored.status.as_ref().and_then(|status| status.rollout.as_ref());
    let replacing = rollout.and_then(|rollout| rollout.replacing.as_ref());
    let Eviction { pod, uid, is_deletion: _, is_overdue: _ } = eviction;
    stored.metadata.uid == judged.metadata.uid
        && stored.metadata.deletion_timestamp.is_none()
        && stored.spec == judged.spec
        && replacing.is_some_and(|ReplacedPod { name, uid: named, .. }| name == pod && named == uid)
}
