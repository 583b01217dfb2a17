//! Dropping tombstones: floors first, then everybody's row, then the drop itself, at any time later.

use sherd_core::register::acceptor::{judge_drop, judge_raise, judge_read, raise_floor};
use sherd_core::register::drop::may_drop;
use sherd_core::register::quorum::{Lives, Quorums};

use super::act::{clear, small};
use super::wire::{ASKED, ballot, head, key, number};
use super::{Kind, Phase, Register, Row, State, Step};
use crate::rules::Without;

const RAISED: u8 = 1;
const CONFIRMED: u8 = 2;

impl Register {
    pub(super) fn drop_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        let me = small(actor);
        match state.actors[actor].phase {
            Phase::Idle => self.pick_steps(state, actor, out),
            Phase::Collecting => {
                self.confirm_steps(state, actor, out);
                if self.confirmed(state, actor) {
                    let mut after = *state;
                    clear(&mut after, actor);
                    after.actors[actor].phase = Phase::Acting;
                    out.push((Step::Authorise { actor: me }, after));
                }
                // Another tombstone may be tried instead.
                self.pick_steps(state, actor, out);
            }
            Phase::Acting => {
                for at in self.columns() {
                    // The first request to raise floors arrives late.
                    let late = state.actors[actor].counts[0];
                    if self.without == Without::FloorsNeverFall && state.columns[at].floor > late {
                        let mut after = *state;
                        after.columns[at].floor = late;
                        out.push((Step::Raise { actor: me, at: state.labels[at] }, after));
                    }
                    if let Some(after) = self.dropped(state, actor, at) {
                        out.push((Step::Drop { actor: me, at: state.labels[at] }, after));
                    }
                }
                self.pick_steps(state, actor, out);
            }
            _ => {}
        }
    }

    fn pick_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        for number in (1..=self.ballots).filter(|number| *number != state.actors[actor].aux) {
            let held = self.columns().any(|at| state.columns[at].row.ballot == number);
            if state.values[usize::from(number)].kind != Kind::Tombstone
                || !held
                || state.actors[actor].tries >= 2
            {
                continue;
            }
            let mut after = *state;
            clear(&mut after, actor);
            let me = &mut after.actors[actor];
            (me.phase, me.aux, me.tries) = (Phase::Collecting, number, me.tries + 1);
            if me.counts[0] == 0 {
                me.counts[0] = number;
            }
            out.push((Step::Pick { actor: small(actor), ballot: number }, after));
        }
    }

    fn confirm_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        let target = state.actors[actor].aux;
        for at in self.columns() {
            let column = &state.columns[at];
            let acceptor = self.acceptor(column);
            let row = head(column.row);
            let stage = column.slots[actor].stage;
            if stage == 0 && judge_raise(acceptor.standing).is_ok() {
                let mut after = *state;
                let changed = &mut after.columns[at];
                changed.floor = match self.without {
                    Without::DropFloors => column.floor,
                    _ => number(raise_floor(ballot(column.floor), ballot(target))),
                };
                changed.slots[actor].stage = RAISED;
                out.push((Step::Raise { actor: small(actor), at: state.labels[at] }, after));
            }
            let answers = judge_read(&acceptor, &key(column, row.as_ref()), ASKED).is_ok();
            if stage == RAISED && answers && !column.rotten {
                let mut after = *state;
                after.columns[at].slots[actor] = self.slot(column, CONFIRMED);
                out.push((Step::Confirm { actor: small(actor), at: state.labels[at] }, after));
            }
        }
    }

    fn confirmed(&self, state: &State, actor: usize) -> bool {
        let target = state.actors[actor].aux;
        let answered = self.columns().filter(|at| state.columns[*at].slots[actor].stage == CONFIRMED);
        let votes: Vec<_> = answered
            .map(|at| {
                let mut slot = state.columns[at].slots[actor];
                if self.without == Without::DropFloors {
                    slot.floor = target;
                }
                // Where the commit is known its hint may have come to any volume by now.
                let is_known =
                    state.committed & 1 << target != 0 || self.without == Without::DropKnownCommitted;
                slot.row.committed |= is_known && slot.row.ballot == target;
                if self.without == Without::DropThisTombstone && slot.row.ballot < target {
                    slot.row = Row::default();
                }
                self.vote(at, &slot)
            })
            .collect();
        let needed = if self.without == Without::DropAll { self.quorums().accept() } else { self.volumes };
        may_drop(ballot(target), &votes, Quorums::of(needed), &Lives::default())
    }

    fn dropped(&self, state: &State, actor: usize, at: usize) -> Option<State> {
        let target = state.actors[actor].aux;
        let column = &state.columns[at];
        let floor = if self.without == Without::DropFloors { target } else { column.floor };
        let whatever = self.without == Without::DropIfStill && column.row.ballot > 0;
        if !whatever && !judge_drop(head(column.row).as_ref(), ballot(target), ballot(floor)) {
            return None;
        }
        let mut after = *state;
        after.columns[at].row = Row::default();
        after.forgotten |= 1 << target;
        if self.without == Without::DropKeepsPromise {
            after.columns[at].promised = 0;
        }
        // A tombstone that was never committed changed nothing, and dropping it changes nothing.
        let accepted = self.columns().filter(|at| state.columns[*at].tombstones & 1 << target != 0);
        if accepted.count() >= self.quorums().accept() {
            after.dropped |= state.values[usize::from(target)].history;
        }
        Some(after)
    }
}
