//! Random policies and requests over a small vocabulary, so that statements match often.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{
    BucketRules, Facts, Identity, KeyName, Policy, PolicyForm, Resource, Rights, UserIdentity, Values,
    Verdict,
};

/// Facts by the whole name of a key.
#[derive(Debug, Default, Clone)]
pub(crate) struct FactTable(pub(crate) HashMap<String, Vec<String>>);

impl Facts for FactTable {
    fn values(&self, name: KeyName, tag: &str) -> Values<'_> {
        let key = if tag.is_empty() { name.text().to_owned() } else { format!("{}/{tag}", name.text()) };
        match self.0.get(&key).map(Vec::as_slice) {
            None => Values::Absent,
            Some([one]) if !name.is_multivalued() => Values::from(one.as_str()),
            Some(several) => Values::Many(several.iter().map(|value| value.as_str().into()).collect()),
        }
    }
}

impl FactTable {
    pub(crate) fn of(facts: &[(&str, &str)]) -> Self {
        Self(facts.iter().map(|(key, value)| ((*key).to_owned(), vec![(*value).to_owned()])).collect())
    }
}

/// Random choices of a seed.
#[derive(Debug)]
pub(crate) struct Chance {
    state: u64,
    /// Leaves out what other engines are known to decide differently.
    is_common: bool,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
        Self { state, is_common: seed.is_multiple_of(2) }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).expect("below a usize")
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn list(&mut self, from: &[&str]) -> String {
        let count = 1 + self.below(3);
        let from: Vec<_> = from.iter().copied().filter(|text| !self.is_common || is_common(text)).collect();
        let from = from.as_slice();
        let texts: Vec<_> = (0..count).map(|_| format!("{:?}", self.pick(from))).collect();
        if count == 1 && self.one_in(2) { texts[0].clone() } else { format!("[{}]", texts.join(", ")) }
    }
}

/// Whether engines are known to agree about a text.
fn is_common(text: &str) -> bool {
    !["${", "ArnEquals", "ArnNotEquals", ":root", "000000000001\"", "TagKeys"]
        .iter()
        .any(|word| text.contains(word))
}

pub(crate) const BUCKET: &str = "data";

const ACTIONS: &[&str] = &[
    "*",
    "s3:*",
    "s3:Get*",
    "S3:get?bject",
    "s3:List*",
    "s3:*Object",
    "s3:*Version*",
    "s3:GetObject",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:GetObjectTagging",
    "s3:ListBucket",
    "s3:PutBucketPolicy",
];
const RESOURCES: &[&str] = &[
    "*",
    "arn:aws:s3:::*",
    "arn:aws:s3:::da?a",
    "arn:aws:s3:::data",
    "arn:aws:s3:::data*",
    "arn:aws:s3:::data/*",
    "arn:aws:s3:::data/*",
    "arn:aws:s3:::data/a/*",
    "arn:aws:s3:::data/?/x*",
    "arn:aws:s3:::*/b*b",
    "arn:aws:s3:::data*/*b",
    "arn:aws:s3:::data/a/xb",
    "arn:aws:s3:::other/*",
    "arn:aws:s3:::*a*a/*x*",
    "arn:*:s3:*:*:data/a*",
    "arn:aws:iam::*:user/*",
    "arn:aws:s3:::data/${aws:username}/*",
    "arn:aws:s3:::${aws:username}/*",
    "arn:aws:s3:::data/${aws:UserAgent}*",
    "arn:aws:s3:::data/${aws:PrincipalTag/none}/*",
    "arn:aws:s3:::data/${aws:PrincipalTag/none, 'a'}/*",
    "arn:aws:s3:::data/a${*}",
];
const PRINCIPALS: &[&str] = &[
    r#""*""#,
    r#"{"AWS": "*"}"#,
    r#"{"AWS": "arn:aws:iam::000000000001:user/bob"}"#,
    r#"{"AWS": ["arn:aws:iam::000000000001:user/eve", "000000000001"]}"#,
    r#"{"AWS": ["arn:aws:iam::000000000001:user/bob", "arn:aws:iam::000000000001:root"]}"#,
    r#"{"AWS": "arn:aws:iam::000000000001:root"}"#,
    r#"{"Service": "logging.s3.amazonaws.com"}"#,
];
/// Operators of texts, numbers, dates, truth and addresses, each with keys and values.
const CONDITIONS: &[(&[&str], &[&str], &[&str])] = &[
    (
        &[
            "StringEquals",
            "StringNotEquals",
            "StringEqualsIgnoreCase",
            "StringNotEqualsIgnoreCase",
            "StringLike",
            "StringNotLike",
            "StringEqualsIfExists",
            "StringNotLikeIfExists",
            "ForAnyValue:StringEquals",
            "ForAllValues:StringLike",
            "ForAllValues:StringNotEquals",
            "ForAnyValue:StringNotLike",
        ],
        &[
            "s3:prefix",
            "aws:UserAgent",
            "AWS:username",
            "aws:PrincipalTag/team",
            "s3:ExistingObjectTag/team",
            "aws:TagKeys",
            "s3:RequestObjectTagKeys",
        ],
        &[
            "a",
            "A",
            "a/*",
            "*",
            "b?b",
            "blue",
            "${aws:username}",
            "${aws:PrincipalTag/team}/*",
            "${aws:UserAgent}",
        ],
    ),
    (
        &["ArnLike", "ArnEquals", "ArnNotLike", "ArnNotEqualsIfExists"],
        &["aws:PrincipalArn", "aws:SourceArn"],
        &["arn:aws:iam::000000000001:user/bob", "arn:aws:iam::*:user/*", "arn:aws:iam::000000000001:root"],
    ),
    (
        &[
            "NumericEquals",
            "NumericNotEquals",
            "NumericLessThan",
            "NumericGreaterThanEquals",
            "NumericLessThanEqualsIfExists",
        ],
        &["s3:max-keys", "s3:signatureAge"],
        &["10", "1000", "10.0", "-1"],
    ),
    (
        &["DateLessThan", "DateGreaterThanEquals", "DateNotEquals", "DateEqualsIfExists"],
        &["aws:CurrentTime", "aws:EpochTime"],
        &["2026-11-26T00:00:00Z", "1700000000", "2030-01-01T00:00:00+02:00"],
    ),
    (&["Bool", "BoolIfExists"], &["aws:SecureTransport", "s3:ObjectCreationOperation"], &["true", "false"]),
    (
        &["IpAddress", "NotIpAddress", "NotIpAddressIfExists"],
        &["aws:SourceIp"],
        &["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"],
    ),
];

/// A random case: an identity, a bucket and its policy, and a request, with the texts of all documents.
#[derive(Debug)]
pub(crate) struct Case {
    /// The statements of the identity's policies.
    pub(crate) own: Vec<Vec<String>>,
    /// The statements of the bucket's policy.
    pub(crate) shared: Vec<String>,
    pub(crate) who: usize,
    pub(crate) restrict_public_buckets: bool,
    pub(crate) action: &'static str,
    pub(crate) key: Option<&'static str>,
    pub(crate) facts: FactTable,
}

impl Case {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let who = chance.below(5);
        let own = (0..chance.below(4)).map(|_| statements(&mut chance, PolicyForm::Identity)).collect();
        let has_policy = who < 2 || chance.one_in(2);
        let shared =
            if has_policy { statements(&mut chance, PolicyForm::Bucket { name: BUCKET }) } else { vec![] };
        let is_object = !chance.one_in(4);
        let action = if is_object {
            chance.pick(&[
                "s3:GetObject",
                "s3:PutObject",
                "s3:DeleteObject",
                "s3:GetObjectTagging",
                "s3:GetObjectVersion",
            ])
        } else {
            chance.pick(&["s3:ListBucket", "s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:PutBucketTagging"])
        };
        let keys = ["a", "a/x", "a/xb", "bob/x", "bob/a/xb", "\u{e9}/x", "b", "bb", "a*", "", "none//"];
        let key = is_object.then(|| chance.pick(&keys));
        let restrict_public_buckets = !chance.is_common && chance.one_in(4);
        Self { own, shared, who, restrict_public_buckets, action, key, facts: facts(&mut chance) }
    }

    pub(crate) fn identity(&self) -> Arc<Identity> {
        Arc::new(match self.who {
            0 => Identity::Root,
            1 => Identity::Anonymous,
            number => Identity::User(UserIdentity {
                arn: format!("arn:aws:iam::000000000001:user/{}", if number == 2 { "eve" } else { "bob" }),
                name: if number == 2 { "eve" } else { "bob" }.to_owned(),
                id: "AIDA0123456789ABCDEF".to_owned(),
                tags: if number == 4 { vec![("Team".to_owned(), "blue".to_owned())] } else { vec![] },
                policies: self.own_policies(),
            }),
        })
    }

    pub(crate) fn own_policies(&self) -> Vec<Arc<Policy>> {
        self.own.iter().map(|texts| policy(texts, PolicyForm::Identity)).collect()
    }

    pub(crate) fn rules(&self) -> BucketRules {
        let form = PolicyForm::Bucket { name: BUCKET };
        BucketRules {
            name: BUCKET.to_owned(),
            policy: (!self.shared.is_empty()).then(|| policy(&self.shared, form)),
            restrict_public_buckets: self.restrict_public_buckets,
        }
    }

    pub(crate) fn resource(&self) -> Resource<'static> {
        self.key.map_or(Resource::Bucket(BUCKET), |key| Resource::Object(BUCKET, key))
    }

    pub(crate) fn decide(&self) -> Verdict {
        Rights::new(&self.identity(), Some(&self.rules())).decide(self.action, self.resource(), &self.facts)
    }
}

pub(crate) fn document(statements: &[String]) -> String {
    format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(", "))
}

fn policy(statements: &[String], form: PolicyForm<'_>) -> Arc<Policy> {
    Arc::new(Policy::parse(document(statements).as_bytes(), form).expect("each statement was checked"))
}

/// Statements that are taken: what is refused is drawn again.
fn statements(chance: &mut Chance, form: PolicyForm<'_>) -> Vec<String> {
    let wanted = 1 + chance.below(3);
    let mut found = Vec::new();
    while found.len() < wanted {
        let text = statement(chance, form);
        if Policy::parse(document(std::slice::from_ref(&text)).as_bytes(), form).is_ok() {
            found.push(text);
        }
    }
    found
}

pub(crate) fn statement(chance: &mut Chance, form: PolicyForm<'_>) -> String {
    let effect = if chance.one_in(3) { "Deny" } else { "Allow" };
    let mut elements = vec![format!(r#""Effect": "{effect}""#)];
    let action = if chance.one_in(8) { "NotAction" } else { "Action" };
    elements.push(format!(r#""{action}": {}"#, chance.list(ACTIONS)));
    let resource = if chance.one_in(8) { "NotResource" } else { "Resource" };
    elements.push(format!(r#""{resource}": {}"#, chance.list(RESOURCES)));
    if form.is_bucket() {
        let principal = if effect == "Deny" && !chance.is_common && chance.one_in(4) {
            "NotPrincipal"
        } else {
            "Principal"
        };
        elements.push(format!(r#""{principal}": {}"#, principal_of(chance)));
    }
    let conditions: Vec<_> = (0..chance.below(3)).map(|_| condition(chance)).collect();
    if !conditions.is_empty() {
        elements.push(format!(r#""Condition": {{{}}}"#, conditions.join(", ")));
    }
    format!("{{{}}}", elements.join(", "))
}

/// A principal that the choices leave.
fn principal_of(chance: &mut Chance) -> &'static str {
    loop {
        let found = chance.pick(PRINCIPALS);
        if !chance.is_common || is_common(found) {
            return found;
        }
    }
}

fn condition(chance: &mut Chance) -> String {
    loop {
        let found = any_condition(chance);
        if !chance.is_common || is_common(&found) {
            return found;
        }
    }
}

fn any_condition(chance: &mut Chance) -> String {
    if chance.one_in(10) {
        let key = chance.pick(&["s3:prefix", "aws:TagKeys", "aws:username"]);
        return format!(r#""Null": {{"{key}": "{}"}}"#, chance.pick(&["true", "false"]));
    }
    let (operators, keys, values) = chance.pick(CONDITIONS);
    format!(r#""{}": {{"{}": {}}}"#, chance.pick(operators), chance.pick(keys), chance.list(values))
}

fn facts(chance: &mut Chance) -> FactTable {
    let mut table = FactTable::default();
    let mut add = |key: &str, values: &[&str]| {
        if !chance.one_in(3) {
            table.0.insert(key.to_owned(), vec![chance.pick(values).to_owned()]);
        }
    };
    add("s3:prefix", &["a", "a/", "A", "bob/", "blue", ""]);
    add("aws:UserAgent", &["a", "blue", "curl/8"]);
    add("s3:ExistingObjectTag/team", &["blue", "red", "bob"]);
    add("s3:max-keys", &["10", "1000", "999.5", "ten"]);
    add("s3:signatureAge", &["-1", "0", "10"]);
    add("aws:CurrentTime", &["2026-11-26T00:00:00Z", "2029-12-31T22:00:00Z"]);
    add("aws:EpochTime", &["1700000000", "1"]);
    add("aws:SecureTransport", &["true", "false"]);
    add("s3:ObjectCreationOperation", &["true"]);
    add("aws:SourceIp", &["10.1.2.3", "192.0.2.7", "192.0.2.8", "2001:db8::1"]);
    for key in ["aws:TagKeys", "s3:RequestObjectTagKeys"] {
        if !chance.one_in(3) {
            let count = chance.below(3);
            let values = (0..count).map(|_| chance.pick(&["a", "A", "blue", "bob"]).to_owned()).collect();
            table.0.insert(key.to_owned(), values);
        }
    }
    table
}
