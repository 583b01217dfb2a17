//! The look-up of a bucket for a request: a remembered view, or a read of its register that requests share.
//!
//! ```text
//! view younger than 1 s -> taken
//! from 1 s on           -> taken, and refreshed in the background, once
//! 2 s old, or none      -> the register's read, together with requests that came at most 1 s later
//! ```
//! A request takes of another one's read only that the bucket is there: what was missing, or could not be
//! read, when the other began, it reads itself.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use sherd_core::config::{BucketConfig, ConfigKind};
use sherd_core::id::{ObjectKey, RegisterKey};
use sherd_core::record::{Bucket, BucketPhase, State};

use super::cache::{BucketCache, LookupStart, LookupUnderWay, SharedLookup};
use super::documents::Documents;
use crate::cluster::Cluster;
use crate::cluster::deletions::Deletions;
use crate::object::limits::DOCUMENT_TRIES;
use crate::object::view::{BucketView, LookupError};
use crate::observe::trace;
use crate::register::{Failure, Registers};

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
    pub(super) documents: Documents,
    pub(super) views: Arc<BucketCache>,
    pub(super) deletions: Deletions,
}

impl BucketRegisters {
    pub(in crate::object) fn new(documents: Documents, deletions: Deletions) -> Self {
        let Documents { cluster, registers, bodies: _ } = documents.clone();
        Self { cluster, registers, documents, views: Arc::default(), deletions }
    }

    /// The view of a bucket, if one of the last two seconds is remembered.
    pub(in crate::object) fn remembered(&self, name: &ObjectKey) -> Option<BucketView> {
        let (view, is_due) = self.views.get(name)?;
        if is_due {
            self.refresh(name);
        }
        Some(view)
    }

    /// Forgets the view of a bucket, and what reads of it that are under way will find.
    pub(in crate::object) fn forget(&self, name: &ObjectKey) {
        self.views.forget(name);
    }

    /// A bucket as a request sees it: out of the views of the last two seconds, or out of its register.
    pub(in crate::object) async fn look_up(&self, name: &ObjectKey) -> Result<BucketView, LookupError> {
        if let Some(view) = self.remembered(name) {
            return Ok(view);
        }
        let (read, is_joined) = self.begin_read(name, None);
        match read.await {
            Err(_) if is_joined => self.read_view(name, self.views.start(name)).await,
            read => read,
        }
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

    fn refresh(&self, name: &ObjectKey) {
        match Arc::clone(&self.views.refreshes).try_acquire_owned() {
            Ok(place) => drop(self.begin_read(name, Some(place))),
            Err(_full) => self.views.refresh_later(name),
        }
    }

    /// Takes part in a read of the bucket's register that is under way, or begins one. It ends when its last
    /// request is dropped, so that a client that asks and leaves has no read done for it; a refresh goes on.
    /// Says whether it was under way.
    fn begin_read(&self, name: &ObjectKey, refresh: Option<OwnedSemaphorePermit>) -> (SharedLookup, bool) {
        let mut lookups = self.views.lookups.lock();
        let start = self.views.start(name);
        let known = lookups.get(name).filter(|known| known.start.may_be_joined_by(start));
        if let Some(outcome) = known.and_then(|known| known.outcome.upgrade()) {
            return (outcome, true);
        }
        let (mut done, outcome) = oneshot::channel();
        let ended = |read: Result<_, _>| read.unwrap_or(Err(Failure::Unavailable.into()));
        let outcome: SharedLookup = outcome.map(ended).boxed().shared();
        let waited_for = outcome.downgrade().expect("it was not polled yet");
        lookups.insert(name.clone(), LookupUnderWay { start, outcome: waited_for });
        drop(lookups);
        let kept = refresh.map(|place| (place, outcome.clone()));
        let (under, name) = (self.clone(), name.clone());
        self.registers.tasks().spawn(trace::inherited(async move {
            let _kept = kept;
            let read = tokio::select! {
                biased;
                read = under.read_view(&name, start) => Some(read),
                () = done.closed() => None,
            };
            let mut lookups = under.views.lookups.lock();
            if lookups.get(&name).is_some_and(|known| known.start == start) {
                lookups.remove(&name);
            }
            drop(lookups);
            if let Some(read) = read {
                drop(done.send(read));
            }
        }));
        (outcome, false)
    }

    async fn read_view(&self, name: &ObjectKey, start: LookupStart) -> Result<BucketView, LookupError> {
        let before = self.views.last(name).map(|view| view.config);
        let (bucket, config) = self.read(name, before).await?;
        let view = BucketView::new(name.clone(), &bucket, config);
        self.views.fill(start, view.clone());
        Ok(view)
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
                Some(bytes) => documents.push((kind, bytes)),
                None => return Ok(None),
            }
        }
        Ok(Some(documents))
    }
}
