//! Objects of the cluster, of another person and of another installation.

use super::*;

#[tokio::test]
async fn a_policy_that_is_not_asked_for_goes_and_another_ones_stays() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    change_spec(&server, |spec| spec["networkPolicy"] = json!({"enabled": false}));
    step(&server).await.expect("reconciled");
    assert!(server.get(POLICY).is_none());
    server.put(POLICY, json!({"metadata": {"name": "demo-node", "namespace": "storage", "uid": "theirs"}}));
    step(&server).await.expect("reconciled");
    assert!(server.get(POLICY).is_some(), "it has another owner");
}

/// Two operators that both see no CA: the slower one is refused and goes on with the faster one's.
#[tokio::test]
async fn two_operators_at_once_make_one_authority() {
    let server = a_cluster();
    let before = cluster(&server);
    for path in [AUTHORITY, RECOVERY, CREDENTIALS, MASTER_KEY] {
        server.fail(Method::GET, path, Fault::Code(404));
    }
    reconcile(&context(&server), &before).await.expect("the faster one");
    let authority = server.get(AUTHORITY).expect("made");
    let refused = reconcile(&context(&server), &before).await.expect_err("the slower one");
    assert_eq!(refused.category(), "conflict");
    assert_eq!(server.get(AUTHORITY).expect("kept"), authority);
    server.mend();
    step(&server).await.expect("reconciled");
    assert_eq!(server.get(AUTHORITY).expect("kept")["data"], authority["data"]);
}

/// Two installations that watch one namespace: the second leaves it alone until the first is gone for good.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_worked_on_by_one_installation() {
    let server = a_cluster();
    step(&server).await.expect("the first one");
    let second = Context {
        namespaces: NamespaceLeases::new(server.client(), "elsewhere/sherd-operator", Timestamp::now),
        default_image: ImageName::tagged("sherd-node", "2"),
        ..context(&server)
    };
    let config = config(&server);
    server.delete(&config);
    let before = reported(&server);
    reconcile(&second, &cluster(&server)).await.expect("left alone");
    assert!(server.get(&config).is_none(), "nothing is changed");
    assert_eq!(reported(&server), before, "nor is the status");
    assert!(events(&server).contains(&"AnotherOperator".to_owned()));
    tokio::time::sleep(Duration::from_secs(119)).await;
    reconcile(&second, &cluster(&server)).await.expect("left alone");
    assert!(server.get(&config).is_none());
    tokio::time::sleep(Duration::from_secs(2)).await;
    reconcile(&second, &cluster(&server)).await.expect("taken over");
    assert!(server.get(&config).is_some());
}

/// An installation's clusters may all wait after failures, for longer than the lease lasts.
#[tokio::test(start_paused = true)]
async fn an_installation_keeps_its_namespace_while_nothing_happens_in_it() {
    let server = a_cluster();
    let first = context(&server);
    let turn = first.namespaces.claim("storage").await.expect("asked");
    assert!(matches!(turn, NamespaceClaim::Own(_)));
    drop(turn);
    let other = NamespaceLeases::new(server.client(), "elsewhere/sherd-operator", Timestamp::now);
    let watches = async {
        for _ in 0..100 {
            let claim = other.claim("storage").await.expect("asked");
            assert!(matches!(claim, NamespaceClaim::Foreign(holder) if holder == "storage/sherd-operator"));
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    };
    tokio::select! {
        // The renewals never end.
        biased;
        () = watches => {}
        () = first.namespaces.keep() => {}
    }
}

/// A judgement of a cluster that was deleted and made again meanwhile would give the new one the old one's
/// id.
#[tokio::test]
async fn a_status_is_written_to_the_object_that_was_judged() {
    let server = a_cluster();
    let judged = cluster(&server);
    let mut again = server.get(CLUSTER).expect("there");
    again["metadata"]["uid"] = json!("another");
    server.put(CLUSTER, again);
    reconcile(&context(&server), &judged).await.expect("left to the next one");
    assert!(server.get(CLUSTER).expect("there")["status"].is_null());
}

/// A label that a person or a tool wrote over is put back like any other field.
#[tokio::test]
async fn a_child_that_lost_its_labels_is_still_the_clusters() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    let mut set = server.get(STATEFUL_SET).expect("made");
    set["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("Helm");
    server.put(STATEFUL_SET, set);
    step(&server).await.expect("reconciled");
    let set = server.get(STATEFUL_SET).expect("there");
    assert_eq!(set["metadata"]["labels"]["app.kubernetes.io/managed-by"], "sherd-operator");
}

/// An object that another person or cluster made is neither written over nor owned, and is used once it is
/// labelled as the cluster's.
#[tokio::test]
async fn objects_of_others_are_left_as_they_are() {
    for (path, kind) in
        [(SERVICE, "Service"), (CREDENTIALS, "Secret"), (STATEFUL_SET, "StatefulSet"), (RECOVERY, "Secret")]
    {
        let server = a_cluster();
        let name = path.rsplit('/').next().expect("a name");
        let theirs = json!({"kind": kind, "metadata": {"name": name, "namespace": "storage", "labels": {
            "app.kubernetes.io/managed-by": "sherd-operator", "sherd.dev/cluster": "demo-pool",
        }}, "data": {"theirs": "eWVz"}});
        server.put(path, theirs.clone());
        let status = step(&server).await.expect("reported");
        says(&status, ConditionType::Progressing, "False", "NameTaken");
        says(&status, ConditionType::Ready, "False", "NameTaken");
        assert!(events(&server).contains(&"NameTaken".to_owned()));
        assert_eq!(server.get(path), Some(theirs.clone()));
        assert!(server.get(AUTHORITY).is_none(), "nothing is made");
        let mut given = theirs;
        given["metadata"]["labels"]["sherd.dev/cluster"] = json!("demo");
        server.put(path, given);
        step(&server).await.expect("reconciled");
        assert!(server.get(AUTHORITY).is_some());
    }
}

/// A CA that a person brings back carries no labels of ours.
#[tokio::test]
async fn an_authority_without_labels_is_adopted() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    let mut authority = server.get(AUTHORITY).expect("made");
    authority["metadata"].as_object_mut().expect("an object").remove("labels");
    server.put(AUTHORITY, authority.clone());
    step(&server).await.expect("reconciled");
    let adopted = server.get(AUTHORITY).expect("kept");
    assert_eq!(adopted["data"], authority["data"]);
    assert_eq!(adopted["metadata"]["labels"]["sherd.dev/cluster"], "demo");
}

#[tokio::test]
async fn claims_without_labels_stop_the_making_of_an_authority() {
    let server = a_cluster();
    let claim = |name: &str, labels: Value| {
        let path = CLAIM.replace("v1-demo-pool-0-0", name);
        server.put(&path, json!({"metadata": {"name": name, "namespace": "storage", "labels": labels}}));
    };
    claim("v1-demo-pool-1-0", json!({}));
    claim("v1-demo-pool-0-0", json!({"sherd.dev/cluster": "demo-pool"}));
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "False", "AuthorityMissing");
    assert!(server.get(AUTHORITY).is_none());
    claim("v1-demo-pool-0-0", json!({"sherd.dev/cluster": "demo"}));
    step(&server).await.expect("reconciled");
    assert!(server.get(AUTHORITY).is_some(), "the claim was said to be empty");
}
