//! The reasons of decisions: which statements, which conditions, which keys were missing.

use std::sync::Arc;

use super::cases::FactTable;
use crate::limits::SHOWN_BYTES_MAX;
use crate::{
    BucketRules, Effect, ExplainedRights, Explanation, Identity, Policy, PolicyForm, Resource, UserIdentity,
    Verdict,
};

const OWN: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/${aws:username}/*"},
    {"Effect": "Allow", "Action": "s3:*", "Resource": "*",
     "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}, "Bool": {"aws:MultiFactorAuthPresent": "true"}}},
    {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "*",
     "Condition": {"StringNotLike": {"aws:PrincipalTag/team": "b*"}}}]}"#;
const SHARED: &str = r#"{"Statement": [
    {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::000000000001:user/eve"}, "Action": "s3:*", "Resource": "arn:aws:s3:::data/*"},
    {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*/secret",
     "Condition": {"Null": {"s3:ExistingObjectTag/open": "true"}}}]}"#;

fn explain(action: &str, key: &str, name: &str, facts: &[(&str, &str)]) -> Explanation {
    let parse = |text: &str, form| Arc::new(Policy::parse(text.as_bytes(), form).expect("a policy"));
    let identity = Identity::User(UserIdentity {
        arn: String::new(),
        name: name.to_owned(),
        id: String::new(),
        tags: vec![],
        policies: vec![parse(OWN, PolicyForm::Identity)],
    });
    let rules = BucketRules {
        name: "data".to_owned(),
        policy: Some(parse(SHARED, PolicyForm::Bucket { name: "data" })),
        restrict_public_buckets: false,
    };
    let rights = ExplainedRights::new(Arc::new(identity), Some(rules));
    rights.explain(action, Resource::Object("data", key), &FactTable::of(facts))
}

/// The statements that decided, by policy and number.
fn deciding(explanation: &Explanation) -> Vec<(Option<usize>, usize)> {
    explanation.deciding().map(|found| (found.policy, found.number)).collect()
}

#[test]
fn the_statements_that_decide_are_named_by_policy_and_number() {
    let allowed = explain("s3:GetObject", "bob/a", "bob", &[]);
    assert_eq!((allowed.verdict, deciding(&allowed)), (Verdict::Allowed, vec![(Some(0), 0)]));
    let denied = explain("s3:GetObject", "bob/secret", "bob", &[]);
    assert_eq!((denied.verdict, deciding(&denied)), (Verdict::DeniedExplicitly, vec![(None, 1)]));
    let open = explain("s3:GetObject", "bob/secret", "bob", &[("s3:ExistingObjectTag/open", "")]);
    assert_eq!((open.verdict, deciding(&open)), (Verdict::Allowed, vec![(Some(0), 0)]));
    let own = explain("s3:DeleteObject", "bob/a", "bob", &[]);
    assert_eq!((own.verdict, deciding(&own)), (Verdict::DeniedExplicitly, vec![(Some(0), 2)]));
    assert_eq!(own.statements.len(), 2, "the bucket's first statement is about another user");
}

#[test]
fn conditions_that_fail_are_named_with_what_the_request_has() {
    let refused = explain("s3:PutObject", "a", "bob", &[("aws:SourceIp", "192.0.2.1")]);
    assert_eq!((refused.verdict, deciding(&refused)), (Verdict::DeniedImplicitly, vec![]));
    let [near] = &*refused.statements else { panic!("{refused:?}") };
    assert_eq!((near.policy, near.number, near.effect, near.matches()), (Some(0), 1, Effect::Allow, false));
    let failed: Vec<_> = near.failed.iter().map(|failed| (&*failed.key, failed.values.clone())).collect();
    let known = Some(vec!["192.0.2.1".to_owned()]);
    assert_eq!(failed, [("aws:SourceIp", known), ("aws:MultiFactorAuthPresent", None)]);
    assert_eq!(Vec::from_iter(&refused.absent_keys), ["aws:MultiFactorAuthPresent"]);
}

#[test]
fn a_long_value_is_cut_where_a_reason_names_it() {
    let long = format!("{}\u{e4}{}", "1".repeat(SHOWN_BYTES_MAX - 1), "2".repeat(8 << 10));
    let explained = explain("s3:GetObject", "ada/a", "ada", &[("aws:SourceIp", &long)]);
    let shown =
        explained.statements.iter().flat_map(|found| &found.failed).find_map(|failed| failed.values.clone());
    assert_eq!(shown, Some(vec![format!("{}...", "1".repeat(SHOWN_BYTES_MAX - 1))]));
}

#[test]
fn keys_that_the_request_lacks_are_named_those_of_an_unknown_caller_included() {
    let unknown = explain("s3:GetObject", "bob/a", "", &[]);
    assert_eq!(unknown.verdict, Verdict::DeniedImplicitly);
    let missing = ["aws:MultiFactorAuthPresent", "aws:SourceIp", "aws:username"];
    assert_eq!(Vec::from_iter(&unknown.absent_keys), missing);
    let elsewhere = explain("s3:ListBucket", "a", "bob", &[]);
    assert_eq!(Vec::from_iter(&elsewhere.absent_keys), missing[..2].to_vec(), "of statements on the action");
}

#[test]
fn a_policy_names_the_keys_that_it_asks_for() {
    let policy = Policy::parse(OWN.as_bytes(), PolicyForm::Identity).expect("a policy");
    let keys = ["aws:MultiFactorAuthPresent", "aws:PrincipalTag/team", "aws:SourceIp", "aws:username"];
    assert_eq!(Vec::from_iter(policy.context_keys()), keys);
}
