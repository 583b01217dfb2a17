//! Volumes that no fault strikes and that look in one step are alike: of states that differ in their places
//! alone one is searched.

use super::{Cluster, State, VOLUMES, Volume, Volumes, bit, members};

/// Where each volume goes.
type Places = [usize; VOLUMES];

impl Cluster {
    /// The least of the states that differ in the places of like volumes alone.
    pub(super) fn representative(&self, state: &State) -> State {
        let mut least = *state;
        each_order(self.lookers.max(self.victims), self.volumes, &mut [0, 1, 2, 3, 4], &mut |places| {
            least = least.min(moved(state, places));
        });
        least
    }
}

fn each_order(from: usize, end: usize, places: &mut Places, visit: &mut impl FnMut(&Places)) {
    if from >= end {
        visit(places);
        return;
    }
    for at in from..end {
        places.swap(from, at);
        each_order(from + 1, end, places, visit);
        places.swap(from, at);
    }
}

fn moved(state: &State, places: &Places) -> State {
    let mask = |mask: Volumes| -> Volumes { members(mask).map(|at| bit(places[at])).sum() };
    let of_volume = |old: &Volume| {
        let mut new = *old;
        for (at, place) in places.iter().enumerate() {
            new.cursors[*place] = old.cursors[at];
            new.sent[*place] = old.sent[at];
            new.scan.at_beginning[*place] = old.scan.at_beginning[at];
        }
        new.looked_through = mask(old.looked_through);
        new.cut_after_empty = mask(old.cut_after_empty);
        new.scan.voters = mask(old.scan.voters);
        if old.question.life > 0 {
            new.question.peer = places[usize::from(old.question.peer)] as u8;
        }
        new
    };
    let mut new = *state;
    for (at, place) in places.iter().enumerate() {
        new.volumes[*place] = of_volume(&state.volumes[at]);
    }
    for value in &mut new.values {
        value.accepted = mask(value.accepted);
    }
    if let (Some(new), Some(old)) = (&mut new.staged, &state.staged) {
        new.durable = mask(old.durable);
        for (at, place) in places.iter().enumerate() {
            new.lives[*place] = old.lives[at];
        }
    }
    new.image = state.image.as_ref().map(of_volume);
    new
}
