//! Where compaction is: the segment that is walked, one on its way out, and what could not be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::id::Sequence;

use crate::log::Segment;
use crate::log::durable::RetiredFile;

#[derive(Debug, Default)]
pub(crate) struct Compaction {
    pub(super) pass: Option<CompactionPass>,
    /// Segments of which something cannot be read: kept until nothing needs that any more.
    pub(super) damaged: BTreeMap<u64, SegmentDamage>,
    /// A segment that is on its way out: nothing else is compacted before it is gone.
    pub(super) retiring: Option<RetiringSegment>,
    /// How many segments were reclaimed when a segment was sealed or first seen.
    pub(super) seen_at: BTreeMap<u64, u64>,
    pub(super) reclaimed: u64,
}

/// A segment whose record is deleted. Its file may hold what deletes in other segments kill, so it must be
/// gone before these are judged again.
#[derive(Debug)]
pub(super) struct RetiringSegment {
    pub(super) segment: Arc<Segment>,
    /// Whether a frame stands behind the delete.
    pub(super) is_protected: bool,
    /// Where its file went.
    pub(super) put_away: Option<RetiredFile>,
}

#[derive(Debug)]
pub(super) struct CompactionPass {
    pub(super) segment: Arc<Segment>,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) frame: Option<InFrame>,
    /// Whether a stretch was passed over that is known to be missing.
    pub(super) has_hole: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct InFrame {
    pub(super) next: u64,
    pub(super) sequence: Sequence,
    pub(super) last: Sequence,
    pub(super) end: u64,
}

#[derive(Debug)]
pub(super) struct SegmentDamage {
    /// The record that could not be read, by its key and the sequence of its place; none where that is not
    /// known.
    pub(super) record: Option<(Bytes, Sequence)>,
    /// Bytes of the segment that were needed then.
    pub(super) live: u64,
}
