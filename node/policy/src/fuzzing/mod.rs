//! Properties of any bytes that a client sends as a policy, for `fuzz/` and for tests: each function takes
//! any input, and panics where a promise is broken.

pub(crate) mod plain;

use std::sync::Arc;

use crate::facts::{Facts, Values};
use crate::form::PolicyForm;
use crate::identity::{Identity, UserIdentity};
use crate::key::KeyName;
use crate::policy::Policy;
use crate::resource::Resource;
use crate::rights::{BucketRules, Rights};

/// Facts that are all one value, or none.
struct EveryFact<'a>(Option<&'a str>);

impl Facts for EveryFact<'_> {
    fn values(&self, name: KeyName, _: &str) -> Values<'_> {
        match self.0 {
            Some(value) if name.is_multivalued() => Values::Many(vec![value.into(), "other".into()]),
            value => Values::from(value),
        }
    }
}

/// A document, as a bucket's if its first byte is odd and an identity's if not, with the key of a request
/// before the first line feed. A policy that is taken is taken again from its text, and rights decide as all
/// its statements do by themselves.
pub fn document(input: &[u8]) {
    let [form, input @ ..] = input else { return };
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(0);
    let (key, text) = input.split_at(end);
    let key = std::str::from_utf8(key).unwrap_or("key");
    let text = text.strip_prefix(b"\n").unwrap_or(text);
    let form = if form & 1 == 1 { PolicyForm::Bucket { name: "data" } } else { PolicyForm::Identity };
    let policy = match Policy::parse(text, form) {
        Ok(policy) => Arc::new(policy),
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal says why");
            return;
        }
    };
    Policy::parse(policy.document().as_bytes(), form).expect("its own text is taken");
    if let PolicyForm::Bucket { name } = form {
        assert_eq!(policy.document_naming(&|_| None), policy.document(), "no principal, no other word");
        let by_id = policy.with_users(name, &|_| Some("AIDA0123456789ABCDEF".to_owned()));
        assert_eq!(by_id.expect("a policy about ids").users().next(), None, "no user is named by ARN");
    }
    let policies = if form == PolicyForm::Identity { vec![Arc::clone(&policy)] } else { vec![] };
    let user = Identity::User(UserIdentity {
        arn: "arn:aws:iam::000000000001:user/bob".to_owned(),
        name: "bob".to_owned(),
        id: "AIDA0123456789ABCDEF".to_owned(),
        tags: vec![("team".to_owned(), "blue*".to_owned())],
        policies,
    });
    for identity in [Identity::Root, Identity::Anonymous, user].map(Arc::new) {
        for restrict_public_buckets in [false, true] {
            let policy = (form != PolicyForm::Identity).then(|| Arc::clone(&policy));
            let rules = BucketRules { name: "data".to_owned(), policy, restrict_public_buckets };
            check(&identity, &rules, key);
        }
    }
}

fn check(identity: &Arc<Identity>, rules: &BucketRules, key: &str) {
    let rights = Rights::new(identity, Some(rules));
    for resource in [Resource::Bucket("data"), Resource::Object("data", key), Resource::Object("data", "a/b")]
    {
        for action in ["s3:GetObject", "s3:PutBucketPolicy", "s3:ListBucket", "s3:PutObject"] {
            for facts in [EveryFact(None), EveryFact(Some(key)), EveryFact(Some("10.0.0.1"))] {
                let plain = plain::decide(identity, rules, action, resource, &facts);
                assert_eq!(rights.decide(action, resource, &facts), plain, "{action} {resource:?}");
            }
        }
    }
    let _ = Rights::new(identity, None).decide("iam:GetUser", Resource::Iam(key), &EveryFact(None));
}

#[cfg(test)]
mod tests;
