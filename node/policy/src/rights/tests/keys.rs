//! All pairs of an action of S3 and a condition key: which requests have the key, and which policies of a
//! bucket may name it. The rows are those of "Actions, resources, and condition keys for Amazon S3" (AWS,
//! Service Authorization Reference), by action, of the keys that only some actions have.

use std::sync::Arc;

use crate::{
    ActionTarget, BucketRules, Facts, Identity, KeyName, Policy, PolicyForm, Resource, Rights, UserIdentity,
    Values, Verdict, s3_actions,
};

const GRANTS: &[&str] = &[
    "s3:x-amz-acl",
    "s3:x-amz-grant-full-control",
    "s3:x-amz-grant-read",
    "s3:x-amz-grant-read-acp",
    "s3:x-amz-grant-write",
    "s3:x-amz-grant-write-acp",
];
const WRITES: &[&str] = &[
    "s3:RequestObjectTag/t",
    "s3:RequestObjectTagKeys",
    "s3:x-amz-copy-source",
    "s3:x-amz-metadata-directive",
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-storage-class",
    "s3:x-amz-website-redirect-location",
];
const LOCKS: &[&str] =
    &["s3:object-lock-mode", "s3:object-lock-remaining-retention-days", "s3:object-lock-retain-until-date"];
const LISTS: &[&str] = &["s3:delimiter", "s3:max-keys", "s3:prefix"];
const NEW_BUCKETS: &[&str] = &["s3:LocationConstraint", "s3:x-amz-object-ownership"];
/// Of PutBucketTagging they are this program's own.
const BUCKET_TAGS: &[&str] = &["aws:RequestTag/t", "aws:TagKeys"];
const OBJECT_TAGS: &[&str] = &["s3:RequestObjectTag/t", "s3:RequestObjectTagKeys"];
const EXISTING: &[&str] = &["s3:ExistingObjectTag/t"];
const VERSION: &[&str] = &["s3:VersionId"];

/// The keys of each action that has some; all other actions have none of them.
const ROWS: &[(&str, &[&[&str]])] = &[
    ("BypassGovernanceRetention", &[GRANTS, WRITES]),
    ("CreateAccessPoint", &[&["s3:LocationConstraint", "s3:x-amz-acl"]]),
    ("CreateBucket", &[GRANTS, NEW_BUCKETS, BUCKET_TAGS]),
    ("DeleteObject", &[&["s3:if-match"]]),
    ("DeleteObjectTagging", &[EXISTING]),
    ("DeleteObjectVersion", &[VERSION]),
    ("DeleteObjectVersionTagging", &[EXISTING, VERSION]),
    ("GetObject", &[EXISTING]),
    ("GetObjectAcl", &[EXISTING]),
    ("GetObjectAttributes", &[EXISTING]),
    ("GetObjectTagging", &[EXISTING]),
    ("GetObjectVersion", &[EXISTING, VERSION]),
    ("GetObjectVersionAcl", &[EXISTING, VERSION]),
    ("GetObjectVersionAttributes", &[EXISTING, VERSION]),
    ("GetObjectVersionTagging", &[EXISTING, VERSION]),
    ("GetObjectVersionTorrent", &[VERSION]),
    ("ListBucket", &[LISTS]),
    ("ListBucketVersions", &[LISTS]),
    ("PutBucketAcl", &[GRANTS]),
    ("PutBucketTagging", &[BUCKET_TAGS]),
    (
        "PutObject",
        &[
            GRANTS,
            WRITES,
            LOCKS,
            &["s3:object-lock-legal-hold", "s3:if-match", "s3:if-none-match", "s3:ObjectCreationOperation"],
        ],
    ),
    ("PutObjectAcl", &[GRANTS, EXISTING, &["s3:x-amz-storage-class"]]),
    ("PutObjectLegalHold", &[&["s3:object-lock-legal-hold"]]),
    ("PutObjectRetention", &[LOCKS]),
    ("PutObjectTagging", &[EXISTING, OBJECT_TAGS]),
    ("PutObjectVersionAcl", &[GRANTS, EXISTING, VERSION, &["s3:x-amz-storage-class"]]),
    ("PutObjectVersionTagging", &[EXISTING, OBJECT_TAGS, VERSION]),
    (
        "ReplicateObject",
        &[&[
            "s3:x-amz-server-side-encryption",
            "s3:x-amz-server-side-encryption-aws-kms-key-id",
            "s3:x-amz-server-side-encryption-customer-algorithm",
        ]],
    ),
    ("TagResource", &[BUCKET_TAGS]),
    (
        "UpdateObjectEncryption",
        &[&["s3:x-amz-server-side-encryption", "s3:x-amz-server-side-encryption-aws-kms-key-id"]],
    ),
];
/// Keys that all actions have.
const OF_ALL: &[&str] = &[
    "aws:SourceIp",
    "aws:SecureTransport",
    "aws:UserAgent",
    "aws:Referer",
    "aws:CurrentTime",
    "aws:EpochTime",
    "aws:RequestedRegion",
    "aws:ResourceTag/t",
    "s3:BucketTag/t",
    "s3:TlsVersion",
    "s3:authType",
    "s3:signatureAge",
    "s3:signatureversion",
    "s3:x-amz-content-sha256",
];

/// A request that answers every key.
struct EveryKey;

impl Facts for EveryKey {
    fn values(&self, name: KeyName, _: &str) -> Values<'_> {
        if name.is_multivalued() { Values::Many(vec!["v".into()]) } else { "v".into() }
    }
}

/// Every key of a row, each once.
fn keys_of_some() -> Vec<&'static str> {
    let mut keys: Vec<_> = ROWS.iter().flat_map(|(_, keys)| keys.concat()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Whether the rows give a key to an action.
fn has_key(action: &str, key: &str) -> bool {
    OF_ALL.contains(&key) || ROWS.iter().any(|(name, keys)| *name == action && keys.concat().contains(&key))
}

/// A user with one statement on all actions, by the key.
fn user(effect: &str, operator: &str, key: &str) -> Arc<Identity> {
    let all = if effect == "Deny" { r#"{"Effect": "Allow", "Action": "*", "Resource": "*"},"# } else { "" };
    let document = format!(
        r#"{{"Version": "2012-10-17", "Statement": [{all} {{"Effect": "{effect}", "Action": "s3:*", "Resource": "*",
            "Condition": {{"{operator}": {{"{key}": "v"}}}}}}]}}"#
    );
    user_of(&document)
}

/// A user with one policy.
fn user_of(document: &str) -> Arc<Identity> {
    let policy = Policy::parse(document.as_bytes(), PolicyForm::Identity).expect("a policy");
    Arc::new(Identity::User(UserIdentity {
        arn: "arn:aws:iam::000000000001:user/bob".to_owned(),
        name: "bob".to_owned(),
        id: "AIDA0123456789ABCDEF".to_owned(),
        tags: vec![],
        policies: vec![Arc::new(policy)],
    }))
}

/// The name of an action with its `s3:`, as requests have it.
fn named(action: &str) -> &'static str {
    format!("s3:{action}").leak()
}

#[test]
fn a_request_has_the_keys_of_its_action_alone() {
    let rules = BucketRules { name: "b".to_owned(), ..BucketRules::default() };
    let actions: Vec<_> = s3_actions().map(|(action, target)| (action, named(action), target)).collect();
    for (action, _) in ROWS {
        assert!(actions.iter().any(|(name, ..)| name == action), "{action}");
    }
    let mut pairs = 0;
    for key in keys_of_some().into_iter().chain(OF_ALL.iter().copied()) {
        let quantifier = if key.ends_with("Keys") { "ForAnyValue:" } else { "" };
        // Each with the verdict where the key is there, and where it is absent.
        let statements = [
            ("Allow", format!("{quantifier}StringEquals"), Verdict::Allowed, Verdict::DeniedImplicitly),
            ("Deny", format!("{quantifier}StringEquals"), Verdict::DeniedExplicitly, Verdict::Allowed),
            ("Deny", "StringNotEquals".to_owned(), Verdict::Allowed, Verdict::DeniedExplicitly),
        ];
        for (effect, operator, there, absent) in statements {
            let identity = user(effect, &operator, key);
            let (in_bucket, everywhere) =
                (Rights::new(&identity, Some(&rules)), Rights::new(&identity, None));
            for &(action, named, target) in &actions {
                let expected = if has_key(action, key) { there } else { absent };
                let resource = match target {
                    ActionTarget::Bucket => Resource::Bucket("b"),
                    ActionTarget::Object => Resource::Object("b", "k"),
                    ActionTarget::Account | ActionTarget::Other => Resource::Service,
                };
                pairs += 1;
                let decided = everywhere.decide(named, resource, &EveryKey);
                assert_eq!(decided, expected, "{effect} {operator} {key} {action}");
                if resource != Resource::Service {
                    let decided = in_bucket.decide(named, resource, &EveryKey);
                    assert_eq!(decided, expected, "{effect} {operator} {key} {action} in a bucket");
                }
            }
        }
    }
    assert!(pairs > 3 * 40 * 160, "{pairs} pairs");
}

#[test]
fn variables_are_values_of_the_same_keys() {
    let document = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:*",
        "Resource": ["arn:aws:s3:::${s3:prefix}", "arn:aws:s3:::v/${s3:prefix}", "arn:aws:s3:::w/${s3:x-amz-acl}"]}}"#;
    let rights = Rights::new(&user_of(document), None);
    for (action, resource, expected) in [
        ("s3:ListBucket", Resource::Bucket("v"), true),
        ("s3:ListBucketMultipartUploads", Resource::Bucket("v"), false),
        ("s3:GetObject", Resource::Object("v", "v"), false),
        ("s3:PutObject", Resource::Object("w", "v"), true),
        ("s3:GetObject", Resource::Object("w", "v"), false),
    ] {
        let is_allowed = rights.decide(action, resource, &EveryKey) == Verdict::Allowed;
        assert_eq!(is_allowed, expected, "{action} {resource:?}");
    }
}

/// The refusal of a new policy of a bucket with one statement; none if it is taken.
fn refusal(actions: &str, resource: &str, key: &str) -> Option<String> {
    let document = format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow", "Principal": "*", "Action": {actions},
            "Resource": {resource}, "Condition": {{"StringEquals": {{"{key}": "v"}}}}}}}}"#
    );
    let form = PolicyForm::Bucket { name: "b" };
    Policy::parse(document.as_bytes(), form).expect("one that is stored is read");
    Policy::parse_new(document.as_bytes(), form).err().map(|error| error.to_string())
}

const BOTH: &str = r#"["arn:aws:s3:::b", "arn:aws:s3:::b/*"]"#;

#[test]
fn a_new_policy_of_a_bucket_combines_keys_with_actions_that_have_them() {
    const IDLE: &str = "Conditions do not apply to combination of actions and resources in statement";
    for key in keys_of_some().into_iter().chain(OF_ALL.iter().copied()) {
        for (action, target) in s3_actions() {
            if !matches!(target, ActionTarget::Bucket | ActionTarget::Object) {
                continue;
            }
            let is_taken = has_key(action, key) || key.starts_with("aws:");
            let expected = (!is_taken).then(|| IDLE.to_owned());
            assert_eq!(refusal(&format!(r#""s3:{action}""#), BOTH, key), expected, "{action} {key}");
        }
        if key.starts_with("s3:") {
            assert_eq!(refusal(r#""s3:*""#, BOTH, key), None, "{key}");
        }
    }
    let objects = r#""arn:aws:s3:::b/*""#;
    for (actions, resource, key, is_taken) in [
        (r#"["s3:GetObject", "s3:PutObject"]"#, BOTH, "s3:x-amz-acl", false),
        (r#"["s3:PutObject", "s3:PutObjectAcl"]"#, BOTH, "S3:X-Amz-Acl", true),
        (r#"["s3:ListBucket", "s3:GetBucketAcl"]"#, BOTH, "s3:prefix", false),
        (r#""s3:List*""#, BOTH, "s3:prefix", true),
        (r#""s3:Get*""#, BOTH, "s3:prefix", false),
        (r#""s3:*""#, BOTH, "s3:prefix", true),
        (r#""*""#, BOTH, "s3:x-amz-acl", true),
        // The actions that have the key are not about the resource.
        (r#""s3:*""#, objects, "s3:prefix", false),
        (r#""s3:*""#, objects, "s3:x-amz-acl", true),
    ] {
        let expected = (!is_taken).then(|| IDLE.to_owned());
        assert_eq!(refusal(actions, resource, key), expected, "{actions} {resource} {key}");
    }
}
