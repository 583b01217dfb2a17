//! Rollouts and budgets of a cluster of three nodes, whole: the StatefulSet's controller is played by the
//! test, and nodes say what it says.

use std::collections::BTreeMap;

use k8s_openapi::jiff::ToSpan as _;
use parking_lot::Mutex;

use super::*;

const NODES: usize = 3;

/// The nodes' answers, by pod; those that are not named do not answer.
#[derive(Clone, Default)]
pub(super) struct Nodes {
    /// Whether each pod's volume is healed.
    pub(super) healed: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl StatusSource for Nodes {
    fn ask(
        &self,
        _: &Arc<ClusterTrust>,
        question: NodeQuestion,
        _: Duration,
    ) -> BoxFuture<'static, Result<StatusReply, String>> {
        let healed = self.healed.lock().clone();
        if !healed.contains_key(&question.pod) {
            return Box::pin(std::future::ready(Err("no route to host".to_owned())));
        }
        let node = |name: &String| NodeStatus {
            name: name.clone(),
            up: healed.contains_key(name),
            version: "0.1.0".to_owned(),
            ..NodeStatus::default()
        };
        let volume = |name: &String| VolumeReport {
            node: name.clone(),
            state: VolumeState::Online.into(),
            votes: healed.contains_key(name),
            is_open: healed.contains_key(name),
            has_room: true,
            healed: healed.get(name).copied().unwrap_or(false),
            ..VolumeReport::default()
        };
        let set = SetStatus {
            volumes: 3,
            accept: 2,
            prepare: 2,
            voting: 3,
            data_shards: 1,
            parity_shards: 2,
            takes_shards: true,
            ..SetStatus::default()
        };
        let reply = StatusReply {
            formation: Some(Formation { formed: true, ..Formation::default() }),
            nodes: names().iter().map(node).collect(),
            volumes: names().iter().map(volume).collect(),
            sets: vec![set],
            ..StatusReply::default()
        };
        Box::pin(std::future::ready(Ok(reply)))
    }

    fn order(
        &self,
        _: &Arc<ClusterTrust>,
        _: NodeQuestion,
        order: NodeOrder,
        _: Duration,
    ) -> BoxFuture<'static, Result<String, String>> {
        panic!("no test gave the order {order:?}")
    }
}

pub(super) fn names() -> Vec<String> {
    (0..NODES).map(|node| format!("demo-pool-0-{node}")).collect()
}

pub(super) fn path(pod: &str) -> String {
    format!("/api/v1/namespaces/storage/pods/{pod}")
}

/// A cluster that runs, and the means to change it.
pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) nodes: Nodes,
    pub(super) now: fn() -> Timestamp,
    uids: u32,
}

fn begin() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

pub(super) fn later() -> Timestamp {
    begin().checked_add(1.hours()).expect("a time")
}

impl World {
    /// Three nodes that are healed, after the operator looked twice.
    pub(super) async fn new() -> Self {
        let server = a_cluster();
        change_spec(&server, |spec| spec["pools"][0]["nodes"] = json!(NODES));
        let mut world = Self { server, nodes: Nodes::default(), now: begin, uids: 0 };
        world.look().await.expect("reconciled");
        world.controller(true);
        world.heal();
        world.look().await.expect("reconciled");
        assert_eq!(world.budget(), json!(1));
        world
    }

    /// A copy of the cluster, for another run.
    pub(super) fn copy(&self) -> Self {
        let nodes = Nodes { healed: Arc::new(Mutex::new(self.nodes.healed.lock().clone())) };
        Self { server: self.server.copy(), nodes, now: self.now, uids: self.uids }
    }

    /// One reconcile of an operator that has only the API server's objects.
    pub(super) async fn look(&self) -> Result<ClusterStatus, ReconcileError> {
        reconcile(&self.context(), &cluster(&self.server)).await
    }

    /// The context of an operator that was just started.
    pub(super) fn context(&self) -> Context {
        Context { nodes: Arc::new(self.nodes.clone()), now: self.now, ..context(&self.server) }
    }

    /// Plays the StatefulSet's controller: the template gets a revision, absent pods are made of it.
    pub(super) fn controller(&mut self, comes_up: bool) {
        let mut set = self.server.get(STATEFUL_SET).expect("made");
        let template = set["spec"]["template"].clone();
        let image = template["spec"]["containers"][0]["image"].as_str().expect("an image");
        let restart = template["metadata"]["annotations"]["sherd.dev/restart"].as_str().unwrap_or_default();
        // As an older operator made it.
        let older = if template["spec"]["terminationGracePeriodSeconds"] == 90 { "" } else { "-older" };
        let mut revision =
            format!("demo-pool-0-{}{restart}{older}", image.rsplit(':').next().expect("a tag"));
        for container in template["spec"]["containers"].as_array().expect("a list") {
            let name = container["name"].as_str().expect("a name");
            revision.push_str(if name == "node" { "" } else { name });
        }
        let mut patch = template.clone();
        patch["$patch"] = json!("replace");
        self.server.put(
            &format!("/apis/apps/v1/namespaces/storage/controllerrevisions/{revision}"),
            json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
                "metadata": {"name": revision}, "data": {"spec": {"template": patch}}}),
        );
        set["status"] = json!({"replicas": NODES, "updateRevision": revision});
        self.server.put(STATEFUL_SET, set);
        for pod in names() {
            if self.server.get(&path(&pod)).is_none() {
                self.uids += 1;
                self.server.put(
                    &path(&pod),
                    json!({
                        "apiVersion": "v1", "kind": "Pod",
                        "metadata": {"name": pod, "namespace": "storage", "uid": format!("pod-{}", self.uids), "labels": {
                            "app.kubernetes.io/name": "sherd-node", "sherd.dev/cluster": "demo",
                            "controller-revision-hash": revision,
                        }},
                        "spec": {"nodeName": "host"},
                        "status": {"conditions": [{"type": "Ready", "status": if comes_up { "True" } else { "False" }}]},
                    }),
                );
                self.nodes.healed.lock().remove(&pod);
                if comes_up {
                    self.nodes.healed.lock().insert(pod, false);
                }
            }
        }
    }

    /// Heals what nodes missed.
    pub(super) fn heal(&self) {
        self.nodes.healed.lock().values_mut().for_each(|healed| *healed = true);
    }

    pub(super) fn budget(&self) -> Value {
        self.server.get(BUDGET).expect("made")["spec"]["maxUnavailable"].clone()
    }

    /// Names and uids of the pods that are there.
    pub(super) fn uids(&self) -> BTreeMap<String, String> {
        let pods = names().into_iter().filter_map(|pod| Some((pod.clone(), self.server.get(&path(&pod))?)));
        pods.map(|(pod, found)| (pod, found["metadata"]["uid"].as_str().expect("a uid").to_owned())).collect()
    }

    pub(super) fn absent(&self) -> Vec<String> {
        let uids = self.uids();
        names().into_iter().filter(|pod| !uids.contains_key(pod)).collect()
    }

    pub(super) async fn change_image(&mut self, tag: &str) {
        change_spec(&self.server, |spec| spec["image"] = json!({"tag": tag}));
        self.look().await.expect("applied");
        assert_eq!(self.absent(), Vec::<String>::new(), "the controller has not seen it yet");
        self.controller(true);
    }

    pub(super) fn template(&self) -> Value {
        self.server.get(STATEFUL_SET).expect("made")["spec"]["template"].clone()
    }

    pub(super) fn image(&self) -> Value {
        self.template()["spec"]["containers"][0]["image"].clone()
    }

    /// Edits the template in the StatefulSet, as a person would.
    pub(super) fn edit_template(&self, edit: fn(&mut Value)) {
        let mut set = self.server.get(STATEFUL_SET).expect("made");
        edit(&mut set["spec"]["template"]);
        self.server.put(STATEFUL_SET, set);
    }
}

#[tokio::test]
async fn a_changed_image_replaces_pods_one_after_the_other_each_once_all_is_healed() {
    let mut world = World::new().await;
    world.change_image("2").await;
    for (step, pod) in ["demo-pool-0-2", "demo-pool-0-1", "demo-pool-0-0"].into_iter().enumerate() {
        let status = world.look().await.expect("reconciled");
        assert_eq!(world.absent(), [pod], "{status:?}");
        says(&status, ConditionType::UpgradeBlocked, "False", "RollingOut");
        says(&status, ConditionType::Progressing, "True", "RollingOut");
        let rollout = status.rollout.expect("recorded");
        assert_eq!((rollout.updated, rollout.order.len()), (i32::try_from(step).expect("few"), NODES - step));
        // While it is away, and until it is healed, no other goes.
        for comes_back in [false, true] {
            if comes_back {
                world.controller(true);
            }
            world.look().await.expect("reconciled");
            assert_eq!(world.absent().len(), usize::from(!comes_back));
            assert_eq!(world.budget(), json!(0));
        }
        let waits = reported(&world.server).rollout.expect("recorded").message;
        assert!(step == NODES - 1 || waits.contains("not healed: demo-pool-0"), "{waits}");
        world.heal();
    }
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    says(&status, ConditionType::Progressing, "False", "AsAsked");
    assert_eq!(status.rollout.expect("recorded").last_good.as_deref(), Some("demo-pool-0-2"));
    assert_eq!(world.budget(), json!(1));
    assert_eq!(events(&world.server).iter().filter(|event| *event == "PodEvicted").count(), NODES);
}

#[tokio::test]
async fn a_pod_that_a_budget_keeps_is_asked_for_again() {
    let mut world = World::new().await;
    world.change_image("2").await;
    world.server.fail(Method::POST, "/eviction", Fault::Code(429));
    for _ in 0..2 {
        world.look().await.expect("it waits");
        assert!(events(&world.server).contains(&"EvictionKept".to_owned()));
        assert_eq!(world.absent(), Vec::<String>::new());
    }
    world.server.mend();
    world.look().await.expect("reconciled");
    assert_eq!(world.absent(), ["demo-pool-0-2"]);
}

/// By a budget of others, or for lack of a right: the reconcile goes on, and the status says it in time.
#[tokio::test]
async fn an_eviction_that_is_refused_for_ever_is_reported() {
    let mut world = World::new().await;
    world.change_image("2").await;
    world.server.fail(Method::POST, "/eviction", Fault::Code(403));
    let context = |now| Context { nodes: Arc::new(world.nodes.clone()), now, ..context(&world.server) };
    let operator = context(begin);
    for _ in 0..2 {
        let status = reconcile(&operator, &cluster(&world.server)).await.expect("it goes on");
        says(&status, ConditionType::UpgradeBlocked, "False", "RollingOut");
        assert!(events(&world.server).contains(&"EvictionRefused".to_owned()));
    }
    let status = reconcile(&context(later), &cluster(&world.server)).await.expect("it goes on");
    says(&status, ConditionType::UpgradeBlocked, "True", "EvictionRefused");
    let said = message(&status, ConditionType::UpgradeBlocked);
    assert!(said.contains("Forbidden") && said.contains("demo-pool-0-2"), "{said}");
    world.server.mend();
    world.look().await.expect("reconciled");
    assert_eq!(world.absent(), ["demo-pool-0-2"]);
}

#[tokio::test]
async fn a_pod_that_is_ready_and_never_heals_gets_the_reverted_template() {
    let mut world = World::new().await;
    world.change_image("2").await;
    world.look().await.expect("reconciled");
    world.controller(true);
    world.look().await.expect("it does not heal");
    let kept = world.uids();
    change_spec(&world.server, |spec| spec["image"] = json!({"tag": "1"}));
    world.look().await.expect("applied");
    world.controller(true);
    world.look().await.expect("it waits a while");
    world.now = later;
    world.look().await.expect("reconciled");
    assert_eq!((world.absent(), world.budget()), (vec!["demo-pool-0-2".to_owned()], json!(0)));
    world.controller(true);
    world.heal();
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    let uids = world.uids();
    assert!(["demo-pool-0-0", "demo-pool-0-1"].iter().all(|pod| uids.get(*pod) == kept.get(*pod)));
}

/// A drain took a pod in the same moment: the budget counts it, and the operator's own eviction waits.
#[tokio::test]
async fn a_drain_and_a_rollout_take_one_pod_together() {
    let mut world = World::new().await;
    world.change_image("2").await;
    let mut drained = world.server.get(&path("demo-pool-0-0")).expect("there");
    drained["status"]["conditions"][0]["status"] = json!("False");
    world.server.put(&path("demo-pool-0-0"), drained);
    world.look().await.expect("reconciled");
    // The pod that goes is the one that is not ready: its template is older, and the others are whole.
    assert_eq!(world.absent(), ["demo-pool-0-0"]);
    world.look().await.expect("reconciled");
    assert_eq!(world.absent(), ["demo-pool-0-0"]);
}

#[tokio::test]
async fn an_operator_that_is_killed_goes_on_where_it_was() {
    let mut world = World::new().await;
    world.change_image("2").await;
    let before = world.uids();
    // Before its record is written nothing is done.
    world.server.fail(Method::PATCH, "/status", Fault::Broken);
    world.look().await.expect_err("killed");
    assert_eq!(world.uids(), before);
    world.server.mend();
    // After it, the pod that is recorded goes, and no other.
    world.server.fail(Method::POST, "/eviction", Fault::Broken);
    world.look().await.expect_err("killed");
    assert_eq!(world.uids(), before);
    let replacing = reported(&world.server).rollout.expect("recorded").replacing.expect("chosen");
    assert_eq!(Some(&replacing.uid), before.get("demo-pool-0-2"));
    world.server.mend();
    world.look().await.expect("reconciled");
    assert_eq!(world.absent(), ["demo-pool-0-2"]);
    // An operator with an old copy of the cluster does nothing: the stored one names no such pod.
    world.controller(true);
    world.heal();
    let old = cluster(&world.server);
    world.look().await.expect("reconciled");
    assert_eq!(world.absent(), ["demo-pool-0-1"]);
    world.controller(true);
    let uids = world.uids();
    let context = Context { nodes: Arc::new(world.nodes.clone()), now: world.now, ..context(&world.server) };
    world.heal();
    reconcile(&context, &old).await.expect("its status is refused");
    assert_eq!(world.uids(), uids);
}

#[tokio::test]
async fn a_template_that_does_not_come_up_in_time_is_put_back_and_tried_again_when_it_changes() {
    let mut world = World::new().await;
    assert_eq!(world.image(), "sherd-node:1");
    world.change_image("bad").await;
    world.look().await.expect("reconciled");
    world.controller(false);
    world.look().await.expect("it waits");
    let status = world.look().await.expect("it waits");
    says(&status, ConditionType::UpgradeBlocked, "False", "RollingOut");
    world.now = later;
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "True", "HealthTimeout");
    let said = message(&status, ConditionType::UpgradeBlocked);
    assert!(said.contains("demo-pool-0-2 did not become ready"), "{said}");
    assert_eq!(world.image(), "sherd-node:bad");
    world.look().await.expect("reconciled");
    assert_eq!(world.image(), "sherd-node:1", "the last template that worked");
    // The pod that never came up gets it, and the rest stays as it is.
    let kept = world.uids();
    world.controller(true);
    world.look().await.expect("reconciled");
    assert_eq!(world.absent(), ["demo-pool-0-2"]);
    world.controller(true);
    world.heal();
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "True", "HealthTimeout");
    assert_eq!((world.image(), world.budget()), (json!("sherd-node:1"), json!(1)));
    let uids = world.uids();
    assert!(["demo-pool-0-0", "demo-pool-0-1"].iter().all(|pod| uids.get(*pod) == kept.get(*pod)));
    // A mended specification is rolled out; one that is reverted needs nothing.
    change_spec(&world.server, |spec| spec["image"] = json!({"tag": "1"}));
    world.look().await.expect("reconciled");
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    assert_eq!(world.uids(), uids);
}

#[tokio::test]
async fn the_budget_is_one_only_while_every_node_answers_and_is_healed() {
    let world = World::new().await;
    for pod in names() {
        world.nodes.healed.lock().insert(pod.clone(), false);
        world.look().await.expect("reconciled");
        assert_eq!(world.budget(), json!(0), "{pod} heals");
        world.heal();
        world.look().await.expect("reconciled");
        assert_eq!(world.budget(), json!(1));
        world.nodes.healed.lock().remove(&pod);
        world.look().await.expect("reconciled");
        assert_eq!(world.budget(), json!(0), "{pod} is silent");
        world.nodes.healed.lock().insert(pod, true);
        world.look().await.expect("reconciled");
        assert_eq!(world.budget(), json!(1));
    }
}

#[tokio::test]
async fn an_annotation_restarts_every_node_and_a_pause_stops_that() {
    let mut world = World::new().await;
    let mut stored = world.server.get(CLUSTER).expect("there");
    stored["metadata"]["annotations"] = json!({"sherd.dev/restart": "now"});
    stored["spec"]["upgrade"] = json!({"paused": true});
    world.server.put(CLUSTER, stored);
    world.look().await.expect("applied");
    world.controller(true);
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "True", "UpgradePaused");
    assert_eq!(world.absent(), Vec::<String>::new());
    change_spec(&world.server, |spec| spec["upgrade"] = json!({"paused": false}));
    world.look().await.expect("reconciled");
    assert_eq!(world.absent(), ["demo-pool-0-2"]);
}

#[tokio::test]
async fn a_cluster_that_cannot_lose_a_node_is_restarted_only_when_downtime_is_allowed() {
    let mut world = World::new().await;
    change_spec(&world.server, |spec| spec["pools"][0]["erasure"] = json!({"setSize": 3, "parity": 1}));
    world.change_image("2").await;
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "True", "NotRedundant");
    assert_eq!((world.absent(), world.budget()), (vec![], json!(0)));
}

/// A budget changes nothing of the store: it follows what is healed while nothing else may change.
#[tokio::test]
async fn the_budget_closes_beside_a_pod_that_is_not_healed_though_nothing_else_may_change() {
    let world = World::new().await;
    change_spec(&world.server, |spec| spec["paused"] = json!(true));
    for is_healed in [true, false, true] {
        world.nodes.healed.lock().insert("demo-pool-0-0".to_owned(), is_healed);
        world.look().await.expect("reported");
        assert_eq!(world.budget(), json!(u8::from(is_healed)), "paused");
    }
    world.server.delete(BUDGET);
    world.look().await.expect("reported");
    assert!(world.server.get(BUDGET).is_none(), "a pause makes none");

    let world = World::new().await;
    world.server.fail(Method::PATCH, "services/demo-s3", Fault::Code(403));
    let mut service = world.server.get(SERVICE).expect("made");
    service["spec"]["ports"] = json!([]);
    world.server.put(SERVICE, service);
    world.nodes.healed.lock().insert("demo-pool-0-0".to_owned(), false);
    world.look().await.expect_err("a child is refused");
    assert_eq!(world.budget(), json!(0), "a child is refused");

    let world = World::new().await;
    change_spec(&world.server, |spec| spec["pools"][0]["nodes"] = json!(0));
    let status = world.look().await.expect("reported");
    says(&status, ConditionType::SpecValid, "False", "SpecInvalid");
    assert_eq!(world.budget(), json!(0), "a specification that is invalid cannot be judged");
}

/// Runs the controller over this world until a sign is seen.
async fn run_until(
    world: &World,
    warm_up: Duration,
    begin: impl FnOnce(),
    seen: impl Fn() -> bool,
) -> Duration {
    let stop = CancellationToken::new();
    let context = Context { nodes: Arc::new(world.nodes.clone()), ..context(&world.server) };
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller::run(context, &watched(), stop).await }
    });
    tokio::time::sleep(warm_up).await;
    begin();
    let started = tokio::time::Instant::now();
    let waited = async {
        while !seen() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(10), waited).await.expect("seen");
    stop.cancel();
    running.await.expect("without a panic");
    started.elapsed()
}

/// On a paused clock: while a child is refused for long, the budget still follows the nodes.
#[tokio::test(start_paused = true)]
async fn a_child_that_is_refused_for_long_does_not_slow_the_budget() {
    let world = World::new().await;
    world.server.fail(Method::PATCH, "services/demo-s3", Fault::Code(403));
    let unheal = || {
        world.nodes.healed.lock().insert("demo-pool-0-0".to_owned(), false);
    };
    let took = run_until(&world, Duration::from_mins(10), unheal, || world.budget() == 0).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_budget_of_a_cluster_that_cannot_be_looked_at_is_closed() {
    for (method, path) in [(Method::GET, "persistentvolumeclaims"), (Method::GET, "leases")] {
        let world = World::new().await;
        world.server.fail(method, path, Fault::Code(500));
        run_until(&world, Duration::ZERO, || {}, || world.budget() == 0).await;
    }
    let world = World::new().await;
    change_spec(&world.server, |spec| spec["pools"] = json!("none"));
    run_until(&world, Duration::ZERO, || {}, || world.budget() == 0).await;
}

/// The StatefulSet's controller made a revision of the edit before it was put back.
#[tokio::test]
async fn a_template_that_a_person_edits_is_put_back_and_evicts_no_pod() {
    let mut world = World::new().await;
    let before = world.uids();
    let mut set = world.server.get(STATEFUL_SET).expect("made");
    set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("sherd-node:edited");
    world.server.put(STATEFUL_SET, set);
    world.controller(true);
    let status = world.look().await.expect("put back");
    assert_eq!((world.uids(), world.image()), (before.clone(), json!("sherd-node:1")));
    assert_eq!(status.rollout.expect("recorded").replacing, None);
    world.controller(true);
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    assert_eq!((world.uids(), world.budget()), (before, json!(1)));
}

/// The time that the last template was waited for says nothing of the next one.
#[tokio::test]
async fn a_template_that_no_pod_ever_had_is_not_recorded_as_failed() {
    let mut world = World::new().await;
    world.change_image("bad").await;
    world.look().await.expect("reconciled");
    world.controller(false);
    world.look().await.expect("it waits");
    change_spec(&world.server, |spec| spec["upgrade"] = json!({"paused": true}));
    world.look().await.expect("it waits");
    world.now = later;
    change_spec(&world.server, |spec| {
        spec["upgrade"] = json!({"paused": false});
        spec["image"] = json!({"tag": "mended"});
    });
    let status = world.look().await.expect("applied");
    assert_eq!(status.rollout.expect("recorded").failed, None);
    world.controller(false);
    world.look().await.expect("reconciled");
    assert_eq!(
        (world.absent(), world.image()),
        (vec!["demo-pool-0-2".to_owned()], json!("sherd-node:mended"))
    );
}
