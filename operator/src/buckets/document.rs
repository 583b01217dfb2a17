//! Policy documents as a specification has them, and those of rights to buckets. The store judges
//! documents; here is decided only whether one goes beyond the buckets that a namespace may use.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sherd_policy::presets::{self, BucketAccess, BucketLife, BucketRight, MARK_KEY};

use crate::api::{Access, BucketGrant};
use crate::limits;

/// The beginning of every resource of S3.
const ARN: &str = "arn:aws:s3:::";

/// A document as it is sent: its bytes, and its content where it is JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyDocument {
    /// The text.
    pub text: String,
    /// The content; nothing where the text is not JSON, which the store refuses in its words.
    pub content: Option<Value>,
}

impl PolicyDocument {
    /// Reads `spec.policy`: an object, or a text. Nothing where it is neither.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Object(_) => Some(Self { text: value.to_string(), content: Some(value.clone()) }),
            Value::String(text) => Some(Self::of_text(text.clone())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        }
    }

    /// A text that the store has.
    pub fn of_text(text: String) -> Self {
        Self { content: serde_json::from_str(&text).ok(), text }
    }

    /// Whether the document may take rights away: it has a statement that does not allow, or cannot be read.
    pub fn may_deny(&self) -> bool {
        let Some(statements) = self.content.as_ref().and_then(|content| content.get("Statement")) else {
            return true;
        };
        let list = statements.as_array().map_or(std::slice::from_ref(statements), Vec::as_slice);
        list.iter().any(|statement| statement.get("Effect").and_then(Value::as_str) != Some("Allow"))
    }

    /// Whether a text that the store has says the same.
    pub fn is(&self, found: &str) -> bool {
        let same =
            || serde_json::from_str::<Value>(found).ok().filter(|found| self.content.as_ref() == Some(found));
        found == self.text || same().is_some()
    }
}

/// Returns the policies of rights to buckets, each no longer than IAM takes it. A bucket's life is its
/// Bucket's.
pub fn of_rights(rights: &[BucketRight]) -> Vec<PolicyDocument> {
    let content = |some: &[BucketRight]| presets::document(some, BucketLife::Kept);
    let mut documents = Vec::new();
    let mut rest = rights;
    while !rest.is_empty() {
        let text = |count: usize| rest.get(..count).map(|some| content(some).to_string());
        let fits =
            |count: &usize| text(*count).is_some_and(|text| text.len() <= limits::POLICY_CHARACTERS_MAX);
        // One right is short enough by the lengths of its names.
        let count = (1..=rest.len()).take_while(fits).last().unwrap_or(1);
        let (some, others) = rest.split_at(count);
        let content = content(some);
        documents.push(PolicyDocument { text: content.to_string(), content: Some(content) });
        rest = others;
    }
    documents
}

/// Judges whether a document grants nothing beyond buckets that are rights, and returns it so that what it
/// grants ends with them: each statement that allows demands the marks of the buckets that it names. Every
/// element that a statement may have is known here, so that none with a meaning of its own is passed over.
///
/// # Errors
/// A sentence that names the statement.
pub fn bound(content: &Value, rights: &[BucketRight]) -> Result<Value, String> {
    let mut content = content.clone();
    let Some(document) = content.as_object_mut() else { return Err("it is no JSON object".to_owned()) };
    if let Some(key) = document.keys().find(|key| !["Version", "Id", "Statement"].contains(&key.as_str())) {
        return Err(format!("its element {key} is none of a policy's"));
    }
    let statements = match document.get_mut("Statement") {
        Some(Value::Array(statements)) => statements.as_mut_slice(),
        Some(single) => std::slice::from_mut(single),
        None => &mut [],
    };
    for (at, statement) in statements.iter_mut().enumerate() {
        let judged = bound_statement(statement, rights);
        judged.map_err(|why| format!("statement {} {why}", at + 1))?;
    }
    Ok(content)
}

fn bound_statement(statement: &mut Value, rights: &[BucketRight]) -> Result<(), String> {
    const KNOWN: [&str; 7] = ["Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"];
    let Some(statement) = statement.as_object_mut() else { return Err("is no object".to_owned()) };
    if let Some(key) = statement.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("has the element {key}, which a user's policy cannot have"));
    }
    match statement.get("Effect").and_then(Value::as_str) {
        // A Deny takes rights away only.
        Some("Deny") => return Ok(()),
        Some("Allow") => {}
        _ => return Err("has an Effect that is neither Allow nor Deny".to_owned()),
    }
    if statement.contains_key("NotResource") {
        return Err("allows by NotResource, which names more than the user's buckets".to_owned());
    }
    let resources = match statement.get("Resource") {
        Some(Value::Array(resources)) => resources.as_slice(),
        Some(resource @ Value::String(_)) => std::slice::from_ref(resource),
        _ => return Err("has no Resource".to_owned()),
    };
    let mut marks = BTreeSet::new();
    for resource in resources {
        let named = resource.as_str().and_then(|text| text.strip_prefix(ARN));
        let bucket = named.map(|named| named.split_once('/').map_or(named, |(bucket, _)| bucket));
        let right = rights.iter().find(|right| bucket == Some(&right.bucket));
        if let Some(right) = right {
            marks.extend(&right.mark);
        } else {
            return Err(format!(
                "names the resource {resource}: each must be {ARN} and, letter by letter, a bucket of spec.buckets, with or without a key behind it"
            ));
        }
    }
    demand(statement, &marks)
}

/// Adds the condition on the mark to those of a statement.
fn demand(statement: &mut Map<String, Value>, marks: &BTreeSet<&String>) -> Result<(), String> {
    if marks.is_empty() {
        return Ok(());
    }
    let object = |value: &mut Map<String, Value>, key: &str| {
        value.entry(key).or_insert_with(|| json!({})).as_object_mut().map(std::mem::take)
    };
    let malformed = || "has a Condition that is none".to_owned();
    let mut condition = object(statement, "Condition").ok_or_else(malformed)?;
    let mut equals = object(&mut condition, "StringEquals").ok_or_else(malformed)?;
    if equals.insert(MARK_KEY.to_owned(), json!(marks)).is_some() {
        return Err(format!("has a condition on {MARK_KEY}, which is the operator's"));
    }
    condition.insert("StringEquals".to_owned(), Value::Object(equals));
    statement.insert("Condition".to_owned(), Value::Object(condition));
    Ok(())
}

impl From<Access> for BucketAccess {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Write => Self::Write,
            Access::Admin => Self::Admin,
        }
    }
}

/// A grant in words.
pub(super) fn grant_text(grant: &BucketGrant) -> String {
    match (&grant.name, &grant.bucket_ref) {
        (Some(name), _) => format!("bucket {name}"),
        (None, Some(reference)) => match &reference.namespace {
            Some(namespace) => format!("Bucket {namespace}/{}", reference.name),
            None => format!("Bucket {}", reference.name),
        },
        (None, None) => "a right without a bucket".to_owned(),
    }
}
