//! `logs`: lines behind their pods' names, of the cluster's pods or of its operator.

use serde_json::json;
use sherd_kubectl::logs::{LogsArgs, logs};

use crate::server::{ApiServer, NAMESPACE, pod};

async fn printed(server: &ApiServer, arguments: LogsArgs) -> (String, Result<(), String>) {
    let mut out = Vec::new();
    let done = logs(&server.session(), &arguments, &mut out).await;
    (String::from_utf8(out).expect("text"), done.map_err(|error| error.to_string()))
}

#[tokio::test]
async fn lines_stand_behind_their_pods_and_pass_as_they_are() {
    let server = ApiServer::with_cluster();
    server.log(NAMESPACE, "demo-pool-0", "one\n\u{1b}[31mtwo\n");
    server.log(NAMESPACE, "demo-pool-1", "three");
    server.log(NAMESPACE, "demo-pool-3", "");
    let (text, done) = printed(&server, LogsArgs::default()).await;
    assert_eq!(text, "demo-pool-0  one\ndemo-pool-0  \u{1b}[31mtwo\ndemo-pool-1  three\n");
    let error = done.expect_err("one has no log");
    assert!(error.contains("get pods/log demo-pool-2"), "{error}");

    let since = std::time::Duration::from_mins(10);
    let one = LogsArgs { node: Some("1".to_owned()), since: Some(since), ..LogsArgs::default() };
    let (text, done) = printed(&server, one).await;
    assert_eq!((text.as_str(), done), ("demo-pool-1  three\n", Ok(())));
    let request = server.requests().pop().expect("the log");
    assert!(request.contains("container=node") && request.contains("sinceSeconds=600"), "{request}");
    let none = LogsArgs { node: Some("7".to_owned()), ..LogsArgs::default() };
    assert_eq!(printed(&server, none).await.1, Err("there is no pod 7 in namespace storage".to_owned()));
}

#[tokio::test]
async fn the_operator_is_found_by_the_lease_of_the_namespace() {
    let server = ApiServer::with_cluster();
    let lease = json!({"metadata": {"name": "sherd-clusters", "namespace": NAMESPACE},
        "spec": {"holderIdentity": "sherd-system/sherd-operator"}});
    server.put("/apis/coordination.k8s.io/v1", "leases", lease);
    let mut operator = pod("sherd-operator-5f", true);
    operator["metadata"]["namespace"] = json!("sherd-system");
    operator["metadata"]["labels"] = json!({"app.kubernetes.io/name": "sherd-operator"});
    server.put("/api/v1", "pods", operator);
    server.log("sherd-system", "sherd-operator-5f", "leading\n");
    let (text, done) = printed(&server, LogsArgs { operator: true, ..LogsArgs::default() }).await;
    assert_eq!((text.as_str(), done), ("sherd-operator-5f  leading\n", Ok(())));
}
