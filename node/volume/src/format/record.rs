//! One record of the log: what it says (its subject), and its payload.
//!
//! ```text
//! header   kind u8, flags u8, subject length u16, payload length u32, sequence u64, crc32c u32
//! subject  what the record is about: ids, keys, ballots, by kind
//! hashes   32 bytes of blake3 for every 64 KiB of payload
//! payload  a value with its inline bytes, a shard, a heal entry, commit hints
//! ```
//!
//! The crc32c covers header, subject and hashes, the hashes cover the payload: a rotten payload
//! never hides what the record is about. A record that compaction wrote again carries
//! [`Flags::MOVED`] and its original sequence; every other has the sequence of its place.

use bytes::{Buf, BufMut, Bytes};

use sherd_core::checksum::{BlockHasher, Digest};
use sherd_core::codec::{DecodeError, Reader, Writer};
use sherd_core::heal::HealId;
use sherd_core::id::{
    Ballot, BucketId, ChangeId, DataId, Epoch, Life, RegisterKey, Sequence, ShardId, Slot, Timestamp,
    VolumeId,
};
use sherd_core::limits;
use sherd_core::record::{put_register_key, register_key_bytes, take_register_key};
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::recover::opening::{Opening, PeerNotes};
use sherd_core::release::ReleaseId;

use super::{RECORD_HEADER_BYTES, Seed};
use crate::limits::SUBJECT_BYTES_MAX;

const BALLOT_BYTES: usize = 16;

/// Kind of a record. The numbers are stored and never used again for another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An accepted register value.
    Row = 1,
    /// A packed shard.
    Shard = 2,
    /// Something is gone.
    Delete = 3,
    /// Hints that rows are committed.
    Hints = 4,
    /// The promise bound.
    Bound = 5,
    /// The ballot floor.
    Floor = 6,
    /// The highest epoch seen for a slot.
    Epoch = 7,
    /// A bucket's seal.
    Seal = 8,
    /// A peer's life and how far its log was durable.
    Peer = 9,
    /// An MRF entry.
    Heal = 10,
    /// A sealed segment that is kept.
    Segment = 11,
    /// How far the volume's recovery got.
    Phase = 12,
    /// The data floor.
    DataFloor = 13,
    /// The highest reading of the volume's own clock.
    ClockReading = 14,
    /// A note of replaced data.
    Release = 15,
    /// Notes about a peer's openings.
    PeerNotes = 18,
    /// An opening of the volume itself.
    Opening = 19,
}

impl Kind {
    /// From the stored number.
    pub const fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Row,
            2 => Self::Shard,
            3 => Self::Delete,
            4 => Self::Hints,
            5 => Self::Bound,
            6 => Self::Floor,
            7 => Self::Epoch,
            8 => Self::Seal,
            9 => Self::Peer,
            10 => Self::Heal,
            11 => Self::Segment,
            12 => Self::Phase,
            13 => Self::DataFloor,
            14 => Self::ClockReading,
            15 => Self::Release,
            18 => Self::PeerNotes,
            19 => Self::Opening,
            _ => return None,
        })
    }
}

/// One bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// Written again by compaction, with its original sequence.
    pub const MOVED: Self = Self(1);
    /// A row whose value is known to be committed.
    pub const COMMITTED: Self = Self(2);
    /// A row whose value is a tombstone.
    pub const TOMBSTONE: Self = Self(4);
    /// A committed row, or the rows of hints, that another volume of the set may lack.
    pub const MISSED: Self = Self(8);
    const ALL: u8 = 15;

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the bits of `other`, when asked for.
    #[must_use]
    pub const fn with(self, other: Self, set: bool) -> Self {
        if set { Self(self.0 | other.0) } else { self }
    }
}

/// How far the recovery of a volume that lost its state got. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// No vote, no writes.
    Waiting = 1,
    /// Voters' guarantees taken: writes above the floor, no vote.
    Adopting = 2,
    /// Vote and writes.
    Voting = 3,
}

/// Subject of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Payload: the encoded value (`head_bytes` of it), then its inline bytes.
    Row {
        /// The register.
        key: RegisterKey,
        /// The ballot at which it was accepted.
        ballot: Ballot,
        /// blake3 of the encoded value.
        digest: Digest,
        /// Bytes of the encoded value.
        head_bytes: u32,
    },
    /// Payload: the shard's bytes.
    Shard {
        /// Shard id.
        shard: ShardId,
        /// The register that should name it.
        key: RegisterKey,
    },
    /// Kills every record of a lower sequence under an index key.
    Delete {
        /// The index key, table prefix first.
        key: Bytes,
        /// Copies of it stand nowhere before this sequence.
        oldest: Sequence,
        /// Copies of it stand nowhere after this sequence (but for this record's own).
        newest: Sequence,
    },
    /// Payload: [`Hint`]s.
    Hints,
    /// The highest ballot that may have been promised.
    Bound(Ballot),
    /// Ballots at or below are refused.
    Floor(Ballot),
    /// The highest epoch seen for a slot.
    Epoch {
        /// The slot.
        slot: Slot,
        /// The epoch.
        epoch: Epoch,
    },
    /// A bucket is sealed.
    Seal {
        /// The bucket.
        bucket: BucketId,
        /// By which deletion; `None` for ever.
        deletion: Option<ChangeId>,
    },
    /// State of a peer.
    Peer {
        /// The peer.
        volume: VolumeId,
        /// Life of the peer.
        life: Life,
        /// Highest durable sequence seen in that life.
        durable: Sequence,
    },
    /// Payload: the entry.
    Heal {
        /// Id of the entry.
        id: HealId,
    },
    /// A sealed segment that must be there.
    Segment {
        /// Number of the segment.
        number: u64,
        /// Offset at which its frames end.
        end: u64,
        /// First sequence.
        first: Sequence,
        /// Last sequence.
        last: Sequence,
    },
    /// How far the recovery of one life got.
    Phase {
        /// The life.
        life: Life,
        /// How far.
        phase: Phase,
        /// Rows up to this sequence are of the life before and do not count.
        rows_after: Sequence,
        /// Value of `rows_after` before this life began.
        kept_after: Sequence,
    },
    /// Accepts that introduce older data are refused.
    DataFloor(Timestamp),
    /// The highest reading of the volume's own clock, as of a bound that was written with it.
    ClockReading(Timestamp),
    /// Payload: the entry.
    Release {
        /// Id of the entry.
        id: ReleaseId,
    },
    /// How far a peer's log was in each of its openings, as its answers said. Unlike [`Self::Peer`] it says
    /// nothing of what this volume has of that log: it takes writes while it still catches up.
    PeerNotes {
        /// The peer.
        volume: VolumeId,
        /// All that is remembered of it: a record replaces the one before.
        notes: PeerNotes,
    },
    /// The volume was opened.
    Opening {
        /// The life in which it was.
        life: Life,
        /// The opening, and where it found the log to end.
        opening: Opening,
    },
}

impl Subject {
    /// Returns the kind of the records with this subject.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Row { .. } => Kind::Row,
            Self::Shard { .. } => Kind::Shard,
            Self::Delete { .. } => Kind::Delete,
            Self::Hints => Kind::Hints,
            Self::Bound(_) => Kind::Bound,
            Self::Floor(_) => Kind::Floor,
            Self::Epoch { .. } => Kind::Epoch,
            Self::Seal { .. } => Kind::Seal,
            Self::Peer { .. } => Kind::Peer,
            Self::Heal { .. } => Kind::Heal,
            Self::Segment { .. } => Kind::Segment,
            Self::Phase { .. } => Kind::Phase,
            Self::DataFloor(_) => Kind::DataFloor,
            Self::ClockReading(_) => Kind::ClockReading,
            Self::Release { .. } => Kind::Release,
            Self::PeerNotes { .. } => Kind::PeerNotes,
            Self::Opening { .. } => Kind::Opening,
        }
    }

    /// Bytes of the stored form.
    pub fn encoded_bytes(&self) -> usize {
        match self {
            Self::Row { key, ballot: _, digest, head_bytes: _ } => {
                register_key_bytes(key) + BALLOT_BYTES + digest.len() + 4
            }
            Self::Shard { shard: _, key } => 16 + 1 + register_key_bytes(key),
            Self::Delete { key, oldest: _, newest: _ } => 8 + 8 + key.len(),
            Self::Hints => 0,
            Self::Bound(_) | Self::Floor(_) => BALLOT_BYTES,
            Self::Epoch { .. } => 2 + 8,
            Self::Seal { bucket: _, deletion } => 16 + 1 + deletion.map_or(0, |_| 16),
            Self::Peer { .. } => 16 + 4 + 8,
            Self::PeerNotes { volume: _, notes } => 16 + 4 + notes.notes().len() * (8 + 8),
            Self::Opening { .. } => 4 + 8 + 8,
            Self::Heal { id } => id.0.len(),
            Self::Release { id } => id.0.len(),
            Self::Segment { .. } => 4 * 8,
            Self::Phase { .. } => 4 + 1 + 8 + 8,
            Self::DataFloor(_) | Self::ClockReading(_) => 8,
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::with_capacity(self.encoded_bytes());
        self.put(&mut writer);
        writer.finish()
    }

    /// Appends the stored form.
    pub fn put(&self, writer: &mut Writer) {
        match self {
            Self::Row { key, ballot, digest, head_bytes } => {
                put_register_key(writer, key);
                writer.raw(&ballot.to_bytes()).raw(digest).u32(*head_bytes);
            }
            Self::Shard { shard: ShardId { data, index }, key } => {
                writer.raw(&data.to_bytes()).u8(*index);
                put_register_key(writer, key);
            }
            Self::Delete { key, oldest, newest } => {
                writer.u64(oldest.0).u64(newest.0).raw(key);
            }
            Self::Hints => {}
            Self::Bound(ballot) | Self::Floor(ballot) => {
                writer.raw(&ballot.to_bytes());
            }
            Self::Epoch { slot, epoch } => {
                writer.u16(slot.0).u64(epoch.0);
            }
            Self::Seal { bucket, deletion } => {
                writer.raw(&bucket.0).u8(u8::from(deletion.is_some()));
                if let Some(deletion) = deletion {
                    writer.raw(&deletion.to_bytes());
                }
            }
            Self::Peer { volume, life, durable } => {
                writer.raw(&volume.0).u32(life.0).u64(durable.0);
            }
            Self::PeerNotes { volume, notes } => {
                writer.raw(&volume.0).u32(notes.life.0);
                for (opening, durable) in notes.notes() {
                    writer.u64(opening.0).u64(durable.0);
                }
            }
            Self::Opening { life, opening: Opening { id, end } } => {
                writer.u32(life.0).u64(id.0).u64(end.0);
            }
            Self::Heal { id } => {
                writer.raw(&id.0);
            }
            Self::Segment { number, end, first, last } => {
                writer.u64(*number).u64(*end).u64(first.0).u64(last.0);
            }
            Self::Phase { life, phase, rows_after, kept_after } => {
                writer.u32(life.0).u8(*phase as u8).u64(rows_after.0).u64(kept_after.0);
            }
            Self::DataFloor(time) | Self::ClockReading(time) => {
                writer.u64(time.as_u64());
            }
            Self::Release { id } => {
                writer.raw(&id.0);
            }
        }
    }

    /// From the stored form of a kind.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not a subject of that kind.
    pub fn decode(kind: Kind, bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let subject = match kind {
            Kind::Row => Self::Row {
                key: take_register_key(&mut reader)?,
                ballot: Ballot::from_bytes(reader.array("row ballot")?),
                digest: reader.array("row digest")?,
                head_bytes: reader.u32("row head")?,
            },
            Kind::Shard => Self::Shard {
                shard: ShardId {
                    data: DataId::from_bytes(reader.array("shard data id")?),
                    index: reader.u8("shard index")?,
                },
                key: take_register_key(&mut reader)?,
            },
            Kind::Delete => {
                let oldest = Sequence(reader.u64("delete oldest")?);
                let newest = Sequence(reader.u64("delete newest")?);
                let length = reader.remaining();
                Self::Delete { key: reader.bytes(length, "delete key")?, oldest, newest }
            }
            Kind::Hints => Self::Hints,
            Kind::Bound => Self::Bound(Ballot::from_bytes(reader.array("bound")?)),
            Kind::Floor => Self::Floor(Ballot::from_bytes(reader.array("floor")?)),
            Kind::Epoch => {
                Self::Epoch { slot: Slot(reader.u16("epoch slot")?), epoch: Epoch(reader.u64("epoch")?) }
            }
            Kind::Seal => take_seal(&mut reader)?,
            Kind::Peer => Self::Peer {
                volume: VolumeId(reader.array("peer")?),
                life: Life(reader.u32("peer life")?),
                durable: Sequence(reader.u64("peer sequence")?),
            },
            Kind::Heal => Self::Heal { id: HealId(reader.array("heal id")?) },
            Kind::Segment => Self::Segment {
                number: reader.u64("segment number")?,
                end: reader.u64("segment end")?,
                first: Sequence(reader.u64("segment first")?),
                last: Sequence(reader.u64("segment last")?),
            },
            Kind::Phase => Self::Phase {
                life: Life(reader.u32("phase life")?),
                phase: match reader.u8("phase")? {
                    1 => Phase::Waiting,
                    2 => Phase::Adopting,
                    3 => Phase::Voting,
                    _ => return Err(DecodeError::Invalid { field: "phase" }),
                },
                rows_after: Sequence(reader.u64("phase rows")?),
                kept_after: Sequence(reader.u64("phase kept")?),
            },
            Kind::PeerNotes => take_peer_notes(&mut reader)?,
            Kind::Opening => Self::Opening {
                life: Life(reader.u32("opening life")?),
                opening: Opening {
                    id: OpeningId(reader.u64("opening")?),
                    end: Sequence(reader.u64("opening end")?),
                },
            },
            Kind::DataFloor => Self::DataFloor(Timestamp::from_u64(reader.u64("data floor")?)),
            Kind::ClockReading => Self::ClockReading(Timestamp::from_u64(reader.u64("clock reading")?)),
            Kind::Release => Self::Release { id: ReleaseId(reader.array("release id")?) },
        };
        reader.finish("subject")?;
        Ok(subject)
    }
}

fn take_seal(reader: &mut Reader) -> Result<Subject, DecodeError> {
    let bucket = BucketId(reader.array("seal bucket")?);
    let deletion = match reader.u8("seal deletion")? {
        0 => None,
        1 => Some(ChangeId::from_bytes(reader.array("seal deletion")?)),
        _ => return Err(DecodeError::Invalid { field: "seal deletion" }),
    };
    Ok(Subject::Seal { bucket, deletion })
}

/// Openings in ascending order, each once: what is remembered has one stored form.
fn take_peer_notes(reader: &mut Reader) -> Result<Subject, DecodeError> {
    let field = "notes of a peer";
    let volume = VolumeId(reader.array(field)?);
    let life = Life(reader.u32(field)?);
    let mut notes = PeerNotes::new(life);
    let mut last = None;
    while reader.remaining() > 0 {
        let (opening, durable) = (OpeningId(reader.u64(field)?), Sequence(reader.u64(field)?));
        let is_noted = notes.note(Position { life, opening, durable });
        if !is_noted || last.is_some_and(|last| last >= opening) {
            return Err(DecodeError::Invalid { field });
        }
        last = Some(opening);
    }
    Ok(Subject::PeerNotes { volume, notes })
}

/// The fixed part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Kind of the record.
    pub kind: Kind,
    /// How it is meant.
    pub flags: Flags,
    /// Bytes of the subject.
    pub subject_bytes: u16,
    /// Bytes of the payload.
    pub payload_bytes: u32,
    /// Original sequence of the record.
    pub sequence: Sequence,
    /// The checksum of header, subject and hashes.
    pub crc: u32,
}

impl RecordHeader {
    /// Bytes from the record's start to its payload.
    pub fn payload_offset(&self) -> usize {
        RECORD_HEADER_BYTES + usize::from(self.subject_bytes) + 32 * block_count(self.payload_bytes)
    }

    /// Bytes of the whole record.
    pub fn record_bytes(&self) -> usize {
        self.payload_offset() + self.payload_bytes as usize
    }

    /// The stored form; the checksum is computed over it, the subject and the hashes.
    pub fn encode(&self, seed: Seed, subject: &[u8], hashes: &[u8]) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        let (fields, checksum) = bytes.split_at_mut(RECORD_HEADER_BYTES - 4);
        let mut rest = &mut *fields;
        rest.put_u8(self.kind as u8);
        rest.put_u8(self.flags.0);
        rest.put_u16_le(self.subject_bytes);
        rest.put_u32_le(self.payload_bytes);
        rest.put_u64_le(self.sequence.0);
        assert!(rest.is_empty(), "the fields have fixed widths");
        let crc = seed.checksum(&[fields, subject, hashes]);
        checksum.copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// From the stored form; the checksum is not judged yet, lengths are within their limits.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not a record header.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let field = "record header";
        // Long enough for all that is taken from it.
        let mut fields: &[u8] =
            bytes.first_chunk::<RECORD_HEADER_BYTES>().ok_or(DecodeError::Short { field })?;
        let kind = Kind::from_u8(fields.get_u8()).ok_or(DecodeError::Invalid { field })?;
        let flags = Flags(fields.get_u8());
        let header = Self {
            kind,
            flags,
            subject_bytes: fields.get_u16_le(),
            payload_bytes: fields.get_u32_le(),
            sequence: Sequence(fields.get_u64_le()),
            crc: fields.get_u32_le(),
        };
        let sane = flags.0 & !Flags::ALL == 0
            && usize::from(header.subject_bytes) <= SUBJECT_BYTES_MAX
            && header.payload_bytes as usize <= limits::FRAME_BYTES_MAX;
        if sane { Ok(header) } else { Err(DecodeError::Invalid { field }) }
    }

    /// Checks header, subject and hashes, which stand at the start of `record`, and hands subject
    /// and hashes out.
    ///
    /// # Errors
    /// [`DecodeError`] when they are not what was written.
    pub fn open(&self, seed: Seed, record: &Bytes) -> Result<(Subject, Bytes), DecodeError> {
        let field = "record";
        if record.len() < self.payload_offset() {
            return Err(DecodeError::Short { field });
        }
        let fixed = record.get(..RECORD_HEADER_BYTES - 4).ok_or(DecodeError::Short { field })?;
        let rest =
            record.get(RECORD_HEADER_BYTES..self.payload_offset()).ok_or(DecodeError::Short { field })?;
        if seed.checksum(&[fixed, rest]) != self.crc {
            return Err(DecodeError::Invalid { field });
        }
        let subject_end = RECORD_HEADER_BYTES + usize::from(self.subject_bytes);
        let subject = Subject::decode(self.kind, record.slice(RECORD_HEADER_BYTES..subject_end))?;
        if let Subject::Row { head_bytes, .. } = &subject
            && *head_bytes > self.payload_bytes
        {
            return Err(DecodeError::Invalid { field });
        }
        Ok((subject, record.slice(subject_end..self.payload_offset())))
    }
}

/// How many hashes cover a payload.
pub const fn block_count(payload_bytes: u32) -> usize {
    (payload_bytes as usize).div_ceil(limits::HASH_BLOCK_BYTES)
}

/// Writes the hashes of a payload in one piece, one for every 64 KiB, into their [`block_count`]
/// places of 32 bytes.
pub fn hash_blocks(payload: &[u8], hashes: &mut [u8]) {
    let blocks = payload.chunks(limits::HASH_BLOCK_BYTES);
    for (block, hash) in blocks.zip(hashes.chunks_exact_mut(size_of::<Digest>())) {
        hash.copy_from_slice(blake3::hash(block).as_bytes());
    }
}

/// The hashes of a payload given as a list of buffers, one for every 64 KiB.
pub fn block_hashes(payload: &[Bytes]) -> Vec<u8> {
    let total: usize = payload.iter().map(Bytes::len).sum();
    let mut hasher = BlockHasher::with_length(total as u64);
    for buffer in payload {
        hasher.update(buffer);
    }
    hasher.finish().concat()
}

/// Whether block `index` of a payload is what its hash says.
pub fn verify_block(hashes: &[u8], index: usize, block: &[u8]) -> bool {
    let stored = index.checked_mul(32).and_then(|start| hashes.get(start..start.checked_add(32)?));
    stored.is_some_and(|hash| blake3::hash(block).as_bytes() == hash)
}

/// A commit hint: the row of a key is committed if it still has this ballot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The register.
    pub key: RegisterKey,
    /// The ballot at which it committed.
    pub ballot: Ballot,
    /// Whether it is not known that another volume of the set lacks it. Said by the flags of the record.
    pub is_everywhere: bool,
}

/// The payload of a hints record. Those that are everywhere are in another record than the others: see
/// [`Flags::MISSED`].
pub fn encode_hints<'a>(
    hints: impl IntoIterator<Item = &'a Hint, IntoIter: ExactSizeIterator + Clone>,
) -> Bytes {
    let hints = hints.into_iter();
    let hint_bytes = |hint: &Hint| register_key_bytes(&hint.key) + BALLOT_BYTES;
    let mut writer = Writer::with_capacity(4 + hints.clone().map(hint_bytes).sum::<usize>());
    writer.count(hints.len());
    for Hint { key, ballot, is_everywhere: _ } in hints {
        put_register_key(&mut writer, key);
        writer.raw(&ballot.to_bytes());
    }
    writer.finish()
}

/// Reads the payload of a hints record with these flags.
///
/// # Errors
/// [`DecodeError`] when the bytes are not hints.
pub fn decode_hints(flags: Flags, bytes: Bytes) -> Result<Vec<Hint>, DecodeError> {
    let is_everywhere = !flags.has(Flags::MISSED);
    let mut reader = Reader::new(bytes);
    let count = reader.count(38, "hints")?;
    let mut hints = Vec::with_capacity(count);
    for _ in 0..count {
        let key = take_register_key(&mut reader)?;
        let ballot = Ballot::from_bytes(reader.array("hint ballot")?);
        hints.push(Hint { key, ballot, is_everywhere });
    }
    reader.finish("hints")?;
    Ok(hints)
}
