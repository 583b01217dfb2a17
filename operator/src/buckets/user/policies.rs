//! The policies of a user: managed ones with its rights to buckets, `namespace.name.buckets-1` and so on
//! below the path /kubernetes/namespace/, and an inline one with the document of its specification.
//!
//! A policy that the store does not take takes the one before it away, too: less than is wanted may be in
//! force then, and never more. A document that denies something is neither replaced nor deleted while rights
//! of before are in force, which it may bound.

use super::grants::Grants;
use crate::api::{AccessCondition, AccessReason, BucketUser};
use crate::buckets::cluster::UsableCluster;
use crate::buckets::document::{self, PolicyDocument};
use crate::buckets::report::Verdict;
use crate::buckets::validate::ValidUser;
use crate::calls::iam::{self, ManagedPolicy};
use crate::calls::{CallError, Refusal};
use crate::limits;

/// The inline policy of the specification.
const DOCUMENT: &str = "policy";

/// The policy of rights with a number.
fn rights_policy(user: &BucketUser, number: usize) -> ManagedPolicy {
    ManagedPolicy { name: format!("{}.buckets-{number}", user.user_name()), path: user.user_path() }
}

/// The failures of some changes.
#[derive(Debug, Default)]
struct Failures {
    refused: Option<Refusal>,
    failed: Option<CallError>,
}

impl Failures {
    /// Notes a failure; returns whether the store refused, and not only now.
    fn note(&mut self, changed: Result<(), CallError>) -> bool {
        match changed {
            Ok(()) => false,
            Err(CallError::Refused(refusal)) if !refusal.is_transient() => {
                self.refused = Some(refusal);
                true
            }
            Err(error) => {
                self.failed.get_or_insert(error);
                false
            }
        }
    }
}

/// Sets the policies where they differ. A document that goes beyond the
/// user's buckets is not sent, and one of before is taken away: the buckets may have become fewer. While a
/// document is not in force that may deny something, the rights that it would bound are not, either.
pub(super) async fn ensure(
    valid: &ValidUser<'_>,
    usable: &UsableCluster,
    grants: &Grants,
) -> Result<Verdict, CallError> {
    let (calls, name) = (&usable.calls, valid.user.user_name());
    let document = match &valid.policy {
        Some(policy) if !usable.any_bucket => bounded(policy, grants).map(Some),
        policy => Ok(policy.clone()),
    };
    let found = iam::policy(calls, &name, DOCUMENT).await?.map(PolicyDocument::of_text);
    let mut rights = document::of_rights(&grants.rights);
    let mut failures = Failures::default();
    let is_put = match &document {
        Ok(Some(wanted)) if found.as_ref().is_some_and(|found| wanted.is(&found.text)) => true,
        Ok(Some(wanted)) => {
            if found.as_ref().is_some_and(PolicyDocument::may_deny) {
                end_former_rights(valid.user, usable, &rights).await?;
            }
            !failures.note(iam::put_policy(calls, &name, DOCUMENT, &wanted.text).await)
        }
        Ok(None) | Err(_) => false,
    };
    if let Some(error) = failures.failed {
        return Err(error);
    }
    let is_withheld = !is_put && valid.policy.as_ref().is_some_and(PolicyDocument::may_deny);
    if is_withheld {
        rights.clear();
    }
    ensure_rights(valid.user, usable, &rights, &mut failures).await?;
    if !is_put && found.is_some() && failures.failed.is_none() {
        failures.note(iam::delete_policy(calls, &name, DOCUMENT).await);
    }
    if let Some(error) = failures.failed {
        return Err(error);
    }
    let condition = AccessCondition::PolicyApplied;
    let withheld = if is_withheld { "; it may deny something, so no right is in force" } else { "" };
    Ok(match (document, failures.refused) {
        (Err(why), _) => {
            let message = format!("spec.policy: {why}{withheld}");
            Verdict::bad(condition, AccessReason::PolicyOutOfBounds, message)
        }
        (Ok(_), Some(Refusal { code, message, .. })) => {
            let malformed = ["MalformedPolicyDocument", "MalformedPolicy"].contains(&code.as_str());
            let reason = match code.as_str() {
                _ if malformed => AccessReason::MalformedPolicy,
                iam::ENTITY_EXISTS => AccessReason::NameTaken,
                _ => AccessReason::PolicyRefused,
            };
            Verdict::bad(condition, reason, format!("{code}: {message}{withheld}"))
        }
        (Ok(_), None) => Verdict::good(condition, AccessReason::AsAsked, "the policies are in force"),
    })
}

/// A policy that grants nothing beyond the user's buckets, in the form in which that was judged.
fn bounded(policy: &PolicyDocument, grants: &Grants) -> Result<PolicyDocument, String> {
    let content = policy.content.as_ref().ok_or_else(|| "it is no JSON".to_owned())?;
    let content = document::bound(content, &grants.rights)?;
    Ok(PolicyDocument { text: content.to_string(), content: Some(content) })
}

/// Takes the rights away that are not as they are wanted, and leaves the others.
async fn end_former_rights(
    user: &BucketUser,
    usable: &UsableCluster,
    wanted: &[PolicyDocument],
) -> Result<(), CallError> {
    let (calls, name) = (&usable.calls, user.user_name());
    let attached = iam::attached_policies(calls, &name).await?;
    for number in 1..=limits::RIGHTS_POLICIES_MAX {
        let policy = rights_policy(user, number);
        if !attached.contains(&policy.arn()) {
            continue;
        }
        let found = policy.text(calls).await?;
        let stays = wanted.get(number - 1).zip(found).is_some_and(|(wanted, found)| wanted.is(&found));
        if !stays {
            policy.remove(calls, &name).await?;
        }
    }
    Ok(())
}

/// Sets the policies of rights. A right moves to an earlier one where they become fewer, and to a later one
/// where they become more: the one that gets it is written first, so that it is never missing.
async fn ensure_rights(
    user: &BucketUser,
    usable: &UsableCluster,
    wanted: &[PolicyDocument],
    failures: &mut Failures,
) -> Result<(), CallError> {
    let (calls, name) = (&usable.calls, user.user_name());
    let attached = iam::attached_policies(calls, &name).await?;
    let is_attached = |policy: &ManagedPolicy| attached.contains(&policy.arn());
    let mut numbers: Vec<usize> = (1..=wanted.len().max(limits::RIGHTS_POLICIES_MAX)).collect();
    if numbers.iter().filter(|number| is_attached(&rights_policy(user, **number))).count() < wanted.len() {
        numbers.reverse();
    }
    for number in numbers {
        let policy = rights_policy(user, number);
        let changed = match wanted.get(number - 1) {
            Some(wanted) => {
                let says = |found: &str| wanted.is(found);
                policy.put(calls, &name, &wanted.text, says, is_attached(&policy)).await
            }
            None if is_attached(&policy) => policy.remove(calls, &name).await,
            None => Ok(()),
        };
        if failures.note(changed)
            && let Err(error) = policy.remove(calls, &name).await
        {
            // Also where it is refused for good: the policy of before is in force.
            failures.failed.get_or_insert(error);
        }
    }
    Ok(())
}

/// Deletes the policies of rights, attached or left over.
pub(super) async fn remove(user: &BucketUser, usable: &UsableCluster) -> Result<(), CallError> {
    for number in 1..=limits::RIGHTS_POLICIES_MAX {
        rights_policy(user, number).remove(&usable.calls, &user.user_name()).await?;
    }
    Ok(())
}
