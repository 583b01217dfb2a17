//! Changes of keys that a plan asks for, and the verdict on what is in force, for both kinds of Secrets.

use super::keys::KeyPlan;
use crate::api::{AccessCondition, AccessReason, FormerKey};
use crate::buckets::cluster::UsableCluster;
use crate::buckets::report::Verdict;
use crate::calls::CallError;
use crate::calls::iam;

/// The verdict on a key, its id and the former one.
pub(super) type EnsuredKey = (Verdict, Option<String>, Option<FormerKey>);

/// The verdict on a Secret whose key works.
pub(super) fn key_verdict(secret: &str, former: Option<&FormerKey>) -> Verdict {
    let (reason, message) = match former {
        Some(former) => {
            (AccessReason::Rotating, format!("key {} works until its overlap ends", former.access_key_id))
        }
        None => (AccessReason::AsAsked, format!("Secret {secret} holds the key")),
    };
    Verdict::good(AccessCondition::KeyReady, reason, message)
}

/// Removes the keys that a plan takes away, and makes those active that it keeps.
pub(super) async fn take_and_resume(
    usable: &UsableCluster,
    user: &str,
    plan: &KeyPlan,
) -> Result<(), CallError> {
    for key in &plan.remove {
        iam::remove_key(&usable.calls, user, key).await?;
    }
    for key in &plan.resume {
        iam::set_key(&usable.calls, user, key, true).await?;
    }
    Ok(())
}
