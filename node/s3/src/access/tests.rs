//! Decisions on requests of users, of anonymous callers and of root: a table of each, and the words of a
//! refusal.

use sherd_core::record::Tag;
use sherd_front::callers::{AccessKey, AuthType, Credential, SignatureFacts};
use sherd_policy::{Policy, PolicyForm, UserIdentity};
use sherd_signature::Secret;

use super::facts::DocumentFacts;
use super::*;
use crate::operation::Operation;

/// 2015-10-21T07:28:00Z.
const NOW_MS: u64 = 1_445_412_480_000;

/// The access of a user with these policies, in no bucket yet.
pub(super) fn user(policies: &[&str]) -> Access {
    let parse = |text: &&str| {
        let policy = Policy::parse(text.as_bytes(), PolicyForm::Identity);
        Arc::new(policy.unwrap_or_else(|error| panic!("{error}: {text}")))
    };
    of_identity(Identity::User(UserIdentity {
        arn: "arn:aws:iam::000000000001:user/app".to_owned(),
        name: "app".to_owned(),
        id: "AIDAAPP".to_owned(),
        tags: vec![("team".to_owned(), "blue".to_owned())],
        policies: policies.iter().map(parse).collect(),
    }))
}

fn of_identity(identity: Identity) -> Access {
    let signature =
        SignatureFacts { auth_type: AuthType::Query, signed_ms: Some(NOW_MS - 5000), is_v4: true };
    let (access_key, identity) = (AccessKey::Static("AKIAAPP".into()), Arc::new(identity));
    let credential = Credential { access_key, secret: Secret::new("secret"), identity };
    let caller = match &*credential.identity {
        Identity::Anonymous => Caller::anonymous(),
        Identity::Root | Identity::User(_) => Caller::new(&credential, signature),
    };
    let source = Source { address: [192, 0, 2, 7].into(), is_secure: true, tls_version: Some("1.3") };
    Access::new(Arc::new(Authorizer::new("eu-west-1")), caller, source, NOW_MS)
}

fn statement(effect: &str, action: &str, resource: &str, condition: &str) -> String {
    let condition = if condition.is_empty() { String::new() } else { format!(r#","Condition":{condition}"#) };
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"{effect}","Action":"{action}","Resource":"{resource}"{condition}}}]}}"#
    )
}

/// Whether a user whose policy is one statement may read `b/k`.
fn may_read(action: &str, resource: &str, condition: &str, facts: Facts<'_>) -> bool {
    let access = user(&[&statement("Allow", action, resource, condition)]).in_no_bucket();
    access.allow(READ_OBJECT, Resource::Object("b", "k"), facts).is_ok()
}

#[test]
fn a_user_may_do_what_its_policies_allow_and_root_everything() {
    let facts = Facts::NONE;
    assert!(may_read("s3:GetObject", "arn:aws:s3:::b/*", "", facts));
    assert!(may_read("s3:*", "*", "", facts));
    assert!(!may_read("s3:PutObject", "arn:aws:s3:::b/*", "", facts));
    assert!(!may_read("s3:GetObject", "arn:aws:s3:::c/*", "", facts));
    assert!(!may_read("s3:GetObjectVersion", "*", "", facts), "that of a version is another action");
    let root = of_identity(Identity::Root).in_no_bucket();
    assert!(root.is_unlimited());
    root.allow("s3:ListAllMyBuckets", Resource::Service, facts).unwrap();
    let stranger = of_identity(Identity::Anonymous).in_no_bucket();
    assert!(root.may_allow(DELETE_OBJECT) && !stranger.may_allow(DELETE_OBJECT));
    stranger.allow("s3:ListAllMyBuckets", Resource::Service, facts).unwrap_err();
}

#[test]
fn a_refusal_says_who_may_not_do_what_and_why() {
    let says = |access: &Access, action, resource| {
        access.allow(action, resource, Facts::NONE).unwrap_err().message.into_owned()
    };
    let app = user(&[&statement("Deny", "s3:PutObject", "*", "")]).in_no_bucket();
    assert_eq!(
        says(&app, "s3:GetObject", Resource::Object("b", "a/k")),
        "User: arn:aws:iam::000000000001:user/app is not authorized to perform: s3:GetObject on resource: \
         \"arn:aws:s3:::b/a/k\" because no identity-based policy allows the s3:GetObject action"
    );
    assert_eq!(
        says(&app, "s3:PutObject", Resource::Object("b", "k")),
        "User: arn:aws:iam::000000000001:user/app is not authorized to perform: s3:PutObject on resource: \
         \"arn:aws:s3:::b/k\" with an explicit deny in an identity-based policy"
    );
    assert_eq!(
        says(&app, "s3:ListAllMyBuckets", Resource::Service),
        "User: arn:aws:iam::000000000001:user/app is not authorized to perform: s3:ListAllMyBuckets because no \
         identity-based policy allows the s3:ListAllMyBuckets action"
    );
    assert!(says(&app, LIST, Resource::Bucket("b")).contains("on resource: \"arn:aws:s3:::b\" because"));
    let stranger = of_identity(Identity::Anonymous).in_no_bucket();
    assert_eq!(says(&stranger, READ_OBJECT, Resource::Object("b", "k")), "Access Denied");
}

/// Whether a user whose policy is one statement on all actions of S3 may do one to `b/k`.
fn may(action: &'static str, condition: &str, facts: Facts<'_>) -> bool {
    let access = user(&[&statement("Allow", "s3:*", "*", condition)]).in_no_bucket();
    access.allow(action, Resource::Object("b", "k"), facts).is_ok()
}

#[test]
fn copies_alone_name_a_source_and_without_its_version() {
    let condition = r#"{"StringEquals":{"s3:x-amz-copy-source":"src/a?b"}}"#;
    let spaced = r#"{"StringEquals":{"s3:x-amz-copy-source":"src/a b+c"}}"#;
    let plus = RequestHead::with(&[("x-amz-copy-source", "src/a+b%2Bc")]);
    let of = |operation: Operation| Some(operation.columns());
    let copy = Facts::of(&plus).of_operation(of(Operation::CopyObject));
    assert!(may("s3:PutObject", spaced, copy), "as the copy reads it");
    for named in ["/src/a%3Fb?versionId=null", "src/a%3Fb"] {
        let head = RequestHead::with(&[("x-amz-copy-source", named)]);
        let facts = |operation| Facts::of(&head).of_operation(of(operation));
        assert!(may("s3:PutObject", condition, facts(Operation::CopyObject)), "{named}");
        assert!(
            !may("s3:PutObject", condition, facts(Operation::PutObject)),
            "a write of bytes that the client sends"
        );
        assert!(
            !may(READ_OBJECT, condition, facts(Operation::CopyObject)),
            "the read of the source has no such key"
        );
    }
}

#[test]
fn each_fact_of_a_request_is_one_that_a_condition_can_name() {
    let head = RequestHead::with(&[
        ("user-agent", "app/1"),
        ("referer", "https://a.example/"),
        ("x-amz-acl", "private"),
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-metadata-directive", "COPY"),
        ("x-amz-copy-source", "/src/a%20b"),
        ("x-amz-tagging-directive", "REPLACE"),
        ("x-amz-tagging", "team=blue&a+b=c%2Bd"),
        ("if-match", "*"),
    ]);
    let head = head.and_query("prefix=a%2F&delimiter=%2F&max-keys=7&versionId=null");
    // A row that no operation has.
    let columns = Columns { lists_keys: true, conditions: true, ..*Operation::CopyObject.columns() };
    let facts = Facts::of(&head).of_operation(Some(Box::leak(Box::new(columns))));
    let write = "s3:PutObject";
    for (action, operator, key, value) in [
        (READ_OBJECT, "IpAddress", "aws:SourceIp", "192.0.2.0/24"),
        (READ_OBJECT, "Bool", "aws:SecureTransport", "true"),
        (READ_OBJECT, "NumericGreaterThanEquals", "s3:TlsVersion", "1.2"),
        (READ_OBJECT, "DateLessThan", "aws:CurrentTime", "2015-10-21T07:28:01Z"),
        (READ_OBJECT, "NumericEquals", "aws:EpochTime", "1445412480"),
        (READ_OBJECT, "StringEquals", "aws:UserAgent", "app/1"),
        (READ_OBJECT, "StringLike", "aws:Referer", "https://a.example/*"),
        (READ_OBJECT, "StringEquals", "aws:RequestedRegion", "eu-west-1"),
        (READ_OBJECT, "StringEquals", "aws:username", "app"),
        (READ_OBJECT, "StringEquals", "aws:userid", "AIDAAPP"),
        (READ_OBJECT, "ArnLike", "aws:PrincipalArn", "arn:aws:iam::000000000001:user/*"),
        (READ_OBJECT, "StringEquals", "aws:PrincipalAccount", "000000000001"),
        (READ_OBJECT, "StringEquals", "aws:PrincipalType", "User"),
        (READ_OBJECT, "StringEquals", "aws:PrincipalTag/team", "blue"),
        (READ_OBJECT, "StringEquals", "s3:ResourceAccount", "000000000001"),
        (READ_OBJECT, "StringEquals", "s3:x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        (READ_OBJECT, "StringEquals", "s3:authType", "REST-QUERY-STRING"),
        (READ_OBJECT, "NumericEquals", "s3:signatureAge", "5000"),
        (READ_OBJECT, "StringEquals", "s3:signatureversion", "AWS4-HMAC-SHA256"),
        (LIST, "StringEquals", "s3:prefix", "a/"),
        (LIST, "StringEquals", "s3:delimiter", "/"),
        (LIST, "NumericLessThanEquals", "s3:max-keys", "7"),
        ("s3:GetObjectVersion", "StringEquals", "s3:VersionId", "null"),
        (write, "StringEquals", "s3:x-amz-acl", "private"),
        (write, "StringEquals", "s3:x-amz-storage-class", "STANDARD"),
        (write, "StringEquals", "s3:x-amz-metadata-directive", "COPY"),
        (write, "StringEquals", "s3:x-amz-copy-source", "src/a b"),
        (write, "StringEquals", "s3:RequestObjectTag/team", "blue"),
        (write, "StringEquals", "s3:RequestObjectTag/a b", "c+d"),
        (write, "ForAnyValue:StringEquals", "s3:RequestObjectTagKeys", "a b"),
        (write, "StringEquals", "s3:if-match", "*"),
        (write, "Bool", "s3:ObjectCreationOperation", "true"),
    ] {
        let condition = |value: &str| format!(r#"{{"{operator}":{{"{key}":"{value}"}}}}"#);
        assert!(may(action, &condition(value), facts), "{key} is {value}");
        let other = match operator {
            "IpAddress" => "198.51.100.0/24",
            "Bool" => "false",
            "DateLessThan" => "2015-10-21T07:27:59Z",
            "NumericGreaterThanEquals" => "1.4",
            "NumericEquals" | "NumericLessThanEquals" => "6",
            "ArnLike" => "arn:aws:iam::000000000001:user/other",
            _ => "other",
        };
        assert!(!may(action, &condition(other), facts), "{key} is not {other}");
    }
    for absent in
        ["s3:if-none-match", "s3:LocationConstraint", "s3:ExistingObjectTag/team", "aws:RequestTag/a"]
    {
        let condition = format!(r#"{{"Null":{{"{absent}":"true"}}}}"#);
        assert!(may(write, &condition, facts), "{absent}");
    }
}

#[test]
fn a_decision_waits_for_the_tags_of_the_object_where_a_policy_names_them() {
    let facts = Facts::NONE.about_object();
    let object = Resource::Object("b", "k");
    let tag = |value: &str| [Tag { key: "stage".to_owned(), value: value.to_owned() }];
    let condition = r#"{"StringEquals":{"s3:ExistingObjectTag/stage":"open"}}"#;
    let mut tagged = user(&[&statement("Allow", "s3:GetObject", "*", condition)]).in_no_bucket();
    tagged.judge([Some(READ_OBJECT), None, None, None], object, facts).unwrap();
    assert_eq!(tagged.needs(), Some(Fact::Tags));
    tagged.settle(object, facts.with_existing_tags(&tag("open"))).unwrap();
    tagged.settle(object, facts.with_existing_tags(&tag("shut"))).unwrap_err();
    tagged.settle(object, facts.with_existing_tags(&[])).unwrap_err();
    let mut plain = user(&[&statement("Allow", "s3:GetObject", "*", "")]).in_no_bucket();
    plain.judge([Some(READ_OBJECT), None, None, None], object, facts).unwrap();
    assert_eq!(plain.needs(), None);
    // A denial that no tag can lift waits for none.
    let elsewhere = statement("Allow", "s3:GetObject", "arn:aws:s3:::c/*", condition);
    let mut denied = user(&[&elsewhere]).in_no_bucket();
    denied.judge([Some(READ_OBJECT), None, None, None], object, facts).unwrap_err();
}

#[test]
fn a_decision_waits_for_the_document_that_gives_tags_or_a_location() {
    let facts = Facts::NONE.awaiting_document();
    let actions = |action| [Some(action), None, None, None];
    let condition = r#"{"StringEquals":{"s3:RequestObjectTag/stage":"open"}}"#;
    let mut access = user(&[&statement("Allow", "s3:PutObjectTagging", "*", condition)]).in_no_bucket();
    let object = Resource::Object("b", "k");
    access.judge(actions(WRITE_TAGS), object, facts).unwrap();
    assert_eq!(access.needs(), Some(Fact::Document));
    let tag = |value: &str| [Tag { key: "stage".to_owned(), value: value.to_owned() }];
    let (open, shut) = (tag("open"), tag("shut"));
    access.settle(object, facts.with_document(DocumentFacts::Tags(&open))).unwrap();
    access.settle(object, facts.with_document(DocumentFacts::Tags(&shut))).unwrap_err();
    let condition = r#"{"StringLike":{"s3:LocationConstraint":"eu-*"}}"#;
    let mut access = user(&[&statement("Allow", "s3:CreateBucket", "*", condition)]).in_no_bucket();
    let bucket = Resource::Bucket("b");
    access.judge(actions("s3:CreateBucket"), bucket, facts).unwrap();
    let said = |location| facts.with_document(DocumentFacts::Bucket { location, tags: &[] });
    access.settle(bucket, said("eu-west-1")).unwrap();
    access.settle(bucket, said("us-west-2")).unwrap_err();
    access.settle(bucket, said("")).unwrap_err();
}

#[test]
fn a_decision_waits_for_the_tags_that_a_bucket_gets() {
    let facts = Facts::NONE.of_operation(Some(Operation::CreateBucket.columns()));
    let bucket = Resource::Bucket("b");
    let all = statement("Allow", "s3:*", "*", "");
    let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
    for condition in [
        r#"{"StringEquals":{"aws:RequestTag/team":"finance"}}"#,
        r#"{"ForAnyValue:StringEquals":{"aws:TagKeys":"team"}}"#,
    ] {
        let denied = statement("Deny", "s3:*", "*", condition);
        for action in ["s3:CreateBucket", "s3:PutBucketTagging", TAG_RESOURCE] {
            let mut access = user(&[&all, &denied]).in_no_bucket();
            access.judge([Some(action), None, None, None], bucket, facts).unwrap();
            assert_eq!(access.needs(), Some(Fact::Document), "{action} {condition}");
            let settle = |tags: &[Tag]| {
                let given = DocumentFacts::Bucket { location: "", tags };
                access.settle(bucket, facts.with_document(given)).is_ok()
            };
            assert!(settle(&[]) && settle(&[tag("color", "finance")]), "{action} {condition}");
            assert!(!settle(&[tag("color", "red"), tag("team", "finance")]), "{action} {condition}");
        }
        // The tags of an object have keys of their own.
        let object = [tag("team", "finance")];
        let facts = facts.with_document(DocumentFacts::Tags(&object));
        let access = user(&[&all, &denied]).in_no_bucket();
        access.allow(WRITE_TAGS, Resource::Object("b", "k"), facts).unwrap();
    }
}

#[test]
fn a_missing_key_is_shown_to_a_caller_who_may_list_its_bucket() {
    let missing = || Error::Missing(MissingResource::Key);
    let reader = statement("Allow", "s3:GetObject", "*", "");
    let lister = statement("Allow", "s3:ListBucket", "arn:aws:s3:::b", "");
    let refusal = user(&[&reader]).in_no_bucket().shown("b", missing()).unwrap_err();
    assert!(refusal.message.contains("s3:ListBucket on resource: \"arn:aws:s3:::b\""), "{}", refusal.message);
    let access = user(&[&reader, &lister]).in_no_bucket();
    assert!(matches!(access.shown("b", missing()), Ok(Error::Missing(MissingResource::Key))));
    assert!(access.shown("c", missing()).is_err());
    let upload = || Error::Missing(MissingResource::Upload);
    assert!(user(&[&reader]).in_no_bucket().shown("b", upload()).is_ok());
}

#[test]
fn the_parts_of_a_batch_are_judged_by_the_headers_once() {
    let condition = r#"{"StringLike":{"aws:UserAgent":"tool/*"},"StringEquals":{"s3:VersionId":"null"}}"#;
    let policy = statement("Allow", "s3:DeleteObjectVersion", "arn:aws:s3:::b/k", condition);
    let head = RequestHead::with(&[("user-agent", "tool/1")]);
    for access in [
        user(&[&policy]).in_no_bucket(),
        user(&[&policy]).in_no_bucket().for_batch(
            &head,
            &["s3:DeleteObject", "s3:DeleteObjectVersion"],
            &[KeyName::VersionId],
        ),
    ] {
        let facts = Facts::of(&head);
        let check = |key, version| {
            access.allow("s3:DeleteObjectVersion", Resource::Object("b", key), facts.with_version(version))
        };
        check("k", Some("null")).unwrap();
        check("k", None).unwrap_err();
        check("other", Some("null")).unwrap_err();
    }
}
