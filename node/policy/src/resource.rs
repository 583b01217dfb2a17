//! The resource of a request, and `Resource` and `NotResource` of a statement.

use std::borrow::Cow;

use super::arn::ArnPattern;
use super::bytes::allocated;
use super::caller::Caller;
use super::key::ConditionKey;
use super::pattern::{Context, Glob};

/// The resource that a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The account: all buckets, or an action of another service that names no resource.
    Service,
    /// A bucket.
    Bucket(&'a str),
    /// An object, by its bucket and its key.
    Object(&'a str, &'a str),
    /// The resource of an action of another service, by its ARN.
    Iam(&'a str),
}

impl<'a> Resource<'a> {
    /// The ARN that patterns are compared with; none if only `*` matches.
    fn arn(self, action: &str) -> Option<Cow<'a, str>> {
        Some(match self {
            Self::Service if action.starts_with("s3:") => "arn:aws:s3:::*".into(),
            Self::Service => return None,
            Self::Bucket(bucket) => format!("arn:aws:s3:::{bucket}").into(),
            Self::Object(bucket, key) => format!("arn:aws:s3:::{bucket}/{key}").into(),
            Self::Iam(arn) => arn.into(),
        })
    }
}

/// `Resource` or `NotResource`.
#[derive(Debug, Clone)]
pub(crate) struct ResourceTest {
    pub(crate) is_negated: bool,
    pub(crate) patterns: Vec<ArnPattern>,
    /// The answer of `NotResource` where one of its variables has no value: true in a statement that denies.
    pub(crate) when_unknown: bool,
}

impl ResourceTest {
    /// Whether the test matches a resource, of any bucket and any service.
    pub(crate) fn matches(&self, action: &str, resource: Resource<'_>, context: Context<'_>) -> bool {
        let is_listed = match resource.arn(action) {
            Some(arn) => self.patterns.iter().any(|pattern| pattern.matches(&arn, context)),
            None => self.patterns.contains(&ArnPattern::Any),
        };
        if self.is_negated && !is_listed {
            return self.patterns.iter().all(|pattern| pattern.has_values(context)) || self.when_unknown;
        }
        is_listed != self.is_negated
    }

    /// Bytes that it keeps beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let patterns = &*self.patterns;
        allocated(size_of_val(patterns)) + patterns.iter().map(ArnPattern::heap_bytes).sum::<usize>()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        self.patterns.iter().flat_map(ArnPattern::keys)
    }

    /// The test for one identity and the resources of one bucket.
    pub(crate) fn for_bucket(&self, bucket: &str, caller: Caller<'_>) -> BucketResources {
        let mut found = BucketResources {
            is_negated: self.is_negated,
            unlisted: self.is_negated,
            when_unknown: self.when_unknown,
            ..BucketResources::default()
        };
        for pattern in &self.patterns {
            let Some(pattern) = pattern.for_caller(caller) else {
                // The pattern matches nothing for this caller, and so everything would be outside of it.
                found.unlisted &= self.when_unknown;
                continue;
            };
            if !pattern.is_fixed() {
                found.open.push(pattern);
            } else if let Some(tail) = pattern.of_s3()
                && let Some(glob) = tail.fixed()
            {
                found.bucket |= glob.matches(bucket);
                found.keys.extend(glob.after(&format!("{bucket}/")));
            }
        }
        if let Some(any) = found.keys.iter().find(|glob| glob.is_any()).cloned() {
            found.keys = vec![any];
        }
        for glob in &found.keys {
            match glob.prefix().as_bytes().first() {
                Some(first) => found.first_bytes[usize::from(first >> 6)] |= 1 << (first & 63),
                None => found.first_bytes = [u64::MAX; 4],
            }
        }
        found
    }
}

/// The resources of one bucket that a statement names, for one identity.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "answers of patterns, each by itself")]
pub(crate) struct BucketResources {
    is_negated: bool,
    /// The answer where nothing is listed.
    unlisted: bool,
    /// As [`ResourceTest::when_unknown`].
    when_unknown: bool,
    /// Whether the bucket itself is listed.
    bucket: bool,
    /// The keys that are listed.
    keys: Vec<Glob>,
    /// The bytes that a listed key may begin with, a bit each.
    first_bytes: [u64; 4],
    /// Patterns with variables that the request fills in.
    open: Vec<ArnPattern>,
}

impl BucketResources {
    /// Whether the resources match the bucket; none if that depends on the request.
    pub(crate) fn matches_bucket(&self) -> Option<bool> {
        self.settled(self.bucket)
    }

    /// Whether the resources match all objects, or no object; none if that depends on key and request.
    pub(crate) fn matches_all_objects(&self) -> Option<bool> {
        match &*self.keys {
            [] => self.settled(false),
            [only] if only.is_any() => Some(!self.is_negated),
            _ => None,
        }
    }

    /// The answer where no pattern is open.
    fn settled(&self, is_listed: bool) -> Option<bool> {
        if is_listed {
            return Some(!self.is_negated);
        }
        self.open.is_empty().then_some(self.unlisted)
    }

    fn lists_key(&self, key: &str) -> bool {
        let may_begin = |first: &u8| self.first_bytes[usize::from(first >> 6)] >> (first & 63) & 1 == 1;
        key.as_bytes().first().is_none_or(may_begin) && self.keys.iter().any(|glob| glob.matches(key))
    }

    pub(crate) fn matches(&self, resource: Resource<'_>, context: Context<'_>) -> bool {
        let is_listed = match resource {
            Resource::Bucket(_) => self.bucket,
            Resource::Object(_, key) => self.lists_key(key),
            Resource::Service | Resource::Iam(_) => return false,
        };
        if let Some(settled) = self.settled(is_listed) {
            return settled;
        }
        let arn = resource.arn("s3:").unwrap_or_default();
        let is_listed = self.open.iter().any(|pattern| pattern.matches(&arn, context));
        if is_listed {
            return !self.is_negated;
        }
        self.unlisted && (self.when_unknown || self.open.iter().all(|pattern| pattern.has_values(context)))
    }

    /// Bytes that it keeps beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        allocated(size_of_val(&*self.keys))
            + self.keys.iter().map(Glob::heap_bytes).sum::<usize>()
            + allocated(size_of_val(&*self.open))
            + self.open.iter().map(ArnPattern::heap_bytes).sum::<usize>()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        self.open.iter().flat_map(ArnPattern::keys)
    }
}
