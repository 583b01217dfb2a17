//! Verdicts on a Bucket or BucketUser, and the conditions that they become.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::cluster::Unusable;
use crate::api::{AccessCondition, AccessReason};
use crate::calls::{CallError, Refusal};
use crate::reconcile::condition::{ConditionText, FALSE, TRUE, UNKNOWN, dated};

/// One condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) condition: AccessCondition,
    pub(super) status: &'static str,
    pub(super) reason: AccessReason,
    pub(super) message: String,
}

impl Verdict {
    pub(super) fn good(condition: AccessCondition, reason: AccessReason, message: impl Into<String>) -> Self {
        Self { condition, status: TRUE, reason, message: message.into() }
    }

    pub(super) fn bad(condition: AccessCondition, reason: AccessReason, message: impl Into<String>) -> Self {
        Self { condition, status: FALSE, reason, message: message.into() }
    }

    /// A condition that is not judged before another one holds.
    pub(super) fn waiting(condition: AccessCondition) -> Self {
        let message = "not judged before what it needs is there".to_owned();
        Self { condition, status: UNKNOWN, reason: AccessReason::Waiting, message }
    }

    /// A request that did not succeed.
    pub(super) fn failed(condition: AccessCondition, error: &CallError) -> Self {
        match error {
            CallError::Silent(_) => Self {
                condition,
                status: UNKNOWN,
                reason: AccessReason::NodesSilent,
                message: error.to_string(),
            },
            CallError::Refused(Refusal { .. }) | CallError::Malformed(_) => {
                Self::bad(condition, AccessReason::Refused, error.to_string())
            }
        }
    }

    /// A cluster that cannot be used.
    pub(super) fn unusable(condition: AccessCondition, unusable: &Unusable) -> Self {
        Self::bad(condition, unusable.reason, unusable.message.clone())
    }

    /// The object's deletion is not blocked.
    pub(super) fn not_deleted() -> Self {
        Self::bad(
            AccessCondition::DeletionBlocked,
            AccessReason::NotNeeded,
            "the object is not being deleted",
        )
    }

    pub(super) fn holds(&self) -> bool {
        self.status == TRUE
    }
}

/// The conditions of these types, in their order; those without a verdict wait.
pub(super) fn conditions(
    types: &[AccessCondition],
    verdicts: &[Verdict],
    last: &[Condition],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let condition = |condition: &AccessCondition| {
        let found = verdicts.iter().find(|verdict| verdict.condition == *condition);
        let verdict = found.cloned().unwrap_or_else(|| Verdict::waiting(*condition));
        let text = ConditionText {
            type_: condition.as_str(),
            status: verdict.status,
            reason: verdict.reason.as_str(),
            message: &verdict.message,
            keeps_message: verdict.reason == AccessReason::NodesSilent,
        };
        dated(last, generation, now, text)
    };
    types.iter().map(condition).collect()
}

/// Whether a person should look.
pub(super) fn is_bad(condition: &Condition) -> bool {
    let quiet = [
        AccessReason::Waiting,
        AccessReason::NotNeeded,
        AccessReason::ClusterNotReady,
        AccessReason::Suspended,
    ];
    let is_quiet = quiet.iter().any(|reason| reason.as_str() == condition.reason);
    let wanted = if condition.type_ == AccessCondition::DeletionBlocked.as_str() { FALSE } else { TRUE };
    !is_quiet && condition.status != wanted && condition.reason != AccessReason::Deleting.as_str()
}
