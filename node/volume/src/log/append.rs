//! Group commit at the tail: one batch, one frame, one vectored write, one sync.
//!
//! Only the volume's thread appends. A frame says which sequence was durable before it, by which replay
//! distinguishes a torn tail from rot. When a batch does not fit the tail any more, a new segment begins, its
//! header names where the old one ends, and a `segment` record in its first frame says that the old one must
//! be there.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use sherd_core::checksum::Digest;
use sherd_core::codec::Writer;
use sherd_core::env::Clock;
use sherd_core::id::{Ballot, Sequence, Timestamp, VolumeId};
use sherd_core::limits;

use crate::disk::DiskFile;
use crate::error::{FaultClass, SyncFailure};
use crate::format::{
    FRAME_HEADER_BYTES, Flags, FrameHeader, Hint, RECORD_HEADER_BYTES, RecordHeader, Seed, SegmentHeader,
    Subject, block_count, block_hashes, hash_blocks,
};
use crate::index::table::{Origin, RecordLocation, RowKeys};
use crate::limits::COPIED_PAYLOAD_BYTES_MAX;
use crate::log::durable::SpareSegments;
use crate::log::{FIRST_FRAME, SHORT_END_BYTES, Segment, Segments};

/// Of a larger payload the buffers below this are copied; the others are written from where they are.
const COPY_BELOW: usize = 4096;
/// Bytes of a frame that no batch takes: they are for the bound, for the opening, and for the positions of
/// peers that are durable with the accepts of the batch.
const RIDE_ALONG_BYTES: usize = 6 * limits::FRAME_ALIGN;
/// Bytes of what is remembered of a peer, or of a bound.
const SMALL_RECORD_BYTES: usize = RECORD_HEADER_BYTES + 20 + 16 * limits::PEER_OPENINGS_MAX;
const _: () = assert!(
    (limits::POSITIONS_WAITING_MAX + 2 + 1 + limits::OPENINGS_FORGOTTEN_MAX) * SMALL_RECORD_BYTES
        <= RIDE_ALONG_BYTES,
    "what must ride along always fits"
);

/// A record's payload. Two buffers are usual: a value and its inline bytes.
pub type Buffers = SmallVec<[Bytes; 2]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplacedEntry {
    Unknown,
    Absent,
    At { origin: Origin, is_missed: bool },
}

/// Facts about the rows of a record that its writer has, so that they need not be decoded from its bytes.
#[derive(Debug)]
pub(crate) enum KnownRows {
    Nothing,
    Row {
        keys: RowKeys,
        before: ReplacedEntry,
    },
    /// Of a record of hints: their range in the batch's hints.
    Hints(Range<usize>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HintedCommit {
    pub(crate) hint: Hint,
    pub(crate) keys: RowKeys,
}

impl From<Hint> for HintedCommit {
    fn from(hint: Hint) -> Self {
        let keys = RowKeys::of(&hint.key);
        Self { hint, keys }
    }
}

/// A record that is to be written.
#[derive(Debug)]
pub struct NewRecord {
    /// Subject of the record.
    pub subject: Subject,
    /// How it is meant.
    pub flags: Flags,
    /// The original sequence of a record that is written again.
    pub moved: Option<Sequence>,
    /// Payload of the record.
    pub payload: Buffers,
    pub(crate) known: KnownRows,
    subject_bytes: usize,
    payload_bytes: u32,
}

impl NewRecord {
    /// Prepares a record.
    pub fn new(subject: Subject, flags: Flags, payload: impl IntoIterator<Item = Bytes>) -> Self {
        let payload: Buffers = payload.into_iter().collect();
        let length: usize = payload.iter().map(Bytes::len).sum();
        let payload_bytes = u32::try_from(length).expect("payloads are checked against the frame's limit");
        let subject_bytes = subject.encoded_bytes();
        Self { subject, flags, moved: None, payload, known: KnownRows::Nothing, subject_bytes, payload_bytes }
    }

    /// A record without payload.
    pub fn bare(subject: Subject) -> Self {
        Self::new(subject, Flags::default(), [])
    }

    /// The same record, as compaction writes it again.
    #[must_use]
    pub fn moved_from(mut self, sequence: Sequence) -> Self {
        self.moved = Some(sequence);
        self.flags = self.flags.with(Flags::MOVED, true);
        self
    }

    #[must_use]
    pub(crate) fn knowing(mut self, known: KnownRows) -> Self {
        self.known = known;
        self
    }

    /// Bytes that it takes in a frame.
    pub fn bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.subject_bytes + self.hash_bytes() + self.payload_bytes as usize
    }

    fn hash_bytes(&self) -> usize {
        block_count(self.payload_bytes) * size_of::<Digest>()
    }

    /// Bytes of its payload.
    pub const fn payload_bytes(&self) -> u32 {
        self.payload_bytes
    }

    /// Appends the record to a frame. Parts of its payload that are written from their own place join
    /// `direct`, with their position in the frame.
    fn put<'a>(
        &'a self,
        frame: &mut Writer,
        seed: Seed,
        sequence: Sequence,
        direct: &mut Vec<(usize, &'a Bytes)>,
    ) {
        let start = frame.len();
        self.subject.put(frame.zeros(RECORD_HEADER_BYTES));
        let subject_end = start + RECORD_HEADER_BYTES + self.subject_bytes;
        assert!(frame.len() == subject_end, "a subject is as long as it said");
        let payload_start = frame.zeros(self.hash_bytes()).len();
        let is_copied = self.payload_bytes as usize <= COPIED_PAYLOAD_BYTES_MAX;
        for buffer in &self.payload {
            if is_copied || buffer.len() < COPY_BELOW {
                frame.raw(buffer);
            } else {
                direct.push((frame.len(), buffer));
            }
        }
        let (before, payload) = frame.as_mut_slice().split_at_mut(payload_start);
        let (before, hashes) = before.split_at_mut(subject_end);
        if is_copied {
            hash_blocks(payload, hashes);
        } else {
            hashes.copy_from_slice(&block_hashes(&self.payload));
        }
        let header = RecordHeader {
            kind: self.subject.kind(),
            flags: self.flags,
            subject_bytes: u16::try_from(self.subject_bytes).expect("subjects fit a u16"),
            payload_bytes: self.payload_bytes,
            sequence: self.moved.unwrap_or(sequence),
            crc: 0,
        };
        let (header_bytes, subject) = before[start..].split_at_mut(RECORD_HEADER_BYTES);
        header_bytes.copy_from_slice(&header.encode(seed, subject, hashes));
    }
}

/// Where the records of a frame were written, in their order.
pub type RecordPlaces = SmallVec<[RecordPlace; 4]>;

/// Where a record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// Original sequence of the record.
    pub sequence: Sequence,
    /// The sequence of its place.
    pub placed: Sequence,
    /// The place.
    pub place: RecordLocation,
}

/// Why a batch was not written.
#[derive(Debug)]
pub enum AppendError {
    /// Space is short. No crash brings the batch back.
    Full,
    /// The disk refuses for the moment. No crash brings the batch back.
    Busy,
    /// The batch was refused, and could not be taken back: a crash may find it whole.
    Undecided(io::Error),
    /// The disk failed; what is on it is unknown.
    Fatal(io::Error),
}

impl AppendError {
    /// Of a call that left nothing behind.
    fn of(error: io::Error) -> Self {
        match FaultClass::of(&error) {
            FaultClass::Full => Self::Full,
            FaultClass::Busy => Self::Busy,
            FaultClass::Fatal => Self::Fatal(error),
        }
    }
}

/// The segment that is written to.
#[derive(Debug, Clone)]
pub struct TailSegment {
    /// The segment.
    pub segment: Arc<Segment>,
    /// File of the segment, for writing.
    pub file: Arc<dyn DiskFile>,
    /// Bytes that the file has, durably where frames are: no frame reaches behind them.
    pub length: u64,
}

/// Guarantees that a new segment's header repeats, besides its place in the chain.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeaderPromises {
    /// The promise bound.
    pub bound: Ballot,
    /// The ballot floor.
    pub floor: Ballot,
    /// The data floor.
    pub data_floor: Timestamp,
}

/// The writing end of the log.
#[derive(Debug)]
pub struct Log {
    volume: VolumeId,
    segment_bytes: u64,
    sync: bool,
    clock: Arc<dyn Clock>,
    segments: Arc<Segments>,
    spares: Arc<SpareSegments>,
    tail: Option<TailSegment>,
    highest: u64,
    previous: u64,
    /// Where the frames of the tail end; without a tail, those of the segment before.
    offset: u64,
    /// Whether a segment was begun since the log was opened.
    has_begun: bool,
    /// The record about the segment before that the tail's first frame still has to hold.
    unsaid: Option<Subject>,
    next: Sequence,
    sync_us: u64,
    /// The last frame: its room is used again. A frame's limit is its own.
    scratch: Writer,
}

/// Where the log's writing end stands when it is made.
#[derive(Debug)]
pub struct Tail {
    /// The segment that goes on; `None` begins a new one.
    pub segment: Option<TailSegment>,
    /// The highest segment number ever seen.
    pub number: u64,
    /// The segment before the one that begins, and its end; or where the one that goes on ends.
    pub previous: u64,
    /// See `previous`.
    pub end: u64,
    /// The next sequence.
    pub next: Sequence,
}

impl Log {
    /// Makes the writing end.
    pub fn new(
        volume: VolumeId,
        segment_bytes: u64,
        sync: bool,
        clock: Arc<dyn Clock>,
        segments: Arc<Segments>,
        spares: Arc<SpareSegments>,
        tail: &Tail,
    ) -> Self {
        Self {
            volume,
            segment_bytes,
            sync,
            clock,
            segments,
            spares,
            tail: tail.segment.clone(),
            highest: tail.number,
            previous: tail.previous,
            offset: tail.end,
            has_begun: false,
            unsaid: None,
            next: tail.next,
            sync_us: 0,
            scratch: Writer::new(),
        }
    }

    /// The sequence that the next record gets.
    pub const fn next(&self) -> Sequence {
        self.next
    }

    fn tail_number(&self) -> Option<u64> {
        self.tail.as_ref().map(|tail| tail.segment.number)
    }

    /// The segments whose end no durable record names yet: the one that is written to, and the one before as
    /// long as no frame of the next one is written.
    pub fn unsealed(&self) -> impl Iterator<Item = u64> {
        let before = (self.tail.is_none() || self.unsaid.is_some()).then_some(self.previous);
        self.tail_number().into_iter().chain(before)
    }

    /// How long the last sync took; `None` when frames are not synced.
    pub fn sync_us(&self) -> Option<u64> {
        self.sync.then_some(self.sync_us)
    }

    /// Bytes of records that a batch may hold before what rides along joins it: with that it fits a frame.
    pub fn batch_bytes_max(&self) -> usize {
        let quarter = usize::try_from(self.segment_bytes / 4).unwrap_or(usize::MAX);
        (quarter - limits::FRAME_ALIGN).min(self.frame_bytes_max() - RIDE_ALONG_BYTES)
    }

    /// Bytes of records that one frame can hold, with room for what rolling adds.
    pub fn frame_bytes_max(&self) -> usize {
        let segment = usize::try_from(self.segment_bytes).unwrap_or(usize::MAX);
        segment.min(limits::FRAME_BYTES_MAX) - 3 * limits::FRAME_ALIGN
    }

    /// Bytes of payload that one record may have.
    pub fn record_payload_max(&self) -> usize {
        let segment = usize::try_from(self.segment_bytes).unwrap_or(usize::MAX);
        let whole = segment.min(limits::FRAME_BYTES_MAX);
        // A record alone in a segment: what no frame holds, what must ride along, the record's own header
        // and hashes, an MRF entry with its row.
        whole - whole / 1024 - 12 * limits::FRAME_ALIGN
    }

    /// Whether a frame with these records stands in the segment that is written to, and not in a new one.
    /// None ends where the file does.
    fn goes_on(&self, records: &[NewRecord]) -> bool {
        self.tail.is_some() && self.offset + padded(records) < self.segment_bytes
    }

    /// The segments of which a frame with these records may have to say where they end.
    pub fn may_seal(&self, records: &[NewRecord]) -> impl Iterator<Item = u64> {
        let goes_on = self.goes_on(records) && self.unsaid.is_none();
        self.unsealed().filter(move |_| !goes_on)
    }

    /// Writes one frame with all of `records`, durably. Where a new segment begins, a record about
    /// the old one is put in front. On success there is a place for every record.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn append(
        &mut self,
        records: &mut Vec<NewRecord>,
        promised: HeaderPromises,
    ) -> Result<RecordPlaces, AppendError> {
        assert!(!records.is_empty(), "a frame has records");
        if records.iter().map(NewRecord::bytes).sum::<usize>() > self.frame_bytes_max() {
            // Replay would refuse such a frame: it must not be acknowledged as durable.
            return Err(AppendError::Full);
        }
        let durable = Sequence(self.next.0.saturating_sub(1));
        if !self.goes_on(records) {
            self.roll(promised).map_err(AppendError::of)?;
        }
        if let Some(subject) = &self.unsaid {
            records.insert(0, NewRecord::bare(subject.clone()));
        }
        let tail = self.tail.clone().expect("rolled where there was none");
        let used = FRAME_HEADER_BYTES + records.iter().map(NewRecord::bytes).sum::<usize>();
        let count = u32::try_from(records.len()).expect("a frame's bytes bound its records");
        let header = FrameHeader {
            first: self.next,
            last: Sequence(self.next.0 + u64::from(count) - 1),
            durable,
            used: u32::try_from(used).expect("a frame is at most a few megabytes"),
            records: count,
        };
        assert!(self.offset + header.padded() < self.segment_bytes, "a frame never spans segments");
        let written = self.reserve(header.padded()).and_then(|()| self.write(&tail, &header, records));
        let placed = written.map_err(|error| self.take_back(&tail, error))?;
        self.offset += header.padded();
        self.next = Sequence(header.last.0 + 1);
        self.unsaid = None;
        Ok(placed)
    }

    /// Makes the file as long as the next frame needs it, durably: it is shorter where a frame was taken
    /// back, or where segments were shorter. A crash in a write past its end might leave its end within the
    /// frame, and replay recognises a cut file by this. It is longer than its frames at every moment, on its
    /// way, too: also after a crash that left it at an arbitrary length.
    fn reserve(&mut self, padded: u64) -> io::Result<()> {
        let end = self.offset + padded;
        let Some(tail) = self.tail.as_mut().filter(|tail| tail.length <= end) else { return Ok(()) };
        let mut length = self.segment_bytes;
        if tail.file.allocate(length).is_err() {
            // Where a segment does not fit, a delete may.
            length = end + SHORT_END_BYTES;
            tail.file.truncate(length)?;
            tail.file.allocate(end)?;
        }
        if self.sync {
            tail.file.sync_data()?;
        }
        tail.length = length;
        Ok(())
    }

    /// Takes back what may have been written of a frame, so that no crash brings it back: its records were
    /// not acknowledged, and later answers may contradict them. The frames before it were synced, and stay;
    /// the file does not end with them, or it would look as if it had been cut.
    fn take_back(&mut self, tail: &TailSegment, error: io::Error) -> AppendError {
        if is_fatal(&error) {
            return AppendError::Fatal(error);
        }
        let refused = match SyncFailure::within(&error) {
            Some(_) => AppendError::Full,
            None => AppendError::of(error),
        };
        let length = self.offset + SHORT_END_BYTES;
        let cut = tail.file.truncate(length);
        match cut.and_then(|()| if self.sync { tail.file.sync_data() } else { Ok(()) }) {
            Ok(()) => {}
            Err(error) if is_fatal(&error) => return AppendError::Fatal(error),
            Err(error) => return AppendError::Undecided(error),
        }
        // A segment with frames ends here: the next one's header records that. One without goes on, or each
        // refusal would cost a segment.
        if self.offset > FIRST_FRAME {
            self.previous = tail.segment.number;
            self.tail = None;
        } else if let Some(tail) = &mut self.tail {
            tail.length = length;
        }
        refused
    }

    /// Begins a new segment; nothing changes when it cannot be begun.
    fn roll(&mut self, promised: HeaderPromises) -> io::Result<()> {
        let number = self.highest + 1;
        let (previous, end) = (self.tail_number().unwrap_or(self.previous), self.offset);
        let HeaderPromises { bound, floor, data_floor } = promised;
        let header = SegmentHeader {
            is_synced: self.sync,
            is_longer: self.sync,
            volume: self.volume,
            number,
            first: self.next,
            previous,
            previous_end: end,
            bound,
            floor,
            data_floor,
        };
        // The first one of a writer that does not sync is begun durably, too: behind a segment of one that
        // syncs a file without a header was damaged.
        let (file, path) = self.spares.begin(&header, self.sync || !self.has_begun)?;
        self.has_begun = true;
        let files = Arc::clone(self.segments.files());
        let segment = Arc::new(Segment::new(self.volume, number, self.next, path, files));
        self.segments.insert(Arc::clone(&segment));
        self.unsaid = self.segments.get(previous).map(|old| {
            let last = Sequence(self.next.0.saturating_sub(1));
            Subject::Segment { number: previous, end, first: old.first, last }
        });
        self.tail = Some(TailSegment { segment, file, length: self.segment_bytes });
        self.highest = number;
        self.previous = previous;
        self.offset = FIRST_FRAME;
        Ok(())
    }

    fn write(
        &mut self,
        tail: &TailSegment,
        frame: &FrameHeader,
        records: &[NewRecord],
    ) -> io::Result<RecordPlaces> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let Segment { seed, number, .. } = *tail.segment;
        scratch.raw(&frame.encode(seed, self.offset));
        // Where, in the scratch, a payload goes that is written from its own place.
        let mut direct: Vec<(usize, &Bytes)> = Vec::new();
        let mut placed = RecordPlaces::with_capacity(records.len());
        let mut at = self.offset + FRAME_HEADER_BYTES as u64;
        for (sequence, record) in (frame.first.0..).map(Sequence).zip(records) {
            record.put(&mut scratch, seed, sequence, &mut direct);
            let offset = u32::try_from(at).expect("a segment's offsets fit a u32");
            let bytes = u32::try_from(record.bytes()).expect("a record fits a frame");
            let place = RecordLocation { segment: number, offset, bytes };
            placed.push(RecordPlace { sequence: record.moved.unwrap_or(sequence), placed: sequence, place });
            at += u64::from(bytes);
        }
        let padding = usize::try_from(frame.padded()).expect("a frame is at most a few megabytes")
            - frame.used as usize;
        scratch.zeros(padding);
        let result = self.write_slices(tail, scratch.as_slice(), &direct);
        self.scratch = scratch;
        result.map(|()| placed)
    }

    fn write_slices(
        &mut self,
        tail: &TailSegment,
        scratch: &[u8],
        direct: &[(usize, &Bytes)],
    ) -> io::Result<()> {
        let mut slices: SmallVec<[IoSlice<'_>; 3]> = SmallVec::with_capacity(direct.len() * 2 + 1);
        let mut done = 0;
        for (until, buffer) in direct {
            slices.push(IoSlice::new(&scratch[done..*until]));
            slices.push(IoSlice::new(buffer));
            done = *until;
        }
        slices.push(IoSlice::new(&scratch[done..]));
        tail.file.write_at(&slices, self.offset)?;
        if self.sync {
            let before = self.clock.monotonic_us();
            tail.file.sync_data()?;
            self.sync_us = self.clock.monotonic_us().saturating_sub(before);
        }
        Ok(())
    }
}

/// Whether the disk is not to be trusted any more. A sync that found no room is not that: a filesystem that
/// allocates late dropped the bytes written since the sync before, and reported it.
fn is_fatal(error: &io::Error) -> bool {
    let is_late = SyncFailure::within(error).is_some_and(SyncFailure::is_full);
    !is_late && FaultClass::of(error) == FaultClass::Fatal
}

fn padded(records: &[NewRecord]) -> u64 {
    let used = FRAME_HEADER_BYTES + records.iter().map(NewRecord::bytes).sum::<usize>();
    (used as u64).next_multiple_of(limits::FRAME_ALIGN as u64)
}
