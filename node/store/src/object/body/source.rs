//! A body on its way out: verified bytes of a version, from its row or its stripes.

use std::ops::Range;

use bytes::Bytes;
use futures::{StreamExt, stream};

use sherd_core::id::RegisterKey;
use sherd_core::record::{self, Body, Content, DataRef, PartRef};

use super::Bodies;
use crate::object::error::{Error, Result};
use crate::object::request::ByteStream;
use crate::observe::trace;
use crate::stripe;

/// Where the bytes of one version are, in order.
#[derive(Debug, Clone)]
pub(in crate::object) enum Source {
    /// In the row.
    Inline(Bytes),
    /// Under one data id.
    Data(DataRef),
    /// Part by part.
    Parts(Vec<PartRef>),
}

impl Bodies {
    /// The parts of a multipart object; `None` for any other.
    pub(in crate::object) async fn parts_of(
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
    pub(in crate::object) async fn manifest(&self, key: &RegisterKey, page: DataRef) -> Result<Vec<PartRef>> {
        let mut body = stripe::read(&self.stripes, key, page, 0..page.size);
        let mut bytes = Vec::new();
        while let Some(next) = body.next().await {
            bytes.extend_from_slice(&next?);
        }
        record::decode_manifest(bytes.into())
            .map_err(|error| Error::Internal { what: format!("manifest page {}: {error}", page.id) })
    }

    /// Streams a range of a version's bytes.
    pub(in crate::object) fn read(
        &self,
        key: &RegisterKey,
        source: Source,
        range: Range<u64>,
    ) -> Result<ByteStream> {
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
            Source::Data(data) => {
                stripe::read(&self.stripes, key, data, range).map(|bytes| bytes.map_err(Error::from)).boxed()
            }
            Source::Parts(parts) => {
                let stripes = self.stripes.clone();
                let key = key.clone();
                let pieces = pieces_of(&parts, range);
                // All of them from the start: the last part may be read hours after the first.
                let pinned = stripes.pin(pieces.iter().map(|(data, _)| data));
                let request = trace::current();
                stream::iter(pieces)
                    .flat_map(move |(data, range)| {
                        let _held = &pinned;
                        stripe::read_for(request.clone(), &stripes, &key, data, range)
                    })
                    .map(|bytes| bytes.map_err(Error::from))
                    .boxed()
            }
        })
    }
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

/// A part of this number and size, of which a test reads nothing else.
#[cfg(test)]
pub(in crate::object) fn part_of_size(number: u16, size: u64) -> PartRef {
    let data = DataRef {
        id: sherd_core::id::DataId::ZERO,
        set: sherd_core::id::SetId(0),
        size,
        data_shards: 1,
        parity_shards: 0,
        stripe_unit: 1,
        home: record::Home::File,
    };
    PartRef { number, tag: [0; 16], checksum: None, data: Some(data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_over_parts_takes_the_right_piece_of_each() {
        let parts = [part_of_size(1, 5), part_of_size(4, 3), part_of_size(9, 10)];
        let pieces: Vec<Range<u64>> = pieces_of(&parts, 4..9).into_iter().map(|(_, range)| range).collect();
        assert_eq!(pieces, [4..5, 0..3, 0..1]);
    }
}
