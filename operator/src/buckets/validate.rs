//! The rules of Buckets and BucketUsers, once more in Rust: objects that were stored under an older schema,
//! or past a disabled one, come here. The messages are those of the resource definitions.

use std::time::Duration;

use kube::ResourceExt as _;

use super::document::PolicyDocument;
use crate::api::{Bucket, BucketGrant, BucketReference, BucketUser, lists, message};
use crate::limits;
use crate::names::ROOTS_TAGS;

/// A Bucket that breaks no rule.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidBucket<'a> {
    /// The object.
    pub bucket: &'a Bucket,
    /// The name of its bucket.
    pub name: String,
    /// The bucket's policy.
    pub policy: Option<PolicyDocument>,
}

/// A BucketUser that breaks no rule.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidUser<'a> {
    /// The object.
    pub user: &'a BucketUser,
    /// The user's policy.
    pub policy: Option<PolicyDocument>,
    /// How long a former key works.
    pub overlap: Duration,
}

/// Judges a Bucket.
///
/// # Errors
/// The messages of the rules that are broken, at least one.
pub fn bucket(bucket: &Bucket) -> Result<ValidBucket<'_>, Vec<String>> {
    let mut broken = Vec::new();
    let (object, name) = (bucket.name_any(), bucket.bucket_name());
    if object.len() > 63 || (bucket.spec.name.is_none() && object.len() < 3) {
        broken.push(message::BUCKET_OBJECT_NAME.to_owned());
    }
    if !is_bucket_name(&name) {
        broken.push(format!(
            "the bucket's name {name:?} must be 3 to 63 lower-case letters, digits, '-' and '.', and begin and end with a letter or digit"
        ));
    }
    if bucket.spec.tags.keys().any(|key| key.starts_with(ROOTS_TAGS)) {
        broken.push(message::RESERVED_TAG.to_owned());
    }
    let policy = read_policy(bucket.spec.policy.as_ref(), &mut broken);
    if broken.is_empty() { Ok(ValidBucket { bucket, name, policy }) } else { Err(broken) }
}

/// Judges a BucketUser.
///
/// # Errors
/// The messages of the rules that are broken, at least one.
pub fn user(user: &BucketUser) -> Result<ValidUser<'_>, Vec<String>> {
    let mut broken = Vec::new();
    if user.user_name().len() > limits::USER_NAME_MAX {
        broken.push(message::USER_NAME.to_owned());
    }
    if user.spec.buckets.iter().any(|grant| grant.name.is_some() == grant.bucket_ref.is_some()) {
        broken.push(message::ONE_BUCKET.to_owned());
    }
    for name in user.spec.buckets.iter().filter_map(|grant| grant.name.as_ref()) {
        if !is_bucket_name(name) {
            broken.push(format!("{name:?} is no name of a bucket"));
        }
    }
    for reference in user.spec.buckets.iter().filter_map(|grant| grant.bucket_ref.as_ref()) {
        if !is_reference(reference) {
            broken.push(format!("{reference:?} names no Bucket"));
        }
    }
    if user.spec.secret_name.is_some() && user.spec.secret_ref.is_some() {
        broken.push(message::ONE_SECRET.to_owned());
    }
    let overlap = match &user.spec.rotation.overlap {
        None => Some(limits::ROTATION_OVERLAP),
        Some(text) => {
            humantime::parse_duration(text).ok().filter(|time| *time <= limits::ROTATION_OVERLAP_MAX)
        }
    };
    if overlap.is_none() {
        broken.push("rotation.overlap must be a time from 0s to 30days".to_owned());
    }
    let policy = read_policy(user.spec.policy.as_ref(), &mut broken);
    match overlap {
        Some(overlap) if broken.is_empty() => Ok(ValidUser { user, policy, overlap }),
        _ => Err(broken),
    }
}

/// Returns what can be judged of a BucketUser that breaks rules: a policy that cannot be read counts as one
/// that may deny something.
pub(super) fn broken_user(user: &BucketUser) -> ValidUser<'_> {
    let read = |value: &serde_json::Value| {
        PolicyDocument::read(value).unwrap_or(PolicyDocument { text: value.to_string(), content: None })
    };
    ValidUser { user, policy: user.spec.policy.as_ref().map(read), overlap: limits::ROTATION_OVERLAP }
}

/// Whether a right names one bucket, by a name that is one or by its Bucket.
pub(super) fn is_right(grant: &BucketGrant) -> bool {
    match (&grant.name, &grant.bucket_ref) {
        (Some(name), None) => is_bucket_name(name),
        (None, Some(reference)) => is_reference(reference),
        (Some(_), Some(_)) | (None, None) => false,
    }
}

/// Whether a reference has names that objects can have: others make a request that the API server is not
/// even sent, which says nothing about the right.
fn is_reference(BucketReference { name, namespace }: &BucketReference) -> bool {
    is_object_name(name) && namespace.as_deref().is_none_or(is_object_name)
}

/// Whether a text is safe in a path, a resource and a policy; the store has further rules.
pub(super) fn is_bucket_name(name: &str) -> bool {
    (3..=63).contains(&name.len()) && is_object_name(name)
}

/// Whether a text is a name of DNS, as names of objects are.
fn is_object_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.iter().all(|byte| is_plain(*byte) || b".-".contains(byte))
        && [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(|byte| is_plain(*byte)))
}

fn read_policy(value: Option<&serde_json::Value>, broken: &mut Vec<String>) -> Option<PolicyDocument> {
    let read = PolicyDocument::read(value?);
    if read.is_none() {
        broken.push(message::DOCUMENT.to_owned());
    }
    read
}

/// Whether a Bucket may be referred to from another namespace.
pub(super) fn allows(bucket: &Bucket, namespace: &str) -> bool {
    bucket.namespace().as_deref() == Some(namespace) || lists(&bucket.spec.allowed_namespaces, namespace)
}
