//! Reads the log from a sequence on, and distinguishes a torn tail from rot.
//!
//! A bad frame is a *torn tail* only if it lies in the last segment and no later valid frame's durable-before
//! reaches it: then it was never acknowledged, and the log ends before it. Anything else is *rot*: an
//! acknowledged record is gone. Replay goes on behind it, hands out everything that is readable, and reports
//! what is missing; it never ends the log early. A file that ends within a frame, or where one ends, was cut,
//! for no writer that syncs writes up to the end of its file, or ends it there: that is rot, too. Bytes that
//! the disk cannot read are neither: replay refuses, because they may be readable later; or, if the caller
//! gave up on them, they count as rot in any place. A record whose header is whole and whose payload is not
//! is that record's fault alone, unless it lies in a frame that may be torn.
//!
//! Payloads pass through a window of a fixed size, block by block: what replay holds in memory does not
//! depend on what the records hold.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::id::Sequence;
use sherd_core::limits;

use crate::error::FaultClass;
use crate::format::{
    FRAME_HEADER_BYTES, Flags, FrameHeader, RECORD_HEADER_BYTES, RecordHeader, SegmentHeader, Subject,
    verify_block,
};
use crate::identity::LostRange;
use crate::index::table::{RecordLocation, payload_bytes_needed};
use crate::limits::SUBJECT_BYTES_MAX;
use crate::log::append::RecordPlace;
use crate::log::{FIRST_FRAME, SHORT_END_BYTES, Segment};
use crate::options::UnreadablePolicy;

const PAGE: u64 = limits::FRAME_ALIGN as u64;
/// Bytes read ahead, and the most that is looked at in one piece.
const WINDOW_BYTES: usize = 1 << 20;
const _: () = assert!(WINDOW_BYTES >= limits::HASH_BLOCK_BYTES, "a block is hashed in one piece");
const _: () = assert!(
    WINDOW_BYTES
        >= RECORD_HEADER_BYTES
            + SUBJECT_BYTES_MAX
            + limits::FRAME_BYTES_MAX.div_ceil(limits::HASH_BLOCK_BYTES) * 32,
    "a record is decoded in one piece up to its payload"
);

/// A segment with what its header says.
#[derive(Debug, Clone)]
pub struct HeadedSegment {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Header of the segment; `None` when it is damaged and the frames behind it are not.
    pub header: Option<SegmentHeader>,
}

/// A record as replay found it.
#[derive(Debug, Clone)]
pub struct FoundRecord {
    /// Subject of the record.
    pub subject: Subject,
    /// How it is meant.
    pub flags: Flags,
    /// Where it is.
    pub placed: RecordPlace,
    /// Bytes of its payload.
    pub payload_bytes: u32,
    /// The first bytes of its payload, as many as [`payload_bytes_needed`]; `None` when any of it is rotten.
    pub payload: Option<Bytes>,
}

/// Acknowledged data that is not there any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostData {
    /// Where it was.
    pub range: LostRange,
    /// The first sequence that is missing.
    pub from: Sequence,
}

/// The disk could not read a part of the log: what stands there is not known.
#[derive(Debug, thiserror::Error)]
#[error("read {} at {offset}: {source}", path.display())]
pub struct UnreadableRange {
    /// The segment's file.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// Why not.
    pub source: io::Error,
}

impl UnreadableRange {
    /// Names what could not be read of a segment.
    pub fn new(segment: &Segment, offset: u64, source: io::Error) -> Self {
        Self { path: segment.path.clone(), offset, source }
    }

    /// Whether to go on as if it were rotten. Bytes that a retry may read are never given up.
    ///
    /// # Errors
    /// Itself, when not.
    pub fn judge(self, policy: UnreadablePolicy) -> Result<(), Self> {
        match (policy, FaultClass::of(&self.source)) {
            (UnreadablePolicy::Lose, FaultClass::Fatal) => Ok(()),
            (UnreadablePolicy::Lose, FaultClass::Busy | FaultClass::Full) | (UnreadablePolicy::Refuse, _) => {
                Err(self)
            }
        }
    }
}

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// Where the frames of the last segment end.
    pub end: u64,
    /// The sequence that follows the last one found.
    pub next: Sequence,
    /// Whether something that was never acknowledged lies behind the end.
    pub torn: bool,
    /// Rot of acknowledged data.
    pub lost: Vec<LostData>,
    /// Records handed out.
    pub records: u64,
    /// Ends of segments that nothing named before: what lies behind is judged by their `segment` records.
    pub open_ends: Vec<LostData>,
}

impl ReplayOutcome {
    /// Whether a range was found lost, or may be.
    pub fn has_lost(&self, range: &LostRange) -> bool {
        self.lost.iter().chain(&self.open_ends).any(|lost| lost.range == *range)
    }
}

/// Hands out every record at or above `from`, frame by frame, with the last sequence of the frame. `end_of`
/// gives the ends of segments whose follower compaction has let go; where it has none, the frames in them
/// decide.
///
/// # Errors
/// [`UnreadableRange`] if the policy refuses it, and any error of the visitor.
pub fn replay<E: From<UnreadableRange>>(
    segments: &[HeadedSegment],
    from: Sequence,
    policy: UnreadablePolicy,
    end_of: &dyn Fn(u64) -> Option<u64>,
    visit: &mut dyn FnMut(Vec<FoundRecord>, Sequence) -> Result<(), E>,
) -> Result<ReplayOutcome, E> {
    let mut result = ReplayOutcome {
        end: FIRST_FRAME,
        next: Sequence(1),
        torn: false,
        lost: Vec::new(),
        records: 0,
        open_ends: Vec::new(),
    };
    for (index, headed) in segments.iter().enumerate() {
        let follower = segments.get(index + 1);
        let ends = match follower {
            None => SegmentEnds::Last,
            Some(HeadedSegment { header: Some(next), .. }) if next.previous == headed.segment.number => {
                SegmentEnds::At(next.previous_end)
            }
            Some(_) => end_of(headed.segment.number).map_or(SegmentEnds::Unknown, SegmentEnds::At),
        };
        if let Some(header) = &headed.header {
            result.next = result.next.max(header.first);
        } else {
            let range = LostRange { segment: headed.segment.number, offset: 0, until: Some(FIRST_FRAME) };
            result.lost.push(LostData { range, from: result.next });
        }
        ReplayWalk::new(headed, ends, from, policy)?.run(&mut result, visit)?;
    }
    Ok(result)
}

/// Whether a segment has a frame anywhere: then it was in use, even if its header and first frames are
/// damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundFrames {
    /// At least one frame.
    Yes,
    /// No frame.
    No,
    /// No frame in what can be read.
    Unreadable,
}

/// Looks for a frame of a segment.
///
/// # Errors
/// [`UnreadableRange`] where the policy refuses it.
pub fn find_frames(segment: &Segment, policy: UnreadablePolicy) -> Result<FoundFrames, UnreadableRange> {
    let unreadable = |error| UnreadableRange::new(segment, 0, error);
    let length = segment.file().and_then(|file| file.length()).map_err(unreadable)?;
    let is_unreadable = Rc::new(Cell::new(false));
    let window = ReadWindow::new(segment, policy, &is_unreadable);
    let found = window.header_from(FIRST_FRAME, length, Sequence(0))?;
    Ok(match (found, is_unreadable.get()) {
        (Some(_), _) => FoundFrames::Yes,
        (None, true) => FoundFrames::Unreadable,
        (None, false) => FoundFrames::No,
    })
}

/// How a segment's end is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentEnds {
    /// The next segment's header names it, or the index.
    At(u64),
    /// The last segment of the log.
    Last,
    /// The next segment is gone, or its header is, and the index does not know.
    Unknown,
}

struct ReplayWalk<'a> {
    segment: &'a Segment,
    window: ReadWindow<'a>,
    limit: u64,
    ends: SegmentEnds,
    from: Sequence,
    expected: Option<Sequence>,
    policy: UnreadablePolicy,
    is_synced: bool,
    is_longer: bool,
    is_unreadable: Rc<Cell<bool>>,
}

struct ReplayFrame {
    header: FrameHeader,
    offset: u64,
}

impl<'a> ReplayWalk<'a> {
    fn new(
        headed: &'a HeadedSegment,
        ends: SegmentEnds,
        from: Sequence,
        policy: UnreadablePolicy,
    ) -> Result<Self, UnreadableRange> {
        let segment = headed.segment.as_ref();
        let unreadable = |error| UnreadableRange::new(segment, 0, error);
        let file = segment.file().map_err(unreadable)?;
        let length = file.length().map_err(unreadable)?;
        let limit = match ends {
            // A file that is shorter has lost its end: what is not there cannot be used, like any rot.
            SegmentEnds::At(end) => end,
            SegmentEnds::Last | SegmentEnds::Unknown => length,
        };
        file.evict(0, length);
        let expected = headed.header.as_ref().map(|header| header.first);
        let is_synced = headed.header.as_ref().is_some_and(|header| header.is_synced);
        let is_longer = headed.header.as_ref().is_some_and(|header| header.is_longer);
        let is_unreadable = Rc::new(Cell::new(false));
        let window = ReadWindow::new(segment, policy, &is_unreadable);
        Ok(Self { segment, window, limit, ends, from, expected, policy, is_synced, is_longer, is_unreadable })
    }

    fn run<E: From<UnreadableRange>>(
        mut self,
        result: &mut ReplayOutcome,
        visit: &mut dyn FnMut(Vec<FoundRecord>, Sequence) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut offset = FIRST_FRAME;
        while offset < self.limit {
            let records = self.good_frame(offset)?;
            if let Some((frame, records)) = records {
                if frame.header.last >= self.from {
                    result.records += records.len() as u64;
                    visit(records, frame.header.last)?;
                }
                result.next = result.next.max(Sequence(frame.header.last.0 + 1));
                self.expected = Some(Sequence(frame.header.last.0 + 1));
                offset += frame.header.padded();
                continue;
            }
            let expected = self.expected.unwrap_or(result.next);
            let later = self.next_header(offset, expected)?;
            if !self.goes_on(offset, expected, later.as_ref(), result)? {
                break;
            }
            let Some(frame) = later else { break };
            if frame.offset == offset && frame.header.first == expected {
                // The frame's header is good and its records are not: skip it as a whole.
                self.expected = Some(Sequence(frame.header.last.0 + 1));
                offset += frame.header.padded();
            } else {
                self.expected = Some(frame.header.first);
                offset = frame.offset;
            }
            result.next = result.next.max(self.expected.unwrap_or(expected));
        }
        if offset >= self.limit {
            let from = self.expected.unwrap_or(result.next);
            let range = LostRange { segment: self.segment.number, offset, until: None };
            match self.ends {
                SegmentEnds::Last if self.is_longer => result.lost.push(LostData { range, from }),
                // As far as the file goes; its `segment` record shows whether that is its end.
                SegmentEnds::Unknown => result.open_ends.push(LostData { range, from }),
                SegmentEnds::Last | SegmentEnds::At(_) => {}
            }
        }
        result.end = offset.min(self.limit).max(FIRST_FRAME);
        Ok(())
    }

    /// Judges what cannot be used at `offset`, and says whether the walk goes on behind it.
    fn goes_on(
        &self,
        offset: u64,
        expected: Sequence,
        later: Option<&ReplayFrame>,
        result: &mut ReplayOutcome,
    ) -> Result<bool, UnreadableRange> {
        let segment = self.segment.number;
        let lost = LostData { range: LostRange { segment, offset, until: None }, from: expected };
        if self.is_cut(offset, expected)? {
            result.lost.push(lost);
            return Ok(false);
        }
        let Some(frame) = later else {
            match self.ends {
                SegmentEnds::At(_) => result.lost.push(lost),
                // Unreadable bytes may have been acknowledged.
                SegmentEnds::Last | SegmentEnds::Unknown if self.is_unreadable.get() => {
                    result.lost.push(lost);
                }
                SegmentEnds::Unknown => result.open_ends.push(lost),
                SegmentEnds::Last => {}
            }
            return Ok(false);
        };
        let bad_itself = frame.offset == offset && frame.header.first == expected;
        let (missing_end, until) = if bad_itself {
            (frame.header.last.0 + 1, offset + frame.header.padded())
        } else {
            (frame.header.first.0, frame.offset)
        };
        let proven = match self.ends {
            SegmentEnds::At(_) => true,
            SegmentEnds::Last | SegmentEnds::Unknown if bad_itself => self.reached(frame, expected)?,
            SegmentEnds::Last | SegmentEnds::Unknown => frame.header.durable >= expected,
        };
        if !proven && !self.is_unreadable.get() {
            // Behind the end of a segment that is not the last, this is what a crash left long ago,
            // or rot of its last frame: its `segment` record will tell.
            if self.ends == SegmentEnds::Unknown {
                let range = LostRange { segment, offset, until: None };
                result.open_ends.push(LostData { range, from: expected });
            } else {
                result.torn = true;
            }
            return Ok(false);
        }
        if missing_end > self.from.0.max(expected.0) {
            let range = LostRange { segment, offset, until: Some(until) };
            result.lost.push(LostData { range, from: expected });
        }
        Ok(true)
    }

    /// Whether the log's last file ends within the frame at `offset`. Spares and recycled segments hold no
    /// frame of this sequence. One that ends with its frames is judged behind the last of them.
    fn is_cut(&self, offset: u64, expected: Sequence) -> Result<bool, UnreadableRange> {
        let left = usize::try_from(self.limit.saturating_sub(offset)).unwrap_or(usize::MAX);
        let is_made_short = self.is_longer && left as u64 == SHORT_END_BYTES;
        if self.ends != SegmentEnds::Last || !self.is_synced || is_made_short {
            return Ok(false);
        }
        let mut window = ReadWindow::new(self.segment, self.policy, &self.is_unreadable);
        let Some(bytes) = window.get(offset, left.min(FRAME_HEADER_BYTES))? else { return Ok(false) };
        Ok(match FrameHeader::decode(bytes, self.segment.seed, offset) {
            Ok(header) => header.first == expected && header.padded() > left as u64,
            // No file of ours ends so soon behind a frame, with any last record.
            Err(_) => left < FRAME_HEADER_BYTES && bytes.iter().any(|byte| *byte != 0),
        })
    }

    /// Whether a frame behind this one records that `expected` was durable.
    fn reached(&self, frame: &ReplayFrame, expected: Sequence) -> Result<bool, UnreadableRange> {
        let mut offset = frame.offset + PAGE;
        while offset < self.limit {
            let Some(later) = self.header_from(offset, self.limit, frame.header.last)? else {
                return Ok(false);
            };
            if later.header.durable >= expected && later.header.first > frame.header.last {
                return Ok(true);
            }
            offset = later.offset + PAGE;
        }
        Ok(false)
    }

    /// The next frame at or behind `offset`. At the end of the log this looks through the rest of the
    /// segment, so that no stretch of rot, however long, passes for its end.
    fn next_header(&self, offset: u64, expected: Sequence) -> Result<Option<ReplayFrame>, UnreadableRange> {
        self.header_from(offset, self.limit, expected)
    }

    fn header_from(
        &self,
        offset: u64,
        limit: u64,
        least: Sequence,
    ) -> Result<Option<ReplayFrame>, UnreadableRange> {
        ReadWindow::new(self.segment, self.policy, &self.is_unreadable).header_from(offset, limit, least)
    }

    /// The frame at `offset` with its records from `from` on, when all of it is what was written;
    /// rotten payloads pass where a later frame proves that this one was acknowledged.
    fn good_frame(
        &mut self,
        offset: u64,
    ) -> Result<Option<(ReplayFrame, Vec<FoundRecord>)>, UnreadableRange> {
        let Some(header) = self.window.get(offset, FRAME_HEADER_BYTES)? else { return Ok(None) };
        let Ok(header) = FrameHeader::decode(header, self.segment.seed, offset) else { return Ok(None) };
        if self.expected.is_some_and(|expected| expected != header.first)
            || header.padded() > self.limit - offset
        {
            return Ok(None);
        }
        let frame = ReplayFrame { header, offset };
        if frame.header.last < self.from {
            return Ok(Some((frame, Vec::new())));
        }
        let Some((records, intact)) = self.records(&frame)? else { return Ok(None) };
        let settled =
            intact || matches!(self.ends, SegmentEnds::At(_)) || self.reached(&frame, frame.header.first)?;
        Ok(settled.then_some((frame, records)))
    }

    fn records(&mut self, frame: &ReplayFrame) -> Result<Option<(Vec<FoundRecord>, bool)>, UnreadableRange> {
        let mut found = Vec::new();
        let mut at = frame.offset + FRAME_HEADER_BYTES as u64;
        let end = frame.offset + u64::from(frame.header.used);
        let mut all_intact = true;
        for sequence in (frame.header.first.0..=frame.header.last.0).map(Sequence) {
            let Some(record) = self.record(at, end, sequence)? else { return Ok(None) };
            all_intact &= record.payload.is_some();
            at += u64::from(record.placed.place.bytes);
            if sequence >= self.from {
                found.push(record);
            }
        }
        Ok((at == end).then_some((found, all_intact)))
    }

    fn record(
        &mut self,
        at: u64,
        end: u64,
        sequence: Sequence,
    ) -> Result<Option<FoundRecord>, UnreadableRange> {
        let Some(fixed) = self.window.get(at, RECORD_HEADER_BYTES)? else { return Ok(None) };
        let Ok(header) = RecordHeader::decode(fixed) else { return Ok(None) };
        let place = (u32::try_from(at), u32::try_from(header.record_bytes()));
        let (Ok(offset), Ok(bytes)) = place else { return Ok(None) };
        if at + u64::from(bytes) > end {
            return Ok(None);
        }
        let Some(before) = self.window.get(at, header.payload_offset())? else { return Ok(None) };
        // A copy: what is kept of the record must not keep the window.
        let before = Bytes::copy_from_slice(before);
        let Ok((subject, hashes)) = header.open(self.segment.seed, &before) else { return Ok(None) };
        let in_order = if header.flags.has(Flags::MOVED) {
            header.sequence < sequence
        } else {
            header.sequence == sequence
        };
        let needed = payload_bytes_needed(&subject, header.payload_bytes);
        let payload_at = at + before.len() as u64;
        let read = self.payload(payload_at, header.payload_bytes, &hashes, needed)?;
        let Some((is_intact, kept)) = read else { return Ok(None) };
        let place = RecordLocation { segment: self.segment.number, offset, bytes };
        let found = FoundRecord {
            subject,
            flags: header.flags,
            placed: RecordPlace { sequence: header.sequence, placed: sequence, place },
            payload_bytes: header.payload_bytes,
            payload: is_intact.then_some(kept),
        };
        Ok(in_order.then_some(found))
    }

    fn payload(
        &mut self,
        at: u64,
        length: u32,
        hashes: &[u8],
        needed: u32,
    ) -> Result<Option<(bool, Bytes)>, UnreadableRange> {
        let mut kept = Vec::with_capacity(needed as usize);
        let mut is_intact = true;
        let mut left = length as usize;
        for (index, offset) in (at..at + u64::from(length)).step_by(limits::HASH_BLOCK_BYTES).enumerate() {
            let block = self.window.get(offset, left.min(limits::HASH_BLOCK_BYTES))?;
            let Some(block) = block else { return Ok(None) };
            is_intact &= verify_block(hashes, index, block);
            left -= block.len();
            let wanted = (needed as usize).saturating_sub(kept.len()).min(block.len());
            kept.extend(block.iter().take(wanted));
        }
        Ok(Some((is_intact, kept.into())))
    }
}

/// Bytes of a segment, read ahead.
struct ReadWindow<'a> {
    segment: &'a Segment,
    policy: UnreadablePolicy,
    /// Whether something could not be read, of all windows of a walk.
    is_unreadable: Rc<Cell<bool>>,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> ReadWindow<'a> {
    fn new(segment: &'a Segment, policy: UnreadablePolicy, is_unreadable: &Rc<Cell<bool>>) -> Self {
        Self { segment, policy, is_unreadable: Rc::clone(is_unreadable), start: 0, bytes: Vec::new() }
    }

    /// A range; `None` behind the end of the file. Where it could not be read and the policy bears that,
    /// nothing, and the walk remembers it.
    fn get(&mut self, offset: u64, length: usize) -> Result<Option<&[u8]>, UnreadableRange> {
        if self.held(offset, length).is_none() {
            // Where the range is readable, what cannot be read behind it is not its fault.
            let read = self.read(offset, length.max(WINDOW_BYTES)).or_else(|_| self.read(offset, length));
            if let Err(error) = read {
                UnreadableRange::new(self.segment, offset, error).judge(self.policy)?;
                self.is_unreadable.set(true);
            }
        }
        Ok(self.held(offset, length))
    }

    /// The next good header of a frame at or behind `offset`, of those that begin at a sequence at least.
    fn header_from(
        mut self,
        mut offset: u64,
        limit: u64,
        least: Sequence,
    ) -> Result<Option<ReplayFrame>, UnreadableRange> {
        while offset < limit {
            let seed = self.segment.seed;
            let bytes = self.get(offset, FRAME_HEADER_BYTES)?.unwrap_or_default();
            if let Ok(header) = FrameHeader::decode(bytes, seed, offset)
                && header.first >= least
            {
                return Ok(Some(ReplayFrame { header, offset }));
            }
            offset += PAGE;
        }
        Ok(None)
    }

    /// Holds what is read, and nothing when it cannot be read.
    fn read(&mut self, offset: u64, wanted: usize) -> io::Result<()> {
        self.start = offset;
        self.bytes.resize(wanted, 0);
        let read = self.segment.file().and_then(|file| file.read_at(&mut self.bytes, offset));
        self.bytes.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop)
    }

    fn held(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(start..start.checked_add(length)?)
    }
}
