//! The current topology, as requests use it: which set a key belongs to, and how to reach its
//! volumes. With it, what all rooms above tell each other of what the cluster holds: what is damaged
//! (`damage`), and what is being read (`pins`).

pub mod asker;
pub mod damage;
pub mod formation;
pub mod limits;
pub mod links;
pub mod membership;
pub mod pins;
#[cfg(test)]
pub(crate) mod scripted;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;

use sherd_core::codec::Writer;
use sherd_core::erasure::Geometry;
use sherd_core::id::{Epoch, NodeId, RegisterKey, SetId, VolumeId};
use sherd_core::message::Target;
use sherd_core::placement;
use sherd_core::record::{DataRef, put_register_key};
use sherd_core::register::quorum::Quorums;
use sherd_core::topology::Topology;

use self::limits::{DOWN_LOOK_EVERY, DOWN_SHOWS};
use crate::observe::trace::{Phase, VolumeCall};
use crate::peer::VolumeRoute;
use crate::peer::remote::RemoteVolumes;

/// The topology with its peers.
#[derive(Debug)]
pub struct Cluster {
    topology: Arc<Topology>,
    own: NodeId,
    sets: Vec<Arc<SetView>>,
    remote: RemoteVolumes,
}

/// One erasure set, ready to be asked.
#[derive(Debug)]
pub struct SetView {
    /// Its place in the topology.
    pub id: SetId,
    /// Its code.
    pub geometry: Geometry,
    /// Its volumes in order; shard placement counts in this order.
    pub routes: Vec<VolumeRoute>,
    /// Where each of them is.
    pub homes: Vec<VolumeHome>,
    /// Those that scans had to wait for.
    pub late: LateVolumes,
    /// Its nodes, each once.
    nodes: Vec<NodeId>,
    remote: RemoteVolumes,
    /// While every node is up, and while one is down.
    durable_enough: [usize; 2],
}

/// The node that has a volume.
#[derive(Debug, Clone)]
pub struct VolumeHome {
    /// Its name; empty where a node stores alone.
    pub node: Arc<str>,
    /// Whether it is this one.
    pub is_own: bool,
}

/// Which volumes of a set let a scan wait until it gave them up: others are asked before them for a while.
#[derive(Debug, Default)]
pub struct LateVolumes(RwLock<Vec<(VolumeId, Instant)>>);

impl LateVolumes {
    /// How long a volume counts as late: whoever asks first then waits for it once more.
    const REMEMBERED: Duration = Duration::from_mins(1);

    /// A volume gave no answer in time, or did.
    pub fn note(&self, volume: VolumeId, is_late: bool) {
        if !is_late && self.0.read().iter().all(|(late, _)| *late != volume) {
            return;
        }
        let mut late = self.0.write();
        late.retain(|(late, _)| *late != volume);
        if is_late {
            late.push((volume, Instant::now()));
        }
    }

    /// Whether a volume was late a short time ago.
    fn contains(&self, volume: VolumeId) -> bool {
        let late = self.0.read();
        late.iter().any(|(late, since)| *late == volume && since.elapsed() < Self::REMEMBERED)
    }
}

impl SetView {
    /// How many durable shards make a write safe at this moment: see `placement::durable_enough`.
    pub fn durable_enough(&self) -> usize {
        self.durable_enough[usize::from(self.remote.any_down(&self.nodes))]
    }

    /// The set's register quorums.
    pub const fn quorums(&self) -> Quorums {
        Quorums::of(self.routes.len())
    }

    /// Whether so many durable shards make a write safe, now or once it shows that a node is down. A node that died a
    /// moment ago counts as up until it missed its pings, and its shards are asked for that long.
    pub(crate) async fn are_durable_enough(&self, shards: usize) -> bool {
        let [_, with_node_down] = self.durable_enough;
        let deadline = Instant::now() + DOWN_SHOWS;
        while shards < self.durable_enough() {
            if shards < with_node_down || Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(DOWN_LOOK_EVERY).await;
        }
        true
    }

    /// Whether so many volumes are full that too few would accept what needs room.
    pub fn lacks_room(&self) -> bool {
        self.with_room() < self.quorums().accept()
    }

    /// Whether so many volumes are full that shards of new data could not be made durable.
    pub fn lacks_room_for_shards(&self) -> bool {
        self.with_room() < self.durable_enough()
    }

    fn with_room(&self) -> usize {
        self.routes.iter().filter(|route| !route.registers.is_full(route.volume)).count()
    }

    /// The places of all volumes, those that were late behind the others.
    pub fn prompt_first(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.routes.len()).collect();
        places.sort_by_cached_key(|place| self.late.contains(self.routes[*place].volume));
        places
    }

    /// Describes a call of one of its volumes for the trace of a request.
    pub fn call(&self, phase: Phase, place: usize, took: Duration) -> VolumeCall {
        VolumeCall {
            phase,
            volume: self.routes[place].volume,
            node: Arc::clone(&self.homes[place].node),
            took,
        }
    }

    /// The place of a volume in the set.
    pub fn place_of(&self, volume: VolumeId) -> Option<usize> {
        self.routes.iter().position(|route| route.volume == volume)
    }
}

impl Cluster {
    /// Joins a topology with the ways to its volumes. `own` is this node, `remote` what the others report.
    pub fn new(
        topology: Arc<Topology>,
        own: NodeId,
        remote: RemoteVolumes,
        route_to: impl Fn(VolumeId) -> VolumeRoute,
    ) -> Self {
        let nodes_of = |volumes: &[VolumeId]| {
            let nodes = volumes.iter().filter_map(|id| topology.volume(*id)).map(|volume| volume.node);
            let mut nodes: Vec<NodeId> = nodes.collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        let home_of = |volume: &VolumeId| {
            let node = topology.volume(*volume).map(|volume| volume.node);
            let named = topology.nodes().iter().find(|known| Some(known.id) == node);
            let name = named.map_or("", |node| node.name.as_str());
            VolumeHome { node: name.into(), is_own: node == Some(own) }
        };
        let sets = topology
            .sets()
            .iter()
            .zip(0..)
            .map(|(set, id)| {
                let routes = set.volumes().iter().map(|volume| route_to(*volume));
                Arc::new(SetView {
                    id: SetId(id),
                    geometry: set.geometry(),
                    routes: routes.collect(),
                    homes: set.volumes().iter().map(home_of).collect(),
                    late: LateVolumes::default(),
                    nodes: nodes_of(set.volumes()),
                    remote: remote.clone(),
                    durable_enough: [true, false].map(|every_node_up| set.durable_enough(every_node_up)),
                })
            })
            .collect();
        Self { topology, own, sets, remote }
    }

    /// This node.
    pub const fn own(&self) -> NodeId {
        self.own
    }

    /// What the other nodes report of their volumes.
    pub const fn remote(&self) -> &RemoteVolumes {
        &self.remote
    }

    /// How many nodes of a key's set that are up come before this one where upkeep needs one node to look after
    /// the key: 0 where it is this node. The order is another one for each key, and the same on each node.
    pub fn turn_of(&self, key: &RegisterKey) -> usize {
        let set = self.set_of(key);
        let is_up = |node: &&NodeId| !self.remote.any_down(std::slice::from_ref(*node));
        turn(key, self.own, set.nodes.iter().filter(is_up))
    }

    /// The topology.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// All sets.
    pub fn sets(&self) -> &[Arc<SetView>] {
        &self.sets
    }

    /// The set that a key belongs to.
    pub fn set_of(&self, key: &RegisterKey) -> Arc<SetView> {
        let set = self.topology.owner(placement::slot(key));
        let index = usize::try_from(set.0).expect("a set's place fits memory");
        Arc::clone(&self.sets[index])
    }

    /// A set by its id; `None` where the topology has no such set.
    pub fn set(&self, id: SetId) -> Option<&Arc<SetView>> {
        self.sets.get(usize::try_from(id.0).ok()?)
    }

    /// The set whose volumes have the shards of data that `key` names: the one that the reference says, else
    /// the key's. `None` where the topology has no such set.
    pub fn set_holding(&self, key: &RegisterKey, data: &DataRef) -> Option<Arc<SetView>> {
        match data.set {
            Some(id) => self.set(id).map(Arc::clone),
            None => Some(self.set_of(key)),
        }
    }

    /// The current epoch.
    pub fn epoch(&self) -> Epoch {
        self.topology.epoch()
    }

    /// A register as the volumes of its set know it.
    pub fn target(&self, key: RegisterKey) -> Target {
        let slot = placement::slot(&key);
        Target::new(key, slot, self.topology.epoch())
    }
}

/// How many of these nodes come before one in the order of a key: by a hash of key and node.
fn turn<'a>(key: &RegisterKey, own: NodeId, nodes: impl Iterator<Item = &'a NodeId>) -> usize {
    let mut key_bytes = Writer::new();
    put_register_key(&mut key_bytes, key);
    let key_bytes = key_bytes.finish();
    let weight =
        |node: &NodeId| *blake3::Hasher::new().update(&key_bytes).update(&node.0).finalize().as_bytes();
    let own_weight = weight(&own);
    nodes.filter(|node| **node != own && weight(node) < own_weight).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sherd_core::id::{BucketId, ObjectKey};

    use super::*;

    #[test]
    fn each_key_has_an_order_of_its_nodes_and_those_that_are_left_move_up() {
        let nodes: Vec<NodeId> = (1..=4).map(|number| NodeId([number; 16])).collect();
        let mut first = BTreeSet::new();
        for number in 0..64 {
            let name = ObjectKey::new(format!("key {number}")).expect("a key");
            let key = RegisterKey::object(BucketId([1; 16]), name);
            let turns: Vec<usize> = nodes.iter().map(|own| turn(&key, *own, nodes.iter())).collect();
            assert_eq!(turns.iter().copied().collect::<BTreeSet<_>>(), (0..4).collect());
            let leader = turns.iter().position(|turn| *turn == 0).expect("one is first");
            first.insert(leader);
            for (place, own) in nodes.iter().enumerate().filter(|(place, _)| *place != leader) {
                let left = nodes.iter().filter(|node| **node != nodes[leader]);
                assert_eq!(turn(&key, *own, left), turns[place] - 1);
            }
        }
        assert_eq!(first.len(), 4, "each node is the first for some keys");
    }
}
