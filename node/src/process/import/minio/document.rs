//! Policies of MinIO as policies of an account here.
//!
//! MinIO's grammar is AWS's, with actions of its own, and judges some texts otherwise. A statement that
//! allows may be taken in part, as a part allows less; one that denies is taken whole, or its policy is not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sherd_policy::{ActionTarget, Policy, PolicyForm, s3_actions};

use super::glob;
use super::iam_export::Unknown;

const S3: &str = "s3:";
/// The vendors of MinIO's actions on itself.
const OWN_VENDORS: [&str; 3] = ["admin:", "kms:", "sts:"];
/// Keys and variables of identities that are not users of MinIO, and of its own kinds.
const FOREIGN_KEYS: [&str; 4] = ["jwt:", "ldap:", "sts:", "svc:"];

/// One text, or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    fn sorted(self) -> Vec<String> {
        let mut texts = match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        };
        texts.sort();
        texts.dedup();
        texts
    }
}

#[derive(Debug, Deserialize)]
struct MinioPolicy {
    #[serde(rename = "ID", default)]
    _id: Value,
    #[serde(rename = "Version", default)]
    _version: Value,
    #[serde(rename = "Statement")]
    statements: Vec<MinioStatement>,
    #[serde(flatten)]
    unknown: Unknown,
}

#[derive(Debug, Deserialize)]
struct MinioStatement {
    #[serde(rename = "Sid", default)]
    _sid: Value,
    #[serde(rename = "Effect")]
    effect: Effect,
    #[serde(rename = "Action")]
    actions: Option<Texts>,
    #[serde(rename = "NotAction")]
    not_actions: Option<Texts>,
    #[serde(rename = "Resource")]
    resources: Option<Texts>,
    #[serde(rename = "NotResource")]
    not_resources: Option<Texts>,
    #[serde(rename = "Condition", default)]
    conditions: Conditions,
    #[serde(flatten)]
    unknown: Unknown,
}

/// Values by operator and key.
pub(super) type Conditions = BTreeMap<String, BTreeMap<String, Value>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Effect {
    Allow,
    Deny,
}

/// A statement as it is written here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Statement {
    #[serde(rename = "Effect")]
    pub(super) effect: Effect,
    #[serde(rename = "Action", skip_serializing_if = "Vec::is_empty")]
    pub(super) actions: Vec<String>,
    #[serde(rename = "NotAction", skip_serializing_if = "Vec::is_empty")]
    pub(super) not_actions: Vec<String>,
    #[serde(rename = "Resource", skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<String>,
    #[serde(rename = "NotResource", skip_serializing_if = "Vec::is_empty")]
    pub(super) not_resources: Vec<String>,
    #[serde(rename = "Condition", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) conditions: Conditions,
}

/// A policy that could be taken, wholly or in part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) statements: Vec<Statement>,
    /// The parts that were left out, each with its reason. They all allowed.
    pub(super) left_out: Vec<String>,
}

/// A policy that is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: String,
    /// Whether it may deny: then a user that has it gets no key without it.
    pub(super) denies: bool,
}

/// Takes a statement of a bucket's policy, without its `Principal`.
pub(super) fn of_bucket(statement: Value, left_out: &mut Vec<String>) -> Result<Option<Statement>, String> {
    let read = serde_json::from_value(statement).map_err(|error| error.to_string())?;
    taken(read, left_out)
}

impl Document {
    /// Reads a policy of MinIO.
    pub(super) fn of(policy: &Value) -> Result<Self, Refusal> {
        let denies = policy.to_string().contains("\"Deny\"");
        let refused = |reason: String| Refusal { reason, denies };
        let read: MinioPolicy =
            serde_json::from_value(policy.clone()).map_err(|error| refused(error.to_string()))?;
        if let Some(name) = read.unknown.keys().next() {
            return Err(refused(format!("the element {name} is not known")));
        }
        let mut document = Self::default();
        for statement in read.statements {
            let effect = statement.effect;
            match taken(statement, &mut document.left_out) {
                Ok(statement) => document.statements.extend(statement),
                Err(reason) if effect == Effect::Allow => document.left_out.push(reason),
                Err(reason) => return Err(refused(reason)),
            }
        }
        document.left_out.dedup();
        if document.statements.is_empty() {
            let parts = document.left_out.join("; ");
            return Err(refused(format!("nothing is left of it: {parts}")));
        }
        document.check().map_err(refused)?;
        Ok(document)
    }

    /// Checks it as IAM does when it is given.
    pub(super) fn check(&self) -> Result<(), String> {
        let parsed = Policy::parse_new(self.text().as_bytes(), PolicyForm::Managed);
        parsed.map(drop).map_err(|malformed| malformed.to_string())
    }

    /// Its text.
    pub(super) fn text(&self) -> String {
        json!({"Version": "2012-10-17", "Statement": self.statements}).to_string()
    }

    /// Whether its text names a key of the user that asks.
    pub(super) fn names_its_user(&self) -> bool {
        let text = self.text();
        text.contains("aws:username") || text.contains("aws:userid")
    }

    /// With a user's name in place of the variable for it; `None` where another part names the user.
    pub(super) fn of_user(&self, name: &str) -> Option<Self> {
        let mut document = self.clone();
        let replace = |text: &mut String| *text = text.replace("${aws:username}", name);
        for statement in &mut document.statements {
            let Statement { effect: _, actions: _, not_actions: _, resources, not_resources, conditions } =
                statement;
            resources.iter_mut().chain(not_resources).for_each(replace);
            let values = conditions.values_mut().flat_map(BTreeMap::values_mut);
            values.for_each(|value| {
                let text = value.to_string().replace("${aws:username}", name);
                *value = serde_json::from_str(&text).unwrap_or(Value::Null);
            });
        }
        (!document.names_its_user()).then_some(document)
    }
}

/// A statement as it is written here; `None` where it says nothing here.
fn taken(statement: MinioStatement, left_out: &mut Vec<String>) -> Result<Option<Statement>, String> {
    let MinioStatement {
        _sid: _,
        effect,
        actions,
        not_actions,
        resources,
        not_resources,
        conditions,
        unknown,
    } = statement;
    if let Some(name) = unknown.keys().next() {
        return Err(format!("the element {name} is not known"));
    }
    let sorted = |texts: Option<Texts>| texts.map(Texts::sorted).unwrap_or_default();
    let (mut actions, mut not_actions) = (sorted(actions), sorted(not_actions));
    let is_negated = !not_actions.is_empty();
    if is_negated && effect == Effect::Allow {
        return Err(
            "it allows all but some actions (NotAction), and others of MinIO are others here".to_owned()
        );
    }
    for list in [&mut actions, &mut not_actions] {
        take_actions(list, effect, left_out);
    }
    if actions.is_empty() && not_actions.is_empty() {
        if !is_negated {
            return Ok(None);
        }
        actions.push("s3:*".to_owned());
    }
    let (mut resources, mut not_resources) = (sorted(resources), sorted(not_resources));
    if is_about_buckets(&actions) {
        [&mut resources, &mut not_resources].into_iter().for_each(add_buckets);
    }
    if resources.is_empty() == not_resources.is_empty() {
        return Err("a statement on S3 has no Resource".to_owned());
    }
    let statement = Statement { effect, actions, not_actions, resources, not_resources, conditions };
    let text = serde_json::to_string(&statement).unwrap_or_default();
    match FOREIGN_KEYS.iter().find(|key| {
        let is_key = |name: &String| name.starts_with(**key);
        text.contains(&format!("${{{key}"))
            || statement.conditions.values().flat_map(BTreeMap::keys).any(is_key)
    }) {
        Some(key) => Err(format!("it asks for {key}..., which no user has")),
        None => Ok(Some(statement)),
    }
}

/// Keeps the actions of S3. A star is all of S3 here, as a star of IAM's would make users.
fn take_actions(actions: &mut Vec<String>, effect: Effect, left_out: &mut Vec<String>) {
    let is_known = |action: &str| {
        let pattern = action.to_ascii_lowercase();
        s3_actions().any(|(name, _)| glob::matches(&pattern, &format!("{S3}{name}").to_ascii_lowercase()))
    };
    actions.retain_mut(|action| {
        if action == "*" {
            "s3:*".clone_into(action);
        }
        let is_own = OWN_VENDORS.iter().any(|vendor| action.starts_with(vendor));
        let is_kept = !is_own && is_known(action);
        if !is_kept && effect == Effect::Allow {
            left_out.push(format!("{action} is no action here"));
        }
        is_kept
    });
    actions.dedup();
}

/// Whether one of the actions is about a bucket. No action stands for all but some.
fn is_about_buckets(actions: &[String]) -> bool {
    let is_matched = |name: &str| {
        let name = format!("{S3}{name}").to_ascii_lowercase();
        actions.iter().any(|action| glob::matches(&action.to_ascii_lowercase(), &name))
    };
    actions.is_empty()
        || s3_actions().any(|(name, target)| target == ActionTarget::Bucket && is_matched(name))
}

/// MinIO asks for a bucket as `bucket/`, so that `bucket/*` is about the bucket, too.
fn add_buckets(resources: &mut Vec<String>) {
    let bucket = |resource: &String| {
        let bucket = resource.strip_prefix("arn:aws:s3:::")?.strip_suffix("/*")?;
        (!bucket.contains('/')).then(|| format!("arn:aws:s3:::{bucket}"))
    };
    let buckets: Vec<String> = resources.iter().filter_map(bucket).collect();
    resources.extend(buckets);
    resources.sort();
    resources.dedup();
}
