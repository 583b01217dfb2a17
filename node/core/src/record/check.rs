//! Rules that a stored value keeps: every list and text within its limit, every number in its range, no state
//! that the format cannot tell from another.
//!
//! Encoding asks this before the write and decoding after the read, so what was stored can be
//! read, and what is read could have been stored. Two limits are counted in encoded bytes and
//! checked where those are at hand: the older versions' (`bytes/object.rs`) and the value's own.

use std::ops::RangeInclusive;

use crate::limits;
use crate::record::{
    Attributes, Body, Bucket, Changes, Checksum, ConditionalChange, Content, DataRef, Entries, KeptAnswer,
    Object, Part, PartRef, State, Tag, Upload, Value, Version, VersionKind,
};

/// A value has grown past a limit, or holds what no request can have asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} past its limit")]
pub struct OverLimit {
    /// Name of the field.
    pub field: &'static str,
}

/// The numbers that S3 gives to parts.
const PART_NUMBERS: RangeInclusive<u16> = 1..=limits::PARTS_MAX;

pub(super) fn require(holds: bool, field: &'static str) -> Result<(), OverLimit> {
    if holds { Ok(()) } else { Err(OverLimit { field }) }
}

impl Value {
    /// Whether the value keeps every limit but the two that count encoded bytes.
    pub(super) fn check(&self) -> Result<(), OverLimit> {
        let Self { changes: Changes { count: _, recent, conditional }, state } = self;
        require(recent.len() <= limits::CHANGE_IDS, "change ids")?;
        require(conditional.len() <= limits::CONDITIONAL_CHANGES_MAX, "conditional changes")?;
        for ConditionalChange { token: _, second: _, answer } in conditional {
            let KeptAnswer { etag, version: _ } = answer;
            let length = etag.as_ref().map_or(1, |etag| etag.len());
            require((1..=limits::ETAG_BYTES_MAX).contains(&length), "conditional etag")?;
        }
        match state {
            State::Tombstone => Ok(()),
            State::Object(Object { versions, uploads }) => {
                versions.iter().try_for_each(check_version)?;
                require(uploads.len() <= limits::OPEN_UPLOADS_MAX, "uploads")?;
                uploads.iter().try_for_each(|Upload { id: _, initiated_ms: _, attributes, checksum: _ }| {
                    attributes.as_ref().map_or(Ok(()), check_attributes)
                })
            }
            State::Part(Part { modified_ms: _, part }) => check_part(part),
            State::Bucket(Bucket { id: _, created_ms: _, location, phase: _, tags, entries }) => {
                require(location.len() <= limits::LOCATION_BYTES_MAX, "bucket location")?;
                require(tags.len() <= limits::BUCKET_TAGS_MAX, "bucket tags")?;
                tags.iter().try_for_each(check_tag)?;
                check_entries(entries)
            }
            State::UploadAttributes(attributes) => check_attributes(attributes),
        }
    }
}

impl DataRef {
    /// Whether it names bytes that can be laid out: a set, a size, a code and a stripe unit within limits.
    pub(super) fn check(&self) -> Result<(), OverLimit> {
        let Self { id: _, set, size, data_shards, parity_shards, stripe_unit, home: _ } = *self;
        let is_set = usize::try_from(set.0).is_ok_and(|set| set < limits::VOLUMES_MAX);
        require(is_set, "data set")?;
        require((1..=limits::DATA_BYTES_MAX).contains(&size), "data size")?;
        require(data_shards > 0, "data geometry")?;
        let volumes = usize::from(data_shards) + usize::from(parity_shards);
        require(volumes <= limits::SET_VOLUMES_MAX, "data geometry")?;
        require((1..=limits::STRIPE_UNIT_BYTES_MAX).contains(&stripe_unit), "stripe unit")
    }
}

/// Whether there are 1 to `count_max` parts, whose numbers ascend.
pub(super) fn check_parts(parts: &[PartRef], count_max: usize) -> Result<(), OverLimit> {
    require((1..=count_max).contains(&parts.len()), "parts")?;
    require(parts.is_sorted_by(|before, after| before.number < after.number), "part numbers")?;
    parts.iter().try_for_each(check_part)
}

fn check_version(version: &Version) -> Result<(), OverLimit> {
    let Version { id: _, modified_ms: _, kind } = version;
    match kind {
        VersionKind::DeleteMarker => Ok(()),
        VersionKind::Content(content) => check_content(content),
    }
}

fn check_content(content: &Content) -> Result<(), OverLimit> {
    let Content { size, etag, attributes, checksums, upload: _, body, entries } = content;
    require(*size <= limits::OBJECT_BYTES_MAX, "size")?;
    require(etag.len() <= limits::ETAG_BYTES_MAX, "etag")?;
    check_attributes(attributes)?;
    require(checksums.len() <= limits::CHECKSUMS_MAX, "checksums")?;
    checksums.iter().try_for_each(check_checksum)?;
    check_entries(entries)?;
    match body {
        Body::Inline { hash: _ } => Ok(()),
        Body::Data(data) => data.check(),
        Body::Parts(parts) => check_parts(parts, limits::PARTS_IN_RECORD_MAX),
        Body::Manifest { page, parts } => {
            require(PART_NUMBERS.contains(parts), "manifest parts")?;
            page.check()
        }
    }
}

fn check_attributes(attributes: &Attributes) -> Result<(), OverLimit> {
    let Attributes { pairs } = attributes;
    let mut bytes = 0_usize;
    for (name, value) in pairs {
        require(!name.is_empty(), "attribute name")?;
        bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
    }
    require(bytes <= limits::ATTRIBUTES_BYTES_MAX, "attributes")
}

pub(super) fn check_tag(tag: &Tag) -> Result<(), OverLimit> {
    let Tag { key, value } = tag;
    require((1..=limits::TAG_KEY_CHARS_MAX).contains(&key.chars().count()), "tag key")?;
    require(value.chars().count() <= limits::TAG_VALUE_CHARS_MAX, "tag value")
}

fn check_entries(entries: &Entries) -> Result<(), OverLimit> {
    let lengths = entries.iter().map(|entry| entry.bytes.len());
    require(lengths.len() <= limits::ENTRIES_MAX, "entries")?;
    require(lengths.clone().all(|length| length <= limits::ENTRY_BYTES_MAX), "entry")?;
    require(lengths.sum::<usize>() <= limits::ENTRIES_BYTES_MAX, "entries")
}

fn check_part(part: &PartRef) -> Result<(), OverLimit> {
    let PartRef { number, tag: _, checksum, data } = part;
    require(PART_NUMBERS.contains(number), "part number")?;
    checksum.as_ref().map_or(Ok(()), check_checksum)?;
    data.as_ref().map_or(Ok(()), DataRef::check)
}

fn check_checksum(checksum: &Checksum) -> Result<(), OverLimit> {
    let Checksum { algorithm, composite_of, value } = checksum;
    require(value.len() == algorithm.bytes(), "checksum")?;
    require(composite_of.is_none_or(|parts| PART_NUMBERS.contains(&parts)), "checksum parts")
}
