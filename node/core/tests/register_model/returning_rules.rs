//! The rules about disks that come back, each taken out once, in sets of two to five volumes.

use crate::report::{breaks, holds, holds_when_full};
use crate::returning::{ReturningDisks, Without};

/// One volume is lost and its disk comes back, or an earlier copy of it does.
fn one_disk(volumes: usize) -> ReturningDisks {
    ReturningDisks { without: Without::Nothing, volumes, writes: 3, losses: [1, 0], returns: 1, restarts: 1 }
}

fn needed(without: Without, model: &ReturningDisks) {
    breaks(without, &ReturningDisks { without, ..model.clone() });
    holds(&format!("with    {without:?}, {} volumes", model.volumes), model);
}

#[test]
fn enough_peers_say_what_they_remember_before_a_volume_votes() {
    for volumes in 2..=5 {
        needed(Without::EnoughPeers, &one_disk(volumes));
    }
}

/// In an odd set every quorum with the old life has a volume that knows the later one.
#[test]
fn a_remembered_life_above_ones_own_is_lost_state() {
    for volumes in [2, 4] {
        needed(Without::LaterLives, &ReturningDisks { writes: 2, ..one_disk(volumes) });
    }
}

#[test]
fn a_remembered_record_above_ones_own_is_lost_state() {
    for volumes in 2..=5 {
        needed(Without::LaterRecords, &ReturningDisks { losses: [0, 0], ..one_disk(volumes) });
    }
}

/// The only other volume that is there lost its state, and what it remembered with it.
#[test]
fn a_volume_that_lost_its_own_state_does_not_confirm_another() {
    let two = ReturningDisks { losses: [1, 1], restarts: 0, ..one_disk(4) };
    needed(Without::WholePeers, &two);
    holds_when_full("two volumes lost, one disk back, one restart", &ReturningDisks { restarts: 1, ..two });
}

#[test]
fn a_volume_that_is_rebuilt_remembers_what_its_voters_do() {
    needed(Without::AdoptMemory, &ReturningDisks { losses: [1, 1], restarts: 0, ..one_disk(4) });
}

/// Two disks come back, each of them from before the other's loss was known.
#[test]
fn a_volume_that_was_rolled_back_itself_does_not_confirm_another() {
    let two = ReturningDisks { losses: [1, 1], returns: 2, restarts: 0, writes: 2, ..one_disk(4) };
    needed(Without::CurrentPeers, &two);
}
