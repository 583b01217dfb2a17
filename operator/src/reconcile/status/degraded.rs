//! The condition `Degraded`, of a cluster whose nodes answer.

use std::collections::BTreeSet;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sherd_proto::v1::{StatusReply, VolumeReport, VolumeState};

use super::counts::is_online;
use crate::api::{ConditionType, Reason, StorageCluster};
use crate::limits;
use crate::reconcile::condition::{FALSE, TRUE};
use crate::reconcile::nodes::NodeAnswers;
use crate::reconcile::words::{listed, volume_name};

/// Whether something is down or heals, with the worst first: status, reason and message.
pub(super) fn verdict(
    (cluster, now): (&StorageCluster, Timestamp),
    answers: &NodeAnswers,
    view: &StatusReply,
) -> (&'static str, Reason, String) {
    let silent = answers.iter().filter(|(_, answer)| answer.is_err()).map(|(pod, _)| pod.as_str());
    let down = view.nodes.iter().filter(|node| !node.up).map(|node| node.name.as_str());
    let down: Vec<&str> = silent.chain(down).collect::<BTreeSet<_>>().into_iter().collect();
    let reason = |fault: Reason| if is_first_start(cluster, now) { Reason::Forming } else { fault };
    if !down.is_empty() {
        let message = format!("nodes that do not answer: {}", listed(&down));
        return (TRUE, reason(Reason::NodeDown), message);
    }
    let offline: Vec<String> =
        view.volumes.iter().filter(|volume| !is_online(volume.state())).map(volume_name).collect();
    if !offline.is_empty() {
        let offline: Vec<&str> = offline.iter().map(String::as_str).collect();
        let mut states = view.volumes.iter().map(VolumeReport::state).filter(|state| !is_online(*state));
        let (reason, what) = if states.all(|state| state == VolumeState::Full) {
            (Reason::Full, "volumes that are full")
        } else {
            (reason(Reason::VolumeDown), "volumes that are not online")
        };
        return (TRUE, reason, format!("{what}: {}", listed(&offline)));
    }
    let healing = view.volumes.iter().filter(|volume| !volume.healed).count();
    if healing > 0 {
        let message = format!("{healing} volumes are compared with their peers or healed");
        return (TRUE, Reason::Healing, message);
    }
    match view.problems.first() {
        Some(problem) => (TRUE, Reason::NodeProblem, problem.clone()),
        None => (FALSE, Reason::Healed, "all nodes answer, all volumes are healed".to_owned()),
    }
}

/// Whether some parts of a cluster may still come up for the first time: it was never whole, and is young.
fn is_first_start(cluster: &StorageCluster, now: Timestamp) -> bool {
    let last = cluster.status.iter().flat_map(|status| &status.conditions);
    let mut last = last.filter(|found| found.type_ == ConditionType::Degraded.as_str());
    let was_judged = last
        .any(|found| [Reason::Waiting, Reason::Forming].iter().all(|reason| found.reason != reason.as_str()));
    let young = SignedDuration::try_from(limits::FIRST_START).unwrap_or_default();
    let made = cluster.metadata.creation_timestamp.as_ref();
    !was_judged && made.is_some_and(|made| now.duration_since(made.0) < young)
}
