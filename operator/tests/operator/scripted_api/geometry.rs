//! Claims of another geometry than the specification asks for.

use super::*;

/// The garbage collector removes what has an owner, and a person makes the cluster again.
fn made_again(server: &ApiServer, change: impl FnOnce(&mut Value)) {
    for path in server.paths() {
        if server.get(&path).expect("there")["metadata"]["ownerReferences"].is_array() {
            server.delete(&path);
        }
    }
    let mut again = server.get(CLUSTER).expect("there");
    again["metadata"]["uid"] = json!(format!("{}-again", again["metadata"]["uid"].as_str().expect("a uid")));
    again.as_object_mut().expect("an object").remove("status");
    change(&mut again["spec"]["pools"][0]);
    server.put(CLUSTER, again);
}

#[tokio::test]
async fn a_cluster_over_claims_of_another_geometry_makes_no_pod() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    step(&server).await.expect("reconciled");
    // The cluster has formed now, and its claims say of what.
    step(&server).await.expect("reconciled");
    let said = "nodes=1,volumesPerNode=1,setSize=1,parity=0";
    assert_eq!(server.get(CLAIM).expect("there")["metadata"]["annotations"]["sherd.dev/geometry"], said);

    server.delete("/api/v1/namespaces/storage/pods/demo-pool-0-0");
    made_again(&server, |pool| pool["nodes"] = json!(4));
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::SpecValid, "False", "GeometryDiffers");
    says(&status, ConditionType::Ready, "False", "GeometryDiffers");
    let words = message(&status, ConditionType::SpecValid);
    for part in ["v1-demo-pool-0-0", said, "nodes=4,volumesPerNode=1,setSize=4,parity=2", "make it again"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(server.get(STATEFUL_SET).is_none(), "no pod is made");

    made_again(&server, |pool| pool["nodes"] = json!(1));
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::SpecValid, "True", "NotRedundant");
    assert!(server.get(STATEFUL_SET).is_some());
}

#[tokio::test]
async fn claims_that_no_pod_uses_are_named() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    for name in ["v5-demo-pool-0-0", "v1-demo-pool-0-7", "v1-demo-other-0"] {
        server.put(
            &format!("/api/v1/namespaces/storage/persistentvolumeclaims/{name}"),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
                "name": name, "namespace": "storage", "labels": {"sherd.dev/cluster": "demo"},
            }}),
        );
    }
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::SpecValid, "True", "StrayClaims");
    says(&status, ConditionType::Ready, "True", "Serving");
    let words = message(&status, ConditionType::SpecValid);
    assert!(words.contains("v1-demo-other-0, v1-demo-pool-0-7, v5-demo-pool-0-0"), "{words}");
    assert!(!words.contains("v1-demo-pool-0-0,"), "{words}");
    assert!(events(&server).contains(&"StrayClaims".to_owned()));
}
