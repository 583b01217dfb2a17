//! Complete: one compare-and-set that closes the upload and adds the version.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use sherd_core::id::{DataId, ObjectKey, RegisterKey, UploadId, VersionId};
use sherd_core::limits;
use sherd_core::md5::Md5;
use sherd_core::record::{
    self, Body, Checksum, ChecksumAlgorithm, ChecksumKind, Content, Object, PartRef, State, Version,
    VersionKind,
};

use super::parts::{part_in, part_key};
use super::{open_upload, without_upload};
use crate::object::condition::judge_write;
use crate::object::digest::{self, join_checksums};
use crate::object::{
    BodyError, CompleteUpload, Error, Invalid, ListedPart, MissingResource, Objects, Result, WriteConditions,
    WriteOutcome,
};
use crate::register::{Proposal, QuorumRow, Writer};
use crate::stripe::{Placement, StagedData};

/// Part registers that are read at one time.
const CONCURRENT_READS: usize = 32;

/// What the compare-and-set came upon.
#[derive(Debug)]
enum CompletionConflict {
    /// An earlier try of this Complete was the one that did it.
    Done(WriteOutcome),
    /// It cannot be done.
    Refused(Error),
}

impl Objects {
    /// Completes an upload. A repeated Complete of what is already the current version succeeds.
    ///
    /// # Errors
    /// Any of [`Error`]; nothing changed unless it is `OutcomeUnknown`.
    pub async fn complete_upload(&self, request: CompleteUpload) -> Result<WriteOutcome> {
        let CompleteUpload { name, upload, parts, checksum, size, conditions } = request;
        let key = self.object_key(&name).await?;
        let found = self.find(&name.bucket, &key).await?;
        let object = found.as_ref().and_then(QuorumRow::object);
        let opened = match open_upload(object, upload) {
            Ok(opened) => opened.clone(),
            Err(missing) => {
                let written = completed(object, upload).ok_or(missing)?;
                // Whoever made it may have gone before it closed the parts.
                self.close_upload(name.bucket, key, upload);
                return Ok(written);
            }
        };
        let stored = self.listed_parts(&name.bucket, &key, upload, &parts).await?;
        let total = total_size(&stored, size)?;
        let checksums = object_checksum(&stored, opened.checksum)?;
        if let Some(announced) = &checksum
            && !checksums.iter().any(|computed| is_announced(computed, announced))
        {
            return Err(BodyError::ChecksumMismatch(announced.algorithm).into());
        }
        let kept: Vec<DataId> = stored.iter().filter_map(|part| part.data.map(|data| data.id)).collect();
        let content = Content {
            size: total,
            etag: multipart_etag(&stored),
            attributes: opened.attributes.unwrap_or_default(),
            checksums,
            upload: Some(upload),
            body: Body::Parts(Vec::new()),
        };
        let (body, staged) = self.name_parts(&key, stored).await?;
        let completion = Completion { upload, content: Content { body, ..content }, kept };
        let objects = self.clone();
        let close = async move {
            let written = objects.close_with(&name.bucket, &key, completion, staged, conditions).await?;
            objects.close_upload(name.bucket, key, upload);
            Ok(written)
        };
        self.to_the_end("upload completed", close).await
    }

    async fn close_with(
        &self,
        bucket: &ObjectKey,
        key: &RegisterKey,
        completion: Completion,
        staged: Option<StagedData>,
        conditions: WriteConditions,
    ) -> Result<WriteOutcome> {
        let Completion { upload, content, kept } = completion;
        let modified_ms = self.now_ms();
        let written =
            WriteOutcome { etag: content.etag.clone(), modified_ms, checksums: content.checksums.clone() };
        let version = Version { id: VersionId::NULL, modified_ms, kind: VersionKind::Content(content) };
        let ticket = self.inner.registers.begin(key);
        let decide = move |state: Option<&State>| {
            let object = state.and_then(State::object);
            if let Err(missing) = open_upload(object, upload) {
                return Err(completed(object, upload)
                    .map_or(CompletionConflict::Refused(missing), CompletionConflict::Done));
            }
            judge_write(&conditions, object).map_err(CompletionConflict::Refused)?;
            let mut object = object.map(|object| without_upload(object, upload)).unwrap_or_default();
            object.versions = vec![version.clone()];
            Ok(Proposal { carried: kept.clone(), ..Proposal::of(State::Object(object)) })
        };
        match self.change_or(bucket, key, ticket, Writer::new(decide).naming(staged)).await? {
            Ok(()) => Ok(written),
            Err(CompletionConflict::Done(written)) => Ok(written),
            Err(CompletionConflict::Refused(error)) => Err(error),
        }
    }

    /// The parts that Complete lists, each as it is stored, in the listed order.
    async fn listed_parts(
        &self,
        bucket: &ObjectKey,
        object: &RegisterKey,
        upload: UploadId,
        listed: &[ListedPart],
    ) -> Result<Vec<PartRef>> {
        if listed.is_empty() || !listed.is_sorted_by(|one, next| one.number < next.number) {
            return Err(Invalid::PartOrder.into());
        }
        stream::iter(listed.iter().cloned())
            .map(|listed| async move {
                let key = part_key(object, upload, listed.number);
                let found = self.find(bucket, &key).await?;
                let part = found.as_ref().and_then(|found| part_in(&found.value)).map(|part| &part.part);
                let same = part.is_some_and(|part| is_listed(part, &listed));
                part.filter(|_| same).cloned().ok_or(Error::Invalid(Invalid::Part { number: listed.number }))
            })
            .buffered(CONCURRENT_READS)
            .try_collect()
            .await
    }

    /// Names the parts in the record, or on a manifest page where there are many.
    async fn name_parts(&self, key: &RegisterKey, parts: Vec<PartRef>) -> Result<(Body, Option<StagedData>)> {
        if parts.len() <= limits::PARTS_IN_RECORD_MAX {
            return Ok((Body::Parts(parts), None));
        }
        let page = record::encode_manifest(&parts);
        let size = page.len() as u64;
        let home = match self.inner.stripes.placement(key, size) {
            Placement::Inline => record::Home::Packed,
            Placement::Coded(home) => home,
        };
        let mut writer = self.inner.stripes.write(key, size, home).await?;
        writer.push(page).await?;
        let staged = writer.seal().await?.durable().await?;
        let parts = u16::try_from(parts.len()).expect("an upload has at most 10,000 parts");
        Ok((Body::Manifest { page: staged.data(), parts }, Some(staged)))
    }
}

/// A completion whose parts are all there.
struct Completion {
    upload: UploadId,
    content: Content,
    /// The data of its parts, which their own registers name until the upload is closed.
    kept: Vec<DataId>,
}

/// What an earlier Complete of this upload made, while it is still the current version.
fn completed(object: Option<&Object>, upload: UploadId) -> Option<WriteOutcome> {
    let (version, content) = object?.current()?;
    (content.upload == Some(upload)).then(|| WriteOutcome {
        etag: content.etag.clone(),
        modified_ms: version.modified_ms,
        checksums: content.checksums.clone(),
    })
}

fn is_listed(part: &PartRef, listed: &ListedPart) -> bool {
    let same_etag = part.etag() == listed.etag;
    let same_checksum = listed.checksum.as_ref().is_none_or(|listed| part.checksum.as_ref() == Some(listed));
    same_etag && same_checksum
}

/// Whether a checksum of the whole is the one that was announced. The number of parts behind a composite
/// one may be left out: AWS takes it both ways.
fn is_announced(computed: &Checksum, announced: &Checksum) -> bool {
    let Checksum { algorithm, composite_of, value } = announced;
    computed.algorithm == *algorithm
        && computed.value == *value
        && (composite_of.is_none() || computed.composite_of == *composite_of)
}

fn total_size(parts: &[PartRef], announced: Option<u64>) -> Result<u64> {
    let but_last = parts.split_last().map(|(_, rest)| rest).unwrap_or_default();
    if let Some(small) = but_last.iter().find(|part| part.size() < limits::PART_BYTES_MIN) {
        let (number, size) = (small.number, small.size());
        return Err(Invalid::PartTooSmall { number, size, etag: small.etag() }.into());
    }
    let total = parts.iter().map(PartRef::size).sum();
    if total > limits::OBJECT_BYTES_MAX {
        return Err(Invalid::TooLarge { size: total, max: limits::OBJECT_BYTES_MAX }.into());
    }
    match announced {
        Some(announced) if announced != total => {
            Err(Invalid::Argument { name: "x-amz-mp-object-size" }.into())
        }
        Some(_) | None => Ok(total),
    }
}

/// The ETag of a multipart object: the MD5 of its parts' MD5s, and their number (AWS, "Checking
/// object integrity").
fn multipart_etag(parts: &[PartRef]) -> String {
    let mut md5 = Md5::new();
    for part in parts {
        md5.update(&part.tag);
    }
    format!("{}-{}", hex::encode(md5.finish()), parts.len())
}

/// The checksum of the whole, from those of its parts.
fn object_checksum(
    parts: &[PartRef],
    wanted: Option<(ChecksumAlgorithm, ChecksumKind)>,
) -> Result<Vec<Checksum>> {
    let Some((algorithm, kind)) = wanted else { return Ok(Vec::new()) };
    let sums: Vec<(&Bytes, u64)> = parts
        .iter()
        .map(|part| {
            let sum = part.checksum.as_ref().filter(|sum| sum.algorithm == algorithm);
            let sum = sum.ok_or(Error::Invalid(Invalid::Part { number: part.number }))?;
            Ok((&sum.value, part.size()))
        })
        .collect::<Result<_>>()?;
    let count = u16::try_from(parts.len()).expect("an upload has at most 10,000 parts");
    let checksum = match kind {
        ChecksumKind::FullObject => {
            let joined = join_checksums(algorithm, sums.into_iter());
            let value = joined.ok_or(Error::Invalid(Invalid::Argument { name: "x-amz-checksum-type" }))?;
            Checksum { algorithm, composite_of: None, value }
        }
        ChecksumKind::Composite => {
            let all: Vec<u8> = sums.iter().flat_map(|(sum, _)| sum.iter().copied()).collect();
            let value = digest::checksum(algorithm, &all);
            Checksum { algorithm, composite_of: Some(count), value }
        }
    };
    Ok(vec![checksum])
}

impl From<MissingResource> for CompletionConflict {
    fn from(missing: MissingResource) -> Self {
        Self::Refused(missing.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u16, size: u64, byte: u8) -> PartRef {
        let data = record::DataRef {
            id: DataId::ZERO,
            set: None,
            size,
            data_shards: 1,
            parity_shards: 0,
            stripe_unit: 1,
            home: record::Home::File,
        };
        PartRef { number, tag: [byte; 16], checksum: None, data: Some(data) }
    }

    #[test]
    fn the_etag_is_the_md5_of_the_md5s() {
        // MD5 of 32 bytes: 16 x 0x00, 16 x 0xff.
        let etag = multipart_etag(&[part(1, 1, 0), part(2, 1, 0xff)]);
        let both: Vec<u8> = [[0_u8; 16], [0xff; 16]].concat();
        assert_eq!(etag, format!("{}-2", hex::encode(Md5::digest(&both))));
    }

    #[test]
    fn a_composite_checksum_is_announced_with_or_without_its_number_of_parts() {
        let checksum = |composite_of, byte| Checksum {
            algorithm: ChecksumAlgorithm::Crc32,
            composite_of,
            value: vec![byte; 4].into(),
        };
        let computed = checksum(Some(3), 7);
        assert!(is_announced(&computed, &checksum(Some(3), 7)));
        assert!(is_announced(&computed, &checksum(None, 7)));
        assert!(!is_announced(&computed, &checksum(Some(2), 7)));
        assert!(!is_announced(&computed, &checksum(None, 8)));
        assert!(!is_announced(&checksum(None, 7), &checksum(Some(3), 7)), "a whole one has no parts");
    }

    #[test]
    fn only_the_last_part_may_be_small() {
        let small = limits::PART_BYTES_MIN - 1;
        assert!(total_size(&[part(1, limits::PART_BYTES_MIN, 0), part(2, small, 0)], None).is_ok());
        let refused = total_size(&[part(1, small, 0), part(2, small, 0)], None);
        assert!(matches!(refused, Err(Error::Invalid(Invalid::PartTooSmall { number: 1, .. }))));
        assert!(total_size(&[part(1, 7, 0)], Some(8)).is_err());
    }
}
