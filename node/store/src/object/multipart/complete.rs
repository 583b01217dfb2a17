//! Complete: one compare-and-set that closes the upload and adds the version.

use futures::{StreamExt, TryStreamExt, stream};

use sherd_core::id::{DataId, ObjectKey, UploadId};
use sherd_core::limits;
use sherd_core::md5::Md5;
use sherd_core::record::{
    self, Attributes, Body, Checksum, ChecksumAlgorithm, ChecksumBytes, ChecksumKind, Checksums,
    ConditionalChange, Content, Entries, KeptAnswer, Object, ObjectTags, PartRef, State,
    Upload as OpenUpload, history,
};
use sherd_core::register::call::earlier_success;

use super::Uploads;
use super::attributes;
use super::close::close_upload;
use super::parts::{open_upload, part_in, part_route};
use crate::cluster::KeyRoute;
use crate::object::condition::{EarlierWrite, judge_write};
use crate::object::digest::{self, join_checksums};
use crate::object::error::{BodyError, Error, Invalid, MissingResource, Result};
use crate::object::request::{CompleteUpload, ListedPart, WriteConditions, WriteOutcome};
use crate::object::task::to_the_end;
use crate::register::{Proposal, QuorumRow, Writer};
use crate::stripe::{Placement, StagedData};

/// Part registers that are read at one time.
const CONCURRENT_READS: usize = 32;

/// A state of the register in which the completion is not made.
#[derive(Debug)]
enum CompletionConflict {
    /// An earlier try of this Complete was the one that did it.
    Done(WriteOutcome),
    /// So it was, and it is remembered although another version is the current one by now.
    Repeated(EarlierWrite),
    /// Refused: the upload cannot be completed.
    Refused(Error),
}

impl Uploads {
    /// Completes an upload. A repeated Complete of what is already the current version succeeds, where it
    /// lists the same parts.
    pub(in crate::object) async fn complete(&self, request: CompleteUpload) -> Result<WriteOutcome> {
        let CompleteUpload { name, upload, parts, checksum, checksum_kind, size, conditions } = request;
        let under = &self.registers.under;
        let route = under.route(&name).await?;
        let found = under.find(name.bucket.name(), &route).await?;
        let change = remembered(&conditions, upload, &parts);
        let opened = match open_upload(found.as_ref().and_then(QuorumRow::object), upload) {
            Ok(opened) => opened.clone(),
            Err(_) => {
                return self
                    .completed_earlier(name.bucket.name().clone(), route, found, upload, &parts, change)
                    .await;
            }
        };
        drop(found);
        judge_list(&parts, checksum.as_ref(), checksum_kind, opened.checksum)?;
        let (attributes, tags, stored) = match self.gather(name.bucket.name(), &route, &opened, &parts).await
        {
            Ok(gathered) => gathered,
            Err(error) => {
                // Another sending of this Complete, or an Abort, may have been faster, and closed what was
                // looked for.
                let found = under.find(name.bucket.name(), &route).await?;
                if open_upload(found.as_ref().and_then(QuorumRow::object), upload).is_ok() {
                    return Err(error);
                }
                return self
                    .completed_earlier(name.bucket.name().clone(), route, found, upload, &parts, change)
                    .await;
            }
        };
        let total = total_size(&stored, size)?;
        let computed = object_checksum(&stored, opened.checksum)?;
        judge_whole(checksum.as_ref(), computed.as_ref(), opened.checksum)?;
        let kept: Vec<DataId> = stored.iter().filter_map(|part| part.data.map(|data| data.id)).collect();
        let mut entries = Entries::default();
        tags.put_into(&mut entries);
        let content = Content {
            size: total,
            etag: multipart_etag(stored.iter().map(|part| part.tag)),
            attributes,
            checksums: computed.into_iter().collect(),
            upload: Some(upload),
            body: Body::Parts(Vec::new()),
            entries,
        };
        let (body, staged) = self.name_parts(&route, stored).await?;
        let completion =
            Completion { upload, content: Content { body, ..content }, kept, listed: parts, change };
        let uploads = self.clone();
        let close = async move {
            let written =
                uploads.close_with(name.bucket.name(), &route, completion, staged, conditions).await?;
            close_upload(&uploads.registers, name.bucket.name().clone(), route, upload);
            Ok(written)
        };
        to_the_end(self.tasks(), "upload completed", close).await
    }

    /// The content of the version of an open upload: the attributes and the tags that it began with, and the
    /// listed parts.
    async fn gather(
        &self,
        bucket: &ObjectKey,
        route: &KeyRoute,
        opened: &OpenUpload,
        listed: &[ListedPart],
    ) -> Result<(Attributes, ObjectTags, Vec<PartRef>)> {
        let attributes = attributes::of(&self.registers, bucket, route, opened).await?;
        let attributes = attributes.ok_or_else(|| Error::Internal {
            what: format!("open upload {} has lost its attributes", opened.id),
        })?;
        let (attributes, tags) = attributes::without_tags(attributes)
            .map_err(|error| Error::Internal { what: format!("tags of upload {}: {error}", opened.id) })?;
        Ok((attributes, tags, self.listed_parts(bucket, route, opened.id, listed).await?))
    }

    /// The answer to a Complete whose upload is closed, as a read found its key: what an earlier one made of
    /// it.
    async fn completed_earlier(
        &self,
        bucket: ObjectKey,
        route: KeyRoute,
        found: Option<QuorumRow>,
        upload: UploadId,
        parts: &[ListedPart],
        change: Option<ConditionalChange>,
    ) -> Result<WriteOutcome> {
        let earlier = found.as_ref().and_then(|found| earlier_completion(found, change.as_ref()?, parts));
        let earlier = earlier.map(|(earlier, checksums)| {
            let (etag, modified_ms) = (String::new(), self.now_ms());
            earlier.answer(WriteOutcome { etag, modified_ms, checksums })
        });
        let object = found.as_ref().and_then(QuorumRow::object);
        let written = if let Some(earlier) = earlier {
            earlier
        } else {
            let before = self.completed_before(&route, object, upload, parts).await?;
            before.ok_or(MissingResource::Upload)?
        };
        // The gateway that completed it may have gone before it closed the parts.
        close_upload(&self.registers, bucket, route, upload);
        Ok(written)
    }

    /// The result of an earlier Complete of this upload with the same list of parts, while it is still the
    /// current version.
    async fn completed_before(
        &self,
        route: &KeyRoute,
        object: Option<&Object>,
        upload: UploadId,
        listed: &[ListedPart],
    ) -> Result<Option<WriteOutcome>> {
        let Some((_, content)) = object.and_then(Object::current).filter(|(_, it)| it.upload == Some(upload))
        else {
            return Ok(None);
        };
        let parts = self.bodies.parts_of(route.key(), content).await?;
        Ok(completed(object, upload, listed, parts.as_deref()))
    }

    async fn close_with(
        &self,
        bucket: &ObjectKey,
        route: &KeyRoute,
        completion: Completion,
        staged: Option<StagedData>,
        conditions: WriteConditions,
    ) -> Result<WriteOutcome> {
        let Completion { upload, content, kept, listed, change } = completion;
        let modified_ms = self.now_ms();
        let written =
            WriteOutcome { etag: content.etag.clone(), modified_ms, checksums: content.checksums.clone() };
        let under = &self.registers.under;
        let ticket = under.registers.begin_at(route);
        let computed = content.etag.clone();
        let decide = move |state: Option<&State>| {
            let object = state.and_then(State::object);
            if let Err(missing) = open_upload(object, upload) {
                return Err(completed(object, upload, &listed, None)
                    .map_or(CompletionConflict::Refused(missing), CompletionConflict::Done));
            }
            judge_write(&conditions, object).map_err(CompletionConflict::Refused)?;
            let mut object = history::put(object, modified_ms, content.clone()).object;
            object.uploads.retain(|open| open.id != upload);
            Ok(Proposal { carried: kept.clone(), ..Proposal::of(object.into()) })
        };
        let repeated = move |kept: &KeptAnswer, state: Option<&State>| {
            CompletionConflict::Repeated(EarlierWrite::of(kept, &computed, state.and_then(State::object)))
        };
        let writer = Writer::new(decide).sent_by(change, repeated).naming(staged);
        match under.change_or(bucket, route, ticket, writer).await? {
            Ok(()) => Ok(written),
            Err(CompletionConflict::Done(written)) => Ok(written),
            Err(CompletionConflict::Repeated(earlier)) => Ok(earlier.answer(written)),
            Err(CompletionConflict::Refused(error)) => Err(error),
        }
    }

    /// The parts that Complete lists, each as it is stored, in the listed order.
    async fn listed_parts(
        &self,
        bucket: &ObjectKey,
        object: &KeyRoute,
        upload: UploadId,
        listed: &[ListedPart],
    ) -> Result<Vec<PartRef>> {
        stream::iter(listed.iter().cloned())
            .map(|listed| async move {
                let part = part_route(object, upload, listed.number);
                let found = self.registers.under.find(bucket, &part).await?;
                let part = found.as_ref().and_then(|found| part_in(&found.value)).map(|part| &part.part);
                let same = part.is_some_and(|part| is_listed(part, &listed));
                let ListedPart { number, etag, .. } = listed;
                part.filter(|_| same).cloned().ok_or(Error::Invalid(Invalid::Part { number, etag }))
            })
            .buffered(CONCURRENT_READS)
            .try_collect()
            .await
    }

    /// Names the parts in the record, or on a manifest page where there are many.
    async fn name_parts(&self, route: &KeyRoute, parts: Vec<PartRef>) -> Result<(Body, Option<StagedData>)> {
        if parts.len() <= limits::PARTS_IN_RECORD_MAX {
            return Ok((Body::Parts(parts), None));
        }
        let page = record::encode_manifest(&parts);
        let size = page.len() as u64;
        let stripes = &self.bodies.stripes;
        let home = match stripes.placement(&route.set, size) {
            Placement::Inline => record::Home::Packed,
            Placement::Coded(home) => home,
        };
        let mut writer = stripes.write(route, size, home).await?;
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
    /// Parts of the upload, as the client listed them.
    listed: Vec<ListedPart>,
    /// How it is recognised when its client sends it again.
    change: Option<ConditionalChange>,
}

/// A completion as it is remembered: its etag is made of those that it lists.
fn remembered(
    conditions: &WriteConditions,
    upload: UploadId,
    parts: &[ListedPart],
) -> Option<ConditionalChange> {
    let numbers: Vec<[u8; 2]> = parts.iter().map(|part| part.number.to_le_bytes()).collect();
    let mut wanted: Vec<&[u8]> = vec![&upload.0[..]];
    wanted.extend(parts.iter().zip(&numbers).flat_map(|(part, number)| [&number[..], part.etag.as_bytes()]));
    conditions.change(KeptAnswer::default(), &wanted)
}

/// The result of an earlier sending of a Complete, and its checksums while it is the current version, by a
/// read that found the upload closed.
fn earlier_completion(
    found: &QuorumRow,
    change: &ConditionalChange,
    listed: &[ListedPart],
) -> Option<(EarlierWrite, Checksums)> {
    let made = earlier_success(Some(change.token), &found.value.changes.conditional, &[])?;
    let earlier = EarlierWrite::of(&made.answer, &listed_etag(listed)?, found.object());
    let current = found.object().and_then(Object::current);
    let checksums = current.filter(|(_, content)| content.etag == earlier.etag());
    Some((earlier, checksums.map(|(_, content)| content.checksums.clone()).unwrap_or_default()))
}

/// The result of an earlier Complete of this upload with the same list of parts, while it is still the
/// current version. Without the object's `parts` at hand the list is compared by the entity tag, which is
/// made of theirs.
fn completed(
    object: Option<&Object>,
    upload: UploadId,
    listed: &[ListedPart],
    parts: Option<&[PartRef]>,
) -> Option<WriteOutcome> {
    let (version, content) = object?.current()?;
    let parts = match &content.body {
        Body::Parts(parts) => Some(parts.as_slice()),
        Body::Manifest { .. } | Body::Inline { .. } | Body::Data(_) => parts,
    };
    let is_same = if let Some(parts) = parts {
        parts.len() == listed.len()
            && parts
                .iter()
                .zip(listed)
                .all(|(part, listed)| part.number == listed.number && is_listed(part, listed))
    } else {
        listed_etag(listed).is_some_and(|etag| etag == content.etag)
    };
    (content.upload == Some(upload) && is_same).then(|| WriteOutcome {
        etag: content.etag.clone(),
        modified_ms: version.modified_ms,
        checksums: content.checksums.clone(),
    })
}

/// The entity tag of the object that is made of these parts; `None` where a listed tag cannot be a part's.
fn listed_etag(listed: &[ListedPart]) -> Option<String> {
    let tags: Option<Vec<[u8; 16]>> = listed.iter().map(|listed| tag_of(&listed.etag)).collect();
    tags.map(|tags| multipart_etag(tags.into_iter()))
}

/// The sixteen bytes that the entity tag of a part shows.
fn tag_of(etag: &str) -> Option<[u8; 16]> {
    let digits = etag.strip_suffix("-1").unwrap_or(etag);
    let mut tag = [0; 16];
    hex::decode_to_slice(digits, &mut tag).ok().map(|()| tag)
}

/// Judges what Complete says before any part is read: the order of its parts, the kind and the algorithm of
/// the checksum that it names, and the parts' checksums where the object's is made of them.
fn judge_list(
    listed: &[ListedPart],
    announced: Option<&Checksum>,
    kind: Option<ChecksumKind>,
    declared: Option<(ChecksumAlgorithm, ChecksumKind)>,
) -> Result<()> {
    if listed.is_empty() || !listed.is_sorted_by(|one, next| one.number < next.number) {
        return Err(Invalid::PartOrder.into());
    }
    let upload_kind = declared.map(|(_, kind)| kind);
    // Where the upload names no algorithm, its object gets the default one over all bytes.
    if kind.is_some_and(|kind| kind != upload_kind.unwrap_or(ChecksumKind::FullObject)) {
        return Err(Invalid::ChecksumKind { upload: upload_kind }.into());
    }
    let unnamed = announced.map(|whole| whole.algorithm).filter(|_| declared.is_none());
    if let Some(algorithm) = unnamed.filter(|algorithm| digest::has_to_be_named(*algorithm)) {
        return Err(Invalid::ChecksumAlgorithm { expected: None, actual: Some(algorithm) }.into());
    }
    let Some((algorithm, ChecksumKind::Composite)) = declared else { return Ok(()) };
    let sums = listed.iter().map(|listed| {
        let sum = listed.checksum.as_ref().filter(|sum| sum.algorithm == algorithm);
        let number = listed.number;
        sum.map(|sum| &sum.value).ok_or(Error::Invalid(Invalid::PartChecksumMissing { number, algorithm }))
    });
    let computed = composite(algorithm, sums)?;
    judge_whole(announced, Some(&computed), declared)
}

/// Judges the checksum of the whole that Complete announces. Where the upload names no algorithm, as on AWS,
/// only the default one is looked at: no other was computed.
fn judge_whole(
    announced: Option<&Checksum>,
    computed: Option<&Checksum>,
    declared: Option<(ChecksumAlgorithm, ChecksumKind)>,
) -> Result<()> {
    let Some(announced) = announced else { return Ok(()) };
    let algorithm = declared.map_or(digest::DEFAULT_ALGORITHM, |(algorithm, _)| algorithm);
    if declared.is_none() && announced.algorithm != algorithm {
        return Ok(());
    }
    match computed {
        Some(computed) if is_announced(computed, announced) => Ok(()),
        Some(_) | None => Err(BodyError::WholeChecksumMismatch(algorithm).into()),
    }
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
            Err(Invalid::ObjectSize { announced, computed: total }.into())
        }
        Some(_) | None => Ok(total),
    }
}

/// The ETag of a multipart object: the MD5 of its parts' MD5s, and their number (AWS, "Checking
/// object integrity").
fn multipart_etag(tags: impl ExactSizeIterator<Item = [u8; 16]>) -> String {
    let count = tags.len();
    let mut md5 = Md5::new();
    for tag in tags {
        md5.update(&tag);
    }
    format!("{}-{count}", hex::encode(md5.finish()))
}

/// The checksum of the whole, from those of its parts; `None` where the upload names no algorithm and a part
/// was stored before every part had the default one.
fn object_checksum(
    parts: &[PartRef],
    declared: Option<(ChecksumAlgorithm, ChecksumKind)>,
) -> Result<Option<Checksum>> {
    let (algorithm, kind) = declared.unwrap_or((digest::DEFAULT_ALGORITHM, ChecksumKind::FullObject));
    let sum_of = |part: &PartRef| part.checksum.clone().filter(|sum| sum.algorithm == algorithm);
    let Some(sums) = parts.iter().map(sum_of).collect::<Option<Vec<Checksum>>>() else {
        let bare = parts.iter().find(|part| sum_of(part).is_none()).filter(|_| declared.is_some());
        return bare
            .map_or(Ok(None), |part| Err(Invalid::Part { number: part.number, etag: part.etag() }.into()));
    };
    let values = sums.iter().map(|sum| &sum.value);
    match kind {
        ChecksumKind::FullObject => {
            let joined = join_checksums(algorithm, values.zip(parts.iter().map(PartRef::size)));
            let value = joined.ok_or(Error::Invalid(Invalid::Argument { name: "x-amz-checksum-type" }))?;
            Ok(Some(Checksum { algorithm, composite_of: None, value }))
        }
        ChecksumKind::Composite => composite(algorithm, values.map(Ok)).map(Some),
    }
}

/// The checksum of parts' checksums, in order.
fn composite<'a>(
    algorithm: ChecksumAlgorithm,
    parts: impl Iterator<Item = Result<&'a ChecksumBytes>>,
) -> Result<Checksum> {
    let mut count = 0_u16;
    let mut all = Vec::new();
    for part in parts {
        all.extend_from_slice(part?);
        count = count.saturating_add(1);
    }
    Ok(Checksum { algorithm, composite_of: Some(count), value: digest::checksum(algorithm, &all) })
}

impl From<MissingResource> for CompletionConflict {
    fn from(missing: MissingResource) -> Self {
        Self::Refused(missing.into())
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::id::SetId;

    use super::*;

    fn part(number: u16, size: u64, byte: u8) -> PartRef {
        let data = record::DataRef {
            id: DataId::ZERO,
            set: SetId(0),
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
        let etag = multipart_etag([[0; 16], [0xff; 16]].into_iter());
        let both: Vec<u8> = [[0_u8; 16], [0xff; 16]].concat();
        assert_eq!(etag, format!("{}-2", hex::encode(Md5::digest(&both))));
    }

    /// A list on a manifest page is not at hand where the compare-and-set decides.
    #[test]
    fn a_repeated_list_is_known_by_its_entity_tag() {
        let upload = UploadId([7; 16]);
        let tags = [[1; 16], [2; 16]];
        let object = |body| {
            let content = Content {
                size: 2,
                etag: multipart_etag(tags.into_iter()),
                attributes: record::Attributes::default(),
                checksums: record::Checksums::new(),
                upload: Some(upload),
                body,
                entries: Entries::default(),
            };
            history::put(None, 1, content).object
        };
        let page = part(1, 1, 0).data.expect("a part has data");
        let listed = |tags: &[[u8; 16]]| {
            let listed = (1..).zip(tags).map(|(number, tag)| ListedPart {
                number,
                etag: hex::encode(tag),
                checksum: None,
            });
            listed.collect::<Vec<_>>()
        };
        let parts = vec![part(1, 1, 1), part(2, 1, 2)];
        for body in [Body::Manifest { page, parts: 2 }, Body::Parts(parts)] {
            let object = object(body);
            let again = |listed: &[ListedPart]| completed(Some(&object), upload, listed, None).is_some();
            assert!(again(&listed(&tags)));
            assert!(!again(&listed(&tags[..1])));
            assert!(!again(&listed(&[[1; 16], [3; 16]])));
            assert!(!again(&[]));
            assert!(completed(Some(&object), UploadId([8; 16]), &listed(&tags), None).is_none());
        }
    }

    #[test]
    fn a_composite_checksum_is_announced_with_or_without_its_number_of_parts() {
        let checksum = |composite_of, byte| Checksum {
            algorithm: ChecksumAlgorithm::Crc32,
            composite_of,
            value: ChecksumBytes::from_slice(&[byte; 4]),
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
