//! Children that persons change or delete: each is put back, though the API server refuses another one.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;

use super::*;

/// A child of which no merge is taken is replaced with what was given to it, and holds up no other.
#[tokio::test]
async fn a_child_that_cannot_be_merged_is_replaced() {
    let server = a_cluster();
    change_spec(&server, |spec| spec["gateway"] = json!({"service": {"type": "NodePort"}}));
    let operator = context(&server);
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
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

    let status = reconcile(&operator, &cluster(&server)).await.expect("all are put back");
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

/// A cluster whose load balancer has a class and what the API server and the cloud gave to it.
async fn with_a_load_balancer(operator: &Context, server: &ApiServer) -> Value {
    change_spec(server, |spec| {
        spec["gateway"] = json!({"service": {
            "type": "LoadBalancer", "loadBalancerClass": "a.example/one", "loadBalancerSourceRanges": ["10.0.0.0/8"],
        }});
    });
    reconcile(operator, &cluster(server)).await.expect("reconciled");
    pods_come_up(server);
    let mut service = server.get(SERVICE).expect("made");
    service["spec"]["clusterIP"] = json!("10.0.0.7");
    service["spec"]["ports"][0]["nodePort"] = json!(30080);
    service["metadata"]["finalizers"] = json!(["service.kubernetes.io/load-balancer-cleanup"]);
    server.put(SERVICE, service.clone());
    service
}

/// The class cannot change while there is a load balancer. All that clients and the cloud need stays.
#[tokio::test]
async fn a_load_balancer_gets_another_class_or_none() {
    let server = a_cluster();
    let operator = context(&server);
    let before = with_a_load_balancer(&operator, &server).await;
    server.take_deletions();
    for class in [json!("a.example/two"), Value::Null] {
        change_spec(&server, |spec| spec["gateway"]["service"]["loadBalancerClass"] = class.clone());
        let status = reconcile(&operator, &cluster(&server)).await.expect("it is changed");
        says(&status, ConditionType::Progressing, "False", "AsAsked");
        let mut service = server.get(SERVICE).expect("there");
        assert_eq!(service["spec"]["loadBalancerClass"], class);
        service["spec"]["loadBalancerClass"] = before["spec"]["loadBalancerClass"].clone();
        assert_eq!(service["spec"], before["spec"], "nothing else is changed");
        for field in ["uid", "finalizers", "labels", "ownerReferences"] {
            assert_eq!(service["metadata"][field], before["metadata"][field], "{field}");
        }
    }
    assert_eq!(server.take_deletions(), vec![]);
    server.take_changes();
    reconcile(&operator, &cluster(&server)).await.expect("at rest");
    assert!(!server.take_changes().iter().any(|(_, path)| path == SERVICE));
}

/// A Service that is refused for another reason as well keeps the load balancer that it has.
#[tokio::test]
async fn a_load_balancer_is_not_given_up_for_a_service_that_would_be_refused() {
    // The whole of it but the class, or a class that the API server does not take.
    for method in [Method::PUT, Method::POST] {
        let server = a_cluster();
        let operator = context(&server);
        let before = with_a_load_balancer(&operator, &server).await;
        change_spec(&server, |spec| spec["gateway"]["service"]["loadBalancerClass"] = json!("a.example/two"));
        server.fail(method, "/services", Fault::Code(422));
        let refused = reconcile(&operator, &cluster(&server)).await.expect_err("tried again");
        assert_eq!(refused.category(), "rejected");
        assert_eq!(server.get(SERVICE).expect("kept")["spec"], before["spec"]);
        server.mend();
        reconcile(&operator, &cluster(&server)).await.expect("changed");
        assert_eq!(server.get(SERVICE).expect("there")["spec"]["loadBalancerClass"], "a.example/two");
    }
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
    for child in ["Service demo-s3", "PodDisruptionBudget demo-pool-0"] {
        assert!(said.contains(&format!("apply {child}: Forbidden /")), "in the API server's words: {said}");
    }
    assert!(said.contains("apply ConfigMap demo-config-"), "{said}");
    server.mend();
    step(&server).await.expect("reconciled");
    assert!(server.get(SERVICE).is_some() && server.get(BUDGET).is_some());
}

/// Claims of another size. Their labels alone would change nothing.
#[tokio::test]
async fn a_stateful_set_whose_fixed_fields_differ_is_made_again_without_its_pods() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let mut set = server.get(STATEFUL_SET).expect("made");
    set["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"]["older"] = json!("1");
    server.put(STATEFUL_SET, set.clone());
    server.take_deletions();
    step(&server).await.expect("reconciled");
    assert_eq!(server.take_deletions(), vec![]);
    set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
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
    for method in [Method::PATCH, Method::PUT, Method::POST] {
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
    reconcile(&operator, &cluster(&server)).await.expect("its claims say of what geometry they are");
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

/// A watch has shown every object: a look at a cluster at rest asks the nodes and not the API server.
#[tokio::test]
async fn a_cluster_at_rest_is_looked_at_without_a_request() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let operator = context(&server);
    reconcile(&operator, &cluster(&server)).await.expect("each is applied once by a new process");
    reconcile(&operator, &cluster(&server)).await.expect("its claims say of what geometry they are");
    let mut writers = Vec::new();
    for (resource, collection) in [
        (ApiResource::erase::<Secret>(&()), "/api/v1/namespaces/storage/secrets/"),
        (ApiResource::erase::<ServiceAccount>(&()), "/api/v1/namespaces/storage/serviceaccounts/"),
        (ApiResource::erase::<ConfigMap>(&()), "/api/v1/namespaces/storage/configmaps/"),
        (ApiResource::erase::<Service>(&()), "/api/v1/namespaces/storage/services/"),
        (ApiResource::erase::<Pod>(&()), "/api/v1/namespaces/storage/pods/"),
        (
            ApiResource::erase::<PersistentVolumeClaim>(&()),
            "/api/v1/namespaces/storage/persistentvolumeclaims/",
        ),
        (ApiResource::erase::<StatefulSet>(&()), "/apis/apps/v1/namespaces/storage/statefulsets/"),
        (
            ApiResource::erase::<NetworkPolicy>(&()),
            "/apis/networking.k8s.io/v1/namespaces/storage/networkpolicies/",
        ),
        (
            ApiResource::erase::<PodDisruptionBudget>(&()),
            "/apis/policy/v1/namespaces/storage/poddisruptionbudgets/",
        ),
    ] {
        let mut writer = Writer::<DynamicObject>::new(resource.clone());
        writer.apply_watcher_event(&watcher::Event::Init);
        for path in server.paths().iter().filter(|path| path.starts_with(collection)) {
            let object = serde_json::from_value(server.get(path).expect("there")).expect("an object");
            writer.apply_watcher_event(&watcher::Event::InitApply(object));
        }
        writer.apply_watcher_event(&watcher::Event::InitDone);
        operator.cache.add(Some("storage".to_owned()), resource, writer.as_reader());
        writers.push(writer);
    }
    server.take_requests();
    let status = reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    says(&status, ConditionType::Ready, "True", "Serving");
    assert_eq!(server.take_requests(), vec![]);
}

/// A mistyped image that was taken back: the StatefulSet's controller would leave its pod as it is for ever.
#[tokio::test]
async fn a_pod_that_never_started_is_replaced_once_its_template_is_taken_back() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let path = "/api/v1/namespaces/storage/pods/demo-pool-0-0";
    let stuck = |revision: &str, waits_for: &str, restarts: u32| {
        let mut pod = server.get(path).unwrap_or_else(|| json!({"metadata": {"name": "demo-pool-0-0"}}));
        pod["metadata"]["namespace"] = json!("storage");
        pod["metadata"]["labels"] = json!({
            "app.kubernetes.io/name": "sherd-node", "sherd.dev/cluster": "demo", "controller-revision-hash": revision,
        });
        pod["spec"] =
            json!({"nodeName": "host", "containers": [{"name": "node", "image": "sherd-node:typo"}]});
        pod["status"] = json!({"containerStatuses": [{
            "name": "node", "image": "sherd-node:typo", "imageID": "", "ready": false, "restartCount": restarts,
            "state": {"waiting": {"reason": waits_for}},
        }]});
        server.put(path, pod);
    };
    let mut set = server.get(STATEFUL_SET).expect("made");
    set["metadata"]["generation"] = json!(3);
    set["status"] = json!({"replicas": 1, "observedGeneration": 3, "updateRevision": "asked-for"});
    server.put(STATEFUL_SET, set);
    // Of the template that is asked for, or one that runs or ran: a person decides.
    for (revision, waits_for, restarts) in [
        ("asked-for", "ImagePullBackOff", 0),
        ("older", "CrashLoopBackOff", 4),
        ("older", "ContainerCreating", 0),
    ] {
        stuck(revision, waits_for, restarts);
        step(&server).await.expect("reconciled");
        assert!(server.get(path).is_some(), "{revision} {waits_for}");
    }
    stuck("older", "ErrImagePull", 0);
    step(&server).await.expect("reconciled");
    assert!(server.get(path).is_none());
    assert!(events(&server).contains(&"PodReplaced".to_owned()));
}

/// Pods of an older template mount its configuration for as long as they are there.
#[tokio::test]
async fn a_configuration_goes_with_the_last_pod_that_mounts_it() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let (older, path) = (config(&server), "/api/v1/namespaces/storage/pods/demo-pool-0-0");
    let mounts = |config: &str| {
        let mut pod = server.get(path).expect("there");
        let name = config.rsplit('/').next().expect("a name");
        pod["spec"] = json!({"containers": [], "volumes": [{"name": "config", "configMap": {"name": name}}]});
        server.put(path, pod);
    };
    mounts(&older);
    change_spec(&server, |spec| spec["config"] = json!({"region": "eu-west-1"}));
    step(&server).await.expect("reconciled");
    let newer = config(&server);
    assert_ne!(newer, older);
    assert!(server.get(&older).is_some() && server.get(&newer).is_some());
    mounts(&newer);
    step(&server).await.expect("reconciled");
    assert!(server.get(&older).is_none() && server.get(&newer).is_some());
}

/// A label of a Secret without an owner, or of a ConfigMap, is all that a person has to change.
#[tokio::test]
async fn a_child_whose_labels_were_changed_is_still_the_clusters() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    for path in [CREDENTIALS, MASTER_KEY, AUTHORITY, RECOVERY, SERVICE, STATEFUL_SET, &config(&server)] {
        let mut edited = server.get(path).expect("made");
        edited["metadata"]["labels"]["sherd.dev/cluster"] = json!("other");
        server.put(path, edited);
        step(&server).await.expect("reconciled");
        assert_eq!(
            server.get(path).expect("there")["metadata"]["labels"]["sherd.dev/cluster"],
            "demo",
            "{path}"
        );
    }
}

/// Nodes follow the file that the Secret is mounted as: no pod is made for other credentials.
#[tokio::test]
async fn a_change_of_the_credentials_changes_the_nodes_file_and_no_template() {
    let server = a_cluster();
    server.put(MINE, users_pair("root", "longenough"));
    change_spec(&server, |spec| spec["credentials"] = json!({"secretRef": {"name": "mine"}}));
    let template = || server.get(STATEFUL_SET).expect("made")["spec"]["template"].clone();
    step(&server).await.expect("reconciled");
    let before = template();
    let mounted = before["spec"]["volumes"].as_array().expect("volumes");
    assert!(mounted.iter().any(|volume| volume["secret"]["secretName"] == "demo-node-credentials"));
    assert!(
        node_credentials(&server).ends_with("AWS_ACCESS_KEY_ID=root\nAWS_SECRET_ACCESS_KEY=longenough\n")
    );
    server.put(MINE, users_pair("other", "longenough2"));
    step(&server).await.expect("reconciled");
    assert_eq!(template(), before);
    assert!(
        node_credentials(&server).contains("AWS_ACCESS_KEY_ID=other\nAWS_SECRET_ACCESS_KEY=longenough2\n")
    );
}

/// A quota, or a policy of the cluster, refuses pods where only the StatefulSet's events say so.
#[tokio::test]
async fn pods_that_are_refused_say_why() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    let event = |name: &str, message: &str, time: &str| {
        let path = format!("/api/v1/namespaces/storage/events/{name}");
        server.put(&path, json!({
            "metadata": {"name": name, "namespace": "storage"}, "reason": "FailedCreate", "type": "Warning",
            "involvedObject": {"kind": "StatefulSet", "name": "demo-pool-0"},
            "message": message, "lastTimestamp": time,
        }));
    };
    let words = "create Pod demo-pool-0-0 in StatefulSet demo-pool-0 failed error: pods \"demo-pool-0-0\" is forbidden: exceeded quota: small";
    event("one", words, "2026-01-01T00:00:02Z");
    event(
        "older",
        "create Pod demo-pool-0-0 in StatefulSet demo-pool-0 failed error: older",
        "2026-01-01T00:00:01Z",
    );
    event(
        "other",
        "create Pod demo-pool-0-7 in StatefulSet demo-pool-0 failed error: other",
        "2026-01-01T00:00:03Z",
    );
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::PoolsReady, "False", "FailedCreate");
    assert_eq!(message(&status, ConditionType::PoolsReady), words);
    assert!(message(&status, ConditionType::Ready).contains("exceeded quota: small"));
    pods_come_up(&server);
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::PoolsReady, "True", "AsAsked");
}

/// A child that the specification turns off goes, unless it is another's; and its absence costs no request.
#[tokio::test]
async fn a_child_that_is_turned_off_goes() {
    const IAM: &str = "/api/v1/namespaces/storage/services/demo-iam";
    let server = a_cluster();
    change_spec(&server, |spec| spec["iam"] = json!({"enabled": true}));
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    assert!(server.get(IAM).is_some() && server.get(POLICY).is_some());
    let turned_off = json!({"enabled": false});
    change_spec(&server, |spec| spec["iam"] = turned_off.clone());
    change_spec(&server, |spec| spec["networkPolicy"] = turned_off.clone());
    step(&server).await.expect("reconciled");
    assert!(server.get(IAM).is_none() && server.get(POLICY).is_none());
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "demo-iam"}});
    server.put(IAM, theirs.clone());
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::Progressing, "False", "AsAsked");
    assert_eq!(server.get(IAM), Some(theirs));
}

/// The port of clients is the Service's: nodes listen where they did.
#[tokio::test]
async fn the_port_of_the_service_is_that_of_the_endpoint() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let set = server.get(STATEFUL_SET);
    for (port, address) in [(80, ""), (8080, ":8080")] {
        change_spec(&server, |spec| spec["gateway"] = json!({"service": {"port": port, "portName": "http"}}));
        let status = step(&server).await.expect("reconciled");
        let endpoint = format!("http://demo-s3.storage.svc{address}");
        assert_eq!(status.endpoint, Some(endpoint));
        let ports = server.get(SERVICE).expect("made")["spec"]["ports"].clone();
        assert_eq!(ports, json!([{"name": "http", "port": port, "targetPort": "s3", "protocol": "TCP"}]));
        assert_eq!(server.get(STATEFUL_SET), set);
    }
}
