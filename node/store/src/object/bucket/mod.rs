//! Buckets are registers too, in the system namespace; objects hang under the id that a bucket got
//! when it was created.
//!
//! Deletion follows `sherd_core::register::seal`: the register says `deleting`, A volumes of every
//! set seal the id, those same volumes are listed, and only then is the bucket gone, or active
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sherd_core::env::{HybridClock, Rng};
use sherd_core::id::{BucketId, ChangeId, ObjectKey, RegisterKey};
use sherd_core::record::{Bucket, BucketPhase, State, Tag};

use super::error::{Error, Invalid, MissingResource, Result};
use super::limits::{DELETION_PAGE_PATIENCE, SEAL_PATIENCE};
use super::request::{BucketInfo, NewBucket};
use super::task::to_the_end;
use crate::cluster::KeyRoute;
use crate::register::{Proposal, Writer};
use forget::ViewForgetting;
use look_up::{BucketRegisters, living_in};

pub(super) mod look_up;
mod registers;
pub(super) mod forget;
mod idle_denials;
mod config;
mod deletion;

/// Why a bucket's phase was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PhaseError {
    /// The bucket is there, in another phase than was expected.
    OtherPhase,
    /// Deleted; another bucket may bear its name.
    Gone,
    /// Reserved for root by a tag, and the caller is not root.
    Reserved,
}

/// How long the deletion of a bucket waits for volumes whose answers it needs.
#[derive(Debug, Clone, Copy)]
pub struct DeletionPatience {
    /// For a volume that makes a seal durable, or removes it.
    pub control: Duration,
    /// For a page of what a sealed volume holds.
    pub page: Duration,
}

impl Default for DeletionPatience {
    fn default() -> Self {
        Self { control: SEAL_PATIENCE, page: DELETION_PAGE_PATIENCE }
    }
}

/// The verbs of buckets. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Buckets {
    under: BucketRegisters,
    forgetting: ViewForgetting,
    clock: Arc<HybridClock>,
    rng: Arc<dyn Rng>,
    patience: DeletionPatience,
}

impl Buckets {
    pub(super) fn new(
        forgetting: ViewForgetting,
        clock: Arc<HybridClock>,
        rng: Arc<dyn Rng>,
        patience: DeletionPatience,
    ) -> Self {
        Self { under: forgetting.under.clone(), forgetting, clock, rng, patience }
    }

    /// Creates a bucket. Where its name was never used, no node has a view to forget.
    pub(super) async fn create(&self, name: ObjectKey, new: NewBucket) -> Result<()> {
        let created_ms = self.clock.wall().wall_ms();
        let id = BucketId(self.rng.next_id());
        let was_used = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&was_used);
        let decide = move |state: Option<&State>| {
            seen.fetch_or(state.is_some(), Ordering::Relaxed);
            match living_in(state).map(|bucket| bucket.phase) {
                None => Ok(proposal(Bucket {
                    id,
                    created_ms,
                    location: new.location.clone(),
                    phase: BucketPhase::Active,
                    tags: new.tags.clone(),
                    entries: new.entries(),
                })),
                Some(BucketPhase::Active) => Err(Error::BucketAlreadyOwnedByYou),
                Some(BucketPhase::Deleting { .. } | BucketPhase::Deleted) => Err(Error::BucketBusy),
            }
        };
        let (buckets, route) = (self.clone(), self.route(name));
        let creation = async move {
            let created = match buckets.change(&route, decide.clone()).await {
                Err(Error::BucketBusy) => {
                    match buckets.under.decided_bucket(&route).await {
                        Ok(_) | Err(Error::Missing(_)) => {}
                        Err(error) => return Err(error),
                    }
                    buckets.change(&route, decide).await
                }
                created => created,
            };
            if created.is_ok() && was_used.load(Ordering::Relaxed) {
                buckets.forgetting.everywhere(&route.key().key).await;
            }
            created
        };
        to_the_end(self.under.registers.tasks(), "bucket creation", creation).await
    }

    /// Reads what a bucket is.
    pub(super) async fn head(&self, name: ObjectKey) -> Result<BucketInfo> {
        let bucket = self.under.stored(&name).await?;
        Ok(info_of(name, bucket))
    }

    /// Gives a bucket other tags, or none. Without `by_root`, tags that are root's must be among them as they
    /// are in the very state that is changed.
    pub(super) async fn set_tags(&self, name: ObjectKey, tags: Vec<Tag>, by_root: bool) -> Result<()> {
        let decide = move |state: Option<&State>| {
            let bucket = active_in(state)?;
            if !by_root {
                check_reserved(&bucket.tags, &tags)?;
            }
            Ok(proposal(Bucket { tags: tags.clone(), ..bucket.clone() }))
        };
        self.change_everywhere(name, decide).await
    }

    /// Changes a bucket, and returns when the change is in force through every node. It goes on although its
    /// request is dropped.
    async fn change_everywhere(
        &self,
        name: ObjectKey,
        decide: impl FnMut(Option<&State>) -> Result<Proposal> + Send + 'static,
    ) -> Result<()> {
        let buckets = self.clone();
        let change = async move {
            let changed = buckets.change(&buckets.route(name.clone()), decide).await;
            match &changed {
                Ok(()) => buckets.forgetting.everywhere(&name).await,
                Err(_) => buckets.under.views.forget(&name),
            }
            changed
        };
        to_the_end(self.under.registers.tasks(), "bucket change", change).await
    }

    /// Where the register of a bucket lies.
    fn route(&self, name: ObjectKey) -> KeyRoute {
        self.under.cluster.route(RegisterKey::bucket(name))
    }

    async fn change(
        &self,
        route: &KeyRoute,
        decide: impl FnMut(Option<&State>) -> Result<Proposal> + Send + 'static,
    ) -> Result<()> {
        let ticket = self.under.registers.begin_at(route);
        self.under.change(&route.key().key, route, ticket, Writer::new(decide)).await
    }

    /// Moves a bucket from one phase to another, when it is still that bucket in that phase; without
    /// `by_root`, when it has no tag of root's, either.
    async fn move_bucket(
        &self,
        route: &KeyRoute,
        id: BucketId,
        from: BucketPhase,
        to: BucketPhase,
        by_root: bool,
    ) -> Result<std::result::Result<(), PhaseError>> {
        let decide = move |state: Option<&State>| match living_in(state) {
            Some(bucket) if bucket.id == id && bucket.phase == from => {
                if !by_root && bucket.tags.iter().any(Tag::is_roots) {
                    return Err(PhaseError::Reserved);
                }
                Ok(proposal(Bucket { phase: to, ..bucket.clone() }))
            }
            Some(bucket) if bucket.id == id => Err(PhaseError::OtherPhase),
            Some(_) | None => Err(PhaseError::Gone),
        };
        let ticket = self.under.registers.begin_at(route);
        let writer = Writer::new(decide).finishing(from != BucketPhase::Active);
        self.under.change_or(&route.key().key, route, ticket, writer).await
    }

    fn new_deletion(&self) -> ChangeId {
        ChangeId { made: self.clock.tick(), proposer: self.under.registers.proposer() }
    }
}

/// Checks that the tags which are root's are the same before and after.
fn check_reserved(before: &[Tag], after: &[Tag]) -> Result<()> {
    let missing =
        |of: &[Tag], tags: &[Tag]| of.iter().find(|tag| tag.is_roots() && !tags.contains(tag)).cloned();
    if let Some(tag) = missing(after, before) {
        return Err(Invalid::ReservedTag { key: tag.key, is_removed: false }.into());
    }
    match missing(before, after) {
        Some(tag) => Err(Invalid::ReservedTag { key: tag.key, is_removed: true }.into()),
        None => Ok(()),
    }
}

/// A bucket as S3 shows it.
pub(super) fn info_of(name: ObjectKey, bucket: Bucket) -> BucketInfo {
    let Bucket { id: _, created_ms, location, phase: _, tags, entries: _ } = bucket;
    BucketInfo { name, created_ms, location, tags }
}

/// The bucket that a state is, if it takes changes.
fn active_in(state: Option<&State>) -> Result<&Bucket> {
    match living_in(state) {
        Some(bucket) if bucket.phase == BucketPhase::Active => Ok(bucket),
        Some(_) => Err(Error::BucketBusy),
        None => Err(MissingResource::Bucket.into()),
    }
}

fn proposal(bucket: Bucket) -> Proposal {
    Proposal::of(State::Bucket(bucket))
}

#[cfg(test)]
mod tests;
