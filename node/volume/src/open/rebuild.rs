//! Restores a volume's state: the index as it was persisted, and the log from there; or, if the index cannot
//! be used, the whole log.
//!
//! ```text
//! sync the segments -> replay: gather changes -> apply -> flush by bytes ... -> judge what is lost
//! ```
//! Memory is bounded, so a long replay flushes the index on its way. Until its outcome is noted the index
//! records where it began: after an interrupted open the next one judges again from there, and batches that
//! are in the index already are not applied twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::id::Sequence;

use crate::disk::{Disk, OpenMode};
use crate::error::{FaultClass, OpenError, SyncFailure};
use crate::format::{SegmentHeader, Subject};
use crate::identity::LostRange;
use crate::index::table::{Payload, RecordLocation, STATE};
use crate::index::{Index, IndexError};
use crate::limits::MERGES_MAX;
use crate::limits::{REBUILD_CHANGES_MAX, REWRITTEN_SEGMENTS_MAX};
use crate::log::append::{KnownRows, Tail, TailSegment};
use crate::log::replay::{FoundRecord, HeadedSegment, LostData, ReplayOutcome, UnreadableRange, replay};
use crate::log::{FIRST_FRAME, Segments, segment_path};
use crate::open::damage::RottenRecords;
use crate::open::locate::{
    LocatedSegments, LogFiles, UnusedFile, find_segments, first_needed, has_hole, refuse_misnamed,
};
use crate::open::report::{IndexSource, OpenReport, RemovedFile};
use crate::options::UnreadablePolicy;
use crate::state::apply::{Changes, DerivedState, EntryBatch, WrittenRecord, as_index_changes, decode_entry};
use crate::state::{SealedSegment, SmallState};

pub(crate) struct RestoredState {
    pub(crate) index: Arc<dyn Index>,
    pub(crate) small: SmallState,
    pub(crate) derived: DerivedState,
    pub(crate) tail: Tail,
    pub(crate) report: OpenReport,
    pub(crate) rotten: RottenRecords,
    /// Acknowledged state is gone, and why.
    pub(crate) lost: Option<String>,
    /// Ranges missing in the log that need no other life than the current one, or the one that begins now.
    pub(crate) noted_losses: Vec<LostRange>,
    /// Segments that are kept beside a loss, and whose records are lost.
    pub(crate) unnamed: Vec<Subject>,
    /// The index has on disk a part of a replay whose end it does not know.
    pub(crate) is_flushed: bool,
}

enum IndexUnfit {
    Index(IndexError),
    Behind,
    /// The log cannot be read, or made durable.
    Log(OpenError),
}

impl From<UnreadableRange> for IndexUnfit {
    fn from(unreadable: UnreadableRange) -> Self {
        Self::Log(unreadable.into())
    }
}

impl From<IndexError> for IndexUnfit {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

struct IndexTry {
    index: Arc<dyn Index>,
    rebuilt: Option<String>,
    replayed: ReplayOutcome,
    small: SmallState,
    derived: DerivedState,
    rotten: RottenRecords,
    persisted: Option<Sequence>,
    /// Whether it has seen the whole log.
    is_complete: bool,
}

/// Restores a volume. `segments` gets every segment that is kept.
pub(crate) fn restore(
    files: &LogFiles<'_>,
    segments: &Segments,
    source: &mut dyn IndexSource,
) -> Result<RestoredState, OpenError> {
    let LogFiles { disk, path: log, .. } = *files;
    let located = find_segments(files, segments)?;
    let IndexTry { index, rebuilt, replayed, mut small, derived, rotten, persisted, is_complete } =
        fill_index(files, &located, source)?;
    let LocatedSegments { mut headed, discarded, highest, misnamed: _ } = located;
    for one in &headed {
        if let Some(header) = &one.header {
            small.bound = small.bound.max(header.bound);
            small.floor = small.floor.max(header.floor);
            small.data_floor = small.data_floor.max(header.data_floor);
        }
    }
    let lost = judge_loss(&headed, &replayed, &small, persisted, files);
    let mut noted_losses = files.noted_losses.to_vec();
    if is_complete {
        // Ranges that can be read again are relied on again.
        noted_losses.retain(|range| replayed.has_lost(range));
    }
    if lost.is_some() {
        let new_losses =
            ranges_of_a_life(&index, &headed, &replayed).map_err(|error| index_error(error, log))?;
        noted_losses.extend(new_losses.into_iter().filter(|range| !files.noted_losses.contains(range)));
    }
    let unnamed = if lost.is_some() { unnamed_of(&headed, &replayed, &small) } else { Vec::new() };
    let (empty, end) = cut_empty(&mut headed, &replayed, lost.is_some());
    let mut report = OpenReport {
        replayed_records: replayed.records,
        torn_tail: replayed.torn,
        index_rebuilt: rebuilt,
        ..OpenReport::default()
    };
    report.torn_tail |= !discarded.is_empty() || empty.is_some();
    // Where something is lost, the records that say what is kept may be lost too, and half a segment may be
    // what rot left of a whole one.
    if lost.is_none() {
        report.removed = tidy(disk, log, &mut headed, &discarded, empty, &small)?;
    }
    for one in &headed {
        segments.insert(Arc::clone(&one.segment));
    }
    let next = replayed.next.max(Sequence(persisted.map_or(1, |persisted| persisted.0 + 1)));
    let is_whole = !replayed.torn && lost.is_none() && discarded.is_empty() && empty.is_none();
    // A fact about a segment whose file is gone must not be applied to another segment.
    let known = files.noted_losses.iter().map(|range| range.segment).chain(small.segments.keys().copied());
    let highest = known.fold(highest, u64::max);
    let tail = tail_of(files, &headed, end, highest, next, is_whole)?;
    let is_flushed = index.persisted() != persisted || derived.was_cut_short();
    Ok(RestoredState { index, small, derived, tail, report, rotten, lost, noted_losses, unnamed, is_flushed })
}

/// Replays the log into the index, or into an empty one where that does not do, and why not.
///
/// The ends of segments whose follower is gone stand in the log or in the index. An empty index gets them
/// during the replay, too late for earlier segments: if that would be a loss, the log is replayed once more,
/// with the ends that it named.
fn fill_index(
    files: &LogFiles<'_>,
    located: &LocatedSegments,
    source: &mut dyn IndexSource,
) -> Result<IndexTry, OpenError> {
    let headed = &located.headed;
    let reset = |source: &mut dyn IndexSource,
                 reason: Option<String>,
                 ends: &BTreeMap<u64, SealedSegment>| {
        let index = source.reset().map_err(|error| index_error(error, files.path))?;
        let done = attempt(index, headed, files, true, ends).map_err(|unfit| match unfit {
            IndexUnfit::Index(error) => index_error(error, files.path),
            IndexUnfit::Log(error) => error,
            IndexUnfit::Behind => unreachable!("an empty index lacks everything and is fed the whole log"),
        })?;
        Ok(IndexTry { rebuilt: reason, ..done })
    };
    let unknown = BTreeMap::new();
    let opened = source.open().map_err(IndexUnfit::Index);
    refuse_misnamed(files, located, opened.as_ref().ok())?;
    let done = match opened.and_then(|index| attempt(index, headed, files, false, &unknown)) {
        Ok(done) => done,
        Err(unfit) => reset(source, Some(reason_to_rebuild(unfit, files)?), &unknown)?,
    };
    // A rebuild that an interruption cut short has some of it in the index, and begins with the first record
    // again.
    if !done.is_complete || cut_segments(&done.replayed, &done.small).next().is_none() {
        return Ok(done);
    }
    let IndexTry { index, small, rebuilt, .. } = done;
    drop(index);
    reset(source, rebuilt, &small.segments)
}

/// Where segments stop before the end that their `segment` record names.
fn cut_segments<'a>(
    replayed: &'a ReplayOutcome,
    small: &'a SmallState,
) -> impl Iterator<Item = &'a LostData> {
    replayed.open_ends.iter().filter(|open| {
        let ends = small.segments.get(&open.range.segment).map(|sealed| sealed.end);
        ends.is_some_and(|end| end > open.range.offset)
    })
}

/// Reason to wipe the index: it is proven to be useless, or the device was given long enough to read it. An
/// error that a later try can mend keeps it.
fn reason_to_rebuild(unfit: IndexUnfit, files: &LogFiles<'_>) -> Result<String, OpenError> {
    let error = match unfit {
        IndexUnfit::Behind => return Ok("it lacks what the log has let go".to_owned()),
        IndexUnfit::Log(error) => return Err(error),
        IndexUnfit::Index(error) => error,
    };
    match (&error, files.policy) {
        (IndexError::Damaged { .. } | IndexError::Misused { .. }, _)
        | (IndexError::Unavailable { class: FaultClass::Fatal, .. }, UnreadablePolicy::Lose) => {
            Ok(error.to_string())
        }
        (IndexError::Unavailable { .. } | IndexError::Full, _) => Err(index_error(error, files.path)),
    }
}

pub(crate) fn index_error(error: IndexError, path: &Path) -> OpenError {
    let path = path.to_owned();
    match &error {
        IndexError::Damaged { .. } | IndexError::Misused { .. } => {
            OpenError::Damaged { path, what: error.to_string() }
        }
        IndexError::Unavailable { class: FaultClass::Fatal, .. } => {
            OpenError::Unreadable { path, offset: 0, source: io::Error::other(error) }
        }
        IndexError::Unavailable { .. } | IndexError::Full => {
            OpenError::Io { op: "open the index of", path, source: io::Error::other(error) }
        }
    }
}

fn attempt(
    index: Arc<dyn Index>,
    headed: &[HeadedSegment],
    files: &LogFiles<'_>,
    is_rebuild: bool,
    ends: &BTreeMap<u64, SealedSegment>,
) -> Result<IndexTry, IndexUnfit> {
    let persisted = index.persisted();
    let mut derived = DerivedState::load(index.as_ref(), files.missed_rows_max)?;
    // An interrupted open published nothing; its findings are made again.
    let began = derived.replay_from();
    let unseen = Sequence(persisted.map_or(1, |persisted| persisted.0 + 1));
    let from = began.unwrap_or(unseen);
    let start = first_needed(headed, from);
    let needed = headed.get(start..).unwrap_or(&[]);
    let is_rebuild = is_rebuild || began == Some(Sequence(1));
    // The index does not lack segments that it covers, although compaction has let them go since: before its
    // position only evidence of rot is looked for, and segments that are gone were not needed.
    let lacking = headed.get(first_needed(headed, unseen)..).unwrap_or(&[]);
    if !is_rebuild && has_hole(lacking, unseen) {
        return Err(IndexUnfit::Behind);
    }
    let sealed = SmallState::load(index.as_ref(), derived.highest())?.segments;
    let end_of = |number: u64| sealed.get(&number).or_else(|| ends.get(&number)).map(|sealed| sealed.end);
    sync(headed, start)?;
    derived.begin_replay(from);
    let mut feed = IndexFeed {
        index: &index,
        derived,
        changes: Changes::default(),
        persisted,
        gathered: None,
        gathered_bytes: 0,
        replay_bytes: files.replay_bytes,
        rotten: RottenRecords::default(),
    };
    let mut visit = |frame: Vec<FoundRecord>, last| feed.frame(&frame, last).map_err(IndexUnfit::Index);
    let replayed = replay(needed, from, files.policy, &end_of, &mut visit)?;
    let (derived, rotten) = feed.finish()?;
    let small = SmallState::load(index.as_ref(), derived.highest())?;
    let is_complete = from == Sequence(1);
    Ok(IndexTry { index, rebuilt: None, replayed, small, derived, rotten, persisted, is_complete })
}

/// Makes segments durable, before any of their records are in a flushed index and before any call is
/// answered: a process that did not sync, or that died before it did, may have left them in memory alone.
/// Segments of a writer that syncs, before those that are replayed, are durable. Only clean pages leave the
/// page cache, so that replay, which begins with the segment at `replayed`, reads it from the device.
fn sync(headed: &[HeadedSegment], replayed: usize) -> Result<(), IndexUnfit> {
    let is_durable = |one: &HeadedSegment| one.header.as_ref().is_some_and(|header| header.is_synced);
    for (index, one) in headed.iter().enumerate() {
        if index < replayed && is_durable(one) {
            continue;
        }
        let path = &one.segment.path;
        one.segment.file().and_then(|file| file.sync_data()).map_err(|source| {
            let is_full = SyncFailure::within(&source).is_some_and(SyncFailure::is_full);
            IndexUnfit::Log(if is_full && index >= replayed {
                // Bytes that found no space were never synced: the next replay reads the device's content.
                OpenError::Io { op: "sync", path: path.clone(), source }
            } else {
                OpenError::refused("sync", path, source)
            })
        })?;
    }
    Ok(())
}

/// Feeds an index with what replay finds, a bounded number of changes at a time.
struct IndexFeed<'a> {
    index: &'a Arc<dyn Index>,
    derived: DerivedState,
    changes: Changes,
    /// Up to here the index has everything.
    persisted: Option<Sequence>,
    /// The last sequence of what is gathered.
    gathered: Option<Sequence>,
    gathered_bytes: u64,
    replay_bytes: u64,
    rotten: RottenRecords,
}

impl IndexFeed<'_> {
    fn frame(&mut self, records: &[FoundRecord], last: Sequence) -> Result<(), IndexError> {
        if self.changes.len() >= REBUILD_CHANGES_MAX || self.gathered_bytes >= self.replay_bytes / 4 {
            self.apply()?;
            self.flush_by_bytes()?;
        }
        for found in records.iter().filter(|found| found.payload.is_none()) {
            self.rotten.add(found, self.replay_bytes / 4);
        }
        let is_new = |sequence| self.persisted.is_none_or(|persisted| sequence > persisted);
        let mut batch = EntryBatch::new(self.index, &mut self.derived, &mut self.changes);
        for found in records.iter().filter(|found| is_new(found.placed.placed)) {
            let payload_bytes = found.payload.as_ref().map_or(0, Bytes::len);
            self.gathered_bytes += (found.subject.encoded_bytes() + payload_bytes) as u64;
            batch.record(&WrittenRecord {
                subject: &found.subject,
                flags: found.flags,
                payload: Payload {
                    length: found.payload_bytes,
                    intact: found.payload.as_ref().map(std::slice::from_ref),
                },
                placed: found.placed,
                known: &KnownRows::Nothing,
                hinted: None,
            })?;
        }
        if is_new(last) {
            self.gathered = Some(last);
        }
        Ok(())
    }

    fn apply(&mut self) -> Result<(), IndexError> {
        let Some(last) = self.gathered.take() else { return Ok(()) };
        self.gathered_bytes = 0;
        let changes = std::mem::take(&mut self.changes);
        self.index.apply(as_index_changes(changes, &mut self.derived, last), last)
    }

    /// A frame follows, so that the last one is never flushed before the end of the replay is noted.
    fn flush_by_bytes(&self) -> Result<(), IndexError> {
        if self.index.pending_bytes() < self.replay_bytes {
            return Ok(());
        }
        match self.flush_and_merge() {
            // The log has everything; it is flushed when there is space again.
            Err(IndexError::Full) => Ok(()),
            other => other,
        }
    }

    fn flush_and_merge(&self) -> Result<(), IndexError> {
        self.index.flush()?;
        for _ in 0..MERGES_MAX {
            if !self.index.compact()? {
                break;
            }
        }
        Ok(())
    }

    /// Rotten records are evidence: if there are any, the replay ends only when they are queued.
    fn finish(mut self) -> Result<(DerivedState, RottenRecords), IndexError> {
        if self.rotten.named.is_empty() {
            self.derived.end_replay();
        }
        self.apply()?;
        Ok((self.derived, self.rotten))
    }
}

fn judge_loss(
    headed: &[HeadedSegment],
    replayed: &ReplayOutcome,
    small: &SmallState,
    persisted: Option<Sequence>,
    files: &LogFiles<'_>,
) -> Option<String> {
    if headed.is_empty() && files.is_whole {
        return Some("the log has no segment".to_owned());
    }
    // A replay may begin before a loss that already cost a life: for the evidence of rot before it.
    let rows_after_loss = small.recovery.map(|recovery| recovery.rows_after);
    let is_behind = |lost: &LostData| {
        let is_known = files.is_whole && files.noted_losses.contains(&lost.range);
        let is_in_index = persisted.is_some_and(|persisted| lost.from <= persisted);
        // If nothing readable was behind a loss, it began with the very sequence that the life begun because
        // of it first wrote, elsewhere.
        rows_after_loss.is_some_and(|rows_after_loss| {
            is_known && lost.from.0 <= rows_after_loss.0.saturating_add(1)
                || is_in_index && lost.from <= rows_after_loss
        })
    };
    let rotten = |LostRange { segment, offset, .. }: LostRange| {
        Some(format!("segment {segment} is rotten at offset {offset}"))
    };
    if let Some(lost) = replayed.lost.iter().find(|lost| !is_behind(lost)) {
        return rotten(lost.range);
    }
    if let Some(persisted) = persisted
        && replayed.next.0 <= persisted.0
    {
        return Some(format!("the log ends before {}, the index knew {}", replayed.next.0, persisted.0));
    }
    if let Some(open) = cut_segments(replayed, small).find(|open| !is_behind(open)) {
        return rotten(open.range);
    }
    let present: BTreeSet<u64> = headed.iter().map(|one| one.segment.number).collect();
    let missing = small.segments.keys().find(|number| !present.contains(number));
    missing.map(|number| format!("segment {number} is missing"))
}

/// Ranges missing in the log that need not be found again once the life that begins because of them has
/// recovered.
///
/// No record that the new life acknowledges is in these ranges, now or later. Its rows lie behind its `phase`
/// record, which is written behind everything found here. State that it keeps (seals, floors, epochs, lives
/// of peers) lies outside of them, because each entry's record is looked for: an entry that only the index
/// has, as when its moved copy was lost, would be gone with the index. Later writes and moved records lie
/// behind the `phase` record. Rot that comes later has another range, and is found: only a loss between
/// exactly these offsets is left out. A vote does not guarantee shards; reads and the scrubber find the
/// missing ones.
fn ranges_of_a_life(
    index: &Arc<dyn Index>,
    headed: &[HeadedSegment],
    replayed: &ReplayOutcome,
) -> Result<Vec<LostRange>, IndexError> {
    let ranges = || replayed.lost.iter().chain(&replayed.open_ends).map(|lost| lost.range);
    for pair in index.scan(&[STATE], Some(&[STATE + 1])) {
        let (key, value) = pair?;
        let RecordLocation { segment, offset, .. } = decode_entry(&key, value)?.origin.place;
        let is_there = headed.iter().any(|one| one.segment.number == segment);
        if !is_there || ranges().any(|range| range.has(segment, u64::from(offset))) {
            return Ok(Vec::new());
        }
    }
    Ok(ranges().collect())
}

/// The records that say which segments are kept, of those that have none: it stood in the next segment's
/// first frame, and without it the next opening would take them for let go.
fn unnamed_of(headed: &[HeadedSegment], replayed: &ReplayOutcome, small: &SmallState) -> Vec<Subject> {
    let pairs = headed.iter().zip(headed.iter().skip(1));
    let unnamed = pairs.filter(|(one, _)| !small.segments.contains_key(&one.segment.number));
    let named = unnamed.filter_map(|(one, next)| {
        let number = one.segment.number;
        let next = next.header.as_ref();
        let is_end = |lost: &&LostData| lost.range.segment == number && lost.range.until.is_none();
        let end = match next.filter(|next| next.previous == number) {
            Some(next) => next.previous_end,
            None => replayed.lost.iter().chain(&replayed.open_ends).find(is_end)?.range.offset,
        };
        let behind = next.map_or(replayed.next, |next| next.first);
        let last = Sequence(behind.0.saturating_sub(1));
        Some(Subject::Segment { number, end, first: one.segment.first, last })
    });
    named.take(REWRITTEN_SEGMENTS_MAX).collect()
}

/// Removes the remains of a crash: half a segment, and segments that compaction had let go. Returns files
/// that were not a segment, or may not be half of one.
fn tidy(
    disk: &Arc<dyn Disk>,
    log: &Path,
    headed: &mut Vec<HeadedSegment>,
    discarded: &[UnusedFile],
    empty: Option<u64>,
    small: &SmallState,
) -> Result<Vec<RemovedFile>, OpenError> {
    let io = |op| move |source: io::Error| OpenError::refused(op, log, source);
    let last = headed.last().map_or(0, |one| one.segment.number);
    let (kept, gone): (Vec<HeadedSegment>, Vec<HeadedSegment>) = std::mem::take(headed)
        .into_iter()
        .partition(|one| one.segment.number == last || small.segments.contains_key(&one.segment.number));
    *headed = kept;
    let mut removed = Vec::new();
    for unused in discarded {
        let path = segment_path(log, unused.number);
        let length = disk.open(&path, OpenMode::Read).and_then(|file| file.length());
        removed.push(RemovedFile { path, bytes: length.unwrap_or(0), why: unused.what.clone() });
    }
    let empty = empty.map(|number| segment_path(log, number));
    let left = empty.into_iter().chain(gone.iter().map(|one| one.segment.path.clone()));
    let paths: Vec<PathBuf> = removed.iter().map(|one| one.path.clone()).chain(left).collect();
    for path in &paths {
        disk.remove(path).map_err(io("remove from"))?;
    }
    if !paths.is_empty() {
        disk.sync_dir(log).map_err(io("sync"))?;
    }
    Ok(removed)
}

/// Takes a last segment without a frame away, as if it had never begun: the record that says that
/// the segment before it is kept would have been in its first frame. Its number, and where the log ends then.
fn cut_empty(headed: &mut Vec<HeadedSegment>, replayed: &ReplayOutcome, is_lost: bool) -> (Option<u64>, u64) {
    let is_empty = replayed.end == FIRST_FRAME && !is_lost;
    let last_header = headed.last().and_then(|one| one.header.clone());
    match last_header {
        Some(empty) if is_empty => {
            headed.pop();
            (Some(empty.number), empty.previous_end)
        }
        _ => (None, replayed.end),
    }
}

/// Where writing goes on: behind the last frame, or in a new segment when anything else lies there, or when
/// its header does not say what is true of what will be written.
fn tail_of(
    files: &LogFiles<'_>,
    headed: &[HeadedSegment],
    end: u64,
    highest: u64,
    next: Sequence,
    is_whole: bool,
) -> Result<Tail, OpenError> {
    let last = headed.last();
    let holds = |header: &SegmentHeader| header.is_synced == files.syncs && header.is_longer == files.syncs;
    let goes_on = last.filter(|one| is_whole && one.header.as_ref().is_some_and(holds));
    let open = |one: &HeadedSegment| {
        let segment = Arc::clone(&one.segment);
        let opened = files.disk.open(&segment.path, OpenMode::Write);
        match opened.and_then(|file| Ok((file.length()?, file))) {
            Ok((length, file)) => Ok(TailSegment { segment, file, length }),
            Err(source) => Err(OpenError::Io { op: "open", path: segment.path.clone(), source }),
        }
    };
    Ok(Tail {
        segment: goes_on.map(open).transpose()?,
        number: highest,
        previous: last.map_or(0, |one| one.segment.number),
        end: if last.is_some() { end } else { 0 },
        next,
    })
}
