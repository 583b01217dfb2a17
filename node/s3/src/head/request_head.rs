//! The head of a request: its headers and its parameters. No floor above this one sees a map of headers.
//!
//! Each group of headers has one reader, a file of this floor (`conditions`, `checksum`, `attributes`, ...),
//! and what is wrong with a group is refused where it is read. Conditions of policies name headers one by one
//! (`access::facts`). Tags and the source of a copy are asked for by
//! policies before their operation runs: they are parsed once, and kept with their refusal. Object Lock and
//! encryption become groups beside them.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::OnceLock;

use http::header::{
    self, AUTHORIZATION, AsHeaderName, CONTENT_LENGTH, GetAll, HOST, HeaderMap, HeaderName, HeaderValue,
};
use sherd_signature::query::Query;

use crate::head::acl::{self, UnsupportedAcl};
use crate::head::columns::VERSION_ID;
use crate::head::copy_source::{self, CopySource, NamedSource};
use crate::head::hoisted;
use crate::head::names::{self, NamedVersion};
use crate::head::tagging::{self, GivenTags};
use crate::wire::query::parsed;
use crate::wire::refusal::{Code, Refusal};

/// The header with the length of a body without its frames.
pub(super) const DECODED_LENGTH: &str = "x-amz-decoded-content-length";

/// The head of a request.
#[derive(Debug)]
pub struct RequestHead<'a> {
    headers: HeaderMap,
    query: Query<'a>,
    lists: UnsupportedAcl,
    /// `None` inside: it gives no tags.
    tags: OnceLock<Option<Box<GivenTags>>>,
    /// `None` inside: it names no source.
    source: OnceLock<Option<Box<NamedSource>>>,
}

impl<'a> RequestHead<'a> {
    /// A head as it came. `lists` says how its access control lists are treated.
    pub(crate) const fn new(headers: HeaderMap, query: Query<'a>, lists: UnsupportedAcl) -> Self {
        Self { headers, query, lists, tags: OnceLock::new(), source: OnceLock::new() }
    }

    /// The head without its signature, and with the headers that a presigned URL carries in its query. Where
    /// the body is an object's bytes, a checksum of no bytes in the query says nothing of them.
    ///
    /// # Errors
    /// InvalidArgument for a header in the query that contradicts one of the request.
    pub(crate) fn without_signature(mut self, takes_object: bool) -> Result<Self, Refusal> {
        let of_no_bytes = takes_object.then(|| hoisted::empty_checksums(&self.headers, &self.query));
        self.headers.remove(AUTHORIZATION);
        hoisted::hoist(&mut self.headers, &self.query)?;
        let length = self.get(DECODED_LENGTH).or_else(|| self.get(CONTENT_LENGTH));
        if length.is_some_and(|length| length != "0") {
            for name in of_no_bytes.into_iter().flatten() {
                self.headers.remove(name);
            }
        }
        Ok(self)
    }

    /// The head of the object that a form uploads: the headers and the tags that its fields stand for. The
    /// answer names the object by the host that was asked.
    pub(super) fn of_form(self, mut headers: HeaderMap, tags: GivenTags) -> Self {
        if let Some(host) = self.get(HOST) {
            headers.insert(HOST, host.clone());
        }
        Self { headers, tags: OnceLock::from(Some(Box::new(tags))), ..self }
    }

    /// The first value of a header.
    pub(super) fn get(&self, name: impl AsHeaderName) -> Option<&HeaderValue> {
        self.headers.get(name)
    }

    /// All values of a header.
    pub(super) fn all(&self, name: impl AsHeaderName) -> GetAll<'_, HeaderValue> {
        self.headers.get_all(name)
    }

    /// The names of all headers.
    pub(super) fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.headers.keys()
    }

    /// All headers; one that is there twice comes twice.
    pub(super) fn lines(&self) -> header::Iter<'_, HeaderValue> {
        self.headers.iter()
    }

    /// The parameters.
    pub(super) const fn query(&self) -> &Query<'a> {
        &self.query
    }

    /// Whether it has a header.
    pub(crate) fn has(&self, name: impl AsHeaderName) -> bool {
        self.headers.contains_key(name)
    }

    /// The value of a header as it came, which conditions of policies compare; of one that is there twice the
    /// lines, joined by commas (RFC 9110, section 5.3), for what is stored and compared is all of them. Bytes
    /// that are not UTF-8 are replaced.
    pub fn value(&self, name: impl AsHeaderName) -> Option<Cow<'_, str>> {
        let mut lines = self.all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes()));
        let first = lines.next()?;
        Some(lines.fold(first, |joined, line| Cow::Owned(format!("{joined},{line}"))))
    }

    /// The value of a header that may be there once.
    ///
    /// # Errors
    /// InvalidRequest where it is there twice.
    pub(super) fn once(&self, name: &str) -> Result<Option<&HeaderValue>, Refusal> {
        let mut values = self.all(name).iter();
        let value = values.next();
        match values.next() {
            None => Ok(value),
            Some(_) => Err(Refusal::says(Code::InvalidRequest, format!("duplicate header: {name}"))),
        }
    }

    /// Refuses a head in which a header is there twice that may be there once, or is not text.
    ///
    /// # Errors
    /// InvalidRequest for the one, InvalidArgument for the other.
    pub(crate) fn check_once(&self, names: &[&str]) -> Result<(), Refusal> {
        for name in names {
            if let Some(value) = self.once(name)?.filter(|value| value.to_str().is_err()) {
                return Err(Refusal::bad_header(name, value));
            }
        }
        Ok(())
    }

    /// The lines of a header that has to be there, on one or several of them.
    ///
    /// # Errors
    /// InvalidRequest where it is missing, InvalidArgument for a line that is not text.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<&str>, Refusal> {
        let lines = self.all(name).iter();
        let lines: Vec<&str> = lines
            .map(|line| line.to_str().map_err(|_| Refusal::bad_header(name, line)))
            .collect::<Result<_, _>>()?;
        if lines.is_empty() {
            return Err(Refusal::missing_header(name));
        }
        Ok(lines)
    }

    /// A header that is a flag: `true` or `false`.
    ///
    /// # Errors
    /// InvalidArgument for any other value but an empty one, which counts as absent.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        let Some(value) = self.get(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        match value.as_bytes() {
            b"true" | b"True" => Ok(Some(true)),
            b"false" | b"False" => Ok(Some(false)),
            _ => Err(Refusal::bad_header(name, value)),
        }
    }

    /// A header that is a number, of which what stands behind its digits is ignored.
    ///
    /// # Errors
    /// InvalidArgument for a value that does not begin with a number that fits; an empty one counts as
    /// absent.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let Some(value) = self.get(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        let invalid = || Refusal::bad_header(name, value);
        let text = value.to_str().map_err(|_| invalid())?;
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        let end = text.len() - unsigned.len() + digits;
        let number = text.get(..end).filter(|_| digits > 0).and_then(|number| number.parse().ok());
        number.map(Some).ok_or_else(invalid)
    }

    /// A parameter, read as what it should be.
    ///
    /// # Errors
    /// InvalidArgument for any other value.
    pub fn parameter<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        parsed(&self.query, name)
    }

    /// A parameter that is text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.parameter_value(name).map(Cow::into_owned)
    }

    /// A parameter as it came, which conditions of policies compare.
    pub(crate) fn parameter_value(&self, name: &str) -> Option<Cow<'_, str>> {
        self.query.text(name)
    }

    /// Whether it names a version of its object.
    pub(crate) fn names_version(&self) -> bool {
        self.query.has(VERSION_ID)
    }

    /// The version of its object that it names.
    ///
    /// # Errors
    /// InvalidArgument for a text that no version has for its id.
    pub(crate) fn version(&self) -> Result<Option<NamedVersion>, Refusal> {
        self.parameter_value(VERSION_ID).map(|id| names::version(VERSION_ID, &id)).transpose()
    }

    /// How its access control lists are treated.
    pub(crate) const fn lists(&self) -> UnsupportedAcl {
        self.lists
    }

    /// Whether an access control list, or a part of one, is among its headers.
    pub(crate) fn has_list(&self) -> bool {
        self.names().any(|name| name.as_str().strip_prefix("x-amz-").is_some_and(acl::is_list))
    }

    /// The host that was asked.
    ///
    /// # Errors
    /// InvalidRequest for one that is not text.
    pub(crate) fn host(&self) -> Result<Option<&str>, Refusal> {
        let Some(host) = self.get(HOST) else { return Ok(None) };
        let invalid = |_| Refusal::says(Code::InvalidRequest, format!("invalid header: Host: {host:?}"));
        host.to_str().map(Some).map_err(invalid)
    }

    /// The id in a header that names the client's call, unless it is empty.
    pub(crate) fn call_id(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(HeaderValue::as_bytes).filter(|id| !id.is_empty())
    }

    /// The tags that it gives to its object; `None` where it gives none.
    pub(crate) fn tags(&self) -> Option<&GivenTags> {
        let read = || match self.once(tagging::HEADER.as_str()) {
            Ok(value) => value.map(|value| Box::new(GivenTags::of_header(value))),
            Err(twice) => {
                let first = self.get(tagging::HEADER).map(GivenTags::of_header).unwrap_or_default();
                Some(Box::new(GivenTags { stored: Err(twice), ..first }))
            }
        };
        self.tags.get_or_init(read).as_deref()
    }

    /// The path of the source of a copy, as policies name it: without its version, and without escapes.
    pub(crate) fn copied_path(&self) -> Option<&str> {
        self.named_source().map(|named| named.path.as_str())
    }

    /// The source of a copy.
    ///
    /// # Errors
    /// InvalidRequest without one, InvalidArgument where it names no object or a malformed version id,
    /// NotImplemented for access points.
    pub(crate) fn copy_source(&self) -> Result<&CopySource, Refusal> {
        let named = self.named_source();
        let named = named.ok_or_else(|| Refusal::missing_header(copy_source::HEADER.as_str()))?;
        named.source.as_ref().map_err(Clone::clone)
    }

    fn named_source(&self) -> Option<&NamedSource> {
        let read = || self.get(copy_source::HEADER).map(|value| Box::new(NamedSource::of(value)));
        self.source.get_or_init(read).as_deref()
    }
}

#[cfg(any(test, fuzzing))]
impl FromIterator<(HeaderName, HeaderValue)> for RequestHead<'static> {
    fn from_iter<I: IntoIterator<Item = (HeaderName, HeaderValue)>>(headers: I) -> Self {
        Self::new(headers.into_iter().collect(), Query::default(), UnsupportedAcl::Refuse)
    }
}

#[cfg(test)]
impl<'a> RequestHead<'a> {
    /// A head of these headers.
    pub(crate) fn with(headers: &[(&'static str, &str)]) -> RequestHead<'static> {
        let value = |value: &str| HeaderValue::from_bytes(value.as_bytes()).expect("a value");
        headers.iter().map(|(name, text)| (HeaderName::from_static(name), value(text))).collect()
    }

    /// The same head with these parameters.
    pub(crate) fn and_query(self, query: &'a str) -> Self {
        Self { query: Query::parse(Some(query)).expect("a query"), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_true_or_false() {
        let flag = |value| RequestHead::with(&[("x-amz-a", value)]).flag("x-amz-a");
        for (value, flagged) in [("true", Some(true)), ("False", Some(false)), ("", None)] {
            assert_eq!(flag(value), Ok(flagged), "{value}");
        }
        for value in ["TRUE", " true", "1"] {
            let refused = flag(value).expect_err(value);
            assert_eq!(refused.message, format!("invalid header: x-amz-a: \"{value}\""));
        }
        assert_eq!(RequestHead::with(&[]).flag("x-amz-b"), Ok(None));
    }

    #[test]
    fn numbers_end_where_their_digits_end() {
        let number = |value| RequestHead::with(&[("x-amz-a", value)]).number::<i64>("x-amz-a");
        for (value, expected) in
            [("7", Some(7)), ("-7", Some(-7)), ("+7", Some(7)), ("7x", Some(7)), ("", None)]
        {
            assert_eq!(number(value), Ok(expected), "{value}");
        }
        for value in ["x", "-", " 7", "99999999999999999999"] {
            assert_eq!(number(value).expect_err(value).code, Code::InvalidArgument);
        }
    }
}
