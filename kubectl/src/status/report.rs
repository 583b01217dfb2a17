//! The report on a StorageCluster and its objects, as text: its counts, the conditions that are not as they
//! should be, and why a rollout, a drain or a heal waits. Plain functions over values.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use sherd_admin::plain::plain;
use sherd_operator::api::{ClusterStatus, ConditionType, RolloutStatus};

use crate::cluster::FoundCluster;
use crate::error::PluginError;
use crate::node::is_ready;

/// Why writing to a `String` cannot fail.
const TEXT: &str = "a String takes every text";

/// The report; a list that could not be read says why.
pub fn report(
    cluster: &FoundCluster,
    pods: &Result<Vec<Pod>, PluginError>,
    budgets: &Result<Vec<PodDisruptionBudget>, PluginError>,
) -> String {
    let FoundCluster { object, names } = cluster;
    let status = object.status.clone().unwrap_or_default();
    let ready = condition(&status, ConditionType::Ready);
    let state = ready.map_or("no report by the operator yet".to_owned(), |found| {
        format!("Ready={} {}: {}", found.status, found.reason, found.message)
    });
    let [name, namespace, state] = [&names.cluster, &names.namespace, &state].map(|text| plain(text));
    let mut out = format!("StorageCluster {name} in namespace {namespace}: {state}\n");
    counts(&mut out, &status);
    if status.observed_generation < object.metadata.generation && ready.is_some() {
        out.push_str("  the operator has not taken up the last change of the specification yet\n");
    }
    let wrong = status.conditions.iter().filter(|found| !is_as_it_should_be(found)).map(|found| {
        let Condition { type_, status, reason, message, last_transition_time, .. } = found;
        format!("{type_}={status} {reason} since {:.0}: {message}", last_transition_time.0)
    });
    section(&mut out, "conditions", wrong.collect());
    let mut waits = Vec::new();
    waits.extend(status.rollout.as_ref().and_then(rollout));
    match budgets {
        Ok(budgets) => waits.extend(budgets.iter().filter_map(|budget| drain(budget, &status))),
        Err(error) => waits.push(format!("drain: {error}")),
    }
    match pods {
        Ok(pods) => waits.extend(pods.iter().filter_map(pod)),
        Err(error) => waits.push(format!("pods: {error}")),
    }
    waits.extend(heal(&status));
    section(&mut out, "waits", waits);
    section(&mut out, "volumes that need a word", status.volume_losses.iter().map(loss).collect());
    out
}

/// Appends lines under a title, where there are any. None has a control character, nor begins another line.
fn section(out: &mut String, title: &str, lines: Vec<String>) {
    if !lines.is_empty() {
        writeln!(out, "\n{title}").expect(TEXT);
    }
    for line in lines {
        writeln!(out, "  {}", plain(&line)).expect(TEXT);
    }
}

fn counts(out: &mut String, status: &ClusterStatus) {
    let healing = status.volumes_healing.map(|count| count.to_string());
    let counts = [
        ("nodes ready", &status.nodes_ready),
        ("volumes online", &status.volumes_online),
        ("volumes healing", &healing),
        ("version", &status.version),
        ("endpoint", &status.endpoint),
    ];
    let said: Vec<String> =
        counts.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))).collect();
    if !said.is_empty() {
        writeln!(out, "  {}", plain(&said.join(", "))).expect(TEXT);
    }
}

fn condition(status: &ClusterStatus, kind: ConditionType) -> Option<&Condition> {
    status.conditions.iter().find(|found| found.type_ == kind.as_str())
}

/// Whether a condition has the status that it has in a cluster that rests. One of another version of the
/// operator has any.
fn is_as_it_should_be(found: &Condition) -> bool {
    let kind = ConditionType::ALL.into_iter().find(|kind| kind.as_str() == found.type_);
    kind.is_none_or(|kind| {
        let wanted = match kind {
            ConditionType::Ready
            | ConditionType::SpecValid
            | ConditionType::CredentialsReady
            | ConditionType::CertificatesReady
            | ConditionType::PoolsReady
            | ConditionType::SettingsLoaded => "True",
            ConditionType::Progressing
            | ConditionType::Degraded
            | ConditionType::UpgradeBlocked
            | ConditionType::StorageResizing
            | ConditionType::DeletionBlocked
            | ConditionType::Paused => "False",
        };
        found.status == wanted
    })
}

/// Why pods are not replaced now; nothing where no rollout is under way.
fn rollout(status: &RolloutStatus) -> Option<String> {
    let RolloutStatus { updated, pods, order, message, replacing, waiting_since, failed, .. } = status;
    if message.is_empty() && order.is_empty() && replacing.is_none() && failed.is_none() {
        return None;
    }
    let mut text = format!("rollout: {updated} of {pods} pods are replaced");
    if !message.is_empty() {
        write!(text, "; {message}").expect(TEXT);
    }
    if let Some(replaced) = replacing {
        write!(text, "; {} is being replaced since {:.0}", replaced.name, replaced.since.0).expect(TEXT);
        if let Some(refusal) = &replaced.refusal {
            write!(text, ", its eviction is refused: {refusal}").expect(TEXT);
        }
    }
    if let Some(since) = waiting_since {
        write!(text, "; waiting since {:.0}", since.0).expect(TEXT);
    }
    if let Some(failed) = failed {
        write!(text, "; revision {} failed: {}", failed.revision, failed.message).expect(TEXT);
    }
    if !order.is_empty() {
        write!(text, "; still to come: {}", order.join(", ")).expect(TEXT);
    }
    Some(text)
}

/// Why a drain of a host waits; nothing where a pod may go.
fn drain(budget: &PodDisruptionBudget, cluster: &ClusterStatus) -> Option<String> {
    let status = budget.status.as_ref()?;
    if status.disruptions_allowed > 0 {
        return None;
    }
    let mut text = format!(
        "drain: the budget {} lets no pod go: {} of {} pods are ready, {} must be",
        budget.name_any(),
        status.current_healthy,
        status.expected_pods,
        status.desired_healthy
    );
    if let Some(degraded) =
        condition(cluster, ConditionType::Degraded).filter(|found| found.status != "False")
    {
        write!(text, "; {}: {}", degraded.reason, degraded.message).expect(TEXT);
    }
    Some(text)
}

/// Why a pod does not serve; nothing where it is ready.
fn pod(pod: &Pod) -> Option<String> {
    let name = pod.name_any();
    if let Some(since) = &pod.metadata.deletion_timestamp {
        return Some(format!("pod {name}: is being deleted, until {:.0}", since.0));
    }
    if is_ready(pod) {
        return None;
    }
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.iter().flatten();
    let waiting = containers.filter_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let (reason, message) = (waiting.reason.as_deref()?, waiting.message.as_deref());
        Some(message.map_or(reason.to_owned(), |message| format!("{reason}: {message}")))
    });
    let unscheduled = status.conditions.iter().flatten().filter(|found| found.type_ == "PodScheduled");
    let unscheduled = unscheduled.filter(|found| found.status == "False");
    let why = waiting.chain(unscheduled.filter_map(|found| found.message.clone())).next();
    let phase = status.phase.unwrap_or_else(|| "unknown".to_owned());
    Some(format!("pod {name}: {}", why.unwrap_or_else(|| format!("{phase}, not ready"))))
}

/// Why volumes are not healed; nothing where all are.
fn heal(status: &ClusterStatus) -> Option<String> {
    let degraded = condition(status, ConditionType::Degraded).filter(|found| found.status != "False")?;
    let healing = status.volumes_healing.unwrap_or_default();
    Some(format!("heal: {healing} volumes are not healed; {}: {}", degraded.reason, degraded.message))
}

fn loss(loss: &sherd_operator::api::VolumeLoss) -> String {
    let mut text = format!("{} of pod {}: {:?}", loss.claim, loss.pod, loss.state);
    if !loss.reason.is_empty() {
        write!(text, ", {}", loss.reason).expect(TEXT);
    }
    if let Some(order) = &loss.order {
        write!(text, "; the text of an order about it: {order}").expect(TEXT);
    }
    text
}
