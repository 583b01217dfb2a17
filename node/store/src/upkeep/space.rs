//! Full volumes, looked for from second to second: logged once when writes stop and once when they go on.
//!
//! A volume that is not full is given what could not be healed for lack of room on it. A volume that is full
//! at the start is logged at the start.

use std::collections::BTreeSet;

use sherd_core::id::VolumeId;

use super::deps::Deps;
use super::queue::HealQueue;
use crate::machine::quantity::Period;
use crate::upkeep::limits::SPACE_LOOK_EVERY;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FullVolumes {
    volumes: BTreeSet<VolumeId>,
    /// Sets that refuse what needs room.
    sets: BTreeSet<u32>,
}

/// The difference to the look before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SpaceChange {
    filled: Vec<VolumeId>,
    has_room_again: Vec<VolumeId>,
    sets_closed: Vec<u32>,
    sets_opened: Vec<u32>,
}

impl FullVolumes {
    /// Takes what is seen now.
    pub(super) fn change(&mut self, now: Self) -> SpaceChange {
        let change = SpaceChange {
            filled: now.volumes.difference(&self.volumes).copied().collect(),
            has_room_again: self.volumes.difference(&now.volumes).copied().collect(),
            sets_closed: now.sets.difference(&self.sets).copied().collect(),
            sets_opened: self.sets.difference(&now.sets).copied().collect(),
        };
        *self = now;
        change
    }
}

pub(crate) async fn follow_space(deps: &Deps, queue: &HealQueue) {
    let mut seen = FullVolumes::default();
    loop {
        let change = seen.change(full_volumes(deps));
        log_change(deps, &change);
        // At each look, and not only where one of them has room again: a heal may have found a volume full
        // that no look did.
        queue.mrf.wake_for_room(|volume| seen.volumes.contains(volume));
        tokio::time::sleep(SPACE_LOOK_EVERY).await;
    }
}

fn full_volumes(deps: &Deps) -> FullVolumes {
    let mut now = FullVolumes::default();
    for set in deps.cluster.sets() {
        let full = set.routes.iter().filter(|route| route.peer.is_full(route.volume));
        now.volumes.extend(full.map(|route| route.volume));
        if set.lacks_room() || set.lacks_room_for_shards() {
            now.sets.insert(set.id.0);
        }
    }
    now
}

fn log_change(deps: &Deps, change: &SpaceChange) {
    let SpaceChange { filled, has_room_again, sets_closed, sets_opened } = change;
    let path = |volume: &VolumeId| {
        let all = deps.volumes.status();
        let found = all.iter().find(|status| status.id == *volume);
        found.map_or_else(|| volume.to_string(), |status| status.path.display().to_string())
    };
    for volume in filled {
        tracing::warn!(volume = path(volume), "volume is full: it takes no new data");
    }
    for volume in has_room_again {
        tracing::info!(volume = path(volume), "volume has room again");
    }
    let release_grace = Period(deps.tuning.release_grace());
    for set in sets_closed {
        tracing::warn!(
            set,
            %release_grace,
            "too many volumes are full: writes are refused with 507, reads and deletes work; the space of \
             deleted objects comes back after the release grace"
        );
    }
    for set in sets_opened {
        tracing::info!(set, "volumes have room again: writes are taken");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_seen_once() {
        let volume = |number| VolumeId([number; 16]);
        let now = |volumes: &[u8], sets: &[u32]| FullVolumes {
            volumes: volumes.iter().copied().map(volume).collect(),
            sets: sets.iter().copied().collect(),
        };
        let mut seen = FullVolumes::default();
        let first = seen.change(now(&[1, 2], &[0]));
        assert_eq!((first.filled, first.sets_closed), (vec![volume(1), volume(2)], vec![0]));
        assert_eq!(seen.change(now(&[1, 2], &[0])), SpaceChange::default());
        let second = seen.change(now(&[2], &[]));
        assert_eq!((second.has_room_again, second.sets_opened), (vec![volume(1)], vec![0]));
        assert!(second.filled.is_empty() && second.sets_closed.is_empty());
    }
}
