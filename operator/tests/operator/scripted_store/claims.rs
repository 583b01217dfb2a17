//! The installation that works on an object: the one with the lease of the cluster's namespace, and no lease
//! that a tenant may write.

use http::Method;
use serde_json::json;

use super::store::StoreFault;
use super::users::{APP, KEY, PHOTOS, READY, a_user, step};
use super::*;
use crate::scripted_api::server::Fault;

fn lease(namespace: &str, holder: &str) -> (String, Value) {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/sherd-clusters");
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "sherd-clusters", "namespace": namespace, "resourceVersion": "0"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 120},
    });
    (path, object)
}

/// Kubernetes' role `edit` may write leases.
#[tokio::test]
async fn a_lease_in_a_tenants_namespace_keeps_no_right() {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    let (path, held) = lease("team", "mallory");
    server.put(&path, held.clone());
    change(&server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = json!([]));
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "NamespaceNotAllowed");
    says(&server, APP, KEY, "False", "Suspended");
    assert!(store.user("team.app").expect("there").keys.iter().all(|(_, active)| !active));
    assert_eq!(server.get(&path), Some(held));
    let requests = server.take_requests();
    assert!(!requests.iter().any(|(_, at)| at.contains("namespaces/team/leases")), "{requests:?}");
}

#[tokio::test]
async fn the_lease_of_the_clusters_namespace_says_who_works_on_its_users() {
    let (server, store) = a_user();
    let (path, held) = lease("storage", "other/sherd-operator");
    server.put(&path, held);
    step(&server, &store).await.expect("left alone");
    step_bucket(&server, &store).await;
    assert_eq!(store.take_changes(), Vec::<String>::new());
    for path in [APP, PHOTOS] {
        let object = server.get(path).expect("there");
        assert!(object["status"].is_null() && object["metadata"]["finalizers"].is_null(), "{object}");
    }
    server.delete(&path);
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
}

async fn step_bucket(server: &ApiServer, store: &ScriptedStore) {
    let bucket = serde_json::from_value(server.get(PHOTOS).expect("there")).expect("decodes");
    sherd_operator::buckets::bucket::reconcile(&context(server, store), &bucket).await.expect("left alone");
}

/// Of two operators that see a namespace one may see that of the cluster.
#[tokio::test]
async fn an_operator_that_cannot_look_at_the_cluster_undoes_no_report() {
    let (server, store) = a_user();
    server.fail(Method::GET, "storageclusters/demo", Fault::Code(403));
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "ClusterMissing");
    server.mend();
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
    server.fail(Method::GET, "storageclusters/demo", Fault::Code(403));
    store.fail("", StoreFault::Silent);
    step(&server, &store).await.expect("left alone");
    says(&server, APP, READY, "True", "AsAsked");
    begin_deletion(&server, APP);
    step(&server, &store).await.expect("waits");
    says(&server, APP, AccessCondition::DeletionBlocked, "True", "ClusterMissing");
}
