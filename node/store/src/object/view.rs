//! A bucket as a request sees it, looked up once a request and handed to its verbs.

use std::fmt;
use std::sync::Arc;

use sherd_core::config::BucketConfig;
use sherd_core::id::{BucketId, ObjectKey};
use sherd_core::record::{Bucket, Tag};

use super::error::{Error, MissingResource};
use crate::register::Failure;

/// A bucket as one request sees it, as it was at most two seconds ago. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketView {
    /// Name of the bucket.
    pub name: ObjectKey,
    /// Id of the bucket, under which its objects lie.
    pub id: BucketId,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// How it is configured.
    pub config: Arc<BucketConfig>,
    /// Tags of root on the bucket, where it has any: policies may decide by them.
    pub roots_tags: Option<Arc<[Tag]>>,
}

impl BucketView {
    pub(super) fn new(name: ObjectKey, bucket: &Bucket, config: Arc<BucketConfig>) -> Self {
        let roots: Arc<[Tag]> = bucket.tags.iter().filter(|tag| tag.is_roots()).cloned().collect();
        let roots_tags = (!roots.is_empty()).then_some(roots);
        Self { name, id: bucket.id, created_ms: bucket.created_ms, config, roots_tags }
    }
}

/// The bucket of a request to a verb, with what the request's own look-up of it found. Two are equal where
/// they have the same name.
#[derive(Debug, Clone)]
pub enum BucketRef {
    /// Name alone: the verb looks the bucket up.
    Named(ObjectKey),
    /// View that the verb takes.
    Viewed(BucketView),
    /// The look-up failed: the verb fails by that error, where it would look the bucket up.
    Failed {
        /// The bucket's name.
        name: ObjectKey,
        /// Why it has no view.
        error: LookupError,
    },
}

impl BucketRef {
    /// Name of the bucket.
    pub const fn name(&self) -> &ObjectKey {
        match self {
            Self::Named(name) | Self::Viewed(BucketView { name, .. }) | Self::Failed { name, .. } => name,
        }
    }

    /// Name of the bucket, by value.
    pub fn into_name(self) -> ObjectKey {
        match self {
            Self::Named(name) | Self::Viewed(BucketView { name, .. }) | Self::Failed { name, .. } => name,
        }
    }

    /// View of the bucket, where it was looked up and is there.
    pub const fn view(&self) -> Option<&BucketView> {
        match self {
            Self::Viewed(view) => Some(view),
            Self::Named(_) | Self::Failed { .. } => None,
        }
    }
}

impl From<ObjectKey> for BucketRef {
    fn from(name: ObjectKey) -> Self {
        Self::Named(name)
    }
}

impl From<BucketView> for BucketRef {
    fn from(view: BucketView) -> Self {
        Self::Viewed(view)
    }
}

impl PartialEq for BucketRef {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for BucketRef {}

impl fmt::Display for BucketRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().as_str())
    }
}

/// Why the look-up of a bucket found no view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The bucket does not exist.
    #[error("no such bucket")]
    Missing,
    /// The bucket's register could not be read.
    #[error(transparent)]
    Register(#[from] Failure),
}

impl From<LookupError> for Error {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Missing => MissingResource::Bucket.into(),
            LookupError::Register(failure) => failure.into(),
        }
    }
}
