//! Whether a bucket's policy is public: it is, unless all that it allows is bound to fixed values (AWS,
//! "Blocking public access to your Amazon S3 storage", "The meaning of public").

use std::sync::Arc;

use ipnet::IpNet;

use super::caller::ANONYMOUS_ID;
use super::condition::{Condition, Operands, Quantifier};
use super::limits::{PUBLIC_IPV4_BITS, PUBLIC_IPV6_BITS};
use super::principal::PrincipalTest;
use super::statement::{Effect, Statement};

/// Keys that bind a statement when their value is fixed: without wildcards and variables.
const BINDING_KEYS: &[&str] = &[
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceowner",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "aws:userid",
    "aws:username",
    "s3:dataaccesspointaccount",
    "s3:dataaccesspointarn",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
];

pub(crate) fn is_public(statements: &[Arc<Statement>]) -> bool {
    statements.iter().any(|statement| {
        statement.effect == Effect::Allow
            && statement.principals.as_ref().is_some_and(PrincipalTest::is_public)
            && !statement.conditions.iter().any(binds)
    })
}

fn binds(condition: &Condition) -> bool {
    let operator = condition.operator;
    if operator.is_negated || operator.if_exists || operator.quantifier == Quantifier::All {
        return false;
    }
    let is_key = BINDING_KEYS.contains(&&*condition.key.text);
    match &condition.operands {
        Operands::Texts(texts) | Operands::TextsIgnoringCase(texts) => {
            is_key
                && texts
                    .iter()
                    .all(|text| text.fixed().and_then(|glob| glob.literal()).is_some_and(is_of_few))
        }
        Operands::Arns(arns) => is_key && arns.iter().all(super::arn::ArnPattern::is_literal),
        Operands::Addresses(networks) => {
            &*condition.key.text == "aws:sourceip" && networks.iter().all(is_narrow)
        }
        Operands::Numbers(..) | Operands::Dates(..) | Operands::Bools(_) | Operands::Null(_) => false,
    }
}

/// Whether a fixed value is that of few callers: all that are anonymous have one user id.
fn is_of_few(value: &str) -> bool {
    !value.eq_ignore_ascii_case(ANONYMOUS_ID)
}

/// Whether a network is small enough to be a fixed value. Private ones of AWS's exception all are.
fn is_narrow(network: &IpNet) -> bool {
    match network {
        IpNet::V4(network) => network.prefix_len() >= PUBLIC_IPV4_BITS,
        IpNet::V6(network) => network.prefix_len() >= PUBLIC_IPV6_BITS,
    }
}
