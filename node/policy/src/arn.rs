//! Patterns of ARNs: six parts between colons, each compared by itself.

use super::caller::Caller;
use super::key::ConditionKey;
use super::pattern::{Context, Pattern, Template, TextForm};

/// A pattern of an ARN. Parts that it lacks match everything.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ArnPattern {
    /// `*`: every resource, also one without an ARN.
    Any,
    Parts(Box<[Pattern; 6]>),
}

impl ArnPattern {
    pub(crate) fn parse(text: &str, variables: bool) -> Self {
        if !text.is_empty() && text.bytes().all(|byte| byte == b'*') {
            return Self::Any;
        }
        let mut segments =
            Template::parse(text, TextForm { wildcards: true, variables }).segments().into_iter();
        let parts = std::array::from_fn(|_| segments.next().map_or_else(Pattern::any, Pattern::from));
        Self::Parts(Box::new(parts))
    }

    pub(crate) fn for_caller(&self, caller: Caller<'_>) -> Option<Self> {
        let Self::Parts(parts) = self else { return Some(Self::Any) };
        let filled: Option<Vec<Pattern>> = parts.iter().map(|part| part.for_caller(caller)).collect();
        Some(Self::Parts(Box::new(filled?.try_into().ok()?)))
    }

    /// Whether an ARN matches.
    pub(crate) fn matches(&self, arn: &str, context: Context<'_>) -> bool {
        let Self::Parts(parts) = self else { return true };
        let mut texts = arn.splitn(6, ':');
        parts.iter().all(|part| texts.next().is_some_and(|text| part.matches(text, context)))
    }

    /// Whether all its variables have a value, or a default.
    pub(crate) fn has_values(&self, context: Context<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Parts(parts) => parts.iter().all(|part| part.has_values(context)),
        }
    }

    /// Whether it has no variables.
    pub(crate) fn is_fixed(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Parts(parts) => parts.iter().all(|part| part.fixed().is_some()),
        }
    }

    /// Whether it matches one ARN alone.
    pub(crate) fn is_literal(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Parts(parts) => {
                parts.iter().all(|part| part.fixed().is_some_and(|glob| glob.literal().is_some()))
            }
        }
    }

    /// The pattern of what S3's ARNs have behind `arn:aws:s3:::`; none if it can match none of them. An open
    /// pattern before it counts as one that matches.
    pub(crate) fn of_s3(&self) -> Option<Pattern> {
        let Self::Parts(parts) = self else { return Some(Pattern::any()) };
        let [head @ .., tail] = &**parts;
        let is_of_s3 = head
            .iter()
            .zip(["arn", "aws", "s3", "", ""])
            .all(|(part, text)| part.fixed().is_none_or(|glob| glob.matches(text)));
        is_of_s3.then(|| tail.clone())
    }

    /// Bytes that it keeps beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Any => 0,
            Self::Parts(parts) => {
                size_of_val(&**parts) + parts.iter().map(Pattern::heap_bytes).sum::<usize>()
            }
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        let parts: &[Pattern] = match self {
            Self::Any => &[],
            Self::Parts(parts) => &**parts,
        };
        parts.iter().flat_map(Pattern::keys)
    }
}
