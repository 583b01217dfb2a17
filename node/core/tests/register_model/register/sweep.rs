//! A sweep of one data id that is older than the horizon.

use sherd_core::register::acceptor::{judge_raise, raise_data_floor};
use sherd_core::register::quorum::{Lives, Quorums};
use sherd_core::register::sweep::{SettleWith, is_orphan, may_sweep, settle_with};

use super::act::{clear, found_value, small};
use super::wire::{HORIZON, data_floor};
use super::{Kind, Phase, Program, Register, State, Step, Value};
use crate::rules::Without;

const FLOORED: u8 = 1;

impl Register {
    pub(super) fn sweep_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        match state.actors[actor].phase {
            Phase::Idle => {
                self.floor_steps(state, actor, out);
                self.floored_steps(state, actor, out);
            }
            Phase::Acting | Phase::Preparing | Phase::Accepting => {
                self.start_steps(state, actor, out);
                self.proposer_steps(state, actor, out);
            }
            _ => {}
        }
    }

    fn floor_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        for at in self.columns() {
            let column = &state.columns[at];
            if column.slots[actor].stage != 0 || judge_raise(self.acceptor(column).standing).is_err() {
                continue;
            }
            let mut after = *state;
            let changed = &mut after.columns[at];
            if self.without != Without::SweepFloors {
                let raised = raise_data_floor(data_floor(column.data_floor), HORIZON);
                changed.data_floor = u8::from(raised >= HORIZON);
            }
            changed.slots[actor] =
                super::Slot { floor: 0, row: super::Row::default(), ..self.slot(changed, FLOORED) };
            out.push((Step::Raise { actor: small(actor), at: state.labels[at] }, after));
        }
    }

    fn floored_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        let needed = if self.without == Without::SweepAll { self.quorums().accept() } else { self.volumes };
        for mask in self.answered(state, actor, FLOORED).filter(|mask| mask.count_ones() as usize == needed) {
            let slots = self.columns().filter(|at| mask & 1 << at != 0);
            let floors: Vec<_> = slots
                .map(|at| {
                    let slot = &state.columns[at].slots[actor];
                    let raised = if self.without == Without::SweepFloors { 1 } else { slot.data_floor };
                    self.reply(at, slot, data_floor(raised))
                })
                .collect();
            if may_sweep(HORIZON, &floors, Quorums::of(needed), &Lives::default()) {
                let mut after = *state;
                clear(&mut after, actor);
                after.actors[actor].phase = Phase::Acting;
                out.push((Step::Floored { actor: small(actor), from: self.label_mask(state, mask) }, after));
            }
        }
    }

    /// The identity write, or what stands for it where nothing was found.
    pub(super) fn propose_swept(&self, after: &mut State, actor: usize) {
        let me = after.actors[actor];
        let found = found_value(after, me.found);
        let no_row = me.found == 0 && self.without == Without::SweepTombstone;
        if no_row || self.without == Without::SweepSettles {
            return self.swept(after, actor, found.data);
        }
        after.values[usize::from(me.ballot)] = match settle_with(me.found > 0) {
            SettleWith::Found => Value { introduces: false, ..found },
            SettleWith::Tombstone => {
                Value { kind: Kind::Tombstone, history: after.dropped, ..Value::default() }
            }
        };
        after.actors[actor].phase = Phase::Accepting;
    }

    pub(super) fn judge_swept(&self, after: &mut State, actor: usize, ballot: u8) {
        let named = after.values[usize::from(ballot)].data;
        self.swept(after, actor, named);
    }

    fn swept(&self, after: &mut State, actor: usize, named: u8) {
        let Program::Sweep(data) = self.actors[actor] else { return };
        clear(after, actor);
        after.actors[actor] = super::Actor { phase: Phase::Done, ..super::Actor::default() };
        if is_orphan(self.data_id(data), HORIZON, named == data + 1) {
            after.released |= 1 << data;
        }
    }
}
