//! The records that wait for a frame of others, and those that a batch took along. Used by
//! [`super::piggyback`] and by the batch itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;

use sherd_core::heal::HealId;
use sherd_core::id::{Life, Sequence, VolumeId};
use sherd_core::register::recover::opening::PeerNotes;
use sherd_core::release::ReleaseId;

use crate::format::Hint;
use crate::log::append::HintedCommit;

#[derive(Debug, Default)]
pub(crate) struct PiggybackQueue {
    pub(crate) hints: Vec<HintedCommit>,
    pub(crate) hints_bytes: usize,
    pub(crate) healed: BTreeSet<HealId>,
    /// Ended wants, by the sequence of the record that each end is of.
    pub(crate) wants_ended: BTreeMap<HealId, Sequence>,
    pub(crate) releases: BTreeMap<ReleaseId, Bytes>,
    pub(crate) released: BTreeSet<ReleaseId>,
    pub(crate) seen: BTreeMap<VolumeId, (Life, Sequence)>,
    pub(crate) notes: BTreeMap<VolumeId, PeerNotes>,
    pub(crate) since_us: Option<u64>,
}

/// The records that a batch took along, until it is durable.
#[derive(Debug, Default)]
pub(crate) struct PiggybackBatch {
    pub(super) taken: PiggybackQueue,
    pub(super) hints: Range<usize>,
}

impl PiggybackQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        let Self { hints, healed, wants_ended, releases, released, seen, notes, .. } = self;
        hints.len()
            + healed.len()
            + wants_ended.len()
            + releases.len()
            + released.len()
            + seen.len()
            + notes.len()
    }

    /// Notes since when a record waits for a frame.
    pub(crate) fn begin(&mut self, now_us: u64) {
        self.since_us.get_or_insert(now_us);
    }

    /// Takes back records of a frame that was refused; those queued since are newer.
    pub(super) fn put_back(&mut self, refused: Self) {
        let Self {
            mut hints,
            hints_bytes: _,
            healed,
            wants_ended,
            releases,
            released,
            seen,
            notes,
            since_us,
        } = refused;
        self.hints_bytes += hints.iter().map(|hinted| hint_bytes(&hinted.hint)).sum::<usize>();
        hints.append(&mut self.hints);
        self.hints = hints;
        self.healed.extend(healed);
        for (id, sequence) in wants_ended {
            self.wants_ended.entry(id).or_insert(sequence);
        }
        for (id, entry) in releases {
            self.releases.entry(id).or_insert(entry);
        }
        self.released.extend(released);
        for (volume, news) in seen {
            let known = self.seen.entry(volume).or_insert(news);
            *known = news.max(*known);
        }
        for (volume, refused) in notes {
            match self.notes.get_mut(&volume) {
                Some(newer) => {
                    newer.merge(&refused);
                }
                None => {
                    self.notes.insert(volume, refused);
                }
            }
        }
        self.since_us = since_us.or(self.since_us);
    }
}

pub(crate) fn hint_bytes(hint: &Hint) -> usize {
    64 + hint.key.key.as_bytes().len()
}
