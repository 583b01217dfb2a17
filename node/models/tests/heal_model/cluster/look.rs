//! Looks: the cut, the question, what a volume does with the answer, and what it counts as afterwards.

use sherd_core::register::heal::look::{
    ShownRow, continues_look, cursor_after, is_passed, needs_walk, rows_above, treat_shown,
};
use sherd_core::register::heal::whole::{CutFacts, is_whole};

use super::rows::Way;
use super::wire::{ballot, cursor, head, life, number, sequence};
use super::{Cluster, Cursor, Question, Row, Standing, State, bit, keys_of};
use crate::rules::Without;

impl Cluster {
    /// Whether a volume counts as whole as of its cut.
    pub(super) fn is_whole(&self, state: &State, at: usize) -> bool {
        let volume = &state.volumes[at];
        let too_few = usize::from(self.is_without(Without::EnoughPeers));
        let open_wants =
            if self.is_without(Without::WantsKeepFromWhole) { 0 } else { volume.wants & !volume.lost };
        let facts = CutFacts {
            votes: volume.votes(),
            has_walked: volume.has_walked || self.is_without(Without::WalkBeforeWhole),
            looked_through: volume.looked_through.count_ones() as usize + too_few,
            open_wants: u64::from(open_wants.count_ones()),
        };
        volume.cut.is_some() && is_whole(facts, self.quorums())
    }

    /// Begins a round of looks: what was acknowledged by now lies before its cut.
    pub(super) fn cut(state: &mut State, at: usize) {
        let chosen = state.chosen;
        let volume = &mut state.volumes[at];
        (volume.cut, volume.looked_through, volume.stuck) = (Some(chosen), 0, 0);
        volume.question = Question::default();
        for vacant in state.volumes.iter_mut().filter(|other| other.standing == Standing::Vacant) {
            vacant.cut_after_empty |= bit(at);
        }
    }

    /// Sends a cursor; the peer reads its durable sequence, and then which rows it gives.
    pub(super) fn ask(&self, state: &mut State, at: usize, peer: usize) {
        let own = state.volumes[at].cursors[peer];
        let asked = &mut state.volumes[peer];
        let known = cursor(if self.is_without(Without::CursorOfThisLife) {
            Cursor { life: asked.life, ..own }
        } else {
            own
        });
        let (peers_life, durable) = (life(asked.life), asked.sequence);
        let walks = needs_walk(known, peers_life, sequence(asked.horizon));
        let above = number(rows_above(known, peers_life));
        let is_given = |key: &usize| {
            let row = asked.rows[*key];
            row.ballot > 0 && row.sequence > above && (walks || asked.listed[*key])
        };
        let keys = (0..self.keys).filter(is_given).map(|key| 1 << key).sum();
        let sent = if self.is_without(Without::CursorDurableBeforeSent) { durable } else { above };
        asked.sent[at] = asked.sent[at].max(sent);
        self.unlist(asked, peer);
        let peers_life = asked.life;
        let looker = &mut state.volumes[at];
        looker.question = Question { peer: peer as u8, life: peers_life, durable, keys };
        if self.is_without(Without::CursorAfterRows) {
            looker.cursors[peer] = Cursor { life: peers_life, sequence: durable };
        }
    }

    /// The rows of the answer are pulled, and the cursor follows.
    pub(super) fn answer(&self, state: &mut State, at: usize) {
        let question = std::mem::take(&mut state.volumes[at].question);
        let peer = usize::from(question.peer);
        let asked = state.volumes[peer];
        if !asked.is_up || !continues_look(life(question.life), &asked.answerer()) {
            return;
        }
        let durable =
            if self.is_without(Without::DurableReadFirst) { asked.sequence } else { question.durable };
        let mut lowest_not_passed: Option<u8> = None;
        for key in keys_of(question.keys) {
            let shown = asked.rows[key];
            self.take_shown(state, at, key, shown);
            if !self.is_passed(state.volumes[at].rows[key], shown) {
                state.volumes[at].stuck |= 1 << key;
                lowest_not_passed =
                    Some(lowest_not_passed.map_or(shown.sequence, |low| low.min(shown.sequence)));
            }
        }
        let end = number(cursor_after(sequence(durable), lowest_not_passed.map(sequence)));
        let looker = &mut state.volumes[at];
        let old = looker.cursors[peer];
        let before = if old.life == question.life { old.sequence } else { 0 };
        looker.cursors[peer] = Cursor { life: question.life, sequence: before.max(end) };
        if lowest_not_passed.is_none() {
            looker.looked_through |= bit(peer);
        }
    }

    fn take_shown(&self, state: &mut State, at: usize, key: usize, shown: Row) {
        let own = &mut state.volumes[at];
        let Some(peers) = head(shown) else { return };
        match treat_shown(head(own.rows[key]).as_ref(), &peers) {
            ShownRow::Pull if own.takes(key, shown.ballot) => self.store(state, at, key, shown, Way::Pull),
            ShownRow::LearnCommitted => self.hint(own, key, false),
            ShownRow::Pull | ShownRow::Keep => {}
        }
    }

    fn is_passed(&self, own: Row, shown: Row) -> bool {
        let passed = is_passed(head(own).as_ref(), ballot(shown.ballot));
        match self.without {
            Without::RefusedIsNotPassed => passed || own.ballot < shown.ballot,
            Without::HigherIsCommitted => passed || own.ballot > shown.ballot,
            Without::EqualIsCommitted => passed || own.ballot == shown.ballot,
            _ => passed,
        }
    }
}
