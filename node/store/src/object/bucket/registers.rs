//! Registers under buckets: found, read and changed, though a deletion of their bucket may seal them
//! meanwhile.
//!
//! A sealed register sends its caller back to the bucket's own: a deletion is waited for until it is decided.
//! Where it was undone the call is made again; where the bucket is gone and made again, only what names it by
//! its name goes on.

use tokio::time::Instant;

use sherd_core::id::{BucketId, ObjectKey, RegisterKey};
use sherd_core::record::{Bucket, BucketPhase};

use super::look_up::{BucketRegisters, living_in};
use crate::cluster::KeyRoute;
use crate::object::error::{Error, MissingResource, Result, UnavailableReason};
use crate::object::limits::{SEALED_PAUSE, SEALED_TRIES, SEALED_WAIT};
use crate::object::request::ObjectName;
use crate::object::view::{BucketRef, BucketView};
use crate::register::{ChangeError, Failure, QuorumRow, WriteTicket, Writer};

/// The end of a deletion whose seal was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnsealedBucket {
    /// Takes requests again.
    Active,
    /// Deleted, and another bucket bears its name.
    MadeAgain,
}

/// The bucket that a register holds, unless it is deleted.
fn living(found: Option<&QuorumRow>) -> Option<&Bucket> {
    living_in(found.map(|found| &found.value.state))
}

impl BucketRegisters {
    /// The view of the bucket of a request: the one that the request has, or one that is looked up now.
    pub(in crate::object) async fn view(&self, bucket: &BucketRef) -> Result<BucketView> {
        match bucket {
            BucketRef::Named(name) => match self.remembered(name) {
                Some(view) => Ok(view),
                // In memory of its own: every request that has its view would be that large.
                None => Ok(Box::pin(self.look_up(name)).await?),
            },
            BucketRef::Viewed(view) => Ok(view.clone()),
            BucketRef::Failed { error, .. } => Err((*error).into()),
        }
    }

    /// Where the register of an object lies.
    pub(in crate::object) fn route_in(&self, bucket: &BucketView, key: ObjectKey) -> KeyRoute {
        self.cluster.route(RegisterKey::object(bucket.id, key))
    }

    /// As [`Self::route_in`], in the bucket of a request.
    pub(in crate::object) async fn route(&self, name: &ObjectName) -> Result<KeyRoute> {
        Ok(self.route_in(&self.view(&name.bucket).await?, name.key.clone()))
    }

    /// Reads the register of an object. Where the bucket that its name stood for was deleted and made again,
    /// the object is looked for in the new one.
    pub(in crate::object) async fn find_object(
        &self,
        name: &ObjectName,
    ) -> Result<(KeyRoute, Option<QuorumRow>)> {
        let mut bucket = self.view(&name.bucket).await?;
        for _ in 0..SEALED_TRIES {
            let route = self.route_in(&bucket, name.key.clone());
            match self.registers.read_at(&route).await {
                Err(Failure::Sealed) => bucket = Box::pin(self.unsealed(&bucket)).await?,
                found => return Ok((route, found?.map(QuorumRow::for_reading))),
            }
        }
        Err(UnavailableReason::Sealed.into())
    }

    /// Reads a register under a bucket; a seal sends it back to the bucket's register.
    pub(in crate::object) async fn find(
        &self,
        bucket: &ObjectKey,
        route: &KeyRoute,
    ) -> Result<Option<QuorumRow>> {
        for _ in 0..SEALED_TRIES {
            match self.registers.read_at(route).await {
                Err(Failure::Sealed) => self.same_bucket(bucket, route.key()).await?,
                other => return Ok(other?),
            }
        }
        Err(UnavailableReason::Sealed.into())
    }

    /// Changes a register under a bucket; `Ok(Err(_))` is the caller's own refusal.
    pub(in crate::object) async fn change_or<E: std::fmt::Debug + Send + 'static>(
        &self,
        bucket: &ObjectKey,
        route: &KeyRoute,
        ticket: WriteTicket,
        writer: Writer<E>,
    ) -> Result<std::result::Result<(), E>> {
        let mut writer = writer;
        let mut ticket = ticket;
        for _ in 0..SEALED_TRIES {
            match self.registers.change(ticket, writer).await {
                Ok(()) => return Ok(Ok(())),
                Err(ChangeError::Refused(refusal)) => return Ok(Err(refusal)),
                Err(ChangeError::Sealed(sealed)) => {
                    self.same_bucket(bucket, route.key()).await?;
                    writer = *sealed;
                    ticket = self.registers.begin_at(route);
                }
                Err(ChangeError::Failed(failure)) => return Err(failure.into()),
            }
        }
        Err(UnavailableReason::Sealed.into())
    }

    /// As [`Self::change_or`], where the refusal is an error of the store.
    pub(in crate::object) async fn change(
        &self,
        bucket: &ObjectKey,
        route: &KeyRoute,
        ticket: WriteTicket,
        writer: Writer<Error>,
    ) -> Result<()> {
        self.change_or(bucket, route, ticket, writer).await?
    }

    /// Waits until the bucket of a register takes requests again. A request that began in a bucket that is
    /// gone cannot go on in the one that bears its name: the client is to try again, and finds that one.
    async fn same_bucket(&self, bucket: &ObjectKey, key: &RegisterKey) -> Result<()> {
        match self.wait_unsealed(bucket, key.bucket).await? {
            UnsealedBucket::Active => Ok(()),
            UnsealedBucket::MadeAgain => Err(UnavailableReason::Sealed.into()),
        }
    }

    /// Waits until a bucket whose seal was seen takes requests again. Returns the view of the bucket that
    /// has its name then.
    pub(in crate::object) async fn unsealed(&self, bucket: &BucketView) -> Result<BucketView> {
        self.wait_unsealed(&bucket.name, bucket.id).await?;
        Ok(self.look_up(&bucket.name).await?)
    }

    /// Waits until a bucket whose seal was seen is active again. Another bucket may have its name by then,
    /// created through any node before this request began; `NoSuchBucket` would then be wrong.
    async fn wait_unsealed(&self, name: &ObjectKey, id: BucketId) -> Result<UnsealedBucket> {
        self.views.forget(name);
        match self.decided_bucket(&self.cluster.route(RegisterKey::bucket(name.clone()))).await {
            Ok(found) if found == id => {
                // The seals go right after the register: the next try may still find one.
                tokio::time::sleep(SEALED_PAUSE).await;
                Ok(UnsealedBucket::Active)
            }
            Ok(_) => Ok(UnsealedBucket::MadeAgain),
            Err(Error::BucketBusy) => Err(UnavailableReason::Sealed.into()),
            Err(error) => Err(error),
        }
    }

    /// The id of a bucket, once no deletion of it is under way.
    pub(super) async fn decided_bucket(&self, route: &KeyRoute) -> Result<BucketId> {
        let deadline = Instant::now() + SEALED_WAIT;
        loop {
            let found = self.registers.read_at(route).await?;
            let bucket = living(found.as_ref()).ok_or(MissingResource::Bucket)?;
            if bucket.phase == BucketPhase::Active {
                return Ok(bucket.id);
            }
            if Instant::now() >= deadline {
                self.deletions.suspect();
                return Err(Error::BucketBusy);
            }
            tokio::time::sleep(SEALED_PAUSE).await;
        }
    }
}
