//! The nodes' last reports of their volumes, for every room from the peers up.
//!
//! Membership writes here, once for each answered ping; a peer over the network reads here which life it
//! addresses and whether a volume has room, and health, settle and sweep read the rest. The last report of a
//! node that is down stays, marked with that state. One table per process, shared by clones.

use std::collections::hash_map::{Entry, HashMap};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::RwLock;

use sherd_core::id::{Life, NodeId, VolumeId};
use sherd_core::limits::NODE_VOLUMES_MAX;
use sherd_core::report::VolumeReport;

/// A volume of another node, as that node reported it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteVolume {
    /// Id of the volume.
    pub id: VolumeId,
    /// The node that reported it.
    pub node: NodeId,
    /// The report. Of a node that is down: offline, neither open, voting nor healed.
    pub report: VolumeReport,
}

/// A volume that two nodes report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeConflict {
    /// Id of the volume.
    pub volume: VolumeId,
    /// The node that reported it first, and whose report counts.
    pub node: NodeId,
    /// The other one.
    pub other: NodeId,
}

/// The volumes of all other nodes. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RemoteVolumes(Arc<RwLock<RemoteTable>>);

#[derive(Debug, Default)]
struct RemoteTable {
    volumes: HashMap<VolumeId, RemoteVolume>,
    /// By the other node, and volume.
    conflicts: BTreeMap<(NodeId, VolumeId), VolumeConflict>,
    /// Nodes that do not answer.
    down: BTreeSet<NodeId>,
}

impl RemoteVolumes {
    /// The last report of a volume.
    pub fn volume(&self, volume: VolumeId) -> Option<RemoteVolume> {
        self.0.read().volumes.get(&volume).cloned()
    }

    /// All volumes that were ever reported, in the order of their ids.
    pub fn all(&self) -> Vec<RemoteVolume> {
        let mut all: Vec<_> = self.0.read().volumes.values().cloned().collect();
        all.sort_by_key(|volume| volume.id);
        all
    }

    /// The life that a volume was last in; `None` while that is not known.
    pub fn life_of(&self, volume: VolumeId) -> Option<Life> {
        self.0.read().volumes.get(&volume).and_then(|known| known.report.life)
    }

    /// Whether a volume has room; true while that is not known, so that it is asked.
    pub fn has_room(&self, volume: VolumeId) -> bool {
        self.0.read().volumes.get(&volume).is_none_or(|known| known.report.has_room)
    }

    /// Whether any of these nodes does not answer. One that was not asked yet counts as up.
    pub fn any_down(&self, nodes: &[NodeId]) -> bool {
        let table = self.0.read();
        !table.down.is_empty() && nodes.iter().any(|node| table.down.contains(node))
    }

    /// Volumes that two nodes report.
    pub fn conflicts(&self) -> Vec<VolumeConflict> {
        self.0.read().conflicts.values().cloned().collect()
    }

    /// Replaces the last report of a node that answered. A volume that another node reports already stays
    /// that node's. Returns whether a change may concern a waiting task.
    pub fn replace(&self, node: NodeId, reports: &[VolumeReport]) -> bool {
        let mut table = self.0.write();
        let RemoteTable { volumes, conflicts, down } = &mut *table;
        let was_down = down.remove(&node);
        let mut named = Vec::with_capacity(reports.len().min(NODE_VOLUMES_MAX));
        let mut has_changed = false;
        conflicts.retain(|(other, _), _| *other != node);
        for report in reports.iter().take(NODE_VOLUMES_MAX) {
            let id = report.volume;
            named.push(id);
            let mut volume = RemoteVolume { id, node, report: report.clone() };
            match volumes.entry(id) {
                Entry::Vacant(place) => {
                    has_changed = true;
                    place.insert(volume);
                }
                Entry::Occupied(mut place) if place.get().node == node => {
                    // While it is not open its node does not know its life; calls go on naming the last one.
                    volume.report.life = volume.report.life.or(place.get().report.life);
                    has_changed |= !place.get().report.is_alike(&volume.report);
                    place.insert(volume);
                }
                Entry::Occupied(place) => {
                    let first = place.get().node;
                    conflicts.insert((node, id), VolumeConflict { volume: id, node: first, other: node });
                }
            }
        }
        let before = volumes.len();
        volumes.retain(|id, volume| volume.node != node || named.contains(id));
        conflicts.retain(|(_, id), _| volumes.contains_key(id));
        has_changed || was_down || volumes.len() != before
    }

    /// Takes the volumes of a node for not healed until it answers again: what it said last is of before.
    pub fn node_is_silent(&self, node: NodeId) {
        let mut table = self.0.write();
        for volume in table.volumes.values_mut().filter(|volume| volume.node == node) {
            volume.report.healed_since_ms = None;
        }
    }

    /// Shows the volumes of a node that is down as offline.
    pub fn node_is_down(&self, node: NodeId, reason: &str) {
        let mut table = self.0.write();
        table.down.insert(node);
        for volume in table.volumes.values_mut().filter(|volume| volume.node == node) {
            volume.report.take_away(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::report::{VolumeCondition, VolumeStanding};

    use super::*;

    const ONE: NodeId = NodeId([1; 16]);
    const TWO: NodeId = NodeId([2; 16]);
    const VOLUME: VolumeId = VolumeId([7; 16]);

    fn report(volume: VolumeId, free_bytes: u64) -> VolumeReport {
        VolumeReport {
            condition: Some(VolumeCondition::Online),
            life: Some(Life(3)),
            standing: VolumeStanding::Voting,
            is_open: true,
            free_bytes,
            ..VolumeReport::of(volume)
        }
    }

    #[test]
    fn the_last_report_of_a_node_counts_and_its_free_bytes_do_not_count_as_a_change() {
        let table = RemoteVolumes::default();
        assert_eq!((table.life_of(VOLUME), table.has_room(VOLUME)), (None, true));
        assert!(table.replace(ONE, &[report(VOLUME, 5)]));
        assert!(!table.replace(ONE, &[report(VOLUME, 6)]));
        let known = table.volume(VOLUME).expect("reported");
        assert_eq!((known.report.free_bytes, table.life_of(VOLUME)), (6, Some(Life(3))));
        assert!(!table.has_room(VOLUME));
        table.node_is_down(ONE, "n1 is down");
        let known = table.volume(VOLUME).expect("still known");
        let shown = (known.report.condition, known.report.standing);
        assert_eq!(shown, (Some(VolumeCondition::Offline), VolumeStanding::Away));
        assert_eq!(table.life_of(VOLUME), Some(Life(3)));
        assert!(table.any_down(&[TWO, ONE]) && !table.any_down(&[TWO]));
        assert!(table.replace(ONE, &[]));
        assert!(!table.any_down(&[ONE]));
        assert_eq!(table.volume(VOLUME), None);
    }

    #[test]
    fn a_volume_that_is_not_open_is_addressed_in_the_life_that_it_was_last_in() {
        let table = RemoteVolumes::default();
        table.replace(ONE, &[report(VOLUME, 5)]);
        table.replace(ONE, &[VolumeReport { life: None, is_open: false, ..report(VOLUME, 5) }]);
        assert_eq!(table.life_of(VOLUME), Some(Life(3)));
        table.replace(ONE, &[VolumeReport { life: Some(Life(4)), ..report(VOLUME, 5) }]);
        assert_eq!(table.life_of(VOLUME), Some(Life(4)));
    }

    #[test]
    fn a_volume_of_two_nodes_stays_the_first_ones_and_is_named() {
        let table = RemoteVolumes::default();
        table.replace(ONE, &[report(VOLUME, 5)]);
        table.replace(TWO, &[report(VOLUME, 9)]);
        assert_eq!(table.volume(VOLUME).map(|volume| volume.node), Some(ONE));
        assert_eq!(table.conflicts(), [VolumeConflict { volume: VOLUME, node: ONE, other: TWO }]);
        table.replace(TWO, &[]);
        assert_eq!(table.conflicts(), []);
    }
}
