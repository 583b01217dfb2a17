//! Buckets and BucketUsers against an API server and a cluster in memory.

mod buckets;
mod claims;
mod keys;
mod given;
mod rights;
mod sweep;
pub(crate) mod store;
mod tenants;
mod users;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::{Recorder, Reporter};
use serde_json::{Value, json};
use sherd_core::id::ClusterId;
use sherd_operator::api::AccessCondition;
use sherd_operator::lease::NamespaceLeases;
use sherd_operator::metrics::Metrics;
use sherd_operator::reconcile::cache::ObjectCache;
use sherd_operator::reconcile::children::AppliedChildren;
use sherd_operator::reconcile::image::ImageName;
use sherd_operator::reconcile::platform::Platform;
use sherd_operator::reconcile::recovery::RememberedSecrets;
use sherd_operator::reconcile::{Context, EvictionRefusals, PartialReports};
use sherd_operator::turns::UserTurns;
use sherd_trust::Authority;

use self::store::ScriptedStore;
use crate::scripted_api::WellNodes;
use crate::scripted_api::server::ApiServer;

const CLUSTER: &str = "/apis/sherd.dev/v1alpha1/namespaces/storage/storageclusters/demo";
const START: i64 = 1_800_000_000;

thread_local! {
    static NOW: Cell<i64> = const { Cell::new(START) };
}

/// Moves the clock of this test.
fn pass(time: Duration) {
    NOW.set(NOW.get() + i64::try_from(time.as_secs()).expect("short"));
}

fn context(server: &ApiServer, store: &ScriptedStore) -> Context {
    Context {
        client: server.client(),
        default_image: ImageName::tagged("sherd-node", "1"),
        nodes: Arc::new(WellNodes),
        calls: Arc::new(store.clone()),
        recorder: Recorder::new(
            server.client(),
            Reporter { controller: "sherd-operator".into(), instance: None },
        ),
        namespaces: NamespaceLeases::new(server.client(), "storage/sherd-operator", Timestamp::now),
        platform: Platform::default(),
        cache: ObjectCache::default(),
        children: AppliedChildren::default(),
        remembered: RememberedSecrets::default(),
        refusals: EvictionRefusals::default(),
        turns: UserTurns::default(),
        partial_reports: PartialReports::default(),
        metrics: Metrics::new().expect("declared once"),
        now: || Timestamp::from_second(NOW.get()).expect("a time"),
    }
}

/// A server with a StorageCluster `storage/demo` that serves, and that namespace `team` may use.
fn a_serving_cluster() -> (ApiServer, ScriptedStore) {
    NOW.set(START);
    let server = ApiServer::default();
    server.put(
        CLUSTER,
        json!({
            "apiVersion": "sherd.dev/v1alpha1",
            "kind": "StorageCluster",
            "metadata": {"name": "demo", "namespace": "storage", "uid": "u", "resourceVersion": "0"},
            "spec": {
                "pools": [{
                    "name": "pool-0",
                    "nodes": 1,
                    "volumeClaimTemplate": {"resources": {"requests": {"storage": "1Gi"}}},
                }],
                "bucketNamespaces": ["team"],
            },
            "status": {"wireVersion": 2},
        }),
    );
    let now_ms = u64::try_from(START).expect("positive") * 1_000;
    let authority = Authority::init(ClusterId([7; 16]), now_ms).expect("a CA");
    let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    server.put(
        "/api/v1/namespaces/storage/secrets/demo-ca",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "demo-ca", "namespace": "storage"},
        "data": {
            "cluster-id": encode(&authority.cluster().to_string()),
            "ca.crt": encode(authority.certificate()),
            "ca.key": encode(&authority.key()),
        }}),
    );
    server.put(
        "/api/v1/namespaces/storage/pods/demo-pool-0-0",
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "demo-pool-0-0", "namespace": "storage", "labels": {
                "app.kubernetes.io/name": "sherd-node", "sherd.dev/cluster": "demo",
            }},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
    (server, ScriptedStore::default())
}

/// Puts an object of this kind; `spec.cluster` is `storage/demo` where it names none.
fn put(server: &ApiServer, path: &str, kind: &str, mut spec: Value) {
    if spec["cluster"].is_null() {
        spec["cluster"] = json!({"name": "demo", "namespace": "storage"});
    }
    let parts: Vec<&str> = path.split('/').collect();
    let (namespace, name) = (parts[5], parts[7]);
    if server.get(&format!("/api/v1/namespaces/{namespace}")).is_none() {
        put_namespace(server, namespace, "0");
    }
    server.put(
        path,
        json!({
            "apiVersion": "sherd.dev/v1alpha1",
            "kind": kind,
            "metadata": {
                "name": name, "namespace": namespace, "uid": format!("uid-of-{namespace}-{name}"),
                "generation": 1, "resourceVersion": "0",
            },
            "spec": spec,
        }),
    );
}

/// Makes a namespace; `life` differs between two of one name.
fn put_namespace(server: &ApiServer, namespace: &str, life: &str) {
    let metadata = json!({"name": namespace, "uid": format!("{namespace}-{life}")});
    server.put(
        &format!("/api/v1/namespaces/{namespace}"),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}),
    );
}

/// Changes an object as a person would.
fn change(server: &ApiServer, path: &str, change: impl FnOnce(&mut Value)) {
    let mut object = server.get(path).expect("there");
    change(&mut object);
    server.put(path, object);
}

fn begin_deletion(server: &ApiServer, path: &str) {
    change(server, path, |object| {
        object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    });
}

fn condition(server: &ApiServer, path: &str, condition: AccessCondition) -> Condition {
    let object = server.get(path).expect("there");
    let conditions: Vec<Condition> =
        serde_json::from_value(object["status"]["conditions"].clone()).expect("conditions");
    let found = conditions.into_iter().find(|found| found.type_ == condition.as_str());
    found.expect("reported")
}

#[track_caller]
fn says(server: &ApiServer, path: &str, of: AccessCondition, status: &str, reason: &str) -> String {
    let found = condition(server, path, of);
    assert_eq!((found.status.as_str(), found.reason.as_str()), (status, reason), "{}", found.message);
    found.message
}
