//! The stored form of a topology: JSON, version 1.
//!
//! Ids are hex; slots are runs `{first, set}`, each up to the next one's first slot, so a fresh
//! topology is as long as its volumes and not as its slots. Reading checks everything that
//! [`Topology`] promises; nothing read is trusted before.

#![deny(clippy::indexing_slicing)]

use serde::{Deserialize, Serialize};

use super::{InvalidTopology, Node, Set, SetPlan, Topology, Volume};
use crate::erasure::Geometry;
use crate::id::{ClusterId, Epoch, InvalidId, NodeId, SetId, VolumeId};
use crate::limits;

/// The only version of the format.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredTopology {
    version: u32,
    cluster: String,
    epoch: u64,
    nodes: Vec<StoredNode>,
    volumes: Vec<StoredVolume>,
    sets: Vec<StoredSet>,
    slots: Vec<StoredRun>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredNode {
    id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredVolume {
    id: String,
    node: String,
    ordinal: u16,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSet {
    data_shards: u8,
    parity_shards: u8,
    volumes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRun {
    first: u16,
    set: u32,
}

impl From<Topology> for StoredTopology {
    fn from(topology: Topology) -> Self {
        let Topology { cluster, epoch, nodes, volumes, sets, slots, places: _ } = topology;
        let node = |Node { id, name, zone }| StoredNode { id: id.to_string(), name, zone };
        let volume = |Volume { id, node, ordinal }| StoredVolume {
            id: id.to_string(),
            node: node.to_string(),
            ordinal,
        };
        Self {
            version: VERSION,
            cluster: cluster.to_string(),
            epoch: epoch.0,
            nodes: nodes.into_iter().map(node).collect(),
            volumes: volumes.into_iter().map(volume).collect(),
            sets: sets.iter().map(stored_set).collect(),
            slots: runs(&slots),
        }
    }
}

impl TryFrom<StoredTopology> for Topology {
    type Error = InvalidTopology;

    fn try_from(stored: StoredTopology) -> Result<Self, InvalidTopology> {
        let StoredTopology { version, cluster, epoch, nodes, volumes, sets, slots } = stored;
        if version != VERSION {
            return Err(InvalidTopology::Version { version });
        }
        let node = |StoredNode { id, name, zone }| Ok(Node { id: id_from(id, NodeId::parse)?, name, zone });
        let volume = |StoredVolume { id, node, ordinal }| {
            let node = id_from(node, NodeId::parse)?;
            Ok(Volume { id: id_from(id, VolumeId::parse)?, node, ordinal })
        };
        Self::new(
            id_from(cluster, ClusterId::parse)?,
            Epoch(epoch),
            nodes.into_iter().map(node).collect::<Result<_, InvalidTopology>>()?,
            volumes.into_iter().map(volume).collect::<Result<_, InvalidTopology>>()?,
            (0..).zip(sets).map(|(index, set)| set_plan(SetId(index), set)).collect::<Result<_, _>>()?,
            owners(&slots)?,
        )
    }
}

fn id_from<T>(text: String, parse: impl Fn(&str) -> Result<T, InvalidId>) -> Result<T, InvalidTopology> {
    parse(&text).map_err(|InvalidId| InvalidTopology::Id { text })
}

fn stored_set(set: &Set) -> StoredSet {
    let Set { volumes, geometry, volumes_per_node: _ } = set;
    let narrow = |shards| u8::try_from(shards).expect("a geometry's numbers are bytes");
    StoredSet {
        data_shards: narrow(geometry.data_shards()),
        parity_shards: narrow(geometry.parity_shards()),
        volumes: volumes.iter().map(ToString::to_string).collect(),
    }
}

fn set_plan(set: SetId, stored: StoredSet) -> Result<SetPlan, InvalidTopology> {
    let StoredSet { data_shards, parity_shards, volumes } = stored;
    let geometry = Geometry::new(data_shards, parity_shards).map_err(|_| InvalidTopology::SetGeometry {
        set,
        volumes: volumes.len(),
        data_shards: usize::from(data_shards),
        parity_shards: usize::from(parity_shards),
    })?;
    let volumes = volumes.into_iter().map(|id| id_from(id, VolumeId::parse)).collect::<Result<_, _>>()?;
    Ok(SetPlan { volumes, geometry })
}

fn runs(slots: &[SetId]) -> Vec<StoredRun> {
    let mut runs: Vec<StoredRun> = Vec::new();
    for (first, SetId(set)) in (0..).zip(slots) {
        if runs.last().is_none_or(|run| run.set != *set) {
            runs.push(StoredRun { first, set: *set });
        }
    }
    runs
}

/// Unrolls runs: the first begins at slot 0, each ends where the next begins, the last at the end.
fn owners(runs: &[StoredRun]) -> Result<Vec<SetId>, InvalidTopology> {
    let ascending = runs.is_sorted_by(|before, after| before.first < after.first);
    let whole = runs.first().is_some_and(|run| run.first == 0);
    let inside = runs.last().is_some_and(|run| run.first < limits::SLOTS);
    if !(ascending && whole && inside) {
        return Err(InvalidTopology::Slots);
    }
    let ends = runs.iter().skip(1).map(|run| run.first).chain([limits::SLOTS]);
    let mut owners = Vec::with_capacity(usize::from(limits::SLOTS));
    for (run, end) in runs.iter().zip(ends) {
        owners.resize(usize::from(end), SetId(run.set));
    }
    Ok(owners)
}
