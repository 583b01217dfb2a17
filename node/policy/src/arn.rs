//! Patterns of ARNs: six parts between colons, each compared by itself.

use super::bytes::allocated;
use super::caller::Caller;
use super::key::ConditionKey;
use super::pattern::{Context, Pattern, Template, TextForm};

/// The beginning of the ARN of each bucket and object.
const HEAD_OF_S3: &str = "arn:aws:s3:::";

/// A pattern of an ARN. Parts that it lacks match everything.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ArnPattern {
    /// `*`: every resource, also one without an ARN.
    Any,
    /// The first five parts as they are, with their colons, and the last. Most patterns are such.
    Headed(Box<str>, Pattern),
    Parts(Box<[Pattern; 6]>),
}

impl ArnPattern {
    pub(crate) fn parse(text: &str, variables: bool) -> Self {
        if !text.is_empty() && text.bytes().all(|byte| byte == b'*') {
            return Self::Any;
        }
        let form = TextForm { wildcards: true, variables };
        let head = text.match_indices(':').nth(4).map(|(at, colon)| text.split_at(at + colon.len()));
        if let Some((head, tail)) = head.filter(|(head, _)| !head.contains(['*', '?', '$'])) {
            return Self::Headed(head.into(), Pattern::parse(tail, form));
        }
        let mut segments = Template::parse(text, form).segments().into_iter();
        let parts = std::array::from_fn(|_| segments.next().map_or_else(Pattern::any, Pattern::from));
        Self::Parts(Box::new(parts))
    }

    pub(crate) fn for_caller(&self, caller: Caller<'_>) -> Option<Self> {
        Some(match self {
            Self::Any => Self::Any,
            Self::Headed(head, tail) => Self::Headed(head.clone(), tail.for_caller(caller)?),
            Self::Parts(parts) => {
                let filled: Option<Vec<Pattern>> = parts.iter().map(|part| part.for_caller(caller)).collect();
                Self::Parts(Box::new(filled?.try_into().ok()?))
            }
        })
    }

    /// Whether an ARN matches.
    pub(crate) fn matches(&self, arn: &str, context: Context<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Headed(head, tail) => {
                arn.strip_prefix(&**head).is_some_and(|text| tail.matches(text, context))
            }
            Self::Parts(parts) => {
                let mut texts = arn.splitn(6, ':');
                parts.iter().all(|part| texts.next().is_some_and(|text| part.matches(text, context)))
            }
        }
    }

    /// Whether all variables of the pattern have a value, or a default.
    pub(crate) fn has_values(&self, context: Context<'_>) -> bool {
        self.patterns().iter().all(|part| part.has_values(context))
    }

    /// Whether the pattern has no variables.
    pub(crate) fn is_fixed(&self) -> bool {
        self.patterns().iter().all(|part| part.fixed().is_some())
    }

    /// Whether the pattern matches one ARN alone.
    pub(crate) fn is_literal(&self) -> bool {
        let is_literal = |part: &Pattern| part.fixed().is_some_and(|glob| glob.literal().is_some());
        *self != Self::Any && self.patterns().iter().all(is_literal)
    }

    /// The pattern of what S3's ARNs have behind `arn:aws:s3:::`; none if it can match none of them. An open
    /// pattern before it counts as one that matches.
    pub(crate) fn of_s3(&self) -> Option<Pattern> {
        match self {
            Self::Any => Some(Pattern::any()),
            Self::Headed(head, tail) => (**head == *HEAD_OF_S3).then(|| tail.clone()),
            Self::Parts(parts) => {
                let [head @ .., tail] = &**parts;
                let is_of_s3 = head
                    .iter()
                    .zip(HEAD_OF_S3.split(':'))
                    .all(|(part, text)| part.fixed().is_none_or(|glob| glob.matches(text)));
                is_of_s3.then(|| tail.clone())
            }
        }
    }

    /// Bytes that it keeps beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let patterns: usize = self.patterns().iter().map(Pattern::heap_bytes).sum();
        match self {
            Self::Any => 0,
            Self::Headed(head, _) => allocated(head.len()) + patterns,
            Self::Parts(parts) => allocated(size_of_val(&**parts)) + patterns,
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        self.patterns().iter().flat_map(Pattern::keys)
    }

    /// The parts that are patterns.
    fn patterns(&self) -> &[Pattern] {
        match self {
            Self::Any => &[],
            Self::Headed(_, tail) => std::slice::from_ref(tail),
            Self::Parts(parts) => &**parts,
        }
    }
}
