//! Volumes that lost their state, as their own nodes report them, by the claims that held it; and what the
//! loss means for each erasure set: whether data is lost, whether a person has to say something, or whether
//! the set heals by itself. Plain functions over values.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};
use sherd_proto::v1::{SetStatus, StatusReply, VolumeReport};

use super::nodes::NodeAnswers;
use super::observe::ObservedCluster;
use super::validate::ValidCluster;
use super::words::listed;
use crate::api::{LossState, Reason, VolumeLoss};
use crate::limits;

/// The page that says what to do.
pub(super) const PAGE: &str = "docs/operations/kubernetes-recovery.md says what to do";

/// A loss, with the id by which its node takes orders about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundLoss {
    /// The loss as it is reported.
    pub(super) loss: VolumeLoss,
    /// The volume; empty where no node reports it.
    pub(super) volume: Vec<u8>,
}

/// The consequence of the losses of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LossVerdict {
    /// [`Reason::DataLost`] or [`Reason::DataAtRisk`].
    pub(super) reason: Reason,
    /// The sets and claims concerned, what does not work, and what to do.
    pub(super) message: String,
    /// Whether a set comes back only if a person does something.
    pub(super) needs_person: bool,
}

/// The name of the claim of a pod's volume, as the StatefulSet's controller gives it.
fn claim_name(pod: &str, ordinal: u32) -> String {
    format!("v{}-{pod}", u64::from(ordinal) + 1)
}

/// Returns the losses of a cluster, by pod and volume. Each node is asked of its own volumes alone: of a node
/// that does not answer nothing is known, and it may come back as it was.
pub(super) fn find(
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    answers: &NodeAnswers,
) -> Vec<FoundLoss> {
    let pods = valid.names().pods(&valid.pool().name, valid.pool().nodes);
    // Where no node is part of a formed cluster, all volumes of those that hold no topology are lost.
    let no_node_formed = pods.iter().all(|pod| formed_answer(pod, answers).is_none());
    let empty = |pod: &String| {
        let reply =
            answers.get(pod)?.as_ref().ok().filter(|reply| no_node_formed && lacks_topology(reply))?;
        let reason = &reply.formation.as_ref()?.reason;
        Some((LossState::Lost, reason.chars().take(limits::LOSS_REASON_CHARACTERS_MAX).collect()))
    };
    let mut found = Vec::new();
    for (node, pod) in pods.iter().enumerate() {
        let sets = valid.sets().of_node(node);
        let own = own_reports(pod, answers);
        for (ordinal, set) in (0_u32..).zip(sets) {
            let claim = claim_name(pod, ordinal);
            let report = own.get(&ordinal).copied();
            let volume = report.map(|report| report.volume.to_vec()).unwrap_or_default();
            let stored = observed.claims.iter().find(|stored| stored.name_any() == claim);
            let state = report.and_then(state_of).or_else(|| gone(stored?)).or_else(|| empty(pod));
            let Some((state, reason)) = state else { continue };
            let order = report.filter(|_| state != LossState::ClaimLost);
            let order = order.and_then(|_| order_text(&claim, &volume, stored?, pod_of(observed, pod)?));
            let set = i32::try_from(*set).ok();
            let loss = VolumeLoss { claim, pod: pod.clone(), set, state, reason, order };
            found.push(FoundLoss { loss, volume });
        }
    }
    found
}

/// The answer of a node that is part of a formed cluster.
fn formed_answer<'a>(pod: &str, answers: &'a NodeAnswers) -> Option<&'a StatusReply> {
    let answer = answers.get(pod)?.as_ref().ok();
    answer.filter(|reply| reply.formation.as_ref().is_some_and(|formation| formation.formed))
}

/// Whether a node of a cluster that was formed before holds no topology.
pub(super) fn lacks_topology(reply: &StatusReply) -> bool {
    reply.formation.as_ref().is_some_and(|formation| !formation.formed && formation.formed_before)
}

/// The reports of a node, which is part of a formed cluster, on its own volumes, by ordinal.
fn own_reports<'a>(pod: &str, answers: &'a NodeAnswers) -> BTreeMap<u32, &'a VolumeReport> {
    let reports = formed_answer(pod, answers).into_iter().flat_map(|reply| &reply.volumes);
    reports.filter(|report| report.node == pod).map(|report| (report.ordinal, report)).collect()
}

fn state_of(report: &VolumeReport) -> Option<(LossState, String)> {
    if report.votes {
        return None;
    }
    // The reason of a volume that is rebuilt counts what is done, and would change the status each time.
    let reason = if report.lost && report.is_open { "it is rebuilt from the others" } else { &report.reason };
    let state = match (report.lost, report.unconfirmed) {
        (true, _) => LossState::Lost,
        (false, true) => LossState::Unconfirmed,
        (false, false) => return None,
    };
    Some((state, reason.chars().take(limits::LOSS_REASON_CHARACTERS_MAX).collect()))
}

/// A claim whose PersistentVolume is gone: Kubernetes sets its phase, and starts no pod with it.
fn gone(claim: &PersistentVolumeClaim) -> Option<(LossState, String)> {
    let status = claim.status.as_ref()?;
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or("of the claim");
    (status.phase.as_deref() == Some("Lost"))
        .then(|| (LossState::ClaimLost, format!("PersistentVolume {volume} is gone")))
}

fn pod_of<'a>(observed: &'a ObservedCluster, name: &str) -> Option<&'a Pod> {
    observed.pods.iter().find(|pod| pod.name_any() == name)
}

/// The text of an order about a volume as it was seen: a later claim, pod or process of the same names gets
/// another one, so that an annotation that stayed in a repository orders nothing about it.
fn order_text(claim: &str, volume: &[u8], stored: &PersistentVolumeClaim, pod: &Pod) -> Option<String> {
    let seen = format!("{}/{}/{}", stored.uid()?, process_of(pod)?, hex::encode(volume));
    let digest = hex::encode(Sha256::digest(seen));
    Some(format!("{claim}={}", &digest[..limits::ORDER_DIGEST_CHARACTERS]))
}

/// A text that another pod of the name has not, and neither has the next process in this one.
pub(super) fn process_of(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let restarts: i32 = statuses.into_iter().flatten().map(|container| container.restart_count).sum();
    Some(format!("{}/{restarts}", pod.uid()?))
}

/// One erasure set and what was found of it.
struct SetLosses<'a> {
    status: &'a SetStatus,
    lost: Vec<&'a str>,
    unconfirmed: Vec<&'a str>,
}

/// Judges what the losses mean; `None` where the sets rebuild what was lost, and can lose more.
pub(super) fn judge(losses: &[FoundLoss], view: &StatusReply) -> Option<LossVerdict> {
    let mut sets: BTreeMap<u32, SetLosses<'_>> = view
        .sets
        .iter()
        .map(|status| (status.set, SetLosses { status, lost: vec![], unconfirmed: vec![] }))
        .collect();
    for FoundLoss { loss, .. } in losses {
        let Some(set) = loss.set.and_then(|set| sets.get_mut(&u32::try_from(set).ok()?)) else { continue };
        match loss.state {
            LossState::Lost | LossState::ClaimLost => set.lost.push(&loss.claim),
            LossState::Unconfirmed => set.unconfirmed.push(&loss.claim),
        }
    }
    let mut judged: Vec<(Reason, bool, String)> = sets.values().filter_map(SetLosses::judge).collect();
    // Lost data comes first, then sets that wait for a person.
    judged.sort_by_key(|(reason, needs_person, _)| (*reason != Reason::DataLost, !needs_person));
    let reason = judged.first()?.0;
    let needs_person = judged.iter().any(|(_, needs_person, _)| *needs_person);
    let more = judged.len().saturating_sub(limits::SETS_IN_MESSAGE_MAX);
    let words = judged.iter().take(limits::SETS_IN_MESSAGE_MAX).map(|(_, _, words)| words.as_str());
    let mut message = words.collect::<Vec<_>>().join("; ");
    if more > 0 {
        message = format!("{message}; and {more} more sets");
    }
    Some(LossVerdict { reason, message: format!("{message}. {PAGE}"), needs_person })
}

impl SetLosses<'_> {
    /// The reason, whether a person has to act, and the words.
    fn judge(&self) -> Option<(Reason, bool, String)> {
        let Self { status, lost, unconfirmed } = self;
        let SetStatus { set, volumes, accept, prepare, voting, data_shards, takes_shards, .. } = **status;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (gone, waiting) = (number(lost.len()), number(unconfirmed.len()));
        if gone == 0 {
            return None;
        }
        let left = volumes.saturating_sub(gone);
        let is_stuck = gone >= prepare && voting < prepare;
        let goes_on = if voting < prepare {
            "S3 neither reads nor writes its objects"
        } else if voting < accept || !takes_shards {
            "S3 reads its objects and writes none"
        } else {
            "S3 reads and writes its objects"
        };
        let what = format!(
            "set {set}: {gone} of {volumes} volumes lost their state (claims {}), and {goes_on}",
            listed(lost)
        );
        let needed = prepare.max(data_shards);
        if left < needed {
            let words = format!(
                "{what}: a read needs {needed} volumes and {left} are left, so what it held is lost unless lost claims come back as they were"
            );
            return Some((Reason::DataLost, true, words));
        }
        if is_stuck && voting.saturating_add(waiting) >= prepare {
            let words = format!(
                "{what}: the others are too few to confirm each other; if {} lost nothing, vouch for them",
                listed(unconfirmed)
            );
            return Some((Reason::DataAtRisk, true, words));
        }
        if is_stuck {
            let words =
                format!("{what}: too few of the others are there to begin with; bring their pods back");
            return Some((Reason::DataAtRisk, true, words));
        }
        (left == needed).then(|| {
            let words = format!(
                "{what}: they are rebuilt from the {left} that are left, and none of these can be missed"
            );
            (Reason::DataAtRisk, false, words)
        })
    }
}
