//! The verbs of the store.
//!
//! What a verb is asked and what it answers is in `request`, why it failed in `error`. Each verb
//! has a file of its own, and reads downwards: `stripe` for bytes, `register` for the state of a
//! key, `peer` for the volumes below both.

mod body;
mod bucket;
mod condition;
mod copy;
mod delete;
pub mod digest;
mod error;
mod get;
mod list;
mod multipart;
mod put;
mod request;

use std::sync::Arc;
use std::time::Duration;

use sherd_core::env::{HybridClock, Rng};
use sherd_core::id::{ObjectKey, RegisterKey};

use crate::cluster::Cluster;
use crate::cluster::deletions::Deletions;
use crate::observe::trace;
use crate::register::{ChangeError, Failure, QuorumRow, Registers, WriteTicket, Writer};
use crate::stripe::{Stripes, WriteError};

use bucket::UnsealedBucket;
use bucket::view::BucketCache;

pub use bucket::view::{BucketConfig, BucketView};
pub use digest::checksum;
pub use digest::{DigestValues, Digests};
pub use error::{BodyError, Error, Invalid, MissingResource, Result, UnavailableReason};
pub use request::{
    BodyStream, BucketInfo, BucketPage, ByteStream, CompleteUpload, CopyPart, CopyRequest, CreateUpload,
    DeleteOutcome, EtagMatch, ExpectedChecksum, ListEntry, ListPage, ListRequest, ListUploads, ListedPart,
    ObjectDescription, ObjectInfo, ObjectName, ObjectRead, PartDescription, PartInfo, PartName, PartPage,
    PutRequest, ReadConditions, ReadRequest, Span, Upload, UploadEntry, UploadPage, WriteConditions,
    WriteOutcome,
};

/// Times that a request is tried again because its bucket was sealed and opened meanwhile.
const SEALED_TRIES: usize = 16;
/// How long a volume may take for a page of a scan, before another is asked. A list holds room in memory meanwhile,
/// and a disk may hang for ever.
const SCAN_PATIENCE: Duration = Duration::from_secs(15);
/// How long a page of the parts of an upload is waited for, before another volume is asked too. They are few.
const SCAN_HEDGE: Duration = Duration::from_millis(500);

/// The store, as every gateway of this process uses it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Objects {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    cluster: Arc<Cluster>,
    registers: Registers,
    stripes: Stripes,
    clock: Arc<HybridClock>,
    rng: Arc<dyn Rng>,
    buckets: BucketCache,
    deletions: Deletions,
    fast_etags: bool,
    release_grace: Duration,
}

/// What the store is built from.
#[derive(Debug)]
pub struct ObjectsConfig {
    /// The topology in force.
    pub cluster: Arc<Cluster>,
    /// The registers of all keys.
    pub registers: Registers,
    /// The data path.
    pub stripes: Stripes,
    /// The clock of ballots.
    pub clock: Arc<HybridClock>,
    /// Where ids and pauses are drawn.
    pub rng: Arc<dyn Rng>,
    /// Known deletions of buckets.
    pub deletions: Deletions,
    /// Whether a body whose client sent another checksum goes without its MD5.
    pub fast_etags: bool,
    /// How long the space of deleted objects stays taken.
    pub release_grace: Duration,
}

impl Objects {
    /// Builds the store.
    pub fn new(config: ObjectsConfig) -> Self {
        let ObjectsConfig { cluster, registers, stripes, clock, rng, deletions, fast_etags, release_grace } =
            config;
        let buckets = BucketCache::default();
        let inner =
            Inner { cluster, registers, stripes, clock, rng, buckets, deletions, fast_etags, release_grace };
        Self { inner: Arc::new(inner) }
    }

    /// How long the space of deleted objects stays taken, for readers that still use it.
    pub fn release_grace(&self) -> Duration {
        self.inner.release_grace
    }

    fn now_ms(&self) -> u64 {
        self.inner.clock.wall().wall_ms()
    }

    /// The register of an object.
    async fn object_key(&self, name: &ObjectName) -> Result<RegisterKey> {
        Ok(RegisterKey::object(self.bucket_id(&name.bucket).await?, name.key.clone()))
    }

    /// Does work in a task of its own, which comes to its end though the request that waits for it is
    /// dropped meanwhile: what follows a first accept is nobody's else to do. Shutdown waits for it.
    async fn to_the_end<R: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<R>> + Send + 'static,
    ) -> Result<R> {
        let task = self.inner.registers.tasks().spawn(trace::inherited(work));
        task.await.map_err(|error| Error::Internal { what: format!("{what}: {error}") })?
    }

    /// Reads the register of an object. Where the bucket that its name stood for was deleted and made again, the
    /// object is looked for in the new one.
    async fn find_object(&self, name: &ObjectName) -> Result<(RegisterKey, Option<QuorumRow>)> {
        for _ in 0..SEALED_TRIES {
            let key = self.object_key(name).await?;
            match self.inner.registers.read(&key).await {
                Err(Failure::Sealed) => drop(self.wait_unsealed(&name.bucket, key.bucket).await?),
                found => return Ok((key, found?.map(QuorumRow::for_reading))),
            }
        }
        Err(UnavailableReason::Sealed.into())
    }

    /// Waits until the bucket of a register takes requests again. What was begun in a bucket that is gone cannot go
    /// on in the one that bears its name: the client is to come again, and finds that one.
    async fn same_bucket(&self, bucket: &ObjectKey, key: &RegisterKey) -> Result<()> {
        match self.wait_unsealed(bucket, key.bucket).await? {
            UnsealedBucket::Active => Ok(()),
            UnsealedBucket::MadeAgain => Err(UnavailableReason::Sealed.into()),
        }
    }

    /// Reads a register under a bucket; a seal sends it back to the bucket's register.
    async fn find(&self, bucket: &ObjectKey, key: &RegisterKey) -> Result<Option<QuorumRow>> {
        for _ in 0..SEALED_TRIES {
            match self.inner.registers.read(key).await {
                Err(Failure::Sealed) => self.same_bucket(bucket, key).await?,
                other => return Ok(other?),
            }
        }
        Err(UnavailableReason::Sealed.into())
    }

    /// Changes a register under a bucket; `Ok(Err(_))` is the caller's own refusal.
    async fn change_or<E: std::fmt::Debug + Send + 'static>(
        &self,
        bucket: &ObjectKey,
        key: &RegisterKey,
        ticket: WriteTicket,
        writer: Writer<E>,
    ) -> Result<std::result::Result<(), E>> {
        let mut writer = writer;
        let mut ticket = ticket;
        for _ in 0..SEALED_TRIES {
            match self.inner.registers.change(ticket, writer).await {
                Ok(()) => return Ok(Ok(())),
                Err(ChangeError::Refused(refusal)) => return Ok(Err(refusal)),
                Err(ChangeError::Sealed(sealed)) => {
                    self.same_bucket(bucket, key).await?;
                    writer = *sealed;
                    ticket = self.inner.registers.begin(key);
                }
                Err(ChangeError::Failed(failure)) => return Err(failure.into()),
            }
        }
        Err(UnavailableReason::Sealed.into())
    }

    /// As [`Self::change_or`], where the refusal is an error of the store.
    async fn change(
        &self,
        bucket: &ObjectKey,
        key: &RegisterKey,
        ticket: WriteTicket,
        writer: Writer<Error>,
    ) -> Result<()> {
        self.change_or(bucket, key, ticket, writer).await?
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable => UnavailableReason::Quorum.into(),
            Failure::Sealed => UnavailableReason::Sealed.into(),
            Failure::Overloaded => UnavailableReason::Overloaded.into(),
            Failure::ScansBusy => UnavailableReason::ListsBusy.into(),
            Failure::Full => Self::Full,
            Failure::OverLimit(over) => Invalid::Argument { name: over.field }.into(),
            Failure::OutcomeUnknown => Self::OutcomeUnknown,
        }
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Quorum => UnavailableReason::Quorum.into(),
            WriteError::Full => Self::Full,
            WriteError::Overloaded => UnavailableReason::Overloaded.into(),
        }
    }
}
