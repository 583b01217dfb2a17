//! Conditions of MinIO's policies that say the same here.
//!
//! MinIO gives keys other values than AWS: `aws:userid` is the user's name, `aws:PrincipalType` of a service
//! account is `AssumedRole`, and many keys of S3 are read from the headers and parameters of any request
//! (`getConditionValues` in `cmd/bucket-policy.go` of github.com/minio/minio). Here a key is there for the
//! actions alone that have it. So a condition is taken where it says exactly the same, or where it can only
//! allow less; all others are refused by name.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Values by operator and key.
pub(super) type Conditions = BTreeMap<String, BTreeMap<String, Value>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Effect {
    Allow,
    Deny,
}

/// The variable that has the same value in both stores.
pub(super) const USERNAME: &str = "${aws:username}";

const STRINGS: &[&str] = &["StringEquals", "StringNotEquals", "StringLike", "StringNotLike"];
const ADDRESSES: &[&str] = &["IpAddress", "NotIpAddress"];
const BOOLS: &[&str] = &["Bool"];
const DATES: &[&str] = &[
    "DateEquals",
    "DateNotEquals",
    "DateLessThan",
    "DateLessThanEquals",
    "DateGreaterThan",
    "DateGreaterThanEquals",
];
/// Without `NumericNotEquals`: of a key that is absent MinIO says that it does not hold.
const NUMBERS: &[&str] = &[
    "NumericEquals",
    "NumericLessThan",
    "NumericLessThanEquals",
    "NumericGreaterThan",
    "NumericGreaterThanEquals",
];
/// Operators that do not hold without the key.
const POSITIVE: &[&str] = &[
    "StringEquals",
    "StringEqualsIgnoreCase",
    "StringLike",
    "NumericEquals",
    "NumericLessThan",
    "NumericLessThanEquals",
    "NumericGreaterThan",
    "NumericGreaterThanEquals",
];
/// The actions whose requests have the keys of a listing.
const LISTINGS: [&str; 2] = ["ListBucket", "ListBucketVersions"];

/// How a key is the same in both stores.
#[derive(Debug, Clone, Copy)]
enum Sameness {
    /// All requests have it, with one value.
    Always(&'static [&'static str]),
    /// Requests may lack it here, and have an empty value there.
    OrEmpty(&'static [&'static str]),
    /// All requests of a signer have it.
    OfSigners(&'static [&'static str]),
    /// Requests that list have it.
    OfListings(&'static [&'static str]),
    /// There it may be of other requests, too: it allows less here.
    Less,
}

/// The keys, as MinIO writes them, that are not another store's own.
const KEYS: &[(&str, Sameness)] = &[
    ("aws:SourceIp", Sameness::Always(ADDRESSES)),
    ("aws:SecureTransport", Sameness::Always(BOOLS)),
    ("aws:CurrentTime", Sameness::Always(DATES)),
    ("aws:EpochTime", Sameness::Always(NUMBERS)),
    ("aws:UserAgent", Sameness::OrEmpty(STRINGS)),
    ("aws:Referer", Sameness::OrEmpty(STRINGS)),
    ("aws:username", Sameness::OfSigners(STRINGS)),
    ("s3:prefix", Sameness::OfListings(STRINGS)),
    ("s3:delimiter", Sameness::OfListings(STRINGS)),
    ("s3:max-keys", Sameness::OfListings(NUMBERS)),
    ("s3:ExistingObjectTag", Sameness::Less),
    ("s3:RequestObjectTag", Sameness::Less),
    ("s3:authType", Sameness::Less),
    ("s3:signatureAge", Sameness::Less),
    ("s3:signatureversion", Sameness::Less),
    ("s3:x-amz-content-sha256", Sameness::Less),
    ("s3:x-amz-copy-source", Sameness::Less),
    ("s3:x-amz-metadata-directive", Sameness::Less),
    ("s3:x-amz-server-side-encryption", Sameness::Less),
    ("s3:x-amz-storage-class", Sameness::Less),
];

/// The statement whose conditions are judged.
#[derive(Debug)]
pub(super) struct JudgedStatement<'a> {
    pub(super) effect: Effect,
    /// Whether the statement is of a bucket's policy, which requests without a signature are judged by.
    pub(super) is_of_bucket: bool,
    /// The actions of S3 that it is about, without `s3:`.
    pub(super) actions: &'a BTreeSet<&'static str>,
}

impl JudgedStatement<'_> {
    /// Says why its conditions would say something else here.
    pub(super) fn fault(&self, conditions: &Conditions) -> Option<String> {
        let each = conditions.iter().flat_map(|(operator, keys)| {
            keys.iter().map(move |(key, values)| (operator.as_str(), key.as_str(), values))
        });
        each.into_iter().find_map(|(operator, key, values)| {
            let texts = texts(values);
            if !self.is_same(operator, key, &texts) {
                return Some(format!("its condition {operator} by {key} would say something else here"));
            }
            texts.iter().find_map(|text| self.variable(text))
        })
    }

    fn is_same(&self, operator: &str, key: &str, texts: &[&str]) -> bool {
        let name = key.split_once('/').map_or(key, |(name, _)| name);
        let Some((_, sameness)) = KEYS.iter().find(|(known, _)| *known == name) else { return false };
        let takes_empty = texts.iter().any(|text| text.bytes().all(|byte| byte == b'*'));
        let allows_less = self.effect == Effect::Allow && POSITIVE.contains(&operator);
        match sameness {
            Sameness::Always(operators) => operators.contains(&operator),
            Sameness::OrEmpty(operators) => operators.contains(&operator) && !takes_empty,
            Sameness::OfSigners(operators) => operators.contains(&operator) && !self.is_of_bucket,
            Sameness::OfListings(operators) => {
                let are_listings = self.actions.iter().all(|action| LISTINGS.contains(action));
                operators.contains(&operator) && (are_listings || allows_less)
            }
            Sameness::Less => allows_less && !takes_empty,
        }
    }

    /// Says why a text has a variable that is another one here, or none.
    pub(super) fn variable(&self, text: &str) -> Option<String> {
        let rest = if self.is_of_bucket { text.to_owned() } else { text.replace(USERNAME, "") };
        let (_, variable) = rest.split_once("${")?;
        let name = variable.split('}').next().unwrap_or_default();
        Some(format!("it has the variable ${{{name}}}, which has no such value here"))
    }
}

/// The texts among values.
fn texts(values: &Value) -> Vec<&str> {
    match values {
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        value => value.as_str().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIST: &[&str] = &["ListBucket"];
    const ALL: &[&str] = &["ListBucket", "GetObject"];

    fn is_taken(effect: Effect, actions: &[&'static str], condition: Value) -> bool {
        let actions = actions.iter().copied().collect();
        let statement = JudgedStatement { effect, is_of_bucket: false, actions: &actions };
        statement.fault(&serde_json::from_value(condition).expect("conditions")).is_none()
    }

    #[test]
    fn conditions_that_say_the_same_are_taken_and_no_others() {
        use Effect::{Allow, Deny};
        for (operator, key, value, on) in [
            ("NotIpAddress", "aws:SourceIp", "10.0.0.0/8", [true; 4]),
            ("Bool", "aws:SecureTransport", "false", [true; 4]),
            ("DateGreaterThan", "aws:CurrentTime", "2030-01-01T00:00:00Z", [true; 4]),
            ("StringNotEquals", "aws:username", "ada", [true; 4]),
            ("StringLike", "s3:prefix", "${aws:username}/*", [true, true, true, false]),
            ("StringNotLike", "s3:prefix", "a/*", [true, false, true, false]),
            ("StringLike", "aws:Referer", "https://a/*", [true; 4]),
            ("StringNotLike", "aws:Referer", "*", [false; 4]),
            ("StringEquals", "s3:ExistingObjectTag/a", "b", [true, true, false, false]),
            ("StringNotEquals", "s3:ExistingObjectTag/a", "b", [false; 4]),
            ("StringEquals", "s3:x-amz-storage-class", "STANDARD", [true, true, false, false]),
            // The name of a user there, and an id here.
            ("StringEquals", "aws:userid", "ada", [false; 4]),
            ("StringNotEquals", "aws:userid", "ada", [false; 4]),
            ("StringEquals", "AWS:UserId", "ada", [false; 4]),
            ("StringEquals", "aws:principaltype", "AssumedRole", [false; 4]),
            ("StringEquals", "aws:PrincipalType", "User", [false; 4]),
            ("StringEquals", "aws:groups", "devs", [false; 4]),
            ("StringEquals", "jwt:sub", "ada", [false; 4]),
            ("StringLike", "ldap:user", "uid=*", [false; 4]),
            ("ForAllValues:StringNotEquals", "s3:prefix", "a", [false; 4]),
            ("Null", "aws:Referer", "true", [false; 4]),
            ("StringLike", "s3:prefix", "${aws:userid}/*", [false; 4]),
            ("StringLike", "s3:prefix", "${jwt:sub}/*", [false; 4]),
            ("StringEquals", "aws:SourceIp", "10.0.0.1", [false; 4]),
        ] {
            let found = [(Allow, LIST), (Allow, ALL), (Deny, LIST), (Deny, ALL)]
                .map(|(effect, actions)| is_taken(effect, actions, json!({operator: {key: [value]}})));
            assert_eq!(found, on, "{operator} {key} {value}: Allow and Deny of a listing and of more");
        }
    }

    #[test]
    fn a_policy_of_a_bucket_names_no_user() {
        let actions = ["GetObject"].into();
        let statement = JudgedStatement { effect: Effect::Allow, is_of_bucket: true, actions: &actions };
        let by_name = serde_json::from_value(json!({"StringNotEquals": {"aws:username": "ada"}}));
        assert!(statement.fault(&by_name.expect("conditions")).is_some());
        assert!(statement.variable("arn:aws:s3:::app/${aws:username}").is_some());
        assert!(statement.variable("arn:aws:s3:::app/a").is_none());
    }
}
