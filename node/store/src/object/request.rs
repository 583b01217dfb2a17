//! Requests and answers of the verbs: the words between the S3 layer and the store.

use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt as _};

use sherd_core::config::public_access::PublicAccessBlock;
use sherd_core::config::{ConfigEntry, ConfigValue};
use sherd_core::id::{ObjectKey, UploadId};
use sherd_core::limits::ATTRIBUTES_BYTES_MAX;
use sherd_core::record::{
    Attributes, Body, Checksum, ChecksumAlgorithm, ChecksumBytes, ChecksumKind, Checksums, Content, Entries,
    ObjectTags, Tag, Version,
};
use sherd_core::register::call::ClientCall;

use super::view::BucketRef;
use super::{Invalid, Result};

/// The bytes that a client sends. The errors are the protocol layer's own.
pub type BodyStream =
    BoxStream<'static, std::result::Result<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

/// A body on its way out: verified bytes, in order.
pub type ByteStream = BoxStream<'static, super::Result<Bytes>>;

/// A bucket and an object's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// The bucket.
    pub bucket: BucketRef,
    /// The key.
    pub key: ObjectKey,
}

/// Entity tags that a condition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtagMatch {
    /// `*`: any version at all.
    Any,
    /// Any of these, without quotes.
    OneOf(Vec<String>),
}

impl EtagMatch {
    /// Whether `etag` (`None` where nothing is) is named.
    pub fn matches(&self, etag: Option<&str>) -> bool {
        match (self, etag) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::OneOf(tags), Some(etag)) => tags.iter().any(|tag| tag == etag),
        }
    }
}

/// Conditions on a write: judged together with it, atomically.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteConditions {
    /// The current version must be one of these.
    pub if_match: Option<EtagMatch>,
    /// The current version must be none of these.
    pub if_none_match: Option<EtagMatch>,
    /// The call that the write is a sending of, where something names that call.
    pub call: Option<ClientCall>,
}

impl WriteConditions {
    /// As they came in a call.
    #[must_use]
    pub fn in_call(self, call: Option<ClientCall>) -> Self {
        Self { call, ..self }
    }
}

/// Conditions on a read (RFC 9110, section 13), times in seconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadConditions {
    /// The version must be one of these, or 412.
    pub if_match: Option<EtagMatch>,
    /// The version must be none of these, or 304.
    pub if_none_match: Option<EtagMatch>,
    /// The version must be newer, or 304.
    pub if_modified_since: Option<u64>,
    /// The version must not be newer, or 412.
    pub if_unmodified_since: Option<u64>,
    /// The version must have these tags, or [`super::Error::TagsChanged`].
    pub tags: Option<ObjectTags>,
}

/// A checksum that the client announced.
pub enum ExpectedChecksum {
    /// In a header.
    Value(Checksum),
    /// In the trailer: known when the body has ended.
    Trailer {
        /// Computed how.
        algorithm: ChecksumAlgorithm,
        /// Asked after the last byte; `None` when the trailer never came.
        value: Box<dyn FnOnce() -> Option<ChecksumBytes> + Send>,
    },
}

impl ExpectedChecksum {
    /// Computed how.
    pub const fn algorithm(&self) -> ChecksumAlgorithm {
        match self {
            Self::Value(checksum) => checksum.algorithm,
            Self::Trailer { algorithm, .. } => *algorithm,
        }
    }
}

impl std::fmt::Debug for ExpectedChecksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(checksum) => write!(f, "Value({checksum:?})"),
            Self::Trailer { algorithm, .. } => write!(f, "Trailer({algorithm:?})"),
        }
    }
}

/// A body on its way in.
pub enum UploadBody {
    /// Of a client, whose pace is its own.
    Client(BodyStream),
    /// Of the store itself, to be written once more.
    Stored(ByteStream),
}

impl std::fmt::Debug for UploadBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Client(_) => "Client",
            Self::Stored(_) => "Stored",
        })
    }
}

impl Stream for UploadBody {
    type Item = super::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.get_mut() {
            Self::Client(bytes) => {
                let of_client = |source| super::BodyError::Stream(source).into();
                bytes.poll_next_unpin(cx).map(|next| next.map(|bytes| bytes.map_err(of_client)))
            }
            Self::Stored(bytes) => bytes.poll_next_unpin(cx),
        }
    }
}

/// A body and what the client said about it.
pub struct Upload {
    /// Length in bytes, without framing.
    pub size: u64,
    /// Bytes of the body.
    pub body: UploadBody,
    /// Content-MD5.
    pub md5: Option<[u8; 16]>,
    /// The checksum announced in header or trailer.
    pub checksum: Option<ExpectedChecksum>,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("size", &self.size).finish_non_exhaustive()
    }
}

/// The version that a write made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The entity tag, without quotes.
    pub etag: String,
    /// When, in milliseconds since the Unix epoch.
    pub modified_ms: u64,
    /// The checksum that the client sent, or else the one that was computed.
    pub checksums: Checksums,
}

/// A version without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Bytes of the whole object.
    pub size: u64,
    /// The entity tag, without quotes.
    pub etag: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub modified_ms: u64,
    /// System headers and user metadata.
    pub attributes: Attributes,
    /// The checksums stored; those of the part when one part was asked for.
    pub checksums: Checksums,
    /// The kind of the whole object's checksum, also where one part was asked for.
    pub checksum_kind: Option<ChecksumKind>,
    /// Parts of a multipart object.
    pub parts: Option<u16>,
    /// Tags of the object.
    pub tags: ObjectTags,
}

impl ObjectInfo {
    /// A version as S3 shows it.
    pub(super) fn of(version: &Version, content: &Content) -> Self {
        Self {
            size: content.size,
            etag: content.etag.clone(),
            modified_ms: version.modified_ms,
            attributes: content.attributes.clone(),
            checksums: content.checksums.clone(),
            checksum_kind: content.checksums.first().map(Checksum::kind),
            parts: match &content.body {
                Body::Inline { .. } | Body::Data(_) => None,
                Body::Parts(parts) => Some(u16::try_from(parts.len()).unwrap_or(u16::MAX)),
                Body::Manifest { parts, .. } => Some(*parts),
            },
            tags: ObjectTags::of(&content.entries),
        }
    }
}

/// Range of bytes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// All of them.
    Whole,
    /// From the first to the last named, both included; `None` is the end.
    From {
        /// First byte.
        first: u64,
        /// Last byte.
        last: Option<u64>,
    },
    /// This many at the end.
    Suffix {
        /// How many.
        length: u64,
    },
    /// One part of a multipart object.
    Part {
        /// 1 to 10,000.
        number: u16,
    },
}

/// A read of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest {
    /// Name of the object.
    pub name: ObjectName,
    /// Range of bytes.
    pub span: Span,
    /// Conditions.
    pub conditions: ReadConditions,
}

/// An object and what it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectDescription {
    /// Description of the object.
    pub info: ObjectInfo,
    /// The parts of a multipart object, by number; `None` for any other.
    pub parts: Option<Vec<PartDescription>>,
}

/// A part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartDescription {
    /// Number of the part.
    pub number: u16,
    /// Bytes of the part.
    pub size: u64,
    /// Checksum of the part.
    pub checksum: Option<Checksum>,
}

/// An object with (some of) its bytes.
pub struct ObjectRead {
    /// Description of the object.
    pub info: ObjectInfo,
    /// Range of bytes that the body holds; empty for an empty object.
    pub range: Range<u64>,
    /// The bytes. An error ends the connection: it never looks like a complete body.
    pub body: ByteStream,
}

impl std::fmt::Debug for ObjectRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectRead")
            .field("info", &self.info)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// A write of an object.
#[derive(Debug)]
pub struct PutRequest {
    /// Name of the object.
    pub name: ObjectName,
    /// System headers and user metadata.
    pub attributes: Attributes,
    /// Tags of the object.
    pub tags: ObjectTags,
    /// Conditions, judged atomically with the write.
    pub conditions: WriteConditions,
    /// The body.
    pub upload: Upload,
}

/// A copy within the store.
#[derive(Debug, Clone)]
pub struct CopyRequest {
    /// From where.
    pub source: ObjectName,
    /// Conditions on the source.
    pub source_conditions: ReadConditions,
    /// To where.
    pub target: ObjectName,
    /// Conditions on the target, judged atomically with the write.
    pub conditions: WriteConditions,
    /// Headers and metadata.
    pub attributes: CopyAttributes,
    /// New tags; `None` copies the source's.
    pub tags: Option<ObjectTags>,
    /// The checksum to compute; `None` for the source's algorithm.
    pub checksum: Option<ChecksumAlgorithm>,
}

/// Headers and metadata of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyAttributes {
    /// Attributes of the source, but for one that is never taken from there.
    Kept {
        /// The name of that one.
        own: &'static str,
        /// The copy's value of it, where it has one.
        value: Option<String>,
    },
    /// New attributes.
    Replaced(Attributes),
}

impl CopyAttributes {
    /// Whether they may be others than the source's.
    pub(super) const fn are_changed(&self) -> bool {
        !matches!(self, Self::Kept { value: None, .. })
    }

    /// The attributes of a copy of an object with those of `source`.
    ///
    /// # Errors
    /// [`Invalid::Argument`] where they are longer together than an object's may be.
    pub(super) fn of_copy(self, source: Attributes) -> Result<Attributes> {
        let (own, value) = match self {
            Self::Replaced(attributes) => return Ok(attributes),
            Self::Kept { own, value } => (own, value),
        };
        let mut pairs = source.pairs;
        pairs.retain(|(name, _)| name != own);
        pairs.extend(value.map(|value| (own.to_owned(), value)));
        let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > ATTRIBUTES_BYTES_MAX {
            return Err(Invalid::Argument { name: own }.into());
        }
        Ok(Attributes { pairs })
    }
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// The bucket.
    pub bucket: BucketRef,
    /// Only keys that begin so.
    pub prefix: String,
    /// Rolls keys up to the first delimiter behind the prefix into one common prefix.
    pub delimiter: Option<String>,
    /// Only keys and common prefixes behind this one.
    pub after: Option<String>,
    /// The most keys and prefixes on the page, 0 to 1000.
    pub max_keys: u32,
}

/// One entry of a listing, in key order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListEntry {
    /// An object.
    Object {
        /// Key of the object.
        key: ObjectKey,
        /// Description of the object; attributes are left empty.
        info: ObjectInfo,
    },
    /// A common prefix, delimiter included.
    Prefix(String),
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    /// In key order.
    pub entries: Vec<ListEntry>,
    /// The `after` of the next page; `None` on the last.
    pub next: Option<String>,
}

/// The properties that a bucket is created with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewBucket {
    /// Where it says it is; empty for the default region.
    pub location: String,
    /// Tags of the bucket, in the order in which they were given.
    pub tags: Vec<Tag>,
    /// Public access block; `None` for a bucket without one.
    pub public_access_block: Option<PublicAccessBlock>,
}

impl NewBucket {
    /// The entries of its record.
    pub(super) fn entries(&self) -> Entries {
        let mut entries = Entries::default();
        if let Some(block) = self.public_access_block {
            let value = ConfigValue::from(block);
            entries.set(value.kind().number(), ConfigEntry::Inline(value.encode()).encode());
        }
        entries
    }
}

/// A bucket as S3 shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketInfo {
    /// Name of the bucket.
    pub name: ObjectKey,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Where it says it is; empty for the default region.
    pub location: String,
    /// Tags of the bucket, in the order in which they were given.
    pub tags: Vec<Tag>,
}

/// A page of buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketPage {
    /// In name order.
    pub buckets: Vec<BucketInfo>,
    /// The `after` of the next page; `None` on the last.
    pub next: Option<String>,
}

/// An upload to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateUpload {
    /// Name of the object that it becomes.
    pub name: ObjectName,
    /// System headers and user metadata of the object.
    pub attributes: Attributes,
    /// Tags of the object.
    pub tags: ObjectTags,
    /// The checksum that its parts carry, and what the object's covers.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
}

/// Names a part of an open upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartName {
    /// The object it will belong to.
    pub name: ObjectName,
    /// The upload.
    pub upload: UploadId,
    /// 1 to 10,000.
    pub number: u16,
}

/// A part copied from an object.
#[derive(Debug, Clone)]
pub struct CopyPart {
    /// Part that it becomes.
    pub part: PartName,
    /// Source object.
    pub source: ObjectName,
    /// Range of bytes: [`Span::Whole`] or [`Span::From`] with a last byte.
    pub span: Span,
    /// Conditions on the source.
    pub source_conditions: ReadConditions,
}

/// A part as Complete lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPart {
    /// 1 to 10,000, ascending.
    pub number: u16,
    /// ETag of the part, without quotes.
    pub etag: String,
    /// Checksum of the part, where the client sent it.
    pub checksum: Option<Checksum>,
}

/// Completes an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteUpload {
    /// The object.
    pub name: ObjectName,
    /// The upload.
    pub upload: UploadId,
    /// Parts of the object.
    pub parts: Vec<ListedPart>,
    /// The checksum of the whole, where the client sent it.
    pub checksum: Option<Checksum>,
    /// The kind of that checksum, where the client gives it.
    pub checksum_kind: Option<ChecksumKind>,
    /// The size of the whole (x-amz-mp-object-size), where the client sent it.
    pub size: Option<u64>,
    /// Conditions, judged atomically with the completion.
    pub conditions: WriteConditions,
}

/// Parts of an open upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartPage {
    /// In number order.
    pub parts: Vec<PartInfo>,
    /// The checksum that the upload asked for.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    /// The `after` of the next page; `None` on the last.
    pub next: Option<u16>,
}

/// One uploaded part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// Number of the part.
    pub number: u16,
    /// Bytes of the part.
    pub size: u64,
    /// Entity tag, without quotes.
    pub etag: String,
    /// When it was uploaded, in milliseconds since the Unix epoch.
    pub modified_ms: u64,
    /// Checksum of the part.
    pub checksum: Option<Checksum>,
}

/// Open uploads of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListUploads {
    /// The bucket.
    pub bucket: BucketRef,
    /// Only keys that begin so.
    pub prefix: String,
    /// Rolls keys up as in [`ListRequest`].
    pub delimiter: Option<String>,
    /// Only uploads behind this key (and, with the same key, behind this upload).
    pub after: Option<(String, Option<UploadId>)>,
    /// The most uploads and prefixes on the page, 0 to 1000.
    pub max_uploads: u32,
}

/// One entry of a listing of uploads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadEntry {
    /// An open upload.
    Upload {
        /// The object's key.
        key: ObjectKey,
        /// The upload.
        id: UploadId,
        /// When it was begun, in milliseconds since the Unix epoch.
        initiated_ms: u64,
        /// The checksum it asked for.
        checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    },
    /// A common prefix, delimiter included.
    Prefix(String),
}

/// A page of open uploads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadPage {
    /// By key, then by the time they were begun.
    pub entries: Vec<UploadEntry>,
    /// The `after` of the next page; `None` on the last.
    pub next: Option<(String, Option<UploadId>)>,
}

/// The outcome of one key in a batched delete.
#[derive(Debug)]
pub struct DeleteOutcome {
    /// Key of the object.
    pub key: ObjectKey,
    /// Deleted (or not there), or why not.
    pub result: super::Result<()>,
}
