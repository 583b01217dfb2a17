//! The condition on the replacement of pods.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::api::Reason;
use crate::reconcile::condition::{FALSE, TRUE};
use crate::reconcile::observe::ObservedCluster;
use crate::rollout::{BlockedReason, KeptTemplate, RolloutPlan, RolloutStep, listed};

const AS_ASKED: &str = "every pod runs the template that is asked for";

/// Whether pods run an older template than the StatefulSet's and are not replaced: status, reason and message
/// of the condition.
pub(super) fn blocked_verdict(
    observed: &ObservedCluster,
    plan: Option<&RolloutPlan>,
) -> (&'static str, Reason, String) {
    let Some(RolloutPlan { step, kept, record, .. }) = plan else { return pending_verdict(observed) };
    let message = record.message.clone();
    let (status, reason) = match step {
        RolloutStep::Done if kept.is_none() => return (FALSE, Reason::NotNeeded, AS_ASKED.to_owned()),
        RolloutStep::Done | RolloutStep::Unknown => match kept {
            None => (FALSE, Reason::NotNeeded),
            Some(KeptTemplate::Equal) => (FALSE, Reason::ForeignTemplate),
            Some(KeptTemplate::OfAnotherOperator) => (FALSE, Reason::TemplateKept),
        },
        RolloutStep::Evict(eviction) if eviction.is_overdue => (TRUE, Reason::EvictionRefused),
        RolloutStep::Evict(_) | RolloutStep::Wait => (FALSE, Reason::RollingOut),
        RolloutStep::Blocked(BlockedReason::Paused) => (TRUE, Reason::UpgradePaused),
        RolloutStep::Blocked(BlockedReason::NotRedundant) => (TRUE, Reason::NotRedundant),
        RolloutStep::Blocked(BlockedReason::NodesSilent) => (TRUE, Reason::NodesSilent),
        RolloutStep::Blocked(BlockedReason::HealthTimeout) => (TRUE, Reason::HealthTimeout),
    };
    (status, reason, message)
}

/// The step that is taken or waited for, in words.
pub(super) fn under_way(plan: Option<&RolloutPlan>) -> Option<&str> {
    let plan = plan.filter(|plan| matches!(plan.step, RolloutStep::Evict(_) | RolloutStep::Wait))?;
    Some(&plan.record.message)
}

/// The verdict while the operator changes nothing.
fn pending_verdict(observed: &ObservedCluster) -> (&'static str, Reason, String) {
    let mut older: Vec<String> = observed.older_pods().into_iter().map(Pod::name_any).collect();
    if older.is_empty() {
        return (FALSE, Reason::NotNeeded, AS_ASKED.to_owned());
    }
    older.sort();
    let older: Vec<&str> = older.iter().map(String::as_str).collect();
    let message = format!(
        "pods run an older template: {}; they are replaced once the operator may change something",
        listed(&older)
    );
    (TRUE, Reason::UpdatePending, message)
}
