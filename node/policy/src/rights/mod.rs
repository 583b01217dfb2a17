//! The rights of one identity in one bucket, compiled once: statements that can never match are left out,
//! the identity's own values are filled in, and an action that no condition can touch has its verdict in a
//! table.
//!
//! ```text
//! any Deny matches                          -> DeniedExplicitly
//! else the root, or any Allow matches       -> Allowed
//! else                                      -> DeniedImplicitly
//! ```

mod explain;
#[cfg(test)]
mod tests;

pub use explain::{ExplainedRights, Explanation, FailedCondition, JudgedStatement};

use std::sync::Arc;

use super::action::{ActionSet, index_of};
use super::action_test::ActionTest;
use super::caller::Caller;
use super::condition::{Condition, FoldedCondition};
use super::facts::Facts;
use super::identity::Identity;
use super::key::{ConditionKey, KeyName};
use super::pattern::Context;
use super::policy::Policy;
use super::resource::{BucketResources, Resource};
use super::statement::{Effect, Statement};

/// A bucket's own rules of access.
#[derive(Debug, Clone, Default)]
pub struct BucketRules {
    /// The bucket.
    pub name: String,
    /// The bucket's policy.
    pub policy: Option<Arc<Policy>>,
    /// Whether a public policy grants nothing to callers without a signature (`RestrictPublicBuckets` of the
    /// bucket or of the account).
    pub restrict_public_buckets: bool,
}

impl BucketRules {
    /// The statements of its policy that are about a caller, each with its number from 0.
    fn statements_about(&self, caller: Caller<'_>) -> impl Iterator<Item = (usize, &Arc<Statement>)> {
        let policy = self.policy.as_deref();
        // The account's own users are not the public: only callers without a signature lose what it grants.
        let is_restricted = caller == Caller::Anonymous
            && self.restrict_public_buckets
            && policy.is_some_and(Policy::is_public);
        let statements = policy.map(Policy::statements).unwrap_or_default().iter().enumerate();
        statements
            .filter(move |(_, statement)| statement.is_about(caller))
            .filter(move |(_, statement)| !is_restricted || statement.effect == Effect::Deny)
    }
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A statement allows it and no statement denies it.
    Allowed,
    /// A statement denies it.
    DeniedExplicitly,
    /// No statement allows it.
    DeniedImplicitly,
}

/// The rights of an identity in one bucket, or, without one, all that its own policies grant.
///
/// Rights keep no policy in memory but the statements that they need.
#[derive(Debug)]
pub struct Rights {
    /// Without policies.
    identity: Arc<Identity>,
    scope: Scope,
    /// The statements of each boundary: what one does not allow is denied.
    boundaries: Vec<Vec<Arc<Statement>>>,
}

#[derive(Debug)]
enum Scope {
    Bucket(BucketRights),
    /// Every statement of the identity.
    Everything(Vec<Arc<Statement>>),
}

#[derive(Debug)]
struct BucketRights {
    bucket: String,
    /// Statements that deny stand first.
    statements: Vec<BoundStatement>,
    /// The verdicts for the bucket that all requests have.
    of_bucket: SettledVerdicts,
    /// The verdicts that all requests for any object have.
    of_objects: SettledVerdicts,
}

/// The actions with a verdict that neither a condition nor a variable nor a key can change.
#[derive(Debug, Clone, Copy, Default)]
struct SettledVerdicts {
    denied: ActionSet,
    allowed: ActionSet,
    unmentioned: ActionSet,
}

/// A statement for one identity and one bucket.
#[derive(Debug)]
struct BoundStatement {
    effect: Effect,
    /// Whether the statement stands in a policy of the identity, and not in that of the bucket.
    is_own: bool,
    actions: ActionSet,
    resources: BucketResources,
    conditions: Vec<Condition>,
    /// The same actions, for those that are in no table.
    named_actions: Arc<ActionTest>,
}

/// The root may always see and replace a bucket's policy, or it could lock itself out.
pub(crate) const OF_ROOT: [&str; 3] = ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"];

impl Rights {
    /// Compiles the rights of an identity in a bucket; without a bucket, for actions that are about none that
    /// exists.
    pub fn new(identity: &Arc<Identity>, bucket: Option<&BucketRules>) -> Self {
        let own = match &**identity {
            Identity::User(user) => &*user.policies,
            Identity::Root | Identity::Anonymous => &[],
        };
        let own = own.iter().flat_map(|policy| policy.statements());
        let scope = match bucket {
            None => Scope::Everything(own.cloned().collect()),
            Some(rules) => Scope::Bucket(BucketRights::new(identity.caller(), rules, own)),
        };
        Self { identity: Arc::new(identity.bare()), scope, boundaries: vec![] }
    }

    /// The same rights within a boundary, the policies of a session or of a user's boundary together: what
    /// they do not allow is denied, and what they deny. Boundaries add up: each has to allow a request. AWS,
    /// "Policy evaluation logic".
    #[must_use]
    pub fn within(mut self, boundary: &[Arc<Policy>]) -> Self {
        self.boundaries.push(boundary.iter().flat_map(|policy| policy.statements()).cloned().collect());
        self
    }

    /// The same rights for requests for these actions that differ in these keys alone: conditions on others,
    /// that all of the actions have or none, are settled by the facts of one of them.
    #[must_use]
    pub fn settled(&self, facts: &dyn Facts, actions: &[&'static str], differing: &[KeyName]) -> Self {
        let action = actions.first().copied().unwrap_or_default();
        let context = Context { caller: self.identity.caller(), action, facts };
        let is_alike = |name: KeyName| {
            !differing.contains(&name) && actions.iter().all(|other| name.is_of(other) == name.is_of(action))
        };
        let scope = match &self.scope {
            Scope::Everything(statements) => Scope::Everything(statements.clone()),
            Scope::Bucket(rights) => {
                let settled = |statement: &BoundStatement| statement.settled(context, is_alike);
                let statements = rights.statements.iter().filter_map(settled).collect();
                let is_root = context.caller == Caller::Root;
                Scope::Bucket(BucketRights::of(rights.bucket.clone(), statements, is_root))
            }
        };
        Self { identity: Arc::clone(&self.identity), scope, boundaries: self.boundaries.clone() }
    }

    /// Bytes that they take in memory, about. Statements count in full, also where a policy that is kept
    /// elsewhere shares them.
    pub fn bytes(&self) -> usize {
        let whole = |statements: &[Arc<Statement>]| {
            size_of_val(statements) + statements.iter().map(|statement| statement.bytes()).sum::<usize>()
        };
        let scope = match &self.scope {
            Scope::Everything(statements) => whole(statements),
            Scope::Bucket(rights) => {
                rights.bucket.len() + rights.statements.iter().map(BoundStatement::bytes).sum::<usize>()
            }
        };
        let boundaries: usize =
            self.boundaries.iter().map(|boundary| size_of_val(boundary) + whole(boundary)).sum();
        size_of::<Self>() + size_of::<Identity>() + self.identity.heap_bytes() + scope + boundaries
    }

    /// Decides a request. An action is named as AWS does (`s3:GetObject`); a resource of another bucket than
    /// the rights are of is denied.
    pub fn decide(&self, action: &str, resource: Resource<'_>, facts: &dyn Facts) -> Verdict {
        let context = Context { caller: self.identity.caller(), action, facts };
        let is_root = context.caller == Caller::Root;
        let own = match &self.scope {
            Scope::Everything(statements) => verdict_of(statements, is_root, resource, context),
            Scope::Bucket(_) if is_root && OF_ROOT.contains(&action) => Verdict::Allowed,
            Scope::Bucket(rights) => rights.decide(resource, context),
        };
        let bound = || self.boundaries.iter().map(|boundary| verdict_of(boundary, false, resource, context));
        match own {
            Verdict::Allowed => {
                bound().find(|verdict| *verdict != Verdict::Allowed).unwrap_or(Verdict::Allowed)
            }
            Verdict::DeniedExplicitly | Verdict::DeniedImplicitly => own,
        }
    }

    /// Whether a policy of the identity, or a boundary, denies a request explicitly. Of an explicit denial
    /// the bucket's policy is the reason otherwise.
    pub fn is_denied_by_identity(&self, action: &str, resource: Resource<'_>, facts: &dyn Facts) -> bool {
        let context = Context { caller: self.identity.caller(), action, facts };
        let denies = |statements: &[Arc<Statement>]| {
            verdict_of(statements, false, resource, context) == Verdict::DeniedExplicitly
        };
        let is_by_own = match &self.scope {
            Scope::Everything(statements) => denies(statements),
            Scope::Bucket(rights) => rights
                .matching(resource, context)
                .any(|statement| statement.is_own && statement.effect == Effect::Deny),
        };
        is_by_own || self.boundaries.iter().any(|boundary| denies(boundary))
    }

    /// Whether some request for an action on an object may be allowed. Where it says no, every request is
    /// denied.
    pub fn may_allow(&self, action: &'static str) -> bool {
        let allows = |statement: &Arc<Statement>| {
            statement.effect == Effect::Allow && statement.actions.matches(action)
        };
        let is_bound = |boundary: &Vec<Arc<Statement>>| !boundary.iter().any(allows);
        if self.boundaries.iter().any(is_bound) {
            return false;
        }
        match &self.scope {
            Scope::Everything(statements) => {
                self.identity.caller() == Caller::Root || statements.iter().any(allows)
            }
            Scope::Bucket(rights) => {
                let index = index_of(action);
                let settled = index.and_then(|index| rights.of_objects.get(index));
                let may_allow = |statement: &BoundStatement| {
                    statement.effect == Effect::Allow
                        && statement.is_of_action(action, index)
                        && statement.resources.matches_all_objects() != Some(false)
                };
                settled.map_or_else(
                    || self.identity.caller() == Caller::Root || rights.statements.iter().any(may_allow),
                    |verdict| verdict == Verdict::Allowed,
                )
            }
        }
    }

    /// Whether the verdict of an action may depend on a condition key. A value that is dear to find out, such
    /// as the tags of an object before it is read, is not needed otherwise.
    pub fn asks(&self, action: &'static str, name: KeyName) -> bool {
        let is_asked = |key: &ConditionKey| key.name == name && name.is_of(action);
        let asks = |statements: &[Arc<Statement>]| {
            statements.iter().filter(|statement| statement.actions.matches(action)).any(|statement| {
                let conditions = statement.conditions.iter().flat_map(Condition::keys);
                conditions.chain(statement.resources.keys()).any(is_asked)
            })
        };
        if self.boundaries.iter().any(|boundary| asks(boundary)) {
            return true;
        }
        match &self.scope {
            Scope::Everything(statements) => asks(statements),
            Scope::Bucket(rights) => rights
                .statements
                .iter()
                .filter(|statement| statement.is_of_action(action, index_of(action)))
                .any(|statement| {
                    let conditions = statement.conditions.iter().flat_map(Condition::keys);
                    conditions.chain(statement.resources.keys()).any(is_asked)
                }),
        }
    }
}

/// The verdict of those statements that match.
fn verdict_of(
    statements: &[Arc<Statement>],
    is_root: bool,
    resource: Resource<'_>,
    context: Context<'_>,
) -> Verdict {
    let matching = |statement: &&Arc<Statement>| statement.matches(context.action, resource, context);
    let mut is_allowed = is_root;
    for statement in statements.iter().filter(matching) {
        match statement.effect {
            Effect::Deny => return Verdict::DeniedExplicitly,
            Effect::Allow => is_allowed = true,
        }
    }
    if is_allowed { Verdict::Allowed } else { Verdict::DeniedImplicitly }
}

impl BucketRights {
    fn new<'a>(
        caller: Caller<'_>,
        rules: &'a BucketRules,
        own: impl Iterator<Item = &'a Arc<Statement>>,
    ) -> Self {
        let shared = rules.statements_about(caller).map(|(_, statement)| (statement, false));
        let mut statements: Vec<_> = own
            .map(|statement| (statement, true))
            .chain(shared)
            .filter_map(|(statement, is_own)| BoundStatement::new(statement, is_own, &rules.name, caller))
            .collect();
        // First the statements that deny. Then those that allow, beginning with the ones that are quick to
        // judge and match much: one of them is enough.
        statements.sort_by_key(|statement| {
            let is_whole = statement.resources.matches_all_objects() == Some(true);
            (statement.effect, !is_whole, statement.conditions.len())
        });
        Self::of(rules.name.clone(), statements, caller == Caller::Root)
    }

    /// Of statements in order.
    fn of(bucket: String, statements: Vec<BoundStatement>, is_root: bool) -> Self {
        let of_bucket = SettledVerdicts::new(&statements, is_root, BucketResources::matches_bucket);
        let of_objects = SettledVerdicts::new(&statements, is_root, BucketResources::matches_all_objects);
        Self { bucket, statements, of_bucket, of_objects }
    }

    fn decide(&self, resource: Resource<'_>, context: Context<'_>) -> Verdict {
        let index = index_of(context.action);
        let (bucket, settled) = match resource {
            Resource::Bucket(bucket) => (bucket, &self.of_bucket),
            Resource::Object(bucket, _) => (bucket, &self.of_objects),
            Resource::Service | Resource::Iam(_) => return Verdict::DeniedImplicitly,
        };
        if bucket != self.bucket {
            return Verdict::DeniedImplicitly;
        }
        if let Some(verdict) = index.and_then(|index| settled.get(index)) {
            return verdict;
        }
        // Statements that deny stand first, so the first that matches has the verdict.
        match self.matching(resource, context).next().map(|statement| statement.effect) {
            Some(Effect::Deny) => Verdict::DeniedExplicitly,
            Some(Effect::Allow) => Verdict::Allowed,
            None if context.caller == Caller::Root => Verdict::Allowed,
            None => Verdict::DeniedImplicitly,
        }
    }

    /// The statements that match a request for the bucket or one of its objects.
    fn matching(
        &self,
        resource: Resource<'_>,
        context: Context<'_>,
    ) -> impl Iterator<Item = &BoundStatement> {
        let index = index_of(context.action);
        self.statements.iter().filter(move |statement| {
            statement.is_of_action(context.action, index)
                && statement.resources.matches(resource, context)
                && statement.conditions.iter().all(|condition| condition.holds(context))
        })
    }
}

impl BoundStatement {
    /// Binds a statement to a bucket and a caller; none if it can match no request.
    fn new(whole: &Arc<Statement>, is_own: bool, bucket: &str, caller: Caller<'_>) -> Option<Self> {
        let resources = whole.resources.for_bucket(bucket, caller);
        if resources.matches_bucket() == Some(false) && resources.matches_all_objects() == Some(false) {
            return None;
        }
        let mut conditions = Vec::new();
        for condition in &whole.conditions {
            match condition.for_caller(caller) {
                FoldedCondition::Settled(true) => {}
                FoldedCondition::Settled(false) => return None,
                FoldedCondition::Open(condition) => conditions.push(condition),
            }
        }
        let (effect, actions) = (whole.effect, whole.actions.of_s3);
        let named_actions = Arc::clone(&whole.actions);
        Some(Self { effect, is_own, actions, resources, conditions, named_actions })
    }

    /// As [`Rights::settled`]. None if it then matches nothing.
    fn settled(&self, context: Context<'_>, is_alike: impl Fn(KeyName) -> bool) -> Option<Self> {
        let Self { effect, is_own, actions, resources, conditions, named_actions } = self;
        let differs = |condition: &&Condition| !condition.keys().all(|key| is_alike(key.name));
        let (open, alike): (Vec<_>, Vec<_>) = conditions.iter().partition(differs);
        alike.into_iter().all(|condition| condition.holds(context)).then(|| Self {
            effect: *effect,
            is_own: *is_own,
            actions: *actions,
            resources: resources.clone(),
            conditions: open.into_iter().cloned().collect(),
            named_actions: Arc::clone(named_actions),
        })
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.resources.heap_bytes()
            + self.conditions.iter().map(Condition::bytes).sum::<usize>()
            + self.named_actions.bytes()
    }

    fn is_of_action(&self, action: &str, index: Option<usize>) -> bool {
        match index {
            Some(index) => self.actions.has(index),
            None => self.named_actions.matches(action),
        }
    }
}

impl SettledVerdicts {
    fn new(
        statements: &[BoundStatement],
        is_root: bool,
        matches: impl Fn(&BucketResources) -> Option<bool>,
    ) -> Self {
        let (mut denied, mut allowed) = (ActionSet::default(), ActionSet::default());
        let (mut may_deny, mut may_allow) = (ActionSet::default(), ActionSet::default());
        for statement in statements {
            let is_certain = match matches(&statement.resources) {
                Some(false) => continue,
                Some(true) => statement.conditions.is_empty(),
                None => false,
            };
            let set = match (statement.effect, is_certain) {
                (Effect::Deny, true) => &mut denied,
                (Effect::Deny, false) => &mut may_deny,
                (Effect::Allow, true) => &mut allowed,
                (Effect::Allow, false) => &mut may_allow,
            };
            *set = set.or(statement.actions);
        }
        if is_root {
            allowed = ActionSet::all();
        }
        let unmentioned = ActionSet::all().without(denied.or(may_deny).or(allowed).or(may_allow));
        Self { denied, allowed: allowed.without(denied.or(may_deny)), unmentioned }
    }

    fn get(&self, index: usize) -> Option<Verdict> {
        if self.allowed.has(index) {
            Some(Verdict::Allowed)
        } else if self.denied.has(index) {
            Some(Verdict::DeniedExplicitly)
        } else if self.unmentioned.has(index) {
            Some(Verdict::DeniedImplicitly)
        } else {
            None
        }
    }
}
