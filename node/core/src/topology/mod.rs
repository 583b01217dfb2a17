//! Membership: nodes, their volumes, the erasure sets these form, and which set owns which slot.
//!
//! A topology is a value: the same on every node, stored as JSON (`stored.rs`), made for a new pool
//! by [`Topology::form`] (`form.rs`), and replaced as a whole by one of a higher epoch. It is the
//! only input of placement. However it came about, [`Topology`] is checked: every set's volumes
//! exist and are in no other set, and every slot has a set.

mod shape;
pub mod formation;
mod stored;

#[cfg(test)]
mod tests;

pub use shape::{FormError, FormationWarning, FormedTopology, GeometryRequest, PoolNode, PoolShape};

use std::collections::{BTreeMap, BTreeSet};

use crate::erasure::Geometry;
use crate::id::{ClusterId, DataId, Epoch, NodeId, SetId, Slot, VolumeId};
use crate::{limits, placement};

/// The cluster's shape at one epoch.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(into = "stored::StoredTopology", try_from = "stored::StoredTopology")]
pub struct Topology {
    cluster: ClusterId,
    epoch: Epoch,
    nodes: Vec<Node>,
    volumes: Vec<Volume>,
    sets: Vec<Set>,
    /// The owner of each slot, by the slot's number.
    slots: Vec<SetId>,
    /// Where each volume is in `volumes`, and in which set.
    places: BTreeMap<VolumeId, VolumePosition>,
}

/// A process that owns volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Id of the node.
    pub id: NodeId,
    /// Configured name, at most [`limits::NODE_NAME_BYTES_MAX`] bytes; empty for the only node of a cluster
    /// without names.
    pub name: String,
    /// Failure zone of the node, as the operator names it; at most [`limits::ZONE_BYTES_MAX`] bytes.
    pub zone: Option<String>,
}

/// A volume and where it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    /// Id of the volume.
    pub id: VolumeId,
    /// The node that owns it.
    pub node: NodeId,
    /// Number among the node's volumes, from 0.
    pub ordinal: u16,
}

/// An erasure set: the volumes that share their registers, and one shard each of every data id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    volumes: Vec<VolumeId>,
    geometry: Geometry,
    volumes_per_node: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct VolumePosition {
    volume: usize,
    set: Option<SetId>,
}

/// A set before it is checked.
#[derive(Debug, Clone)]
struct SetPlan {
    volumes: Vec<VolumeId>,
    geometry: Geometry,
}

/// Why a description is not a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopology {
    /// Written by a later version.
    #[error("unknown version {version} of the topology")]
    Version {
        /// The version in it.
        version: u32,
    },
    /// An id is not 32 hex digits.
    #[error("{text:?} is no id")]
    Id {
        /// The text in its place.
        text: String,
    },
    /// A list is empty or past its limit.
    #[error("{count} {what}, where there may be 1 to {max}")]
    Count {
        /// Name of the list.
        what: &'static str,
        /// Length of the list.
        count: usize,
        /// Limit of the list.
        max: usize,
    },
    /// A zone's name is too long.
    #[error("the zone of node {node} has more than {max} bytes", max = limits::ZONE_BYTES_MAX)]
    Zone {
        /// The node whose zone it is.
        node: NodeId,
    },
    /// A node's name is too long.
    #[error("the name of node {node} has more than {max} bytes", max = limits::NODE_NAME_BYTES_MAX)]
    Name {
        /// The node whose name it is.
        node: NodeId,
    },
    /// Two nodes have one name.
    #[error("the name {name:?} is there twice")]
    NameTwice {
        /// The name.
        name: String,
    },
    /// Two nodes have one id.
    #[error("node {node} is there twice")]
    NodeTwice {
        /// The id.
        node: NodeId,
    },
    /// Two volumes have one id, or are in one place of a node.
    #[error("volume {volume} is there twice, or shares its place on its node")]
    VolumeTwice {
        /// The id.
        volume: VolumeId,
    },
    /// A volume's node is not there.
    #[error("volume {volume} is on the unknown node {node}")]
    UnknownNode {
        /// The volume.
        volume: VolumeId,
        /// The node.
        node: NodeId,
    },
    /// A set's geometry is invalid, or not as wide as the set.
    #[error("set {set:?} has {volumes} volumes and the geometry {data_shards}+{parity_shards}")]
    SetGeometry {
        /// The set.
        set: SetId,
        /// Number of its volumes.
        volumes: usize,
        /// Number of data shards.
        data_shards: usize,
        /// Number of parity shards.
        parity_shards: usize,
    },
    /// A set's volume is not there.
    #[error("set {set:?} has the unknown volume {volume}")]
    UnknownVolume {
        /// The set.
        set: SetId,
        /// The volume.
        volume: VolumeId,
    },
    /// A volume is in two sets, or twice in one.
    #[error("volume {volume} is in more than one place of the sets")]
    VolumeShared {
        /// The volume.
        volume: VolumeId,
    },
    /// The slots are not as many as there are, or one's set is not there.
    #[error("the slots are not each owned by a set")]
    Slots,
}

impl Topology {
    /// Id of the cluster.
    pub const fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Number of the topology; the highest counts.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The nodes, in the order in which they came.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The volumes of all nodes.
    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    /// The sets; a [`SetId`] is the place here.
    pub fn sets(&self) -> &[Set] {
        &self.sets
    }

    /// One set.
    pub fn set(&self, id: SetId) -> Option<&Set> {
        self.sets.get(usize::try_from(id.0).ok()?)
    }

    /// The set that owns a slot.
    ///
    /// # Panics
    /// If the slot does not exist: code that takes slots from the wire checks [`Topology::has_slot`].
    pub fn set_of(&self, slot: Slot) -> &Set {
        self.set(self.owner(slot)).expect("checked when the topology was made")
    }

    /// The id of the set that owns a slot.
    ///
    /// # Panics
    /// As [`Topology::set_of`].
    pub fn owner(&self, slot: Slot) -> SetId {
        *self.slots.get(usize::from(slot.0)).expect("a slot below SLOTS")
    }

    /// Whether a slot from outside is one.
    pub const fn has_slot(slot: Slot) -> bool {
        slot.0 < limits::SLOTS
    }

    /// The slots that a set owns, ascending.
    pub fn slots_of(&self, set: SetId) -> impl Iterator<Item = Slot> {
        (0..limits::SLOTS).map(Slot).filter(move |slot| self.owner(*slot) == set)
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node of a name.
    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// One volume.
    pub fn volume(&self, id: VolumeId) -> Option<&Volume> {
        self.volumes.get(self.places.get(&id)?.volume)
    }

    /// The volumes of one node, by their ordinals as they came.
    pub fn volumes_of(&self, node: NodeId) -> impl Iterator<Item = &Volume> {
        self.volumes.iter().filter(move |volume| volume.node == node)
    }

    /// The set that a volume is in; `None` for a volume that is unknown or in no set.
    pub fn set_with(&self, volume: VolumeId) -> Option<SetId> {
        self.places.get(&volume)?.set
    }

    /// Checks and wraps a description.
    fn new(
        cluster: ClusterId,
        epoch: Epoch,
        nodes: Vec<Node>,
        volumes: Vec<Volume>,
        plans: Vec<SetPlan>,
        slots: Vec<SetId>,
    ) -> Result<Self, InvalidTopology> {
        check_nodes(&nodes)?;
        let mut places = check_volumes(&nodes, &volumes)?;
        check_count("sets", plans.len(), limits::VOLUMES_MAX)?;
        let mut sets = Vec::with_capacity(plans.len());
        for (index, plan) in plans.into_iter().enumerate() {
            let id = SetId(u32::try_from(index).expect("checked against VOLUMES_MAX"));
            sets.push(check_set(id, plan, &volumes, &mut places)?);
        }
        let owned = |set: &SetId| usize::try_from(set.0).is_ok_and(|set| set < sets.len());
        if slots.len() != usize::from(limits::SLOTS) || !slots.iter().all(owned) {
            return Err(InvalidTopology::Slots);
        }
        Ok(Self { cluster, epoch, nodes, volumes, sets, slots, places })
    }
}

impl Set {
    /// The volumes, by position.
    pub fn volumes(&self) -> &[VolumeId] {
        &self.volumes
    }

    /// Erasure code; as wide as the set.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The most volumes of the set on one node (f).
    pub const fn volumes_per_node(&self) -> usize {
        self.volumes_per_node
    }

    /// The position of a volume in the set.
    pub fn position(&self, volume: VolumeId) -> Option<usize> {
        self.volumes.iter().position(|held| *held == volume)
    }

    /// The volume on which shard `index` of a data id is at home.
    ///
    /// # Panics
    /// When the set has no shard of that index.
    pub fn home(&self, id: DataId, index: u8) -> VolumeId {
        *self
            .volumes
            .get(placement::home(id, index, self.volumes.len()))
            .expect("a position is below the number of volumes")
    }

    /// How many shards must be durable before a version may be proposed: see
    /// [`placement::durable_enough`].
    pub fn durable_enough(&self, every_node_up: bool) -> usize {
        placement::durable_enough(self.geometry, self.volumes_per_node, every_node_up)
    }
}

/// The id of a node of a cluster whose nodes have names: it follows from both, so a node that lost everything
/// is still the same one.
pub fn node_id(cluster: ClusterId, name: &str) -> NodeId {
    let mut hasher = blake3::Hasher::new_derive_key("sherd 2026 node id");
    hasher.update(&cluster.0);
    hasher.update(name.as_bytes());
    let hash = hasher.finalize();
    NodeId(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

const fn check_count(what: &'static str, count: usize, max: usize) -> Result<(), InvalidTopology> {
    if count == 0 || count > max { Err(InvalidTopology::Count { what, count, max }) } else { Ok(()) }
}

fn check_nodes(nodes: &[Node]) -> Result<(), InvalidTopology> {
    check_count("nodes", nodes.len(), limits::NODES_MAX)?;
    let mut seen = BTreeSet::new();
    let mut names = BTreeSet::new();
    for Node { id, name, zone } in nodes {
        if !seen.insert(*id) {
            return Err(InvalidTopology::NodeTwice { node: *id });
        }
        if name.len() > limits::NODE_NAME_BYTES_MAX {
            return Err(InvalidTopology::Name { node: *id });
        }
        if !names.insert(name) && !name.is_empty() {
            return Err(InvalidTopology::NameTwice { name: name.clone() });
        }
        if zone.as_ref().is_some_and(|zone| zone.len() > limits::ZONE_BYTES_MAX) {
            return Err(InvalidTopology::Zone { node: *id });
        }
    }
    Ok(())
}

fn check_volumes(
    nodes: &[Node],
    volumes: &[Volume],
) -> Result<BTreeMap<VolumeId, VolumePosition>, InvalidTopology> {
    check_count("volumes", volumes.len(), limits::VOLUMES_MAX)?;
    let known: BTreeSet<NodeId> = nodes.iter().map(|node| node.id).collect();
    let mut mounted = BTreeSet::new();
    let mut places = BTreeMap::new();
    for (index, Volume { id, node, ordinal }) in volumes.iter().enumerate() {
        if !known.contains(node) {
            return Err(InvalidTopology::UnknownNode { volume: *id, node: *node });
        }
        let place = VolumePosition { volume: index, set: None };
        if places.insert(*id, place).is_some() || !mounted.insert((*node, *ordinal)) {
            return Err(InvalidTopology::VolumeTwice { volume: *id });
        }
    }
    Ok(places)
}

fn check_set(
    set: SetId,
    plan: SetPlan,
    volumes: &[Volume],
    places: &mut BTreeMap<VolumeId, VolumePosition>,
) -> Result<Set, InvalidTopology> {
    let SetPlan { volumes: members, geometry } = plan;
    if members.len() != geometry.volumes() {
        return Err(InvalidTopology::SetGeometry {
            set,
            volumes: members.len(),
            data_shards: geometry.data_shards(),
            parity_shards: geometry.parity_shards(),
        });
    }
    let mut per_node: BTreeMap<NodeId, usize> = BTreeMap::new();
    for member in &members {
        let unknown = InvalidTopology::UnknownVolume { set, volume: *member };
        let place = places.get_mut(member).ok_or_else(|| unknown.clone())?;
        if place.set.replace(set).is_some() {
            return Err(InvalidTopology::VolumeShared { volume: *member });
        }
        let node = volumes.get(place.volume).ok_or(unknown)?.node;
        *per_node.entry(node).or_default() += 1;
    }
    let volumes_per_node = per_node.into_values().max().unwrap_or(0);
    Ok(Set { volumes: members, geometry, volumes_per_node })
}
