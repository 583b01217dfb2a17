//! Values of registers: objects with their versions and open uploads, parts, buckets, tombstones.
//!
//! [`Value`] is the state of one register. Its stored form is defined byte by byte in
//! [`encode`](Value::encode) / [`decode`](Value::decode), which live in `bytes/`; golden bytes
//! pin every version of the format. Inline bytes travel beside the head, never in it, so that an
//! index row stays small. `check.rs` says what a value must keep to be stored.

mod bytes;
mod check;
mod entries;
pub mod history;
pub mod row_key;
mod tags;

#[cfg(test)]
pub(crate) mod strategy;

pub use bytes::{
    decode_manifest, encode_manifest, put_data_ref, put_register_key, register_key_bytes, take_data_ref,
    take_register_key,
};
pub use check::OverLimit;
pub use entries::{Entries, Entry};
pub use tags::{ObjectTags, is_of_tags};

use smallvec::SmallVec;

use crate::checksum::Digest;
use crate::erasure::Geometry;
use crate::id::{BucketId, ChangeId, DataId, SetId, UploadId, VersionId};
use crate::stripe::{InvalidLayout, Layout};

/// The state of one register, with the history that makes a retried change recognisable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The count of its changes, and the ids of the last ones.
    pub changes: Changes,
    /// State of the register.
    pub state: State,
}

/// The count of a register's changes and the ids of the last ones, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Changes since the register was made (or dropped and made again).
    pub count: u64,
    /// At most [`crate::limits::CHANGE_IDS`], oldest first.
    pub recent: Vec<ChangeTry>,
    /// The last changes that a client made under a condition, so that a client that sends one of them again
    /// is not refused for its own success; oldest first, as [`Self::remember`] keeps them. A tombstone keeps
    /// them.
    pub conditional: Vec<ConditionalChange>,
}

/// A change that took effect under a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionalChange {
    /// The same in all sendings of the client's call, and in no other call.
    pub token: CallToken,
    /// Second of the Unix epoch of the ballot at which it was proposed; 0 where it was stored before seconds
    /// were kept.
    pub second: u32,
    /// The answer to its client.
    pub answer: KeptAnswer,
}

/// The answer to the client of a conditional change, as far as another sending of its call cannot compute it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptAnswer {
    /// The entity tag, without quotes; never empty. `None` for a deletion, and where the tag is made of the
    /// bytes or the parts that each sending has.
    pub etag: Option<Box<str>>,
    /// The version that it made, in a bucket that keeps versions.
    pub version: Option<VersionId>,
}

/// Names one call of one client: a hash of the caller, the change and the client's id for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallToken(pub [u8; 16]);

/// One proposal of a change: the change has an id over all its tries, and each of them a number.
/// Found in a history it says which of its proposals went into it, and so how that was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangeTry {
    /// The change.
    pub change: ChangeId,
    /// Number of the change's proposal, from 1; 0 in values stored before tries were numbered.
    pub number: u16,
}

impl Changes {
    /// The history after one more change; the oldest id makes room.
    #[must_use]
    pub fn after(&self, own: ChangeTry) -> Self {
        let keep = self.recent.len().saturating_sub(crate::limits::CHANGE_IDS - 1);
        let mut recent: Vec<ChangeTry> = self.recent.iter().skip(keep).copied().collect();
        recent.push(own);
        Self { count: self.count.saturating_add(1), recent, conditional: self.conditional.clone() }
    }

    /// Number of the try of a change that is among the last changes.
    pub fn number_of(&self, change: ChangeId) -> Option<u16> {
        self.recent.iter().find(|made| made.change == change).map(|made| made.number)
    }
}

/// State of a register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Deleted: nothing is there, and what was there is remembered as gone.
    Tombstone,
    /// An object.
    Object(Object),
    /// One part of an open upload.
    Part(Part),
    /// A bucket, in the system namespace.
    Bucket(Bucket),
    /// Attributes of the future object of an open upload: the register of the upload's part 0. It names no
    /// data.
    UploadAttributes(Attributes),
}

/// An object: its versions, newest first, and the uploads open on its key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Object {
    /// Newest first. Empty while only uploads are open.
    pub versions: Vec<Version>,
    /// Oldest first; at most [`crate::limits::OPEN_UPLOADS_MAX`].
    pub uploads: Vec<Upload>,
}

/// One version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Id of the version; [`VersionId::NULL`] without versioning.
    pub id: VersionId,
    /// Milliseconds since the Unix epoch when it was made.
    pub modified_ms: u64,
    /// Bytes, or their absence.
    pub kind: VersionKind,
}

/// Whether a version has bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every version has content, and a box costs an allocation"
)]
pub enum VersionKind {
    /// The object reads as deleted; older versions are still there.
    DeleteMarker,
    /// An object with a body.
    Content(Content),
}

/// A body and what S3 says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Bytes of the body.
    pub size: u64,
    /// The entity tag, without its quotes.
    pub etag: String,
    /// The attributes that the request to store it named.
    pub attributes: Attributes,
    /// The checksums stored with it.
    pub checksums: Checksums,
    /// The upload it was completed from, so that a retried Complete succeeds again.
    pub upload: Option<UploadId>,
    /// Where the bytes are.
    pub body: Body,
    /// Further facts of S3 about it.
    pub entries: Entries,
}

/// Headers and user metadata that come back with every read, by their lower-case names.
///
/// System headers (`content-type`, `cache-control`, ...) and `x-amz-meta-*` names stand side by
/// side, in the order in which they were sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Name and value.
    pub pairs: Vec<(String, String)>,
}

impl Attributes {
    /// The first value under a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Checksum algorithm of S3. The numbers are stored and never used again for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumAlgorithm {
    /// CRC-32 (ISO-HDLC), 4 bytes.
    Crc32 = 1,
    /// CRC-32C (Castagnoli), 4 bytes.
    Crc32c = 2,
    /// CRC-64/NVME, 8 bytes.
    Crc64Nvme = 3,
    /// SHA-1, 20 bytes.
    Sha1 = 4,
    /// SHA-256, 32 bytes.
    Sha256 = 5,
    /// SHA-512, 64 bytes.
    Sha512 = 6,
    /// MD5, 16 bytes.
    Md5 = 7,
    /// XXH64 with seed 0, 8 bytes.
    XxHash64 = 8,
    /// XXH3 with seed 0, 8 bytes.
    XxHash3 = 9,
    /// XXH3 with seed 0, 16 bytes.
    XxHash128 = 10,
}

impl ChecksumAlgorithm {
    /// Every algorithm, by its number.
    pub const ALL: [Self; 10] = [
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Md5,
        Self::XxHash64,
        Self::XxHash3,
        Self::XxHash128,
    ];

    /// Bytes of one checksum.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme | Self::XxHash64 | Self::XxHash3 => 8,
            Self::Md5 | Self::XxHash128 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// The raw bytes of a checksum, without an allocation of their own but for a SHA-512.
pub type ChecksumBytes = SmallVec<[u8; 32]>;

/// The checksums of one body, without an allocation of their own: nearly every body has one.
pub type Checksums = SmallVec<[Checksum; 1]>;

/// A checksum of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// Computed how.
    pub algorithm: ChecksumAlgorithm,
    /// For a composite checksum (a checksum of the parts' checksums): of how many parts.
    pub composite_of: Option<u16>,
    /// The raw bytes, as long as the algorithm says.
    pub value: ChecksumBytes,
}

impl Checksum {
    /// The bytes that it covers.
    pub const fn kind(&self) -> ChecksumKind {
        match self.composite_of {
            Some(_) => ChecksumKind::Composite,
            None => ChecksumKind::FullObject,
        }
    }
}

/// Where the bytes of a version are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// In the row's own log record, on every volume.
    Inline {
        /// blake3 of the bytes.
        hash: Digest,
    },
    /// Erasure-coded under one data id.
    Data(DataRef),
    /// Parts in order, each erasure-coded under a data id of its own.
    Parts(Vec<PartRef>),
    /// As [`Body::Parts`], but the list is itself erasure-coded: an immutable manifest page.
    Manifest {
        /// The page.
        page: DataRef,
        /// How many parts it lists.
        parts: u16,
    },
}

/// Names erasure-coded bytes and says how they are laid out.
///
/// Shard `i` is on the volume at position `(i + rotation) mod (k + m)` of its set, where the data
/// id gives the rotation (`placement::rotation`); one shard per volume, never two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataRef {
    /// The name.
    pub id: DataId,
    /// The set whose volumes have its shards.
    pub set: SetId,
    /// Bytes before erasure coding; at least 1.
    pub size: u64,
    /// Data shards (k).
    pub data_shards: u8,
    /// Parity shards (m).
    pub parity_shards: u8,
    /// Bytes of a stripe unit: see `stripe`.
    pub stripe_unit: u32,
    /// Packed in the logs, or files of their own.
    pub home: Home,
}

impl DataRef {
    /// Sixteen bytes that tell this data from all other, where no MD5 was computed: made from the data's id,
    /// which no second write ever has. That they are the MD5 of anything stored is as likely as a collision
    /// of MD5s.
    pub fn fast_tag(&self) -> [u8; 16] {
        let mut tag = [0; 16];
        let mut hasher = blake3::Hasher::new_derive_key("sherd 2026 fast entity tag");
        hasher.update(&self.id.to_bytes()).finalize_xof().fill(&mut tag);
        tag
    }

    /// The tag as S3 shows it, without quotes: with the end of a multipart object's, which clients take
    /// for no MD5.
    pub fn fast_etag(&self) -> String {
        format!("{}-1", hex::encode(self.fast_tag()))
    }

    /// How the bytes lie on the shards.
    ///
    /// # Errors
    /// [`InvalidLayout`] when the fields could not come from a decoder.
    pub fn layout(&self) -> Result<Layout, InvalidLayout> {
        let Self { id: _, set: _, size, data_shards, parity_shards, stripe_unit, home: _ } = *self;
        let geometry =
            Geometry::new(data_shards, parity_shards).map_err(|_| InvalidLayout { size, stripe_unit })?;
        Layout::new(size, geometry, stripe_unit)
    }
}

/// Where shards live on their volumes. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Home {
    /// Records in the log.
    Packed = 1,
    /// Files.
    File = 2,
}

/// One part of a completed upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRef {
    /// S3 part number, 1 to 10,000; ascending in a manifest.
    pub number: u16,
    /// The bytes of its entity tag: the MD5 of its bytes, or their [`DataRef::fast_tag`].
    pub tag: [u8; 16],
    /// Checksum of the part, when the upload has an algorithm.
    pub checksum: Option<Checksum>,
    /// Reference to the bytes; `None` for an empty part.
    pub data: Option<DataRef>,
}

impl PartRef {
    /// Bytes of the part.
    pub fn size(&self) -> u64 {
        self.data.map_or(0, |data| data.size)
    }

    /// Entity tag, without quotes: an MD5 in hexadecimal digits, or a tag that is marked as another kind.
    pub fn etag(&self) -> String {
        match &self.data {
            Some(data) if data.fast_tag() == self.tag => data.fast_etag(),
            Some(_) | None => hex::encode(self.tag),
        }
    }
}

/// A part's register: the newest bytes uploaded under its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Milliseconds since the Unix epoch when it was uploaded.
    pub modified_ms: u64,
    /// Bytes and hashes of the part.
    pub part: PartRef,
}

/// An open upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Id of the upload.
    pub id: UploadId,
    /// Milliseconds since the Unix epoch when it was begun.
    pub initiated_ms: u64,
    /// Attributes of the future object; `None` where a register of the upload's own holds them.
    pub attributes: Option<Attributes>,
    /// The checksum asked for, and whether it covers the full object or the parts' checksums.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
}

/// The bytes that a multipart object's checksum covers. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ChecksumKind {
    /// A checksum of the parts' checksums.
    Composite = 1,
    /// A checksum of all the bytes.
    FullObject = 2,
}

/// A bucket's register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Id of the bucket, made when it was created.
    pub id: BucketId,
    /// Milliseconds since the Unix epoch when it was created.
    pub created_ms: u64,
    /// Where it says it is; empty for the default region.
    pub location: String,
    /// Whether it takes requests.
    pub phase: BucketPhase,
    /// The tags that its owner gave it; at most [`crate::limits::BUCKET_TAGS_MAX`].
    pub tags: Vec<Tag>,
    /// How it is configured otherwise.
    pub entries: Entries,
}

/// A tag of a bucket or an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Not empty; at most [`crate::limits::TAG_KEY_CHARS_MAX`] characters.
    pub key: String,
    /// At most [`crate::limits::TAG_VALUE_CHARS_MAX`] characters.
    pub value: String,
}

impl Tag {
    /// Whether root alone may give, change and remove it, where a bucket has it. One such tag says which
    /// object of Kubernetes has the bucket.
    pub fn is_roots(&self) -> bool {
        self.key.starts_with("sherd.dev/")
    }
}

/// A bucket's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketPhase {
    /// Serves requests.
    Active,
    /// A deletion is being decided; each try has a fresh id.
    Deleting {
        /// The try.
        deletion: ChangeId,
    },
    /// Deleted; the id never comes back.
    Deleted,
}

impl Object {
    /// The version that a plain read sees, when it has bytes.
    pub fn current(&self) -> Option<(&Version, &Content)> {
        let newest = self.versions.first()?;
        match &newest.kind {
            VersionKind::Content(content) => Some((newest, content)),
            VersionKind::DeleteMarker => None,
        }
    }
}

impl Value {
    /// Whether a volume that has no room for new data takes this value in the place of `before`, at any size
    /// of both: a removal, or a bucket that changes its phase.
    pub fn makes_way(&self, before: Option<&Self>) -> bool {
        match (&self.state, before.map(|before| &before.state)) {
            (State::Tombstone, _) => true,
            (State::Bucket(after), _) if after.phase != BucketPhase::Active => true,
            (State::Bucket(after), Some(State::Bucket(before))) => after.id == before.id,
            _ => false,
        }
    }

    /// Every data id that the value names itself (parts listed on a manifest page are named by the
    /// page, and live and die with it).
    pub fn data_refs(&self) -> Vec<DataRef> {
        self.state.data_refs()
    }
}

/// How bytes behind a value are not those that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InlineFault {
    /// A version has more bytes than there are.
    #[error("{bytes} inline bytes are too few, {expected} expected")]
    Short {
        /// Bytes that are left for it.
        bytes: usize,
        /// Bytes of the version.
        expected: usize,
    },
    /// Bytes of another hash.
    #[error("inline bytes are not those of their hash")]
    Digest,
    /// Bytes behind those of the versions.
    #[error("{bytes} bytes behind the inline bytes")]
    Behind {
        /// Count.
        bytes: usize,
    },
}

impl State {
    /// The versions whose bytes lie behind the value in its row.
    pub fn inline_contents(&self) -> impl Iterator<Item = &Content> {
        let versions = self.object().map_or(&[][..], |object| &object.versions);
        versions.iter().filter_map(|version| match &version.kind {
            VersionKind::Content(content) if matches!(content.body, Body::Inline { .. }) => Some(content),
            VersionKind::Content(_) | VersionKind::DeleteMarker => None,
        })
    }

    /// Checks the bytes behind the value against the lengths and hashes of the versions that have them there,
    /// one behind the other.
    ///
    /// # Errors
    /// [`InlineFault`]: they are others.
    pub fn check_inline(&self, inline: &[u8]) -> Result<(), InlineFault> {
        let mut rest = inline;
        for content in self.inline_contents() {
            let Body::Inline { hash } = &content.body else { continue };
            let expected = usize::try_from(content.size).unwrap_or(usize::MAX);
            let Some((bytes, behind)) = rest.split_at_checked(expected) else {
                return Err(InlineFault::Short { bytes: rest.len(), expected });
            };
            if blake3::hash(bytes).as_bytes() != hash {
                return Err(InlineFault::Digest);
            }
            rest = behind;
        }
        if rest.is_empty() { Ok(()) } else { Err(InlineFault::Behind { bytes: rest.len() }) }
    }

    /// Whether there is such a version.
    pub fn has_inline(&self) -> bool {
        self.inline_contents().next().is_some()
    }

    /// The object, unless it is something else or nothing.
    pub const fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Tombstone | Self::Part(_) | Self::Bucket(_) | Self::UploadAttributes(_) => None,
        }
    }

    /// The manifest pages that it names.
    pub fn manifest_pages(&self) -> Vec<DataRef> {
        let Some(object) = self.object() else { return Vec::new() };
        let kinds = object.versions.iter().map(|version| &version.kind);
        kinds
            .filter_map(|kind| match kind {
                VersionKind::Content(content) => match &content.body {
                    Body::Manifest { page, .. } => Some(*page),
                    Body::Inline { .. } | Body::Data(_) | Body::Parts(_) => None,
                },
                VersionKind::DeleteMarker => None,
            })
            .collect()
    }

    /// As [`Value::data_refs`].
    pub fn data_refs(&self) -> Vec<DataRef> {
        match self {
            Self::Tombstone | Self::Bucket(_) | Self::UploadAttributes(_) => Vec::new(),
            Self::Part(part) => part.part.data.into_iter().collect(),
            Self::Object(object) => object.versions.iter().flat_map(version_data_refs).collect(),
        }
    }
}

fn version_data_refs(version: &Version) -> Vec<DataRef> {
    let VersionKind::Content(content) = &version.kind else { return Vec::new() };
    match &content.body {
        Body::Inline { .. } => Vec::new(),
        Body::Data(data) => vec![*data],
        Body::Parts(parts) => parts.iter().filter_map(|part| part.data).collect(),
        Body::Manifest { page, .. } => vec![*page],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ProposerId, Timestamp};

    #[test]
    fn deletions_and_what_undoes_them_make_way() {
        let deletion = ChangeId { made: Timestamp::ZERO, proposer: ProposerId(1) };
        let bucket = |id, phase| Value {
            changes: Changes::default(),
            state: State::Bucket(Bucket {
                id: BucketId([id; 16]),
                created_ms: 0,
                location: String::new(),
                phase,
                tags: Vec::new(),
                entries: Entries::default(),
            }),
        };
        let tombstone = Value { changes: Changes::default(), state: State::Tombstone };
        let object = Value { changes: Changes::default(), state: State::Object(Object::default()) };
        let active = bucket(1, BucketPhase::Active);
        let deleting = bucket(1, BucketPhase::Deleting { deletion });
        let deleted = bucket(1, BucketPhase::Deleted);
        for before in [None, Some(&object), Some(&active), Some(&deleting)] {
            assert!(tombstone.makes_way(before));
            assert!(deleting.makes_way(before) && deleted.makes_way(before));
            assert!(!object.makes_way(before));
        }
        assert!(active.makes_way(Some(&deleting)), "a deletion is undone");
        assert!(!active.makes_way(None), "a bucket is created");
        assert!(!active.makes_way(Some(&bucket(2, BucketPhase::Deleted))), "a bucket is created again");
    }
}
