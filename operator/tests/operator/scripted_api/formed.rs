//! A cluster that was formed before, as the live file of its nodes says: one whose claims are all lost
//! forms again only by an order.

use super::losses::{LosingNodes, NODES, World, names};
use super::*;

const LIVE: &str = "/api/v1/namespaces/storage/configmaps/demo-live";
const FORM_EMPTY: &str = "sherd.dev/form-empty";

/// Whether the live file of the nodes says that the cluster was formed.
fn says_formed(server: &ApiServer) -> bool {
    let live = server.get(LIVE).expect("made")["data"]["live.toml"].clone();
    live.as_str().expect("a text").contains(&format!("formed = \"{}\"\n", cluster_id(server)))
}

fn wipe_status(server: &ApiServer) {
    let mut cluster = server.get(CLUSTER).expect("there");
    cluster.as_object_mut().expect("an object").remove("status");
    server.put(CLUSTER, cluster);
}

/// A node without a topology; `formed_before` where it has taken the live file.
fn empty(formed_before: bool) -> Formation {
    let reason = if formed_before { "cluster 6a was formed before, and no volume of it is here" } else { "" };
    Formation { formed_before, reason: reason.to_owned(), ..Formation::default() }
}

fn forms(world: &World, formation: &Formation) {
    world.nodes.forming.lock().extend(names().into_iter().map(|pod| (pod, formation.clone())));
}

/// The claims of all nodes are lost, and Kubernetes makes claims and pods again.
fn all_claims_are_lost(world: &World, round: &str) {
    for (node, pod) in names().iter().enumerate() {
        world.pod(pod, &format!("pod-{node}-{round}"));
        world.claim(node, &format!("claim-{node}-{round}"));
    }
    forms(world, &empty(true));
}

async fn formed_world() -> World {
    let world = World::new().await;
    assert!(!says_formed(&world.server), "it serves since this look");
    world.look().await;
    assert!(says_formed(&world.server));
    world
}

#[tokio::test]
async fn the_live_file_says_that_the_cluster_was_formed_though_status_or_file_are_lost() {
    let world = formed_world().await;
    wipe_status(&world.server);
    all_claims_are_lost(&world, "again");
    let status = world.look().await;
    assert!(says_formed(&world.server));
    for condition in [ConditionType::Ready, ConditionType::Degraded] {
        says(
            &status,
            condition,
            if condition == ConditionType::Ready { "False" } else { "True" },
            "DataLost",
        );
        let words = message(&status, condition);
        let order = status.form_empty_order.clone().expect("it is offered");
        for part in [
            &format!("cluster {} was formed before", cluster_id(&world.server)),
            "no volume of it is on any of its 4 nodes",
            &format!("set annotation {FORM_EMPTY} to {order}"),
            "kubernetes-recovery.md",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
    let losses: Vec<_> = status.volume_losses.iter().map(|loss| loss.claim.as_str()).collect();
    assert_eq!(losses, ["v1-demo-pool-0-0", "v1-demo-pool-0-1", "v1-demo-pool-0-2", "v1-demo-pool-0-3"]);
    assert!(
        status.volume_losses.iter().all(|loss| loss.order.is_none() && loss.reason.contains("formed before"))
    );
    assert!(world.has_event("DataLost"));
    world.server.delete(LIVE);
    world.look().await;
    assert!(says_formed(&world.server), "it is put back as it was");
}

/// The first node has made the topology, and the others wait for theirs.
#[tokio::test]
async fn a_formation_that_is_cut_short_may_begin_anew() {
    let server = a_cluster();
    change_spec(&server, |spec| spec["pools"][0]["nodes"] = json!(NODES));
    let world = World { server, nodes: LosingNodes::default() };
    world.look().await;
    forms(&world, &empty(false));
    // The others are not ready.
    world.pod("demo-pool-0-0", "pod-0");
    world.volume(0, |volume| volume.votes = true);
    world.nodes.forming.lock().remove("demo-pool-0-0");
    let status = world.look().await;
    says(&status, ConditionType::Ready, "False", "Forming");
    assert!(status.version.is_some(), "a node of a formed cluster answers");
    let status = world.look().await;
    assert!(!says_formed(&world.server) && status.form_empty_order.is_none());
}

#[tokio::test]
async fn a_lost_cluster_forms_again_by_an_order_that_holds_once() {
    let world = formed_world().await;
    world.annotate(FORM_EMPTY, &cluster_id(&world.server));
    all_claims_are_lost(&world, "again");
    let status = world.look().await;
    let order = status.form_empty_order.expect("it is offered");
    world.look().await;
    assert!(says_formed(&world.server), "the id alone is no order");

    world.annotate(FORM_EMPTY, &order);
    let status = world.look().await;
    assert!(!says_formed(&world.server));
    says(&status, ConditionType::Ready, "False", "DataLost");
    assert!(message(&status, ConditionType::Ready).contains("form cluster"), "{:?}", status.conditions);
    // The nodes have taken the order, and form.
    forms(&world, &empty(false));
    for _ in 0..2 {
        let status = world.look().await;
        assert_eq!(status.form_empty_order.as_ref(), Some(&order));
        assert!(!says_formed(&world.server));
    }
    world.nodes.forming.lock().clear();
    let status = world.look().await;
    says(&status, ConditionType::Ready, "True", "Serving");
    assert_eq!(status.form_empty_order, None);
    world.look().await;
    assert!(says_formed(&world.server), "it was formed");

    // The annotation stays, and says nothing of another loss.
    all_claims_are_lost(&world, "once more");
    for _ in 0..2 {
        let status = world.look().await;
        assert!(status.form_empty_order.is_some_and(|other| other != order));
        assert!(says_formed(&world.server));
    }
    let words = message(&reported(&world.server), ConditionType::Ready);
    assert!(words.contains("of other claims or pods"), "{words}");
}

#[tokio::test]
async fn a_node_that_does_not_answer_may_hold_the_cluster() {
    let world = formed_world().await;
    all_claims_are_lost(&world, "again");
    world.nodes.forming.lock().remove("demo-pool-0-2");
    world.nodes.silence("demo-pool-0-2");
    let status = world.look().await;
    says(&status, ConditionType::Ready, "False", "DataAtRisk");
    assert_eq!(status.form_empty_order, None);
    let words = message(&status, ConditionType::Ready);
    assert!(words.contains("bring back pods demo-pool-0-2"), "{words}");
    // A node that is there and waits for the others may hold the cluster, too.
    world.nodes.forming.lock().insert("demo-pool-0-2".to_owned(), empty(false));
    let status = world.look().await;
    assert_eq!(status.form_empty_order, None);
    says(&status, ConditionType::Ready, "Unknown", "NodesSilent");
}

#[tokio::test]
async fn a_storage_cluster_that_is_made_again_is_another_one_only_without_claims() {
    let world = formed_world().await;
    let claim = |node| format!("/api/v1/namespaces/storage/persistentvolumeclaims/v1-demo-pool-0-{node}");
    let again = |uid: &str| {
        let mut again = world.server.get(CLUSTER).expect("there");
        again["metadata"]["uid"] = json!(uid);
        again.as_object_mut().expect("an object").remove("status");
        world.server.put(CLUSTER, again);
    };
    for node in 1..NODES {
        world.server.delete(&claim(node));
    }
    world.server.delete(LIVE);
    again("second");
    forms(&world, &empty(false));
    world.look().await;
    assert!(says_formed(&world.server), "a claim is left");

    // The last claim goes with its pod. The garbage collector may not have removed the ConfigMap of the
    // former cluster yet.
    let mut going = world.server.get(&claim(0)).expect("there");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.server.put(&claim(0), going);
    again("third");
    world.look().await;
    assert!(!says_formed(&world.server));
}
