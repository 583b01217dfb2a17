//! The small state of a volume: its guarantees, its peers, the segments that it keeps.
//!
//! Every piece is a record of its own and an entry of the index's state table, so compaction moves
//! it and replay finds it like any other record; this is the copy in memory, made from those.

pub(crate) mod apply;
pub(crate) mod promises;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::id::{Ballot, BucketId, ChangeId, Epoch, Life, Sequence, Slot, Timestamp, VolumeId};
use sherd_core::limits;
use sherd_core::register::Answerer;
use sherd_core::register::acceptor::{AcceptorState, VoterStatus};
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::opening::{Opening, OpeningHistory, PeerNotes};
use sherd_core::register::seal::{Seals, StoredSeals};

use crate::format::{Kind, Phase, Subject};
use crate::index::table::{Body, STATE};
use crate::index::{Index, IndexError};
use crate::log::append::HeaderPromises;
use crate::state::apply::decode_entry;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SealedSegment {
    pub(crate) end: u64,
    pub(crate) first: Sequence,
    pub(crate) last: Sequence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovery {
    pub(crate) life: Life,
    pub(crate) phase: Phase,
    pub(crate) rows_after: Sequence,
    pub(crate) kept_after: Sequence,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct SmallState {
    /// The life of this volume, and whether volume.json says that it lost its state.
    pub(crate) life: u32,
    pub(crate) is_recovering: bool,
    /// Whether peers confirmed, in this opening, that they remember no later state. Never stored.
    pub(crate) is_confirmed: bool,
    pub(crate) bound: Ballot,
    pub(crate) floor: Ballot,
    pub(crate) data_floor: Timestamp,
    pub(crate) clock_reading: Timestamp,
    pub(crate) highest: Ballot,
    pub(crate) epochs: BTreeMap<u16, Epoch>,
    /// The highest of them: each listing asks.
    epoch_max: Epoch,
    seals: BTreeMap<BucketId, BTreeSet<Option<ChangeId>>>,
    /// The buckets among them that are not sealed for ever: few, where the others are as many as were
    /// deleted.
    held: BTreeSet<BucketId>,
    pub(crate) peers: BTreeMap<VolumeId, (Life, Sequence)>,
    /// How far the peers' logs were in each of their openings, as answers said: more than what this volume
    /// has of them.
    pub(crate) notes: BTreeMap<VolumeId, PeerNotes>,
    /// The volume's openings by life and by where its log ended at each.
    openings: BTreeMap<(Life, Sequence), OpeningId>,
    /// The current one, and whether the log names it in this life yet.
    current: Opening,
    is_named: bool,
    lives: Option<Arc<[(VolumeId, Life)]>>,
    pub(crate) segments: BTreeMap<u64, SealedSegment>,
    pub(crate) recovery: Option<Recovery>,
}

impl SmallState {
    pub(crate) fn load(index: &dyn Index, highest: Ballot) -> Result<Self, IndexError> {
        let mut small = Self { highest, ..Self::default() };
        for pair in index.scan(&[STATE], Some(&[STATE + 1])) {
            let (key, value) = pair?;
            small.change(&key, Some(&value))?;
        }
        Ok(small)
    }

    /// Follows a change of the state table; other tables are ignored.
    pub(crate) fn change(&mut self, key: &[u8], value: Option<&Bytes>) -> Result<(), IndexError> {
        if key.first() != Some(&STATE) {
            return Ok(());
        }
        match value {
            Some(value) => {
                if let Body::State(subject) = decode_entry(key, value.clone())?.body {
                    self.learn(&subject);
                }
            }
            None => self.forget(key),
        }
        Ok(())
    }

    pub(crate) fn learn(&mut self, subject: &Subject) {
        match subject {
            Subject::Bound(bound) => self.bound = self.bound.max(*bound),
            Subject::Floor(floor) => self.floor = self.floor.max(*floor),
            Subject::DataFloor(floor) => self.data_floor = self.data_floor.max(*floor),
            Subject::ClockReading(time) => self.clock_reading = self.clock_reading.max(*time),
            Subject::Epoch { slot, epoch } => {
                self.epochs.insert(slot.0, *epoch);
                self.epoch_max = self.epoch_max.max(*epoch);
            }
            Subject::Seal { bucket, deletion } => {
                self.seals.entry(*bucket).or_default().insert(*deletion);
                self.note_held(*bucket);
            }
            Subject::Peer { volume, life, durable } => {
                self.peers.insert(*volume, (*life, *durable));
                self.lives = None;
            }
            Subject::PeerNotes { volume, notes } => {
                self.notes.insert(*volume, notes.clone());
            }
            Subject::Opening { life, opening } => {
                self.openings.insert((*life, opening.end), opening.id);
                self.is_named |= life.0 == self.life && opening.id == self.current.id;
            }
            Subject::Segment { number, end, first, last } => {
                self.segments.insert(*number, SealedSegment { end: *end, first: *first, last: *last });
            }
            Subject::Phase { life, phase, rows_after, kept_after } => {
                self.recovery = Some(Recovery {
                    life: *life,
                    phase: *phase,
                    rows_after: *rows_after,
                    kept_after: *kept_after,
                });
            }
            Subject::Row { .. }
            | Subject::Shard { .. }
            | Subject::Delete { .. }
            | Subject::Hints
            | Subject::Heal { .. }
            | Subject::Release { .. } => {}
        }
    }

    /// Lets go of the piece of state under an index key. Only seals, segments and old openings ever go.
    pub(crate) fn forget(&mut self, key: &[u8]) {
        let Some((&[_, kind], id)) = key.split_first_chunk::<2>() else { return };
        if kind == Kind::Segment as u8
            && let Ok(number) = id.try_into()
        {
            self.segments.remove(&u64::from_be_bytes(number));
        }
        if kind == Kind::Opening as u8
            && let Some((life, end)) = id.split_first_chunk::<4>()
            && let Ok(end) = end.try_into()
        {
            let (life, end) = (u32::from_be_bytes(*life), u64::from_be_bytes(end));
            self.openings.remove(&(Life(life), Sequence(end)));
        }
        if kind == Kind::Seal as u8
            && let Some((bucket, deletion)) = id.split_first_chunk::<16>()
        {
            let bucket = BucketId(*bucket);
            let deletion = deletion.try_into().ok().map(ChangeId::from_bytes);
            if let Some(held) = self.seals.get_mut(&bucket) {
                held.remove(&deletion);
                if held.is_empty() {
                    self.seals.remove(&bucket);
                }
            }
            self.note_held(bucket);
        }
    }

    /// Whether the volume has the state that its votes speak for.
    pub(crate) fn standing(&self) -> VoterStatus {
        if !self.is_recovering {
            return if self.is_confirmed { VoterStatus::Voting } else { VoterStatus::Unconfirmed };
        }
        match self.recovery {
            Some(Recovery { life, phase, .. }) if life.0 == self.life => match phase {
                Phase::Waiting => VoterStatus::Lost,
                Phase::Adopting => VoterStatus::Refilling,
                Phase::Voting => VoterStatus::Voting,
            },
            _ => VoterStatus::Lost,
        }
    }

    /// Rows up to this sequence belong to a life before and do not count.
    pub(crate) fn rows_after(&self) -> Sequence {
        self.recovery.map_or(Sequence(0), |recovery| recovery.rows_after)
    }

    pub(crate) fn seals_of(&self, bucket: BucketId) -> Seals {
        let Some(held) = self.seals.get(&bucket) else { return Seals::Open };
        if held.contains(&None) {
            Seals::Final
        } else {
            Seals::Held(held.iter().flatten().copied().collect())
        }
    }

    /// Notes whether a bucket's seals are those of deletions under way.
    fn note_held(&mut self, bucket: BucketId) {
        if self.seals.get(&bucket).is_some_and(|seals| !seals.contains(&None)) {
            self.held.insert(bucket);
        } else {
            self.held.remove(&bucket);
        }
    }

    /// One page of the seals of the buckets behind `after`, by bucket: at most `limit` of them, and fewer
    /// where many deletions hold them. Empty if none are left.
    pub(crate) fn seals_page(&self, after: Option<BucketId>, limit: usize) -> Vec<StoredSeals> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut page = Vec::new();
        let mut deletions = 0;
        for bucket in self.seals.range((from, Bound::Unbounded)).map(|(bucket, _)| *bucket) {
            let Some(stored) = self.seals_of(bucket).to_stored() else { continue };
            deletions += stored.len();
            if page.len() >= limit.clamp(1, limits::SEALS_PAGE_MAX)
                || (!page.is_empty() && deletions > limits::SEALS_PAGE_DELETIONS_MAX)
            {
                break;
            }
            page.push((bucket, stored));
        }
        page
    }

    pub(crate) fn final_seals_count(&self) -> usize {
        self.seals.len() - self.held.len()
    }

    /// The deletions whose seals are held, by bucket, of buckets that are not sealed for ever.
    pub(crate) fn held_seals(&self) -> Vec<StoredSeals> {
        let held = |bucket: &BucketId| self.seals_of(*bucket).to_stored().map(|stored| (*bucket, stored));
        self.held.iter().filter_map(held).collect()
    }

    pub(crate) fn epoch_of(&self, slot: Slot) -> Epoch {
        self.epochs.get(&slot.0).copied().unwrap_or(Epoch::FIRST)
    }

    pub(crate) fn epoch_max(&self) -> Epoch {
        self.epoch_max.max(Epoch::FIRST)
    }

    pub(crate) fn acceptor(&self, restart_bound: Ballot) -> AcceptorState {
        AcceptorState {
            floor: self.floor,
            restart_bound,
            durable_bound: self.bound,
            clock_reading: self.clock_reading,
            data_floor: self.data_floor,
            standing: self.standing(),
        }
    }

    /// Guarantees that a new segment's header repeats.
    pub(crate) const fn promised(&self) -> HeaderPromises {
        HeaderPromises { bound: self.bound, floor: self.floor, data_floor: self.data_floor }
    }

    /// The volume's guarantees, given the highest ballot that it may have promised.
    pub(crate) fn guarantees(&self, promised: Ballot) -> Guarantees {
        Guarantees {
            bound: promised,
            floor: self.floor,
            highest: self.highest,
            data_floor: self.data_floor,
            lives: self.lives().iter().copied().collect(),
        }
    }

    /// Memory of each peer: the life that is recorded of it, and its openings.
    pub(crate) fn remembers(&self) -> Vec<(VolumeId, Position)> {
        let mut all = self.notes.clone();
        for (volume, (life, _)) in &self.peers {
            let notes = all.entry(*volume).or_insert_with(|| PeerNotes::new(*life));
            notes.note(Position::life(*life));
        }
        let told = |(volume, notes): (&VolumeId, &PeerNotes)| {
            notes.positions().map(|position| (*volume, position)).collect::<Vec<_>>()
        };
        all.iter().flat_map(told).collect()
    }

    /// The openings of this life, the current one last, also where the log does not name it yet.
    pub(crate) fn history(&self) -> OpeningHistory {
        let life = Life(self.life);
        let of_life = (life, Sequence(0))..=(life, Sequence(u64::MAX));
        let named = self.openings.range(of_life).map(|((_, end), id)| Opening { id: *id, end: *end });
        OpeningHistory::new(life, named.chain(self.unnamed_opening()).collect())
    }

    pub(crate) const fn open(&mut self, opening: Opening) {
        self.current = opening;
        self.is_named = false;
    }

    /// Begins a life in this opening, where the log is now.
    pub(crate) const fn begin_life(&mut self, life: Life, end: Sequence) {
        self.life = life.0;
        self.current.end = end;
        self.is_named = false;
    }

    /// The current opening, where the log does not name it yet in this life.
    pub(crate) fn unnamed_opening(&self) -> Option<Opening> {
        (!self.is_named).then_some(self.current)
    }

    /// Openings that the log need not name any more, at most `limit`: of earlier lives, and the oldest of so
    /// many that no question holds them.
    pub(crate) fn old_openings(&self, limit: usize) -> Vec<(Life, Sequence)> {
        let life = (Life(self.life), Sequence(0));
        let of_life = self.openings.range(life..).count();
        let old = self.openings.len() - of_life + of_life.saturating_sub(limits::OPENINGS_MAX);
        self.openings.keys().take(old.min(limit)).copied().collect()
    }

    /// The lives of peers that are not in their first.
    pub(crate) fn lives(&self) -> Arc<[(VolumeId, Life)]> {
        self.lives.as_ref().map_or_else(|| self.collect_lives(), Arc::clone)
    }

    fn collect_lives(&self) -> Arc<[(VolumeId, Life)]> {
        let later = self.peers.iter().filter(|(_, (life, _))| life.0 > 1);
        later.map(|(volume, (life, _))| (*volume, *life)).collect()
    }

    /// Keeps what every answer needs ready to be cloned.
    pub(crate) fn settle(&mut self) {
        if self.lives.is_none() {
            self.lives = Some(self.collect_lives());
        }
    }

    /// The volume as answerer. An opening that the log does not name is not sent: peers that noted it would
    /// take the next opening for one that lost it.
    pub(crate) fn answerer(&self, durable: Sequence) -> Answerer {
        let (opening, durable) =
            if self.is_named { (self.current.id, durable) } else { (OpeningId::NONE, Sequence(0)) };
        Answerer {
            life: Life(self.life),
            votes: self.standing().votes(),
            peers: self.lives(),
            opening,
            durable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovering(own: u32, of_life: u32, phase: Phase) -> SmallState {
        let recovery =
            Recovery { life: Life(of_life), phase, rows_after: Sequence(0), kept_after: Sequence(0) };
        SmallState { life: own, is_recovering: true, recovery: Some(recovery), ..SmallState::default() }
    }

    #[test]
    fn how_far_the_recovery_of_an_earlier_life_got_says_nothing_of_this_one() {
        for phase in [Phase::Waiting, Phase::Adopting, Phase::Voting] {
            assert_eq!(recovering(3, 2, phase).standing(), VoterStatus::Lost, "{phase:?}");
        }
        assert_eq!(recovering(3, 3, Phase::Waiting).standing(), VoterStatus::Lost);
        assert_eq!(recovering(3, 3, Phase::Adopting).standing(), VoterStatus::Refilling);
        assert_eq!(recovering(3, 3, Phase::Voting).standing(), VoterStatus::Voting);
    }

    #[test]
    fn a_new_segment_repeats_the_promises() {
        let ballot = |ms| Ballot { time: Timestamp::from_ms(ms), proposer: sherd_core::id::ProposerId(1) };
        let mut small = SmallState::default();
        small.learn(&Subject::Bound(ballot(3)));
        small.learn(&Subject::Floor(ballot(2)));
        small.learn(&Subject::DataFloor(Timestamp::from_ms(1)));
        let HeaderPromises { bound, floor, data_floor } = small.promised();
        assert_eq!((bound, floor, data_floor), (ballot(3), ballot(2), Timestamp::from_ms(1)));
    }

    #[test]
    fn a_later_life_of_a_peer_replaces_what_is_noted_of_its_openings() {
        let (volume, life) = (VolumeId([1; 16]), Life(2));
        let mut small = SmallState::default();
        let position = Position { life, opening: OpeningId(4), durable: Sequence(9) };
        let mut notes = PeerNotes::new(life);
        notes.note(position);
        small.learn(&Subject::PeerNotes { volume, notes });
        assert_eq!(small.remembers(), [(volume, position)]);
        small.learn(&Subject::Peer { volume, life: Life(3), durable: Sequence(7) });
        assert_eq!(small.remembers(), [(volume, Position::life(Life(3)))], "its life is recorded");
    }

    #[test]
    fn a_released_segment_is_forgotten_and_an_unknown_seal_ignored() {
        let mut small = SmallState::default();
        for number in [1, 2] {
            small.learn(&Subject::Segment { number, end: 9, first: Sequence(1), last: Sequence(2) });
        }
        small.learn(&Subject::Seal { bucket: BucketId([1; 16]), deletion: None });
        small.forget(&crate::index::table::segment_key(1));
        assert_eq!(small.segments.keys().copied().collect::<Vec<_>>(), [2]);
        assert!(small.seals_of(BucketId([1; 16])).is_sealed());
    }

    #[test]
    fn seals_are_shown_page_by_page_and_those_of_deletions_under_way_apart() {
        let change = |ms| ChangeId { made: Timestamp::from_ms(ms), ..ChangeId::ZERO };
        let bucket = |n| BucketId([n; 16]);
        let mut small = SmallState::default();
        let seal = |small: &mut SmallState, n, deletion| {
            small.learn(&Subject::Seal { bucket: bucket(n), deletion });
        };
        for n in [5, 1, 3] {
            seal(&mut small, n, None);
        }
        seal(&mut small, 2, Some(change(7)));
        seal(&mut small, 2, Some(change(8)));
        seal(&mut small, 4, Some(change(9)));
        let all =
            [(1, vec![]), (2, vec![change(7), change(8)]), (3, vec![]), (4, vec![change(9)]), (5, vec![])]
                .map(|(n, deletions)| (bucket(n), deletions));
        assert_eq!(small.seals_page(None, 9), all);
        assert_eq!(small.seals_page(None, 0), all[..1], "a page has one at least");
        assert_eq!(small.seals_page(None, 2), all[..2]);
        assert_eq!(small.seals_page(Some(bucket(2)), 2), all[2..4]);
        assert_eq!(small.seals_page(Some(bucket(4)), 2), all[4..]);
        assert_eq!(small.seals_page(Some(bucket(5)), 2), []);
        assert_eq!(small.held_seals(), [all[1].clone(), all[3].clone()]);

        seal(&mut small, 4, None);
        assert_eq!(small.held_seals(), [all[1].clone()], "it is final");
        assert_eq!(small.final_seals_count(), small.seals_page(None, 9).len() - 1);
        for deletion in [7, 8].map(change) {
            let sealed = Subject::Seal { bucket: bucket(2), deletion: Some(deletion) };
            small.forget(&crate::index::table::key_of(&sealed).expect("a seal has one"));
        }
        assert_eq!(small.held_seals(), []);
        assert_eq!(small.seals_page(Some(bucket(1)), 1), all[2..3]);
    }

    #[test]
    fn a_page_of_seals_ends_where_many_deletions_hold_a_bucket() {
        let mut small = SmallState::default();
        let many = u64::try_from(limits::SEALS_PAGE_DELETIONS_MAX).expect("few");
        for (n, count) in [(1, many + 1), (2, many), (3, 1)] {
            for made in 0..count {
                let deletion = ChangeId { made: Timestamp::from_ms(made), ..ChangeId::ZERO };
                small.learn(&Subject::Seal { bucket: BucketId([n; 16]), deletion: Some(deletion) });
            }
        }
        let buckets = |after: Option<u8>| {
            let page = small.seals_page(after.map(|n| BucketId([n; 16])), 9);
            page.into_iter().map(|(BucketId([n, ..]), _)| n).collect::<Vec<_>>()
        };
        assert_eq!(buckets(None), [1]);
        assert_eq!(buckets(Some(1)), [2]);
        assert_eq!(buckets(Some(2)), [3]);
        assert_eq!(buckets(Some(3)), [0; 0]);
    }

    #[test]
    fn peers_in_their_first_life_are_not_named() {
        let mut small = SmallState::default();
        for (id, life) in [(1, 1), (2, 2)] {
            let (volume, life) = (VolumeId([id; 16]), Life(life));
            small.learn(&Subject::Peer { volume, life, durable: Sequence(1) });
        }
        assert_eq!(small.lives().to_vec(), [(VolumeId([2; 16]), Life(2))]);
    }
}
