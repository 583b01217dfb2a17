//! Every geometry from 1x1 to 16x8: a rollout takes no quorum away where the sets can lose a node, and does
//! not begin where they cannot, unless downtime is allowed.

use k8s_openapi::jiff::Timestamp;
use sherd_operator::api::RolloutStatus;
use sherd_operator::rollout::{
    BlockedReason, NodeHealth, PodState, PoolHealth, PoolSets, RolloutInput, RolloutPlan, RolloutStep,
    UpgradeRules, VolumeHealth, plan,
};

use super::{RULES, names, pools, takes_reads_and_writes};

struct Pool {
    sets: PoolSets,
    names: Vec<String>,
    pods: Vec<Option<PodState>>,
    health: PoolHealth,
    record: RolloutStatus,
    rules: UpgradeRules,
}

const WHOLE: VolumeHealth = VolumeHealth { takes_part: true, is_whole: true, has_room: true };

impl Pool {
    fn new(sets: PoolSets, rules: UpgradeRules) -> Self {
        let names = names(sets.nodes());
        let pods = (0..sets.nodes()).map(|node| Some(pod(&format!("old-{node}"), "old"))).collect();
        let node = |node| NodeHealth {
            silent: None,
            is_unformed: false,
            volumes: vec![WHOLE; sets.of_node(node).len()],
        };
        let health = PoolHealth { nodes: (0..sets.nodes()).map(node).collect() };
        Self { names, pods, health, record: RolloutStatus::default(), rules, sets }
    }

    fn plan(&mut self) -> RolloutPlan {
        let plan = plan(&RolloutInput {
            names: &self.names,
            pods: &self.pods,
            sets: &self.sets,
            health: &self.health,
            target: Some("new"),
            equal: None,
            has_additions: false,
            template: "digest",
            rules: self.rules,
            refusal: None,
            last: &self.record,
            now: Timestamp::from_second(1_800_000_000).expect("a time"),
        });
        self.record = plan.record.clone();
        plan
    }

    fn rests(&mut self, when: &str) {
        let plan = self.plan();
        assert_eq!(plan.budget, 0, "{when}: {}", self.record.message);
        assert_eq!(plan.step, RolloutStep::Wait, "{when}: {}", self.record.message);
    }

    /// Takes an evicted pod away and brings its successor up, step by step: nothing else goes meanwhile.
    fn replace(&mut self, node: usize) {
        let volumes = self.health.nodes[node].volumes.len();
        self.pods[node].as_mut().expect("evicted").is_terminating = true;
        self.rests("it ends");
        self.pods[node] = None;
        self.health.nodes[node] = NodeHealth {
            silent: Some("no answer".to_owned()),
            is_unformed: false,
            volumes: vec![VolumeHealth::default(); volumes],
        };
        self.rests("it is away");
        self.pods[node] = Some(PodState { is_ready: false, ..pod(&format!("new-{node}"), "new") });
        self.rests("it starts");
        self.pods[node].as_mut().expect("there").is_ready = true;
        self.health.nodes[node].silent = None;
        self.health.nodes[node].volumes.fill(VolumeHealth { is_whole: false, ..WHOLE });
        self.rests("it heals");
        self.health.nodes[node].volumes.fill(WHOLE);
    }
}

fn pod(uid: &str, revision: &str) -> PodState {
    PodState {
        uid: uid.to_owned(),
        revision: revision.to_owned(),
        is_ready: true,
        is_terminating: false,
        is_running: true,
        lacks_its_host: false,
    }
}

/// Whether each set takes reads and writes without a node, by the placement that the design describes: sets
/// are runs of "the first volume of each node, then the second, ...".
fn survives(sets: &PoolSets, volumes: usize, node: usize) -> bool {
    let (nodes, width) = (sets.nodes(), sets.geometry().volumes());
    let of: Vec<usize> = (0..volumes).map(|volume| (volume * nodes + node) / width).collect();
    assert_eq!(sets.of_node(node), of, "{nodes}x{volumes} in sets of {width}");
    (0..sets.count()).all(|set| {
        let down = of.iter().filter(|other| **other == set).count();
        takes_reads_and_writes(sets.geometry(), width - down)
    })
}

#[test]
fn a_rollout_keeps_the_quorums_of_every_geometry_that_can_lose_a_node_and_does_not_begin_in_others() {
    let (mut rolled, mut blocked) = (0, 0);
    for (nodes, volumes) in (1..=16).flat_map(|nodes| (1..=8).map(move |volumes| (nodes, volumes))) {
        for sets in pools(nodes, volumes) {
            let name = format!("{nodes}x{volumes} in {} sets of {}", sets.count(), sets.geometry());
            let can_lose: Vec<bool> = (0..nodes).map(|node| survives(&sets, volumes, node)).collect();
            let may_roll = can_lose.iter().all(|can| *can);
            let mut pool = Pool::new(sets.clone(), RULES);
            let first = pool.plan();
            assert_eq!(first.budget == 1, may_roll, "{name}: the budget");
            if !may_roll {
                blocked += 1;
                assert_eq!(first.step, RolloutStep::Blocked(BlockedReason::NotRedundant), "{name}");
                pool = Pool::new(sets, UpgradeRules { allows_downtime: true, ..RULES });
            }
            let mut replaced = vec![false; nodes];
            while !replaced.iter().all(|done| *done) {
                let next = pool.plan();
                let RolloutStep::Evict(eviction) = next.step else {
                    panic!("{name}: {:?}: {}", next.step, pool.record.message)
                };
                let node = pool.names.iter().position(|name| *name == eviction.pod).expect("a pod");
                assert_eq!(eviction.uid, format!("old-{node}"), "{name}");
                assert!(!std::mem::replace(&mut replaced[node], true), "{name}: twice");
                assert!(!may_roll || can_lose[node], "{name}: {}", eviction.pod);
                assert_eq!(next.budget, 1, "{name}: the budget lets it go");
                pool.replace(node);
            }
            assert_eq!(pool.plan().step, RolloutStep::Done, "{name}");
            assert_eq!(pool.record.last_good.as_deref(), Some("new"), "{name}");
            rolled += 1;
        }
    }
    assert!(rolled > 1_000 && blocked > 100, "{rolled} pools, {blocked} of them cannot lose a node");
}
