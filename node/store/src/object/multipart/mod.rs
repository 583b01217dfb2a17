//! Multipart uploads. An open upload lives in the object's own register; its parts are registers of
//! their own in the same set, with their bytes as shards in place, so completing moves no data.
//! The attributes of the object are a register beside them, under a number that S3 does not give.

pub(super) mod parts;
mod attributes;
mod close;
mod complete;

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use sherd_core::env::{HybridClock, Rng};
use sherd_core::id::{ObjectKey, PartKey, UploadId};
use sherd_core::limits;
use sherd_core::record::{
    Attributes, ChecksumAlgorithm, ChecksumKind, Part, PartRef, State, Upload as OpenUpload,
};

use super::body::Bodies;
use super::body::receive::StoredBody;
use super::bucket::look_up::BucketRegisters;
use super::digest::{DEFAULT_ALGORITHM, DigestValues};
use super::error::{Invalid, Result};
use super::request::{
    CreateUpload, ExpectedChecksum, ObjectName, PartInfo, PartName, PartPage, Upload, WriteOutcome,
};
use super::task::to_the_end;
use crate::cluster::KeyRoute;
use crate::register::{Inline, Proposal, QuorumRow, Writer};
use close::{close_late_part, close_upload};
use parts::{UploadRegisters, open_upload};

/// The verbs of uploads. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Uploads {
    pub(super) registers: UploadRegisters,
    bodies: Bodies,
    clock: Arc<HybridClock>,
    rng: Arc<dyn Rng>,
}

impl Uploads {
    pub(super) fn new(
        under: BucketRegisters,
        bodies: Bodies,
        clock: Arc<HybridClock>,
        rng: Arc<dyn Rng>,
    ) -> Self {
        let registers = UploadRegisters { under, stripes: bodies.stripes.clone() };
        Self { registers, bodies, clock, rng }
    }

    fn now_ms(&self) -> u64 {
        self.clock.wall().wall_ms()
    }

    /// Begins an upload.
    pub(super) async fn create(&self, request: CreateUpload) -> Result<UploadId> {
        let CreateUpload { name, attributes, tags, checksum } = request;
        let attributes = attributes::with_tags(attributes, &tags)?;
        let route = self.registers.under.route(&name).await?;
        let id = UploadId(self.rng.next_id());
        let uploads = self.clone();
        let begin = async move {
            let registers = &uploads.registers;
            // Most uploads have none, and need no register for them.
            let is_bare = attributes.pairs.is_empty();
            if !is_bare {
                attributes::put(registers, name.bucket.name(), &route, id, attributes).await?;
            }
            let attributes = is_bare.then(Attributes::default);
            let upload = OpenUpload { id, initiated_ms: uploads.now_ms(), attributes, checksum };
            let opened = uploads.name_upload(name.bucket.name(), &route, upload).await;
            if let (Err(error), false) = (&opened, is_bare) {
                attributes::discard(registers, name.bucket.name(), &route, id, error).await;
            }
            opened
        };
        to_the_end(self.tasks(), "upload begun", begin).await?;
        Ok(id)
    }

    fn tasks(&self) -> &TaskTracker {
        self.registers.under.registers.tasks()
    }

    /// Names an upload in its key's row: from then on it is open.
    async fn name_upload(&self, bucket: &ObjectKey, route: &KeyRoute, upload: OpenUpload) -> Result<()> {
        let under = &self.registers.under;
        let ticket = under.registers.begin_at(route);
        let decide = move |state: Option<&State>| {
            let mut object = state.and_then(State::object).cloned().unwrap_or_default();
            if object.uploads.len() >= limits::OPEN_UPLOADS_MAX {
                return Err(Invalid::TooManyUploads.into());
            }
            object.uploads.push(upload.clone());
            Ok(Proposal { inline: Inline::Kept, ..Proposal::of(State::Object(object)) })
        };
        under.change(bucket, route, ticket, Writer::new(decide)).await
    }

    /// An upload as its object's register has it, while it is open. Nothing else of its value is kept.
    async fn upload_of(&self, bucket: &ObjectKey, object: &KeyRoute, id: UploadId) -> Result<OpenUpload> {
        let found = self.registers.under.find(bucket, object).await?;
        open_upload(found.as_ref().and_then(QuorumRow::object), id).cloned()
    }

    /// Stores a part, in place of an earlier one of its number.
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
        let object = self.registers.under.route(&name).await?;
        let declared = self.upload_of(name.bucket.name(), &object, id).await?.checksum;
        let announced = upload.checksum.as_ref().map(ExpectedChecksum::algorithm);
        judge_algorithm(declared, announced, origin)?;
        let kept = declared.map_or(DEFAULT_ALGORITHM, |(algorithm, _)| algorithm);
        let part_key = PartKey { upload: id, number };
        let route = object.part(part_key);
        let received = self.bodies.receive(&route, upload, Some(kept)).await?;
        let ticket = self.registers.under.registers.begin_at(&route);
        let (digests, stored) = received.durable().await?;
        let modified_ms = self.now_ms();
        let part = part_of(number, &digests, kept, &stored);
        let etag = part.etag();
        let heal = stored.heal(route.key(), modified_ms);
        let (_, staged) = stored.split();
        // A Complete under way may still carry what this replaces: what releases it looks there.
        let decide = move |_: Option<&State>| {
            let state = State::Part(Part { modified_ms, part: part.clone() });
            Ok(Proposal { heal: heal.clone(), ..Proposal::of(state) })
        };
        let registers = self.registers.clone();
        let commit = async move {
            let writer = Writer::new(decide).naming(staged);
            registers.under.change(name.bucket.name(), &route, ticket, writer).await?;
            if let Err(error) = close_late_part(&registers, name.bucket.name(), &object, part_key).await {
                tracing::warn!(upload = %id, number, %error, "whether the upload of a part is open is not known");
            }
            Ok(())
        };
        to_the_end(self.tasks(), "part put", commit).await?;
        // The client's own comes first.
        let checksums = digests.checksums.into_iter().take(1).collect();
        Ok(WriteOutcome { etag, modified_ms, checksums })
    }

    /// Gives an upload up.
    pub(super) async fn abort(&self, name: ObjectName, id: UploadId) -> Result<()> {
        let route = self.registers.under.route(&name).await?;
        let uploads = self.clone();
        let abort = async move { uploads.abort_to_the_end(name.bucket.name().clone(), route, id).await };
        to_the_end(self.tasks(), "upload given up", abort).await
    }

    async fn abort_to_the_end(&self, bucket: ObjectKey, route: KeyRoute, id: UploadId) -> Result<()> {
        let under = &self.registers.under;
        let ticket = under.registers.begin_at(&route);
        let decide = move |state: Option<&State>| {
            let object = state.and_then(State::object);
            open_upload(object, id)?;
            let mut object = object.cloned().unwrap_or_default();
            object.uploads.retain(|upload| upload.id != id);
            Ok(Proposal { inline: Inline::Kept, ..Proposal::of(object.into()) })
        };
        under.change(&bucket, &route, ticket, Writer::new(decide)).await?;
        close_upload(&self.registers, bucket, route, id);
        Ok(())
    }

    /// Lists the parts of an open upload, those behind number `after`.
    pub(super) async fn list_parts(
        &self,
        name: ObjectName,
        id: UploadId,
        after: Option<u16>,
        max: u32,
    ) -> Result<PartPage> {
        let route = self.registers.under.route(&name).await?;
        let checksum = self.upload_of(name.bucket.name(), &route, id).await?.checksum;
        let max = usize::try_from(max.min(limits::LIST_KEYS_MAX)).expect("at most 1000");
        let mut parts = self.registers.parts_behind(name.bucket.name(), &route, id, after, max + 1).await?;
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

/// Where the bytes of a part come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartOrigin {
    /// A client, with what it says of them.
    Client,
    /// The store itself, out of an object.
    Copy,
}

/// Judges the checksum of a part by its upload's. Where the object's checksum is made of its parts', a client
/// has to send each; where the upload names no algorithm, it may send any.
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
    if fits {
        Ok(())
    } else {
        Err(Invalid::ChecksumAlgorithm { expected: Some(expected), actual: announced })
    }
}

fn part_of(number: u16, digests: &DigestValues, kept: ChecksumAlgorithm, stored: &StoredBody) -> PartRef {
    let checksum = digests.checksums.iter().find(|checksum| checksum.algorithm == kept).cloned();
    PartRef { number, tag: stored.tag(digests.md5), checksum, data: stored.data() }
}
