//! The operators of conditions, by name.

/// The kind of values that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Texts, letter by letter.
    Text,
    TextIgnoringCase,
    /// Texts with wildcards.
    TextLike,
    Arn,
    Number(Order),
    Date(Order),
    Bool,
    /// Base64 of bytes.
    Binary,
    Address,
    /// Whether there is a value.
    Null,
}

/// How the value of a request stands to that of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How many values of the request have to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    One,
    All,
    Any,
}

/// An operator with what stands before and behind its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operator {
    pub(crate) comparison: Comparison,
    pub(crate) is_negated: bool,
    pub(crate) quantifier: Quantifier,
    pub(crate) if_exists: bool,
}

const OPERATORS: &[(&str, Comparison, bool)] = &[
    ("StringEquals", Comparison::Text, false),
    ("StringNotEquals", Comparison::Text, true),
    ("StringEqualsIgnoreCase", Comparison::TextIgnoringCase, false),
    ("StringNotEqualsIgnoreCase", Comparison::TextIgnoringCase, true),
    ("StringLike", Comparison::TextLike, false),
    ("StringNotLike", Comparison::TextLike, true),
    ("NumericEquals", Comparison::Number(Order::Equal), false),
    ("NumericNotEquals", Comparison::Number(Order::Equal), true),
    ("NumericLessThan", Comparison::Number(Order::Less), false),
    ("NumericLessThanEquals", Comparison::Number(Order::LessOrEqual), false),
    ("NumericGreaterThan", Comparison::Number(Order::Greater), false),
    ("NumericGreaterThanEquals", Comparison::Number(Order::GreaterOrEqual), false),
    ("DateEquals", Comparison::Date(Order::Equal), false),
    ("DateNotEquals", Comparison::Date(Order::Equal), true),
    ("DateLessThan", Comparison::Date(Order::Less), false),
    ("DateLessThanEquals", Comparison::Date(Order::LessOrEqual), false),
    ("DateGreaterThan", Comparison::Date(Order::Greater), false),
    ("DateGreaterThanEquals", Comparison::Date(Order::GreaterOrEqual), false),
    ("Bool", Comparison::Bool, false),
    ("BinaryEquals", Comparison::Binary, false),
    ("IpAddress", Comparison::Address, false),
    ("NotIpAddress", Comparison::Address, true),
    // Both behave alike: patterns, part by part.
    ("ArnEquals", Comparison::Arn, false),
    ("ArnLike", Comparison::Arn, false),
    ("ArnNotEquals", Comparison::Arn, true),
    ("ArnNotLike", Comparison::Arn, true),
    ("Null", Comparison::Null, false),
];

impl Operator {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (quantifier, rest) = if let Some(rest) = name.strip_prefix("ForAllValues:") {
            (Quantifier::All, rest)
        } else if let Some(rest) = name.strip_prefix("ForAnyValue:") {
            (Quantifier::Any, rest)
        } else {
            (Quantifier::One, name)
        };
        let (rest, if_exists) = match rest.strip_suffix("IfExists") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let (_, comparison, is_negated) = OPERATORS.iter().find(|(known, _, _)| *known == rest)?;
        if *comparison == Comparison::Null && (if_exists || quantifier != Quantifier::One) {
            return None;
        }
        Some(Self { comparison: *comparison, is_negated: *is_negated, quantifier, if_exists })
    }
}

impl Order {
    /// Whether a value of a request stands so to one of a policy.
    pub(crate) fn holds<T: PartialOrd>(self, value: &T, to: &T) -> bool {
        match self {
            Self::Equal => value == to,
            Self::Less => value < to,
            Self::LessOrEqual => value <= to,
            Self::Greater => value > to,
            Self::GreaterOrEqual => value >= to,
        }
    }
}
