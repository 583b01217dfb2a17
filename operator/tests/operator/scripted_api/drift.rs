//! Children that persons change or delete: each is put back, whatever the API server says of another one.

use super::*;

/// A child of which no merge is taken is replaced with what was given to it, and holds up no other.
#[tokio::test]
async fn a_child_that_cannot_be_merged_is_replaced() {
    let server = a_cluster();
    change_spec(&server, |spec| spec["gateway"] = json!({"service": {"type": "NodePort"}}));
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let mut service = server.get(SERVICE).expect("made");
    service["spec"]["clusterIP"] = json!("10.0.0.7");
    service["spec"]["ports"] = json!([{"name": "s3", "port": 80, "targetPort": "s3", "nodePort": 30080}]);
    server.put(SERVICE, service);
    let mut budget = server.get(BUDGET).expect("made");
    budget["spec"] = json!({"minAvailable": 3});
    server.put(BUDGET, budget);
    let mut set = server.get(STATEFUL_SET).expect("made");
    set["spec"]["replicas"] = json!(7);
    server.put(STATEFUL_SET, set);

    let status = step(&server).await.expect("all are put back");
    says(&status, ConditionType::Progressing, "False", "AsAsked");
    let service = server.get(SERVICE).expect("there");
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.7");
    let port =
        json!([{"name": "s3", "port": 9000, "targetPort": "s3", "protocol": "TCP", "nodePort": 30080}]);
    assert_eq!(service["spec"]["ports"], port);
    let budget = server.get(BUDGET).expect("there");
    assert_eq!(
        (&budget["spec"]["maxUnavailable"], &budget["spec"]["minAvailable"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(server.get(STATEFUL_SET).expect("there")["spec"]["replicas"], 1);
    let told = events(&server).iter().filter(|event| *event == "ChildPutBack").count();
    assert_eq!(told, 3, "{:?}", events(&server));
}

/// Pods depend on the StatefulSet: it never waits for a child that the API server refuses.
#[tokio::test]
async fn a_refused_child_holds_up_no_other() {
    let server = a_cluster();
    for path in ["services/demo-s3", "configmaps", "poddisruptionbudgets"] {
        server.fail(Method::PATCH, path, Fault::Code(403));
    }
    let refused = step(&server).await.expect_err("tried again");
    assert_eq!(refused.category(), "forbidden");
    for path in [STATEFUL_SET, POLICY, CERTIFICATES] {
        assert!(server.get(path).is_some(), "{path}");
    }
    let said = message(&reported(&server), ConditionType::Progressing);
    for child in ["ConfigMap demo-config", "Service demo-s3", "PodDisruptionBudget demo-pool-0"] {
        assert!(said.contains(&format!("apply {child}: Forbidden /")), "in the API server's words: {said}");
    }
    server.mend();
    step(&server).await.expect("reconciled");
    assert!(server.get(SERVICE).is_some() && server.get(BUDGET).is_some());
}

/// An older operator's StatefulSet has claims that this one makes with other labels.
#[tokio::test]
async fn a_stateful_set_whose_fixed_fields_differ_is_made_again_without_its_pods() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let mut set = server.get(STATEFUL_SET).expect("made");
    set["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"]["older"] = json!("1");
    let older = set["metadata"]["uid"].clone();
    server.put(STATEFUL_SET, set);
    server.take_deletions();
    step(&server).await.expect("deleted");
    let deleted = server.take_deletions();
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    assert_eq!((deleted[0].0.as_str(), &deleted[0].1["propagationPolicy"]), (STATEFUL_SET, &json!("Orphan")));
    assert_eq!(deleted[0].1["preconditions"]["uid"], older);
    step(&server).await.expect("made again");
    assert_ne!(server.get(STATEFUL_SET).expect("there")["metadata"]["uid"], older);
    assert!(events(&server).contains(&"ChildReplaced".to_owned()));
}

/// A specification that makes no valid StatefulSet must not cost the one that is there.
#[tokio::test]
async fn a_stateful_set_is_kept_where_its_successor_would_be_refused() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let set = server.get(STATEFUL_SET).expect("made");
    for method in [Method::PATCH, Method::POST] {
        server.fail(method, "statefulsets", Fault::Code(422));
    }
    let refused = step(&server).await.expect_err("tried again");
    assert_eq!(refused.category(), "rejected");
    assert_eq!(server.get(STATEFUL_SET), Some(set));
}

/// A cluster at rest costs the API server no write, and a child that was left alone is not applied again.
#[tokio::test]
async fn only_a_child_that_differs_is_applied() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let operator = context(&server);
    reconcile(&operator, &cluster(&server)).await.expect("each is applied once by a new process");
    server.take_requests();
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    let applied = |requests: Vec<(Method, String)>| {
        let of_children =
            |(method, path): &(Method, String)| *method != Method::GET && !path.contains("/status");
        requests.into_iter().filter(of_children).map(|(_, path)| path).collect::<Vec<_>>()
    };
    assert_eq!(applied(server.take_requests()), Vec::<String>::new());
    // The status is another controller's.
    let mut set = server.get(STATEFUL_SET).expect("made");
    set["status"] = json!({"replicas": 1});
    set["metadata"]["resourceVersion"] = json!("1000");
    server.put(STATEFUL_SET, set.clone());
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    assert_eq!(applied(server.take_requests()), Vec::<String>::new());
    set["spec"]["replicas"] = json!(2);
    server.put(STATEFUL_SET, set);
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    assert!(applied(server.take_requests()).contains(&STATEFUL_SET.to_owned()));
    assert_eq!(server.get(STATEFUL_SET).expect("there")["spec"]["replicas"], 1);
}
