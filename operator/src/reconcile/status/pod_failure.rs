//! Reads from pods why they do not serve: the first cause that a person can act on, in the words of
//! Kubernetes or of the node's last log lines.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::ResourceExt as _;

use crate::api::Reason;
use crate::reconcile::observe::ObservedCluster;

const NO_HOST: &str = "no host takes the pod";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodFailure {
    pub(super) reason: Reason,
    pub(super) message: String,
}

/// Why pods do not serve: the worst failure of those that are there, or else why others cannot be made.
pub(super) fn of_cluster(observed: &ObservedCluster) -> Option<PodFailure> {
    let refused = || {
        let message = observed.refused_pods.clone()?;
        Some(PodFailure { reason: Reason::FailedCreate, message })
    };
    worst(&observed.pods).or_else(refused)
}

/// The worst failure of all pods. Failures that do not end by waiting come first.
fn worst(pods: &[Pod]) -> Option<PodFailure> {
    let order = |failure: &PodFailure| match failure.reason {
        Reason::ImagePullFailed => 0,
        Reason::ContainerFailing => 1,
        _ => 2,
    };
    pods.iter().filter_map(of_pod).min_by_key(order)
}

fn of_pod(pod: &Pod) -> Option<PodFailure> {
    let status = pod.status.as_ref()?;
    let name = pod.name_any();
    let containers = status.container_statuses.iter().flatten();
    if let Some(failure) = containers.into_iter().find_map(|container| of_container(&name, container)) {
        return Some(failure);
    }
    let scheduled = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled")?;
    let unschedulable = scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    unschedulable.then(|| PodFailure {
        reason: Reason::Unschedulable,
        message: format!("{name}: {}", scheduled.message.as_deref().map_or(NO_HOST, first_sentence)),
    })
}

/// The scheduler says first why no host takes a pod, and then what would be of taking other pods away.
fn first_sentence(words: &str) -> &str {
    words.split(". ").next().unwrap_or(words)
}

fn of_container(pod: &str, container: &ContainerStatus) -> Option<PodFailure> {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    let waits_for = waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default();
    let said = waiting.and_then(|waiting| waiting.message.as_deref()).unwrap_or_default();
    let failure = |reason, message| Some(PodFailure { reason, message });
    match waits_for {
        "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull"
        | "ImageInspectError" => {
            failure(Reason::ImagePullFailed, format!("{pod}: image {}: {waits_for}: {said}", container.image))
        }
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            failure(Reason::ContainerFailing, format!("{pod}: {waits_for}: {said}"))
        }
        _ => {
            // A container that runs has no failure now, however often it ended.
            let runs = container.state.as_ref().is_some_and(|state| state.running.is_some());
            let ended = ended(container.state.as_ref()).or_else(|| ended(container.last_state.as_ref()));
            ended
                .filter(|_| !runs)
                .and_then(|message| failure(Reason::ContainerFailing, format!("{pod}: {message}")))
        }
    }
}

/// How a container ended, with the last line that it logged.
fn ended(state: Option<&ContainerState>) -> Option<String> {
    let terminated = state?.terminated.as_ref()?;
    let last =
        terminated.message.as_deref().unwrap_or_default().lines().rfind(|line| !line.trim().is_empty());
    (terminated.exit_code != 0).then(|| {
        let said = last.map(|line| format!(": {line}")).unwrap_or_default();
        format!("the node ended with exit code {}{said}", terminated.exit_code)
    })
}
