//! Multipart uploads. An open upload lives in the object's own register; its parts are registers of
//! their own in the same set, with their bytes as shards in place, so completing moves no data.
//! What the object will carry is a register beside them, under a number that S3 does not give.

mod attributes;
mod complete;
mod parts;

use sherd_core::id::{ObjectKey, PartKey, RegisterKey, UploadId};
use sherd_core::limits;
use sherd_core::record::{
    Attributes, ChecksumAlgorithm, ChecksumKind, Object, Part, PartRef, State, Upload as OpenUpload,
};

use super::body::StoredBody;
use super::digest::{DEFAULT_ALGORITHM, DigestValues};
use super::{
    CreateUpload, Error, Invalid, MissingResource, ObjectName, Objects, PartInfo, PartName, PartPage, Result,
    Upload, WriteOutcome,
};
use crate::register::{Inline, Proposal, QuorumRow, Writer};

/// The upload of that id, while it is open.
fn open_upload(object: Option<&Object>, id: UploadId) -> Result<&OpenUpload> {
    let uploads = object.map(|object| object.uploads.as_slice()).unwrap_or_default();
    uploads.iter().find(|upload| upload.id == id).ok_or(Error::Missing(MissingResource::Upload))
}

impl Objects {
    /// Begins an upload.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn create_upload(&self, request: CreateUpload) -> Result<UploadId> {
        let CreateUpload { name, attributes, checksum } = request;
        let key = self.object_key(&name).await?;
        let id = UploadId(self.inner.rng.next_id());
        let objects = self.clone();
        let begin = async move {
            // Most uploads have none, and need no register for them.
            let is_bare = attributes.pairs.is_empty();
            if !is_bare {
                objects.put_attributes(&name.bucket, &key, id, attributes).await?;
            }
            let attributes = is_bare.then(Attributes::default);
            let upload = OpenUpload { id, initiated_ms: objects.now_ms(), attributes, checksum };
            let opened = objects.name_upload(&name.bucket, &key, upload).await;
            if let (Err(error), false) = (&opened, is_bare) {
                objects.discard_attributes(&name.bucket, &key, id, error).await;
            }
            opened
        };
        self.to_the_end("upload begun", begin).await?;
        Ok(id)
    }

    /// Names an upload in its key's row: from then on it is open.
    async fn name_upload(&self, bucket: &ObjectKey, key: &RegisterKey, upload: OpenUpload) -> Result<()> {
        let ticket = self.inner.registers.begin(key);
        let decide = move |state: Option<&State>| {
            let mut object = state.and_then(State::object).cloned().unwrap_or_default();
            if object.uploads.len() >= limits::OPEN_UPLOADS_MAX {
                return Err(Invalid::TooManyUploads.into());
            }
            object.uploads.push(upload.clone());
            Ok(Proposal { inline: Inline::Kept, ..Proposal::of(State::Object(object)) })
        };
        self.change(bucket, key, ticket, Writer::new(decide)).await
    }

    /// What an object's register says of an upload, while it is open. Nothing else of its value is kept.
    async fn upload_of(&self, bucket: &ObjectKey, object: &RegisterKey, id: UploadId) -> Result<OpenUpload> {
        let found = self.find(bucket, object).await?;
        open_upload(found.as_ref().and_then(QuorumRow::object), id).cloned()
    }

    /// Stores a part, in place of an earlier one of its number.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn put_part(&self, part: PartName, upload: Upload) -> Result<WriteOutcome> {
        self.store_part(part, upload, PartOrigin::Client).await
    }

    pub(super) async fn store_part(
        &self,
        part: PartName,
        upload: Upload,
        origin: PartOrigin,
    ) -> Result<WriteOutcome> {
        let PartName { name, upload: id, number } = part;
        if number == 0 || number > limits::PARTS_MAX {
            return Err(Invalid::Argument { name: "partNumber" }.into());
        }
        let object_key = self.object_key(&name).await?;
        let declared = self.upload_of(&name.bucket, &object_key, id).await?.checksum;
        let announced = upload.checksum.as_ref().map(super::ExpectedChecksum::algorithm);
        judge_algorithm(declared, announced, origin)?;
        let kept = declared.map_or(DEFAULT_ALGORITHM, |(algorithm, _)| algorithm);
        let part_key = PartKey { upload: id, number };
        let key = RegisterKey::part(object_key.bucket, object_key.key.clone(), part_key);
        let received = self.receive(&key, upload, Some(kept)).await?;
        let ticket = self.inner.registers.begin(&key);
        let (digests, stored) = received.durable().await?;
        let modified_ms = self.now_ms();
        let part = part_of(number, &digests, kept, &stored);
        let etag = part.etag();
        let missing = stored.missing();
        let heal = missing.then(|| sherd_core::heal::HealEntry {
            key: key.clone(),
            data: stored.data().map(Into::into),
            since_ms: modified_ms,
        });
        let (_, staged) = stored.split();
        // A Complete under way may still carry what this replaces; whoever releases it looks.
        let decide = move |_: Option<&State>| {
            let state = State::Part(Part { modified_ms, part: part.clone() });
            Ok(Proposal { heal: heal.clone(), ..Proposal::of(state) })
        };
        let objects = self.clone();
        let commit = async move {
            objects.change(&name.bucket, &key, ticket, Writer::new(decide).naming(staged)).await?;
            if let Err(error) = objects.close_late_part(&name.bucket, &object_key, part_key).await {
                tracing::warn!(upload = %id, number, %error, "whether the upload of a part is open is not known");
            }
            Ok(())
        };
        self.to_the_end("part put", commit).await?;
        // The client's own comes first.
        let checksums = digests.checksums.into_iter().take(1).collect();
        Ok(WriteOutcome { etag, modified_ms, checksums })
    }

    /// Gives an upload up.
    ///
    /// # Errors
    /// [`MissingResource::Upload`] when it is not open; any of [`Error`].
    pub async fn abort_upload(&self, name: ObjectName, id: UploadId) -> Result<()> {
        let key = self.object_key(&name).await?;
        let objects = self.clone();
        let abort = async move { objects.abort_to_the_end(name.bucket, key, id).await };
        self.to_the_end("upload given up", abort).await
    }

    async fn abort_to_the_end(&self, bucket: ObjectKey, key: RegisterKey, id: UploadId) -> Result<()> {
        let ticket = self.inner.registers.begin(&key);
        let decide = move |state: Option<&State>| {
            let object = state.and_then(State::object);
            open_upload(object, id)?;
            let mut object = object.cloned().unwrap_or_default();
            object.uploads.retain(|upload| upload.id != id);
            Ok(Proposal { inline: Inline::Kept, ..Proposal::of(object.into()) })
        };
        self.change(&bucket, &key, ticket, Writer::new(decide)).await?;
        self.close_upload(bucket, key, id);
        Ok(())
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
        let key = self.object_key(&name).await?;
        let checksum = self.upload_of(&name.bucket, &key, id).await?.checksum;
        let max = usize::try_from(max.min(limits::LIST_KEYS_MAX)).expect("at most 1000");
        let mut parts = self.parts_behind(&name.bucket, &key, id, after, max + 1).await?;
        let more = parts.len() > max;
        parts.truncate(max);
        let next = parts.last().filter(|_| more).map(|part| part.part.number);
        let mut parts: Vec<PartInfo> = parts.into_iter().map(parts::info).collect();
        if checksum.is_none() {
            // S3 shows the checksums that were asked for; the default one belongs to the object.
            for part in &mut parts {
                part.checksum = None;
            }
        }
        Ok(PartPage { parts, checksum, next })
    }
}

/// Who sends the bytes of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartOrigin {
    /// A client, with what it says of them.
    Client,
    /// The store itself, out of an object.
    Copy,
}

/// Judges the checksum of a part by its upload's. Where the object's checksum is made of its parts', a client has to
/// send each; where the upload names no algorithm, it may send any.
fn judge_algorithm(
    declared: Option<(ChecksumAlgorithm, ChecksumKind)>,
    announced: Option<ChecksumAlgorithm>,
    origin: PartOrigin,
) -> std::result::Result<(), Invalid> {
    let Some((expected, kind)) = declared else { return Ok(()) };
    let fits = match announced {
        Some(actual) => actual == expected,
        None => kind == ChecksumKind::FullObject || origin == PartOrigin::Copy,
    };
    if fits { Ok(()) } else { Err(Invalid::PartChecksumAlgorithm { expected, actual: announced }) }
}

fn part_of(number: u16, digests: &DigestValues, kept: ChecksumAlgorithm, stored: &StoredBody) -> PartRef {
    let checksum = digests.checksums.iter().find(|checksum| checksum.algorithm == kept).cloned();
    PartRef { number, tag: stored.tag(digests.md5), checksum, data: stored.data() }
}
