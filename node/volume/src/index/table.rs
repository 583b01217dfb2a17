//! The tables of the index: keys by a prefix byte, and the entries under them.
//!
//! ```text
//! 1 object rows    bucket 16, key                          4 unsettled   the key of a row
//! 2 part rows      bucket 16, upload 16, part u16 BE, key  5 heal        heal id 16
//! 3 packed shards  data id 16, shard index u8              6 state       kind u8, id
//! 7 derived        segment use and the like: made from the other tables, in no log record
//! ```
//!
//! An entry is the place of its record and a copy of what is needed without reading it. The same
//! bytes stand in the overlay (durable in the log, not yet in the index) and in the index.

use bytes::Bytes;

use sherd_core::checksum::Digest;
use sherd_core::codec::{DecodeError, Reader, Writer};
use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{Ballot, DataId, Life, RegisterKey, Sequence, ShardId};
pub use sherd_core::record::row_key::{
    OBJECT, PART, RowKeys, UNSETTLED, parse_row_key, row_key, unsettled_key,
};
use sherd_core::record::{put_register_key, register_key_bytes, take_register_key};
use sherd_core::register::RowHead;
use sherd_core::release::ReleaseId;

use crate::format::{Flags, Kind, Subject};
use crate::limits::HEAD_IN_INDEX_MAX;

/// Packed shards.
pub const SHARD: u8 = 3;
/// MRF entries.
pub const HEAL: u8 = 5;
/// Bound, floors, epochs, seals, peers, segments, phase, openings.
pub const STATE: u8 = 6;
/// Values that can be computed from the other tables.
pub const DERIVED: u8 = 7;
/// Notes of replaced data.
pub const RELEASE: u8 = 8;

const ORIGIN_BYTES: usize = 3 * 8 + 8 + 4 + 4;

/// Where the ballot stands in a row's stored entry: behind its kind and flags.
const BALLOT_AT: usize = ORIGIN_BYTES + 1 + 1;

/// Where a row's flags stand in its stored entry, and its kind before them.
const FLAGS_AT: usize = ORIGIN_BYTES + 1;
const ROW_KIND: u8 = 1;
/// The flags of a tombstone known to be committed.
const GONE_FLAGS: u8 = 1 | 1 << 1;

/// Behind the ballot of a listed row that is committed.
const COMMITTED_MARK: u8 = 1;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLocation {
    /// The segment.
    pub segment: u64,
    /// The offset of the record's header in it.
    pub offset: u32,
    /// Bytes of the whole record.
    pub bytes: u32,
}

/// Facts about its record in every entry of a logged table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The record's (original) sequence.
    pub sequence: Sequence,
    /// No older copy of the key stands in the log before this sequence.
    pub oldest: Sequence,
    /// The sequence of the place where the record stands now: its own, unless it was moved.
    pub placed: Sequence,
    /// Where it is.
    pub place: RecordLocation,
}

/// An entry: its origin, and a body by table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it comes from.
    pub origin: Origin,
    /// The content of the entry.
    pub body: Body,
}

/// The body of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A row.
    Row(RowBody),
    /// A packed shard.
    Shard {
        /// The register that should name it.
        key: RegisterKey,
        /// Bytes of the shard.
        bytes: u32,
    },
    /// An MRF entry.
    Heal {
        /// Stored form of the entry.
        entry: Bytes,
    },
    /// A piece of small state.
    State(Subject),
    /// A note of replaced data.
    Release {
        /// Stored form of the note.
        entry: Bytes,
    },
}

/// The body of a row's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowBody {
    /// Ballot, digest, committed flag.
    pub head: RowHead,
    /// Whether the value is a tombstone.
    pub tombstone: bool,
    /// Whether it is listed although it is committed, because another volume of the set may lack it.
    pub is_missed: bool,
    /// Whether the record itself says that it is committed, and whether it is missed (else a hint did).
    pub flag_logged: bool,
    /// Bytes of the encoded value.
    pub head_bytes: u32,
    /// Bytes of its inline object.
    pub inline_bytes: u32,
    /// The encoded value, when it is small enough.
    pub value: Option<Bytes>,
}

impl Entry {
    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let Self { origin: Origin { sequence, oldest, placed, place }, body } = self;
        let RecordLocation { segment, offset, bytes } = place;
        let mut writer = Writer::with_capacity(self.encoded_bytes());
        writer.u64(sequence.0).u64(oldest.0).u64(placed.0).u64(*segment).u32(*offset).u32(*bytes);
        match body {
            Body::Row(row) => {
                let RowBody { head, tombstone, is_missed, flag_logged, head_bytes, inline_bytes, value } =
                    row;
                let RowHead { ballot, digest, committed } = head;
                writer.u8(1).u8(u8::from(*committed)
                    | u8::from(*tombstone) << 1
                    | u8::from(*flag_logged) << 2
                    | u8::from(value.is_some()) << 3
                    | u8::from(*is_missed) << 4);
                writer.raw(&ballot.to_bytes()).raw(digest).u32(*head_bytes).u32(*inline_bytes);
                if let Some(value) = value {
                    writer.raw(value);
                }
            }
            Body::Shard { key, bytes } => {
                writer.u8(2).u32(*bytes);
                put_register_key(&mut writer, key);
            }
            Body::Heal { entry } => {
                writer.u8(3).raw(entry);
            }
            Body::State(subject) => {
                subject.put(writer.u8(4).u8(subject.kind() as u8));
            }
            Body::Release { entry } => {
                writer.u8(5).raw(entry);
            }
        }
        writer.finish()
    }

    /// Whether it is of a row that is committed and that another volume of the set may lack.
    pub fn is_missed(&self) -> bool {
        matches!(&self.body, Body::Row(row) if row.is_missed)
    }

    fn encoded_bytes(&self) -> usize {
        let Self { origin: Origin { sequence: _, oldest: _, placed: _, place: _ }, body } = self;
        let body_bytes = match body {
            Body::Row(row) => {
                1 + 16 + row.head.digest.len() + 4 + 4 + row.value.as_ref().map_or(0, Bytes::len)
            }
            Body::Shard { key, bytes: _ } => 4 + register_key_bytes(key),
            Body::Heal { entry } | Body::Release { entry } => entry.len(),
            Body::State(subject) => 1 + subject.encoded_bytes(),
        };
        ORIGIN_BYTES + 1 + body_bytes
    }

    /// From the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not an entry.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let origin = Self::take_origin(&mut reader)?;
        let body = match reader.u8("entry")? {
            1 => Body::Row(take_row(&mut reader)?),
            2 => {
                let bytes = reader.u32("shard bytes")?;
                Body::Shard { key: take_register_key(&mut reader)?, bytes }
            }
            3 => {
                let length = reader.remaining();
                Body::Heal { entry: reader.bytes(length, "heal entry")? }
            }
            4 => {
                let field = "state kind";
                let kind = Kind::from_u8(reader.u8(field)?).ok_or(DecodeError::Invalid { field })?;
                let length = reader.remaining();
                Body::State(Subject::decode(kind, reader.bytes(length, "state")?)?)
            }
            5 => {
                let length = reader.remaining();
                Body::Release { entry: reader.bytes(length, "release entry")? }
            }
            _ => return Err(DecodeError::Invalid { field: "entry" }),
        };
        reader.finish("entry")?;
        Ok(Self { origin, body })
    }

    fn take_origin(reader: &mut Reader) -> Result<Origin, DecodeError> {
        let field = "entry origin";
        Ok(Origin {
            sequence: Sequence(reader.u64(field)?),
            oldest: Sequence(reader.u64(field)?),
            placed: Sequence(reader.u64(field)?),
            place: RecordLocation {
                segment: reader.u64(field)?,
                offset: reader.u32(field)?,
                bytes: reader.u32(field)?,
            },
        })
    }
}

/// Whether a stored entry is a tombstone known to be committed, by its flags alone: a listing passes many of
/// them.
pub(crate) fn is_gone(entry: &[u8]) -> bool {
    entry.get(FLAGS_AT - 1) == Some(&ROW_KIND)
        && entry.get(FLAGS_AT).is_some_and(|flags| flags & GONE_FLAGS == GONE_FLAGS)
}

/// The ballot in the stored form of a row's entry, as it is stored for a row that waits to be settled.
///
/// Programmer error: another entry's stored form.
pub(crate) fn ballot_in(row: &Bytes) -> Bytes {
    row.slice(BALLOT_AT..BALLOT_AT + Ballot::ZERO.to_bytes().len())
}

/// Entry of a listed row: its ballot, and behind it a byte if it is committed.
pub(crate) fn listed_value(row: &Bytes, committed: bool) -> Bytes {
    let ballot = ballot_in(row);
    if committed { [&ballot[..], &[COMMITTED_MARK]].concat().into() } else { ballot }
}

/// From the stored form: the ballot, and whether the row is committed.
pub(crate) fn parse_listed(value: &[u8]) -> Option<(Ballot, bool)> {
    let (ballot, rest) = value.split_first_chunk()?;
    match rest {
        [] => Some((Ballot::from_bytes(*ballot), false)),
        [COMMITTED_MARK] => Some((Ballot::from_bytes(*ballot), true)),
        _ => None,
    }
}

/// Only the origin of an entry.
///
/// # Errors
/// [`DecodeError`] when the bytes are too short.
pub fn origin(bytes: Bytes) -> Result<Origin, DecodeError> {
    Entry::take_origin(&mut Reader::new(bytes))
}

fn take_row(reader: &mut Reader) -> Result<RowBody, DecodeError> {
    let bits = reader.u8("row flags")?;
    let is_missed = bits & 16 != 0;
    if bits > 31 || (is_missed && bits & 1 == 0) {
        return Err(DecodeError::Invalid { field: "row flags" });
    }
    let ballot = Ballot::from_bytes(reader.array("row ballot")?);
    let digest: Digest = reader.array("row digest")?;
    let head_bytes = reader.u32("row head")?;
    let inline_bytes = reader.u32("row inline")?;
    let length = reader.remaining();
    let rest = reader.bytes(length, "row value")?;
    let has_value = bits & 8 != 0;
    if (has_value && rest.len() != head_bytes as usize) || (!has_value && !rest.is_empty()) {
        return Err(DecodeError::Invalid { field: "row value" });
    }
    Ok(RowBody {
        head: RowHead { ballot, digest, committed: bits & 1 != 0 },
        tombstone: bits & 2 != 0,
        is_missed,
        flag_logged: bits & 4 != 0,
        head_bytes,
        inline_bytes,
        value: has_value.then_some(rest),
    })
}

/// The index key of a packed shard.
pub fn shard_key(shard: ShardId) -> Bytes {
    let mut writer = Writer::with_capacity(1 + 16 + 1);
    writer.u8(SHARD).raw(&shard.data.to_bytes()).u8(shard.index);
    writer.finish()
}

/// The packed shard under an index key.
pub fn parse_shard_key(bytes: &[u8]) -> Option<ShardId> {
    let (&[SHARD], rest) = bytes.split_first_chunk::<1>()? else { return None };
    let (data, &[index]) = rest.split_first_chunk::<16>()? else { return None };
    Some(ShardId { data: DataId::from_bytes(*data), index })
}

/// The index key of an MRF entry.
pub fn heal_key(id: HealId) -> Bytes {
    let mut writer = Writer::with_capacity(1 + id.0.len());
    writer.u8(HEAL).raw(&id.0);
    writer.finish()
}

/// The MRF entry under an index key.
pub fn parse_heal_key(bytes: &[u8]) -> Option<HealId> {
    let (&[HEAL], rest) = bytes.split_first_chunk::<1>()? else { return None };
    rest.try_into().ok().map(HealId)
}

/// The want that an MRF entry is; `None` for a report, which has another id.
pub(crate) fn want_in(id: HealId, stored: &Bytes) -> Option<HealEntry> {
    HealEntry::decode(stored.clone()).ok().filter(|entry| entry.want_id() == id)
}

/// The index key of a note of replaced data.
pub fn release_key(id: ReleaseId) -> Bytes {
    let mut writer = Writer::with_capacity(1 + id.0.len());
    writer.u8(RELEASE).raw(&id.0);
    writer.finish()
}

/// The note of replaced data under an index key.
pub fn parse_release_key(bytes: &[u8]) -> Option<ReleaseId> {
    let (&[RELEASE], rest) = bytes.split_first_chunk::<1>()? else { return None };
    rest.try_into().ok().map(ReleaseId)
}

/// The index key of what a record is about; `None` for deletes and hints, which are about others.
pub fn key_of(subject: &Subject) -> Option<Bytes> {
    match subject {
        Subject::Row { key, .. } => Some(row_key(key)),
        Subject::Shard { shard, .. } => Some(shard_key(*shard)),
        Subject::Heal { id } => Some(heal_key(*id)),
        Subject::Release { id } => Some(release_key(*id)),
        state => state_key(state).map(Writer::finish),
    }
}

/// Whether a subject is a piece of state and has this index key. Allocates nothing.
pub(crate) fn is_state_key(subject: &Subject, key: &[u8]) -> bool {
    state_key(subject).is_some_and(|own| own.as_slice() == key)
}

/// The index key of a piece of state; `None` for other subjects.
fn state_key(subject: &Subject) -> Option<Writer> {
    let mut writer = state_writer(subject.kind());
    match subject {
        Subject::Row { .. }
        | Subject::Shard { .. }
        | Subject::Heal { .. }
        | Subject::Release { .. }
        | Subject::Delete { .. }
        | Subject::Hints => return None,
        Subject::Bound(_)
        | Subject::Floor(_)
        | Subject::DataFloor(_)
        | Subject::ClockReading(_)
        | Subject::Phase { .. } => {}
        Subject::Epoch { slot, .. } => {
            writer.raw(&slot.0.to_be_bytes());
        }
        Subject::Seal { bucket, deletion } => {
            writer.raw(&bucket.0);
            if let Some(deletion) = deletion {
                writer.raw(&deletion.to_bytes());
            }
        }
        Subject::Peer { volume, .. } | Subject::PeerNotes { volume, .. } => {
            writer.raw(&volume.0);
        }
        Subject::Opening { life, opening } => put_opening(&mut writer, *life, opening.end),
        Subject::Segment { number, .. } => put_segment(&mut writer, *number),
    }
    Some(writer)
}

/// The index key of an opening: they sort as the log has them.
pub fn opening_key(life: Life, end: Sequence) -> Bytes {
    let mut writer = state_writer(Kind::Opening);
    put_opening(&mut writer, life, end);
    writer.finish()
}

fn put_opening(writer: &mut Writer, life: Life, end: Sequence) {
    writer.raw(&life.0.to_be_bytes()).raw(&end.0.to_be_bytes());
}

/// The index key of a kept segment.
pub fn segment_key(number: u64) -> Bytes {
    let mut writer = state_writer(Kind::Segment);
    put_segment(&mut writer, number);
    writer.finish()
}

fn put_segment(writer: &mut Writer, number: u64) {
    writer.raw(&number.to_be_bytes());
}

fn state_writer(kind: Kind) -> Writer {
    let mut writer = Writer::new();
    writer.u8(STATE).u8(kind as u8);
    writer
}

/// Facts about a record's payload.
#[derive(Debug, Clone, Copy)]
pub struct Payload<'a> {
    /// Length in bytes.
    pub length: u32,
    /// Bytes; `None` when they are not what was written.
    pub intact: Option<&'a [Bytes]>,
}

impl Payload<'_> {
    /// The first bytes. If a single buffer holds them, the result is a slice of it, and keeps it alive.
    pub fn first(&self, length: usize) -> Option<Bytes> {
        let buffers = self.intact?;
        if let Some(first) = buffers.first()
            && length <= first.len()
        {
            return Some(first.slice(..length));
        }
        let mut taken = Vec::with_capacity(length);
        for buffer in buffers {
            let wanted = buffer.len().min(length - taken.len());
            taken.extend_from_slice(buffer.get(..wanted)?);
        }
        (taken.len() == length).then(|| taken.into())
    }

    /// All bytes.
    pub fn all(&self) -> Option<Bytes> {
        self.first(self.length as usize)
    }
}

/// Bytes at the beginning of a payload that [`entry_of`] is made from, or that say what a record changes.
pub fn payload_bytes_needed(subject: &Subject, payload_bytes: u32) -> u32 {
    match subject {
        Subject::Row { head_bytes, .. } if *head_bytes as usize <= HEAD_IN_INDEX_MAX => *head_bytes,
        Subject::Hints | Subject::Heal { .. } | Subject::Release { .. } => payload_bytes,
        Subject::Row { .. }
        | Subject::Shard { .. }
        | Subject::Delete { .. }
        | Subject::Bound(_)
        | Subject::Floor(_)
        | Subject::DataFloor(_)
        | Subject::ClockReading(_)
        | Subject::Epoch { .. }
        | Subject::Seal { .. }
        | Subject::Peer { .. }
        | Subject::PeerNotes { .. }
        | Subject::Opening { .. }
        | Subject::Segment { .. }
        | Subject::Phase { .. } => 0,
    }
}

/// The entry of a record; `None` when there is nothing to keep: for deletes and hints, and for an
/// MRF entry or a note of replaced data whose bytes are lost. A row or shard whose bytes are lost keeps its
/// entry, so that it is an error when it is asked for, and never "nothing".
pub fn entry_of(subject: &Subject, flags: Flags, payload: Payload<'_>, origin: Origin) -> Option<Entry> {
    let body = match subject {
        Subject::Row { ballot, digest, head_bytes, .. } => {
            let committed = flags.has(Flags::COMMITTED);
            let value = ((*head_bytes as usize) <= HEAD_IN_INDEX_MAX)
                .then(|| payload.first(*head_bytes as usize))
                .flatten();
            Body::Row(RowBody {
                head: RowHead { ballot: *ballot, digest: *digest, committed },
                tombstone: flags.has(Flags::TOMBSTONE),
                is_missed: committed && flags.has(Flags::MISSED),
                flag_logged: committed,
                head_bytes: *head_bytes,
                inline_bytes: payload.length.checked_sub(*head_bytes)?,
                value,
            })
        }
        Subject::Shard { key, .. } => Body::Shard { key: key.clone(), bytes: payload.length },
        Subject::Heal { .. } => Body::Heal { entry: payload.all()? },
        Subject::Release { .. } => Body::Release { entry: payload.all()? },
        Subject::Delete { .. } | Subject::Hints => return None,
        state => Body::State(state.clone()),
    };
    Some(Entry { origin, body })
}
