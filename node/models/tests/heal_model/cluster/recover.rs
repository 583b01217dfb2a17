//! Volumes that lost their state, or went back in time, and how they come to vote again.

use sherd_core::register::heal::whole::is_source;
use sherd_core::register::recover::{Adoption, adopt};

use super::rows::Way;
use super::wire::head;
use super::{
    Cluster, Cursor, Question, Row, Scan, Standing, State, Step, VOLUMES, Volume, Volumes, bit, has, holds,
    members, numbers, subsets,
};
use crate::rules::Without;

impl Cluster {
    pub(super) fn recovery_steps(&self, state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        let volume = &state.volumes[at];
        match volume.standing {
            Standing::Vacant if !self.may_fill(state, at) => {}
            Standing::Vacant | Standing::Lost => {
                let others = self.voting(state) & !bit(at);
                let quorum = self.quorums().prepare();
                for voters in subsets(others).filter(|voters| voters.count_ones() as usize == quorum) {
                    let mut after = *state;
                    after.was_filled_wrongly =
                        volume.standing == Standing::Vacant && self.needs_missing_disks(state);
                    self.begin_adoption(&mut after, at, voters);
                    out.push((Step::Adopt { at: at as u8, voters }, after));
                }
            }
            Standing::Refilling if Self::voters_are_there(state, at) => {
                let mut after = *state;
                if volume.scan.is_through {
                    self.vote(&mut after, at);
                    out.push((Step::Vote { at: at as u8 }, after));
                } else {
                    self.scan(&mut after, at);
                    out.push((Step::Scan { at: at as u8 }, after));
                }
            }
            Standing::Refilling | Standing::Voting => {}
        }
    }

    /// Whether enough sources are there to fill an empty directory without a person's order.
    fn may_fill(&self, state: &State, at: usize) -> bool {
        let is_source = |other: &usize| {
            // Moment 0 is when the directory was seen empty.
            let is_later = has(state.volumes[at].cut_after_empty, *other);
            let cut = self.is_whole(state, *other).then_some(u8::from(is_later));
            is_source(cut, 0) || self.is_without(Without::CutAfterEmpty) && cut.is_some()
        };
        let sources = self.all().filter(|other| *other != at).filter(is_source).count();
        sources >= self.data_shards as usize
    }

    /// Whether some of the newest data can be read only with disks whose directories are empty.
    fn needs_missing_disks(&self, state: &State) -> bool {
        let on = |volume: &Volume, number| match volume.standing {
            Standing::Vacant => (false, holds(volume.disk, number)),
            _ => (holds(volume.shards, number), false),
        };
        (0..self.keys).flat_map(|key| numbers(state.values[usize::from(Self::newest(state, key))].names)).any(
            |number| {
                let shards = || self.all().map(|at| on(&state.volumes[at], number));
                let there = shards().filter(|(there, _)| *there).count();
                let disks = shards().filter(|(_, on_disk)| *on_disk).count();
                let needed = self.data_shards as usize;
                there < needed && there + disks >= needed
            },
        )
    }

    pub(super) fn begin_adoption(&self, state: &mut State, at: usize, voters: Volumes) {
        let guarantee = |voter: usize| {
            let volume = &state.volumes[voter];
            let rows = volume.rows.iter().map(|row| row.ballot);
            rows.chain(volume.promised).chain([volume.floor, volume.bound]).max().unwrap_or(0)
        };
        let floor = members(voters).map(guarantee).max().unwrap_or(0);
        let mut scan = Scan { voters, ..Scan::default() };
        for voter in members(voters) {
            let volume = &mut state.volumes[voter];
            volume.floor = volume.floor.max(floor);
            scan.at_beginning[voter] = volume.sequence;
        }
        let volume = &mut state.volumes[at];
        volume.has_walked = volume.standing == Standing::Lost && self.is_without(Without::RolledBackWalks);
        volume.life += 1;
        volume.standing = Standing::Refilling;
        volume.floor = volume.floor.max(floor);
        volume.disk = 0;
        volume.cursors = [Cursor::default(); VOLUMES];
        volume.forget_look();
        volume.scan = scan;
    }

    pub(super) fn voters_are_there(state: &State, at: usize) -> bool {
        members(state.volumes[at].scan.voters).all(|voter| state.volumes[voter].votes())
    }

    pub(super) fn scan(&self, state: &mut State, at: usize) {
        for key in 0..self.keys {
            let rows: Vec<Row> =
                members(state.volumes[at].scan.voters).map(|voter| state.volumes[voter].rows[key]).collect();
            for found in rows {
                let own = &mut state.volumes[at];
                let Some(voters) = head(found) else { continue };
                match adopt(head(own.rows[key]).as_ref(), &voters) {
                    Adoption::Take => self.store(state, at, key, found, Way::Adoption),
                    Adoption::LearnCommitted => self.hint(own, key, false),
                    Adoption::Keep => {}
                }
            }
        }
        state.volumes[at].scan.is_through = true;
    }

    pub(super) fn vote(&self, state: &mut State, at: usize) {
        let scan = std::mem::take(&mut state.volumes[at].scan);
        for voter in members(scan.voters) {
            let from = &state.volumes[voter];
            let at_end = self.is_without(Without::CursorsAtBeginning);
            let sequence = if at_end { from.sequence } else { scan.at_beginning[voter] };
            state.volumes[at].cursors[voter] = Cursor { life: from.life, sequence };
        }
        state.volumes[at].standing = Standing::Voting;
    }
}

impl Volume {
    /// A round of looks belongs to one opening.
    pub(super) fn forget_look(&mut self) {
        (self.cut, self.looked_through, self.stuck) = (None, 0, 0);
        self.question = Question::default();
    }
}
