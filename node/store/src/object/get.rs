//! GET and HEAD: the register, then the bytes or the range.

use std::ops::Range;

use bytes::Bytes;
use futures::{StreamExt, stream};

use sherd_core::id::RegisterKey;
use sherd_core::record::{self, Body, Checksum, Content, DataRef, PartRef, Version};

use super::condition::judge_read;
use super::{
    ByteStream, Error, Invalid, MissingResource, ObjectDescription, ObjectInfo, ObjectName, ObjectRead,
    Objects, PartDescription, ReadConditions, ReadRequest, Result, Span, UnavailableReason,
};
use crate::register::{Failure, QuorumRow, RowAnswer};
use crate::stripe;

/// Where the bytes of one version are, in order.
#[derive(Debug, Clone)]
enum Source {
    Inline(Bytes),
    Data(DataRef),
    Parts(Vec<PartRef>),
}

/// A version to read: what it is, and which of its bytes.
struct ResolvedVersion {
    info: ObjectInfo,
    range: Range<u64>,
    body: Body,
    parts: Option<Vec<PartRef>>,
}

impl Objects {
    /// Reads an object, or a range of it. The first bytes are there when it returns: until then a client
    /// can be told that there are no buffers for it.
    ///
    /// # Errors
    /// Any of [`super::Error`]. Later errors come in the body.
    pub async fn get(&self, request: ReadRequest) -> Result<ObjectRead> {
        let ObjectRead { info, range, body } = self.open(request).await?;
        Ok(ObjectRead { info, range, body: begun(body).await? })
    }

    /// As [`Self::get`], but no byte is read before somebody asks for it: a copy must not hold what it
    /// read while it waits for room to write it, for another may wait for what it holds.
    ///
    /// # Errors
    /// Any of [`super::Error`]. Later errors come in the body.
    pub(super) async fn open(&self, request: ReadRequest) -> Result<ObjectRead> {
        let mut is_finished = false;
        loop {
            let (key, found) = self.find_object(&request.name).await?;
            let found = found.ok_or(MissingResource::Key)?;
            let resolved = self.resolve(&key, &found, &request).await?;
            let ResolvedVersion { info, range, body, parts } = resolved;
            let source = match (body, parts) {
                (Body::Inline { .. }, _) if range.is_empty() => Source::Inline(Bytes::new()),
                (Body::Inline { .. }, _) => match self.inner.registers.inline(&key, &found).await {
                    RowAnswer::Given(bytes) => Source::Inline(bytes),
                    // Overwritten between the two reads: the new version is as good an answer.
                    RowAnswer::MovedOn => continue,
                    // Volumes that were not asked may hold a later row: a write finds it. Once is enough.
                    RowAnswer::Corrupt if !is_finished => {
                        self.inner.registers.finish(&key).await?;
                        is_finished = true;
                        continue;
                    }
                    RowAnswer::Corrupt | RowAnswer::Late => return Err(Failure::Unavailable.into()),
                },
                (Body::Data(data), _) => Source::Data(data),
                (Body::Parts(_) | Body::Manifest { .. }, parts) => Source::Parts(parts.unwrap_or_default()),
            };
            let body = self.body(&key, source, range.clone())?;
            return Ok(ObjectRead { info, range, body });
        }
    }

    /// Reads what an object is, and which bytes a GET would return.
    ///
    /// # Errors
    /// Any of [`super::Error`].
    pub async fn head(&self, request: ReadRequest) -> Result<(ObjectInfo, Range<u64>)> {
        let (key, found) = self.find_object(&request.name).await?;
        let found = found.ok_or(MissingResource::Key)?;
        let ResolvedVersion { info, range, .. } = self.resolve(&key, &found, &request).await?;
        Ok((info, range))
    }

    /// Reads what an object is, and what it is made of.
    ///
    /// # Errors
    /// Any of [`super::Error`].
    pub async fn describe(&self, name: ObjectName) -> Result<ObjectDescription> {
        let (key, found) = self.find_object(&name).await?;
        let found = found.ok_or(MissingResource::Key)?;
        let request = ReadRequest { name, span: Span::Whole, conditions: ReadConditions::default() };
        let ResolvedVersion { info, parts, .. } = self.resolve(&key, &found, &request).await?;
        let described = |part: PartRef| PartDescription {
            number: part.number,
            size: part.size(),
            checksum: part.checksum,
        };
        Ok(ObjectDescription { info, parts: parts.map(|parts| parts.into_iter().map(described).collect()) })
    }

    async fn resolve(
        &self,
        key: &RegisterKey,
        found: &QuorumRow,
        request: &ReadRequest,
    ) -> Result<ResolvedVersion> {
        let object = found.object().ok_or(MissingResource::Key)?;
        let (version, content) = object.current().ok_or(MissingResource::Key)?;
        judge_read(&request.conditions, content, version.modified_ms)?;
        let parts = self.parts_of(key, content).await?;
        let mut info = info_of(version, content);
        let range = range_of(request.span, content.size, parts.as_deref())?;
        if let (Span::Part { number }, Some(parts)) = (request.span, &parts) {
            let part = parts.iter().find(|part| part.number == number);
            info.checksums = part.and_then(|part| part.checksum.clone()).into_iter().collect();
        }
        Ok(ResolvedVersion { info, range, body: content.body.clone(), parts })
    }

    /// The parts of a multipart object; `None` for any other.
    pub(super) async fn parts_of(
        &self,
        key: &RegisterKey,
        content: &Content,
    ) -> Result<Option<Vec<PartRef>>> {
        match &content.body {
            Body::Inline { .. } | Body::Data(_) => Ok(None),
            Body::Parts(parts) => Ok(Some(parts.clone())),
            Body::Manifest { page, .. } => self.manifest(key, *page).await.map(Some),
        }
    }

    /// Reads a manifest page.
    pub(super) async fn manifest(&self, key: &RegisterKey, page: DataRef) -> Result<Vec<PartRef>> {
        let mut body = stripe::read(&self.inner.stripes, key, page, 0..page.size);
        let mut bytes = Vec::new();
        while let Some(next) = body.next().await {
            bytes.extend_from_slice(&next?);
        }
        record::decode_manifest(bytes.into())
            .map_err(|error| Error::Internal { what: format!("manifest page {}: {error}", page.id) })
    }

    /// Streams a range of a version's bytes.
    fn body(&self, key: &RegisterKey, source: Source, range: Range<u64>) -> Result<ByteStream> {
        if range.is_empty() {
            return Ok(stream::empty().boxed());
        }
        Ok(match source {
            Source::Inline(bytes) => {
                let out_of_bounds =
                    || Error::Internal { what: "inline bytes are shorter than the object".to_owned() };
                let start = usize::try_from(range.start).map_err(|_| out_of_bounds())?;
                let end = usize::try_from(range.end).map_err(|_| out_of_bounds())?;
                if end > bytes.len() {
                    return Err(out_of_bounds());
                }
                stream::once(async move { Ok(bytes.slice(start..end)) }).boxed()
            }
            Source::Data(data) => stripe::read(&self.inner.stripes, key, data, range)
                .map(|bytes| bytes.map_err(Error::from))
                .boxed(),
            Source::Parts(parts) => {
                let stripes = self.inner.stripes.clone();
                let key = key.clone();
                let pieces = pieces_of(&parts, range);
                // All of them from the start: the last part may be read hours after the first.
                let pinned = stripes.pin(&key, pieces.iter().map(|(data, _)| data));
                stream::iter(pieces)
                    .flat_map(move |(data, range)| {
                        let _held = &pinned;
                        stripe::read(&stripes, &key, data, range)
                    })
                    .map(|bytes| bytes.map_err(Error::from))
                    .boxed()
            }
        })
    }
}

/// A body whose first bytes are at hand.
async fn begun(mut body: ByteStream) -> Result<ByteStream> {
    match body.next().await {
        Some(first) => Ok(stream::iter([Ok(first?)]).chain(body).boxed()),
        None => Ok(body),
    }
}

/// What S3 shows of a version.
pub(super) fn info_of(version: &Version, content: &Content) -> ObjectInfo {
    ObjectInfo {
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
    }
}

/// The bytes that a span names in an object of `size`.
fn range_of(span: Span, size: u64, parts: Option<&[PartRef]>) -> Result<Range<u64>> {
    let unsatisfiable = Error::Invalid(Invalid::Range { size });
    match span {
        Span::Whole => Ok(0..size),
        Span::From { first, last } if first < size => {
            Ok(first..last.map_or(size, |last| last.saturating_add(1).min(size)))
        }
        Span::Suffix { length } if length > 0 && size > 0 => Ok(size.saturating_sub(length)..size),
        Span::From { .. } | Span::Suffix { .. } => Err(unsatisfiable),
        Span::Part { number } => match parts {
            None if number == 1 => Ok(0..size),
            None => Err(Invalid::PartNumber.into()),
            Some(parts) => part_range(parts, number).ok_or(Error::Invalid(Invalid::PartNumber)),
        },
    }
}

fn part_range(parts: &[PartRef], number: u16) -> Option<Range<u64>> {
    let mut start = 0_u64;
    for part in parts {
        if part.number == number {
            return Some(start..start + part.size());
        }
        start += part.size();
    }
    None
}

/// The pieces of parts that cover a range of the object, in order.
fn pieces_of(parts: &[PartRef], range: Range<u64>) -> Vec<(DataRef, Range<u64>)> {
    let mut start = 0_u64;
    let mut pieces = Vec::new();
    for part in parts {
        let end = start + part.size();
        let (from, to) = (range.start.max(start), range.end.min(end));
        if let Some(data) = part.data.filter(|_| from < to) {
            pieces.push((data, from - start..to - start));
        }
        start = end;
    }
    pieces
}

impl From<stripe::ReadError> for Error {
    fn from(error: stripe::ReadError) -> Self {
        match error {
            stripe::ReadError::Shards => UnavailableReason::Data.into(),
            stripe::ReadError::Overloaded => UnavailableReason::Overloaded.into(),
            stripe::ReadError::Geometry => {
                Self::Internal { what: "a version names an unknown code".to_owned() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u16, size: u64) -> PartRef {
        let data = DataRef {
            id: sherd_core::id::DataId::ZERO,
            set: None,
            size,
            data_shards: 1,
            parity_shards: 0,
            stripe_unit: 1,
            home: record::Home::File,
        };
        PartRef { number, tag: [0; 16], checksum: None, data: Some(data) }
    }

    #[test]
    fn ranges_follow_the_http_rules() {
        let range = |span| range_of(span, 10, None).ok();
        assert_eq!(range(Span::From { first: 2, last: Some(4) }), Some(2..5));
        assert_eq!(range(Span::From { first: 9, last: Some(u64::MAX) }), Some(9..10));
        assert_eq!(range(Span::From { first: 10, last: None }), None);
        assert_eq!(range(Span::Suffix { length: 3 }), Some(7..10));
        assert_eq!(range(Span::Suffix { length: 30 }), Some(0..10));
        assert_eq!(range(Span::Suffix { length: 0 }), None);
        assert_eq!(range(Span::Part { number: 1 }), Some(0..10));
        assert_eq!(range(Span::Part { number: 2 }), None);
        assert!(range_of(Span::Suffix { length: 1 }, 0, None).is_err());
    }

    #[test]
    fn a_range_over_parts_takes_the_right_piece_of_each() {
        let parts = [part(1, 5), part(4, 3), part(9, 10)];
        let pieces: Vec<Range<u64>> = pieces_of(&parts, 4..9).into_iter().map(|(_, range)| range).collect();
        assert_eq!(pieces, [4..5, 0..3, 0..1]);
        assert_eq!(part_range(&parts, 4), Some(5..8));
        assert_eq!(part_range(&parts, 2), None);
    }
}
