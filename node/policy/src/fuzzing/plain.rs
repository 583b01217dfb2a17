//! The plain interpretation of all statements: nothing compiled, nothing left out.

use crate::caller::Caller;
use crate::facts::Facts;
use crate::identity::Identity;
use crate::pattern::Context;
use crate::resource::Resource;
use crate::rights::{BucketRules, OF_ROOT, Verdict};
use crate::statement::Effect;

/// The verdict of all statements, each judged by itself.
pub(crate) fn decide(
    identity: &Identity,
    rules: &BucketRules,
    action: &str,
    resource: Resource<'_>,
    facts: &dyn Facts,
) -> Verdict {
    let caller = identity.caller();
    let context = Context { caller, action, facts };
    if caller == Caller::Root && OF_ROOT.contains(&action) {
        return Verdict::Allowed;
    }
    let own = match identity {
        Identity::User(user) => &*user.policies,
        _ => &[],
    };
    let mut effects = Vec::new();
    for policy in own.iter().chain(&rules.policy) {
        for statement in policy.statements() {
            let is_public =
                caller == Caller::Anonymous && rules.restrict_public_buckets && policy.is_public();
            if statement.is_about(caller)
                && statement.actions.matches(action)
                && statement.resources.matches(action, resource, context)
                && statement.conditions.iter().all(|condition| condition.holds(context))
                && !(is_public && statement.effect == Effect::Allow)
            {
                effects.push(statement.effect);
            }
        }
    }
    if effects.contains(&Effect::Deny) {
        Verdict::DeniedExplicitly
    } else if caller == Caller::Root || effects.contains(&Effect::Allow) {
        Verdict::Allowed
    } else {
        Verdict::DeniedImplicitly
    }
}
