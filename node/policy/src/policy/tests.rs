//! Documents that are taken and refused, in AWS's words, and which are public.

use std::sync::Arc;

use crate::{
    BucketRules, Facts, Identity, KeyName, Policy, PolicyForm, Resource, Rights, UserIdentity, Values,
    Verdict,
};

const BUCKET: PolicyForm<'_> = PolicyForm::Bucket { name: "data" };

fn refusal(text: &str, form: PolicyForm<'_>) -> String {
    match Policy::parse_new(text.as_bytes(), form) {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn statement(elements: &str) -> String {
    format!(r#"{{"Version": "2012-10-17", "Statement": [{{{elements}}}]}}"#)
}

const GOOD: &str =
    r#""Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*""#;

/// The good statement with one element in place of the one that begins alike.
fn with(element: &str) -> String {
    let parts = [
        r#""Effect": "Allow""#,
        r#""Principal": "*""#,
        r#""Action": "s3:GetObject""#,
        r#""Resource": "arn:aws:s3:::data/*""#,
    ];
    let name = |text: &str| text.split(':').next().map(str::to_owned);
    let kept = parts.iter().copied().filter(|part| name(part) != name(element));
    let all: Vec<_> = kept.chain([element]).collect();
    statement(&all.join(", "))
}

#[test]
fn s3_refuses_a_bucket_policy_in_its_words() {
    const JSON: &str = "Policies must be valid JSON and the first byte must be '{'";
    const SYNTAX: &str = "Invalid policy syntax.";
    const PRINCIPAL: &str = "Invalid principal in policy";
    const ACTION: &str = "Policy has invalid action";
    const RESOURCE: &str = "Policy has invalid resource";
    const KEY: &str = "Policy has an invalid condition key";
    const APPLIES: &str = "Action does not apply to any resource(s) in statement";
    const CONDITIONS: &str = "Conditions do not apply to combination of actions and resources in statement";
    let twice = format!(r#"{{"Statement": [{{"Sid": "a", {GOOD}}}, {{"Sid": "a", {GOOD}}}]}}"#);
    let prefix = r#""Condition": {"StringEquals": {"s3:prefix": "a"}}"#;
    let table: &[(&str, &str)] = &[
        (&statement(GOOD), "taken"),
        ("", JSON),
        (" {}", JSON),
        ("[]", JSON),
        ("{\"Statement\": \u{feff}}", JSON),
        (r#"{"Statement": [], "Statement": []}"#, JSON),
        (r#"{"Statement": 1e999}"#, JSON),
        ("{} x", JSON),
        ("{}", "Missing required field Statement"),
        (r#"{"Statement": []}"#, "Could not parse the policy: Statement is empty!"),
        (r#"{"Statement": ["x"]}"#, SYNTAX),
        (r#"{"Version": "2020-01-01", "Statement": []}"#, "The policy must contain a valid version string"),
        (r#"{"Policy": 1, "Statement": []}"#, "Unknown field Policy"),
        (r#"{"Id": 1, "Statement": []}"#, SYNTAX),
        (&twice, "Statement IDs (SID) in a single policy must be unique."),
        (&with(r#""Sid": 1"#), SYNTAX),
        (&with(r#""Sid": "a b""#), "taken"),
        (&with(r#""Comment": "x""#), "Unknown field Comment"),
        (
            &statement(r#""Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::data""#),
            "Missing required field Effect",
        ),
        (&with(r#""Effect": "allow""#), "Invalid effect: allow"),
        (
            &statement(r#""Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::data""#),
            "Missing required field Principal",
        ),
        (&with(r#""Principal": {}"#), PRINCIPAL),
        (&with(r#""Principal": "bob""#), PRINCIPAL),
        (&with(r#""Principal": {"AWS": []}"#), PRINCIPAL),
        (&with(r#""Principal": {"AWS": "*"}"#), "taken"),
        (&with(r#""Principal": {"AWS": ["000000000001", "arn:aws:iam::000000000001:user/a/b"]}"#), "taken"),
        (&with(r#""Principal": {"AWS": "AIDA0123456789ABCDEF"}"#), "taken"),
        (&with(r#""Principal": {"AWS": "arn:aws:iam::000000000001:user/*"}"#), PRINCIPAL),
        (&with(r#""Principal": {"AWS": "arn:aws:iam::000000000001:group/a"}"#), PRINCIPAL),
        (&with(r#""Principal": {"AWS": "arn:aws:iam::123456789012:root"}"#), PRINCIPAL),
        (&with(r#""Principal": {"Service": "logging.s3.amazonaws.com"}"#), "taken"),
        (&with(r#""Principal": {"Service": "logging"}"#), PRINCIPAL),
        (&with(r#""Principal": {"Federated": "accounts.example.com"}"#), "taken"),
        (&with(r#""Principal": {"CanonicalUser": "00"}"#), PRINCIPAL),
        (&with(r#""Principal": {"Role": "x"}"#), PRINCIPAL),
        (&with(r#""NotPrincipal": "*""#), SYNTAX),
        (
            &statement(
                r#""Effect": "Allow", "NotPrincipal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::data""#,
            ),
            "Allow with NotPrincipal is not allowed.",
        ),
        (&with(r#""Action": "GetObject""#), ACTION),
        (&with(r#""Action": "s3:Foo""#), ACTION),
        (&with(r#""Action": ["s3:GetObject", "ec2:RunInstances"]"#), ACTION),
        (&with(r#""Action": []"#), "Missing required field Action"),
        (&with(r#""Action": 1"#), SYNTAX),
        (&with(r#""Action": "*""#), "taken"),
        (&with(r#""Action": "S3:GETOBJECT""#), "taken"),
        (&with(r#""Action": "s3:ListBucket""#), APPLIES),
        (&with(r#""Action": ["s3:GetObject", "s3:ListBucket"]"#), APPLIES),
        (&with(r#""Action": "s3:ListAllMyBuckets""#), APPLIES),
        (&with(r#""Action": "s3:*""#), "taken"),
        (&with(r#""Resource": "arn:aws:s3:::data""#), APPLIES),
        (&with(r#""Resource": "arn:aws:s3:::data*""#), "taken"),
        (&with(r#""Resource": ["arn:aws:s3:::data", "arn:aws:s3:::data/a?${aws:username}"]"#), "taken"),
        (&with(r#""Resource": "arn:aws:s3:::other/*""#), RESOURCE),
        (&with(r#""Resource": "arn:aws:s3:::data2/*""#), RESOURCE),
        (&with(r#""Resource": "*""#), RESOURCE),
        (&with(r#""Resource": "data/*""#), RESOURCE),
        (&with(r#""Resource": []"#), "Missing required field Resource"),
        (&with(r#""Condition": {"StringIs": {"aws:Referer": "a"}}"#), "Invalid Condition type : StringIs"),
        (&with(r#""Condition": {"StringEquals": {"s3:foo": "a"}}"#), KEY),
        (&with(r#""Condition": {"StringEquals": {"aws:foo": "a"}}"#), KEY),
        (&with(r#""Condition": {"StringEquals": {"aws:RequestTag": "a"}}"#), KEY),
        (&with(r#""Condition": {"StringEquals": {"AWS:referer": "a"}}"#), "taken"),
        (&with(r#""Condition": {"StringEquals": {"aws:SourceVpce": "vpce-1"}}"#), "taken"),
        (&with(r#""Condition": {"NumericEquals": {"aws:Referer": "a"}}"#), SYNTAX),
        (&with(r#""Condition": []"#), SYNTAX),
        (&with(prefix), CONDITIONS),
    ];
    for (text, expected) in table {
        assert_eq!(refusal(text, BUCKET), *expected, "{text}");
    }
}

#[test]
fn iam_refuses_a_policy_of_an_identity_in_its_words() {
    const SYNTAX: &str = "Syntax errors in policy.";
    const VENDOR: &str = "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.";
    let own = |elements: &str| statement(&format!(r#""Effect": "Allow", {elements}"#));
    let table: &[(&str, &str)] = &[
        (&own(r#""Action": "*", "Resource": "*""#), "taken"),
        (&own(r#""Action": "iam:Get*", "Resource": "arn:aws:iam::*:user/${aws:username}""#), "taken"),
        (&own(r#""Action": "s3:*", "Resource": "arn:aws:s3"#), SYNTAX),
        (&own(r#""Action": "s3:*", "Resource": "arn:aws:s3""#), "taken"),
        ("", SYNTAX),
        ("{}", SYNTAX),
        (r#"{"Version": "2012", "Statement": []}"#, "The policy must contain a valid version string"),
        (
            &own(r#""Principal": "*", "Action": "s3:*", "Resource": "*""#),
            "Policy document should not specify a principal.",
        ),
        (&own(r#""Resource": "*""#), "Policy statement must contain actions."),
        (&own(r#""Action": "s3:*""#), "Policy statement must contain resources."),
        (&own(r#""Action": "GetObject", "Resource": "*""#), VENDOR),
        (&own(r#""Action": "s*:Get", "Resource": "*""#), "Vendor s* is not valid"),
        (&own(r#""Action": "s3:", "Resource": "*""#), SYNTAX),
        (&own(r#""Action": "s3:*", "Resource": "data""#), r#"Resource data must be in ARN format or "*"."#),
        (
            &own(r#""Action": "s3:*", "Resource": "arn:x:s3:::a""#),
            r#"Partition "x" is not valid for resource "arn:x:s3:::a"."#,
        ),
        (&own(r#""Action": "s3:*", "Resource": "*", "Condition": {"Bool": {"x": "true"}}"#), VENDOR),
        (&own(r#""Action": "s3:*", "Resource": "*", "Condition": {"Bool": {"my:key": "true"}}"#), "taken"),
        (&own(r#""Action": "s3:*", "NotAction": "s3:*", "Resource": "*""#), SYNTAX),
        (
            &own(r#""Sid": "a b", "Action": "s3:*", "Resource": "*""#),
            "Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular expression \
             [0-9A-Za-z]*",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(refusal(text, PolicyForm::Identity), *expected, "{text}");
    }
    let old = r#"{"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}"#;
    assert_eq!(refusal(old, PolicyForm::Identity), "taken", "an inline policy may be of 2008");
    assert_eq!(refusal(old, PolicyForm::Managed), "Policy document must be version 2012-10-17 or greater.");
}

#[test]
fn documents_are_bounded() {
    let deep = format!("{{\"Statement\": {}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    assert!(Policy::parse(deep.as_bytes(), BUCKET).is_err());
    let long = format!("{{\"Id\": \"{}\", \"Statement\": []}}", "x".repeat(200_000));
    assert!(Policy::parse(long.as_bytes(), BUCKET).is_err());
    let number = format!(r#""Condition": {{"NumericEquals": {{"s3:TlsVersion": {}}}}}"#, "9".repeat(1000));
    assert!(Policy::parse(with(&number).as_bytes(), BUCKET).is_err());
    assert!(Policy::parse(b"{\"Id\": \"\xff\", \"Statement\": []}", BUCKET).is_err());
}

#[test]
fn a_policy_keeps_its_text_and_names_the_users_that_have_to_exist() {
    let text = with(r#""Principal": {"AWS": ["arn:aws:iam::000000000001:user/a", "000000000001"]}"#);
    let policy = Policy::parse(text.as_bytes(), BUCKET).expect("a policy");
    assert_eq!(policy.document(), text);
    assert_eq!(policy.users().collect::<Vec<_>>(), ["arn:aws:iam::000000000001:user/a"]);
}

#[test]
fn a_policy_is_about_the_ids_of_the_users_that_it_names() {
    let (a, id) = ("arn:aws:iam::000000000001:user/a", "AIDAAAAAAAAAAAAAAAAAA");
    let user = |arn: &str, id: &str| {
        Arc::new(Identity::User(UserIdentity {
            arn: arn.to_owned(),
            name: "a".to_owned(),
            id: id.to_owned(),
            tags: vec![],
            policies: vec![],
        }))
    };
    let of_a = format!("{{\"AWS\": [\"{a}\", \"000000000001\"]}}");
    let granted = with(&format!("\"Principal\": {of_a}"));
    let denied = granted.replace("Allow", "Deny");
    let denied_but_a =
        with(&format!("\"Effect\": \"Deny\", \"NotPrincipal\": {of_a}")).replace("\"Principal\": \"*\",", "");
    for (text, of_the_id, of_another) in [
        (granted, Verdict::Allowed, Verdict::DeniedImplicitly),
        (denied.replace(", \"000000000001\"", ""), Verdict::DeniedExplicitly, Verdict::DeniedImplicitly),
        (denied_but_a, Verdict::DeniedImplicitly, Verdict::DeniedExplicitly),
    ] {
        let sent = Policy::parse(text.as_bytes(), BUCKET).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(sent.with_users("data", &|_| None).is_err(), "a user without an id");
        let policy = sent.with_users("data", &|arn| (arn == a).then(|| id.to_owned())).expect("a policy");
        assert_eq!(policy.document(), text.replace(a, id));
        let policy = Some(Arc::new(policy));
        let rules = BucketRules { name: "data".to_owned(), policy, restrict_public_buckets: false };
        for (arn, of, verdict) in [
            (a, id, of_the_id),
            ("arn:aws:iam::000000000001:user/path/a", id, of_the_id),
            (a, "AIDABBBBBBBBBBBBBBBBB", of_another),
        ] {
            let rights = Rights::new(&user(arn, of), Some(&rules));
            let decided = rights.decide("s3:GetObject", Resource::Object("data", "k"), &NoFacts);
            assert_eq!(decided, verdict, "{text} {arn} {of}");
        }
    }
}

/// A request that has no value of any key.
struct NoFacts;

impl Facts for NoFacts {
    fn values(&self, _: KeyName, _: &str) -> Values<'_> {
        Values::Absent
    }
}

#[test]
fn a_policy_is_public_unless_all_that_it_allows_is_bound_to_fixed_values() {
    let condition = |operator: &str, key: &str, value: &str| {
        with(&format!(r#""Condition": {{"{operator}": {{"{key}": {value}}}}}"#))
    };
    let table = [
        (statement(GOOD), true),
        (with(r#""Principal": {"AWS": "*"}"#), true),
        (with(r#""Principal": {"AWS": "000000000001"}"#), false),
        (with(r#""Principal": {"Service": "logging.s3.amazonaws.com"}"#), false),
        (with(r#""Principal": {"Federated": "graph.facebook.com"}"#), true),
        (with(r#""Principal": {"AWS": "000000000001", "Federated": "graph.facebook.com"}"#), true),
        (with(r#""Effect": "Deny""#), false),
        (condition("StringLike", "aws:SourceVpc", r#""vpc-*""#), true),
        (condition("StringLike", "aws:SourceVpc", r#""vpc-91237329""#), false),
        (condition("StringEquals", "aws:SourceVpc", r#"["vpc-91237329", "vpc-1"]"#), false),
        (condition("StringEquals", "aws:SourceVpc", r#""${aws:PrincipalTag/vpc}""#), true),
        (condition("StringNotEquals", "aws:SourceVpc", r#""vpc-1""#), true),
        (condition("StringEqualsIfExists", "aws:SourceVpc", r#""vpc-1""#), true),
        (condition("ForAllValues:StringEquals", "aws:PrincipalOrgPaths", r#""o-1/""#), true),
        (condition("ForAnyValue:StringEquals", "aws:PrincipalOrgPaths", r#""o-1/""#), false),
        (condition("StringEquals", "aws:PrincipalOrgID", r#""o-1""#), false),
        (condition("StringEquals", "aws:Referer", r#""example.com""#), true),
        (condition("StringLike", "aws:userid", r#""AROAEXAMPLEID:*""#), true),
        (condition("StringEquals", "aws:userid", r#""AIDAEXAMPLEID""#), false),
        (condition("StringEquals", "aws:userid", r#"["AIDAEXAMPLEID", "anonymous"]"#), true),
        (condition("StringEqualsIgnoreCase", "aws:userid", r#""Anonymous""#), true),
        (condition("ArnEquals", "aws:SourceArn", r#""arn:aws:s3:::other""#), false),
        (condition("ArnLike", "aws:SourceArn", r#""arn:aws:s3:::*""#), true),
        (condition("IpAddress", "aws:SourceIp", r#"["203.0.113.0/24", "10.0.0.0/8"]"#), false),
        (condition("IpAddress", "aws:SourceIp", r#"["203.0.113.0/24", "0.0.0.0/0"]"#), true),
        (condition("IpAddress", "aws:SourceIp", r#""2001:db8::/32""#), false),
        (condition("IpAddress", "aws:SourceIp", r#""2001::/16""#), true),
        (condition("NotIpAddress", "aws:SourceIp", r#""203.0.113.0/24""#), true),
        (condition("Bool", "aws:SecureTransport", r#""true""#), true),
    ];
    for (text, expected) in table {
        let policy = Policy::parse(text.as_bytes(), BUCKET).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(policy.is_public(), expected, "{text}");
    }
}

/// A policy of one statement with one condition.
fn conditional(effect: &str, operator: &str, key: &str, rest: &str) -> String {
    format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "{effect}", "Action": "*", "Resource": "*"{rest},
            "Condition": {{"{operator}": {{"{key}": "true"}}}}}}}}"#
    )
}

#[test]
fn a_new_policy_does_not_rely_on_keys_that_no_request_has() {
    // A denial that never matches, or an Allow whose restriction always holds.
    let lenient = [
        ("Deny", "StringEquals"),
        ("Deny", "ForAnyValue:StringLike"),
        ("Allow", "StringNotEquals"),
        ("Allow", "StringEqualsIfExists"),
        ("Allow", "ForAllValues:StringEquals"),
        ("Allow", "Null"),
    ];
    let strict = [
        ("Deny", "StringNotEquals"),
        ("Deny", "StringEqualsIfExists"),
        ("Deny", "Null"),
        ("Allow", "StringEquals"),
        ("Allow", "ForAnyValue:StringEquals"),
    ];
    let refused = |key: &str| {
        let key = key.to_ascii_lowercase();
        format!(
            "Condition key {key} is not supported: no request has it, so the statement would not restrict anything."
        )
    };
    let parse = |document: &str| {
        Policy::parse(document.as_bytes(), PolicyForm::Identity).expect("one that is stored is read");
        Policy::parse_new(document.as_bytes(), PolicyForm::Identity)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    for key in [
        "s3:object-lock-remaining-retention-days",
        "s3:BucketTag/team",
        "s3:NewKey",
        "iam:PermissionsBoundary",
        "iam:AWSServiceName",
    ] {
        for (effect, operator) in lenient {
            assert_eq!(
                parse(&conditional(effect, operator, key, "")),
                Err(refused(key)),
                "{effect} {operator}"
            );
        }
        for (effect, operator) in strict {
            assert_eq!(parse(&conditional(effect, operator, key, "")), Ok(()), "{effect} {operator} {key}");
        }
        let variable = conditional("Allow", "StringEquals", "aws:username", "")
            .replace("\"true", &format!("\"${{{key}}}"));
        assert_eq!(parse(&variable), Err(refused(key)));
    }
    for key in [
        "s3:BucketTag/sherd.dev/bucket",
        "s3:TlsVersion",
        "iam:PolicyARN",
        "iam:ResourceTag/team",
        "aws:ResourceTag/team",
        "aws:TagKeys",
        "s3:prefix",
        "aws:SourceVpc",
        "aws:MultiFactorAuthPresent",
        "ec2:Region",
    ] {
        for (effect, operator) in lenient {
            assert_eq!(parse(&conditional(effect, operator, key, "")), Ok(()), "{effect} {operator} {key}");
        }
    }
}

#[test]
fn a_new_policy_of_a_bucket_does_not_rely_on_keys_of_iam() {
    let form = PolicyForm::Bucket { name: "data" };
    let of_bucket = |effect: &str, operator: &str, key: &str| {
        let document = conditional(effect, operator, key, r#", "Principal": "*""#)
            .replace(r#""Resource": "*""#, r#""Resource": ["arn:aws:s3:::data", "arn:aws:s3:::data/*"]"#);
        Policy::parse_new(document.as_bytes(), form).map(drop).map_err(|error| error.to_string())
    };
    let invalid = Err("Policy has an invalid condition key".to_owned());
    for key in ["s3:BucketTag/team", "aws:ResourceTag/team"] {
        assert_eq!(of_bucket("Deny", "StringEquals", key), invalid, "{key}");
        assert_eq!(of_bucket("Deny", "StringNotEquals", key), Ok(()), "{key}");
    }
    for key in ["s3:TlsVersion", "aws:RequestTag/team", "aws:ResourceTag/sherd.dev/bucket"] {
        assert_eq!(of_bucket("Deny", "StringEquals", key), Ok(()), "{key}");
    }
    assert_eq!(of_bucket("Deny", "StringNotEquals", "iam:PolicyARN"), invalid);
}

#[test]
fn a_denial_by_a_key_that_its_action_lacks_is_idle() {
    for (effect, action, key, is_idle) in [
        ("Deny", "s3:GetObject", "s3:x-amz-acl", true),
        ("Deny", "s3:PutObject", "s3:x-amz-acl", false),
        ("Allow", "s3:GetObject", "s3:x-amz-acl", false),
    ] {
        let document = format!(
            r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "{effect}", "Principal": "*", "Action": "{action}",
                "Resource": "arn:aws:s3:::b/*", "Condition": {{"StringEquals": {{"{key}": "private"}}}}}}}}"#
        );
        let policy =
            Policy::parse(document.as_bytes(), PolicyForm::Bucket { name: "b" }).expect("it is stored");
        assert_eq!(policy.has_idle_denial(), is_idle, "{effect} {action} {key}");
    }
}

#[test]
fn a_new_policy_for_s3_does_not_rely_on_keys_that_its_actions_lack() {
    let parse = |actions: &str, key: &str| {
        let document = conditional("Deny", "StringEquals", key, "")
            .replace(r#""Action": "*""#, &format!(r#""Action": {actions}"#));
        Policy::parse_new(document.as_bytes(), PolicyForm::Identity).is_ok()
    };
    let all = r#"["s3:*", "S3:Put*"]"#;
    let (tagging, reading) = (r#"["s3:CreateBucket", "s3:GetObject"]"#, r#""s3:GetObject""#);
    let (tags, resource, mark) =
        ("aws:RequestTag/team", "aws:ResourceTag/team", "aws:ResourceTag/sherd.dev/bucket");
    for (actions, key, is_taken) in [
        (all, tags, true),
        (all, resource, false),
        (all, mark, true),
        (all, "iam:ResourceTag/team", false),
        (all, "iam:PolicyARN", false),
        (tagging, "aws:TagKeys", true),
        (reading, "aws:TagKeys", false),
        (reading, tags, false),
        (reading, "s3:TlsVersion", true),
        (r#"["s3:*", "iam:*"]"#, resource, true),
        (r#""iam:*""#, tags, true),
    ] {
        assert_eq!(parse(actions, key), is_taken, "{actions} {key}");
    }
    let others = conditional("Deny", "StringEquals", resource, "").replace("Action", "NotAction");
    assert!(
        Policy::parse_new(others.replace(r#"on": "*""#, r#"on": "s3:*""#).as_bytes(), PolicyForm::Identity)
            .is_ok()
    );
}
