//! One statement of a policy: its elements, read and checked, and whether it is about a request.

use std::collections::HashSet;
use std::sync::Arc;

use super::action::{ActionSet, ActionTarget};
use super::action_test::ActionTest;
use super::arn::ArnPattern;
use super::bytes::SHARED_BYTES;
use super::caller::Caller;
use super::condition::Condition;
use super::form::PolicyForm;
use super::json::Json;
use super::key::ConditionKey;
use super::malformed::Fault;
use super::pattern::{Context, Pattern};
use super::principal::PrincipalTest;
use super::resource::{Resource, ResourceTest};

/// The effect of a statement that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Refuses, even where other statements allow.
    Deny,
    /// Allows what nothing denies.
    Allow,
}

/// A statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) effect: Effect,
    /// The test of principals; none in a policy of an identity, which is about the identity that has it.
    pub(crate) principals: Option<PrincipalTest>,
    pub(crate) actions: Arc<ActionTest>,
    pub(crate) resources: ResourceTest,
    pub(crate) conditions: Box<[Condition]>,
    /// Whether a text of `Action` is about no action that has the key of a condition, in a bucket's policy.
    pub(crate) has_idle_condition: bool,
}

const ELEMENTS: [&str; 9] = [
    "Sid",
    "Effect",
    "Principal",
    "NotPrincipal",
    "Action",
    "NotAction",
    "Resource",
    "NotResource",
    "Condition",
];

impl Statement {
    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let Self { effect: _, principals, actions, resources, conditions, has_idle_condition: _ } = self;
        size_of::<Self>()
            + principals.as_ref().map_or(0, PrincipalTest::heap_bytes)
            + SHARED_BYTES
            + actions.bytes()
            + resources.heap_bytes()
            + conditions.iter().map(Condition::bytes).sum::<usize>()
    }

    /// Why a statement is refused in a new policy, and taken in one that is stored.
    pub(crate) fn fault_of_new(&self, form: PolicyForm<'_>) -> Option<Fault> {
        if self.has_idle_condition {
            return Some(Fault::ConditionOfNoAction);
        }
        self.unanswered_key(form).map(|key| Fault::UnansweredKey(key.text.to_string()))
    }

    /// A key that no request has, where the statement then allows more, or denies less, than it reads: a
    /// denial that never matches, a restriction of an Allow that always holds, a variable without a value.
    fn unanswered_key(&self, form: PolicyForm<'_>) -> Option<&ConditionKey> {
        let is_of_s3_alone = form.is_bucket() || self.actions.is_of_s3_alone();
        let is_unanswered = |key: &ConditionKey| {
            key.is_never_answered() || is_of_s3_alone && key.is_unanswered_at_s3(self.actions.of_s3)
        };
        let fails_open = |condition: &&Condition| {
            condition.holds_without_key() == (self.effect == Effect::Allow) && is_unanswered(&condition.key)
        };
        let condition = self.conditions.iter().find(fails_open).map(|condition| &condition.key);
        let mut variables = self
            .conditions
            .iter()
            .flat_map(|condition| condition.operands.keys())
            .chain(self.resources.keys());
        condition.or_else(|| variables.find(|key| is_unanswered(key)))
    }

    /// Whether the statement matches a request.
    pub(crate) fn matches(&self, action: &str, resource: Resource<'_>, context: Context<'_>) -> bool {
        self.actions.matches(action)
            && self.resources.matches(action, resource, context)
            && self.conditions.iter().all(|condition| condition.holds(context))
    }

    /// Whether the statement is about an identity.
    pub(crate) fn is_about(&self, caller: Caller<'_>) -> bool {
        match (&self.principals, self.effect) {
            (None, _) => true,
            (Some(principals), Effect::Allow) => principals.allows(caller),
            (Some(principals), Effect::Deny) => principals.denies(caller),
        }
    }

    pub(crate) fn parse(
        json: &Json,
        form: PolicyForm<'_>,
        variables: bool,
        sids: &mut HashSet<String>,
    ) -> Result<Self, Fault> {
        let Json::Object(members) = json else { return Err(Fault::Syntax) };
        if let Some((name, _)) = members.iter().find(|(name, _)| !ELEMENTS.contains(&name.as_str())) {
            return Err(Fault::UnknownField(name.clone()));
        }
        let get = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        let elements = Elements { get: &get, form };
        if let Some(sid) = get("Sid") {
            elements.check_sid(sid, sids)?;
        }
        let effect = match get("Effect").ok_or(Fault::MissingEffect)? {
            Json::Text(text) if text == "Allow" => Effect::Allow,
            Json::Text(text) if text == "Deny" => Effect::Deny,
            Json::Text(text) => return Err(Fault::Effect(text.clone())),
            _ => return Err(Fault::Syntax),
        };
        let principals = elements.principals(effect)?;
        let (actions, matched) = elements.actions()?;
        let resources = elements.resources(effect, variables)?;
        let applicable = elements.applicable(&resources);
        // `NotAction` fits by what it leaves out, and a policy of an identity is not asked.
        let is_asked = form.is_bucket() && !actions.is_negated();
        let fits = |set: ActionSet| !is_asked || matched.iter().all(|text| text.has_any(set));
        if !fits(applicable) {
            return Err(Fault::ActionOfNoResource);
        }
        let conditions = match get("Condition") {
            Some(json) => Condition::parse_all(json, variables)?,
            None => vec![],
        };
        elements.check_conditions(&conditions)?;
        let is_idle = |condition: &Condition| !fits(condition.key.actions_in_bucket_policy().and(applicable));
        let has_idle_condition = conditions.iter().any(is_idle);
        let (actions, conditions) = (Arc::new(actions), conditions.into());
        Ok(Self { effect, principals, actions, resources, conditions, has_idle_condition })
    }
}

/// The elements of a statement, and the form that they have to have.
struct Elements<'a> {
    get: &'a dyn Fn(&str) -> Option<&'a Json>,
    form: PolicyForm<'a>,
}

impl<'a> Elements<'a> {
    fn check_sid(&self, sid: &Json, sids: &mut HashSet<String>) -> Result<(), Fault> {
        let sid = sid.as_text().ok_or(Fault::Syntax)?;
        if !self.form.is_bucket() && !sid.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Fault::SidForm);
        }
        if !sid.is_empty() && !sids.insert(sid.to_owned()) {
            return Err(Fault::SidTwice);
        }
        Ok(())
    }

    /// An element or its `Not` form; an error if both are there.
    fn either(&self, plain: &str, negated: &str) -> Result<Option<(&'a Json, bool)>, Fault> {
        match ((self.get)(plain), (self.get)(negated)) {
            (Some(_), Some(_)) => Err(Fault::Syntax),
            (Some(json), None) => Ok(Some((json, false))),
            (None, Some(json)) => Ok(Some((json, true))),
            (None, None) => Ok(None),
        }
    }

    fn principals(&self, effect: Effect) -> Result<Option<PrincipalTest>, Fault> {
        match (self.either("Principal", "NotPrincipal")?, self.form.is_bucket()) {
            (None, false) => Ok(None),
            (None, true) => Err(Fault::MissingPrincipal),
            (Some(_), false) => Err(Fault::PrincipalOfIdentity),
            (Some((_, true)), true) if effect == Effect::Allow => Err(Fault::AllowNotPrincipal),
            (Some((json, is_negated)), true) => PrincipalTest::parse(json, is_negated).map(Some),
        }
    }

    /// The actions, and those of S3 that each text matches.
    fn actions(&self) -> Result<(ActionTest, Vec<ActionSet>), Fault> {
        let (json, is_negated) = self.either("Action", "NotAction")?.ok_or(Fault::MissingAction)?;
        let texts = json.texts().ok_or(Fault::Syntax)?;
        if texts.is_empty() {
            return Err(Fault::MissingAction);
        }
        texts.iter().try_for_each(|text| check_action(text))?;
        let (test, matched) = ActionTest::parse(&texts, is_negated);
        if self.form.is_bucket() && matched.iter().any(ActionSet::is_empty) {
            return Err(Fault::Action);
        }
        Ok((test, matched))
    }

    fn resources(&self, effect: Effect, variables: bool) -> Result<ResourceTest, Fault> {
        let (json, is_negated) = self.either("Resource", "NotResource")?.ok_or(Fault::MissingResource)?;
        let texts = json.texts().ok_or(Fault::Syntax)?;
        if texts.is_empty() {
            return Err(Fault::MissingResource);
        }
        let mut patterns = Vec::with_capacity(texts.len());
        for text in texts {
            match self.form {
                PolicyForm::Bucket { name } => check_bucket_resource(text, name)?,
                PolicyForm::Identity | PolicyForm::Managed => check_identity_resource(text)?,
            }
            patterns.push(ArnPattern::parse(text, variables));
        }
        Ok(ResourceTest { is_negated, patterns, when_unknown: effect == Effect::Deny })
    }

    /// The actions that are about one of the resources, in a bucket's policy: each text of `Action` needs
    /// one. `NotResource` leaves some of each kind.
    fn applicable(&self, resources: &ResourceTest) -> ActionSet {
        let PolicyForm::Bucket { name } = self.form else { return ActionSet::all() };
        if resources.is_negated {
            return ActionSet::all();
        }
        let tails: Vec<_> = resources.patterns.iter().filter_map(ArnPattern::of_s3).collect();
        let prefixes = || tails.iter().map(Pattern::prefix);
        let has_bucket =
            prefixes().any(|(prefix, is_whole)| prefix == name || !is_whole && name.starts_with(prefix));
        let has_object = prefixes()
            .any(|(prefix, is_whole)| prefix.len() > name.len() || !is_whole && name.starts_with(prefix));
        ActionSet::about(|target| match target {
            ActionTarget::Bucket => has_bucket,
            ActionTarget::Object => has_object,
            ActionTarget::Account | ActionTarget::Other => false,
        })
    }

    fn check_conditions(&self, conditions: &[Condition]) -> Result<(), Fault> {
        let is_good = |condition: &Condition| match self.form {
            PolicyForm::Bucket { .. } => condition.key.is_of_s3(),
            PolicyForm::Identity | PolicyForm::Managed => condition.key.text.contains(':'),
        };
        if conditions.iter().all(is_good) { Ok(()) } else { Err(Fault::ConditionKey) }
    }
}

fn check_action(text: &str) -> Result<(), Fault> {
    if text == "*" {
        return Ok(());
    }
    let (vendor, name) = text.split_once(':').ok_or(Fault::ActionWithoutVendor)?;
    let is_vendor = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if vendor.is_empty() || !vendor.bytes().all(is_vendor) {
        return Err(Fault::ActionVendor(vendor.to_owned()));
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"*?-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(Fault::Action);
    }
    Ok(())
}

/// A bucket's policy names the bucket and what is in it.
fn check_bucket_resource(text: &str, bucket: &str) -> Result<(), Fault> {
    let rest = text.strip_prefix("arn:aws:s3:::").and_then(|tail| tail.strip_prefix(bucket));
    match rest {
        Some(rest) if rest.is_empty() || rest.starts_with(['/', '*']) => Ok(()),
        _ => Err(Fault::Resource),
    }
}

fn check_identity_resource(text: &str) -> Result<(), Fault> {
    if text == "*" {
        return Ok(());
    }
    let Some(rest) = text.strip_prefix("arn:") else { return Err(Fault::ResourceForm(text.to_owned())) };
    let partition = rest.split(':').next().unwrap_or_default();
    if !partition.starts_with("aws") && !partition.contains(['*', '?', '$']) {
        let (partition, resource) = (partition.to_owned(), text.to_owned());
        return Err(Fault::ResourcePartition { partition, resource });
    }
    Ok(())
}
