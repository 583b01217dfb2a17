//! Decides whose a bucket is, and what of it is set. Plain functions over values.

use crate::api::{AccessReason, Bucket, BucketPart, CorsRule, PublicAccessBlock, Tags};
use crate::buckets::document::PolicyDocument;
use crate::buckets::validate::ValidBucket;
use crate::names::{BUCKET_TAG, ROOTS_TAGS};
use kube::ResourceExt as _;

/// The configuration of a bucket that is there. A part that the specification does not name is not read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObservedBucket {
    /// All tags.
    pub tags: Tags,
    /// The policy's text.
    pub policy: Option<String>,
    /// The limits of what a policy may open.
    pub public_access_block: Option<PublicAccessBlock>,
    /// The rules of cross-origin access.
    pub cors: Option<Vec<CorsRule>>,
}

/// One change of a bucket's configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum BucketStep {
    /// Replaces all tags.
    PutTags(Tags),
    /// Sets the limits of what a policy may open.
    PutPublicAccessBlock(PublicAccessBlock),
    /// Sets the policy.
    PutPolicy(PolicyDocument),
    /// Removes the policy.
    DeletePolicy,
    /// Sets the rules of cross-origin access.
    PutCors(Vec<CorsRule>),
    /// Removes the rules of cross-origin access.
    DeleteCors,
}

/// Why a bucket that is there is not this object's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignBucket {
    /// Why.
    pub reason: AccessReason,
    /// In words.
    pub message: String,
}

/// The mark of a bucket: the namespace and name of its Bucket, and the uid of the namespace, since one that
/// is made again is another tenant's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketMark<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The Bucket.
    pub name: &'a str,
    /// The namespace's uid.
    pub uid: &'a str,
}

impl<'a> BucketMark<'a> {
    /// Reads a mark; nothing where the text has no two slashes.
    pub fn read(text: &'a str) -> Option<Self> {
        let (namespace, rest) = text.split_once('/')?;
        let (name, uid) = rest.split_once('/')?;
        Some(Self { namespace, name, uid })
    }

    fn names(&self, bucket: &Bucket) -> bool {
        bucket.namespace().as_deref() == Some(self.namespace) && bucket.name_any() == self.name
    }
}

/// The text that marks a Bucket's bucket; `uid` is that of its namespace.
pub fn mark(bucket: &Bucket, uid: &str) -> String {
    format!("{}/{}/{uid}", bucket.namespace().unwrap_or_default(), bucket.name_any())
}

/// Returns the mark by which a bucket with these tags is this object's; nothing where it is not. Others may
/// write a status, and it lasts longer than a bucket: it does not count.
pub fn own_mark(bucket: &Bucket, uid: &str, tags: &Tags) -> Option<String> {
    let text = tags.get(BUCKET_TAG)?;
    let is_own = |mark: BucketMark<'_>| mark.names(bucket) && mark.uid == uid;
    BucketMark::read(text).is_some_and(is_own).then(|| text.clone())
}

/// Judges whether a bucket may be this object's. `other_is_there` says whether the Bucket exists that another
/// mark names; `any_bucket` whether this namespace may take any bucket.
///
/// # Errors
/// [`ForeignBucket`].
pub fn claim(
    valid: &ValidBucket<'_>,
    uid: &str,
    tags: &Tags,
    other_is_there: bool,
    any_bucket: bool,
) -> Result<(), ForeignBucket> {
    if own_mark(valid.bucket, uid, tags).is_some() {
        return Ok(());
    }
    let name = &valid.name;
    let namespace = valid.bucket.namespace().unwrap_or_default();
    let foreign = |reason, message| Err(ForeignBucket { reason, message });
    let other = tags.get(BUCKET_TAG);
    let mark = other.and_then(|other| BucketMark::read(other));
    let of_namespace = mark.is_some_and(|mark| mark.namespace == namespace && mark.uid == uid);
    // The names of one tenant are not for another.
    let is_named = mark.is_some_and(|mark| mark.names(valid.bucket));
    let shown = other.filter(|_| any_bucket || of_namespace || is_named).map(|other| bucket_of(other));
    if other.is_some() && other_is_there {
        let whose = shown.map_or("another namespace's".to_owned(), |other| format!("that of Bucket {other}"));
        return foreign(AccessReason::BucketTaken, format!("bucket {name} is {whose}"));
    }
    if !valid.bucket.spec.adopt {
        let left = shown.map(|other| format!(", left by Bucket {other}")).unwrap_or_default();
        let message = format!("bucket {name} is there already{left}: spec.adopt takes it over");
        return foreign(AccessReason::BucketExists, message);
    }
    if any_bucket || of_namespace {
        return Ok(());
    }
    let message = format!(
        "bucket {name} was not made by a Bucket of namespace {namespace}, and the StorageCluster does not list it in spec.bucketUsers.anyBucket"
    );
    foreign(AccessReason::AdoptionNotAllowed, message)
}

/// The Bucket that a mark names, in words.
fn bucket_of(mark: &str) -> String {
    let names = |BucketMark { namespace, name, uid: _ }| format!("{namespace}/{name}");
    BucketMark::read(mark).map_or_else(|| mark.to_owned(), names)
}

/// Decides what of a bucket is set. A part that the specification does not name is left as it is, unless the
/// last status says that it once named it: then it is undone.
pub fn steps(valid: &ValidBucket<'_>, uid: &str, observed: &ObservedBucket) -> Vec<BucketStep> {
    let ObservedBucket { tags, policy, public_access_block, cors } = observed;
    let spec = &valid.bucket.spec;
    let last = valid.bucket.status.clone().unwrap_or_default();
    let was_named = |part: BucketPart| last.applied.contains(&part);
    let mut steps = Vec::new();
    let wanted = wanted_tags(valid, uid, tags, &last.tag_keys);
    if wanted != *tags {
        steps.push(BucketStep::PutTags(wanted));
    }
    // Before the policy, which it may forbid or permit.
    let block = spec
        .public_access_block
        .or_else(|| was_named(BucketPart::PublicAccessBlock).then(PublicAccessBlock::default));
    if let Some(block) = block.filter(|block| public_access_block.as_ref() != Some(block)) {
        steps.push(BucketStep::PutPublicAccessBlock(block));
    }
    match &valid.policy {
        Some(wanted) if !policy.as_ref().is_some_and(|found| wanted.is(found)) => {
            steps.push(BucketStep::PutPolicy(wanted.clone()));
        }
        None if was_named(BucketPart::Policy) => steps.push(BucketStep::DeletePolicy),
        Some(_) | None => {}
    }
    match &spec.cors {
        Some(wanted) if cors.as_ref() != Some(wanted) => steps.push(BucketStep::PutCors(wanted.clone())),
        None if was_named(BucketPart::Cors) => steps.push(BucketStep::DeleteCors),
        Some(_) | None => {}
    }
    steps
}

/// The bucket's tags with those of the specification and the mark, without those that it named before.
pub fn wanted_tags(valid: &ValidBucket<'_>, uid: &str, tags: &Tags, named_before: &[String]) -> Tags {
    let mut wanted = tags.clone();
    // A status that another client wrote must not take away a tag of root's.
    wanted.retain(|key, _| key.starts_with(ROOTS_TAGS) || !named_before.contains(key));
    wanted.extend(valid.bucket.spec.tags.clone());
    wanted.insert(BUCKET_TAG.to_owned(), mark(valid.bucket, uid));
    wanted
}
