//! Objects of a Tenant as they are read: what is taken is taken out of them, and the rest is named.

use std::fmt;

use serde_json::{Map, Value};

use super::error::InvalidTenant;

/// A thing that has no place in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Where it stands, as `spec.pools[0].runtimeClassName`.
    pub(super) path: String,
    pub(super) reason: String,
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

    /// Takes a field, also one that says what a missing one does not, as `false` does where `true` is meant.
    pub(super) fn take_present(&mut self, field: &str) -> Option<Value> {
        self.map.remove(field)
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

    /// Names a field that says something, and drops it.
    pub(super) fn leave(&mut self, field: &str, reason: &str, left_out: &mut Vec<LeftOut>) {
        if self.take(field).is_some() {
            left_out.push(LeftOut { path: self.at(field), reason: reason.to_owned() });
        }
    }

    /// Names all fields that are left.
    pub(super) fn leave_rest(self, left_out: &mut Vec<LeftOut>) {
        let Self { path, map } = self;
        for (field, value) in map {
            if !is_empty(&value) {
                let reason = "has no place in a StorageCluster".to_owned();
                left_out.push(LeftOut { path: format!("{path}.{field}"), reason });
            }
        }
    }
}

/// Whether a value says nothing: the zero value of its type, as Go leaves it out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(listed) => listed.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}
