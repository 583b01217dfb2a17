//! Objects of a Tenant as they are read: what is taken is taken out of them, and the rest is named.

use std::fmt;

use serde_json::{Map, Value};

use super::error::InvalidTenant;

/// Fields of metadata that a cluster gives every object.
const ADDED: [&str; 6] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];
/// The annotation in which kubectl keeps the object as it was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A thing that has no place in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Path of the thing, as `spec.pools[0].runtimeClassName`.
    pub(super) path: String,
    pub(super) reason: String,
}

impl LeftOut {
    pub(super) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}

impl fmt::Display for LeftOut {
    /// Writes one line: control characters of names are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = format!("{}: {}", self.path, self.reason);
        line.chars().try_for_each(|letter| {
            if letter.is_control() { write!(f, "{}", letter.escape_default()) } else { write!(f, "{letter}") }
        })
    }
}

/// The fields of an object that are not taken yet.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// An object; one that is absent or null has no fields. Gives any other value back.
    pub(super) fn of(path: impl Into<String>, value: Value) -> Result<Self, Value> {
        match value {
            Value::Object(map) => Ok(Self { path: path.into(), map }),
            Value::Null => Ok(Self { path: path.into(), map: Map::new() }),
            other => Err(other),
        }
    }

    /// The path of a field.
    pub(super) fn at(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    /// Takes a field that says something.
    pub(super) fn take(&mut self, field: &str) -> Option<Value> {
        self.map.remove(field).filter(|value| !is_empty(value))
    }

    /// Takes a field that is present, also the zero value of its type, where that says what a missing field
    /// does not: `false` where `true` is meant, or the user 0.
    pub(super) fn take_present(&mut self, field: &str) -> Option<Value> {
        self.map.remove(field).filter(|value| !value.is_null())
    }

    /// Takes a field, or gives null.
    pub(super) fn take_or_null(&mut self, field: &str) -> Value {
        self.take(field).unwrap_or(Value::Null)
    }

    /// Takes the object in a field.
    pub(super) fn object(&mut self, field: &str) -> Result<Self, InvalidTenant> {
        let (path, value) = (self.at(field), self.take_or_null(field));
        Self::of(path.clone(), value).map_err(|_| InvalidTenant::Field { path, expected: "an object" })
    }

    /// Takes the objects of the list in a field.
    pub(super) fn list(&mut self, field: &str) -> Result<Vec<Self>, InvalidTenant> {
        let path = self.at(field);
        let invalid = || InvalidTenant::Field { path: path.clone(), expected: "a list of objects" };
        match self.take(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(listed)) => {
                let one = |(at, value)| Self::of(format!("{path}[{at}]"), value).map_err(|_| invalid());
                listed.into_iter().enumerate().map(one).collect()
            }
            Some(_) => Err(invalid()),
        }
    }

    /// Takes from metadata what the cluster and kubectl have added.
    pub(super) fn take_added(&mut self) {
        self.map.retain(|field, _| !ADDED.contains(&field.as_str()));
        if let Some(Value::Object(annotations)) = self.map.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
        }
    }

    /// Takes the texts of the list in a field, and names anything else in it.
    pub(super) fn texts(&mut self, field: &str, left_out: &mut Vec<LeftOut>) -> Vec<String> {
        let path = self.at(field);
        let mut texts = Vec::new();
        match self.take(field) {
            None => {}
            Some(Value::Array(listed)) => {
                for (at, value) in listed.into_iter().enumerate() {
                    match value {
                        Value::String(text) => texts.push(text),
                        _ => left_out.push(LeftOut::new(format!("{path}[{at}]"), "it must be a text")),
                    }
                }
            }
            Some(_) => left_out.push(LeftOut::new(path, "it must be a list of texts")),
        }
        texts
    }

    /// Names a field that says something, and drops it.
    pub(super) fn leave(&mut self, field: &str, reason: &str, left_out: &mut Vec<LeftOut>) {
        if self.take(field).is_some() {
            left_out.push(LeftOut::new(self.at(field), reason));
        }
    }

    /// Names all fields that are left.
    pub(super) fn leave_rest(self, left_out: &mut Vec<LeftOut>) {
        let Self { path, map } = self;
        for (field, value) in map {
            if !is_empty(&value) {
                left_out.push(LeftOut::new(format!("{path}.{field}"), "has no place in a StorageCluster"));
            }
        }
    }
}

/// Whether a value says nothing: the zero value of its type, as Go leaves it out. An object with a key says
/// something, also where its values are empty, as those of labels and of a nodeSelector may be.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(listed) => listed.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
