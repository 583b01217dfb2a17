//! Examples of AWS's documentation, and what they decide.

use std::sync::Arc;

use super::cases::FactTable;
use crate::{BucketRules, Identity, Policy, PolicyForm, Resource, Rights, UserIdentity, Verdict};

fn facts(facts: &[(&str, &str)]) -> FactTable {
    FactTable::of(facts)
}

fn user(name: &str, policies: &[&str]) -> Arc<Identity> {
    let parse =
        |json: &&str| Arc::new(Policy::parse(json.as_bytes(), PolicyForm::Identity).expect("a policy"));
    Arc::new(Identity::User(UserIdentity {
        arn: format!("arn:aws:iam::000000000001:user/{name}"),
        name: name.to_owned(),
        id: format!("AIDA{:0>16}", name.to_ascii_uppercase()),
        tags: vec![],
        policies: policies.iter().map(parse).collect(),
    }))
}

fn rules(name: &str, policy: &str) -> BucketRules {
    let policy = Policy::parse(policy.as_bytes(), PolicyForm::Bucket { name }).expect("a policy");
    BucketRules { name: name.to_owned(), policy: Some(Arc::new(policy)), restrict_public_buckets: false }
}

const HOME: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::home",
     "Condition": {"StringLike": {"s3:prefix": ["", "${aws:username}/*"]}}},
    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"],
     "Resource": "arn:aws:s3:::home/${aws:username}/*"}
]}"#;

#[test]
fn a_user_has_a_folder_of_its_own() {
    let bob = user("bob", &[HOME]);
    let rights = Rights::new(&bob, Some(&BucketRules { name: "home".into(), ..BucketRules::default() }));
    let decide = |action, resource, facts: &FactTable| rights.decide(action, resource, facts);
    let none = facts(&[]);
    assert_eq!(decide("s3:GetObject", Resource::Object("home", "bob/a"), &none), Verdict::Allowed);
    assert_eq!(decide("s3:GetObject", Resource::Object("home", "eve/a"), &none), Verdict::DeniedImplicitly);
    assert_eq!(
        decide("s3:DeleteObject", Resource::Object("home", "bob/a"), &none),
        Verdict::DeniedImplicitly
    );
    assert_eq!(
        decide("s3:ListBucket", Resource::Bucket("home"), &facts(&[("s3:prefix", "bob/b")])),
        Verdict::Allowed
    );
    assert_eq!(decide("s3:ListBucket", Resource::Bucket("home"), &none), Verdict::DeniedImplicitly);
}

#[test]
fn a_bucket_policy_grants_to_the_public_unless_that_is_restricted() {
    let mut rules = rules(
        "site",
        r#"{"Version": "2012-10-17", "Statement": [{"Sid": "PublicRead", "Effect": "Allow", "Principal": "*",
            "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::site/*"}]}"#,
    );
    let anyone = Arc::new(Identity::Anonymous);
    let get = |rules: &BucketRules, who| {
        Rights::new(who, Some(rules)).decide("s3:GetObject", Resource::Object("site", "index.html"), &())
    };
    assert!(rules.policy.as_ref().is_some_and(|policy| policy.is_public()));
    assert_eq!(get(&rules, &anyone), Verdict::Allowed);
    rules.restrict_public_buckets = true;
    assert_eq!(get(&rules, &anyone), Verdict::DeniedImplicitly);
    assert_eq!(get(&rules, &user("bob", &[])), Verdict::Allowed, "the account's users are not the public");
}

#[test]
fn a_deny_of_the_bucket_binds_the_root_but_for_the_policy_itself() {
    let rules = rules(
        "vault",
        r#"{"Statement": {"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": "s3:*",
            "Resource": ["arn:aws:s3:::vault", "arn:aws:s3:::vault/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}}}}"#,
    );
    let rights = Rights::new(&Arc::new(Identity::Root), Some(&rules));
    let plain = facts(&[("aws:SecureTransport", "false")]);
    let secure = facts(&[("aws:SecureTransport", "true")]);
    let object = Resource::Object("vault", "k");
    assert_eq!(rights.decide("s3:GetObject", object, &secure), Verdict::Allowed);
    assert_eq!(rights.decide("s3:GetObject", object, &plain), Verdict::DeniedExplicitly);
    assert_eq!(rights.decide("s3:PutBucketPolicy", Resource::Bucket("vault"), &plain), Verdict::Allowed);
}
