//! The committed row of a key brought to every volume of its set: pulled by those that lack it, and written
//! again at a fresh ballot where that is refused, or where the row is not committed.

use sherd_core::id::{RegisterKey, VolumeId};

use super::pull::{WaitsFor, pull_committed};
use super::{Rows, tell_committed, whole_rows_of};
use crate::register::Failure;
use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::is_gone_for_ever;
use crate::upkeep::limits::STRAGGLER_PAUSES;
use crate::upkeep::queue::entries::Spare;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HealOutcome {
    Whole,
    /// No register names the data, or the bucket is gone: there is nothing to heal.
    Unnamed,
    Later {
        /// How many more losses the data can take.
        spare: Spare,
        reason: String,
        obstacle: Obstacle,
    },
}

/// The obstacle to a heal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Something is wrong on a volume that answered.
    Damage,
    /// Volumes are away, which are compared when they come back.
    Absence,
    /// These volumes have no room for it, and all others are there and have it.
    Room(Vec<VolumeId>),
}

impl HealOutcome {
    pub(crate) fn later(spare: u8, reason: impl std::fmt::Display) -> Self {
        Self::Later { spare: Spare(spare), reason: reason.to_string(), obstacle: Obstacle::Damage }
    }
}

/// Brings the committed row of a key to every volume of its set.
pub(crate) async fn heal_row(deps: &Deps, key: &RegisterKey) -> HealOutcome {
    // Rot may be in bytes that no vote needs: here every row is read whole.
    let mut rows = whole_rows_of(deps, key).await;
    if let Some(full) = behind_for_room(deps, key, &rows) {
        return wait_for_room(&rows, full);
    }
    let pulled = pull_committed(deps, key, &rows).await;
    // Rot is on a volume that has the row: a full one must not keep it from being written again.
    match pulled.waits_for().filter(|_| rows.rotten.is_empty()) {
        Some(WaitsFor::Room(full)) => return wait_for_room(&rows, full),
        Some(WaitsFor::Busy) => return HealOutcome::later(1, "a volume that lacks the row is busy"),
        None => {}
    }
    if pulled.taken_count > 0 {
        rows = whole_rows_of(deps, key).await;
    }
    let quorums = deps.cluster.set_of(key).quorums();
    let is_undecided = rows.held.len() >= quorums.accept() && !rows.are_settled(quorums);
    if !rows.are_same() || is_undecided {
        match deps.registers.finish_above(key, pulled.bound_to_pass(deps.now())).await {
            Ok(_) => {}
            Err(Failure::Sealed) => return sealed(deps, key),
            Err(failure) => return HealOutcome::later(1, failure),
        }
        rows = rows_after_settling(deps, key).await;
    }
    if !rows.are_same() {
        return HealOutcome::later(1, "volumes of the set are behind");
    }
    tell_committed(deps, key, &rows);
    if !rows.sealed.is_empty() {
        sealed(deps, key)
    } else if rows.silent.is_empty() {
        HealOutcome::Whole
    } else {
        let reason = "volumes of the set are offline, or do not vote".to_owned();
        let obstacle = if rows.late.is_empty() { Obstacle::Absence } else { Obstacle::Damage };
        HealOutcome::Later { spare: Spare(1), reason, obstacle }
    }
}

fn wait_for_room(rows: &Rows, full: Vec<VolumeId>) -> HealOutcome {
    let all_said = rows.silent.is_empty() && rows.sealed.is_empty();
    let obstacle = if all_said { Obstacle::Room(full) } else { Obstacle::Damage };
    HealOutcome::Later { spare: Spare(1), reason: "volumes of the set are full".to_owned(), obstacle }
}

/// The volumes that lack the committed row of a key, where all of them are full. To write it again would make
/// it one that is not known committed, which takes their reserve, for those that have it already.
fn behind_for_room(deps: &Deps, key: &RegisterKey, rows: &Rows) -> Option<Vec<VolumeId>> {
    let set = deps.cluster.set_of(key);
    let is_full = |volume: &VolumeId| {
        let place = set.place_of(*volume);
        place.is_some_and(|place| set.routes[place].peer.is_full(*volume))
    };
    let needs_room = rows.behind_the_committed_and_need_room();
    needs_room.filter(|behind| !behind.is_empty() && behind.iter().all(is_full))
}

/// The rows of a key that was settled just now: A volumes hold the new one, and the others get it
/// in the next moments.
async fn rows_after_settling(deps: &Deps, key: &RegisterKey) -> Rows {
    for pause in STRAGGLER_PAUSES {
        let rows = whole_rows_of(deps, key).await;
        if rows.are_same() {
            return rows;
        }
        tokio::time::sleep(pause).await;
    }
    whole_rows_of(deps, key).await
}

/// The outcome of a heal in a sealed bucket: nothing to do when it is gone for ever.
pub(crate) fn sealed(deps: &Deps, key: &RegisterKey) -> HealOutcome {
    if is_gone_for_ever(deps, key) { HealOutcome::Unnamed } else { HealOutcome::later(1, Failure::Sealed) }
}
