//! Properties of every state.

use super::act::clear;
use super::{Actor, Kind, Phase, Program, Register, State, VoterStatus};

impl Register {
    /// Completes an actor's operation with the value of a ballot, which it takes for committed.
    pub(super) fn finish(&self, state: &mut State, actor: usize, ballot: u8) {
        let value = state.values[usize::from(ballot)];
        state.committed |= 1 << ballot;
        // One that was replaced meanwhile has had its grace.
        let is_latest = state.acked & !value.history == 0;
        if is_latest && value.data > 0 && state.released & 1 << (value.data - 1) != 0 {
            state.wrong = Some("a committed value names released data");
        }
        if let Program::Batch(_) = self.actors[actor] {
            return self.batch_committed(state, actor, ballot);
        }
        observe(state, actor, history_of(state, ballot));
        if let Program::Sweep(_) = self.actors[actor] {
            return self.judge_swept(state, actor, ballot);
        }
        self.complete(state, actor);
    }

    /// Completes an actor's operation with "nothing is there".
    pub(super) fn finish_absent(&self, state: &mut State, actor: usize) {
        observe(state, actor, state.dropped);
        self.complete(state, actor);
    }

    fn complete(&self, state: &mut State, actor: usize) {
        clear(state, actor);
        let me = &mut state.actors[actor];
        let next = me.op + 1;
        if self.change_of(actor, next).is_some() {
            *me = Actor { op: next, ballot: me.ballot, ..Actor::default() };
        } else if self.release {
            *me = Actor {
                acked: true,
                phase: Phase::Done,
                ballot: me.ballot,
                found: me.found,
                op: me.op,
                ..Actor::default()
            };
        } else {
            *me = Actor { acked: true, phase: Phase::Done, ..Actor::default() };
        }
    }

    pub(super) fn check(&self, state: &State) -> Option<String> {
        if let Some(wrong) = state.wrong {
            return Some(wrong.to_owned());
        }
        if state.refused & state.acked != 0 {
            return Some("a change took effect whose writer was told that it did not".to_owned());
        }
        let twice = |call| (state.acked & self.sendings(Some(call))).count_ones() > 1;
        if (0..8).any(twice) {
            return Some("a call took effect twice".to_owned());
        }
        let voting =
            |at: &usize| state.columns[*at].standing == VoterStatus::Voting && !state.columns[*at].rotten;
        let all: u8 = self.columns().filter(voting).map(|at| 1 << at).sum();
        let quorum = self.quorums().prepare();
        for mask in (1..=all).filter(|mask| mask & !all == 0 && mask.count_ones() as usize == quorum) {
            let rows = self.columns().filter(|at| mask & 1 << at != 0).map(|at| state.columns[at].row.ballot);
            let top = rows.max().unwrap_or(0);
            let history = history_of(state, top);
            if state.acked & !history != 0 {
                return Some("a quorum has lost an acknowledged change".to_owned());
            }
        }
        if state.released == 0 {
            return None;
        }
        (1..=self.ballots).find_map(|ballot| {
            let value = state.values[usize::from(ballot)];
            let names =
                value.kind == Kind::Object && value.data > 0 && state.released & 1 << (value.data - 1) != 0;
            let holders =
                self.columns().filter(|at| voting(at) && state.columns[*at].row.ballot == ballot).count();
            let is_chosen = names && holders >= self.quorums().accept();
            is_chosen.then(|| "a chosen value names released data".to_owned())
        })
    }
}

/// The changes that a row stands for. A tombstone that was dropped somewhere stands for nothing, as
/// does no row: what was dropped last.
pub(super) fn history_of(state: &State, ballot: u8) -> u8 {
    let is_gone = ballot == 0 || state.forgotten & 1 << ballot != 0;
    state.values[usize::from(ballot)].history | if is_gone { state.dropped } else { 0 }
}

/// The register's history must be one line, and move on from what was seen before the operation.
pub(super) fn observe(state: &mut State, actor: usize, history: u8) {
    if state.actors[actor].before & !history != 0 {
        state.wrong = Some("an operation missed one that had ended before it began");
    }
    if history & !state.acked != 0 && state.acked & !history != 0 {
        state.wrong = Some("two committed values, neither made from the other");
    }
    state.acked |= history;
}
