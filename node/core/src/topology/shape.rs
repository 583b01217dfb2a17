//! A topology for a new pool: the set size and the code that fit its nodes and volumes.
//!
//! [`PoolShape::choose`] decides from the numbers alone, so that the validation of a specification asks the
//! same function; [`Topology::form`] then deals the volumes out. A set takes consecutive volumes of the order
//! "first volume of every node, second volume of every node, ...", with the nodes of different zones next to
//! each other, so no node has more than its share of any set.

use std::collections::BTreeMap;

use super::{InvalidTopology, Node, SetPlan, Topology, Volume};
use crate::erasure::{Availability, Geometry};
use crate::id::{ClusterId, Epoch, NodeId, SetId, VolumeId};
use crate::limits;
use crate::limits::ONE_SET_VOLUMES_MAX;

/// The widths of a set that are tried by default in larger pools: the smallest that fits.
const DEFAULT_SET_VOLUMES: std::ops::RangeInclusive<usize> = 8..=16;

/// A geometry that is asked for instead of the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GeometryRequest {
    /// Volumes of one set.
    pub set_volumes: Option<usize>,
    /// Parity shards (m).
    pub parity_shards: Option<usize>,
}

/// A node of the new pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolNode {
    /// Id of the node.
    pub id: NodeId,
    /// Configured name; empty for the only node of a cluster without names.
    pub name: String,
    /// Failure zone of the node.
    pub zone: Option<String>,
    /// Volumes by ordinal.
    pub volumes: Vec<VolumeId>,
}

/// How a pool is cut into sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolShape {
    /// How many sets.
    pub sets: usize,
    /// The code of each.
    pub geometry: Geometry,
    /// The most volumes of one set on one node (f).
    pub volumes_per_node: usize,
}

/// A weakness of a geometry, which operators should see before they store anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormationWarning {
    /// Losing any volume loses data.
    #[error("not redundant: losing one volume loses data")]
    NotRedundant,
    /// One volume down stops the writes of its set.
    #[error("one volume down stops writes")]
    VolumeDownStopsWrites,
    /// One node down stops writes; committed keys stay readable.
    #[error("one node down stops writes")]
    NodeDownStopsWrites,
    /// One node down stops everything.
    #[error("one node down is an outage")]
    NodeDownIsOutage,
    /// The volumes of a set are not spread evenly over the nodes.
    #[error("sets are not spread evenly over the nodes")]
    UnevenSpread,
    /// Something else than the default was asked for.
    #[error("the default for this pool is {geometry}")]
    NotTheDefault {
        /// The default.
        geometry: Geometry,
    },
}

/// A new topology, and what to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormedTopology {
    /// The topology, at its first epoch.
    pub topology: Topology,
    /// Weaknesses of the layout.
    pub warnings: Vec<FormationWarning>,
}

/// Why a pool cannot be formed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// No nodes, no volumes, or too many.
    #[error("{nodes} nodes with {volumes_per_node} volumes each are not 1 to {max_nodes} nodes and 1 to {max_volumes} volumes", max_nodes = limits::NODES_MAX, max_volumes = limits::VOLUMES_MAX)]
    Size {
        /// Nodes of the pool.
        nodes: usize,
        /// Volumes of each.
        volumes_per_node: usize,
    },
    /// The nodes of one pool have the same number of volumes.
    #[error("node {node} has {volumes} volumes where the first has {expected}")]
    UnequalNodes {
        /// Id of the node.
        node: NodeId,
        /// Number of its volumes.
        volumes: usize,
        /// Number of the first node's volumes.
        expected: usize,
    },
    /// No default set size fits: one must be asked for.
    #[error("no default set size fits; sizes that spread evenly: {even:?}")]
    NoDefaultSetSize {
        /// Sizes that divide the pool and spread evenly.
        even: Vec<usize>,
    },
    /// The set size asked for does not divide the pool.
    #[error("{set_volumes} is no set size for this pool; sizes that spread evenly: {even:?}")]
    SetSize {
        /// As asked for.
        set_volumes: usize,
        /// Sizes that divide the pool and spread evenly.
        even: Vec<usize>,
    },
    /// So much parity leaves no data shard.
    #[error("{parity_shards} parity shards in a set of {set_volumes} volumes leave no data shard")]
    Parity {
        /// As asked for.
        parity_shards: usize,
        /// Volumes of one set.
        set_volumes: usize,
    },
    /// The nodes and volumes named are not a topology.
    #[error(transparent)]
    Invalid(#[from] InvalidTopology),
}

impl PoolShape {
    /// Cuts a pool of `nodes` with `volumes_per_node` volumes each into sets.
    ///
    /// # Errors
    /// [`FormError`] when the pool has no size or the wish does not fit it.
    pub fn choose(
        nodes: usize,
        volumes_per_node: usize,
        geometry: GeometryRequest,
    ) -> Result<Self, FormError> {
        let size = FormError::Size { nodes, volumes_per_node };
        let volumes = nodes.checked_mul(volumes_per_node).ok_or_else(|| size.clone())?;
        if volumes == 0 || nodes > limits::NODES_MAX || volumes > limits::VOLUMES_MAX {
            return Err(size);
        }
        let set_volumes = choose_set_volumes(nodes, volumes, geometry.set_volumes)?;
        // A set takes consecutive volumes of a cyclic order of nodes.
        let on_one_node = set_volumes.div_ceil(nodes);
        let parity_shards =
            geometry.parity_shards.unwrap_or_else(|| default_parity(set_volumes, on_one_node));
        let no_geometry = FormError::Parity { parity_shards, set_volumes };
        let data_shards = set_volumes.checked_sub(parity_shards).ok_or_else(|| no_geometry.clone())?;
        let geometry = match (u8::try_from(data_shards), u8::try_from(parity_shards)) {
            (Ok(data), Ok(parity)) => Geometry::new(data, parity).map_err(|_| no_geometry)?,
            _ => return Err(no_geometry),
        };
        Ok(Self { sets: volumes / set_volumes, geometry, volumes_per_node: on_one_node })
    }

    /// The shape that a topology has, as its first set shows it.
    ///
    /// # Panics
    /// Never: a topology has a set.
    pub fn of(topology: &Topology) -> Self {
        let sets = topology.sets();
        let first = sets.first().expect("checked when the topology was made");
        Self { sets: sets.len(), geometry: first.geometry(), volumes_per_node: first.volumes_per_node() }
    }

    /// Weaknesses of this shape of a pool of `nodes` nodes.
    pub fn warnings(&self, nodes: usize) -> Vec<FormationWarning> {
        let Self { sets, geometry, volumes_per_node } = *self;
        let mut warnings = Vec::new();
        if geometry.parity_shards() == 0 {
            warnings.push(FormationWarning::NotRedundant);
        }
        if geometry.standing(1) != Availability::AllWorks {
            warnings.push(FormationWarning::VolumeDownStopsWrites);
        }
        match geometry.standing(volumes_per_node) {
            Availability::AllWorks => {}
            Availability::CommittedReads => warnings.push(FormationWarning::NodeDownStopsWrites),
            Availability::Outage => warnings.push(FormationWarning::NodeDownIsOutage),
        }
        if !spreads_evenly(nodes, geometry.volumes()) {
            warnings.push(FormationWarning::UnevenSpread);
        }
        let on_each = sets * geometry.volumes() / nodes.max(1);
        if let Ok(default) = Self::choose(nodes, on_each, GeometryRequest::default())
            && default != *self
        {
            warnings.push(FormationWarning::NotTheDefault { geometry: default.geometry });
        }
        warnings
    }
}

impl Topology {
    /// Forms the first topology of a cluster from one pool.
    ///
    /// The order of `nodes` and of their volumes decides the members of each set: the same order gives the
    /// same topology.
    ///
    /// # Errors
    /// [`FormError`] when the pool is empty or the wish does not fit it.
    pub fn form(
        cluster: ClusterId,
        pool: &[PoolNode],
        geometry: GeometryRequest,
    ) -> Result<FormedTopology, FormError> {
        let expected = pool.first().map_or(0, |node| node.volumes.len());
        for PoolNode { id, name: _, zone: _, volumes } in pool {
            if volumes.len() != expected {
                return Err(FormError::UnequalNodes { node: *id, volumes: volumes.len(), expected });
            }
        }
        let shape = PoolShape::choose(pool.len(), expected, geometry)?;
        let plans: Vec<SetPlan> = deal(pool)
            .chunks(shape.geometry.volumes())
            .map(|members| SetPlan { volumes: members.to_vec(), geometry: shape.geometry })
            .collect();
        let nodes = pool
            .iter()
            .map(|PoolNode { id, name, zone, volumes: _ }| Node {
                id: *id,
                name: name.clone(),
                zone: zone.clone(),
            })
            .collect();
        let volumes = pool.iter().flat_map(volumes_of).collect();
        let slots = spread_slots(plans.len());
        let topology = Self::new(cluster, Epoch::FIRST, nodes, volumes, plans, slots)?;
        Ok(FormedTopology { topology, warnings: shape.warnings(pool.len()) })
    }
}

fn volumes_of(node: &PoolNode) -> impl Iterator<Item = Volume> {
    (0..).zip(&node.volumes).map(|(ordinal, id)| Volume { id: *id, node: node.id, ordinal })
}

fn choose_set_volumes(nodes: usize, volumes: usize, geometry: Option<usize>) -> Result<usize, FormError> {
    let even = || (1..=limits::SET_VOLUMES_MAX).filter(|size| fits_evenly(nodes, volumes, *size));
    match geometry {
        Some(size) if (1..=limits::SET_VOLUMES_MAX).contains(&size) && volumes.is_multiple_of(size) => {
            Ok(size)
        }
        Some(size) => Err(FormError::SetSize { set_volumes: size, even: even().collect() }),
        None if volumes <= ONE_SET_VOLUMES_MAX => Ok(volumes),
        None => even()
            .find(|size| DEFAULT_SET_VOLUMES.contains(size))
            .ok_or_else(|| FormError::NoDefaultSetSize { even: even().collect() }),
    }
}

const fn fits_evenly(nodes: usize, volumes: usize, set_volumes: usize) -> bool {
    volumes.is_multiple_of(set_volumes) && spreads_evenly(nodes, set_volumes)
}

/// Whether every node of a set has the same number of its volumes.
const fn spreads_evenly(nodes: usize, set_volumes: usize) -> bool {
    set_volumes <= nodes || set_volumes.is_multiple_of(nodes)
}

/// f + 1, so at least 2, where a node can then be lost without stopping anything, else half of the
/// set.
fn default_parity(set_volumes: usize, on_one_node: usize) -> usize {
    let parity = on_one_node + 1;
    let survivors = set_volumes - on_one_node.min(set_volumes);
    if 2 * survivors > set_volumes && parity < set_volumes { parity } else { set_volumes / 2 }
}

/// Lays the volumes in a row: the first volume of every node, then the second, ...
fn deal(pool: &[PoolNode]) -> Vec<VolumeId> {
    let nodes = by_turns_of_zones(pool);
    let rounds = pool.first().map_or(0, |node| node.volumes.len());
    (0..rounds)
        .flat_map(|round| nodes.iter().filter_map(move |node| node.volumes.get(round).copied()))
        .collect()
}

/// Orders nodes so that neighbours are in different zones while there are several left.
fn by_turns_of_zones(pool: &[PoolNode]) -> Vec<&PoolNode> {
    let mut taken: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, &PoolNode)> = pool
        .iter()
        .map(|node| {
            let turn = taken.entry(node.zone.as_deref()).or_default();
            *turn += 1;
            (*turn, node)
        })
        .collect();
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, node)| node).collect()
}

/// Gives each set a run of slots, as long as every other's or one longer.
fn spread_slots(sets: usize) -> Vec<SetId> {
    let slots = usize::from(limits::SLOTS);
    (0..slots).map(|slot| SetId(u32::try_from(slot * sets / slots).expect("fewer sets than slots"))).collect()
}
