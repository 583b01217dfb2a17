//! Every byte of the log on disk: segment headers, frames, records. All numbers little endian.
//!
//! ```text
//! log/N.seg   0      segment header, 4096 bytes
//!             4096   frame, frame, ... each starts on a 4 KiB boundary and is padded to one
//! frame       header 48 bytes, records one behind the other, zeros up to the boundary
//! record      header 20 bytes, subject, one blake3 hash per 64 KiB of payload, payload
//! ```
//!
//! Checksums are seeded with the volume's id and the segment's number (a frame's with its offset
//! too), so that neither a payload nor what a recycled file held before passes for a frame. Media
//! may tear a write anywhere and rot any byte: nothing is trusted before its checksum was. Every
//! `decode` is a pure function of bytes; golden bytes in `tests/format_golden.rs` pin them.

mod record;

pub use record::{
    Flags, Hint, Kind, Phase, RecordHeader, Subject, block_count, block_hashes, decode_hints, encode_hints,
    hash_blocks, verify_block,
};

use bytes::{BufMut, Bytes};

use crate::limits::{RELEASE_ENTRY_BYTES_MAX, SUBJECT_BYTES_MAX};
use sherd_core::codec::{DecodeError, Reader, Writer};
use sherd_core::id::{Ballot, Sequence, Timestamp, VolumeId};
use sherd_core::limits;

/// The version of the segment format, the only one that is read. A kind of record that is new needs a new
/// version: a reader that does not know the kind would take its record for rot. So does a new version of what
/// a record holds: a reader that does not know it would drop MRF entries and notes of replaced data as
/// undecodable; and a new flag of records, which it takes for rot.
pub const VERSION: u16 = 5;
/// The flag of [`SegmentHeader::is_synced`].
const SYNCED: u16 = 1;
/// The flag of [`SegmentHeader::is_longer`].
const LONGER: u16 = 2;
/// Bytes of a segment header; the first frame follows.
pub const SEGMENT_HEADER_BYTES: usize = 4096;
/// Bytes of a frame header.
pub const FRAME_HEADER_BYTES: usize = 48;
/// Bytes of a record header, before subject, hashes and payload.
pub const RECORD_HEADER_BYTES: usize = 20;

const SEGMENT_MAGIC: [u8; 8] = *b"SHERDSEG";
const FRAME_MAGIC: [u8; 8] = *b"SHERDFRM";
/// Bytes of a segment header in use, before its checksum.
const SEGMENT_FIELDS_BYTES: usize = 8 + 4 + 16 + 8 + 8 + 8 + 8 + 16 + 16 + 8;
const FRAME_FIELDS_BYTES: usize = FRAME_HEADER_BYTES - 4;

const _: () = {
    assert!(SEGMENT_FIELDS_BYTES + 4 <= SEGMENT_HEADER_BYTES, "the header's fields fit its page");
    assert!(SEGMENT_HEADER_BYTES.is_multiple_of(limits::FRAME_ALIGN), "the first frame is aligned");
    assert!(SUBJECT_BYTES_MAX <= u16::MAX as usize, "a subject's length is a u16");
    assert!(limits::KEY_BYTES_MAX + 512 < SUBJECT_BYTES_MAX, "the longest key's row has a subject");
    assert!(
        limits::KEY_BYTES_MAX + 512 + limits::RELEASE_DATA_MAX * 32 <= RELEASE_ENTRY_BYTES_MAX,
        "the longest key's note has room for all its data"
    );
};

/// Start value for the checksums of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// The seed of a segment.
    pub fn of(volume: VolumeId, segment: u64) -> Self {
        Self(crc32c::crc32c_append(crc32c::crc32c(&volume.0), &segment.to_le_bytes()))
    }

    /// The checksum of several buffers as one.
    pub fn checksum(self, buffers: &[&[u8]]) -> u32 {
        buffers.iter().fold(self.0, |crc, bytes| crc32c::crc32c_append(crc, bytes))
    }

    /// The seed of a frame at an offset of the segment.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self(crc32c::crc32c_append(self.0, &offset.to_le_bytes()))
    }
}

/// The first page of a segment.
///
/// Bound and floors stand here besides their records, so that the newest segment alone already
/// says what the volume may have promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Whether its writer makes each frame durable before it acknowledges it.
    pub is_synced: bool,
    /// Whether its file is longer than its frames at every moment, so that one that is not was cut.
    pub is_longer: bool,
    /// The volume whose log this is.
    pub volume: VolumeId,
    /// Number of the segment; grows, never used again.
    pub number: u64,
    /// The sequence of its first record.
    pub first: Sequence,
    /// The number of the segment written before; 0 for the very first.
    pub previous: u64,
    /// The offset where that segment ends: what lies behind was never acknowledged.
    pub previous_end: u64,
    /// The promise bound.
    pub bound: Ballot,
    /// The ballot floor.
    pub floor: Ballot,
    /// The data floor.
    pub data_floor: Timestamp,
}

impl SegmentHeader {
    /// The stored form, [`SEGMENT_HEADER_BYTES`] long.
    pub fn encode(&self) -> Bytes {
        let Self {
            is_synced,
            is_longer,
            volume,
            number,
            first,
            previous,
            previous_end,
            bound,
            floor,
            data_floor,
        } = self;
        let flags = (u16::from(*is_synced) * SYNCED) | (u16::from(*is_longer) * LONGER);
        let mut writer = Writer::with_capacity(SEGMENT_HEADER_BYTES);
        writer.raw(&SEGMENT_MAGIC).u16(VERSION).u16(flags).raw(&volume.0).u64(*number).u64(first.0);
        writer.u64(*previous).u64(*previous_end);
        writer.raw(&bound.to_bytes()).raw(&floor.to_bytes()).u64(data_floor.as_u64());
        let mut bytes: Vec<u8> = writer.finish().into();
        assert_eq!(bytes.len(), SEGMENT_FIELDS_BYTES, "the fields have fixed widths");
        let crc = Seed::of(*volume, *number).checksum(&[&bytes]);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.resize(SEGMENT_HEADER_BYTES, 0);
        bytes.into()
    }

    /// From the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] when it is not a segment header, or damaged; [`DecodeError::Version`] when it is whole
    /// and of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let field = "segment header";
        let stored = bytes.get(..SEGMENT_FIELDS_BYTES).ok_or(DecodeError::Short { field })?;
        let mut reader =
            Reader::new(Bytes::copy_from_slice(bytes.get(..SEGMENT_FIELDS_BYTES + 4).unwrap_or(&[])));
        if reader.array::<8>(field)? != SEGMENT_MAGIC {
            return Err(DecodeError::Invalid { field });
        }
        let version = reader.u16(field)?;
        let flags = reader.u16(field)?;
        let header = Self {
            is_synced: flags & SYNCED != 0,
            is_longer: flags & LONGER != 0,
            volume: VolumeId(reader.array(field)?),
            number: reader.u64(field)?,
            first: Sequence(reader.u64(field)?),
            previous: reader.u64(field)?,
            previous_end: reader.u64(field)?,
            bound: Ballot::from_bytes(reader.array(field)?),
            floor: Ballot::from_bytes(reader.array(field)?),
            data_floor: Timestamp::from_u64(reader.u64(field)?),
        };
        if reader.u32(field)? != Seed::of(header.volume, header.number).checksum(&[stored]) {
            return Err(DecodeError::Invalid { field });
        }
        // A flag that is not known is from later than this, too.
        if version != VERSION || flags & !(SYNCED | LONGER) != 0 {
            let version = u8::try_from(version).unwrap_or(u8::MAX);
            return Err(DecodeError::Version { field, version });
        }
        Ok(header)
    }
}

/// Header before the records of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameHeader {
    /// The sequence of its first record.
    pub first: Sequence,
    /// The sequence of its last record.
    pub last: Sequence,
    /// The highest sequence that was durable when it was written: everything up to there may have been
    /// acknowledged, so a replay that reads this frame must find it.
    pub durable: Sequence,
    /// Bytes of header and records, without the padding.
    pub used: u32,
    /// How many records follow.
    pub records: u32,
}

impl FrameHeader {
    /// Bytes of the frame with its padding.
    pub fn padded(&self) -> u64 {
        u64::from(self.used).next_multiple_of(limits::FRAME_ALIGN as u64)
    }

    /// The stored form.
    pub fn encode(&self, seed: Seed, offset: u64) -> [u8; FRAME_HEADER_BYTES] {
        let Self { first, last, durable, used, records } = self;
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let (fields, checksum) = bytes.split_at_mut(FRAME_FIELDS_BYTES);
        let mut rest = &mut *fields;
        rest.put_slice(&FRAME_MAGIC);
        rest.put_u64_le(first.0);
        rest.put_u64_le(last.0);
        rest.put_u64_le(durable.0);
        rest.put_u32_le(*used);
        rest.put_u32_le(*records);
        rest.put_u32_le(0);
        assert!(rest.is_empty(), "the fields have fixed widths");
        let crc = seed.at(offset).checksum(&[fields]);
        checksum.copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// From the stored form at an offset of a segment.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not a frame header of this segment at this offset.
    pub fn decode(bytes: &[u8], seed: Seed, offset: u64) -> Result<Self, DecodeError> {
        let field = "frame header";
        let stored = bytes.get(..FRAME_HEADER_BYTES).ok_or(DecodeError::Short { field })?;
        if !stored.starts_with(&FRAME_MAGIC) {
            return Err(DecodeError::Invalid { field });
        }
        let mut reader = Reader::new(Bytes::copy_from_slice(stored));
        reader.array::<8>(field)?;
        let header = Self {
            first: Sequence(reader.u64(field)?),
            last: Sequence(reader.u64(field)?),
            durable: Sequence(reader.u64(field)?),
            used: reader.u32(field)?,
            records: reader.u32(field)?,
        };
        let reserved = reader.u32(field)?;
        let crc = reader.u32(field)?;
        let covered = stored.get(..FRAME_FIELDS_BYTES).ok_or(DecodeError::Short { field })?;
        if crc != seed.at(offset).checksum(&[covered]) {
            return Err(DecodeError::Invalid { field });
        }
        let span = header.last.0.checked_sub(header.first.0).and_then(|span| span.checked_add(1));
        let sane = reserved == 0
            && span == Some(u64::from(header.records))
            && header.durable < header.first
            && header.used as usize >= FRAME_HEADER_BYTES
            && header.used as usize <= limits::FRAME_BYTES_MAX;
        if sane { Ok(header) } else { Err(DecodeError::Invalid { field }) }
    }
}

#[cfg(test)]
mod tests;
