//! GET and HEAD: the register, then the bytes or the range.

use std::ops::Range;

use bytes::Bytes;
use futures::{StreamExt, stream};

use sherd_core::record::{Body, PartRef};

use super::body::source::Source;
use super::condition::judge_read;
use super::{
    ByteStream, Error, Invalid, MissingResource, ObjectDescription, ObjectInfo, ObjectName, ObjectRead,
    Objects, PartDescription, ReadConditions, ReadRequest, Result, Span,
};
use crate::cluster::KeyRoute;
use crate::register::{Failure, QuorumRow, RowAnswer};

/// A version to read: what it is, and which of its bytes.
struct ResolvedVersion {
    info: ObjectInfo,
    range: Range<u64>,
    body: Body,
    parts: Option<Vec<PartRef>>,
}

impl Objects {
    /// Reads an object, or a range of it. The first bytes are there when it returns: until then a client
    /// can still be answered that buffers are short.
    ///
    /// # Errors
    /// Any of [`super::Error`]. Later errors come in the body.
    pub async fn get(&self, request: ReadRequest) -> Result<ObjectRead> {
        let ObjectRead { info, range, body } = self.open(request).await?;
        Ok(ObjectRead { info, range, body: begun(body).await? })
    }

    /// As [`Self::get`], but no byte is read before the body is polled: a copy must not hold what it
    /// read while it waits for room to write it, for another may wait for what it holds.
    ///
    /// # Errors
    /// Any of [`super::Error`]. Later errors come in the body.
    pub(super) async fn open(&self, request: ReadRequest) -> Result<ObjectRead> {
        let mut is_finished = false;
        loop {
            let (route, found) = self.inner.under.find_object(&request.name).await?;
            let found = found.ok_or(MissingResource::Key)?;
            let resolved = self.resolve(&route, &found, &request).await?;
            let ResolvedVersion { info, range, body, parts } = resolved;
            let source = match (body, parts) {
                (Body::Inline { .. }, _) if range.is_empty() => Source::Inline(Bytes::new()),
                (Body::Inline { .. }, _) => match self.inner.under.registers.inline(&route, &found).await {
                    RowAnswer::Given(bytes) => Source::Inline(bytes),
                    // Overwritten between the two reads: the new version is as good an answer.
                    RowAnswer::MovedOn => continue,
                    // Volumes that were not asked may hold a later row: a write finds it. Once is enough.
                    RowAnswer::Corrupt if !is_finished => {
                        Box::pin(self.inner.under.registers.finish_at(&route)).await?;
                        is_finished = true;
                        continue;
                    }
                    RowAnswer::Corrupt | RowAnswer::Late => return Err(Failure::Unavailable.into()),
                },
                (Body::Data(data), _) => Source::Data(data),
                (Body::Parts(_) | Body::Manifest { .. }, parts) => Source::Parts(parts.unwrap_or_default()),
            };
            let body = self.inner.bodies.read(route.key(), source, range.clone())?;
            return Ok(ObjectRead { info, range, body });
        }
    }

    /// Reads what an object is, and which bytes a GET would return.
    ///
    /// # Errors
    /// Any of [`super::Error`].
    pub async fn head(&self, request: ReadRequest) -> Result<(ObjectInfo, Range<u64>)> {
        let (route, found) = self.inner.under.find_object(&request.name).await?;
        let found = found.ok_or(MissingResource::Key)?;
        let ResolvedVersion { info, range, .. } = self.resolve(&route, &found, &request).await?;
        Ok((info, range))
    }

    /// Reads what an object is, and what it is made of.
    ///
    /// # Errors
    /// Any of [`super::Error`].
    pub async fn describe(&self, name: ObjectName) -> Result<ObjectDescription> {
        let (route, found) = self.inner.under.find_object(&name).await?;
        let found = found.ok_or(MissingResource::Key)?;
        let request = ReadRequest { name, span: Span::Whole, conditions: ReadConditions::default() };
        let ResolvedVersion { info, parts, .. } = self.resolve(&route, &found, &request).await?;
        let described = |part: PartRef| PartDescription {
            number: part.number,
            size: part.size(),
            checksum: part.checksum,
        };
        Ok(ObjectDescription { info, parts: parts.map(|parts| parts.into_iter().map(described).collect()) })
    }

    async fn resolve(
        &self,
        route: &KeyRoute,
        found: &QuorumRow,
        request: &ReadRequest,
    ) -> Result<ResolvedVersion> {
        let object = found.object().ok_or(MissingResource::Key)?;
        let (version, content) = object.current().ok_or(MissingResource::Key)?;
        judge_read(&request.conditions, content, version.modified_ms)?;
        let parts = self.inner.bodies.parts_of(route.key(), content).await?;
        let mut info = ObjectInfo::of(version, content);
        let range = range_of(request.span, content.size, parts.as_deref())?;
        if let (Span::Part { number }, Some(parts)) = (request.span, &parts) {
            let part = parts.iter().find(|part| part.number == number);
            info.checksums = part.and_then(|part| part.checksum.clone()).into_iter().collect();
        }
        Ok(ResolvedVersion { info, range, body: content.body.clone(), parts })
    }
}

/// A body whose first bytes are at hand.
async fn begun(mut body: ByteStream) -> Result<ByteStream> {
    match body.next().await {
        Some(first) => Ok(stream::iter([Ok(first?)]).chain(body).boxed()),
        None => Ok(body),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::body::source::part_of_size;

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
    fn a_part_is_the_range_of_its_bytes() {
        let parts = [part_of_size(1, 5), part_of_size(4, 3), part_of_size(9, 10)];
        assert_eq!(part_range(&parts, 4), Some(5..8));
        assert_eq!(part_range(&parts, 2), None);
    }
}
