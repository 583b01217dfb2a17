//! A lost volume's way back, with every step taken at a moment of its own.

use sherd_core::id::Incarnation;
use sherd_core::register::quorum::{Lives, Reply};
use sherd_core::register::recover::{Adoption, Guarantees, adopt, barrier, may_scan, may_vote, next_life};

use super::act::{clear, small};
use super::wire::{ASKED, head, number, volume};
use super::{Column, Phase, Program, Register, Row, Slot, State, Step, VICTIMS, VoterStatus};
use crate::rules::Without;

/// How far a voter has come, as a slot's stage.
const REPORTED: u8 = 1;
const RECORDED: u8 = 2;
const CHOSEN: u8 = 3;
const GUARDED: u8 = 4;
const SCANNED: u8 = 5;

impl Register {
    pub(super) fn recover_steps(&self, state: &State, actor: usize, out: &mut Vec<(Step, State)>) {
        let Program::Recover(victim) = self.actors[actor] else { return };
        let victim = usize::from(victim);
        let me = small(actor);
        if self.must_begin(state, actor, victim) {
            self.rebuild_steps(state, actor, victim, out);
            return;
        }
        for at in self.columns().filter(|at| *at != victim) {
            let column = &state.columns[at];
            let stage = column.slots[actor].stage;
            let label = state.labels[at];
            if column.standing != VoterStatus::Voting {
                continue;
            }
            match (state.actors[actor].phase, stage) {
                (Phase::Collecting, 0) if self.without == Without::RecordThenReport => {
                    let mut after = *state;
                    after.columns[at].slots[actor] = reported(&self.slot(column, REPORTED), column);
                    out.push((Step::Report { actor: me, at: label }, after));
                }
                (Phase::Collecting, 0 | REPORTED) => {
                    let mut after = *state;
                    let changed = &mut after.columns[at];
                    changed.knows[victim] = changed.knows[victim].max(state.columns[victim].life);
                    let told = if stage == REPORTED {
                        column.slots[actor]
                    } else {
                        reported(&self.slot(changed, 0), changed)
                    };
                    changed.slots[actor] = Slot { stage: RECORDED, knows: changed.knows, ..told };
                    out.push((Step::Record { actor: me, at: label }, after));
                }
                (Phase::Acting, CHOSEN) => {
                    out.push((Step::Guard { actor: me, at: label }, self.guard(state, actor, at)));
                }
                (Phase::Acting, GUARDED)
                    if may_scan(&self.goal(state, actor), &self.guarded(state, actor), &Lives::default()) =>
                {
                    out.push((Step::Scan { actor: me, at: label }, self.scan(state, actor, victim, at)));
                }
                _ => {}
            }
        }
        if state.actors[actor].phase == Phase::Collecting {
            self.take_steps(state, actor, victim, out);
        }
        self.vote_step(state, actor, victim, out);
    }

    /// A recovery begins when the victim is lost, and anew when one of its voters is no longer what
    /// it was.
    fn must_begin(&self, state: &State, actor: usize, victim: usize) -> bool {
        let changed = |at: usize| {
            let (column, slot) = (&state.columns[at], &state.columns[at].slots[actor]);
            slot.stage >= CHOSEN && (column.standing != VoterStatus::Voting || column.life != slot.life)
        };
        match state.actors[actor].phase {
            Phase::Idle => state.columns[victim].standing == VoterStatus::Lost,
            Phase::Acting => self.columns().any(changed),
            _ => false,
        }
    }

    fn rebuild_steps(&self, state: &State, actor: usize, victim: usize, out: &mut Vec<(Step, State)>) {
        let others = |at: &usize| *at != victim && state.columns[*at].standing == VoterStatus::Voting;
        let all: u8 = self.columns().filter(others).map(|at| 1 << at).sum();
        let quorum = self.quorums().prepare();
        for mask in (1..=all).filter(|mask| mask & !all == 0 && mask.count_ones() as usize == quorum) {
            let known: Vec<Reply<Guarantees>> = self
                .columns()
                .filter(|at| mask & 1 << at != 0)
                .map(|at| self.report(at, &self.slot(&state.columns[at], 1)))
                .collect();
            let own = Incarnation(u32::from(state.columns[victim].life));
            let lives = Lives::default();
            let Some(life) = next_life(volume(victim), own, &known, self.quorums(), &lives) else { continue };
            let mut after = *state;
            clear(&mut after, actor);
            after.columns[victim].life = u8::try_from(life.0).expect("few losses");
            after.actors[actor].phase = Phase::Collecting;
            out.push((Step::Rebuild { actor: small(actor), from: self.label_mask(state, mask) }, after));
        }
    }

    fn take_steps(&self, state: &State, actor: usize, victim: usize, out: &mut Vec<(Step, State)>) {
        let quorum = self.quorums().prepare();
        let life = Incarnation(u32::from(state.columns[victim].life));
        for mask in self.answered(state, actor, RECORDED).filter(|mask| mask.count_ones() as usize == quorum)
        {
            let slots = self.columns().filter(|at| mask & 1 << at != 0);
            let reports: Vec<_> = slots.map(|at| self.report(at, &state.columns[at].slots[actor])).collect();
            // Where replies of old lives count, a report says nothing of lives, and the step is forced.
            let (set, lives) = (self.quorums(), Lives::default());
            let Some(found) = barrier(volume(victim), life, &reports, set, &lives, ASKED.now) else {
                continue;
            };
            let mut after = *state;
            for at in self.columns() {
                let slot = &mut after.columns[at].slots[actor];
                if mask & 1 << at == 0 { *slot = Slot::default() } else { slot.stage = CHOSEN }
            }
            let floor = number(found.floor);
            let changed = &mut after.columns[victim];
            if self.without != Without::TakeFloor {
                changed.floor = changed.floor.max(floor);
            }
            self.take_over(changed, &found.guarantees);
            changed.standing = VoterStatus::Refilling;
            (after.actors[actor].phase, after.actors[actor].aux) = (Phase::Acting, floor);
            out.push((Step::Take { actor: small(actor), from: self.label_mask(state, mask) }, after));
        }
    }

    /// Lives and data floors of voters, into the recovering volume.
    fn take_over(&self, victim: &mut Column, guarantees: &Guarantees) {
        if self.without != Without::AdoptDataFloors && guarantees.data_floor >= super::wire::HORIZON {
            victim.data_floor = 1;
        }
        if self.without != Without::AdoptLives {
            for known in 0..VICTIMS {
                let life = guarantees.life_of(volume(known)).0;
                victim.knows[known] = victim.knows[known].max(u8::try_from(life).expect("few losses"));
            }
        }
    }

    fn guard(&self, state: &State, actor: usize, at: usize) -> State {
        let mut after = *state;
        let goal = state.actors[actor].aux;
        let changed = &mut after.columns[at];
        if !self.without.scans_before_floor() {
            changed.floor = changed.floor.max(goal);
        }
        let slot = &mut changed.slots[actor];
        (slot.stage, slot.floor) = (GUARDED, goal);
        after
    }

    fn scan(&self, state: &State, actor: usize, victim: usize, at: usize) -> State {
        let mut after = *state;
        let voter = state.columns[at];
        after.columns[at].slots[actor].stage = SCANNED;
        let found = self.report(at, &self.slot(&voter, 1)).result.expect("a report is no refusal");
        self.take_over(&mut after.columns[victim], &found);
        let Column { row: own, tombstones, .. } = &mut after.columns[victim];
        let skip = self.without == Without::AdoptFromAll && own.ballot > 0;
        if let Some(row) = head(voter.row).filter(|_| !skip) {
            match adopt(head(*own).as_ref(), &row) {
                Adoption::Take => {
                    *own = voter.row;
                    *tombstones |= voter.tombstones & 1 << voter.row.ballot;
                }
                Adoption::LearnCommitted => own.committed = true,
                Adoption::Keep => {}
            }
        }
        after
    }

    fn vote_step(&self, state: &State, actor: usize, victim: usize, out: &mut Vec<(Step, State)>) {
        if state.actors[actor].phase != Phase::Acting {
            return;
        }
        let scanned = self.columns().filter(|at| state.columns[*at].slots[actor].stage == SCANNED);
        let scans: Vec<_> = scanned
            .map(|at| self.reply(at, &Slot { round: 1, ..state.columns[at].slots[actor] }, ()))
            .collect();
        if !may_vote(&self.goal(state, actor), &self.guarded(state, actor), &scans, &Lives::default()) {
            return;
        }
        let mut after = *state;
        clear(&mut after, actor);
        after.columns[victim].standing = VoterStatus::Voting;
        (after.actors[actor].phase, after.actors[actor].aux) = (Phase::Idle, 0);
        out.push((Step::Vote { actor: small(actor) }, after));
    }

    /// The barrier of a recovery under way.
    fn goal(&self, state: &State, actor: usize) -> sherd_core::register::recover::Barrier {
        let voters = self.columns().filter(|at| state.columns[*at].slots[actor].stage >= CHOSEN);
        let life = |at: usize| self.answerer(&state.columns[at].slots[actor]).incarnation;
        sherd_core::register::recover::Barrier {
            floor: super::wire::ballot(state.actors[actor].aux),
            voters: voters.map(|at| (volume(at), life(at))).collect(),
            guarantees: Guarantees::default(),
        }
    }

    fn guarded(&self, state: &State, actor: usize) -> Vec<Reply<Guarantees>> {
        let done = self.columns().filter(|at| state.columns[*at].slots[actor].stage >= GUARDED);
        done.map(|at| self.report(at, &state.columns[at].slots[actor])).collect()
    }
}

/// A slot that remembers a report: what was or may have been promised, floor and highest ballot as one
/// maximum.
fn reported(slot: &Slot, column: &Column) -> Slot {
    let promised = column.promised.max(column.restart_bound);
    let highest = promised.max(column.floor).max(column.row.ballot);
    Slot { floor: highest, row: Row::default(), ..*slot }
}
