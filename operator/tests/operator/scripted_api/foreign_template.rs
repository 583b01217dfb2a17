//! Entries of others in the pods' template: those of persons go again, those of an admission policy stay, and
//! neither costs a pod that is ready.

use super::rollouts::{World, later, names, path};
use super::*;

type Edit = fn(&mut Value);

/// A container that cannot start is not rolled out by the operator, nor kept beside its own.
#[tokio::test]
async fn a_container_that_others_add_or_rename_is_taken_out_and_evicts_no_pod() {
    let add: Edit = |template| {
        let container = json!({"name": "proxy", "image": "cannot-start"});
        template["spec"]["containers"].as_array_mut().expect("a list").push(container);
        template["spec"]["volumes"].as_array_mut().expect("a list").push(json!({"name": "theirs"}));
    };
    let rename: Edit = |template| template["spec"]["containers"][0]["name"] = json!("nodex");
    for (edit, named) in [(add, ["containers/proxy", "volumes/theirs"]), (rename, ["containers/nodex"; 2])] {
        let mut world = World::new().await;
        let operator = world.context();
        reconcile(&operator, &cluster(&world.server)).await.expect("each is applied once by a new process");
        let (before, built) = (world.uids(), world.template());
        world.edit_template(edit);
        world.controller(true);
        let status = reconcile(&operator, &cluster(&world.server)).await.expect("put back");
        says(&status, ConditionType::UpgradeBlocked, "False", "ForeignTemplate");
        let said = message(&status, ConditionType::UpgradeBlocked);
        assert!(named.iter().all(|name| said.contains(name)), "{said}");
        assert!(events(&world.server).contains(&"ForeignTemplate".to_owned()));
        assert_eq!(world.template(), built);
        world.controller(true);
        let status = reconcile(&operator, &cluster(&world.server)).await.expect("at rest");
        says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
        assert_eq!((world.uids(), world.budget()), (before, json!(1)));
    }
}

/// An admission policy adds a container that cannot start each time that the operator writes the StatefulSet.
#[tokio::test]
async fn a_container_that_is_added_at_each_write_costs_no_ready_pod_and_holds_up_no_update() {
    let mut world = World::new().await;
    let before = world.uids();
    world.server.admit(|set| {
        let containers = set["spec"]["template"]["spec"]["containers"].as_array_mut().expect("a list");
        if containers.iter().all(|container| container["name"] != "proxy") {
            containers.push(json!({"name": "proxy", "image": "cannot-start"}));
        }
    });
    world.edit_template(|template| template["spec"]["terminationGracePeriodSeconds"] = json!(1));
    for _ in 0..3 {
        world.look().await.expect("reconciled");
        world.controller(true);
    }
    let status = world.look().await.expect("at rest");
    says(&status, ConditionType::UpgradeBlocked, "False", "ForeignTemplate");
    let said = message(&status, ConditionType::UpgradeBlocked);
    assert!(said.contains("containers/proxy"), "{said}");
    assert_eq!((world.uids(), world.budget()), (before, json!(1)));
    // A pod that goes for another reason comes back with it: it has failed nothing that was asked for.
    world.server.delete(&path("demo-pool-0-0"));
    world.nodes.healed.lock().remove("demo-pool-0-0");
    world.controller(false);
    world.look().await.expect("it waits");
    world.now = later;
    let status = world.look().await.expect("it waits");
    says(&status, ConditionType::UpgradeBlocked, "False", "ForeignTemplate");
    let rollout = status.rollout.expect("recorded");
    assert_eq!((rollout.failed, world.absent()), (None, vec![]));
    // A change of the specification is rolled out, with the container that the policy adds.
    world.server.delete(&path("demo-pool-0-0"));
    world.controller(true);
    world.heal();
    world.change_image("2").await;
    for _ in 0..9 {
        world.look().await.expect("reconciled");
        world.controller(true);
        world.heal();
    }
    let status = world.look().await.expect("at rest");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    assert_eq!(status.rollout.expect("recorded").last_good.as_deref(), Some("demo-pool-0-2proxy"));
}

/// A pod of before the policy that is not ready for a reason of its own: its successor would have the
/// container, too.
#[tokio::test]
async fn an_unready_pod_is_not_replaced_for_what_a_policy_adds() {
    let mut world = World::new().await;
    let before = world.uids();
    world.server.admit(|set| {
        let containers = set["spec"]["template"]["spec"]["containers"].as_array_mut().expect("a list");
        if containers.iter().all(|container| container["name"] != "proxy") {
            containers.push(json!({"name": "proxy", "image": "cannot-start"}));
        }
    });
    world.edit_template(|template| template["spec"]["terminationGracePeriodSeconds"] = json!(1));
    for _ in 0..3 {
        world.look().await.expect("reconciled");
        world.controller(true);
    }
    let mut pod = world.server.get(&path("demo-pool-0-1")).expect("there");
    pod["status"]["conditions"][0]["status"] = json!("False");
    world.server.put(&path("demo-pool-0-1"), pod);
    world.nodes.healed.lock().remove("demo-pool-0-1");
    world.look().await.expect("it waits");
    world.now = later;
    world.look().await.expect("it waits");
    assert_eq!(world.uids(), before);
}

/// As an older operator left it: a container of others was merged beside its own, and failed as the template
/// of the specification.
#[tokio::test]
async fn a_failure_that_others_caused_is_forgotten_once_their_container_is_gone() {
    let mut world = World::new().await;
    world.edit_template(|template| {
        let container = json!({"name": "proxy", "image": "cannot-start"});
        template["spec"]["containers"].as_array_mut().expect("a list").push(container);
    });
    world.server.delete(&path("demo-pool-0-2"));
    world.controller(false);
    let mut stored = world.server.get(CLUSTER).expect("there");
    let rollout = &mut stored["status"]["rollout"];
    rollout["failed"] = json!({
        "template": rollout["recorded"]["template"], "revision": "demo-pool-0-1proxy", "message": "not ready",
    });
    rollout["recorded"]["revision"] = json!("demo-pool-0-1proxy");
    rollout["revision"] = json!("demo-pool-0-1proxy");
    world.server.put(CLUSTER, stored);
    for _ in 0..4 {
        world.look().await.expect("reconciled");
        world.controller(true);
        world.heal();
    }
    let status = world.look().await.expect("at rest");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    let rollout = status.rollout.expect("recorded");
    assert_eq!((rollout.failed, rollout.last_good.as_deref()), (None, Some("demo-pool-0-1")));
    assert_eq!(rollout.recorded.expect("recorded").revision, "demo-pool-0-1");
    let pods = names().into_iter().map(|pod| world.server.get(&path(&pod)).expect("there"));
    assert!(
        pods.into_iter().all(|pod| pod["metadata"]["labels"]["controller-revision-hash"] == "demo-pool-0-1")
    );
}
