//! Buckets are registers too, in the system namespace; objects hang under the id that a bucket got
//! when it was created.
//!
//! Deletion follows `sherd_core::register::seal`: the register says `deleting`, A volumes of every
//! set seal the id, those same volumes are listed, and only then is the bucket gone, or active
//! again.

use std::time::Duration;

use tokio::time::Instant;

use sherd_core::id::{BucketId, ChangeId, ObjectKey, RegisterKey};
use sherd_core::record::{Bucket, BucketPhase, Entries, State, Tag};

use super::{BucketInfo, BucketPage, Error, MissingResource, Objects, Result, UnavailableReason};
use crate::register::{Proposal, QuorumRow, Writer};
use view::BucketView;

pub(super) mod view;
mod deletion;

/// How long a request waits for a deletion of its bucket to end or to be undone.
const SEALED_WAIT: Duration = Duration::from_secs(5);
/// Pause between two looks at a sealed bucket's register.
const SEALED_PAUSE: Duration = Duration::from_millis(20);

/// What became of a bucket whose seal was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnsealedBucket {
    /// It takes requests again.
    Active,
    /// It is deleted, and another one bears its name.
    MadeAgain,
}

/// Why a bucket's phase was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PhaseError {
    /// The bucket is there, in another phase than was expected.
    OtherPhase,
    /// It is deleted; another may bear its name.
    Gone,
}

/// The bucket that a register holds, unless it is deleted.
pub(super) fn living(found: Option<&QuorumRow>) -> Option<&Bucket> {
    living_in(found.map(|found| &found.value.state))
}

fn living_in(state: Option<&State>) -> Option<&Bucket> {
    match state {
        Some(State::Bucket(bucket)) if bucket.phase != BucketPhase::Deleted => Some(bucket),
        _ => None,
    }
}

impl Objects {
    /// Creates a bucket.
    ///
    /// # Errors
    /// [`Error::BucketAlreadyOwnedByYou`] when it is there; any of [`Error`].
    pub async fn create_bucket(&self, name: ObjectKey, location: String, tags: Vec<Tag>) -> Result<()> {
        let key = RegisterKey::bucket(name);
        let created_ms = self.now_ms();
        let id = BucketId(self.inner.rng.next_id());
        let decide = move |state: Option<&State>| match living_in(state).map(|bucket| bucket.phase) {
            None => Ok(proposal(Bucket {
                id,
                created_ms,
                location: location.clone(),
                phase: BucketPhase::Active,
                tags: tags.clone(),
                entries: Entries::default(),
            })),
            Some(BucketPhase::Active) => Err(Error::BucketAlreadyOwnedByYou),
            Some(BucketPhase::Deleting { .. } | BucketPhase::Deleted) => Err(Error::BucketBusy),
        };
        match self.change_bucket(&key, decide.clone()).await {
            Err(Error::BucketBusy) => {
                match self.decided_bucket(&key).await {
                    Ok(_) | Err(Error::Missing(_)) => {}
                    Err(error) => return Err(error),
                }
                self.change_bucket(&key, decide).await
            }
            created => created,
        }
    }

    /// Reads what a bucket is.
    ///
    /// # Errors
    /// [`MissingResource::Bucket`] when it is not there; any of [`Error`].
    pub async fn head_bucket(&self, name: ObjectKey) -> Result<BucketInfo> {
        let key = RegisterKey::bucket(name.clone());
        let found = self.inner.registers.read(&key).await?;
        let bucket = living(found.as_ref()).ok_or(MissingResource::Bucket)?;
        let Bucket { id: _, created_ms, location, phase: _, tags, entries: _ } = bucket.clone();
        Ok(BucketInfo { name, created_ms, location, tags })
    }

    /// Gives a bucket other tags, or none.
    ///
    /// # Errors
    /// [`MissingResource::Bucket`] when it is not there; any of [`Error`].
    pub async fn set_bucket_tags(&self, name: ObjectKey, tags: Vec<Tag>) -> Result<()> {
        let decide = move |state: Option<&State>| match living_in(state) {
            Some(bucket) if bucket.phase == BucketPhase::Active => {
                Ok(proposal(Bucket { tags: tags.clone(), ..bucket.clone() }))
            }
            Some(_) => Err(Error::BucketBusy),
            None => Err(MissingResource::Bucket.into()),
        };
        self.change_bucket(&RegisterKey::bucket(name), decide).await
    }

    /// Lists buckets by name: those that begin with `prefix` and come behind `after`.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn list_buckets(&self, prefix: &str, after: Option<&str>, max: u32) -> Result<BucketPage> {
        self.list_bucket_registers(prefix, after, max).await
    }

    /// A bucket as a request sees it: out of the views of the last two seconds, or out of its register.
    ///
    /// # Errors
    /// [`MissingResource::Bucket`] when it is not there; any of [`Error`].
    pub async fn bucket(&self, name: &ObjectKey) -> Result<BucketView> {
        if let Some(view) = self.inner.buckets.get(name) {
            return Ok(view);
        }
        let found = self.inner.registers.read(&RegisterKey::bucket(name.clone())).await?;
        let bucket = living(found.as_ref()).ok_or(MissingResource::Bucket)?;
        let view = BucketView::new(name.clone(), bucket);
        self.inner.buckets.put(view.clone());
        Ok(view)
    }

    /// The id of a bucket that takes requests.
    pub(super) async fn bucket_id(&self, name: &ObjectKey) -> Result<BucketId> {
        Ok(self.bucket(name).await?.id)
    }

    /// Waits until a bucket whose seal was seen is active again. Another bucket may have its name by then, created
    /// through any node before this request began; `NoSuchBucket` would then be wrong.
    pub(super) async fn wait_unsealed(&self, name: &ObjectKey, id: BucketId) -> Result<UnsealedBucket> {
        self.inner.buckets.forget(name);
        match self.decided_bucket(&RegisterKey::bucket(name.clone())).await {
            Ok(found) if found == id => {
                // The seals go right after the register: the next try may still meet one.
                tokio::time::sleep(SEALED_PAUSE).await;
                Ok(UnsealedBucket::Active)
            }
            Ok(_) => Ok(UnsealedBucket::MadeAgain),
            Err(Error::BucketBusy) => Err(UnavailableReason::Sealed.into()),
            Err(error) => Err(error),
        }
    }

    /// The id of a bucket, once no deletion of it is under way.
    async fn decided_bucket(&self, key: &RegisterKey) -> Result<BucketId> {
        let deadline = Instant::now() + SEALED_WAIT;
        loop {
            let found = self.inner.registers.read(key).await?;
            let bucket = living(found.as_ref()).ok_or(MissingResource::Bucket)?;
            if bucket.phase == BucketPhase::Active {
                return Ok(bucket.id);
            }
            if Instant::now() >= deadline {
                self.inner.deletions.suspect();
                return Err(Error::BucketBusy);
            }
            tokio::time::sleep(SEALED_PAUSE).await;
        }
    }

    async fn change_bucket(
        &self,
        key: &RegisterKey,
        decide: impl FnMut(Option<&State>) -> Result<Proposal> + Send + 'static,
    ) -> Result<()> {
        let ticket = self.inner.registers.begin(key);
        self.change(&key.key, key, ticket, Writer::new(decide)).await
    }

    /// Moves a bucket from one phase to another, when it is still that bucket in that phase.
    async fn move_bucket(
        &self,
        key: &RegisterKey,
        id: BucketId,
        from: BucketPhase,
        to: BucketPhase,
    ) -> Result<std::result::Result<(), PhaseError>> {
        let decide = move |state: Option<&State>| match living_in(state) {
            Some(bucket) if bucket.id == id && bucket.phase == from => {
                Ok(proposal(Bucket { phase: to, ..bucket.clone() }))
            }
            Some(bucket) if bucket.id == id => Err(PhaseError::OtherPhase),
            Some(_) | None => Err(PhaseError::Gone),
        };
        let ticket = self.inner.registers.begin(key);
        self.change_or(&key.key, key, ticket, Writer::new(decide)).await
    }

    fn new_deletion(&self) -> ChangeId {
        ChangeId { made: self.inner.clock.tick(), proposer: self.inner.registers.proposer() }
    }
}

fn proposal(bucket: Bucket) -> Proposal {
    Proposal::of(State::Bucket(bucket))
}

#[cfg(test)]
mod tests;
