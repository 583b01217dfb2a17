//! Texts of a policy that are compared: with wildcards, and with variables that an identity or a request
//! fills in.
//!
//! ```text
//! text -> Template (texts, wildcards, variables) -> [identity's variables filled] -> Pattern::Fixed(Glob)
//!                                                                                 -> Pattern::Open(Template)
//! ```

mod glob;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::bytes::allocated;
use super::caller::Caller;
use super::facts::{Facts, Values};
use super::key::ConditionKey;
use super::limits::EXPANDED_BYTES_MAX;

pub(crate) use glob::Glob;

/// How a text is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextForm {
    /// Whether `*` and `?` are wildcards.
    pub(crate) wildcards: bool,
    /// Whether `${...}` is a variable: from version 2012-10-17 on.
    pub(crate) variables: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(Box<str>),
    AnyOne,
    AnyMany,
    Variable { key: ConditionKey, default: Option<Box<str>> },
}

/// A text with variables.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    pieces: Box<[Piece]>,
}

/// A text to compare with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pattern {
    Fixed(Glob),
    Open(Template),
}

/// The source of values for variables and conditions: a caller and the facts of its request.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) caller: Caller<'a>,
    /// The action that is asked for: keys that it does not have are absent.
    pub(crate) action: &'a str,
    pub(crate) facts: &'a dyn Facts,
}

impl<'a> Context<'a> {
    pub(crate) fn values(&self, key: &ConditionKey) -> Values<'a> {
        self.caller.values(key).unwrap_or_else(|| {
            if key.name.is_of(self.action) { self.facts.values(key.name, &key.tag) } else { Values::Absent }
        })
    }
}

impl Template {
    pub(crate) fn parse(text: &str, reading: TextForm) -> Self {
        let mut pieces = Pieces::default();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if reading.variables
                && let Some((piece, after)) = rest.strip_prefix("${").and_then(variable)
            {
                pieces.push(piece);
                rest = after;
                continue;
            }
            match letter {
                '*' if reading.wildcards => pieces.push(Piece::AnyMany),
                '?' if reading.wildcards => pieces.push(Piece::AnyOne),
                _ => pieces.open.push(letter),
            }
            rest = &rest[letter.len_utf8()..];
        }
        Self { pieces: pieces.finish() }
    }

    /// The parts between colons, at most six: the last keeps its colons. Variables are not split.
    pub(crate) fn segments(self) -> Vec<Self> {
        let mut segments = vec![Pieces::default()];
        for piece in self.pieces {
            let Piece::Text(text) = piece else {
                segments.last_mut().expect("there is one from the start").push(piece);
                continue;
            };
            let mut rest = &*text;
            while segments.len() < 6
                && let Some((head, tail)) = rest.split_once(':')
            {
                segments.last_mut().expect("there is one from the start").open.push_str(head);
                segments.push(Pieces::default());
                rest = tail;
            }
            segments.last_mut().expect("there is one from the start").open.push_str(rest);
        }
        segments.into_iter().map(|pieces| Self { pieces: pieces.finish() }).collect()
    }

    /// Fills in what the identity answers; none if a variable has no value and no default: the text then
    /// matches nothing.
    fn fill(&self, caller: Caller<'_>) -> Option<Self> {
        self.fill_with(EXPANDED_BYTES_MAX, |key| caller.values(key))
    }

    /// Fills in values; none also where the shortest text that then matches has more than `bytes_max`.
    fn fill_with<'v>(
        &self,
        bytes_max: usize,
        values: impl Fn(&ConditionKey) -> Option<Values<'v>>,
    ) -> Option<Self> {
        let mut pieces = Pieces::default();
        let mut bytes = 0;
        for piece in &self.pieces {
            let filled = match piece {
                Piece::Variable { key, default } => match values(key) {
                    None => None,
                    Some(values) => Some(value_of(values, default.as_deref())?),
                },
                Piece::Text(text) => Some(Cow::Borrowed(&**text)),
                Piece::AnyOne | Piece::AnyMany => None,
            };
            bytes += match (&filled, piece) {
                (Some(text), _) => text.len(),
                (None, Piece::AnyOne) => 1,
                (None, _) => 0,
            };
            if bytes > bytes_max {
                return None;
            }
            match filled {
                Some(text) => pieces.open.push_str(&text),
                None => pieces.push(piece.clone()),
            }
        }
        Some(Self { pieces: pieces.finish() })
    }

    /// Whether all variables have a value, or a default.
    fn has_values(&self, context: Context<'_>) -> bool {
        self.pieces.iter().all(|piece| match piece {
            Piece::Variable { key, default } => value_of(context.values(key), default.as_deref()).is_some(),
            Piece::Text(_) | Piece::AnyOne | Piece::AnyMany => true,
        })
    }

    fn fixed(&self) -> Option<Glob> {
        let is_open = self.pieces.iter().any(|piece| matches!(piece, Piece::Variable { .. }));
        (!is_open).then(|| {
            let mut glob = glob::Builder::default();
            for piece in &self.pieces {
                match piece {
                    Piece::Text(text) => glob.text(text),
                    Piece::AnyOne => glob.any_one(),
                    Piece::AnyMany => glob.any_many(),
                    Piece::Variable { .. } => {}
                }
            }
            glob.finish()
        })
    }

    fn heap_bytes(&self) -> usize {
        let bytes_of = |piece: &Piece| match piece {
            Piece::Text(text) => allocated(text.len()),
            Piece::Variable { key, default } => {
                key.heap_bytes() + default.as_ref().map_or(0, |text| allocated(text.len()))
            }
            Piece::AnyOne | Piece::AnyMany => 0,
        };
        allocated(size_of_val(&*self.pieces)) + self.pieces.iter().map(bytes_of).sum::<usize>()
    }

    fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        self.pieces
            .iter()
            .filter_map(|piece| if let Piece::Variable { key, .. } = piece { Some(key) } else { None })
    }
}

impl From<Template> for Pattern {
    fn from(template: Template) -> Self {
        match template.fixed() {
            Some(glob) => Self::Fixed(glob),
            None => Self::Open(template),
        }
    }
}

impl Pattern {
    pub(crate) fn parse(text: &str, reading: TextForm) -> Self {
        Template::parse(text, reading).into()
    }

    /// A pattern that matches every text.
    pub(crate) fn any() -> Self {
        Self::Fixed(Glob::any())
    }

    /// The pattern for one identity; none if it matches nothing.
    pub(crate) fn for_caller(&self, caller: Caller<'_>) -> Option<Self> {
        match self {
            Self::Fixed(_) => Some(self.clone()),
            Self::Open(template) => Some(template.fill(caller)?.into()),
        }
    }

    pub(crate) fn matches(&self, text: &str, context: Context<'_>) -> bool {
        self.test_with(text, context, |glob| glob.matches(text))
    }

    /// Compares without regard to the case of ASCII; wildcards do not count.
    pub(crate) fn equals_ignoring_case(&self, text: &str, context: Context<'_>) -> bool {
        self.test_with(text, context, |glob| {
            glob.literal().is_some_and(|literal| literal.eq_ignore_ascii_case(text))
        })
    }

    /// Tests the glob for a request; where that matches only texts that are longer, it is not even made.
    fn test_with(&self, text: &str, context: Context<'_>, passes: impl Fn(&Glob) -> bool) -> bool {
        match self {
            Self::Fixed(glob) => passes(glob),
            Self::Open(template) => {
                let filled = template.fill_with(text.len(), |key| Some(context.values(key)));
                filled.and_then(|filled| filled.fixed()).is_some_and(|glob| passes(&glob))
            }
        }
    }

    /// The text before the first wildcard or variable, and whether that is all.
    pub(crate) fn prefix(&self) -> (&str, bool) {
        match self {
            Self::Fixed(glob) => (glob.prefix(), glob.literal().is_some()),
            Self::Open(template) => match template.pieces.first() {
                Some(Piece::Text(text)) => (text, false),
                _ => ("", false),
            },
        }
    }

    /// Whether all its variables have a value, or a default.
    pub(crate) fn has_values(&self, context: Context<'_>) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Open(template) => template.has_values(context),
        }
    }

    pub(crate) fn fixed(&self) -> Option<&Glob> {
        if let Self::Fixed(glob) = self { Some(glob) } else { None }
    }

    /// Bytes that it keeps beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Fixed(glob) => glob.heap_bytes(),
            Self::Open(template) => template.heap_bytes(),
        }
    }

    /// The keys of its variables.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        match self {
            Self::Fixed(_) => None,
            Self::Open(template) => Some(template.keys()),
        }
        .into_iter()
        .flatten()
    }
}

/// The one value that a variable stands for: a key with several has none.
fn value_of<'v>(values: Values<'v>, default: Option<&'v str>) -> Option<Cow<'v, str>> {
    match values {
        Values::One(value) => Some(value),
        Values::Absent | Values::Many(_) => default.map(Cow::Borrowed),
    }
}

/// Pieces in the making: neighbouring texts become one.
#[derive(Default)]
struct Pieces {
    done: Vec<Piece>,
    open: String,
}

impl Pieces {
    fn push(&mut self, piece: Piece) {
        if let Piece::Text(text) = piece {
            return self.open.push_str(&text);
        }
        self.close();
        self.done.push(piece);
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done.push(Piece::Text(std::mem::take(&mut self.open).into()));
        }
    }

    fn finish(mut self) -> Box<[Piece]> {
        self.close();
        self.done.into()
    }
}

/// A variable behind its `${`, and what follows it; none if it is not one, and the text means itself.
fn variable(text: &str) -> Option<(Piece, &str)> {
    for special in ["*", "?", "$"] {
        if let Some(after) = text.strip_prefix(special).and_then(|rest| rest.strip_prefix('}')) {
            return Some((Piece::Text(special.into()), after));
        }
    }
    let end = text.find(['}', ',', '$', '{', '\''])?;
    let (key, rest) = text.split_at(end);
    let key = ConditionKey::parse(key.trim());
    if let Some(after) = rest.strip_prefix('}') {
        return (!key.text.is_empty()).then_some((Piece::Variable { key, default: None }, after));
    }
    let mut rest = rest.strip_prefix(',')?.trim_start_matches(' ').strip_prefix('\'')?;
    let mut default = String::new();
    let after = loop {
        let (text, after) = rest.split_once('\'')?;
        default.push_str(text);
        // Two quotes are one that is meant.
        let Some(more) = after.strip_prefix('\'') else { break after };
        default.push('\'');
        rest = more;
    };
    let after = after.trim_start_matches(' ').strip_prefix('}')?;
    Some((Piece::Variable { key, default: Some(default.into()) }, after))
}
