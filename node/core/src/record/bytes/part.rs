//! Parts and manifest pages.
//!
//! ```text
//! manifest := version u8 = 2, n u32 (1 to 10,000), n x part ref
//! part     := modified u64, part ref
//! part ref := number u16, tag 16, has checksum u8, (checksum), has data u8, (data ref)
//! checksum := algorithm u8, parts u16 (0 unless composite), as many bytes as the algorithm says
//! ```
//!
//! A manifest page is immutable and erasure-coded under a data id of its own.

use bytes::Bytes;

use super::data_ref::{put_data_ref, take_data_ref, take_optional};
use super::limits::{MANIFEST_BYTES_MAX, PART_REF_BYTES_MAX, PART_REF_BYTES_MIN};
use crate::codec::{DecodeError, Reader, Writer};
use crate::limits;
use crate::record::check::check_parts;
use crate::record::{Checksum, ChecksumAlgorithm, ChecksumBytes, Part, PartRef};

/// The version in which manifest pages are stored.
const MANIFEST_VERSION: u8 = 2;

const _: () = assert!(MANIFEST_BYTES_MAX < 5 << 18, "a manifest page is read whole: at most 1.25 MiB");

/// The stored form of a manifest page.
///
/// # Panics
/// Panics on no parts, on more than 10,000, or if the numbers do not ascend: the completion of an upload has
/// checked that.
pub fn encode_manifest(parts: &[PartRef]) -> Bytes {
    check_parts(parts, usize::from(limits::PARTS_MAX)).expect("the completion of the upload kept its limits");
    let mut writer = Writer::with_capacity(5 + parts.len() * PART_REF_BYTES_MAX);
    put_parts(writer.u8(MANIFEST_VERSION), parts);
    writer.finish()
}

/// The parts that a manifest page lists, in order.
///
/// # Errors
/// [`DecodeError`] on any bytes that [`encode_manifest`] does not give.
pub fn decode_manifest(page: Bytes) -> Result<Vec<PartRef>, DecodeError> {
    if page.len() > MANIFEST_BYTES_MAX {
        return Err(DecodeError::Invalid { field: "manifest" });
    }
    let mut reader = Reader::new(page);
    match reader.u8("manifest")? {
        MANIFEST_VERSION => {}
        version => return Err(DecodeError::Version { field: "manifest", version }),
    }
    let parts = take_parts(&mut reader, usize::from(limits::PARTS_MAX))?;
    reader.finish("manifest")?;
    check_parts(&parts, usize::from(limits::PARTS_MAX))?;
    Ok(parts)
}

pub(super) fn put_part(writer: &mut Writer, part: &Part) {
    let Part { modified_ms, part } = part;
    put_part_ref(writer.u64(*modified_ms), part);
}

pub(super) fn take_part(reader: &mut Reader) -> Result<Part, DecodeError> {
    Ok(Part { modified_ms: reader.u64("part modified")?, part: take_part_ref(reader)? })
}

pub(super) fn put_parts(writer: &mut Writer, parts: &[PartRef]) {
    writer.count(parts.len());
    for part in parts {
        put_part_ref(writer, part);
    }
}

pub(super) fn take_parts(reader: &mut Reader, count_max: usize) -> Result<Vec<PartRef>, DecodeError> {
    let count = reader.count(PART_REF_BYTES_MIN, "parts")?;
    if count > count_max {
        return Err(DecodeError::Invalid { field: "parts" });
    }
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        parts.push(take_part_ref(reader)?);
    }
    Ok(parts)
}

fn put_part_ref(writer: &mut Writer, part: &PartRef) {
    let PartRef { number, tag, checksum, data } = part;
    writer.u16(*number).raw(tag).u8(u8::from(checksum.is_some()));
    if let Some(checksum) = checksum {
        put_checksum(writer, checksum);
    }
    writer.u8(u8::from(data.is_some()));
    if let Some(data) = data {
        put_data_ref(writer, data);
    }
}

fn take_part_ref(reader: &mut Reader) -> Result<PartRef, DecodeError> {
    Ok(PartRef {
        number: reader.u16("part number")?,
        tag: reader.array("part tag")?,
        checksum: take_optional(reader, "part checksum", take_checksum)?,
        data: take_optional(reader, "part data", take_data_ref)?,
    })
}

pub(super) fn put_checksum(writer: &mut Writer, checksum: &Checksum) {
    let Checksum { algorithm, composite_of, value } = checksum;
    writer.u8(*algorithm as u8).u16(composite_of.unwrap_or(0)).raw(value);
}

pub(super) fn take_checksum(reader: &mut Reader) -> Result<Checksum, DecodeError> {
    let algorithm = algorithm_of(reader.u8("checksum algorithm")?)?;
    let composite_of = match reader.u16("checksum parts")? {
        0 => None,
        parts => Some(parts),
    };
    let value = ChecksumBytes::from_slice(&reader.bytes(algorithm.bytes(), "checksum")?);
    Ok(Checksum { algorithm, composite_of, value })
}

pub(super) fn algorithm_of(number: u8) -> Result<ChecksumAlgorithm, DecodeError> {
    let known = ChecksumAlgorithm::ALL.into_iter().find(|algorithm| *algorithm as u8 == number);
    known.ok_or(DecodeError::Invalid { field: "checksum algorithm" })
}
