//! Writes, settling and drops, each an atomic step of the set.

use super::rows::Way;
use super::{
    BALLOTS, Cluster, Kind, Row, StagedWrite, Standing, State, Step, Volumes, bit, has, keys_of, members,
    subsets,
};

impl Cluster {
    pub(super) fn write_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        match state.staged {
            Some(write) => self.accept_steps(state, write, out),
            None => self.stage_steps(state, out),
        }
    }

    /// Volumes that store accepts.
    fn takers(&self, state: &State) -> Volumes {
        self.mask(state, |volume| {
            volume.is_up && matches!(volume.standing, Standing::Voting | Standing::Refilling)
        })
    }

    fn stage_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        let Some(kinds) = self.writes.get(usize::from(state.writes)) else { return };
        let takers = self.takers(state);
        let of_kind =
            |kind: &Kind| self.keys_of_write(*kind).map(move |key| (key, *kind)).collect::<Vec<_>>();
        for (key, kind) in kinds.iter().flat_map(of_kind) {
            let brings_data = matches!(kind, Kind::Put | Kind::Append);
            if kind == Kind::Complete && self.part_data(state) == 0 {
                continue;
            }
            let is_enough = |on: Volumes| {
                let acknowledged = on.count_ones();
                acknowledged > self.data_shards && takers.count_ones() - acknowledged <= self.misses
            };
            for on in subsets(takers).filter(|on| if brings_data { is_enough(*on) } else { *on == takers }) {
                let mut after = *state;
                after.writes += 1;
                after.ballot += 1;
                let number = after.ballot;
                let durable = if brings_data { on } else { 0 };
                for at in members(durable) {
                    after.volumes[at].shards |= 1 << number;
                }
                let lives = std::array::from_fn(|at| after.volumes[at].life);
                after.staged = Some(StagedWrite { key: key as u8, kind, durable, lives });
                after.values[usize::from(number)].key = key as u8;
                out.push((Step::Stage { key: key as u8, kind, on }, after));
            }
        }
    }

    fn accept_steps(&self, state: &State, write: StagedWrite, out: &mut Vec<(Step, State)>) {
        let (voting, takers) = (self.voting(state), self.takers(state));
        let quorum = self.quorums().accept();
        for promised in subsets(voting).filter(|promised| promised.count_ones() as usize == quorum) {
            for taken in subsets(takers) {
                if takers.count_ones() - taken.count_ones() > self.misses {
                    continue;
                }
                let mut after = *state;
                after.staged = None;
                self.propose(&mut after, usize::from(write.key), promised, taken, Some(&write));
                out.push((Step::Accept { promised, taken, hints: false }, after));
                if super::holds(after.chosen, after.ballot) {
                    let number = after.ballot;
                    self.hint_all(&mut after, usize::from(write.key), number);
                    out.push((Step::Accept { promised, taken, hints: true }, after));
                }
            }
        }
    }

    /// Proposes a staged write at its ballot, or the found value unchanged at a fresh one.
    fn propose(
        &self,
        state: &mut State,
        key: usize,
        promised: Volumes,
        taken: Volumes,
        write: Option<&StagedWrite>,
    ) {
        let made_from = members(promised).map(|at| state.volumes[at].rows[key].ballot).max().unwrap_or(0);
        let found = state.values[usize::from(made_from)].names;
        if write.is_none() {
            state.ballot += 1;
        }
        let number = state.ballot;
        let names = match write.map(|write| write.kind) {
            Some(Kind::Put) => 1 << number,
            Some(Kind::Append) => found | 1 << number,
            Some(Kind::Delete) => 0,
            Some(Kind::Complete) => self.part_data(state),
            None => found,
        };
        state.values[usize::from(number)] = super::Value { key: key as u8, names, accepted: 0 };
        for at in members(promised) {
            state.volumes[at].promised[key] = number;
        }
        for at in members(taken) {
            if state.volumes[at].takes(key, number) {
                let row = Row { ballot: number, ..Row::default() };
                self.store(
                    state,
                    at,
                    key,
                    row,
                    Way::Accept { made_from: self.stated(made_from, write), write },
                );
            }
        }
        let has_it = |at: usize| {
            state.volumes[at].standing == Standing::Voting && state.volumes[at].rows[key].ballot == number
        };
        if self.all().all(has_it) {
            state.everywhere |= 1 << number;
        }
    }

    /// Data that the part's newest committed value names.
    fn part_data(&self, state: &State) -> super::Data {
        debug_assert!(self.is_upload, "key 0 is a part");
        state.values[usize::from(Self::newest(state, 0))].names
    }

    /// The ballot that an accept states its value was made from.
    fn stated(&self, made_from: u8, write: Option<&StagedWrite>) -> Option<u8> {
        let carries_parts = write.is_some_and(|write| write.kind == Kind::Complete);
        (!carries_parts || self.is_without(crate::rules::Without::CompletedIsWanted)).then_some(made_from)
    }

    /// An identity write of all that can be reached; `false` where there are too few, or no ballots left.
    pub(super) fn finish(&self, state: &mut State, key: usize) -> bool {
        let voting = self.voting(state);
        let is_last = usize::from(state.ballot) + 1 >= BALLOTS;
        if (voting.count_ones() as usize) < self.quorums().accept() || is_last {
            return false;
        }
        let takers = self.takers(state);
        self.propose(state, key, voting, takers, None);
        let number = state.ballot;
        if super::holds(state.chosen, number) {
            self.hint_all(state, key, number);
        }
        true
    }

    /// Settles the newest row that can be reached, where one volume does not know it committed.
    pub(super) fn settle(&self, state: &mut State, key: usize) -> bool {
        let voting = self.voting(state);
        let row = |at: usize| state.volumes[at].rows[key];
        let newest = members(voting).map(|at| row(at).ballot).max().unwrap_or(0);
        let is_held = |at: &usize| row(*at).ballot == newest;
        let up = || self.all().filter(|at| state.volumes[*at].is_up).filter(is_held);
        let is_open = newest > 0 && up().any(|at| !row(at).committed);
        if (voting.count_ones() as usize) < self.quorums().accept() || !is_open {
            return false;
        }
        let is_accepted = |at: &usize| newest > state.volumes[*at].floor;
        let accepted = members(voting).filter(is_held).filter(is_accepted).count();
        if up().any(|at| row(at).committed) || accepted >= self.quorums().accept() {
            let holders: Vec<_> = members(voting).filter(is_held).collect();
            for at in &holders {
                self.hint(&mut state.volumes[*at], key, holders.len() == self.volumes);
            }
            return true;
        }
        self.finish(state, key)
    }

    pub(super) fn settle_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        let ballots_max = self.writes.len() as u8 + 1;
        for key in 0..self.keys {
            let mut after = *state;
            let is_settled = self.settle(&mut after, key) && after != *state && after.ballot <= ballots_max;
            if is_settled && (state.staged.is_none() || after.ballot == state.ballot) {
                out.push((Step::Settle { key: key as u8 }, after));
            }
            let is_stuck = self.all().any(|at| keys_of(state.volumes[at].stuck).any(|stuck| stuck == key));
            let mut after = *state;
            if state.staged.is_none()
                && is_stuck
                && self.finish(&mut after, key)
                && after.ballot <= ballots_max
            {
                out.push((Step::Finish { key: key as u8 }, after));
            }
            if self.drops {
                self.drop_step(state, key, out);
            }
        }
    }

    /// Drops a tombstone that all volumes hold and that one of them has noted as committed.
    fn drop_step(&self, state: &State, key: usize, out: &mut Vec<(Step, State)>) {
        let rows = || self.all().map(|at| state.volumes[at].rows[key]);
        let newest = rows().map(|row| row.ballot).max().unwrap_or(0);
        let is_tombstone = newest > 0 && state.values[usize::from(newest)].names == 0;
        let all: Volumes = self.all().map(bit).sum();
        let is_held = self.voting(state) == all && rows().all(|row| row.ballot == newest);
        if !is_tombstone || !is_held || !rows().any(|row| row.committed) || state.staged.is_some() {
            return;
        }
        let mut after = *state;
        for at in self.all().filter(|at| has(all, *at)) {
            let volume = &mut after.volumes[at];
            volume.floor = volume.floor.max(newest);
            volume.sequence += 1;
            volume.rows[key] = Row::default();
            volume.listed[key] = false;
        }
        out.push((Step::Drop { key: key as u8 }, after));
    }
}
