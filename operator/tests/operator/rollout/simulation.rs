//! A cluster in memory whose nodes fail at random while it is rolled and drained, by an operator that is
//! killed at any point, sees pods late and has only its stored record. A seed is a history.

use k8s_openapi::jiff::{Timestamp, ToSpan as _};
use sherd_core::topology::GeometryRequest;
use sherd_operator::api::RolloutStatus;
use sherd_operator::rollout::{
    BlockedReason, NodeAnswers, PodState, PoolHealth, PoolSets, RolloutInput, RolloutPlan, RolloutStep, plan,
};
use sherd_proto::v1::{Formation, SetStatus, StatusReply, VolumeReport};

use super::{RULES, names, takes_reads_and_writes};

/// A moment of the simulation, in which the operator looks once at most.
const TICK_S: i64 = 5;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting(u64),
    Serving,
    Ending(u64),
}

#[derive(Clone)]
struct Pod {
    uid: String,
    revision: String,
    phase: Phase,
}

#[derive(Clone)]
struct Node {
    pod: Option<Pod>,
    /// Moments until its host is back.
    host_down: u64,
    /// Moments until its volumes have what they missed, once it serves.
    heals: u64,
    /// Moments until its first volume works again.
    disk_down: u64,
}

struct World {
    random: Random,
    sets: PoolSets,
    names: Vec<String>,
    nodes: Vec<Node>,
    /// As an operator with an old cache sees them.
    before: Vec<Option<PodState>>,
    /// The revision that the specification asks for, and the one in the StatefulSet.
    asked: String,
    target: String,
    budget: u8,
    record: RolloutStatus,
    now: Timestamp,
    uids: u64,
}

impl World {
    fn new(seed: u64, nodes: usize, volumes: usize) -> Self {
        let sets = PoolSets::of(nodes, volumes, GeometryRequest::default()).expect("a pool");
        let node = |node| Node {
            pod: Some(Pod { uid: format!("first-{node}"), revision: "r1".to_owned(), phase: Phase::Serving }),
            host_down: 0,
            heals: 0,
            disk_down: 0,
        };
        Self {
            random: Random(seed),
            names: names(nodes),
            nodes: (0..nodes).map(node).collect(),
            before: vec![None; nodes],
            sets,
            asked: "r1".to_owned(),
            target: "r1".to_owned(),
            budget: 0,
            record: RolloutStatus::default(),
            now: Timestamp::from_second(1_800_000_000).expect("a time"),
            uids: 0,
        }
    }

    /// The changes that happen without the operator.
    fn pass(&mut self, chaos: bool) {
        self.now = self.now.checked_add(TICK_S.seconds()).expect("a time");
        self.before = self.pods();
        for at in 0..self.nodes.len() {
            if chaos && self.random.one_in(150) {
                self.nodes[at].host_down = 1 + self.random.below(60);
            }
            if chaos && self.random.one_in(150) {
                self.nodes[at].disk_down = 1 + self.random.below(40);
            }
            let dies = chaos && self.random.one_in(200);
            let (starts, heals) = (2 + self.random.below(4), self.random.below(6));
            self.uids += 1;
            let (uid, target) = (format!("uid-{}", self.uids), self.target.clone());
            let node = &mut self.nodes[at];
            node.host_down = node.host_down.saturating_sub(1);
            node.disk_down = node.disk_down.saturating_sub(1);
            let is_up = node.host_down == 0;
            match node.pod.as_mut().filter(|_| is_up) {
                None if is_up => {
                    node.pod = Some(Pod { uid, revision: target, phase: Phase::Starting(starts) });
                }
                // On a host that is away a pod is as it was, and its process is not.
                None => {
                    if let Some(Pod { phase: phase @ Phase::Serving, .. }) = &mut node.pod {
                        *phase = Phase::Starting(starts);
                        node.heals = heals;
                    }
                }
                Some(pod) => match pod.phase {
                    Phase::Starting(_) if pod.revision.starts_with("bad") => {}
                    Phase::Starting(0) => {
                        pod.phase = Phase::Serving;
                        node.heals += u64::from(pod.revision.starts_with("sick"));
                    }
                    Phase::Starting(left) => pod.phase = Phase::Starting(left - 1),
                    Phase::Ending(0) => {
                        node.pod = None;
                        node.heals = heals;
                    }
                    Phase::Ending(left) => pod.phase = Phase::Ending(left - 1),
                    Phase::Serving if dies => pod.phase = Phase::Ending(1),
                    // The node of a sick template serves, and never heals.
                    Phase::Serving if pod.revision.starts_with("sick") => {}
                    Phase::Serving => node.heals = node.heals.saturating_sub(1),
                },
            }
        }
    }

    fn pods(&self) -> Vec<Option<PodState>> {
        let state = |node: &Node| {
            let pod = node.pod.as_ref()?;
            let fails = pod.revision.starts_with("bad");
            Some(PodState {
                uid: pod.uid.clone(),
                revision: pod.revision.clone(),
                is_ready: pod.phase == Phase::Serving && node.host_down == 0,
                is_terminating: matches!(pod.phase, Phase::Ending(_)),
                is_running: !fails && node.host_down == 0,
                lacks_its_host: false,
            })
        };
        self.nodes.iter().map(state).collect()
    }

    /// Whether a node's process answers: one that ends does so to its end.
    fn answers(&self, node: usize) -> bool {
        let Node { pod, host_down, .. } = &self.nodes[node];
        let is_up = |pod: &Pod| match pod.phase {
            Phase::Starting(left) => left < 2 && !pod.revision.starts_with("bad"),
            Phase::Serving | Phase::Ending(_) => true,
        };
        *host_down == 0 && pod.as_ref().is_some_and(is_up)
    }

    fn replies(&self) -> NodeAnswers {
        let geometry = self.sets.geometry();
        let set = SetStatus {
            volumes: u32::try_from(geometry.volumes()).expect("few"),
            data_shards: u32::try_from(geometry.data_shards()).expect("few"),
            parity_shards: u32::try_from(geometry.parity_shards()).expect("few"),
            ..SetStatus::default()
        };
        let volumes = self.names.iter().enumerate().flat_map(|(node, name)| {
            let up = self.answers(node);
            let Node { heals, disk_down, .. } = self.nodes[node];
            (0..).zip(self.sets.of_node(node)).map(move |(ordinal, _)| {
                let works = up && (disk_down == 0 || ordinal > 0);
                VolumeReport {
                    node: name.clone(),
                    ordinal,
                    votes: works,
                    is_open: works,
                    has_room: works,
                    healed: works && heals == 0,
                    ..VolumeReport::default()
                }
            })
        });
        let reply = StatusReply {
            formation: Some(Formation { formed: true, ..Formation::default() }),
            volumes: volumes.collect(),
            sets: vec![set; self.sets.count()],
            ..StatusReply::default()
        };
        let answer = |(node, name): (usize, &String)| {
            (name.clone(), if self.answers(node) { Ok(reply.clone()) } else { Err("no answer".to_owned()) })
        };
        self.names.iter().enumerate().map(answer).collect()
    }

    /// Volumes of a set that serve, and those of them that lack nothing, if a node goes.
    fn strength(&self, set: usize, without: Option<usize>) -> (usize, usize) {
        let (mut up, mut whole) = (0, 0);
        for (at, node) in self.nodes.iter().enumerate().filter(|(at, _)| Some(*at) != without) {
            let stays = node.pod.as_ref().is_some_and(|pod| !matches!(pod.phase, Phase::Ending(_)));
            if !stays || !self.answers(at) {
                continue;
            }
            let working = usize::from(node.disk_down > 0)..self.sets.of_node(at).len();
            let of_set = working.filter(|volume| self.sets.of_node(at)[*volume] == set).count();
            up += of_set;
            whole += if node.heals == 0 { of_set } else { 0 };
        }
        (up, whole)
    }

    /// The Eviction API: the uid and the budget hold, and no set that works stops to. A deletion passes the
    /// budget.
    fn evict(&mut self, at: usize, uid: &str, who: &str, is_deletion: bool) {
        let is_ready =
            |pod: &Option<PodState>| pod.as_ref().is_some_and(|pod| pod.is_ready && !pod.is_terminating);
        let pods = self.pods();
        let fits = pods[at].as_ref().is_some_and(|pod| pod.uid == uid && !pod.is_terminating);
        let unhealthy = pods.iter().filter(|pod| !is_ready(pod)).count();
        if !fits || (!is_deletion && is_ready(&pods[at]) && unhealthy >= usize::from(self.budget)) {
            return;
        }
        let geometry = self.sets.geometry();
        for set in 0..self.sets.count() {
            let (before, after) = (self.strength(set, None), self.strength(set, Some(at)));
            let works = |(up, whole): (usize, usize)| {
                takes_reads_and_writes(geometry, up) && whole >= geometry.data_shards()
            };
            let message = &self.record.message;
            assert!(
                !works(before) || works(after),
                "{who} breaks set {set}: {before:?} {after:?}: {message}"
            );
        }
        self.nodes[at].pod.as_mut().expect("there").phase = Phase::Ending(1 + self.random.below(3));
    }

    /// One look of the operator. It may be killed after each of its writes, and know pods of the last moment.
    fn operate(&mut self, chaos: bool) -> Option<RolloutPlan> {
        let holds = self.record.failed.as_ref().is_some_and(|failed| failed.template == self.asked);
        let back = self.record.last_good.clone().filter(|_| holds);
        self.target = back.unwrap_or_else(|| self.asked.clone());
        if chaos && self.random.one_in(10) {
            return None;
        }
        let pods = if chaos && self.random.one_in(4) { self.before.clone() } else { self.pods() };
        let health = PoolHealth::read(&self.names, &self.sets, &self.replies());
        let plan = plan(&RolloutInput {
            names: &self.names,
            pods: &pods,
            sets: &self.sets,
            health: &health,
            target: Some(&self.target),
            equal: None,
            has_additions: false,
            template: &self.asked,
            rules: RULES,
            refusal: None,
            last: &self.record,
            now: self.now,
        });
        self.budget = plan.budget;
        if chaos && self.random.one_in(10) {
            return None;
        }
        let stored = serde_json::to_string(&plan.record).expect("JSON");
        self.record = serde_json::from_str(&stored).expect("the same");
        if chaos && self.random.one_in(10) {
            return None;
        }
        if let RolloutStep::Evict(eviction) = &plan.step {
            let at = self.names.iter().position(|name| *name == eviction.pod).expect("a pod");
            self.evict(at, &eviction.uid, "the operator", eviction.is_deletion);
        }
        Some(plan)
    }

    /// Time goes on; a drain asks for any ready pod as `kubectl drain` does, after the operator looked. (Pods
    /// that are not ready go by the rule of Kubernetes that the budget names, also when their node votes.)
    fn moment(&mut self, chaos: bool) -> Option<RolloutPlan> {
        self.pass(chaos);
        let plan = self.operate(chaos);
        if plan.is_some() && chaos && self.random.one_in(4) {
            let at = usize::try_from(self.random.below(self.nodes.len() as u64)).expect("few");
            if let Some(pod) = self.pods()[at].clone().filter(|pod| pod.is_ready) {
                self.evict(at, &pod.uid, "a drain", false);
            }
        }
        plan
    }

    /// Without further failures, until the planner has nothing more to do by itself.
    fn calm(&mut self) -> RolloutStep {
        let mut last = RolloutStep::Wait;
        for _ in 0..2_000 {
            last = self.moment(false).expect("no one kills it").step;
            if last == RolloutStep::Done && self.nodes.iter().all(|node| self.is_as_asked(node)) {
                return last;
            }
        }
        last
    }

    fn is_as_asked(&self, node: &Node) -> bool {
        let Some(pod) = &node.pod else { return false };
        let is_whole = node.heals == 0 && node.disk_down == 0;
        pod.revision == self.asked && pod.phase == Phase::Serving && is_whole
    }
}

const POOLS: [(usize, usize); 6] = [(3, 1), (3, 2), (4, 1), (4, 4), (6, 2), (16, 1)];

#[test]
fn random_failures_while_rolling_break_nothing_and_the_rollout_ends_when_nodes_are_well() {
    for seed in 0..60 {
        for (nodes, volumes) in POOLS {
            let mut world = World::new(seed, nodes, volumes);
            for round in 0..3 {
                world.asked = format!("r{}-{round}", seed + 2);
                for _ in 0..80 {
                    world.moment(true);
                }
            }
            let mut ended = world.calm();
            if world.record.failed.is_some() {
                // A host was away for longer than the time allowed: a person asks again.
                assert_eq!(ended, RolloutStep::Blocked(BlockedReason::HealthTimeout), "seed {seed}");
                world.asked.push_str("-again");
                ended = world.calm();
            }
            let message = &world.record.message;
            assert_eq!(ended, RolloutStep::Done, "seed {seed}, {nodes}x{volumes}: {message}");
            assert_eq!(world.record.last_good.as_ref(), Some(&world.asked), "seed {seed}");
        }
    }
}

#[test]
fn a_template_that_never_comes_up_takes_one_pod_and_is_put_back_until_the_specification_changes() {
    for (nodes, volumes) in POOLS {
        let mut world = World::new(7, nodes, volumes);
        assert_eq!(world.calm(), RolloutStep::Done);
        world.asked = "bad".to_owned();
        assert_eq!(world.calm(), RolloutStep::Blocked(BlockedReason::HealthTimeout), "{nodes}x{volumes}");
        assert_eq!(world.target, "r1", "the last that worked");
        for node in &world.nodes {
            assert!(node.pod.as_ref().is_some_and(|pod| pod.revision == "r1" && pod.phase == Phase::Serving));
        }
        world.asked = "r3".to_owned();
        assert_eq!(world.calm(), RolloutStep::Done, "{nodes}x{volumes}: {}", world.record.message);
    }
}

/// Pods of the template are ready, so neither their readiness nor the closed budget brings the mended
/// template to them.
#[test]
fn a_template_with_which_no_node_heals_takes_one_pod_and_is_put_back() {
    for (nodes, volumes) in POOLS {
        let mut world = World::new(11, nodes, volumes);
        assert_eq!(world.calm(), RolloutStep::Done);
        world.asked = "sick".to_owned();
        assert_eq!(world.calm(), RolloutStep::Blocked(BlockedReason::HealthTimeout), "{nodes}x{volumes}");
        assert!(world.record.message.contains("did not heal"), "{}", world.record.message);
        for node in &world.nodes {
            assert!(node.pod.as_ref().is_some_and(|pod| pod.revision == "r1") && node.heals == 0);
        }
        world.asked = "r3".to_owned();
        assert_eq!(world.calm(), RolloutStep::Done, "{nodes}x{volumes}: {}", world.record.message);
        // A revert before the time is over reaches it, too.
        world.asked = "sick-again".to_owned();
        for _ in 0..40 {
            world.moment(false);
        }
        let kept: Vec<String> =
            world.nodes.iter().flat_map(|node| &node.pod).map(|pod| pod.uid.clone()).collect();
        world.asked = "r3".to_owned();
        assert_eq!(world.calm(), RolloutStep::Done, "{nodes}x{volumes}: {}", world.record.message);
        let stays =
            world.nodes.iter().flat_map(|node| &node.pod).filter(|pod| kept.contains(&pod.uid)).count();
        assert_eq!(stays, nodes - 1, "{nodes}x{volumes}: the others were not touched");
    }
}

#[test]
fn a_revert_replaces_the_pod_that_never_started_and_no_other() {
    let mut world = World::new(3, 4, 1);
    assert_eq!(world.calm(), RolloutStep::Done);
    world.asked = "bad".to_owned();
    for _ in 0..20 {
        world.moment(false);
    }
    let failing = |world: &World| {
        world.nodes.iter().filter(|node| node.pod.as_ref().is_some_and(|pod| pod.revision == "bad")).count()
    };
    assert_eq!(failing(&world), 1, "one pod, and no second");
    let kept: Vec<String> =
        world.nodes.iter().flat_map(|node| &node.pod).map(|pod| pod.uid.clone()).collect();
    world.asked = "r1".to_owned();
    assert_eq!(world.calm(), RolloutStep::Done, "{}", world.record.message);
    let stays = world.nodes.iter().flat_map(|node| &node.pod).filter(|pod| kept.contains(&pod.uid)).count();
    assert_eq!(stays, 3, "the others were not touched");
}
