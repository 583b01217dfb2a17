//! Restores what a volume knew: the index as it was persisted, and the log from there; or, where the
//! index is of no use, the whole log.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::codec::DecodeError;
use sherd_core::id::{Sequence, VolumeId};

use crate::apply::{Batch, Changes, Derived, Written, as_index_changes};
use crate::disk::{Disk, OpenMode};
use crate::error::OpenError;
use crate::format::{
    FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, Seed, SegmentHeader, Subject, VERSION,
};
use crate::index::{Index, IndexError};
use crate::log::append::{Known, Tail, TailSegment};
use crate::log::replay::{Found, Headed, Replayed, Unreadable, replay};
use crate::log::{FIRST_FRAME, Segment, Segments, parse_segment_name, segment_path};
use crate::open::{IndexSource, OpenReport};
use crate::options::UnreadablePolicy;
use crate::state::Small;
use crate::table::Payload;

/// Changes gathered before they are applied to the index.
const CHANGES_MAX: usize = 8192;
/// Rotten records that a report names.
const ROTTEN_MAX: usize = 1000;

/// What a volume knew.
pub(crate) struct Restored {
    pub(crate) index: Arc<dyn Index>,
    pub(crate) small: Small,
    pub(crate) derived: Derived,
    pub(crate) tail: Tail,
    pub(crate) report: OpenReport,
    /// Acknowledged state is gone, and why.
    pub(crate) lost: Option<String>,
}

/// Why the index does not do, or why nobody can tell.
enum Unfit {
    Index(IndexError),
    Behind,
    Log(Unreadable),
}

impl From<Unreadable> for Unfit {
    fn from(unreadable: Unreadable) -> Self {
        Self::Log(unreadable)
    }
}

impl From<Unreadable> for OpenError {
    fn from(Unreadable { path, offset, source }: Unreadable) -> Self {
        Self::Unreadable { path, offset, source }
    }
}

impl From<IndexError> for Unfit {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

/// What one try to use an index gave.
struct Try {
    replayed: Replayed,
    small: Small,
    derived: Derived,
    rotten: Vec<Subject>,
    persisted: Option<Sequence>,
}

/// The log as a directory holds it, and how it is to be read.
pub(crate) struct LogFiles<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    /// Its directory.
    pub(crate) path: &'a Path,
    /// The names in it.
    pub(crate) names: &'a [String],
    /// Whose it is.
    pub(crate) volume: VolumeId,
    /// Whether its absence is a loss.
    pub(crate) is_needed: bool,
    pub(crate) policy: UnreadablePolicy,
}

/// Restores a volume. `segments` gets every segment that is kept.
pub(crate) fn restore(
    files: &LogFiles<'_>,
    segments: &Segments,
    source: &mut dyn IndexSource,
) -> Result<Restored, OpenError> {
    let LogFiles { disk, path: log, names: _, volume: _, is_needed: needs_log, policy } = *files;
    let found = find_segments(files, segments)?;
    let Located { mut headed, mut discarded, highest } = found;
    let mut rebuilt = None;
    let opened = source.open();
    let first_try = match opened {
        Ok(index) => attempt(&index, &headed, policy, false).map(|done| (index, done)),
        Err(error) => Err(Unfit::Index(error)),
    };
    let (index, done) = match first_try {
        Ok(done) => done,
        Err(unfit) => {
            rebuilt = Some(match unfit {
                Unfit::Index(error) => error.to_string(),
                Unfit::Log(unreadable) => return Err(unreadable.into()),
                Unfit::Behind => "it lacks what the log has let go".to_owned(),
            });
            let damaged =
                |error: IndexError| OpenError::Damaged { path: log.to_owned(), what: error.to_string() };
            let index = source.reset().map_err(damaged)?;
            let done = attempt(&index, &headed, policy, true).map_err(|unfit| match unfit {
                Unfit::Index(error) => damaged(error),
                Unfit::Log(unreadable) => unreadable.into(),
                Unfit::Behind => unreachable!("an empty index lacks everything and is fed the whole log"),
            })?;
            (index, done)
        }
    };
    let Try { replayed, mut small, derived, rotten, persisted } = done;
    for one in &headed {
        if let Some(header) = &one.header {
            small.bound = small.bound.max(header.bound);
            small.floor = small.floor.max(header.floor);
            small.data_floor = small.data_floor.max(header.data_floor);
        }
    }
    let lost = judge_loss(&headed, &replayed, &small, persisted, needs_log);
    let end = cut_empty(&mut headed, &mut discarded, &replayed, lost.is_some());
    let mut report = OpenReport {
        replayed_records: replayed.records,
        torn_tail: replayed.torn,
        index_rebuilt: rebuilt,
        rotten,
        ..OpenReport::default()
    };
    report.torn_tail |= !discarded.is_empty();
    tidy(disk, log, &mut headed, &discarded, &small, lost.is_some())?;
    for one in &headed {
        let synced = one.segment.file().and_then(|file| file.sync_data());
        synced.map_err(|source| OpenError::Io { op: "sync", path: one.segment.path.clone(), source })?;
        segments.insert(Arc::clone(&one.segment));
    }
    let next = replayed.next.max(Sequence(persisted.map_or(1, |persisted| persisted.0 + 1)));
    let is_whole = !replayed.torn && lost.is_none() && discarded.is_empty();
    let tail = tail_of(disk.as_ref(), &headed, end, highest, next, is_whole)?;
    Ok(Restored { index, small, derived, tail, report, lost })
}

/// Segments as a directory holds them.
struct Located {
    headed: Vec<Headed>,
    /// Half of a segment that was never used.
    discarded: Vec<u64>,
    highest: u64,
}

fn find_segments(files: &LogFiles<'_>, segments: &Segments) -> Result<Located, OpenError> {
    let LogFiles { disk: _, path: log, names, volume, policy, is_needed: _ } = *files;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    numbers.sort_unstable();
    let highest = numbers.last().copied().unwrap_or(0);
    let mut headed = Vec::new();
    let mut discarded = Vec::new();
    for number in numbers {
        let path = segment_path(log, number);
        let mut segment =
            Segment::new(volume, number, Sequence(0), path.clone(), Arc::clone(segments.files()));
        let file = segment.file().map_err(|source| OpenError::Io { op: "open", path, source })?;
        file.evict(0, SEGMENT_HEADER_BYTES as u64);
        let page = read_at(&segment, 0, SEGMENT_HEADER_BYTES, policy)?;
        let decoded = match page.as_deref().map(SegmentHeader::decode) {
            // Its checksum is right: a later version wrote it, and nothing of it is rotten.
            Some(Err(DecodeError::Version { version, .. })) => {
                let (path, version) = (segment.path, u32::from(version));
                return Err(OpenError::Version { path, version, supported: VERSION });
            }
            Some(Ok(found)) if found.volume == volume && found.number == number => Some(found),
            Some(_) | None => None,
        };
        segment.first = decoded.as_ref().map_or(Sequence(0), |found| found.first);
        // What cannot be read may have been in use.
        let may_be_unused = decoded.is_none() && page.is_some() && number == highest;
        if may_be_unused && !has_frames(&segment, policy)? {
            discarded.push(number);
            continue;
        }
        headed.push(Headed { segment: Arc::new(segment), header: decoded });
    }
    Ok(Located { headed, discarded, highest })
}

/// Bytes of a segment, as many as there are; `None` where they cannot be read and that counts as rot.
fn read_at(
    segment: &Segment,
    offset: u64,
    length: usize,
    policy: UnreadablePolicy,
) -> Result<Option<Vec<u8>>, Unreadable> {
    let mut bytes = vec![0; length];
    match segment.file().and_then(|file| file.read_at(&mut bytes, offset)) {
        Ok(read) => {
            bytes.truncate(read);
            Ok(Some(bytes))
        }
        Err(error) => Unreadable::new(segment, offset, error).judge(policy).map(|()| None),
    }
}

/// Whether a first frame is there, or may be: then the segment was in use, whatever became of its header.
fn has_frames(segment: &Segment, policy: UnreadablePolicy) -> Result<bool, Unreadable> {
    let page = read_at(segment, FIRST_FRAME, FRAME_HEADER_BYTES, policy)?;
    let seed: Seed = segment.seed;
    Ok(page.is_none_or(|page| FrameHeader::decode(&page, seed, FIRST_FRAME).is_ok()))
}

fn attempt(
    index: &Arc<dyn Index>,
    headed: &[Headed],
    policy: UnreadablePolicy,
    is_rebuild: bool,
) -> Result<Try, Unfit> {
    let persisted = index.persisted();
    let from = Sequence(persisted.map_or(1, |persisted| persisted.0 + 1));
    let start = first_needed(headed, from);
    let needed = headed.get(start..).unwrap_or(&[]);
    if !is_rebuild && has_hole(needed, from) {
        return Err(Unfit::Behind);
    }
    let mut derived = Derived::load(index.as_ref())?;
    let mut rotten = Vec::new();
    let mut pending: Vec<Found> = Vec::new();
    let mut flush = |pending: &mut Vec<Found>, last: Sequence| -> Result<(), IndexError> {
        let mut changes = Changes::new();
        let mut batch = Batch::new(index, &mut derived, &mut changes);
        for found in pending.drain(..) {
            let buffers: Vec<Bytes> = found.payload.iter().cloned().collect();
            let intact = found.payload.is_some().then_some(buffers.as_slice());
            if intact.is_none() && rotten.len() < ROTTEN_MAX {
                rotten.push(found.subject.clone());
            }
            batch.record(&Written {
                subject: &found.subject,
                flags: found.flags,
                payload: Payload { length: found.payload_bytes, intact },
                placed: found.placed,
                known: &Known::Nothing,
                learnt: None,
            })?;
        }
        index.apply(as_index_changes(changes, &mut derived), last)
    };
    let mut gathered = Vec::new();
    let mut waiting: Option<Sequence> = None;
    let pending_cell = std::cell::RefCell::new(&mut pending);
    let replayed = replay(
        needed,
        from,
        policy,
        &mut |found| {
            pending_cell.borrow_mut().push(found);
            Ok(())
        },
        &mut |last| {
            let mut frame = pending_cell.borrow_mut();
            gathered.append(&mut frame);
            waiting = Some(last);
            if gathered.len() >= CHANGES_MAX {
                waiting = None;
                flush(&mut gathered, last)?;
            }
            Ok::<(), Unfit>(())
        },
    )?;
    if let Some(last) = waiting {
        flush(&mut gathered, last)?;
    }
    let small = Small::load(index.as_ref(), derived.highest())?;
    Ok(Try { replayed, small, derived, rotten, persisted })
}

/// The first segment that holds records from a sequence on.
fn first_needed(headed: &[Headed], from: Sequence) -> usize {
    let later = headed.iter().position(|one| one.segment.first > from).unwrap_or(headed.len());
    later.saturating_sub(1)
}

/// Whether records from a sequence on are missing between or before these segments: let go by
/// compaction after a newer index was persisted, or lost.
fn has_hole(headed: &[Headed], from: Sequence) -> bool {
    let starts_late = headed
        .first()
        .and_then(|one| one.header.as_ref())
        .is_some_and(|header| header.first > from && header.previous != 0);
    let broken = headed.windows(2).any(|pair| match pair {
        [one, next] => next
            .header
            .as_ref()
            .is_some_and(|header| header.first > from && header.previous != one.segment.number),
        _ => false,
    });
    starts_late || broken
}

fn judge_loss(
    headed: &[Headed],
    replayed: &Replayed,
    small: &Small,
    persisted: Option<Sequence>,
    needs_log: bool,
) -> Option<String> {
    if headed.is_empty() && needs_log {
        return Some("the log has no segment".to_owned());
    }
    if let Some(lost) = replayed.lost.first() {
        return Some(format!("segment {} is rotten at offset {}", lost.segment, lost.offset));
    }
    if let Some(persisted) = persisted
        && replayed.next.0 <= persisted.0
    {
        return Some(format!("the log ends before {}, the index knew {}", replayed.next.0, persisted.0));
    }
    for open in &replayed.open_ends {
        let ends = small.segments.get(&open.segment).map(|sealed| sealed.end);
        if ends.is_some_and(|end| end > open.offset) {
            return Some(format!("segment {} is rotten at offset {}", open.segment, open.offset));
        }
    }
    let present: BTreeSet<u64> = headed.iter().map(|one| one.segment.number).collect();
    let missing = small.segments.keys().find(|number| !present.contains(number));
    missing.map(|number| format!("segment {number} is missing"))
}

/// Removes what a crash left: half a segment, and segments that compaction had let go.
fn tidy(
    disk: &Arc<dyn Disk>,
    log: &Path,
    headed: &mut Vec<Headed>,
    discarded: &[u64],
    small: &Small,
    is_lost: bool,
) -> Result<(), OpenError> {
    let io = |op| move |source: io::Error| OpenError::Io { op, path: log.to_owned(), source };
    for number in discarded {
        disk.remove(&segment_path(log, *number)).map_err(io("remove from"))?;
    }
    let mut removed = !discarded.is_empty();
    // Where something is lost, the records that say what is kept may be lost too.
    if !is_lost {
        let last = headed.last().map_or(0, |one| one.segment.number);
        let (kept, gone): (Vec<Headed>, Vec<Headed>) = std::mem::take(headed)
            .into_iter()
            .partition(|one| one.segment.number == last || small.segments.contains_key(&one.segment.number));
        *headed = kept;
        for one in &gone {
            disk.remove(&one.segment.path).map_err(io("remove from"))?;
            removed = true;
        }
    }
    if removed {
        disk.sync_dir(log).map_err(io("sync"))?;
    }
    Ok(())
}

/// Takes a last segment without a frame away, as if it had never begun: the record that says that
/// the segment before it is kept would have been in its first frame. Where the log ends then.
fn cut_empty(headed: &mut Vec<Headed>, discarded: &mut Vec<u64>, replayed: &Replayed, is_lost: bool) -> u64 {
    let is_empty = replayed.end == FIRST_FRAME && !is_lost;
    let last_header = headed.last().and_then(|one| one.header.clone());
    match last_header {
        Some(empty) if is_empty => {
            headed.pop();
            discarded.push(empty.number);
            empty.previous_end
        }
        _ => replayed.end,
    }
}

/// Where writing goes on: behind the last frame, or in a new segment when anything else lies there.
fn tail_of(
    disk: &dyn Disk,
    headed: &[Headed],
    end: u64,
    highest: u64,
    next: Sequence,
    is_whole: bool,
) -> Result<Tail, OpenError> {
    let last = headed.last();
    let goes_on = last.filter(|one| one.header.is_some() && is_whole);
    let open = |one: &Headed| {
        let segment = Arc::clone(&one.segment);
        match disk.open(&segment.path, OpenMode::Write) {
            Ok(file) => Ok(TailSegment { segment, file }),
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
