//! Pulls: a volume takes the row of another, of any standing, at the row's own ballot, as a late accept that
//! introduces nothing. The committed flag is the source's.

use sherd_core::id::Ballot;
use sherd_core::register::acceptor::{AcceptVerdict, AcceptorState, VoterStatus, judge_accept};

use super::wire::{ASKED, ballot, head, key};
use super::{Column, Kind, Program, Register, Row, State, Step};
use crate::rules::Without;

impl Register {
    pub(super) fn pull_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for at in self.columns() {
            for from in self.columns().filter(|from| *from != at) {
                let source = &state.columns[from];
                if source.row.ballot == 0 || source.rotten {
                    continue;
                }
                let mut after = *state;
                if self.pull(&mut after, at, source.row) {
                    out.push((Step::Pull { at: state.labels[at], from: state.labels[from] }, after));
                }
            }
        }
    }

    /// Takes a row; `false` where nothing changes.
    fn pull(&self, after: &mut State, at: usize, shown: Row) -> bool {
        let is_committed = shown.committed || self.without == Without::PulledFlagIsTheSources;
        let kind = after.values[usize::from(shown.ballot)].kind;
        let column = &mut after.columns[at];
        match self.judge_pull(column, shown.ballot) {
            Some(AcceptVerdict::Store) => {
                column.row = Row { ballot: shown.ballot, committed: is_committed };
                column.rotten = false;
                column.promised = column.promised.max(shown.ballot);
                if kind == Kind::Tombstone && self.actors.contains(&Program::Drop) {
                    column.tombstones |= 1 << shown.ballot;
                }
                true
            }
            Some(AcceptVerdict::AlreadyStored) if is_committed && column.row.ballot == shown.ballot => {
                !std::mem::replace(&mut column.row.committed, true)
            }
            Some(AcceptVerdict::AlreadyStored) | None => false,
        }
    }

    fn judge_pull(&self, column: &Column, number: u8) -> Option<AcceptVerdict> {
        let mut acceptor: AcceptorState = self.acceptor(column);
        let row = head(column.row);
        let mut known = key(column, row.as_ref());
        match self.without {
            Without::PullKeepsPromise => known.promised = Ballot::ZERO,
            Without::PullKeepsNewer => (known.row, known.promised) = (None, Ballot::ZERO),
            Without::PullAboveBound => acceptor.restart_bound = Ballot::ZERO,
            Without::PullAboveFloor => acceptor.floor = Ballot::ZERO,
            Without::PullByStanding => acceptor.standing = VoterStatus::Voting,
            _ => {}
        }
        judge_accept(&acceptor, &known, ASKED, ballot(number), &[]).ok()
    }
}
