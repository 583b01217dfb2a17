//! Volumes that lost their state: what the status says of them, and the orders that a person gives in
//! annotations. The nodes say what the test says, and write down the orders that they get.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use sherd_operator::api::VolumeOrderKind;

use super::*;

pub(super) const NODES: usize = 4;

/// Nodes with a volume each, by pod; those that are not named do not answer.
#[derive(Clone, Default)]
pub(super) struct LosingNodes {
    volumes: Arc<Mutex<BTreeMap<String, VolumeReport>>>,
    orders: Arc<Mutex<Vec<(String, NodeOrder)>>>,
    /// How far those nodes are that are not part of a formed cluster, by pod.
    pub(super) forming: Arc<Mutex<BTreeMap<String, Formation>>>,
    /// The nodes' answer to orders, in words; empty where they follow them.
    refusal: Arc<Mutex<String>>,
}

impl StatusSource for LosingNodes {
    fn ask(
        &self,
        _: &Arc<ClusterTrust>,
        question: NodeQuestion,
        _: Duration,
    ) -> BoxFuture<'static, Result<StatusReply, String>> {
        let volumes = self.volumes.lock().clone();
        if let Some(formation) = self.forming.lock().get(&question.pod).cloned() {
            let reply = StatusReply { formation: Some(formation), ..StatusReply::default() };
            return Box::pin(std::future::ready(Ok(reply)));
        }
        if !volumes.contains_key(&question.pod) {
            return Box::pin(std::future::ready(Err("no route to host".to_owned())));
        }
        let node = |name: String| NodeStatus {
            up: volumes.contains_key(&name),
            version: "0.1.0".to_owned(),
            name,
            ..NodeStatus::default()
        };
        let voting = volumes.values().filter(|volume| volume.votes).count();
        let set = SetStatus {
            volumes: 4,
            accept: 3,
            prepare: 2,
            voting: u32::try_from(voting).expect("few"),
            data_shards: 2,
            parity_shards: 2,
            takes_shards: voting > 2,
            ..SetStatus::default()
        };
        let reply = StatusReply {
            formation: Some(Formation { formed: true, ..Formation::default() }),
            nodes: names().into_iter().map(node).collect(),
            volumes: volumes.into_values().collect(),
            sets: vec![set],
            ..StatusReply::default()
        };
        Box::pin(std::future::ready(Ok(reply)))
    }

    fn order(
        &self,
        _: &Arc<ClusterTrust>,
        question: NodeQuestion,
        order: NodeOrder,
        _: Duration,
    ) -> BoxFuture<'static, Result<String, String>> {
        self.orders.lock().push((question.pod, order));
        let refusal = self.refusal.lock().clone();
        Box::pin(std::future::ready(Ok(refusal)))
    }
}

impl LosingNodes {
    /// Has a node answer nothing.
    pub(super) fn silence(&self, pod: &str) {
        self.volumes.lock().remove(pod);
    }
}

pub(super) fn names() -> Vec<String> {
    (0..NODES).map(|node| format!("demo-pool-0-{node}")).collect()
}

/// A cluster of four nodes that was formed and healed, in sets of 2+2.
pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) nodes: LosingNodes,
}

impl World {
    pub(super) async fn new() -> Self {
        let server = a_cluster();
        change_spec(&server, |spec| spec["pools"][0]["nodes"] = json!(NODES));
        let world = Self { server, nodes: LosingNodes::default() };
        world.look().await;
        for (node, pod) in names().iter().enumerate() {
            world.pod(pod, &format!("pod-{node}"));
            world.claim(node, &format!("claim-{node}"));
            world.volume(node, |volume| volume.votes = true);
        }
        let status = world.look().await;
        says(&status, ConditionType::Ready, "True", "Serving");
        assert_eq!(status.volume_losses, vec![]);
        world
    }

    pub(super) async fn look(&self) -> ClusterStatus {
        let context = Context { nodes: Arc::new(self.nodes.clone()), ..context(&self.server) };
        reconcile(&context, &cluster(&self.server)).await.expect("reconciled")
    }

    pub(super) fn pod(&self, name: &str, uid: &str) {
        self.server.put(
            &format!("/api/v1/namespaces/storage/pods/{name}"),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "storage", "uid": uid, "labels": {
                    "app.kubernetes.io/name": "sherd-node", "sherd.dev/cluster": "demo",
                }},
                "status": {"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{
                    "name": "node", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                }]},
            }),
        );
    }

    pub(super) fn claim(&self, node: usize, uid: &str) {
        let name = format!("v1-demo-pool-0-{node}");
        self.server.put(
            &format!("/api/v1/namespaces/storage/persistentvolumeclaims/{name}"),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
                "name": name, "namespace": "storage", "uid": uid,
                "labels": {"sherd.dev/cluster": "demo", "sherd.dev/cluster-id": cluster_id(&self.server)},
            }}),
        );
    }

    /// Sets what a node says of its volume.
    pub(super) fn volume(&self, node: usize, change: impl FnOnce(&mut VolumeReport)) {
        let name = format!("demo-pool-0-{node}");
        let mut report = VolumeReport {
            volume: vec![u8::try_from(node).expect("few"); 16].into(),
            node: name.clone(),
            path: "/data/v1".to_owned(),
            state: VolumeState::Online.into(),
            is_open: true,
            has_room: true,
            healed: true,
            ..VolumeReport::default()
        };
        change(&mut report);
        self.nodes.volumes.lock().insert(name, report);
    }

    fn loses(&self, node: usize) {
        self.volume(node, |volume| {
            volume.lost = true;
            volume.is_open = false;
            volume.healed = false;
            volume.state = VolumeState::Offline.into();
            "its directory is empty".clone_into(&mut volume.reason);
        });
    }

    fn waits_for_a_word(&self, node: usize) {
        self.volume(node, |volume| {
            volume.unconfirmed = true;
            volume.healed = false;
            volume.state = VolumeState::Opening.into();
            "does not vote: 1 of 2 needed peers said what they remember".clone_into(&mut volume.reason);
        });
    }

    pub(super) fn annotate(&self, annotation: &str, text: &str) {
        let mut cluster = self.server.get(CLUSTER).expect("there");
        cluster["metadata"]["annotations"][annotation] = json!(text);
        self.server.put(CLUSTER, cluster);
    }

    /// The orders that nodes got since this was asked last: kind, pod, first byte of the volume.
    fn orders(&self) -> Vec<(VolumeOrderKind, String, u8)> {
        let orders = std::mem::take(&mut *self.nodes.orders.lock());
        orders.into_iter().map(|(pod, order)| (order.kind, pod, order.volume[0])).collect()
    }

    pub(super) fn has_event(&self, reason: &str) -> bool {
        events(&self.server).contains(&reason.to_owned())
    }
}

fn order_of(status: &ClusterStatus, node: usize) -> String {
    let pod = format!("demo-pool-0-{node}");
    let loss = status.volume_losses.iter().find(|loss| loss.pod == pod).expect("reported");
    loss.order.clone().expect("it can be ordered")
}

#[tokio::test]
async fn three_of_four_lost_claims_are_named_with_what_is_lost() {
    let world = World::new().await;
    world.loses(1);
    let status = world.look().await;
    says(&status, ConditionType::Ready, "True", "Serving");
    says(&status, ConditionType::Degraded, "True", "VolumeDown");
    assert_eq!(status.volume_losses.len(), 1, "one is rebuilt, and one more may be lost");
    world.loses(2);
    let status = world.look().await;
    says(&status, ConditionType::Ready, "False", "QuorumLost");
    says(&status, ConditionType::Degraded, "True", "DataAtRisk");
    let words = message(&status, ConditionType::Degraded);
    assert!(words.contains("S3 reads its objects and writes none"), "{words}");
    assert!(words.contains("none of these can be missed"), "{words}");
    world.loses(3);
    let status = world.look().await;
    says(&status, ConditionType::Ready, "False", "DataLost");
    says(&status, ConditionType::Degraded, "True", "DataLost");
    for condition in [ConditionType::Ready, ConditionType::Degraded] {
        let words = message(&status, condition);
        for part in [
            "set 0: 3 of 4 volumes lost their state",
            "v1-demo-pool-0-1, v1-demo-pool-0-2, v1-demo-pool-0-3",
            "neither reads nor writes",
            "a read needs 2 volumes and 1 are left",
            "kubernetes-recovery.md",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
    assert!(world.has_event("DataLost") && world.orders().is_empty(), "nothing is ordered by itself");
    let losses: Vec<_> = status.volume_losses.iter().map(|loss| loss.claim.as_str()).collect();
    assert_eq!(losses, ["v1-demo-pool-0-1", "v1-demo-pool-0-2", "v1-demo-pool-0-3"]);
}

#[tokio::test]
async fn volumes_that_wait_for_a_word_are_named_and_get_it_once() {
    let world = World::new().await;
    for node in [0, 1] {
        world.loses(node);
    }
    for node in [2, 3] {
        world.waits_for_a_word(node);
    }
    let status = world.look().await;
    says(&status, ConditionType::Ready, "False", "DataAtRisk");
    let words = message(&status, ConditionType::Ready);
    assert!(words.contains("if v1-demo-pool-0-2, v1-demo-pool-0-3 lost nothing, vouch for them"), "{words}");
    world.annotate("sherd.dev/vouch", &format!("{}, {}", order_of(&status, 2), order_of(&status, 3)));
    let status = world.look().await;
    let vouch = |node: u8| (VolumeOrderKind::Vouch, format!("demo-pool-0-{node}"), node);
    assert_eq!(world.orders(), [vouch(2), vouch(3)]);
    assert!(status.volume_orders.iter().all(|order| order.accepted) && world.has_event("VolumeOrderGiven"));
    // The node may need a while: the order is not repeated.
    world.look().await;
    assert_eq!(world.orders(), []);
    // The next process of that pod waits again, and the annotation says nothing of it.
    world.pod("demo-pool-0-2", "another");
    world.look().await;
    assert_eq!(world.orders(), []);
}

/// An annotation that a repository keeps must never replace a later volume.
#[tokio::test]
async fn an_order_is_for_the_claim_and_process_that_were_seen() {
    let world = World::new().await;
    world.loses(1);
    let first = order_of(&world.look().await, 1);
    world.annotate("sherd.dev/replace-volume", &first);
    world.look().await;
    assert_eq!(world.orders(), [(VolumeOrderKind::Replace, "demo-pool-0-1".to_owned(), 1)]);
    // The claim is lost once more: another order, and the first one is behind it.
    world.claim(1, "another");
    world.pod("demo-pool-0-1", "another");
    let second = order_of(&world.look().await, 1);
    assert_ne!(first, second);
    assert_eq!(world.orders(), []);
    // Nor is it given by a StorageCluster that is made again with it, and has no status.
    let mut again = world.server.get(CLUSTER).expect("there");
    again["status"].as_object_mut().expect("a status").remove("volumeOrders");
    world.server.put(CLUSTER, again);
    let status = world.look().await;
    assert_eq!(world.orders(), []);
    let record = status.volume_orders.last().expect("recorded");
    assert!(!record.accepted && record.message.contains(&second), "{record:?}");
    assert!(world.has_event("VolumeOrderRefused"));
    world.annotate("sherd.dev/replace-volume", &second);
    world.look().await;
    assert_eq!(world.orders(), [(VolumeOrderKind::Replace, "demo-pool-0-1".to_owned(), 1)]);
}

#[tokio::test]
async fn a_refused_order_says_why_and_a_silent_node_gets_it_later() {
    let world = World::new().await;
    world.loses(1);
    world.loses(2);
    let order = order_of(&world.look().await, 1);
    "volume 01 is recovering, and only an empty directory is replaced"
        .clone_into(&mut world.nodes.refusal.lock());
    world.nodes.volumes.lock().remove("demo-pool-0-1");
    world.annotate("sherd.dev/replace-volume", &format!("{order},v1-demo-pool-0-9=abc,nonsense"));
    let status = world.look().await;
    assert_eq!(world.orders(), []);
    let refused: Vec<_> = status.volume_orders.iter().map(|record| record.message.as_str()).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].contains("no claim") && refused[1].contains("CLAIM=DIGEST"), "{refused:?}");
    // While it is paused the operator gives no order.
    world.loses(1);
    change_spec(&world.server, |spec| spec["paused"] = json!(true));
    world.look().await;
    assert_eq!(world.orders(), []);
    change_spec(&world.server, |spec| spec["paused"] = json!(false));
    let status = world.look().await;
    assert_eq!(world.orders().len(), 1);
    let words = message(&status, ConditionType::Degraded);
    assert!(words.contains("was refused: volume 01 is recovering"), "{words}");
    world.look().await;
    assert_eq!(world.orders(), [], "a refused order is not repeated");
}

#[tokio::test]
async fn a_claim_whose_volume_is_gone_counts_as_lost() {
    let world = World::new().await;
    for node in 1..NODES {
        world.nodes.volumes.lock().remove(&format!("demo-pool-0-{node}"));
        let path = format!("/api/v1/namespaces/storage/persistentvolumeclaims/v1-demo-pool-0-{node}");
        let mut claim = world.server.get(&path).expect("there");
        claim["spec"] = json!({"volumeName": "pv-1"});
        claim["status"] = json!({"phase": "Lost"});
        world.server.put(&path, claim);
    }
    let status = world.look().await;
    says(&status, ConditionType::Degraded, "True", "DataLost");
    assert_eq!(status.volume_losses.len(), 3);
    assert!(status.volume_losses.iter().all(|loss| loss.order.is_none() && loss.reason.contains("pv-1")));
}
