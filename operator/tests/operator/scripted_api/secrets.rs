//! Secrets that are lost, or of which two are there: nothing is made or chosen in their place.

use super::*;

const KEPT: [&str; 4] = [AUTHORITY, CREDENTIALS, MASTER_KEY, RECOVERY];
/// Another master key than any cluster's.
const OTHER_KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

async fn a_cluster_that_serves() -> ApiServer {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::Ready, "True", "Serving");
    server
}

fn data(server: &ApiServer, path: &str) -> Option<Value> {
    server.get(path).map(|secret| secret["data"].clone())
}

fn with_master_key(server: &ApiServer, key: &Value) {
    let mut secret = server.get(MASTER_KEY).expect("there");
    secret["data"] = json!({"master.key": key});
    server.put(MASTER_KEY, secret);
}

fn make_cluster_again(server: &ApiServer) {
    let owned = |path: &String| server.get(path).expect("there")["metadata"]["ownerReferences"].is_array();
    for path in server.paths().iter().filter(|path| owned(path)) {
        server.delete(path);
    }
    let mut again = server.get(CLUSTER).expect("there");
    again["metadata"]["uid"] = json!("another");
    again.as_object_mut().expect("an object").remove("status");
    server.put(CLUSTER, again);
}

/// Another value would cut off every client, or make every secret of a user unreadable. The pods run on, and
/// everything goes on when the right value is back.
#[tokio::test]
async fn a_value_that_was_random_is_not_made_again() {
    for (lost, words) in [(MASTER_KEY, "demo-master-key"), (CREDENTIALS, "demo-root-credentials")] {
        let server = a_cluster_that_serves().await;
        let before = KEPT.map(|path| server.get(path));
        let right = server.get(lost).expect("made");
        let (set, config) = (server.get(STATEFUL_SET), config(&server));
        for path in [lost, RECOVERY, &config] {
            server.delete(path);
        }
        let operator = context(&server);
        for _ in 0..2 {
            let status = reconcile(&operator, &cluster(&server)).await.expect("reported");
            says(&status, ConditionType::CredentialsReady, "False", "SecretMissing");
            says(&status, ConditionType::Ready, "True", "Serving");
            let message = message(&status, ConditionType::CredentialsReady);
            assert!(message.contains(words) && message.contains("restore"), "{message}");
        }
        for path in [lost, RECOVERY, &config] {
            assert!(server.get(path).is_none(), "{path} is not made");
        }
        assert_eq!(server.get(STATEFUL_SET), set, "pods keep what they mount");
        assert!(events(&server).contains(&"SecretMissing".to_owned()));

        server.put(lost, right);
        let status = reconcile(&operator, &cluster(&server)).await.expect("reconciled");
        says(&status, ConditionType::CredentialsReady, "True", "Generated");
        assert!(server.get(&config).is_some());
        let datas = |secret: &Option<Value>| secret.as_ref().map(|secret| secret["data"].clone());
        assert_eq!(KEPT.map(|path| data(&server, path)), before.each_ref().map(datas));
    }
}

/// The Secret with the CA outlives the StorageCluster.
#[tokio::test]
async fn a_cluster_that_is_made_again_draws_nothing() {
    let server = a_cluster_that_serves().await;
    make_cluster_again(&server);
    for path in [CREDENTIALS, MASTER_KEY, RECOVERY] {
        server.delete(path);
    }
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CredentialsReady, "False", "SecretMissing");
    for path in [CREDENTIALS, MASTER_KEY, RECOVERY, STATEFUL_SET] {
        assert!(server.get(path).is_none(), "{path}");
    }
}

/// A person may choose root credentials where those that the operator made are lost.
#[tokio::test]
async fn credentials_of_a_person_end_the_loss_of_those_that_were_made() {
    let server = a_cluster_that_serves().await;
    server.delete(CREDENTIALS);
    server.delete(RECOVERY);
    server.put(
        "/api/v1/namespaces/storage/secrets/mine",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": "storage"},
            "data": {"AWS_ACCESS_KEY_ID": "cm9vdA==", "AWS_SECRET_ACCESS_KEY": "bG9uZ2Vub3VnaA=="}}),
    );
    change_spec(&server, |spec| spec["credentials"] = json!({"secretRef": {"name": "mine"}}));
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CredentialsReady, "True", "Provided");
    assert!(server.get(CREDENTIALS).is_none());
    assert!(data(&server, RECOVERY).expect("made")["AWS_ACCESS_KEY_ID"].is_null(), "none are made");
}

/// Credentials that are not used are made with the cluster.
#[tokio::test]
async fn a_cluster_may_leave_the_credentials_of_a_person() {
    let server = a_cluster();
    server.put(
        "/api/v1/namespaces/storage/secrets/mine",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": "storage"},
            "data": {"AWS_ACCESS_KEY_ID": "cm9vdA==", "AWS_SECRET_ACCESS_KEY": "bG9uZ2Vub3VnaA=="}}),
    );
    change_spec(&server, |spec| spec["credentials"] = json!({"secretRef": {"name": "mine"}}));
    step(&server).await.expect("reconciled");
    let made = data(&server, RECOVERY).expect("made")["AWS_ACCESS_KEY_ID"].clone();
    change_spec(&server, |spec| drop(spec.as_object_mut().expect("an object").remove("credentials")));
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CredentialsReady, "True", "Generated");
    assert_eq!(data(&server, CREDENTIALS).expect("made")["AWS_ACCESS_KEY_ID"], made);
}

/// Two master keys, of which a person may have restored either: none is written over, and the one whose
/// Secret stays is the cluster's.
#[tokio::test]
async fn of_two_master_keys_none_is_chosen() {
    for (deleted, stays) in [(RECOVERY, MASTER_KEY), (MASTER_KEY, RECOVERY)] {
        let server = a_cluster_that_serves().await;
        let operator = context(&server);
        reconcile(&operator, &cluster(&server)).await.expect("remembered");
        let own = data(&server, MASTER_KEY).expect("made")["master.key"].clone();
        with_master_key(&server, &json!(OTHER_KEY));
        let before = KEPT.map(|path| server.get(path));
        let status = reconcile(&operator, &cluster(&server)).await.expect("reported");
        says(&status, ConditionType::CredentialsReady, "False", "SecretsDiffer");
        says(&status, ConditionType::Ready, "True", "Serving");
        let message = message(&status, ConditionType::CredentialsReady);
        // The beginning of the SHA-256 of the other key's bytes.
        assert!(
            message.contains("digest 861009ec4d599fab") && message.contains("demo-recovery"),
            "{message}"
        );
        let own = own.as_str().expect("text");
        assert!(!message.contains(own) && !message.contains(OTHER_KEY), "{message}");
        assert_eq!(KEPT.map(|path| server.get(path)), before, "none is written over");
        assert!(events(&server).contains(&"SecretsDiffer".to_owned()));

        let chosen = data(&server, stays).expect("there")["master.key"].clone();
        server.delete(deleted);
        let status = reconcile(&operator, &cluster(&server)).await.expect("reconciled");
        says(&status, ConditionType::CredentialsReady, "True", "Generated");
        for path in [MASTER_KEY, RECOVERY] {
            assert_eq!(data(&server, path).expect("there")["master.key"], chosen, "{path}");
        }
    }
}

/// A backup of a cluster of the same name in another namespace, restored here, fits its own digest.
#[tokio::test]
async fn the_copy_of_another_cluster_is_not_believed() {
    let (server, other) = (a_cluster_that_serves().await, a_cluster_that_serves().await);
    let before = [AUTHORITY, CREDENTIALS, MASTER_KEY, RECOVERY].map(|path| data(&server, path));
    let template = server.get(STATEFUL_SET).expect("made")["spec"].clone();
    assert_ne!(data(&other, RECOVERY), before[3], "each cluster has values of its own");
    for lost in [None, Some(MASTER_KEY), Some(CREDENTIALS)] {
        let mut foreign = server.get(RECOVERY).expect("made");
        let restored = other.get(RECOVERY).expect("made");
        foreign["data"] = restored["data"].clone();
        foreign["metadata"]["annotations"] = restored["metadata"]["annotations"].clone();
        server.put(RECOVERY, foreign);
        let kept = lost.map(|path| server.get(path).expect("made"));
        if let Some(path) = lost {
            server.delete(path);
        }
        // An operator that remembers nothing.
        let status = reconcile(&context(&server), &cluster(&server)).await.expect("reconciled");
        if let (Some(path), Some(kept)) = (lost, kept) {
            says(&status, ConditionType::CredentialsReady, "False", "SecretMissing");
            assert!(server.get(path).is_none(), "nothing is made of the values of another cluster");
            server.put(path, kept);
            reconcile(&context(&server), &cluster(&server)).await.expect("reconciled");
        }
        let after = [AUTHORITY, CREDENTIALS, MASTER_KEY, RECOVERY].map(|path| data(&server, path));
        assert_eq!(after, before, "{lost:?}");
        assert_eq!(server.get(STATEFUL_SET).expect("there")["spec"], template, "{lost:?}");
    }
}
