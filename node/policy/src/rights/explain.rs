//! Decisions with their reasons: the verdict of [`Rights`], and the statements that bear on it.
//!
//! Called by simulations and for people. The verdict is that of the compiled rights, which requests are
//! decided by; the statements are judged one by one by the functions that those use.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{BucketRules, OF_ROOT, Rights, Verdict};
use crate::caller::Caller;
use crate::condition::Condition;
use crate::facts::{Facts, Values};
use crate::identity::Identity;
use crate::key::ConditionKey;
use crate::limits::SHOWN_BYTES_MAX;
use crate::pattern::Context;
use crate::resource::Resource;
use crate::statement::{Effect, Statement};

/// Rights, with the policies that they were compiled from.
#[derive(Debug)]
pub struct ExplainedRights {
    identity: Arc<Identity>,
    bucket: Option<BucketRules>,
    rights: Rights,
}

/// A decision and its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// The statements that name the action and the resource: the identity's in the order of its policies,
    /// then the bucket's.
    pub statements: Vec<JudgedStatement>,
    /// The keys that statements on the action ask for and that the request lacks.
    pub absent_keys: BTreeSet<String>,
}

/// A statement that names the action and the resource of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedStatement {
    /// The place of its policy among those of the identity; `None` for the bucket's policy.
    pub policy: Option<usize>,
    /// The statement's place in the policy, from 0.
    pub number: usize,
    /// The statement's effect.
    pub effect: Effect,
    /// The conditions that do not hold. Without any the statement matches.
    pub failed: Vec<FailedCondition>,
}

/// A condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCondition {
    /// The condition's key, as AWS writes it.
    pub key: String,
    /// The values that the request has, cut at [`SHOWN_BYTES_MAX`] bytes together; `None` where it lacks the
    /// key.
    pub values: Option<Vec<String>>,
}

impl ExplainedRights {
    /// As [`Rights::new`].
    pub fn new(identity: Arc<Identity>, bucket: Option<BucketRules>) -> Self {
        let rights = Rights::new(&identity, bucket.as_ref());
        Self { identity, bucket, rights }
    }

    /// As [`Rights::decide`], with the reasons.
    pub fn explain(&self, action: &str, resource: Resource<'_>, facts: &dyn Facts) -> Explanation {
        let caller = self.identity.caller();
        let context = Context { caller, action, facts };
        let verdict = self.rights.decide(action, resource, facts);
        let mut explanation = Explanation { verdict, statements: vec![], absent_keys: BTreeSet::new() };
        let is_unbound = caller == Caller::Root && self.bucket.is_some() && OF_ROOT.contains(&action);
        if is_unbound || !self.is_of_bucket(resource) {
            return explanation;
        }
        let policies = match &*self.identity {
            Identity::User(user) => &*user.policies,
            Identity::Root | Identity::Anonymous => &[],
        };
        let own = policies.iter().enumerate().flat_map(|(policy, parsed)| {
            parsed.statements().iter().enumerate().map(move |(number, found)| (Some(policy), number, found))
        });
        let shared = self.bucket.iter().flat_map(|rules| rules.statements_about(caller));
        let shared = shared.map(|(number, found)| (None, number, found));
        for (policy, number, statement) in own.chain(shared) {
            if !statement.actions.matches(action) {
                continue;
            }
            explanation.add_absent(statement.resources.keys(), context);
            if !statement.resources.matches(action, resource, context) {
                continue;
            }
            explanation.add_absent(statement.conditions.iter().flat_map(Condition::keys), context);
            let failed = failed_conditions(statement, context);
            explanation.statements.push(JudgedStatement { policy, number, effect: statement.effect, failed });
        }
        explanation
    }

    /// Whether a resource is one that the rights decide about.
    fn is_of_bucket(&self, resource: Resource<'_>) -> bool {
        self.bucket.as_ref().is_none_or(|rules| match resource {
            Resource::Bucket(bucket) | Resource::Object(bucket, _) => bucket == rules.name,
            Resource::Service | Resource::Iam(_) => false,
        })
    }
}

fn failed_conditions(statement: &Statement, context: Context<'_>) -> Vec<FailedCondition> {
    let failed = statement.conditions.iter().filter(|condition| !condition.holds(context));
    failed
        .map(|condition| FailedCondition {
            key: condition.key.shown(),
            values: match context.values(&condition.key) {
                Values::Absent => None,
                Values::One(value) => Some(shown([value])),
                Values::Many(values) => Some(shown(values)),
            },
        })
        .collect()
}

/// Values as far as a reason names them: many statements may fail by the same long value.
fn shown<'a>(values: impl IntoIterator<Item = Cow<'a, str>>) -> Vec<String> {
    let (mut shown, mut room) = (Vec::new(), SHOWN_BYTES_MAX);
    for value in values {
        let (begin, rest) = value.split_at(value.floor_char_boundary(room));
        if !rest.is_empty() {
            shown.push(format!("{begin}..."));
            break;
        }
        room -= begin.len();
        shown.push(begin.to_owned());
    }
    shown
}

impl Explanation {
    /// The statements that decided: those that deny, or else those that allow. None did where nothing
    /// matches, and where the root is allowed.
    pub fn deciding(&self) -> impl Iterator<Item = &JudgedStatement> {
        let effect = if self.verdict == Verdict::DeniedExplicitly { Effect::Deny } else { Effect::Allow };
        self.statements.iter().filter(move |found| found.matches() && found.effect == effect)
    }

    fn add_absent<'a>(&mut self, keys: impl Iterator<Item = &'a ConditionKey>, context: Context<'_>) {
        let absent = keys.filter(|key| context.values(key) == Values::Absent);
        self.absent_keys.extend(absent.map(ConditionKey::shown));
    }
}

impl JudgedStatement {
    /// Whether the statement matches.
    pub fn matches(&self) -> bool {
        self.failed.is_empty()
    }
}
