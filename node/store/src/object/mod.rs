//! The verbs of the store.
//!
//! [`Objects`] names them all. The requests and answers of verbs are in `request`, why it failed in
//! `error`. Those of objects have a file each; buckets, uploads and listings have rooms of their own, over
//! `bucket::registers` for the state of a key and `body` for bytes. A verb reads downwards: `stripe` for
//! bytes, `register` for the state of a key, `peer` for the volumes below both.

mod put;
mod get;
mod copy;
mod delete;
mod tags;
mod list;
mod multipart;
mod bucket;
mod body;
pub(crate) mod documents;
mod condition;
pub mod digest;
mod task;
mod error;
mod request;
mod view;
mod limits;

use std::sync::Arc;
use std::time::Duration;

use sherd_core::config::{BucketConfig, ConfigKind, ConfigValue};
use sherd_core::env::{HybridClock, Rng};
use sherd_core::id::{ObjectKey, UploadId};
use sherd_core::record::{ObjectTags, Tag};

use crate::cluster::Cluster;
use crate::cluster::asker::Gateways;
use crate::cluster::deletions::Deletions;
use crate::machine::quantity::LivePeriod;
use crate::register::Registers;
use crate::stripe::Stripes;

use body::Bodies;
use bucket::Buckets;
use bucket::forget::ViewForgetting;
use bucket::look_up::BucketRegisters;
use documents::Documents;
use list::Listings;
use multipart::{PartOrigin, Uploads};

pub use bucket::DeletionPatience;
pub use digest::checksum;
pub use digest::{DigestValues, Digests};
pub use error::{BodyError, Error, Invalid, MissingResource, Result, UnavailableReason};
pub use request::{
    BodyStream, BucketInfo, BucketPage, ByteStream, CompleteUpload, CopyAttributes, CopyPart, CopyRequest,
    CreateUpload, DeleteOutcome, EtagMatch, ExpectedChecksum, ListEntry, ListPage, ListRequest, ListUploads,
    ListedPart, NewBucket, ObjectDescription, ObjectInfo, ObjectName, ObjectRead, PartDescription, PartInfo,
    PartName, PartPage, PutRequest, ReadConditions, ReadRequest, Span, Upload, UploadBody, UploadEntry,
    UploadPage, WriteConditions, WriteOutcome,
};
pub use view::{BucketRef, BucketView, LookupError};

/// The store, as every gateway of this process uses it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Objects {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    under: BucketRegisters,
    bodies: Bodies,
    buckets: Buckets,
    listings: Listings,
    uploads: Uploads,
    clock: Arc<HybridClock>,
    release_grace: LivePeriod,
}

/// The parts that the store is built from.
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
    /// How long the deletion of a bucket waits for volumes.
    pub deletion_patience: DeletionPatience,
    /// The other nodes, which may remember views of buckets; `None` of a node alone.
    pub others: Option<Arc<dyn Gateways>>,
}

impl Objects {
    /// Builds the store.
    pub fn new(config: ObjectsConfig) -> Self {
        let ObjectsConfig {
            cluster,
            registers,
            stripes,
            clock,
            rng,
            deletions,
            fast_etags,
            release_grace,
            deletion_patience,
            others,
        } = config;
        let bodies = Bodies { stripes, fast_etags };
        let documents = Documents { cluster, registers, bodies: bodies.clone() };
        let under = BucketRegisters::new(documents, deletions);
        let forgetting = ViewForgetting::new(under.clone(), others);
        let buckets = Buckets::new(forgetting, Arc::clone(&clock), Arc::clone(&rng), deletion_patience);
        let listings = Listings::new(under.clone(), Arc::clone(&rng));
        let uploads = Uploads::new(under.clone(), bodies.clone(), Arc::clone(&clock), rng);
        let release_grace = LivePeriod::new(release_grace);
        let inner = Inner { under, bodies, buckets, listings, uploads, clock, release_grace };
        Self { inner: Arc::new(inner) }
    }

    /// How long the space of deleted objects stays taken, for readers that still use it.
    pub fn release_grace(&self) -> Duration {
        self.inner.release_grace.get()
    }

    /// Has the space of deleted objects stay taken for another time from here on.
    pub fn set_release_grace(&self, grace: Duration) {
        self.inner.release_grace.set(grace);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.inner.clock.wall().wall_ms()
    }

    /// The documents of the system namespace.
    pub(crate) fn documents(&self) -> &Documents {
        &self.inner.under.documents
    }

    /// Lists names of documents that begin with `prefix` and come behind `after`; and where the next page
    /// begins.
    pub(crate) async fn document_names(
        &self,
        prefix: &str,
        after: Option<String>,
        max: usize,
    ) -> Result<(Vec<ObjectKey>, Option<String>)> {
        self.inner.listings.documents(prefix, after, max).await
    }

    /// A bucket as a request sees it: out of the views of the last two seconds, or out of its register.
    ///
    /// # Errors
    /// [`MissingResource::Bucket`] when it is not there; any of [`Error`].
    pub async fn bucket(&self, name: &ObjectKey) -> Result<BucketView> {
        Ok(self.inner.under.look_up(name).await?)
    }

    /// The view of a bucket, if one of the last two seconds is remembered. Reads no register.
    pub fn remembered_bucket(&self, name: &ObjectKey) -> Option<BucketView> {
        self.inner.under.remembered(name)
    }

    /// Forgets the view of a bucket, as another node has changed it: later requests read its register, and
    /// reads that are under way fill no view.
    pub fn forget_bucket(&self, name: &ObjectKey) {
        self.inner.under.forget(name);
    }

    /// Looks the bucket of a request up, once for all that the request does. A failure is kept for the verb
    /// that needs the bucket.
    pub async fn bucket_of_request(&self, name: ObjectKey) -> BucketRef {
        match self.inner.under.look_up(&name).await {
            Ok(view) => view.into(),
            Err(error) => BucketRef::Failed { name, error },
        }
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// [`Error::BucketAlreadyOwnedByYou`] when it is there; any of [`Error`].
    pub async fn create_bucket(&self, name: ObjectKey, new: NewBucket) -> Result<()> {
        self.inner.buckets.create(name, new).await
    }

    /// Reads what a bucket is.
    ///
    /// # Errors
    /// [`MissingResource::Bucket`] when it is not there; any of [`Error`].
    pub async fn head_bucket(&self, name: ObjectKey) -> Result<BucketInfo> {
        self.inner.buckets.head(name).await
    }

    /// Gives a bucket other tags, or none. Without `by_root`, tags that are root's must be among them as they
    /// are.
    ///
    /// # Errors
    /// [`MissingResource::Bucket`] when it is not there, [`Invalid::ReservedTag`]; any of [`Error`].
    pub async fn set_bucket_tags(&self, name: ObjectKey, tags: Vec<Tag>, by_root: bool) -> Result<()> {
        self.inner.buckets.set_tags(name, tags, by_root).await
    }

    /// Reads how a bucket is configured, out of its register.
    ///
    /// # Errors
    /// [`MissingResource::Bucket`] when it is not there; any of [`Error`].
    pub async fn config(&self, name: &ObjectKey) -> Result<Arc<BucketConfig>> {
        Ok(self.inner.under.read_config(name).await?)
    }

    /// Configures one kind of a bucket, in place of what it had of that kind.
    ///
    /// # Errors
    /// [`MissingResource::Bucket`] when it is not there; [`Invalid::TooLarge`] of a configuration past its
    /// limit; any of [`Error`].
    pub async fn set_config(&self, name: ObjectKey, value: impl Into<ConfigValue>) -> Result<()> {
        self.inner.buckets.set_config(name, &value.into()).await
    }

    /// Removes one kind of a bucket's configuration; succeeds where the bucket has none.
    ///
    /// # Errors
    /// [`MissingResource::Bucket`] when it is not there; any of [`Error`].
    pub async fn remove_config(&self, name: ObjectKey, kind: ConfigKind) -> Result<()> {
        self.inner.buckets.remove_config(name, kind).await
    }

    /// The tags of an object, in the order in which they were given.
    ///
    /// # Errors
    /// [`MissingResource::Key`] for a key without an object; any of [`Error`].
    pub async fn tags(&self, name: &ObjectName) -> Result<Vec<Tag>> {
        tags::of(&self.inner.under, name).await
    }

    /// Gives an object other tags, or removes them. Nothing else of it changes. With `replaced`, it may have
    /// no tags but those until then.
    ///
    /// # Errors
    /// [`MissingResource::Key`] for a key without an object, [`Error::TagsChanged`]; any of [`Error`];
    /// nothing changed unless it is `OutcomeUnknown`.
    pub async fn set_tags(
        &self,
        name: &ObjectName,
        tags: ObjectTags,
        replaced: Option<ObjectTags>,
    ) -> Result<()> {
        tags::set(&self.inner.under, name, tags, replaced).await
    }

    /// Lists buckets by name: those that begin with `prefix` and come behind `after`.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn list_buckets(&self, prefix: &str, after: Option<&str>, max: u32) -> Result<BucketPage> {
        self.inner.listings.buckets(prefix, after, max).await
    }

    /// Deletes an empty bucket; one with a tag of root's only `by_root`.
    ///
    /// # Errors
    /// [`Error::BucketNotEmpty`] when objects are left, [`Error::BucketReserved`]; any of [`Error`].
    pub async fn delete_bucket(&self, name: ObjectKey, by_root: bool) -> Result<()> {
        self.inner.buckets.delete(name, by_root).await
    }

    /// Lists one page of a bucket's keys.
    ///
    /// A page ends after enough tombstones, too: it may be short or empty and still have a next one.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.inner.listings.objects(request).await
    }

    /// Lists one page of a bucket's open uploads.
    ///
    /// Uploads lie in the rows of their objects, and no index names those that have some: a page walks the
    /// keys of its prefix. A page ends after enough keys without an upload, too: it may be short or
    /// empty and still have a next one, and no request walks a whole bucket.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn list_uploads(&self, request: ListUploads) -> Result<UploadPage> {
        self.inner.listings.uploads(request).await
    }

    /// Begins an upload.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn create_upload(&self, request: CreateUpload) -> Result<UploadId> {
        self.inner.uploads.create(request).await
    }

    /// Stores a part, in place of an earlier one of its number.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn put_part(&self, part: PartName, upload: Upload) -> Result<WriteOutcome> {
        self.inner.uploads.store_part(part, upload, PartOrigin::Client).await
    }

    /// Lists the parts of an open upload, those behind number `after`.
    ///
    /// # Errors
    /// [`MissingResource::Upload`] when it is not open; any of [`Error`].
    pub async fn list_parts(
        &self,
        name: ObjectName,
        id: UploadId,
        after: Option<u16>,
        max: u32,
    ) -> Result<PartPage> {
        self.inner.uploads.list_parts(name, id, after, max).await
    }

    /// Completes an upload. A repeated Complete of what is already the current version succeeds, where it
    /// lists the same parts.
    ///
    /// # Errors
    /// Any of [`Error`]; nothing changed unless it is `OutcomeUnknown`.
    pub async fn complete_upload(&self, request: CompleteUpload) -> Result<WriteOutcome> {
        self.inner.uploads.complete(request).await
    }

    /// Gives an upload up.
    ///
    /// # Errors
    /// [`MissingResource::Upload`] when it is not open; any of [`Error`].
    pub async fn abort_upload(&self, name: ObjectName, id: UploadId) -> Result<()> {
        self.inner.uploads.abort(name, id).await
    }
}
