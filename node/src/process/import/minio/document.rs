//! Policies of MinIO as policies of an account here.
//!
//! MinIO's grammar is AWS's, with actions of its own, and judges some texts otherwise. A statement that
//! allows may be taken in part, as a part allows less; one that denies is taken whole, or its policy is not.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use sherd_policy::{Policy, PolicyForm};

use super::conditions::{Effect, USERNAME};
use super::iam_export::Unknown;
use super::limits::POLICY_BYTES_MAX;
use super::statement::{MinioStatement, Statement};

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
    /// Whether the policy may deny: then a user that has it gets no key without it.
    pub(super) denies: bool,
}

/// Takes a statement of a bucket's policy, without its `Principal`.
pub(super) fn of_bucket(statement: Value, left_out: &mut Vec<String>) -> Result<Vec<Statement>, String> {
    let read: MinioStatement = serde_json::from_value(statement).map_err(|error| error.to_string())?;
    read.taken(true, left_out)
}

impl Document {
    /// Reads a policy of MinIO.
    pub(super) fn of(policy: &Value) -> Result<Self, Refusal> {
        let text = policy.to_string();
        let denies = text.contains("\"Deny\"");
        let refused = |reason: String| Refusal { reason, denies };
        if text.len() > POLICY_BYTES_MAX {
            return Err(refused(format!("it has more than {POLICY_BYTES_MAX} bytes")));
        }
        let read: MinioPolicy =
            serde_json::from_value(policy.clone()).map_err(|error| refused(error.to_string()))?;
        if let Some(name) = read.unknown.keys().next() {
            return Err(refused(format!("the element {name} is not known")));
        }
        let mut document = Self::default();
        for statement in read.statements {
            let effect = statement.effect;
            match statement.taken(false, &mut document.left_out) {
                Ok(statements) => document.statements.extend(statements),
                Err(reason) if effect == Effect::Allow => document.left_out.push(reason),
                Err(reason) => return Err(refused(reason)),
            }
        }
        document.left_out.dedup();
        if document.statements.is_empty() {
            let parts = document.left_out.join("; ");
            // Denials of the document are not here either.
            return Err(Refusal { reason: format!("nothing is left of it: {parts}"), denies: false });
        }
        document.check().map_err(refused)?;
        Ok(document)
    }

    /// Checks it as IAM does when it is given.
    pub(super) fn check(&self) -> Result<(), String> {
        let parsed = Policy::parse_new(self.text().as_bytes(), PolicyForm::Managed);
        parsed.map(drop).map_err(|malformed| malformed.to_string())
    }

    /// Text of the document.
    pub(super) fn text(&self) -> String {
        json!({"Version": "2012-10-17", "Statement": self.statements}).to_string()
    }

    /// Whether its text names a key of the user that asks.
    pub(super) fn names_its_user(&self) -> bool {
        self.text().contains("aws:username")
    }

    /// With a user's name in place of the variable for it; `None` where another part names the user.
    pub(super) fn of_user(&self, name: &str) -> Option<Self> {
        let mut document = self.clone();
        let replace = |text: &mut String| *text = text.replace(USERNAME, name);
        for statement in &mut document.statements {
            let Statement { effect: _, actions: _, not_actions: _, resources, not_resources, conditions } =
                statement;
            resources.iter_mut().chain(not_resources).for_each(replace);
            let values = conditions.values_mut().flat_map(BTreeMap::values_mut);
            values.for_each(|value| {
                let text = value.to_string().replace(USERNAME, name);
                *value = serde_json::from_str(&text).unwrap_or(Value::Null);
            });
        }
        (!document.names_its_user()).then_some(document)
    }
}
