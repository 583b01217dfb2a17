//! The look-up of a bucket for a request: a remembered view, or a read of its register that requests share.
//! "No such bucket" is never remembered, nor taken of another request's read.

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::TaskTracker;

use sherd_core::config::{BucketConfig, ConfigKind};
use sherd_core::id::{ObjectKey, RegisterKey};
use sherd_core::record::{Bucket, BucketPhase, State, Tag};

use super::idle_denials::IdleDenials;
use crate::cluster::Cluster;
use crate::cluster::deletions::Deletions;
use crate::object::documents::Documents;
use crate::object::limits::{BUCKET_VIEW_BYTES, BUCKET_VIEWS_BYTES_MAX, DOCUMENT_TRIES};
use crate::object::view::{BucketView, LookupError};
use crate::register::{Failure, Registers};
use crate::views::{self, LookupStart, ViewCache, ViewSource};

/// The bucket that a state is, unless it is deleted.
pub(super) fn living_in(state: Option<&State>) -> Option<&Bucket> {
    match state {
        Some(State::Bucket(bucket)) if bucket.phase != BucketPhase::Deleted => Some(bucket),
        _ => None,
    }
}

/// The registers of buckets and of what lies in them. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::object) struct BucketRegisters {
    pub(in crate::object) cluster: Arc<Cluster>,
    pub(in crate::object) registers: Registers,
    pub(in crate::object) documents: Documents,
    pub(super) views: Arc<ViewCache<Self>>,
    pub(super) deletions: Deletions,
    idle_denials: Arc<IdleDenials>,
}

impl BucketRegisters {
    pub(in crate::object) fn new(documents: Documents, deletions: Deletions) -> Self {
        let Documents { cluster, registers, bodies: _ } = documents.clone();
        let views = Arc::new(ViewCache::with_bytes(BUCKET_VIEWS_BYTES_MAX, BUCKET_VIEW_BYTES));
        Self { cluster, registers, documents, views, deletions, idle_denials: Arc::default() }
    }

    /// The view of a bucket, if one of the last two seconds is remembered.
    pub(in crate::object) fn remembered(&self, name: &ObjectKey) -> Option<BucketView> {
        views::remembered(self, name)
    }

    /// Forgets the view of a bucket, and what reads of it that are under way will find.
    pub(in crate::object) fn forget(&self, name: &ObjectKey) {
        self.views.forget(name);
    }

    /// A bucket as a request sees it: out of the views of the last two seconds, or out of its register.
    pub(in crate::object) async fn look_up(&self, name: &ObjectKey) -> Result<BucketView, LookupError> {
        views::look_up(self, name).await
    }

    /// How a bucket is configured, by its register.
    pub(in crate::object) async fn read_config(
        &self,
        name: &ObjectKey,
    ) -> Result<Arc<BucketConfig>, LookupError> {
        let before = self.views.last(name).map(|view| view.config);
        Ok(self.read(name, before).await?.1)
    }

    /// The bucket that its register holds now.
    pub(in crate::object) async fn stored(&self, name: &ObjectKey) -> Result<Bucket, LookupError> {
        let found = self.registers.read(&RegisterKey::bucket(name.clone())).await?;
        Ok(living_in(found.as_ref().map(|found| &found.value.state)).ok_or(LookupError::Missing)?.clone())
    }

    /// A bucket and its configuration, by its register; of what was the same `before`, its parsed form is
    /// taken over. A document that is gone was replaced: the register names another one by then.
    async fn read(
        &self,
        name: &ObjectKey,
        before: Option<Arc<BucketConfig>>,
    ) -> Result<(Bucket, Arc<BucketConfig>), LookupError> {
        for _ in 0..DOCUMENT_TRIES {
            let bucket = self.stored(name).await?;
            if let Some(before) = before.as_ref().filter(|before| before.entries() == &bucket.entries) {
                return Ok((bucket, Arc::clone(before)));
            }
            if let Some(documents) = self.documents_of(&bucket, before.as_deref()).await? {
                let config = BucketConfig::of(&bucket.entries, before.as_deref(), &documents);
                self.idle_denials.look_at(name, bucket.id, &config);
                return Ok((bucket, Arc::new(config)));
            }
        }
        Err(Failure::Unavailable.into())
    }

    /// The documents that a bucket names and `before` has not; `None` where one is gone.
    async fn documents_of(
        &self,
        bucket: &Bucket,
        before: Option<&BucketConfig>,
    ) -> Result<Option<Vec<(ConfigKind, Bytes)>>, Failure> {
        let mut documents = Vec::new();
        for (kind, generation) in BucketConfig::documents(&bucket.entries, before) {
            match self.documents.read(generation.register(bucket.id, kind)).await? {
                Some(document) => documents.push((kind, document.bytes)),
                None => return Ok(None),
            }
        }
        Ok(Some(documents))
    }
}

impl ViewSource for BucketRegisters {
    type Name = ObjectKey;
    type View = BucketView;
    type Error = LookupError;

    fn weight(view: &BucketView) -> u64 {
        let of_tag = |tag: &Tag| size_of::<Tag>() + tag.key.len() + tag.value.len();
        let tags: usize = view.roots_tags.iter().flat_map(|tags| tags.iter()).map(of_tag).sum();
        BUCKET_VIEW_BYTES + (view.config.heap_bytes() + tags) as u64
    }

    fn views(&self) -> &Arc<ViewCache<Self>> {
        &self.views
    }

    fn tasks(&self) -> &TaskTracker {
        self.registers.tasks()
    }

    async fn read_view(&self, name: &ObjectKey, start: LookupStart) -> Result<BucketView, LookupError> {
        let before = self.views.last(name).map(|view| view.config);
        let (bucket, config) = self.read(name, before).await?;
        let view = BucketView::new(name.clone(), &bucket, config);
        self.views.fill(start, name, view.clone());
        Ok(view)
    }
}
