//! The actions that each preset allows and refuses, as the engine decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::{
    ActionTarget, BucketRules, Facts, Identity, KeyName, Policy, PolicyForm, Resource, Rights, UserIdentity,
    Values, Verdict, s3_actions,
};

const MARK: &str = "team/photos/team-0";

/// The mark of the bucket of a request; empty where it has none.
struct MarkFact<'a>(&'a str);

impl Facts for MarkFact<'_> {
    fn values(&self, name: KeyName, tag: &str) -> Values<'_> {
        match (name, tag, self.0) {
            (KeyName::BucketTag, "sherd.dev/bucket", mark) if !mark.is_empty() => Values::from(mark),
            _ => Values::Absent,
        }
    }
}

fn right(bucket: &str, access: BucketAccess, mark: Option<&str>) -> BucketRight {
    BucketRight { bucket: bucket.to_owned(), access, mark: mark.map(str::to_owned) }
}

/// The rights of a user in a bucket by a document, beside which another allows it everything or nothing.
fn rights(document: &Value, bucket: &str, other: Option<&str>) -> Rights {
    let texts = [Some(document.to_string()), other.map(str::to_owned)];
    let parse =
        |text: String| Arc::new(Policy::parse(text.as_bytes(), PolicyForm::Managed).expect("a policy"));
    let identity = Arc::new(Identity::User(UserIdentity {
        arn: "arn:aws:iam::000000000001:user/app".to_owned(),
        name: "app".to_owned(),
        id: "AIDAAPP".to_owned(),
        tags: Vec::new(),
        policies: texts.into_iter().flatten().map(parse).collect(),
    }));
    Rights::new(&identity, Some(&BucketRules { name: bucket.to_owned(), ..BucketRules::default() }))
}

/// The actions on a bucket and on its objects of which a verdict is this.
fn actions_with(verdict: Verdict, rights: &Rights, bucket: &str, mark: &str) -> [BTreeSet<String>; 2] {
    let of = |target: ActionTarget, resource: Resource<'_>| {
        let names = s3_actions().filter(|(_, about)| *about == target).map(|(name, _)| format!("s3:{name}"));
        names.filter(|name| rights.decide(name, resource, &MarkFact(mark)) == verdict).collect()
    };
    [
        of(ActionTarget::Bucket, Resource::Bucket(bucket)),
        of(ActionTarget::Object, Resource::Object(bucket, "k")),
    ]
}

fn allowed(rights: &Rights, bucket: &str, mark: &str) -> [BTreeSet<String>; 2] {
    actions_with(Verdict::Allowed, rights, bucket, mark)
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| format!("s3:{name}")).collect()
}

const LISTS: [&str; 3] = ["GetBucketLocation", "ListBucket", "ListBucketVersions"];
const READS: [&str; 6] = [
    "GetObject",
    "GetObjectAttributes",
    "GetObjectTagging",
    "GetObjectVersion",
    "GetObjectVersionAttributes",
    "GetObjectVersionTagging",
];
const WRITES: [&str; 6] = [
    "AbortMultipartUpload",
    "DeleteObject",
    "DeleteObjectTagging",
    "ListMultipartUploadParts",
    "PutObject",
    "PutObjectTagging",
];
const LIFE: [&str; 5] = ["CreateBucket", "DeleteBucket", "PutBucketTagging", "TagResource", "UntagResource"];

#[test]
fn readers_and_writers_are_allowed_these_actions_and_no_other() {
    for life in [BucketLife::Open, BucketLife::Kept] {
        let [reader, writer] = [BucketAccess::Read, BucketAccess::Write]
            .map(|access| rights(&document(&[right("photos", access, None)], life), "photos", None));
        assert_eq!(allowed(&reader, "photos", MARK), [set(&LISTS), set(&READS)]);
        let lists = [&LISTS[..], &["ListBucketMultipartUploads"]].concat();
        assert_eq!(allowed(&writer, "photos", MARK), [set(&lists), set(&[READS, WRITES].concat())]);
    }
}

#[test]
fn administrators_are_allowed_all_but_the_life_of_a_bucket_that_another_keeps() {
    let of = |life| rights(&document(&[right("photos", BucketAccess::Admin, None)], life), "photos", None);
    let [of_bucket, of_objects] = allowed(&of(BucketLife::Open), "photos", MARK);
    assert!(of_bucket.is_superset(&set(&["PutBucketPolicy", "DeleteBucket", "PutBucketTagging"])));
    assert!(of_objects.is_superset(&set(&["DeleteObjectVersion", "BypassGovernanceRetention"])));
    let kept = allowed(&of(BucketLife::Kept), "photos", MARK);
    assert_eq!(kept, [&of_bucket - &set(&LIFE), of_objects]);
}

#[test]
fn a_kept_life_is_denied_whatever_another_document_allows() {
    let everything =
        r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}"#;
    for access in [BucketAccess::Read, BucketAccess::Write, BucketAccess::Admin] {
        let denied = |life, bucket| {
            let document = document(&[right("photos", access, Some(MARK))], life);
            actions_with(Verdict::DeniedExplicitly, &rights(&document, bucket, Some(everything)), bucket, "")
        };
        assert_eq!(denied(BucketLife::Kept, "photos"), [set(&LIFE), set(&[])], "{access:?}");
        assert_eq!(denied(BucketLife::Open, "photos"), [set(&[]), set(&[])], "{access:?}");
        assert_eq!(denied(BucketLife::Kept, "logs"), [set(&[]), set(&[])], "{access:?}");
    }
}

#[test]
fn a_right_is_to_the_bucket_of_its_name_and_mark() {
    let nothing = [set(&[]), set(&[])];
    for access in [BucketAccess::Read, BucketAccess::Write, BucketAccess::Admin] {
        let both = [right("photos", access, Some(MARK)), right("logs", access, None)];
        let document = document(&both, BucketLife::Kept);
        let of = |bucket: &str, mark: &str| allowed(&rights(&document, bucket, None), bucket, mark);
        assert_ne!(of("photos", MARK), nothing, "{access:?}");
        assert_eq!(of("photos", "team/photos/team-1"), nothing, "{access:?}");
        assert_eq!(of("logs", ""), of("photos", MARK), "{access:?}");
        for other in ["photos-1", "photo", "log"] {
            assert_eq!(of(other, MARK), nothing, "{access:?} {other}");
        }
    }
}

/// The operator compares texts with those that the store has: another one would be written to every user.
#[test]
fn documents_are_these_texts() {
    let rights = [
        right("a", BucketAccess::Admin, Some("m/a")),
        right("b", BucketAccess::Read, None),
        right("c", BucketAccess::Admin, Some("m/c")),
    ];
    let read = r#"{"Action":["s3:ListBucket","s3:ListBucketVersions","s3:GetBucketLocation","s3:GetObject","s3:GetObjectVersion","s3:GetObjectTagging","s3:GetObjectVersionTagging","s3:GetObjectAttributes","s3:GetObjectVersionAttributes"],"Effect":"Allow","Resource":["arn:aws:s3:::b/*","arn:aws:s3:::b"]}"#;
    let admin = r#"{"Action":["s3:*"],"Condition":{"StringEquals":{"s3:BucketTag/sherd.dev/bucket":["m/a","m/c"]}},"Effect":"Allow","Resource":["arn:aws:s3:::a/*","arn:aws:s3:::a","arn:aws:s3:::c/*","arn:aws:s3:::c"]}"#;
    let kept = r#"{"Action":["s3:CreateBucket","s3:DeleteBucket","s3:PutBucketTagging","s3:TagResource","s3:UntagResource"],"Effect":"Deny","Resource":["arn:aws:s3:::a","arn:aws:s3:::b","arn:aws:s3:::c"]}"#;
    let text =
        |statements: &[&str]| format!(r#"{{"Statement":[{}],"Version":"2012-10-17"}}"#, statements.join(","));
    assert_eq!(document(&rights, BucketLife::Kept).to_string(), text(&[read, admin, kept]));
    assert_eq!(document(&rights, BucketLife::Open).to_string(), text(&[read, admin]));
}
