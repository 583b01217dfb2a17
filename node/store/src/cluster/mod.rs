//! The current topology, as requests use it: which set a key belongs to, and how to reach its volumes. With
//! it, what the rooms above share of the cluster's state: what is damaged (`damage`), what is being read
//! (`pins`), and which deletions of buckets are under way (`deletions`).

pub mod asker;
pub mod damage;
pub mod deletions;
pub(crate) mod durable;
pub mod formation;
pub mod limits;
pub mod membership;
pub mod pins;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), allow(dead_code, clippy::disallowed_methods, reason = "tests"))]
pub(crate) mod scripted;

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use sherd_core::codec::Writer;
use sherd_core::erasure::Geometry;
use sherd_core::id::{Epoch, NodeId, PartKey, RegisterKey, SetId, Slot, VolumeId};
use sherd_core::message::Target;
use sherd_core::placement;
use sherd_core::record::put_register_key;
use sherd_core::register::quorum::Quorums;
use sherd_core::topology::Topology;

use self::durable::{GivenUpVolumes, VolumeSubset};
use self::limits::{DOWN_LOOK_EVERY, DOWN_SHOWS};
use crate::observe::trace::{Phase, VolumeCall};
use crate::peer::VolumeRoute;
use crate::peer::remote::RemoteVolumes;

/// Volumes of a usual set.
pub const SET_USUAL: usize = 8;

/// The topology with its peers.
#[derive(Debug)]
pub struct Cluster {
    topology: Arc<Topology>,
    own: NodeId,
    sets: Vec<Arc<SetView>>,
    remote: RemoteVolumes,
}

/// A register and where it lies. Finding its slot hashes its key, so a request makes one for all that it does
/// to the key.
#[derive(Debug, Clone)]
pub struct KeyRoute {
    /// The set that the key belongs to.
    pub set: Arc<SetView>,
    /// The register, as the volumes of the set know it.
    pub target: Target,
}

impl KeyRoute {
    /// The register.
    pub const fn key(&self) -> &RegisterKey {
        &self.target.key
    }

    /// The route of a part of an upload of this key: parts share the slot of their object's key.
    #[must_use]
    pub fn part(&self, part: PartKey) -> Self {
        let Target { key, slot, epoch, .. } = &self.target;
        let key = RegisterKey::part(key.bucket, key.key.clone(), part);
        Self { set: Arc::clone(&self.set), target: Target::new(key, *slot, *epoch) }
    }
}

/// One erasure set, ready to be asked.
#[derive(Debug)]
pub struct SetView {
    /// Number of the set in the topology.
    pub id: SetId,
    /// Erasure code.
    pub geometry: Geometry,
    /// Volumes in order; shard placement counts in this order.
    pub routes: Vec<VolumeRoute>,
    /// Where each of them is.
    pub homes: Vec<VolumeHome>,
    nodes: Vec<NodeId>,
    remote: RemoteVolumes,
    /// While every node is up, and while one is down.
    durable_enough: [usize; 2],
}

/// The node that has a volume.
#[derive(Debug, Clone)]
pub struct VolumeHome {
    /// Name of the node; empty where a node stores alone.
    pub node: Arc<str>,
    id: Option<NodeId>,
    /// Whether it is this one.
    pub is_own: bool,
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

    /// Whether durable shards at these places make a write safe at this moment. `given_up` are places that
    /// this write lost to a node that was down: it goes on without them when that node is back.
    pub(crate) fn are_enough(&self, shards: VolumeSubset, given_up: VolumeSubset) -> bool {
        durable::are_enough(self.durable_enough, shards, self.places_down(), given_up)
    }

    /// Whether they are enough, now or once it shows that a node is down; adds to `given_up` the places of
    /// each node that is, where all of them failed. A node that has just died counts as up until it
    /// missed its pings, and its shards are asked for that long.
    pub(crate) async fn become_enough(
        &self,
        shards: VolumeSubset,
        failed: VolumeSubset,
        given_up: &mut GivenUpVolumes,
    ) -> bool {
        let [_, with_node_down] = self.durable_enough;
        let deadline = Instant::now() + DOWN_SHOWS;
        loop {
            given_up.add(self.lost_to_nodes_down(failed));
            if self.are_enough(shards, given_up.places()) {
                return true;
            }
            if shards.count() < with_node_down || Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(DOWN_LOOK_EVERY).await;
        }
    }

    /// The places of the volumes whose nodes do not answer.
    fn places_down(&self) -> VolumeSubset {
        self.nodes_down().fold(VolumeSubset::default(), VolumeSubset::and)
    }

    /// Failed places on nodes that are down. A node counts as down only if all of its places failed: one that
    /// took a shard was up, so its present absence is not why another of its shards failed.
    fn lost_to_nodes_down(&self, failed: VolumeSubset) -> VolumeSubset {
        let lost = self.nodes_down().filter(|places| places.among(failed) == *places);
        lost.fold(VolumeSubset::default(), VolumeSubset::and)
    }

    /// The places of each node that does not answer.
    fn nodes_down(&self) -> impl Iterator<Item = VolumeSubset> {
        // Almost always none is.
        let nodes = if self.remote.any_down(&self.nodes) { &self.nodes[..] } else { &[] };
        nodes.iter().filter(|node| self.remote.any_down(std::slice::from_ref(*node))).map(|node| {
            let homes = self.homes.iter().enumerate().filter(|(_, home)| home.id == Some(*node));
            homes.fold(VolumeSubset::default(), |places, (place, _)| places.with(place))
        })
    }

    /// Whether too few volumes have room to accept what needs room.
    pub fn lacks_room(&self) -> bool {
        self.with_room() < self.quorums().accept()
    }

    /// Whether too few volumes have room to make shards of new data durable.
    pub fn lacks_room_for_shards(&self) -> bool {
        self.with_room() < self.durable_enough()
    }

    fn with_room(&self) -> usize {
        self.routes.iter().filter(|route| !route.peer.is_full(route.volume)).count()
    }

    /// The places of all volumes from one of them on, those that are late behind the others.
    pub fn prompt_first(&self, start: usize) -> SmallVec<[usize; SET_USUAL]> {
        let volumes = self.routes.len();
        let places = (0..volumes).map(|n| (start + n) % volumes);
        let (late, mut prompt): (SmallVec<_>, SmallVec<_>) =
            places.partition(|place| self.routes[*place].is_late());
        prompt.extend(late);
        prompt
    }

    /// Whether a volume keeps its callers waiting, by its place.
    pub fn is_late(&self, place: usize) -> bool {
        self.routes[place].is_late()
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
            VolumeHome { node: name.into(), id: node, is_own: node == Some(own) }
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

    /// The volumes of the other nodes, by their last reports.
    pub const fn remote(&self) -> &RemoteVolumes {
        &self.remote
    }

    /// How many nodes of a key's set that are up come before this one where upkeep needs one node to look
    /// after the key: 0 where it is this node. The order is another one for each key, and the same on each
    /// node.
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
        self.set_of_slot(placement::slot(key))
    }

    fn set_of_slot(&self, slot: Slot) -> Arc<SetView> {
        let set = self.topology.owner(slot);
        let index = usize::try_from(set.0).expect("a set's place fits memory");
        Arc::clone(&self.sets[index])
    }

    /// Where a register lies.
    pub fn route(&self, key: RegisterKey) -> KeyRoute {
        let slot = placement::slot(&key);
        KeyRoute { set: self.set_of_slot(slot), target: Target::new(key, slot, self.topology.epoch()) }
    }

    /// A set by its id; `None` where the topology has no such set.
    pub fn set(&self, id: SetId) -> Option<&Arc<SetView>> {
        self.sets.get(usize::try_from(id.0).ok()?)
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

    /// Three nodes with two volumes each, 3+3. The third dies under a body and comes back before its end.
    #[tokio::test(start_paused = true)]
    async fn what_a_write_lost_to_a_node_that_was_down_is_not_asked_for_when_it_is_back() {
        let nodes: Vec<NodeId> = (1..=3).map(|number| NodeId([number; 16])).collect();
        let home =
            |place: usize| VolumeHome { node: "".into(), id: Some(nodes[place / 2]), is_own: place < 2 };
        let remote = RemoteVolumes::default();
        let set = SetView {
            id: SetId(0),
            geometry: Geometry::new(3, 3).expect("a geometry"),
            routes: Vec::new(),
            homes: (0..6).map(home).collect(),
            nodes: nodes.clone(),
            remote: remote.clone(),
            durable_enough: [5, 4],
        };
        let (left, third) = (VolumeSubset::first(4), VolumeSubset::first(6).without(VolumeSubset::first(4)));
        let mut given_up = GivenUpVolumes::default();
        assert!(!set.become_enough(left, third, &mut given_up).await, "two volumes of a node that is up");
        assert_eq!((given_up.places(), given_up.since()), (VolumeSubset::default(), None));
        let goes_down = async {
            tokio::time::sleep(DOWN_SHOWS / 2).await;
            remote.node_is_down(nodes[2], "no answer");
        };
        let (are_enough, ()) = tokio::join!(set.become_enough(left, third, &mut given_up), goes_down);
        assert!(are_enough, "it shows that the node is down");
        let since = Some(Instant::now());
        assert_eq!(given_up.since(), since);
        remote.replace(nodes[2], &[]);
        assert!(set.are_enough(left, given_up.places()), "it is back, and misses what it missed");
        assert!(!set.are_enough(left, VolumeSubset::default()), "another write may count on it again");
        assert!(!set.are_enough(VolumeSubset::first(3), given_up.places()));
        // A volume that hung on a node that took another shard was not lost to the node's blip.
        let (mut blamed, hung) =
            (GivenUpVolumes::default(), VolumeSubset::first(5).without(VolumeSubset::first(4)));
        remote.node_is_down(nodes[2], "no answer");
        assert!(!set.become_enough(VolumeSubset::first(3), hung, &mut blamed).await);
        assert_eq!(blamed.places(), VolumeSubset::default());
        // The rest of the body takes its time: its shards are missing since the node was down.
        tokio::time::sleep(DOWN_SHOWS).await;
        assert!(set.become_enough(left, third, &mut given_up).await);
        assert_eq!(given_up.since(), since);
        remote.replace(nodes[2], &[]);
        // Another node's blip neither excuses two hung volumes nor takes away what is durable on it.
        remote.node_is_down(nodes[1], "no answer");
        assert!(!set.are_enough(VolumeSubset::first(2).and(VolumeSubset::first(4)), given_up.places()));
        assert!(set.are_enough(VolumeSubset::first(5), VolumeSubset::default()));
    }

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
