//! The erasure set that each volume of each node is in: asked of the function that nodes form their topology
//! with, with the nodes in the order of the configuration.

use sherd_core::erasure::{Availability, Geometry};
use sherd_core::id::{ClusterId, NodeId, VolumeId};
use sherd_core::topology::{FormError, GeometryRequest, PoolNode, Topology};

/// The erasure sets of a pool, by the ordinals of nodes and volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSets {
    geometry: Geometry,
    sets: usize,
    /// By node, then by the volume's ordinal.
    set_of: Vec<Vec<usize>>,
}

impl PoolSets {
    /// Deals the volumes of `nodes` nodes with `volumes_per_node` volumes each into sets.
    ///
    /// # Errors
    /// [`FormError`] when the nodes would not form it either.
    pub fn of(nodes: usize, volumes_per_node: usize, request: GeometryRequest) -> Result<Self, FormError> {
        let id = |kind: u8, node: usize, volume: usize| {
            let mut id = [kind; 16];
            id[..8].copy_from_slice(&(node as u64).to_le_bytes());
            id[8..12].copy_from_slice(&u32::try_from(volume).unwrap_or(u32::MAX).to_le_bytes());
            id
        };
        let node = |node: usize| PoolNode {
            id: NodeId(id(1, node, 0)),
            name: format!("n{node}"),
            zone: None,
            volumes: (0..volumes_per_node).map(|volume| VolumeId(id(2, node, volume))).collect(),
        };
        let pool: Vec<PoolNode> = (0..nodes).map(node).collect();
        let topology = Topology::form(ClusterId([0; 16]), &pool, request)?.topology;
        let set_of = |volume: &VolumeId| {
            let sets = topology.sets();
            sets.iter().position(|set| set.position(*volume).is_some()).expect("each volume is in a set")
        };
        Ok(Self {
            geometry: topology.sets().first().expect("a topology has a set").geometry(),
            sets: topology.sets().len(),
            set_of: pool.iter().map(|node| node.volumes.iter().map(set_of).collect()).collect(),
        })
    }

    /// The code of each set.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// How many sets there are.
    pub const fn count(&self) -> usize {
        self.sets
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.set_of.len()
    }

    /// The sets of a node's volumes, by ordinal.
    pub fn of_node(&self, node: usize) -> &[usize] {
        self.set_of.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many volumes of a set a node has.
    pub fn share(&self, node: usize, set: usize) -> usize {
        self.of_node(node).iter().filter(|other| **other == set).count()
    }

    /// Whether reads and writes go on in every set while a node is away and all others are whole.
    pub fn can_lose(&self, node: usize) -> bool {
        (0..self.sets).all(|set| self.geometry.standing(self.share(node, set)) == Availability::AllWorks)
    }

    /// Whether each node can be lost so.
    pub fn can_lose_any(&self) -> bool {
        (0..self.nodes()).all(|node| self.can_lose(node))
    }

    /// Volumes of a set that a write needs: votes and shards.
    pub const fn needed(&self) -> usize {
        let geometry = self.geometry;
        let shards = geometry.data_shards() + if geometry.parity_shards() == 0 { 0 } else { 1 };
        let votes = geometry.volumes() / 2 + 1;
        if shards > votes { shards } else { votes }
    }
}
