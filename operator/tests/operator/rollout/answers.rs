//! The meaning of the nodes' answers for the budget, and the cases in which a pod that is not ready goes.

use k8s_openapi::jiff::{Timestamp, ToSpan as _};
use sherd_core::topology::GeometryRequest;
use sherd_operator::api::RolloutStatus;
use sherd_operator::rollout::{
    BlockedReason, NodeAnswers, PodState, PoolHealth, PoolSets, RolloutInput, RolloutPlan, RolloutStep,
    UpgradeRules, plan,
};
use sherd_proto::v1::{Formation, SetStatus, StatusReply, VolumeReport};

use super::{RULES, names};

type Doubt = fn(&mut Pool);

/// Four nodes with a volume each, 2+2.
struct Pool {
    pods: Vec<Option<PodState>>,
    answers: NodeAnswers,
    record: RolloutStatus,
    rules: UpgradeRules,
    target: Option<&'static str>,
    refusal: Option<(&'static str, &'static str)>,
    now: Timestamp,
}

impl Pool {
    fn whole() -> Self {
        let pod = |node| PodState {
            uid: format!("uid-{node}"),
            revision: "old".to_owned(),
            is_ready: true,
            is_terminating: false,
            is_running: true,
            lacks_its_host: false,
        };
        let volume = |name: &String| VolumeReport {
            node: name.clone(),
            votes: true,
            is_open: true,
            has_room: true,
            healed: true,
            ..VolumeReport::default()
        };
        let set = SetStatus { volumes: 4, data_shards: 2, parity_shards: 2, ..SetStatus::default() };
        let reply = StatusReply {
            formation: Some(Formation { formed: true, ..Formation::default() }),
            volumes: names(4).iter().map(volume).collect(),
            sets: vec![set],
            ..StatusReply::default()
        };
        Self {
            pods: (0..4).map(|node| Some(pod(node))).collect(),
            answers: names(4).into_iter().map(|name| (name, Ok(reply.clone()))).collect(),
            record: RolloutStatus::default(),
            rules: RULES,
            target: Some("new"),
            refusal: None,
            now: Timestamp::from_second(1_800_000_000).expect("a time"),
        }
    }

    fn plan(&mut self) -> RolloutPlan {
        let sets = PoolSets::of(4, 1, GeometryRequest::default()).expect("a pool");
        let names = names(4);
        let plan = plan(&RolloutInput {
            names: &names,
            pods: &self.pods,
            sets: &sets,
            health: &PoolHealth::read(&names, &sets, &self.answers),
            target: self.target,
            equal: None,
            has_additions: false,
            template: "digest",
            rules: self.rules,
            refusal: self.refusal,
            last: &self.record,
            now: self.now,
        });
        self.record = plan.record.clone();
        plan
    }

    /// The answer of one node.
    fn answer(&mut self, node: usize) -> &mut StatusReply {
        let answer = self.answers.get_mut(&names(4)[node]).expect("asked");
        answer.as_mut().expect("answered")
    }

    fn pod(&mut self, node: usize) -> &mut PodState {
        self.pods[node].as_mut().expect("there")
    }

    /// Changes the reports of all nodes on a node's volume.
    fn all_say(&mut self, node: usize, change: fn(&mut VolumeReport)) {
        for reply in self.answers.values_mut().flatten() {
            change(&mut reply.volumes[node]);
        }
    }

    fn evicts(&mut self, expected: usize) {
        match self.plan().step {
            RolloutStep::Evict(eviction) => assert_eq!(eviction.pod, names(4)[expected]),
            other => panic!("{other:?}: {}", self.record.message),
        }
    }
}

#[test]
fn one_doubt_of_one_node_is_enough_to_let_no_pod_go() {
    let doubts: [(&str, Doubt); 12] = [
        ("a silent node", |pool| drop(pool.answers.insert(names(4)[2].clone(), Err("no answer".to_owned())))),
        ("a node that was not asked", |pool| drop(pool.answers.remove(&names(4)[2]))),
        ("a node that forms", |pool| pool.answer(1).formation = None),
        ("a node of another shape", |pool| pool.answer(1).sets[0].data_shards = 3),
        ("a volume that is not healed", |pool| pool.all_say(3, |volume| volume.healed = false)),
        ("one node says not healed", |pool| pool.answer(0).volumes[3].healed = false),
        ("one node says it does not vote", |pool| pool.answer(0).volumes[3].votes = false),
        ("one node does not name it", |pool| drop(pool.answer(0).volumes.pop())),
        ("one node names it twice", |pool| {
            let twice = pool.answer(0).volumes[3].clone();
            pool.answer(0).volumes.push(twice);
        }),
        ("a pod that is not ready", |pool| pool.pod(0).is_ready = false),
        ("a pod that ends", |pool| pool.pod(0).is_terminating = true),
        ("a pod that is absent", |pool| pool.pods[0] = None),
    ];
    let whole = Pool::whole().plan();
    assert_eq!(whole.budget, 1);
    for (name, doubt) in doubts {
        let mut pool = Pool::whole();
        // No pod is of an older template but one that is ready.
        for pod in pool.pods.iter_mut().flatten().take(3) {
            "new".clone_into(&mut pod.revision);
        }
        doubt(&mut pool);
        let plan = pool.plan();
        assert_eq!((plan.budget, plan.step), (0, RolloutStep::Wait), "{name}");
        assert!(pool.record.message.contains("demo-pool-0-"), "{name}: {}", pool.record.message);
    }
}

#[test]
fn a_node_without_which_the_others_are_full_is_not_spare() {
    let mut pool = Pool::whole();
    pool.all_say(0, |volume| volume.has_room = false);
    let plan = pool.plan();
    assert_eq!((plan.budget, plan.step), (0, RolloutStep::Wait), "{}", plan.record.message);
    assert!(plan.record.message.contains("no room"), "{}", plan.record.message);
    // Where writes are refused for lack of room already, none is lost.
    pool.all_say(1, |volume| volume.has_room = false);
    pool.evicts(3);
}

#[test]
fn a_pod_of_an_older_template_that_takes_part_in_nothing_goes_first_and_at_once() {
    let mut pool = Pool::whole();
    pool.pod(1).is_ready = false;
    pool.pod(1).is_running = false;
    pool.all_say(1, |volume| {
        volume.votes = false;
        volume.is_open = false;
        volume.healed = false;
    });
    // The volumes of another node are not healed either: the eviction still costs nothing.
    pool.all_say(0, |volume| volume.healed = false);
    pool.evicts(1);
    pool.record = RolloutStatus::default();
    // A process that runs may be about to take part.
    pool.pod(1).is_running = true;
    assert_eq!(pool.plan().step, RolloutStep::Wait);
    pool.now = pool.now.checked_add(61.seconds()).expect("a time");
    pool.evicts(1);
    // But not where no node answers that could know.
    pool.answers.values_mut().for_each(|answer| *answer = Err("no route".to_owned()));
    assert_eq!(pool.plan().step, RolloutStep::Wait);
}

#[test]
fn a_pod_that_votes_without_being_ready_goes_once_the_others_are_whole() {
    let mut pool = Pool::whole();
    pool.pod(1).is_ready = false;
    pool.all_say(0, |volume| volume.healed = false);
    assert_eq!(pool.plan().step, RolloutStep::Wait);
    pool.all_say(0, |volume| volume.healed = true);
    pool.evicts(1);
}

#[test]
fn a_pod_of_an_older_template_that_is_ready_and_does_not_heal_is_deleted_while_the_budget_is_closed() {
    let mut pool = Pool::whole();
    pool.all_say(1, |volume| volume.healed = false);
    assert_eq!(pool.plan().step, RolloutStep::Wait);
    pool.now = pool.now.checked_add(61.seconds()).expect("a time");
    let plan = pool.plan();
    let RolloutStep::Evict(eviction) = plan.step else { panic!("{:?}", plan.step) };
    assert_eq!((eviction.pod.as_str(), eviction.is_deletion, plan.budget), ("demo-pool-0-1", true, 0));
    // But not while another one lacks something, nor where the operator cannot ask it.
    for doubt in [
        (|pool: &mut Pool| pool.all_say(2, |volume| volume.healed = false)) as Doubt,
        |pool| pool.pod(2).is_ready = false,
        |pool| drop(pool.answers.insert(names(4)[1].clone(), Err("no answer".to_owned()))),
    ] {
        let mut pool = Pool { record: pool.record.clone(), now: pool.now, ..Pool::whole() };
        "new".clone_into(&mut pool.pod(2).revision);
        pool.record.replacing = None;
        pool.all_say(1, |volume| volume.healed = false);
        doubt(&mut pool);
        assert_eq!(pool.plan().step, RolloutStep::Wait, "{}", pool.record.message);
    }
}

/// The host with its volumes is closed by a drain that runs beside the rollout.
#[test]
fn a_pod_that_waits_for_its_host_blames_no_template() {
    for (lacks_its_host, fails) in [(true, false), (false, true)] {
        let mut pool = Pool::whole();
        pool.target = Some("old");
        assert_eq!(pool.plan().step, RolloutStep::Done);
        pool.target = Some("new");
        pool.evicts(3);
        *pool.pod(3) = PodState {
            uid: "next".to_owned(),
            revision: "new".to_owned(),
            is_ready: false,
            is_running: false,
            lacks_its_host,
            ..pool.pod(3).clone()
        };
        pool.answers.insert(names(4)[3].clone(), Err("no route".to_owned()));
        for _ in 0..2 {
            pool.plan();
            pool.now = pool.now.checked_add(16.minutes()).expect("a time");
        }
        assert_eq!(pool.record.failed.is_some(), fails, "{}", pool.record.message);
    }
}

#[test]
fn an_eviction_that_is_refused_for_too_long_says_so_and_is_asked_for_again() {
    let mut pool = Pool::whole();
    pool.evicts(3);
    pool.refusal = Some(("uid-3", "Cannot evict"));
    pool.evicts(3);
    assert!(!pool.record.message.contains("refuses"), "{}", pool.record.message);
    pool.refusal = None;
    pool.now = pool.now.checked_add(16.minutes()).expect("a time");
    let plan = pool.plan();
    let RolloutStep::Evict(eviction) = plan.step else { panic!("{:?}", plan.step) };
    assert!(eviction.is_overdue && plan.record.message.contains("Cannot evict"), "{}", plan.record.message);
    // Of a pod that went in the end nothing is left.
    pool.pods[3] = None;
    pool.plan();
    assert_eq!(pool.record.replacing.clone().and_then(|replacing| replacing.refusal), None);
}

#[test]
fn a_cluster_that_never_formed_gets_the_mended_template() {
    let mut pool = Pool::whole();
    for pod in pool.pods.iter_mut().flatten() {
        pod.is_ready = false;
    }
    for reply in pool.answers.values_mut().flatten() {
        *reply = StatusReply { formation: Some(Formation::default()), ..StatusReply::default() };
    }
    assert_eq!(pool.plan().step, RolloutStep::Wait);
    pool.now = pool.now.checked_add(61.seconds()).expect("a time");
    pool.evicts(3);
}

#[test]
fn a_rollout_says_why_it_stands_still() {
    let mut pool = Pool::whole();
    pool.rules.is_paused = true;
    assert_eq!(pool.plan().step, RolloutStep::Blocked(BlockedReason::Paused));
    assert_eq!(pool.record.order, ["demo-pool-0-3", "demo-pool-0-2", "demo-pool-0-1", "demo-pool-0-0"]);

    let mut pool = Pool::whole();
    pool.answers.insert(names(4)[2].clone(), Err("no answer".to_owned()));
    assert_eq!(pool.plan().step, RolloutStep::Wait);
    pool.now = pool.now.checked_add(16.minutes()).expect("a time");
    assert_eq!(pool.plan().step, RolloutStep::Blocked(BlockedReason::NodesSilent));

    let mut pool = Pool::whole();
    "new".clone_into(&mut pool.pod(2).revision);
    pool.all_say(2, |volume| volume.healed = false);
    assert_eq!(pool.plan().step, RolloutStep::Wait);
    pool.now = pool.now.checked_add(16.minutes()).expect("a time");
    assert_eq!(pool.plan().step, RolloutStep::Blocked(BlockedReason::HealthTimeout));
    pool.all_say(2, |volume| volume.healed = true);
    pool.evicts(3);

    let mut pool = Pool::whole();
    pool.target = None;
    let plan = pool.plan();
    assert_eq!((plan.step, plan.budget), (RolloutStep::Unknown, 1), "a budget needs no target");
}
