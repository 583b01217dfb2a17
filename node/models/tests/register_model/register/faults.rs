//! What happens to acceptors: restarts, lost state, rot; and the commit hints that reach them.

use sherd_core::register::acceptor::{after_restart, judge_commit};

use super::act::small;
use super::wire::{ballot, head, number};
use super::{Column, Register, State, Step, VoterStatus};
use crate::rules::Without;

impl Register {
    pub(super) fn fault_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for at in self.columns() {
            let column = &state.columns[at];
            let label = state.labels[at];
            let is_known = column.row.ballot > 0 && state.committed & 1 << column.row.ballot != 0;
            let hint = ballot(column.row.ballot);
            if self.hints
                && is_known
                && !column.row.committed
                && judge_commit(head(column.row).as_ref(), hint)
            {
                let mut after = *state;
                after.columns[at].row.committed = true;
                out.push((Step::Hint { at: label }, after));
            }
            if state.restarts < self.restarts && column.standing != VoterStatus::Lost {
                let mut after = *state;
                after.restarts += 1;
                let changed = &mut after.columns[at];
                if self.without != Without::RestartBound {
                    changed.restart_bound = number(after_restart(&self.acceptor(column)).restart_bound);
                }
                changed.promised = 0;
                out.push((Step::Restart { at: label }, after));
            }
            if at < self.losses.len()
                && state.losses[at] < self.losses[at]
                && column.standing == VoterStatus::Voting
            {
                let mut after = *state;
                after.losses[at] += 1;
                let (slots, tombstones) = (column.slots, column.tombstones);
                after.columns[at] = Column {
                    standing: VoterStatus::Lost,
                    life: 1,
                    knows: [1; 2],
                    slots,
                    tombstones,
                    ..Column::default()
                };
                out.push((Step::Lose { at: small(usize::from(label)) }, after));
            }
            if self.rot && state.rot == 0 && column.row.ballot > 0 {
                let mut after = *state;
                after.rot = 1;
                after.columns[at].rotten = true;
                out.push((Step::Rot { at: label }, after));
            }
        }
    }
}
