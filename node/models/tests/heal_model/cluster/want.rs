//! Wants: worked off, ended, or found to be lost; and the walk of a volume that recovered.

use sherd_core::register::heal::want::{OwnRow, ShardSearch, is_lost, want_ends};

use super::{Cluster, Data, Standing, State, Volume, holds};
use crate::rules::Without;

impl Cluster {
    /// Works on one want; `false` where nothing changes.
    pub(super) fn work(&self, state: &mut State, at: usize, number: u8) -> bool {
        let data: Data = 1 << number;
        let key = usize::from(state.values[usize::from(number)].key);
        let before = state.volumes[at];
        let others = self.all().filter(|other| *other != at).map(|other| &state.volumes[other]);
        let reached = others.filter(|other| other.is_up && other.standing != Standing::Vacant);
        let shards = reached.filter(|other| holds(other.shards, number)).count();
        let is_rebuilt = shards >= self.data_shards as usize;
        let ends = self.want_ends(state, at, key, number);
        let is_lost = self.is_lost(state, shards);
        let own = &mut state.volumes[at];
        if ends || is_rebuilt {
            (own.wants, own.lost) = (own.wants & !data, own.lost & !data);
            own.shards |= if ends { 0 } else { data };
        } else if is_lost {
            own.lost |= data;
        }
        state.volumes[at] != before
    }

    fn want_ends(&self, state: &State, at: usize, key: usize, number: u8) -> bool {
        let own_row = |volume: &Volume, key: usize| match volume.rows[key] {
            row if row.ballot == 0 => OwnRow::Absent,
            row => OwnRow::Read {
                committed: row.committed || self.is_without(Without::WantEndsByCommitted),
                names: holds(state.values[usize::from(row.ballot)].names, number),
            },
        };
        let own = &state.volumes[at];
        let own_rows: Vec<_> = self.keys_naming(key).map(|key| own_row(own, key)).collect();
        let ends = want_ends(holds(own.shards, number), &own_rows);
        let by_another = |other: usize| {
            let volume = &state.volumes[other];
            let row = volume.rows[key].ballot;
            let excludes = row > 0 && !holds(state.values[usize::from(row)].names, number);
            other != at && volume.is_up && volume.standing != Standing::Vacant && excludes
        };
        ends || self.is_without(Without::WantEndsByOwn) && self.all().any(by_another)
    }

    fn is_lost(&self, state: &State, whole_shards: usize) -> bool {
        let voting = if self.is_without(Without::LostByAll) {
            self.volumes
        } else {
            self.voting(state).count_ones() as usize
        };
        let data_shards = self.data_shards as usize;
        is_lost(ShardSearch { volumes: self.volumes, voting, whole_shards, data_shards })
    }

    /// A volume that recovered looks for the shards of all its rows.
    pub(super) fn walk(&self, state: &mut State, at: usize) {
        let volume = &mut state.volumes[at];
        for key in 0..self.keys {
            let names = state.values[usize::from(volume.rows[key].ballot)].names;
            volume.wants |= names & !volume.shards;
        }
        volume.has_walked = true;
    }
}
