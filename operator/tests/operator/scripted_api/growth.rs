//! Claims that grow: which are asked for more, what is said of each, and what stays as it is.

use super::rollouts::{World, names};
use super::*;

const CLASS: &str = "/apis/storage.k8s.io/v1/storageclasses/standard";

fn claim_path(pod: &str) -> String {
    format!("/api/v1/namespaces/storage/persistentvolumeclaims/v1-{pod}")
}

fn put_class(server: &ApiServer, allows: Option<bool>) {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "standard"},
        "provisioner": "example.com/disks", "allowVolumeExpansion": allows});
    server.put(CLASS, class);
}

/// A bound claim of the cluster.
fn put_claim(server: &ApiServer, name: &str, requested: &str, capacity: &str) {
    let annotations = json!({"sherd.dev/geometry": "kept"});
    let labels = json!({"sherd.dev/cluster": "demo", "sherd.dev/cluster-id": cluster_id(server)});
    server.put(
        &format!("/api/v1/namespaces/storage/persistentvolumeclaims/{name}"),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "storage", "uid": format!("uid-of-{name}"), "resourceVersion": "1",
                "labels": labels, "annotations": annotations},
            "spec": {"storageClassName": "standard", "resources": {"requests": {"storage": requested}}},
            "status": {"phase": "Bound", "capacity": {"storage": capacity}},
        }),
    );
}

/// Three nodes with a claim of 1Gi each, in a class that allows expansion.
async fn a_world() -> World {
    let world = World::new().await;
    put_class(&world.server, Some(true));
    for pod in names() {
        put_claim(&world.server, &format!("v1-{pod}"), "1Gi", "1Gi");
    }
    world.look().await.expect("reconciled");
    world
}

fn raise(world: &World, size: &str) {
    change_spec(&world.server, |spec| {
        spec["pools"][0]["volumeClaimTemplate"]["resources"]["requests"]["storage"] = json!(size);
    });
}

fn change_claim(server: &ApiServer, pod: &str, change: impl FnOnce(&mut Value)) {
    let mut claim = server.get(&claim_path(pod)).expect("there");
    change(&mut claim);
    server.put(&claim_path(pod), claim);
}

/// The sizes that the claims ask for.
fn requested(world: &World) -> Vec<String> {
    let size = |pod: String| {
        let claim = world.server.get(&claim_path(&pod)).expect("there");
        claim["spec"]["resources"]["requests"]["storage"].as_str().expect("a size").to_owned()
    };
    names().into_iter().map(size).collect()
}

/// The size in the StatefulSet's claim template, where it is there.
fn template_size(world: &World) -> Option<String> {
    let set = world.server.get(STATEFUL_SET)?;
    let size = &set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"];
    Some(size.as_str().expect("a size").to_owned())
}

/// The writes to claims and to the StatefulSet since they were last taken.
fn changes(world: &World) -> Vec<(Method, String)> {
    let is_meant = |(_, path): &(Method, String)| {
        path.contains("persistentvolumeclaims") || path.contains("statefulsets") || path.contains("/pods/")
    };
    world.server.take_changes().into_iter().filter(is_meant).collect()
}

#[tokio::test]
async fn raised_storage_grows_each_claim_and_keeps_the_pods() {
    let mut world = a_world().await;
    let (pods, set) =
        (world.uids(), world.server.get(STATEFUL_SET).expect("made")["metadata"]["uid"].clone());
    world.server.take_deletions();
    raise(&world, "2Gi");
    let status = world.look().await.expect("reconciled");
    assert_eq!(requested(&world), ["2Gi", "2Gi", "2Gi"]);
    let deleted = world.server.take_deletions();
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    assert_eq!((deleted[0].0.as_str(), &deleted[0].1["propagationPolicy"]), (STATEFUL_SET, &json!("Orphan")));
    says(&status, ConditionType::StorageResizing, "True", "Resizing");
    world.look().await.expect("made again");
    assert_eq!(template_size(&world).as_deref(), Some("2Gi"));
    assert_ne!(world.server.get(STATEFUL_SET).expect("made")["metadata"]["uid"], set);
    world.controller(true);

    // The claims: one at the resizer, one at the kubelet of a pod that does not run, one done.
    change_claim(&world.server, "demo-pool-0-1", |claim| {
        claim["status"]["conditions"] = json!([{"type": "FileSystemResizePending", "status": "True"}]);
    });
    change_claim(&world.server, "demo-pool-0-2", |claim| {
        claim["status"]["capacity"]["storage"] = json!("2Gi");
    });
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::StorageResizing, "True", "Resizing");
    let said = message(&status, ConditionType::StorageResizing);
    assert!(said.contains("claims v1-demo-pool-0-0 wait for the resizer"), "{said}");
    assert!(said.contains("claims v1-demo-pool-0-1 wait for the kubelet"), "{said}");
    assert!(said.contains("pods demo-pool-0-1 do not run") && !said.contains("demo-pool-0-2"), "{said}");
    assert_eq!(status.pools[0].claim_capacity.as_deref(), Some("2Gi"));

    for pod in names() {
        change_claim(&world.server, &pod, |claim| {
            claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "2Gi"}});
        });
    }
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::StorageResizing, "False", "NotNeeded");
    assert_eq!(world.uids(), pods, "no pod was replaced");
    world.server.take_requests();
    world.look().await.expect("at rest");
    let requests = world.server.take_requests();
    assert!(!requests.iter().any(|(_, path)| path.contains("storageclasses")), "{requests:?}");
}

#[tokio::test]
async fn each_volume_of_a_node_grows_and_no_other_claim() {
    let server = a_cluster();
    change_spec(&server, |spec| spec["pools"][0]["volumesPerNode"] = json!(2));
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    step(&server).await.expect("formed");
    put_class(&server, Some(true));
    let claims = ["v1-demo-pool-0-0", "v2-demo-pool-0-0", "v3-demo-pool-0-0", "v1-demo-pool-0-1"];
    for claim in claims {
        put_claim(&server, claim, "1Gi", "1Gi");
    }
    change_spec(&server, |spec| {
        spec["pools"][0]["volumeClaimTemplate"]["resources"]["requests"]["storage"] = json!("1.5Gi");
    });
    step(&server).await.expect("reconciled");
    let sizes = claims.map(|claim| {
        let claim = server.get(&format!("/api/v1/namespaces/storage/persistentvolumeclaims/{claim}"));
        claim.expect("there")["spec"]["resources"]["requests"]["storage"].clone()
    });
    assert_eq!(sizes, ["1.5Gi", "1.5Gi", "1Gi", "1Gi"], "stray claims stay");
}

/// A growth that cannot be asked for touches nothing, and a specification that is taken back ends it.
#[tokio::test]
async fn a_class_that_cannot_expand_is_refused_in_words() {
    type Change = fn(&ApiServer);
    let obstacles: [(&str, Change); 5] = [
        ("StorageClass standard has not allowVolumeExpansion: true", |server| put_class(server, None)),
        ("StorageClass standard has not allowVolumeExpansion: true", |server| {
            put_class(server, Some(false));
        }),
        ("StorageClass standard is not there", |server| server.delete(CLASS)),
        ("the operator may not read StorageClass standard", |server| {
            server.fail(Method::GET, "storageclasses", Fault::Code(403));
        }),
        ("it has no storage class", |server| {
            for pod in names() {
                change_claim(server, &pod, |claim| claim["spec"]["storageClassName"] = json!(""));
            }
        }),
    ];
    for (words, obstacle) in obstacles {
        let world = a_world().await;
        obstacle(&world.server);
        raise(&world, "2Gi");
        changes(&world);
        for _ in 0..2 {
            let status = world.look().await.expect("it is no failure of the cluster");
            says(&status, ConditionType::StorageResizing, "True", "ResizeRefused");
            let said = message(&status, ConditionType::StorageResizing);
            assert!(said.contains(words) && said.contains("v1-demo-pool-0-2"), "{said}");
            says(&status, ConditionType::Ready, "True", "Serving");
            says(&status, ConditionType::Progressing, "False", "AsAsked");
        }
        assert_eq!(changes(&world), vec![], "{words}");
        assert_eq!(world.server.take_deletions(), vec![], "{words}");
        assert!(events(&world.server).contains(&"ResizeRefused".to_owned()));
        raise(&world, "1Gi");
        let status = world.look().await.expect("reconciled");
        says(&status, ConditionType::StorageResizing, "False", "NotNeeded");
    }
    let world = a_world().await;
    put_class(&world.server, Some(false));
    raise(&world, "2Gi");
    world.look().await.expect("refused");
    put_class(&world.server, Some(true));
    world.look().await.expect("allowed");
    world.look().await.expect("made again");
    assert_eq!(
        (requested(&world).join(" "), template_size(&world)),
        ("2Gi 2Gi 2Gi".to_owned(), Some("2Gi".into()))
    );
}

/// A quota that one claim exceeds holds up neither the others nor a rollout.
#[tokio::test]
async fn a_claim_that_is_refused_holds_up_the_template_and_nothing_else() {
    let mut world = a_world().await;
    world.server.fail(Method::PATCH, "persistentvolumeclaims/v1-demo-pool-0-1", Fault::Code(403));
    raise(&world, "2Gi");
    let status = world.look().await.expect("it is no failure of the cluster");
    says(&status, ConditionType::StorageResizing, "True", "ResizeRefused");
    let said = message(&status, ConditionType::StorageResizing);
    assert!(said.contains("v1-demo-pool-0-1: Forbidden"), "in the API server's words: {said}");
    assert!(said.contains("claims v1-demo-pool-0-0, v1-demo-pool-0-2 wait for the resizer"), "{said}");
    assert_eq!(requested(&world), ["2Gi", "1Gi", "2Gi"]);
    assert_eq!(template_size(&world).as_deref(), Some("1Gi"));
    world.change_image("2").await;
    world.look().await.expect("reconciled");
    assert_eq!(world.absent(), ["demo-pool-0-2"], "the rollout goes on");
    world.server.mend();
    world.look().await.expect("taken");
    world.look().await.expect("made again");
    assert_eq!(
        (requested(&world).join(" "), template_size(&world)),
        ("2Gi 2Gi 2Gi".to_owned(), Some("2Gi".into()))
    );
}

/// A quota refuses every claim, and is asked a few times in each look.
#[tokio::test]
async fn refused_claims_are_asked_for_a_few_at_a_time() {
    let server = a_cluster();
    change_spec(&server, |spec| spec["pools"][0]["volumesPerNode"] = json!(32));
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    step(&server).await.expect("formed");
    put_class(&server, Some(true));
    (1..=32).for_each(|volume| put_claim(&server, &format!("v{volume}-demo-pool-0-0"), "1Gi", "1Gi"));
    step(&server).await.expect("reconciled");
    change_spec(&server, |spec| {
        spec["pools"][0]["volumeClaimTemplate"]["resources"]["requests"]["storage"] = json!("2Gi");
    });
    server.fail(Method::PATCH, "persistentvolumeclaims", Fault::Code(403));
    server.take_requests();
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::StorageResizing, "True", "ResizeRefused");
    let said = message(&status, ConditionType::StorageResizing);
    assert!(said.contains("are still to be asked for 2Gi"), "{said}");
    let asked = server
        .take_requests()
        .into_iter()
        .filter(|(method, path)| *method == Method::PATCH && path.contains("persistentvolumeclaims"));
    assert_eq!(asked.count(), 4);
}

/// The failed request holds up the template, and neither other claims nor a rollout.
#[tokio::test]
async fn a_request_that_fails_on_its_way_is_tried_again() {
    for (method, path, left) in [
        (Method::GET, "storageclasses", ["1Gi", "1Gi", "1Gi"]),
        (Method::PATCH, "persistentvolumeclaims/v1-demo-pool-0-0", ["1Gi", "2Gi", "2Gi"]),
    ] {
        for code in [429, 500] {
            let mut world = a_world().await;
            world.server.fail(method.clone(), path, Fault::Code(code));
            raise(&world, "2Gi");
            let status = world.look().await.expect("it is no failure of the cluster");
            says(&status, ConditionType::StorageResizing, "True", "Resizing");
            says(&status, ConditionType::Progressing, "False", "AsAsked");
            let said = message(&status, ConditionType::StorageResizing);
            assert!(said.contains("are asked for 2Gi again (v1-demo-pool-0-0: "), "{said}");
            assert_eq!(
                (requested(&world), template_size(&world)),
                (left.map(str::to_owned).into(), Some("1Gi".into()))
            );
            world.change_image("2").await;
            world.look().await.expect("reconciled");
            assert_eq!(world.absent(), ["demo-pool-0-2"], "the rollout goes on");
            world.server.mend();
            world.look().await.expect("asked");
            world.look().await.expect("made again");
            assert_eq!(requested(&world), ["2Gi", "2Gi", "2Gi"]);
            assert_eq!(template_size(&world).as_deref(), Some("2Gi"));
        }
    }
}

/// A class whose volumes do not grow gives claims more than they ask for.
#[tokio::test]
async fn what_claims_have_is_enough_and_a_refused_raise_is_taken_back() {
    let world = a_world().await;
    put_class(&world.server, None);
    for pod in names() {
        put_claim(&world.server, &format!("v1-{pod}"), "1Gi", "1.5Gi");
    }
    raise(&world, "2Gi");
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::StorageResizing, "True", "ResizeRefused");
    assert_eq!(status.pools[0].claim_capacity.as_deref(), Some("1Gi"), "the least that can be asked for");
    for size in ["1.5Gi", "1.2Gi", "1Gi"] {
        raise(&world, size);
        let status = world.look().await.expect("reconciled");
        says(&status, ConditionType::StorageResizing, "False", "NotNeeded");
        world.look().await.expect("made again");
        assert_eq!(template_size(&world).as_deref(), Some(size));
        assert_eq!(requested(&world), ["1Gi", "1Gi", "1Gi"]);
        world.server.take_requests();
        world.look().await.expect("at rest");
        let classes =
            world.server.take_requests().into_iter().filter(|(_, path)| path.contains("storageclasses"));
        assert_eq!(classes.count(), 0, "a cluster at rest asks for no class");
    }
}

/// More claims are refused than are asked for in one look.
#[tokio::test]
async fn refused_claims_keep_none_behind_them_waiting() {
    fn later() -> Timestamp {
        Timestamp::from_second(1_800_000_020).expect("a time")
    }
    let mut world = a_world().await;
    // The fourth of a look is the last that may be refused.
    let names: Vec<String> = (0..6).map(|pod| format!("v1-demo-pool-0-{pod}")).collect();
    change_spec(&world.server, |spec| {
        spec["pools"][0]["nodes"] = json!(6);
    });
    for name in &names {
        put_claim(&world.server, name, "1Gi", "1Gi");
    }
    for name in names.iter().take(5) {
        world.server.fail(Method::PATCH, &format!("persistentvolumeclaims/{name}"), Fault::Code(403));
    }
    raise(&world, "2Gi");
    for now in [world.now, later] {
        world.now = now;
        world.look().await.expect("reported");
    }
    let last = world.server.get(&claim_path("demo-pool-0-5")).expect("a claim");
    assert_eq!(last["spec"]["resources"]["requests"]["storage"], "2Gi");
}

/// The next claim of a lost host would limit its set.
#[tokio::test]
async fn templates_are_no_smaller_than_the_claims_that_are_there() {
    let mut lowered = a_world().await;
    raise(&lowered, "2Gi");
    lowered.look().await.expect("asked");
    lowered.look().await.expect("made again");
    lowered.controller(true);
    raise(&lowered, "1Gi");
    let adopted = a_world().await;
    for pod in names() {
        put_claim(&adopted.server, &format!("v1-{pod}"), "2Gi", "2Gi");
    }
    adopted.server.delete(STATEFUL_SET);
    for world in [&lowered, &adopted] {
        for _ in 0..2 {
            let status = world.look().await.expect("reconciled");
            says(&status, ConditionType::StorageResizing, "False", "ClaimsLarger");
            assert_eq!(template_size(world).as_deref(), Some("2Gi"));
        }
    }
}

/// A person made a claim before its cluster was there, or took its label.
#[tokio::test]
async fn claims_without_the_clusters_label_grow() {
    let world = a_world().await;
    change_claim(&world.server, "demo-pool-0-1", |claim| claim["metadata"]["labels"] = json!({}));
    world.look().await.expect("at rest");
    raise(&world, "2Gi");
    for _ in 0..3 {
        let status = world.look().await.expect("reconciled");
        says(&status, ConditionType::StorageResizing, "True", "Resizing");
        let said = message(&status, ConditionType::StorageResizing);
        assert!(said.contains("v1-demo-pool-0-1"), "{said}");
        assert_eq!(requested(&world), ["2Gi", "2Gi", "2Gi"]);
    }
    for pod in names() {
        change_claim(&world.server, &pod, |claim| claim["status"]["capacity"]["storage"] = json!("2Gi"));
    }
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::StorageResizing, "False", "NotNeeded");
}

/// The operator ends after each request in turn, and another one goes on.
#[tokio::test]
async fn a_growth_that_is_cut_at_any_request_is_gone_on_with() {
    let begun = a_world().await;
    for cut in 1.. {
        let mut world = begun.copy();
        let pods = world.uids();
        raise(&world, "2Gi");
        world.server.take_deletions();
        world.server.cut_after(cut);
        for _ in 0..2 {
            if world.look().await.is_err() {
                break;
            }
        }
        let was_cut = world.server.mend();
        for _ in 0..2 {
            world.look().await.unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        }
        assert_eq!(requested(&world), ["2Gi", "2Gi", "2Gi"], "cut {cut}");
        assert_eq!(template_size(&world).as_deref(), Some("2Gi"), "cut {cut}");
        assert_eq!(world.uids(), pods, "cut {cut}");
        let deleted = world.server.take_deletions();
        assert_eq!(deleted.len(), 1, "cut {cut}: {deleted:?}");
        world.controller(true);
        let status = world.look().await.expect("reconciled");
        says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
        if !was_cut {
            assert!(cut > 20, "{cut}");
            return;
        }
    }
}

/// The claims: one that another client raised further, one that is not bound, one that grows.
#[tokio::test]
async fn claims_that_are_larger_or_not_bound_are_left_alone_and_named() {
    let world = a_world().await;
    put_claim(&world.server, "v1-demo-pool-0-0", "5Gi", "3Gi");
    change_claim(&world.server, "demo-pool-0-1", |claim| claim["status"] = json!({"phase": "Pending"}));
    raise(&world, "2Gi");
    let status = world.look().await.expect("reconciled");
    assert_eq!(requested(&world), ["5Gi", "1Gi", "2Gi"]);
    says(&status, ConditionType::StorageResizing, "True", "Resizing");
    let said = message(&status, ConditionType::StorageResizing);
    assert!(said.contains("claims v1-demo-pool-0-1 are not bound"), "{said}");
    assert!(said.contains("claims v1-demo-pool-0-0 ask for more than 2Gi"), "{said}");
    world.look().await.expect("made again");
    assert_eq!(template_size(&world).as_deref(), Some("5Gi"), "the next claim limits none");
    change_claim(&world.server, "demo-pool-0-1", |claim| {
        claim["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    });
    change_claim(&world.server, "demo-pool-0-2", |claim| {
        claim["status"]["capacity"]["storage"] = json!("2Gi");
    });
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::StorageResizing, "False", "ClaimsLarger");
    // A claim that was made of the former template grows when it is bound.
    put_claim(&world.server, "v1-demo-pool-0-1", "1Gi", "1Gi");
    world.look().await.expect("reconciled");
    assert_eq!(requested(&world), ["5Gi", "2Gi", "2Gi"]);
}

/// Kubernetes takes a smaller size again where a growth failed, above what the claim has.
#[tokio::test]
async fn a_growth_that_failed_is_named_and_can_be_lowered() {
    let failures = [
        json!({"conditions": [{"type": "ControllerResizeError", "status": "True", "message": "no room in the pool"}]}),
        json!({"conditions": [{"type": "NodeResizeError", "status": "True", "message": "no room in the pool"}]}),
        json!({"allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}}),
    ];
    for failure in failures {
        let mut world = a_world().await;
        raise(&world, "900Gi");
        world.look().await.expect("asked");
        world.look().await.expect("made again");
        world.controller(true);
        for pod in names() {
            change_claim(&world.server, &pod, |claim| {
                let status = claim["status"].as_object_mut().expect("a status");
                status.extend(failure.as_object().expect("fields").clone());
            });
        }
        let status = world.look().await.expect("reconciled");
        says(&status, ConditionType::StorageResizing, "True", "ResizeFailed");
        let said = message(&status, ConditionType::StorageResizing);
        assert!(
            said.contains("no room in the pool") || said.contains("ControllerResizeInfeasible"),
            "{said}"
        );
        assert_eq!(status.pools[0].claim_capacity.as_deref(), Some("1Gi"));
        // As much as they have is not more than that.
        raise(&world, "1Gi");
        let status = world.look().await.expect("reconciled");
        says(&status, ConditionType::StorageResizing, "True", "ResizeFailed");
        assert_eq!(requested(&world), ["900Gi", "900Gi", "900Gi"]);
        raise(&world, "3Gi");
        for _ in 0..3 {
            world.look().await.expect("reconciled");
        }
        assert_eq!(requested(&world), ["3Gi", "3Gi", "3Gi"]);
        assert_eq!(template_size(&world).as_deref(), Some("3Gi"));
    }
}

#[tokio::test]
async fn an_adopted_clusters_claims_grow() {
    let world = a_world().await;
    world.server.delete(STATEFUL_SET);
    raise(&world, "2Gi");
    world.look().await.expect("reconciled");
    assert_eq!(requested(&world), ["2Gi", "2Gi", "2Gi"]);
    assert_eq!(template_size(&world).as_deref(), Some("2Gi"));
}

/// The StatefulSet is made again while a pod of it is replaced: each pod goes once.
#[tokio::test]
async fn a_rollout_goes_on_through_a_growth() {
    let mut world = a_world().await;
    let before = world.uids();
    world.change_image("2").await;
    world.look().await.expect("the first goes");
    assert_eq!(world.absent(), ["demo-pool-0-2"]);
    raise(&world, "2Gi");
    world.look().await.expect("asked");
    assert_eq!(template_size(&world), None, "it is about to be made again");
    assert_eq!(world.absent(), ["demo-pool-0-2"], "no other goes meanwhile");
    world.look().await.expect("made again");
    assert_eq!(world.absent(), ["demo-pool-0-2"]);
    for _ in 0..12 {
        world.controller(true);
        world.heal();
        world.look().await.expect("reconciled");
    }
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    assert_eq!((world.image(), template_size(&world)), (json!("sherd-node:2"), Some("2Gi".to_owned())));
    let after = world.uids();
    assert!(before.iter().all(|(pod, uid)| after.get(pod).is_some_and(|found| found != uid)), "{after:?}");
    let evicted = events(&world.server).iter().filter(|event| *event == "PodEvicted").count();
    assert_eq!(evicted, names().len());
}

#[tokio::test]
async fn a_paused_cluster_asks_for_nothing() {
    let world = a_world().await;
    change_spec(&world.server, |spec| spec["paused"] = json!(true));
    raise(&world, "2Gi");
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::StorageResizing, "Unknown", "Waiting");
    assert_eq!(requested(&world), ["1Gi", "1Gi", "1Gi"]);
}
