//! A JSON document, bounded in depth, in which a key stands once: what every policy is read from.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

use super::limits::DEPTH_MAX;

/// A value. Numbers and booleans are kept as a condition compares them: as text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Scalar(String),
    Text(String),
    List(Vec<Json>),
    /// Members in the order of the document; no name stands twice.
    Object(Vec<(String, Json)>),
}

/// Reads a document; none if it is not JSON, is nested too deeply, or names a member twice.
pub(crate) fn parse(text: &[u8]) -> Option<Json> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = NestedValue { depth: 0 }.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(value)
}

/// Whether a text is a JSON document that all readers take for the same: no member stands twice, and it is
/// not nested too deeply.
pub fn is_unambiguous(text: &str) -> bool {
    parse(text.as_bytes()).is_some()
}

#[derive(Clone, Copy)]
struct NestedValue {
    depth: usize,
}

impl NestedValue {
    fn below<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == DEPTH_MAX {
            return Err(E::custom("nested too deeply"));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for NestedValue {
    type Value = Json;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Json, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NestedValue {
    type Value = Json;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Scalar(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let below = self.below()?;
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(below)? {
            list.push(element);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let below = self.below()?;
        let mut members: Vec<(String, Json)> = Vec::new();
        let mut names = HashSet::new();
        while let Some(name) = elements.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom("a member stands twice"));
            }
            members.push((name, elements.next_value_seed(below)?));
        }
        Ok(Json::Object(members))
    }
}

impl Json {
    /// A text, or the texts of a list, each once; none if it is anything else.
    pub(crate) fn texts(&self) -> Option<Vec<&str>> {
        self.each_once(Self::as_text)
    }

    /// As [`Json::texts`]; numbers and booleans count as texts, too.
    pub(crate) fn values(&self) -> Option<Vec<&str>> {
        self.each_once(|element| match element {
            Self::Text(one) | Self::Scalar(one) => Some(one),
            _ => None,
        })
    }

    fn each_once(&self, text: impl Fn(&Self) -> Option<&str>) -> Option<Vec<&str>> {
        let Self::List(elements) = self else { return Some(vec![text(self)?]) };
        let mut texts: Vec<&str> = elements.iter().map(text).collect::<Option<_>>()?;
        let mut found = HashSet::with_capacity(texts.len());
        texts.retain(|text| found.insert(*text));
        Some(texts)
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}
