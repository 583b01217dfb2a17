//! Finds the segments of a log in its directory, and separates the remains of a crash from damage.
//!
//! ```text
//! name   header             frames of that name   the file is
//! N      of segment N       any                   segment N
//! N      none, or others'   some                  segment N with a damaged header
//! N      of segment M       none                  segment M under a wrong name, where M is kept: refused
//! N      others'            none                  the highest: half a segment that was never used
//! N      none               none                  the highest: the same, or, if its writer syncs, segment N
//!                                                 with a damaged header: the header was durable before
//!                                                 the name was there
//! ```
//! A file under a name that no log gives is looked into, too: an operator who moved a segment aside can put
//! it back. A file with a number that no log comes near is a segment only where it has a header or a frame of
//! that number. Called when a volume is opened, before anything is changed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use sherd_core::codec::DecodeError;
use sherd_core::id::{Sequence, VolumeId};

use crate::disk::{Disk, OpenMode};
use crate::error::{FaultClass, OpenError};
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader, Subject, VERSION};
use crate::identity::LostRange;
use crate::index::Index;
use crate::index::table::segment_key;
use crate::limits::SEGMENT_NUMBER_MAX;
use crate::log::durable::SpareSegments;
use crate::log::replay::{FoundFrames, FoundRecord, HeadedSegment, UnreadableRange, find_frames, replay};
use crate::log::{FIRST_FRAME, Segment, Segments, is_segment_name, parse_segment_name, segment_path};
use crate::options::UnreadablePolicy;
use crate::state::apply::DerivedState;

/// The log as a directory holds it, and how it is to be read.
pub(crate) struct LogFiles<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) path: &'a Path,
    pub(crate) names: &'a [String],
    pub(crate) volume: VolumeId,
    /// Whether its life has all that was acknowledged to it, by volume.json: then the absence of a log is a
    /// loss.
    pub(crate) is_whole: bool,
    /// Ranges missing in it that already cost a life.
    pub(crate) noted_losses: &'a [LostRange],
    pub(crate) policy: UnreadablePolicy,
    /// Bytes of entries in memory after which a replay flushes the index.
    pub(crate) replay_bytes: u64,
    /// Rows of the list of those that are missed.
    pub(crate) missed_rows_max: u64,
    /// Whether the volume ever had a log.
    pub(crate) is_formatted: bool,
    pub(crate) syncs: bool,
}

impl From<UnreadableRange> for OpenError {
    fn from(UnreadableRange { path, offset, source }: UnreadableRange) -> Self {
        Self::Unreadable { path, offset, source }
    }
}

pub(crate) struct LocatedSegments {
    pub(crate) headed: Vec<HeadedSegment>,
    /// Files that were never used: halves of segments, and files that are not segments.
    pub(crate) discarded: Vec<UnusedFile>,
    /// The number to count on from.
    pub(crate) highest: u64,
    pub(crate) misnamed: Vec<MisnamedSegment>,
}

pub(crate) struct UnusedFile {
    pub(crate) number: u64,
    pub(crate) what: String,
}

pub(crate) struct MisnamedSegment {
    named: Option<u64>,
    headed: HeadedSegment,
}

struct SegmentCandidate {
    segment: Segment,
    /// Whether the header could be read, valid or not.
    is_readable: bool,
    /// Header, where it is of the segment that the name says.
    header: Option<SegmentHeader>,
    /// Header, where it is of another segment of this volume.
    other: Option<SegmentHeader>,
    /// Frames of the segment that the name says; looked for where the header does not tell.
    frames: Option<FoundFrames>,
}

impl SegmentCandidate {
    /// Whether this is the segment that its name says, as far as it shows.
    fn is_proper(&self) -> bool {
        self.frames != Some(FoundFrames::No)
    }

    /// Whether it has a number that no log comes near, and nothing else of a segment of that number.
    fn is_stray(&self) -> bool {
        self.segment.number >= STRAY_FROM && self.frames.is_some_and(|frames| frames != FoundFrames::Yes)
    }
}

/// No log comes near a segment of this number: a file with such a name was not left by one, and is neither
/// its end nor a number to count on from.
const STRAY_FROM: u64 = SEGMENT_NUMBER_MAX / 2;

/// Finds the segments of a log. Nothing is changed.
///
/// # Errors
/// [`OpenError`].
pub(crate) fn find_segments(files: &LogFiles<'_>, segments: &Segments) -> Result<LocatedSegments, OpenError> {
    let LogFiles { path: log, names, volume, .. } = *files;
    if let Some(name) = names.iter().find(|name| is_segment_name(name) && parse_segment_name(name).is_none())
    {
        // The file may be a segment of this log under a rotten name: without it the log is not whole.
        let what = "no log comes to a segment of this number".to_owned();
        return Err(OpenError::Damaged { path: log.join(name), what });
    }
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    numbers.sort_unstable();
    let candidates: Vec<SegmentCandidate> =
        numbers.iter().map(|number| read_candidate(files, segments, *number)).collect::<Result<_, _>>()?;
    let last = candidates.iter().rfind(|one| !one.is_stray()).map(|one| one.segment.number);
    let proper: BTreeSet<u64> =
        candidates.iter().filter(|one| one.is_proper()).map(|one| one.segment.number).collect();
    let mut located =
        LocatedSegments { headed: Vec::new(), discarded: Vec::new(), highest: 0, misnamed: Vec::new() };
    for one in candidates {
        let (named, is_stray) = (one.segment.number, one.is_stray());
        let SegmentCandidate { segment, is_readable, header, other, frames } = one;
        let what = other.as_ref().map_or_else(
            || "it has neither a header nor a frame of a segment".to_owned(),
            |other| format!("it has the header of segment {}, and no frame of its own", other.number),
        );
        let may_be_half = other.is_some() || !headers_are_durable(files, &located.headed);
        if let Some(other) = other.filter(|other| !proper.contains(&other.number))
            && (is_stray || frames == Some(FoundFrames::No))
        {
            let files = Arc::clone(segments.files());
            let real = Segment::new(volume, other.number, other.first, segment.path.clone(), files);
            let headed = HeadedSegment { segment: Arc::new(real), header: Some(other) };
            located.misnamed.push(MisnamedSegment { named: Some(named), headed });
        }
        // A file that cannot be read may have been in use.
        let is_unused = is_readable && frames == Some(FoundFrames::No);
        if is_unused && (is_stray || Some(named) == last && may_be_half) {
            located.discarded.push(UnusedFile { number: named, what });
        } else if !is_stray {
            located.headed.push(HeadedSegment { segment: Arc::new(segment), header });
        }
    }
    for name in names.iter().filter(|name| !is_segment_name(name) && !SpareSegments::is_own_name(name)) {
        if let Some(headed) = read_aside(files, segments, name)?
            && !proper.contains(&headed.segment.number)
        {
            located.misnamed.push(MisnamedSegment { named: None, headed });
        }
    }
    let unused = located.discarded.iter().map(|unused| unused.number);
    let near = unused.filter(|number| *number < STRAY_FROM);
    let last = located.headed.last().map(|one| one.segment.number);
    located.highest = near.chain(last).max().unwrap_or(0);
    Ok(located)
}

/// Whether the writer of a segment behind these made its header durable before its name: a writer that syncs
/// does it with each, and one that does not with the first one behind a synced segment.
fn headers_are_durable(files: &LogFiles<'_>, before: &[HeadedSegment]) -> bool {
    match before.last() {
        Some(last) => last.header.as_ref().is_some_and(|header| header.is_synced),
        None => files.is_formatted && files.syncs,
    }
}

fn read_candidate(
    files: &LogFiles<'_>,
    segments: &Segments,
    number: u64,
) -> Result<SegmentCandidate, OpenError> {
    let LogFiles { path: log, volume, policy, .. } = *files;
    let path = segment_path(log, number);
    let mut segment = Segment::new(volume, number, Sequence(0), path.clone(), Arc::clone(segments.files()));
    let file = segment.file().map_err(|source| OpenError::Io { op: "open", path, source })?;
    file.evict(0, SEGMENT_HEADER_BYTES as u64);
    let page = read_at(&segment, 0, SEGMENT_HEADER_BYTES, policy)?;
    let found = match page.as_deref().map(SegmentHeader::decode) {
        // A right checksum: another version wrote the header, and nothing of it is rotten.
        Some(Err(DecodeError::Version { version, .. })) => {
            let (path, version) = (segment.path, u32::from(version));
            return Err(OpenError::Version { path, version, supported: u32::from(VERSION) });
        }
        Some(Ok(found)) if found.volume == volume => Some(found),
        Some(_) | None => None,
    };
    let (header, other) = match found {
        Some(found) if found.number == number => (Some(found), None),
        other => (None, other),
    };
    let frames = if header.is_none() { Some(find_frames(&segment, policy)?) } else { None };
    segment.first = header.as_ref().map_or(Sequence(0), |found| found.first);
    Ok(SegmentCandidate { segment, is_readable: page.is_some(), header, other, frames })
}

/// Looks for a segment of this log in a file whose name is not one of a segment.
fn read_aside(
    files: &LogFiles<'_>,
    segments: &Segments,
    name: &str,
) -> Result<Option<HeadedSegment>, OpenError> {
    let LogFiles { disk, path: log, volume, .. } = *files;
    let path = log.join(name);
    let file = disk.open(&path, OpenMode::Read);
    let mut page = vec![0; SEGMENT_HEADER_BYTES];
    let read = match file.and_then(|file| file.read_at(&mut page, 0)) {
        Ok(read) => read,
        Err(source) if FaultClass::of(&source) == FaultClass::Busy => {
            return Err(OpenError::Io { op: "open", path, source });
        }
        // An unreadable file is most likely not a segment. If it is one, the log lacks a segment, which
        // replay reports.
        Err(_) => return Ok(None),
    };
    let header = SegmentHeader::decode(page.get(..read).unwrap_or(&[])).ok();
    Ok(header.filter(|header| header.volume == volume).map(|header| {
        let kept = Arc::clone(segments.files());
        let segment = Segment::new(volume, header.number, header.first, path, kept);
        HeadedSegment { segment: Arc::new(segment), header: Some(header) }
    }))
}

/// Bytes of a segment, as many as there are; `None` where they cannot be read and that counts as rot.
fn read_at(
    segment: &Segment,
    offset: u64,
    length: usize,
    policy: UnreadablePolicy,
) -> Result<Option<Vec<u8>>, UnreadableRange> {
    let mut bytes = vec![0; length];
    match segment.file().and_then(|file| file.read_at(&mut bytes, offset)) {
        Ok(read) => {
            bytes.truncate(read);
            Ok(Some(bytes))
        }
        Err(error) => UnreadableRange::new(segment, offset, error).judge(policy).map(|()| None),
    }
}

/// Refuses to go on without a segment that is there under another name. Runs at each try to open, so it is
/// cheap where the index covers the segment: then only the log behind the index is read.
///
/// # Errors
/// [`OpenError`]; `Damaged` where a file has the name of another segment than the one it is.
pub(crate) fn refuse_misnamed(
    files: &LogFiles<'_>,
    located: &LocatedSegments,
    index: Option<&Arc<dyn Index>>,
) -> Result<(), OpenError> {
    let LocatedSegments { headed, discarded, misnamed, .. } = located;
    if misnamed.is_empty() {
        return Ok(());
    }
    let is_misnamed = |number: u64| misnamed.iter().any(|one| one.named == Some(number));
    let others: Vec<HeadedSegment> =
        headed.iter().filter(|one| !is_misnamed(one.segment.number)).cloned().collect();
    let has_damaged = others.iter().any(|one| one.header.is_none())
        || discarded.iter().any(|unused| unused.number < STRAY_FROM && !is_misnamed(unused.number));
    if has_damaged || others.last().and_then(|one| one.header.as_ref()).is_some_and(|last| !last.is_synced) {
        return Ok(());
    }
    // The log under the right names, without regard to which segments are kept.
    let mut all: Vec<HeadedSegment> =
        others.iter().chain(misnamed.iter().map(|one| &one.headed)).cloned().collect();
    all.sort_by_key(|one| one.segment.number);
    let index = index.filter(|index| is_up_to_date(index, &all));
    for one in misnamed {
        if holds_what_is_kept(one, &others, index, files.policy)? {
            let what = format!("it holds segment {}, of which there is no file", one.headed.segment.number);
            return Err(OpenError::Damaged { path: one.headed.segment.path.clone(), what });
        }
    }
    Ok(())
}

/// Whether an index and the log behind it have everything. Where the index cannot say, the log is asked
/// alone.
fn is_up_to_date(index: &Arc<dyn Index>, headed: &[HeadedSegment]) -> bool {
    let Some(persisted) = index.persisted() else { return false };
    let unseen = Sequence(persisted.0 + 1);
    let is_whole = DerivedState::load(index.as_ref(), 0).is_ok_and(|derived| derived.replay_from().is_none());
    is_whole && !has_hole(headed.get(first_needed(headed, unseen)..).unwrap_or(&[]), unseen)
}

/// Whether a misnamed file is a segment that the log still needs, and not a spare that got its name from a
/// writer that does not sync, whose header a power cut took: such a file has the header of a segment that was
/// let go.
///
/// Only what is certain counts, or a leftover would keep the volume from opening for ever. Where every other
/// segment has its header and the last of them was written by one that syncs, a writer that does not began
/// none, and let none go, but for segments of its own: what the log says of the others is durable. Of several
/// that are misnamed the last one is certain, for what the log says of it stands behind it.
fn holds_what_is_kept(
    misnamed: &MisnamedSegment,
    others: &[HeadedSegment],
    index: Option<&Arc<dyn Index>>,
    policy: UnreadablePolicy,
) -> Result<bool, UnreadableRange> {
    let Some(header) = &misnamed.headed.header else { return Ok(false) };
    let last = others.last().and_then(|one| one.header.as_ref());
    if last.is_none_or(|last| header.number > last.number) {
        // The last segment is the one that was written to.
        return Ok(header.is_synced);
    }
    let key = segment_key(header.number);
    let known = index.and_then(|index| Some((index.persisted()?, index.get(&key).ok()?)));
    let (from, known) = known.map_or((Sequence(1), None), |(upto, known)| (Sequence(upto.0 + 1), known));
    let (mut is_sealed, mut is_deleted) = (known.is_some(), false);
    let mut visit = |frame: Vec<FoundRecord>, _| {
        for found in frame {
            match found.subject {
                Subject::Segment { number, .. } => is_sealed |= number == header.number,
                Subject::Delete { key: deleted, .. } => is_deleted |= deleted == key,
                _ => {}
            }
        }
        Ok::<(), UnreadableRange>(())
    };
    let needed = others.get(first_needed(others, from)..).unwrap_or(&[]);
    let replayed = replay(needed, from, policy, &|_| None, &mut visit)?;
    // The record that seals the segment before the last stands in the first frame of the last.
    let is_unsaid = replayed.end == FIRST_FRAME && last.is_some_and(|last| last.previous == header.number);
    Ok(is_unsaid || (is_sealed && !is_deleted))
}

/// The first segment that holds records from a sequence on. If the header of one is damaged, its first
/// sequence is unknown: the one before it may hold them, too.
pub(crate) fn first_needed(headed: &[HeadedSegment], from: Sequence) -> usize {
    let later = headed.iter().position(|one| one.segment.first > from).unwrap_or(headed.len());
    let earlier = headed.get(..later).unwrap_or(&[]);
    earlier.iter().rposition(|one| one.header.is_some()).unwrap_or(0)
}

/// Whether records from a sequence on are missing between or before these segments: let go by
/// compaction after a newer index was persisted, or lost.
pub(crate) fn has_hole(headed: &[HeadedSegment], from: Sequence) -> bool {
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
