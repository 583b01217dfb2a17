//! `status`: the object's report, a node's table, and what is said where something cannot be read.

use sherd_admin::status::{ClusterVerdict, verdict};
use sherd_kubectl::error::PluginError;
use sherd_kubectl::status::look;

use crate::node::MemoryNodes;
use crate::server::{ApiServer, pod};

#[tokio::test]
async fn status_says_why_things_wait_and_then_what_a_node_sees() {
    let server = ApiServer::with_cluster();
    let nodes = MemoryNodes::of(&["demo-pool-1", "demo-pool-2"]);
    nodes.put_admin(&server);
    // The only cluster of the namespace need not be named. The first pod does not answer, and the next one
    // is asked.
    let looked = look(&server.session(), &nodes, None).await.expect("a cluster");
    let reply = looked.reply.expect("an answer");
    assert_eq!(verdict(&reply), ClusterVerdict::Degraded);
    assert_eq!(nodes.opened(), ["demo-pool-0", "demo-pool-1"]);
    let text = looked.text;
    for said in [
        "StorageCluster demo in namespace storage: Ready=True Serving: all sets\n",
        "  nodes ready 3/4, volumes online 3/4, volumes healing 0, version 0.1.0\n",
        "the operator has not taken up the last change of the specification yet\n",
        "  Degraded=True NodeDown since 2026-11-28T22:12:01Z: nodes that do not answer: demo-pool-3?[2J\n",
        "  rollout: 1 of 4 pods are replaced; waiting: demo-pool-3 is not ready; still to come: demo-pool-2, demo-pool-1, demo-pool-0\n",
        "  drain: the budget demo-pool lets no pod go: 3 of 4 pods are ready, 4 must be; NodeDown: ",
        "  pod demo-pool-3: Running, not ready\n",
        "  heal: 0 volumes are not healed; NodeDown: ",
        "\ncluster demo, as demo-pool-1 sees it: serves, degraded\n",
        "demo-pool-3 does not answer\n",
    ] {
        assert!(text.contains(said), "{said:?} in\n{text}");
    }
    for quiet in ["Paused", "UpgradeBlocked", "\u{1b}"] {
        assert!(!text.contains(quiet), "{quiet} in\n{text}");
    }
}

#[tokio::test]
async fn a_nodes_certificate_does_where_the_cluster_gives_none_of_an_admin() {
    let server = ApiServer::with_cluster();
    let nodes = MemoryNodes::of(&["demo-pool-0"]);
    nodes.put_nodes(&server);
    let looked = look(&server.session(), &nodes, Some("demo")).await.expect("a cluster");
    assert_eq!(looked.reply.expect("an answer").node, "demo-pool-0");
}

#[tokio::test]
async fn what_cannot_be_read_is_named_and_the_rest_is_printed() {
    let server = ApiServer::with_cluster();
    let nodes = MemoryNodes::of(&["demo-pool-0"]);
    server.forbid("/secrets/");
    let looked = look(&server.session(), &nodes, None).await.expect("a cluster");
    assert!(
        looked.text.contains("StorageCluster demo") && looked.text.contains("drain: "),
        "{}",
        looked.text
    );
    let error = looked.reply.expect_err("no certificate").to_string();
    let right =
        "you lack a right: get secrets demo-pool-certificates in namespace storage; the API server says: ";
    assert!(error.starts_with(right) && !error.contains('\u{1b}'), "{error}");
    assert!(nodes.opened().is_empty());

    server.forbid("/poddisruptionbudgets");
    let looked = look(&server.session(), &nodes, None).await.expect("a cluster");
    let said = "drain: you lack a right: list poddisruptionbudgets.policy in namespace storage";
    assert!(looked.text.contains(said), "{}", looked.text);
}

#[tokio::test]
async fn a_node_is_taken_for_another_by_no_certificate() {
    let server = ApiServer::with_cluster();
    let mut nodes = MemoryNodes::of(&["demo-pool-0"]);
    nodes.put_admin(&server);
    nodes.show_as("demo-pool-0", "demo-pool-9");
    let looked = look(&server.session(), &nodes, None).await.expect("a cluster");
    let error = looked.reply.expect_err("none is what it should be").to_string();
    assert!(error.starts_with("no node of StorageCluster demo answers: demo-pool-0: "), "{error}");
    assert!(error.contains("demo-pool-1: connection refused on port 9100"), "{error}");
}

#[tokio::test]
async fn the_cluster_is_named_where_there_are_several_and_told_from_none() {
    let server = ApiServer::with_cluster();
    let nodes = MemoryNodes::of(&[]);
    let mut second = serde_json::json!({"apiVersion": "sherd.dev/v1alpha1", "kind": "StorageCluster"});
    second["metadata"] = serde_json::json!({"name": "archive", "namespace": "storage"});
    second["spec"] = serde_json::json!({"pools": [{"name": "pool"}], "unknown": {"field": 1}});
    server.put("/apis/sherd.dev/v1alpha1", "storageclusters", second);
    let error = look(&server.session(), &nodes, None).await.expect_err("two").to_string();
    assert!(error.ends_with("archive, demo"), "{error}");
    // The cluster `archive` has no report yet, and its fields are of another version.
    let looked = look(&server.session(), &nodes, Some("archive")).await.expect("it is there");
    assert!(
        looked.text.contains("archive in namespace storage: no report by the operator yet"),
        "{}",
        looked.text
    );
    let missing = look(&server.session(), &nodes, Some("demo2")).await.expect_err("no such");
    assert!(matches!(missing, PluginError::Missing { .. }), "{missing}");
    for name in ["demo", "archive"] {
        server.delete(&format!("/apis/sherd.dev/v1alpha1/namespaces/storage/storageclusters/{name}"));
    }
    let error = look(&server.session(), &nodes, None).await.expect_err("none").to_string();
    assert!(error.starts_with("namespace storage has no StorageCluster"), "{error}");
}

#[tokio::test]
async fn a_pod_that_does_not_start_is_not_asked() {
    let server = ApiServer::with_cluster();
    let nodes = MemoryNodes::of(&["demo-pool-1"]);
    nodes.put_admin(&server);
    let mut first = pod("demo-pool-0", false);
    first["status"] = serde_json::json!({"phase": "Pending", "containerStatuses": [{"name": "node", "image": "",
        "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]});
    server.put("/api/v1", "pods", first);
    let looked = look(&server.session(), &nodes, None).await.expect("a cluster");
    assert!(looked.text.contains("pod demo-pool-0: ImagePullBackOff: no such image\n"), "{}", looked.text);
    assert_eq!(looked.reply.expect("an answer").node, "demo-pool-1");
    assert_eq!(nodes.opened(), ["demo-pool-1"]);
}
