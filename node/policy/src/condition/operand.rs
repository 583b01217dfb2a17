//! The values of a condition, in the form that they are compared in.

use std::net::IpAddr;

use ipnet::IpNet;

use super::date;
use super::operator::{Comparison, Operator, Order};
use crate::arn::ArnPattern;
use crate::bytes::allocated;
use crate::caller::Caller;
use crate::key::ConditionKey;
use crate::pattern::{Context, Pattern, TextForm};

/// The values of a condition. A value of a request matches if it does so for one of them.
#[derive(Debug, Clone)]
pub(crate) enum Operands {
    Texts(Vec<Pattern>),
    TextsIgnoringCase(Vec<Pattern>),
    Arns(Vec<ArnPattern>),
    Numbers(Order, Vec<f64>),
    Dates(Order, Vec<i64>),
    Bools(Vec<bool>),
    Addresses(Vec<IpNet>),
    Null(Vec<bool>),
}

impl Operands {
    /// Reads values; none if one is not what the operator compares. Only texts and ARNs have variables.
    pub(super) fn parse(operator: Operator, values: &[&str], variables: bool) -> Option<Self> {
        let patterns = |wildcards, variables| {
            values.iter().map(|value| Pattern::parse(value, TextForm { wildcards, variables })).collect()
        };
        Some(match operator.comparison {
            Comparison::Text => Self::Texts(patterns(false, variables)),
            Comparison::TextIgnoringCase => Self::TextsIgnoringCase(patterns(false, variables)),
            Comparison::TextLike => Self::Texts(patterns(true, variables)),
            Comparison::Binary => Self::Texts(patterns(false, false)),
            Comparison::Arn => {
                Self::Arns(values.iter().map(|value| ArnPattern::parse(value, variables)).collect())
            }
            Comparison::Number(order) => Self::Numbers(order, each(values, number)?),
            Comparison::Date(order) => Self::Dates(order, each(values, date::parse)?),
            Comparison::Bool => Self::Bools(each(values, boolean)?),
            Comparison::Address => Self::Addresses(each(values, network)?),
            Comparison::Null => Self::Null(each(values, boolean)?),
        })
    }

    /// The values for one identity: without those that can match nothing.
    pub(super) fn for_caller(&self, caller: Caller<'_>) -> Self {
        let patterns =
            |patterns: &[Pattern]| patterns.iter().filter_map(|pattern| pattern.for_caller(caller)).collect();
        match self {
            Self::Texts(texts) => Self::Texts(patterns(texts)),
            Self::TextsIgnoringCase(texts) => Self::TextsIgnoringCase(patterns(texts)),
            Self::Arns(arns) => Self::Arns(arns.iter().filter_map(|arn| arn.for_caller(caller)).collect()),
            Self::Numbers(..) | Self::Dates(..) | Self::Bools(_) | Self::Addresses(_) | Self::Null(_) => {
                self.clone()
            }
        }
    }

    /// Whether a value of a request matches one of them. One that is not of the kind that is compared matches
    /// none.
    pub(super) fn has(&self, value: &str, context: Context<'_>) -> bool {
        match self {
            Self::Texts(texts) => texts.iter().any(|text| text.matches(value, context)),
            Self::TextsIgnoringCase(texts) => {
                texts.iter().any(|text| text.equals_ignoring_case(value, context))
            }
            Self::Arns(arns) => arns.iter().any(|arn| arn.matches(value, context)),
            Self::Numbers(order, numbers) => {
                number(value).is_some_and(|value| numbers.iter().any(|number| order.holds(&value, number)))
            }
            Self::Dates(order, dates) => {
                date::parse(value).is_some_and(|value| dates.iter().any(|date| order.holds(&value, date)))
            }
            Self::Bools(bools) => boolean(value).is_some_and(|value| bools.contains(&value)),
            Self::Addresses(networks) => value.parse().is_ok_and(|address: IpAddr| {
                networks.iter().any(|network| network.contains(&address.to_canonical()))
            }),
            Self::Null(_) => false,
        }
    }

    /// Bytes that they keep beside themselves.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Texts(texts) | Self::TextsIgnoringCase(texts) => {
                allocated(size_of_val(&**texts)) + texts.iter().map(Pattern::heap_bytes).sum::<usize>()
            }
            Self::Arns(arns) => {
                allocated(size_of_val(&**arns)) + arns.iter().map(ArnPattern::heap_bytes).sum::<usize>()
            }
            Self::Numbers(_, numbers) => allocated(numbers.capacity() * size_of::<f64>()),
            Self::Dates(_, dates) => allocated(dates.capacity() * size_of::<i64>()),
            Self::Addresses(networks) => allocated(networks.capacity() * size_of::<IpNet>()),
            Self::Bools(bools) | Self::Null(bools) => allocated(bools.capacity()),
        }
    }

    /// The keys of variables.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        let (texts, arns): (&[Pattern], &[ArnPattern]) = match self {
            Self::Texts(texts) | Self::TextsIgnoringCase(texts) => (texts, &[]),
            Self::Arns(arns) => (&[], arns),
            _ => (&[], &[]),
        };
        texts.iter().flat_map(Pattern::keys).chain(arns.iter().flat_map(ArnPattern::keys))
    }
}

fn each<T>(values: &[&str], read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    values.iter().map(|value| read(value)).collect()
}

fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// A whole or decimal number, such as JSON has.
fn number(text: &str) -> Option<f64> {
    let is_good = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let number = text.bytes().all(is_good).then(|| text.parse().ok())?;
    number.filter(|number: &f64| number.is_finite())
}

/// An address, or a network of addresses.
fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}
