//! The facts of a request that conditions and variables ask for.

use std::borrow::Cow;

use super::key::KeyName;

/// The values of a condition key in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values<'a> {
    /// The request does not have the key.
    Absent,
    /// The value of a key that has one.
    One(Cow<'a, str>),
    /// The values of a key that may have several (`aws:TagKeys`); empty is an empty set.
    Many(Vec<Cow<'a, str>>),
}

impl<'a> From<&'a str> for Values<'a> {
    fn from(value: &'a str) -> Self {
        Self::One(Cow::Borrowed(value))
    }
}

impl From<String> for Values<'_> {
    fn from(value: String) -> Self {
        Self::One(Cow::Owned(value))
    }
}

impl<'a, T: Into<Values<'a>>> From<Option<T>> for Values<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Values::Absent, Into::into)
    }
}

/// The facts of one request.
///
/// Asked only for keys that a statement names which may match the request and that its action has
/// ([`KeyName::is_of`]), and never for those of the identity (`aws:username`, `aws:PrincipalTag/...`): a
/// value that is dear to make costs nothing elsewhere.
pub trait Facts {
    /// The values of a key. `tag` is the key of the tag for a name that takes one ([`KeyName::takes_tag`]),
    /// as the policy writes it, else empty. Booleans are `true` and `false`, times ISO 8601 or seconds since
    /// 1970, numbers decimal.
    fn values(&self, name: KeyName, tag: &str) -> Values<'_>;
}

/// A request without facts: every key is absent.
impl Facts for () {
    fn values(&self, _: KeyName, _: &str) -> Values<'_> {
        Values::Absent
    }
}
