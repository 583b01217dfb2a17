//! Finds the segments of a log in its directory, and tells what a crash left from what is damaged.
//!
//! ```text
//! name   header             frames of that name   the file is
//! N      of segment N       any                   segment N
//! N      none, or others'   some                  segment N with a damaged header
//! N      of segment M       none                  segment M under a wrong name, where M is kept: refused
//! N      none, or others'   none                  the highest: half a segment that was never used
//! ```
//! Called when a volume is opened, before anything is changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sherd_core::codec::DecodeError;
use sherd_core::id::{Sequence, VolumeId};

use crate::disk::Disk;
use crate::error::OpenError;
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader, Subject, VERSION};
use crate::identity::LostRange;
use crate::log::replay::{Found, Headed, Unreadable, may_hold_frames, replay};
use crate::log::{
    FIRST_FRAME, SEGMENT_NUMBER_MAX, Segment, Segments, is_segment_name, parse_segment_name, segment_path,
};
use crate::options::UnreadablePolicy;
use crate::table::segment_key;

/// The log as a directory holds it, and how it is to be read.
pub(crate) struct LogFiles<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    /// Its directory.
    pub(crate) path: &'a Path,
    /// The names in it.
    pub(crate) names: &'a [String],
    /// Whose it is.
    pub(crate) volume: VolumeId,
    /// Whether its life has all that was acknowledged to it, as far as volume.json knows: then the absence of a log is
    /// a loss.
    pub(crate) is_whole: bool,
    /// What is missing in it and was told.
    pub(crate) told: &'a [LostRange],
    pub(crate) policy: UnreadablePolicy,
    /// Bytes of entries in memory after which a replay flushes the index.
    pub(crate) replay_bytes: u64,
    /// Whether each frame that will be written is synced.
    pub(crate) syncs: bool,
}

impl From<Unreadable> for OpenError {
    fn from(Unreadable { path, offset, source }: Unreadable) -> Self {
        Self::Unreadable { path, offset, source }
    }
}

/// Segments as a directory holds them.
pub(crate) struct Located {
    pub(crate) headed: Vec<Headed>,
    /// Half of a segment that was never used.
    pub(crate) discarded: Vec<u64>,
    /// The number to count on from.
    pub(crate) highest: u64,
}

/// A file with the whole header of another segment than its name says, of which there is no file.
struct Misnamed {
    path: PathBuf,
    number: u64,
    header: SegmentHeader,
}

/// Finds the segments of a log. Nothing is changed.
///
/// # Errors
/// [`OpenError`]; `Damaged` where a file has the name of another segment than the one it is.
pub(crate) fn find_segments(files: &LogFiles<'_>, segments: &Segments) -> Result<Located, OpenError> {
    let LogFiles { path: log, names, volume, policy, .. } = *files;
    if let Some(name) = names.iter().find(|name| is_segment_name(name) && parse_segment_name(name).is_none())
    {
        // It may be one of this log under a name that is rotten: without it the log is not whole.
        let what = "no log comes to a segment of this number".to_owned();
        return Err(OpenError::Damaged { path: log.join(name), what });
    }
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    numbers.sort_unstable();
    let last = numbers.last().copied();
    let mut headed = Vec::new();
    let mut discarded = Vec::new();
    let mut misnamed = Vec::new();
    for number in numbers.iter().copied() {
        let path = segment_path(log, number);
        let mut segment =
            Segment::new(volume, number, Sequence(0), path.clone(), Arc::clone(segments.files()));
        let file = segment.file().map_err(|source| OpenError::Io { op: "open", path, source })?;
        file.evict(0, SEGMENT_HEADER_BYTES as u64);
        let page = read_at(&segment, 0, SEGMENT_HEADER_BYTES, policy)?;
        let found = match page.as_deref().map(SegmentHeader::decode) {
            // Its checksum is right: another version wrote it, and nothing of it is rotten.
            Some(Err(DecodeError::Version { version, .. })) => {
                let (path, version) = (segment.path, u32::from(version));
                return Err(OpenError::Version { path, version, supported: u32::from(VERSION) });
            }
            Some(Ok(found)) if found.volume == volume => Some(found),
            Some(_) | None => None,
        };
        let (decoded, other) = match found {
            Some(found) if found.number == number => (Some(found), None),
            other => (None, other),
        };
        segment.first = decoded.as_ref().map_or(Sequence(0), |found| found.first);
        // What cannot be read may have been in use.
        let may_be_unused = decoded.is_none() && page.is_some() && Some(number) == last;
        let other = other.filter(|other| numbers.binary_search(&other.number).is_err());
        let may_be_misnamed = other.is_some();
        if (may_be_unused || may_be_misnamed) && !may_hold_frames(&segment, policy)? {
            let path = segment.path.clone();
            misnamed.extend(other.map(|header| Misnamed { path, number, header }));
            if may_be_unused {
                discarded.push(number);
                continue;
            }
        }
        headed.push(Headed { segment: Arc::new(segment), header: decoded });
    }
    if let [one] = &misnamed[..]
        && holds_what_is_kept(one, &headed, &discarded, policy)?
    {
        let what = format!("it holds segment {}, of which there is no file", one.header.number);
        return Err(OpenError::Damaged { path: one.path.clone(), what });
    }
    // Half a segment with a number that no log comes near was not left by one, and is no number to count on from.
    let near = discarded.iter().copied().filter(|number| *number < SEGMENT_NUMBER_MAX / 2);
    let highest = near.chain(headed.last().map(|one| one.segment.number)).max().unwrap_or(0);
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

/// Whether a misnamed file is a segment that the log still needs, and not a spare that got its name from a writer
/// that does not sync, whose header a power cut took: such a file has the header of a segment that was let go.
///
/// Only what is certain counts, or a leftover would keep the volume from opening for ever. Where every other segment
/// has its header and the last of them was written by one that syncs, a writer that does not began none, and let none
/// go, but for segments of its own: what the log says of the others is durable.
fn holds_what_is_kept(
    misnamed: &Misnamed,
    headed: &[Headed],
    discarded: &[u64],
    policy: UnreadablePolicy,
) -> Result<bool, Unreadable> {
    let Misnamed { number, header, .. } = misnamed;
    let is_other = |one: &&Headed| one.segment.number != *number;
    let others: Vec<Headed> = headed.iter().filter(is_other).cloned().collect();
    let last = others.last().and_then(|one| one.header.as_ref());
    let has_damaged =
        others.iter().any(|one| one.header.is_none()) || discarded.iter().any(|one| one != number);
    if has_damaged || last.is_some_and(|last| !last.is_synced) {
        return Ok(false);
    }
    if last.is_none_or(|last| header.number > last.number) {
        // It is the one that was written to.
        return Ok(header.is_synced);
    }
    let (mut is_sealed, mut is_deleted) = (false, false);
    let key = segment_key(header.number);
    let mut visit = |frame: Vec<Found>, _| {
        for found in frame {
            match found.subject {
                Subject::Segment { number, .. } => is_sealed |= number == header.number,
                Subject::Delete { key: deleted, .. } => is_deleted |= deleted == key,
                _ => {}
            }
        }
        Ok::<(), Unreadable>(())
    };
    let replayed = replay(&others, Sequence(1), policy, &|_| None, &mut visit)?;
    // What seals the segment before the last stands in the first frame of that one.
    let is_unsaid = replayed.end == FIRST_FRAME && last.is_some_and(|last| last.previous == header.number);
    Ok(is_unsaid || (is_sealed && !is_deleted))
}
