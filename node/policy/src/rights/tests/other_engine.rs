//! Random policies and requests, decided here and by `iam-rs`. Where both differ, AWS's text is the judge:
//! each reason below has that text, and a difference without a reason fails the test.

use iam_rs::{
    Arn, Context, ContextValue, Decision, IAMPolicy, IAMRequest, PolicyEvaluator, Principal, PrincipalId,
};

use super::cases::{Case, document};
use crate::{Identity, Verdict};

/// A reason, and whether a case has it.
type Difference = (&'static str, fn(&Case) -> bool);

/// Why both may differ over a case.
const DIFFERENCES: &[Difference] = &[
    (
        "a variable without a value is equal to nothing (IAM, \"Policy variables with no value\"); iam-rs puts an \
         empty text in its place, and in conditions compares the text of the variable itself",
        |case| has(case, &["${aws:UserAgent}", "${aws:PrincipalTag", "${aws:username}"]),
    ),
    ("`${*}` is an asterisk (IAM, \"Special characters\"); iam-rs looks up a key of that name", |case| {
        has(case, &["${*}"])
    }),
    (
        "`ArnEquals` and `ArnLike` behave alike (IAM, \"Amazon Resource Name (ARN) condition operators\"); iam-rs \
         takes the wildcards of `ArnEquals` for letters",
        |case| has(case, &["\"ArnEquals", "\"ArnNotEquals"]),
    ),
    (
        "a negated operator is the negation of its counterpart over all values; iam-rs takes it as true for a key \
         of several values once one of them differs, and as false for an empty set",
        |case| has(case, &["Not"]) && has(case, &["TagKeys\""]),
    ),
    ("a set without values is as an absent key (IAM, \"Multivalued context keys\")", |case| {
        let is_empty = |key: &str| case.facts.0.get(key).is_some_and(Vec::is_empty);
        ["aws:TagKeys", "s3:RequestObjectTagKeys"].into_iter().any(|key| has(case, &[key]) && is_empty(key))
    }),
    (
        "an empty text is an empty set to `ForAllValues` and `ForAnyValue` (IAM, \"Multivalued context keys\")",
        |case| {
            has(case, &["\"ForAllValues:", "\"ForAnyValue:"]) && case.facts.0.values().any(|one| one == &[""])
        },
    ),
    ("iam-rs matches a `*` in a key only with itself", |case| case.key.is_some_and(|key| key.contains('*'))),
    (
        "the account as a principal is all its users where it denies, and leaves it to their own policies where it \
         allows; `NotPrincipal` has to name user and account (IAM, \"AWS account principals\", \"NotPrincipal\"); \
         to iam-rs the account is its root alone",
        |case| has(case, &["000000000001\"", ":root\"", "\"NotPrincipal\""]),
    ),
    ("iam-rs has no caller without a signature: it stands in for one that no policy names", |case| {
        case.who == 1 && has(case, &["PrincipalArn", "userid", "username"])
    }),
    ("`RestrictPublicBuckets` is not a part of a policy", |case| case.restrict_public_buckets),
];

/// Keys that only some of the actions of cases have (AWS, Service Authorization Reference): requests for
/// others lack them.
const OF_SOME: &[(&str, &[&str])] = &[
    ("s3:prefix", &["s3:ListBucket"]),
    ("s3:max-keys", &["s3:ListBucket"]),
    ("s3:ExistingObjectTag/team", &["s3:GetObject", "s3:GetObjectTagging", "s3:GetObjectVersion"]),
    ("s3:ObjectCreationOperation", &["s3:PutObject"]),
    ("s3:RequestObjectTagKeys", &["s3:PutObject"]),
    ("aws:TagKeys", &["s3:PutBucketTagging"]),
];

fn has(case: &Case, words: &[&str]) -> bool {
    let mut texts = case.own.iter().flatten().chain(&case.shared);
    texts.any(|text| words.iter().any(|word| text.contains(word)))
}

fn reasons(case: &Case) -> Vec<&'static str> {
    DIFFERENCES.iter().filter(|(_, is_of)| is_of(case)).map(|(reason, _)| *reason).collect()
}

/// The verdict of the other engine, with the same rules for the root and the same ways to name a caller.
fn other(case: &Case) -> Verdict {
    let identity = case.identity();
    let (name, own): (String, &[Vec<String>]) = match &*identity {
        Identity::Root => ("arn:aws:iam::000000000001:root".to_owned(), &[]),
        Identity::Anonymous => ("arn:aws:iam::999999999999:user/anonymous".to_owned(), &[]),
        Identity::User(user) => (user.arn.clone(), &case.own),
    };
    let is_root = case.who == 0;
    if is_root && case.action.ends_with("BucketPolicy") {
        return Verdict::Allowed;
    }
    let texts = own.iter().chain((!case.shared.is_empty()).then_some(&case.shared));
    let policies = texts.map(|texts| parse(&document(texts))).collect();
    let resource = match case.key {
        Some(key) => format!("arn:aws:s3:::data/{key}"),
        None => "arn:aws:s3:::data".to_owned(),
    };
    let request = IAMRequest::new_with_context(
        Principal::Aws(PrincipalId::String(name)),
        case.action,
        Arn::parse(&resource).expect("an ARN"),
        context(case, &identity),
    );
    let result = PolicyEvaluator::with_policies(policies).evaluate(&request).expect("a decision");
    match result.decision {
        Decision::Deny => Verdict::DeniedExplicitly,
        Decision::Allow => Verdict::Allowed,
        Decision::NotApplicable if is_root => Verdict::Allowed,
        Decision::NotApplicable => Verdict::DeniedImplicitly,
    }
}

/// Reads a document for the other engine, which takes `"*"` or one kind of principals, and the name of a kind
/// as of an enum.
fn parse(document: &str) -> IAMPolicy {
    serde_json::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"))
}

fn context(case: &Case, identity: &Identity) -> Context {
    let mut context = Context::new();
    for (key, values) in &case.facts.0 {
        if OF_SOME.iter().any(|(bound, actions)| bound == key && !actions.contains(&case.action)) {
            continue;
        }
        let value = match values.as_slice() {
            _ if key.ends_with("TagKeys") => ContextValue::StringList(values.clone()),
            [one] if one == "true" || one == "false" => ContextValue::Boolean(one == "true"),
            [one] => ContextValue::String(one.clone()),
            _ => continue,
        };
        context.insert(key.clone(), value);
    }
    match identity {
        Identity::Root => {
            context.insert("aws:PrincipalArn".into(), ContextValue::String(crate::ROOT_ARN.into()));
        }
        Identity::Anonymous => {}
        Identity::User(user) => {
            context.insert("aws:PrincipalArn".into(), ContextValue::String(user.arn.clone()));
            context.insert("aws:username".into(), ContextValue::String(user.name.clone()));
            for (key, value) in &user.tags {
                context.insert(format!("aws:PrincipalTag/{key}"), ContextValue::String(value.clone()));
            }
        }
    }
    context
}

/// Decides cases by both; the cases without any reason to differ have to be many.
fn compare(seeds: std::ops::Range<u64>) {
    let cases = seeds.end - seeds.start;
    let mut comparable = 0;
    for seed in seeds {
        let case = Case::new(seed);
        let reasons = reasons(&case);
        comparable += u64::from(reasons.is_empty());
        let (ours, theirs) = (case.decide(), other(&case));
        assert!(
            ours == theirs || !reasons.is_empty(),
            "seed {seed}: {ours:?} here, {theirs:?} there: {case:#?}"
        );
    }
    assert!(comparable * 4 > cases, "{comparable} of {cases} cases have no reason to differ");
}

#[test]
fn another_engine_decides_alike() {
    compare(0..3000);
}

/// The comparison over many more cases: minutes.
#[test]
#[ignore = "a million cases"]
fn another_engine_decides_a_million_cases_alike() {
    compare(1_000_000..2_000_000);
}
