//! Examples of AWS's documentation, and what they decide.

use std::sync::Arc;

use super::cases::FactTable;
use crate::{BucketRules, Identity, KeyName, Policy, PolicyForm, Resource, Rights, UserIdentity, Verdict};

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
        tags: if name == "tagged" { vec![("Team".to_owned(), "yellow".to_owned())] } else { vec![] },
        policies: policies.iter().map(parse).collect(),
    }))
}

fn rules(name: &str, policy: &str) -> BucketRules {
    let policy = Policy::parse(policy.as_bytes(), PolicyForm::Bucket { name }).expect("a policy");
    BucketRules { name: name.to_owned(), policy: Some(Arc::new(policy)), restrict_public_buckets: false }
}

/// An example: its own policies' statements, the bucket's, and requests with their verdicts.
struct Example {
    about: &'static str,
    own: &'static str,
    shared: &'static str,
    requests: &'static [Request],
}

/// A user ("" has no signature), an action, a bucket's key ("" is the bucket), facts, and the verdict.
type Request = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)], Verdict);

const YES: Verdict = Verdict::Allowed;
const DENIED: Verdict = Verdict::DeniedExplicitly;
const NO: Verdict = Verdict::DeniedImplicitly;

const EVERYTHING: &str = r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}"#;

#[rustfmt::skip]
const EXAMPLES: &[Example] = &[
    Example {
        about: "IAM: allow users to access their own folder",
        own: r#"{"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::data",
                 "Condition": {"StringLike": {"s3:prefix": ["", "home/", "home/${aws:username}/*"]}}},
                {"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::data/home/${aws:username}",
                 "arn:aws:s3:::data/home/${aws:username}/*"]}"#,
        shared: "",
        requests: &[
            ("bob", "s3:GetObject", "home/bob/a", &[], YES),
            ("bob", "s3:PutObject", "home/bob", &[], YES),
            ("bob", "s3:GetObject", "home/eve/a", &[], NO),
            ("bob", "s3:ListBucket", "", &[("s3:prefix", "home/bob/b")], YES),
            ("bob", "s3:ListBucket", "", &[("s3:prefix", "")], YES),
            ("bob", "s3:ListBucket", "", &[("s3:prefix", "home/eve/")], NO),
            ("bob", "s3:ListBucket", "", &[], NO),
        ],
    },
    Example {
        about: "S3: restrict access to specific addresses",
        own: EVERYTHING,
        shared: r#"{"Effect": "Deny", "Principal": "*", "Action": "s3:*",
                    "Resource": ["arn:aws:s3:::data", "arn:aws:s3:::data/*"],
                    "Condition": {"NotIpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:db8:1234:5678::/64"]}}}"#,
        requests: &[
            ("bob", "s3:GetObject", "a", &[("aws:SourceIp", "192.0.2.3")], YES),
            ("bob", "s3:GetObject", "a", &[("aws:SourceIp", "2001:db8:1234:5678::1")], YES),
            ("bob", "s3:GetObject", "a", &[("aws:SourceIp", "203.0.113.3")], DENIED),
            ("bob", "s3:GetObject", "a", &[], DENIED),
        ],
    },
    Example {
        about: "S3: restrict access to an HTTP referer",
        own: "",
        shared: r#"{"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:GetObjectVersion"],
                    "Resource": "arn:aws:s3:::data/*", "Condition": {"StringLike": {"aws:Referer":
                    ["http://www.example.com/*", "http://example.com/*"]}}}"#,
        requests: &[
            ("", "s3:GetObject", "a", &[("aws:Referer", "http://example.com/page")], YES),
            ("", "s3:GetObject", "a", &[("aws:Referer", "http://example.org/page")], NO),
            ("", "s3:GetObject", "a", &[], NO),
            ("", "s3:PutObject", "a", &[("aws:Referer", "http://example.com/page")], NO),
        ],
    },
    Example {
        about: "S3: require encryption of what is put",
        own: EVERYTHING,
        shared: r#"{"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::data/*",
                    "Condition": {"StringNotEquals": {"s3:x-amz-server-side-encryption": "AES256"}}}"#,
        requests: &[
            ("bob", "s3:PutObject", "a", &[("s3:x-amz-server-side-encryption", "AES256")], YES),
            ("bob", "s3:PutObject", "a", &[("s3:x-amz-server-side-encryption", "aws:kms")], DENIED),
            ("bob", "s3:PutObject", "a", &[], DENIED),
            ("bob", "s3:GetObject", "a", &[], YES),
        ],
    },
    Example {
        about: "S3: list one prefix, a few keys at a time",
        own: EVERYTHING,
        shared: r#"{"Effect": "Deny", "Principal": {"AWS": "arn:aws:iam::000000000001:user/bob"},
                    "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::data",
                    "Condition": {"StringNotEquals": {"s3:prefix": "projects"}}},
                   {"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": "s3:ListBucket",
                    "Resource": "arn:aws:s3:::data", "Condition": {"NumericGreaterThan": {"s3:max-keys": "10"}}}"#,
        requests: &[
            ("bob", "s3:ListBucket", "", &[("s3:prefix", "projects"), ("s3:max-keys", "10")], YES),
            ("bob", "s3:ListBucket", "", &[("s3:prefix", "projects"), ("s3:max-keys", "11")], DENIED),
            ("bob", "s3:ListBucket", "", &[("s3:max-keys", "1")], DENIED),
            ("eve", "s3:ListBucket", "", &[], YES),
        ],
    },
    Example {
        about: "S3: objects with a tag may be read, and few tags may be given",
        own: r#"{"Effect": "Allow", "Action": "s3:PutObjectTagging", "Resource": "arn:aws:s3:::data/*",
                 "Condition": {"ForAllValues:StringLike": {"s3:RequestObjectTagKeys": ["Owner", "CreationDate"]}}}"#,
        shared: r#"{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*",
                    "Condition": {"StringEquals": {"s3:ExistingObjectTag/environment": "production"}}}"#,
        requests: &[
            ("", "s3:GetObject", "a", &[("s3:ExistingObjectTag/environment", "production")], YES),
            ("", "s3:GetObject", "a", &[("s3:ExistingObjectTag/environment", "test")], NO),
            ("", "s3:GetObject", "a", &[], NO),
            ("bob", "s3:PutObjectTagging", "a", &[("s3:RequestObjectTagKeys", "Owner")], YES),
            ("bob", "s3:PutObjectTagging", "a", &[("s3:RequestObjectTagKeys", "owner")], NO),
            ("bob", "s3:PutObjectTagging", "a", &[], YES),
        ],
    },
    Example {
        about: "IAM: NotPrincipal with Deny",
        own: EVERYTHING,
        shared: r#"{"Effect": "Deny", "NotPrincipal": {"AWS": ["arn:aws:iam::000000000001:user/bob",
                    "arn:aws:iam::000000000001:root"]}, "Action": "s3:*",
                    "Resource": ["arn:aws:s3:::data", "arn:aws:s3:::data/*"]}"#,
        requests: &[
            ("bob", "s3:GetObject", "a", &[], YES),
            ("eve", "s3:GetObject", "a", &[], DENIED),
            ("", "s3:GetObject", "a", &[], DENIED),
            ("root", "s3:GetObject", "a", &[], YES),
        ],
    },
    Example {
        about: "IAM: NotPrincipal without the account of the user that it names",
        own: EVERYTHING,
        shared: r#"{"Effect": "Deny", "NotPrincipal": {"AWS": "arn:aws:iam::000000000001:user/bob"},
                    "Action": "s3:*", "Resource": ["arn:aws:s3:::data", "arn:aws:s3:::data/*"]}"#,
        requests: &[("bob", "s3:GetObject", "a", &[], DENIED), ("root", "s3:GetObject", "a", &[], DENIED)],
    },
    Example {
        about: "IAM: the account as a principal",
        own: r#"{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}"#,
        shared: r#"{"Effect": "Allow", "Principal": {"AWS": "000000000001"}, "Action": "s3:PutObject",
                    "Resource": "arn:aws:s3:::data/*"},
                   {"Effect": "Deny", "Principal": {"AWS": "arn:aws:iam::000000000001:root"}, "Action": "s3:GetObject",
                    "Resource": "arn:aws:s3:::data/secret/*"},
                   {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::000000000001:user/eve"},
                    "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::data/*"}"#,
        requests: &[
            ("bob", "s3:PutObject", "a", &[], NO),
            ("bob", "s3:GetObject", "a", &[], YES),
            ("bob", "s3:GetObject", "secret/a", &[], DENIED),
            ("root", "s3:GetObject", "secret/a", &[], DENIED),
            ("", "s3:PutObject", "a", &[], NO),
            ("eve", "s3:DeleteObject", "a", &[], YES),
            ("bob", "s3:DeleteObject", "a", &[], NO),
        ],
    },
    Example {
        about: "IAM: NotResource with Deny, NotAction with Allow",
        own: r#"{"Effect": "Allow", "NotAction": "s3:DeleteBucket", "Resource": "arn:aws:s3:::*"},
                {"Effect": "Deny", "Action": "s3:*", "NotResource": ["arn:aws:s3:::data/Payroll/*"]}"#,
        shared: "",
        requests: &[
            ("bob", "s3:GetObject", "Payroll/a", &[], YES),
            ("bob", "s3:GetObject", "a", &[], DENIED),
            ("bob", "s3:DeleteBucket", "", &[], DENIED),
        ],
    },
    Example {
        about: "IAM: a variable with a default value",
        own: r#"{"Effect": "Allow", "Action": ["s3:GetObject"],
                 "Resource": "arn:aws:s3:::data/${aws:PrincipalTag/team, 'company-wide'}/*"}"#,
        shared: "",
        requests: &[
            ("bob", "s3:GetObject", "company-wide/a", &[], YES),
            ("bob", "s3:GetObject", "yellow/a", &[], NO),
            ("tagged", "s3:GetObject", "yellow/a", &[], YES),
            ("tagged", "s3:GetObject", "company-wide/a", &[], NO),
        ],
    },
    Example {
        about: "IAM: a variable without a value makes the resource match nothing",
        own: r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::data/${aws:PrincipalTag/team}*"},
                {"Effect": "Allow", "Action": "s3:*", "NotResource": "arn:aws:s3:::data/${aws:PrincipalTag/team}*"}"#,
        shared: "",
        requests: &[("bob", "s3:GetObject", "a", &[], NO), ("tagged", "s3:GetObject", "a", &[], YES)],
    },
    Example {
        about: "S3: presigned requests of at most ten minutes, and signatures of one kind",
        own: EVERYTHING,
        shared: r#"{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::data/*",
                    "Condition": {"NumericGreaterThan": {"s3:signatureAge": 600000}}},
                   {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::data/*",
                    "Condition": {"StringNotEquals": {"s3:authType": ["REST-HEADER", "REST-QUERY-STRING"]}}}"#,
        requests: &[
            ("bob", "s3:GetObject", "a", &[("s3:signatureAge", "600000"), ("s3:authType", "REST-QUERY-STRING")], YES),
            ("bob", "s3:GetObject", "a", &[("s3:signatureAge", "600001"), ("s3:authType", "REST-QUERY-STRING")], DENIED),
            ("bob", "s3:GetObject", "a", &[("s3:authType", "POST")], DENIED),
        ],
    },
    Example {
        about: "S3: one version, and IAM: a span of time",
        own: r#"{"Effect": "Allow", "Action": "s3:GetObjectVersion", "Resource": "arn:aws:s3:::data/*",
                 "Condition": {"StringEquals": {"s3:VersionId": "AaaHbAQitwiL_h47_44lRO2DDfLlBO5e"}}},
                {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*", "Condition": {
                 "DateGreaterThan": {"aws:CurrentTime": "2020-04-01T00:00:00Z"},
                 "DateLessThan": {"aws:CurrentTime": "2020-06-30T23:59:59Z"}}}"#,
        shared: "",
        requests: &[
            ("bob", "s3:GetObjectVersion", "a", &[("s3:VersionId", "AaaHbAQitwiL_h47_44lRO2DDfLlBO5e")], YES),
            ("bob", "s3:GetObjectVersion", "a", &[("s3:VersionId", "other")], NO),
            ("bob", "s3:GetObject", "a", &[("aws:CurrentTime", "2020-05-01T00:00:00Z")], YES),
            ("bob", "s3:GetObject", "a", &[("aws:CurrentTime", "2020-07-01T00:00:00Z")], NO),
        ],
    },
];

fn document(statements: &str) -> String {
    format!(r#"{{"Version": "2012-10-17", "Statement": [{statements}]}}"#)
}

#[test]
fn the_documented_examples_decide_as_documented() {
    for example in EXAMPLES {
        let own = (!example.own.is_empty()).then(|| document(example.own));
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let bucket = match example.shared {
            "" => BucketRules { name: "data".to_owned(), ..BucketRules::default() },
            shared => rules("data", &document(shared)),
        };
        for &(who, action, key, known, expected) in example.requests {
            let identity = match who {
                "" => Arc::new(Identity::Anonymous),
                "root" => Arc::new(Identity::Root),
                name => user(name, &own),
            };
            let resource =
                if key.is_empty() { Resource::Bucket("data") } else { Resource::Object("data", key) };
            let verdict = Rights::new(&identity, Some(&bucket)).decide(action, resource, &facts(known));
            assert_eq!(verdict, expected, "{}: {who} {action} {key} {known:?}", example.about);
        }
    }
}

#[test]
fn rights_without_a_bucket_are_those_of_the_own_policies() {
    let own = document(
        r#"{"Effect": "Allow", "Action": ["s3:ListAllMyBuckets"], "Resource": "arn:aws:s3:::*"},
           {"Effect": "Allow", "Action": "s3:CreateBucket", "Resource": "arn:aws:s3:::bob-*"},
           {"Effect": "Allow", "Action": "iam:*AccessKey*", "Resource": "arn:aws:iam::*:user/${aws:username}"},
           {"Effect": "Allow", "Action": "iam:ListUsers", "Resource": "*"}"#,
    );
    let rights = Rights::new(&user("bob", &[&own]), None);
    let decide = |action, resource| rights.decide(action, resource, &());
    assert_eq!(decide("s3:ListAllMyBuckets", Resource::Service), YES);
    assert_eq!(decide("s3:CreateBucket", Resource::Bucket("bob-1")), YES);
    assert_eq!(decide("s3:CreateBucket", Resource::Bucket("eve-1")), NO);
    assert_eq!(decide("iam:CreateAccessKey", Resource::Iam("arn:aws:iam::000000000001:user/bob")), YES);
    assert_eq!(decide("iam:CreateAccessKey", Resource::Iam("arn:aws:iam::000000000001:user/eve")), NO);
    assert_eq!(decide("iam:ListUsers", Resource::Service), YES);
    assert_eq!(decide("iam:ListGroups", Resource::Service), NO);
    let root = Rights::new(&Arc::new(Identity::Root), None);
    assert_eq!(root.decide("s3:CreateBucket", Resource::Bucket("any"), &()), YES);
    let anyone = Rights::new(&Arc::new(Identity::Anonymous), None);
    assert_eq!(anyone.decide("s3:ListAllMyBuckets", Resource::Service, &()), NO);
}

#[test]
fn rights_say_what_no_request_is_allowed() {
    let may_delete = |own: &str, shared: &str, name: &str| {
        let own = if own.is_empty() { vec![] } else { vec![document(own)] };
        let identity = match name {
            "" => Arc::new(Identity::Anonymous),
            name => user(name, &own.iter().map(String::as_str).collect::<Vec<_>>()),
        };
        let rules = match shared {
            "" => BucketRules { name: "data".to_owned(), ..BucketRules::default() },
            shared => rules("data", &document(shared)),
        };
        Rights::new(&identity, Some(&rules)).may_allow("s3:DeleteObject")
    };
    let for_bob = r#"{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::000000000001:user/bob"},
        "Action": "s3:*", "Resource": "arn:aws:s3:::data/*"}"#;
    assert!(may_delete("", for_bob, "bob"));
    assert!(!may_delete("", for_bob, "eve"));
    assert!(!may_delete("", for_bob, ""), "a policy for another");
    assert!(!may_delete("", "", ""));
    let deleting = r#"{"Effect": "Allow", "Action": "s3:Delete*", "Resource": "arn:aws:s3:::data/tmp/*",
        "Condition": {"Bool": {"aws:SecureTransport": "true"}}}"#;
    assert!(may_delete(deleting, "", "eve"), "some objects, by some requests");
    let elsewhere = r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::other/*"}"#;
    assert!(!may_delete(elsewhere, "", "eve"));
    let reading = r#"{"Effect": "Allow", "Action": "s3:Get*", "Resource": "*"}"#;
    assert!(!may_delete(reading, "", "eve"));
    let of_bucket = r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::data"}"#;
    assert!(!may_delete(of_bucket, "", "eve"));
    let denied = r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
        {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::data/*"}"#;
    assert!(!may_delete(denied, "", "eve"));
}

#[test]
fn rights_are_asked_which_facts_they_need() {
    let bob = user(
        "bob",
        &[&document(
            r#"{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::data/*",
                "Condition": {"StringEquals": {"s3:ExistingObjectTag/team": "blue"}}},
               {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::data/${aws:UserAgent}*",
                "Condition": {"StringLike": {"s3:prefix": "a"}}}"#,
        )],
    );
    let rules = BucketRules { name: "data".to_owned(), ..BucketRules::default() };
    for rights in [Rights::new(&bob, Some(&rules)), Rights::new(&bob, None)] {
        assert!(rights.asks("s3:GetObject", KeyName::ExistingObjectTag));
        assert!(!rights.asks("s3:PutObject", KeyName::ExistingObjectTag));
        assert!(rights.asks("s3:PutObject", KeyName::UserAgent));
        assert!(!rights.asks("s3:PutObject", KeyName::Prefix), "the action has no such key");
    }
    let other = BucketRules { name: "other".to_owned(), ..BucketRules::default() };
    assert!(!Rights::new(&bob, Some(&other)).asks("s3:GetObject", KeyName::ExistingObjectTag));
}

#[test]
fn a_resource_of_another_bucket_is_denied() {
    let rules = BucketRules { name: "data".to_owned(), ..BucketRules::default() };
    let rights = Rights::new(&user("bob", &[&document(EVERYTHING)]), Some(&rules));
    assert_eq!(rights.decide("s3:GetObject", Resource::Object("data", "a"), &()), YES);
    assert_eq!(rights.decide("s3:GetObject", Resource::Object("other", "a"), &()), NO);
    assert_eq!(rights.decide("s3:ListAllMyBuckets", Resource::Service, &()), NO);
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
