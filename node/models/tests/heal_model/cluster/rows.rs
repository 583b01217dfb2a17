//! A volume stores a row, with the wants that it makes, and keeps its list.

use sherd_core::register::heal::list::{
    ListPlace, hint_unlists, horizon_after, may_leave_list, place_row, sent_by_all,
};
use sherd_core::register::heal::want::{AcceptWant, StoringVolume, want_of_accept};
use sherd_core::register::{DurableShards, ValueOrigin};

use super::wire::{ballot, data, life, number, sequence, volume};
use super::{Cluster, Data, Row, StagedWrite, Standing, State, Volume, bit, holds, members};
use crate::rules::Without;

/// How a row reaches a volume.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way<'a> {
    /// By an accept of a value that is stated to be made from the one at this ballot alone.
    Accept { made_from: Option<u8>, write: Option<&'a StagedWrite> },
    /// From a peer, by a look.
    Pull,
    /// From a voter, by a recovery. The walk that follows looks for shards.
    Adoption,
}

impl Cluster {
    pub(super) fn store(&self, state: &mut State, at: usize, key: usize, row: Row, way: Way<'_>) {
        let value = &mut state.values[usize::from(row.ballot)];
        let volume = &mut state.volumes[at];
        let before = volume.rows[key].ballot;
        volume.sequence += 1;
        volume.rows[key] = Row { sequence: volume.sequence, ..row };
        volume.promised[key] = volume.promised[key].max(row.ballot);
        volume.wants |= self.wanted(volume, at, before, row.ballot, value.names, way) & !volume.shards;
        if row.committed && matches!(way, Way::Adoption) && self.is_without(Without::AdoptedAreListed) {
            volume.listed[key] = false;
        } else {
            self.list(volume, key);
        }
        if volume.standing == Standing::Voting {
            value.accepted |= bit(at);
            if value.accepted.count_ones() as usize >= self.quorums().accept() {
                state.chosen |= 1 << row.ballot;
            }
        }
    }

    /// Data that the volume wants for a row that comes this way, where it lacks its shard.
    fn wanted(&self, own: &Volume, at: usize, before: u8, new: u8, names: Data, way: Way<'_>) -> Data {
        let (made_from, write) = match way {
            Way::Adoption => return 0,
            Way::Pull => return if self.is_without(Without::PulledIsWanted) { 0 } else { names },
            Way::Accept { made_from, write } => (made_from, write),
        };
        let own_data = if write.is_some() { names & 1 << new } else { 0 };
        let new_data = if self.is_without(Without::IntroducedIsWanted) { 0 } else { own_data };
        let introduces: Vec<_> = (new_data != 0).then(|| data(new)).into_iter().collect();
        let durable = write.filter(|_| new_data != 0).map(|write| {
            let lives = if self.is_without(Without::IntroducedByLife) { [own.life; 5] } else { write.lives };
            let lives = members(write.durable).map(|at| (volume(at), life(lives[at]))).collect();
            DurableShards { data: data(new), lives }
        });
        let origin = ValueOrigin { durable: durable.into_iter().collect(), made_from: made_from.map(ballot) };
        let carries = names & !own_data != 0 && !self.is_without(Without::CarriedIsWanted);
        let storing = StoringVolume { volume: volume(at), life: life(own.life), row_before: ballot(before) };
        match want_of_accept(storing, &introduces, &origin, || carries) {
            None => 0,
            Some(AcceptWant::Data(_)) => new_data,
            Some(AcceptWant::Row) => names & !own_data | new_data,
        }
    }

    /// Lists a row that may not be everywhere.
    fn list(&self, volume: &mut Volume, key: usize) {
        let others = (0..self.keys).filter(|other| *other != key);
        let committed = others.filter(|other| volume.listed[*other] && volume.rows[*other].committed).count();
        let row = volume.rows[key];
        let place = place_row(row.committed, committed, self.list_max);
        volume.listed[key] = place == ListPlace::Listed;
        if place == ListPlace::BelowHorizon && !self.is_without(Without::Horizon) {
            volume.horizon = number(horizon_after(sequence(volume.horizon), sequence(row.sequence)));
        }
    }

    /// A commit hint, or what a look says of an equal row.
    pub(super) fn hint(&self, volume: &mut Volume, key: usize, is_everywhere: bool) {
        let row = &mut volume.rows[key];
        let was_committed = std::mem::replace(&mut row.committed, true);
        if hint_unlists(is_everywhere) || self.is_without(Without::HintLeavesListed) {
            volume.listed[key] = false;
        } else if !was_committed || volume.listed[key] {
            self.list(volume, key);
        }
    }

    /// Sends a hint to every volume that holds the row.
    pub(super) fn hint_all(&self, state: &mut State, key: usize, number: u8) {
        let is_everywhere = holds(state.everywhere, number);
        for at in self.all().filter(|at| state.volumes[*at].rows[key].ballot == number).collect::<Vec<_>>() {
            self.hint(&mut state.volumes[at], key, is_everywhere);
        }
    }

    /// Takes off the list of a volume the rows that all others have.
    pub(super) fn unlist(&self, own: &mut Volume, at: usize) {
        let cursors = || self.all().filter(|other| *other != at).map(|other| own.sent[other]);
        let known = |sent: u8| (sent > 0).then(|| sequence(sent));
        let sent = if self.is_without(Without::AllSent) {
            cursors().map(known).max().flatten()
        } else {
            sent_by_all(cursors().map(known))
        };
        for key in 0..self.keys {
            let row = own.rows[key];
            own.listed[key] &= !may_leave_list(sent, sequence(row.sequence), row.committed);
        }
    }
}
