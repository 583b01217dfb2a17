//! The operator against an API server in memory: whole reconciles, faults on the way, and two operators
//! that want to lead.

mod admin;
mod drift;
mod faults;
mod foreign_template;
mod formed;
mod geometry;
mod growth;
mod lease;
mod losses;
mod owners;
mod platform;
mod recorded;
mod rollouts;
mod s3_tls;
mod secrets;
mod trust;
pub(crate) mod server;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::{Recorder, Reporter};
use serde_json::{Value, json};
use sherd_operator::api::{ClusterStatus, ConditionType, StorageCluster};
use sherd_operator::controller::{self, WatchedNamespaces};
use sherd_operator::lease::{NamespaceClaim, NamespaceLeases};
use sherd_operator::metrics::Metrics;
use sherd_operator::reconcile::cache::ObjectCache;
use sherd_operator::reconcile::children::AppliedChildren;
use sherd_operator::reconcile::image::ImageName;
use sherd_operator::reconcile::platform::Platform;
use sherd_operator::reconcile::recovery::RememberedSecrets;
use sherd_operator::reconcile::{
    Context, EvictionRefusals, NodeOrder, NodeQuestion, PartialReports, ReconcileError, StatusSource,
    reconcile,
};
use sherd_operator::rotation::ClusterTrust;
use sherd_operator::turns::UserTurns;
use sherd_proto::v1::{Formation, NodeStatus, SetStatus, StatusReply, VolumeReport, VolumeState};
use sherd_trust::Authority;
use tokio_util::sync::CancellationToken;

use self::server::{ApiServer, Fault};
use crate::scripted_store::store::ScriptedStore;

const CLUSTER: &str = "/apis/sherd.dev/v1alpha1/namespaces/storage/storageclusters/demo";
const STATEFUL_SET: &str = "/apis/apps/v1/namespaces/storage/statefulsets/demo-pool-0";
const AUTHORITY: &str = "/api/v1/namespaces/storage/secrets/demo-ca";
const CREDENTIALS: &str = "/api/v1/namespaces/storage/secrets/demo-root-credentials";
const MASTER_KEY: &str = "/api/v1/namespaces/storage/secrets/demo-master-key";
const CERTIFICATES: &str = "/api/v1/namespaces/storage/secrets/demo-pool-0-certificates";
const RECOVERY: &str = "/api/v1/namespaces/storage/secrets/demo-recovery";
const MINE: &str = "/api/v1/namespaces/storage/secrets/mine";
const NODE_CREDENTIALS: &str = "/api/v1/namespaces/storage/secrets/demo-node-credentials";
const SERVICE: &str = "/api/v1/namespaces/storage/services/demo-s3";
const BUDGET: &str = "/apis/policy/v1/namespaces/storage/poddisruptionbudgets/demo-pool-0";
const POLICY: &str = "/apis/networking.k8s.io/v1/namespaces/storage/networkpolicies/demo-node";
const CLAIM: &str = "/api/v1/namespaces/storage/persistentvolumeclaims/v1-demo-pool-0-0";

/// Nodes that answer that all is well.
pub(crate) struct WellNodes;

impl StatusSource for WellNodes {
    fn ask(
        &self,
        _: &Arc<ClusterTrust>,
        question: NodeQuestion,
        _: Duration,
    ) -> BoxFuture<'static, Result<StatusReply, String>> {
        assert_eq!(question.address, format!("{}.demo-nodes.storage.svc:9100", question.pod));
        let version = "0.1.0".to_owned();
        let node = NodeStatus { name: question.pod.clone(), up: true, version, ..NodeStatus::default() };
        let volume = VolumeReport {
            node: question.pod,
            state: VolumeState::Online.into(),
            healed: true,
            ..VolumeReport::default()
        };
        let set = SetStatus {
            volumes: 1,
            accept: 1,
            prepare: 1,
            voting: 1,
            takes_shards: true,
            ..SetStatus::default()
        };
        let reply = StatusReply {
            formation: Some(Formation { formed: true, ..Formation::default() }),
            nodes: vec![node],
            volumes: vec![volume],
            sets: vec![set],
            ..StatusReply::default()
        };
        Box::pin(std::future::ready(Ok(reply)))
    }

    fn order(
        &self,
        _: &Arc<ClusterTrust>,
        _: NodeQuestion,
        order: NodeOrder,
        _: Duration,
    ) -> BoxFuture<'static, Result<String, String>> {
        panic!("no test gave the order {order:?}")
    }
}

fn context(server: &ApiServer) -> Context {
    Context {
        client: server.client(),
        default_image: ImageName::tagged("sherd-node", "1"),
        nodes: Arc::new(WellNodes),
        calls: Arc::new(ScriptedStore::default()),
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
        now: || Timestamp::from_second(1_800_000_000).expect("a time"),
    }
}

/// The namespace of the tests.
fn watched() -> WatchedNamespaces {
    WatchedNamespaces { clusters: vec!["storage".to_owned()], ..WatchedNamespaces::default() }
}

/// A server with a StorageCluster of one node.
fn a_cluster() -> ApiServer {
    let server = ApiServer::default();
    server.put(
        CLUSTER,
        json!({
            "apiVersion": "sherd.dev/v1alpha1",
            "kind": "StorageCluster",
            "metadata": {"name": "demo", "namespace": "storage", "uid": "u", "generation": 1, "resourceVersion": "0"},
            "spec": {"pools": [{
                "name": "pool-0",
                "nodes": 1,
                "volumeClaimTemplate": {"resources": {"requests": {"storage": "1Gi"}}},
            }]},
        }),
    );
    server
}

/// The configuration that the StatefulSet's template mounts.
fn config(server: &ApiServer) -> String {
    let set = server.get(STATEFUL_SET).expect("made");
    let name = set["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"].as_str().expect("a name");
    format!("/api/v1/namespaces/storage/configmaps/{name}")
}

fn change_spec(server: &ApiServer, change: impl FnOnce(&mut Value)) {
    let mut cluster = server.get(CLUSTER).expect("there");
    change(&mut cluster["spec"]);
    server.put(CLUSTER, cluster);
}

/// A Secret of a user with root credentials.
fn users_pair(id: &str, secret: &str) -> Value {
    let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": "storage"},
        "data": {"AWS_ACCESS_KEY_ID": encode(id), "AWS_SECRET_ACCESS_KEY": encode(secret)}})
}

/// The file with the root credentials that nodes accept.
fn node_credentials(server: &ApiServer) -> String {
    let file = server.get(NODE_CREDENTIALS).expect("made")["data"]["credentials.env"].clone();
    let file =
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, file.as_str().expect("a value"));
    String::from_utf8(file.expect("base64")).expect("a text")
}

fn cluster(server: &ApiServer) -> StorageCluster {
    serde_json::from_value(server.get(CLUSTER).expect("there")).expect("decodes")
}

async fn step(server: &ApiServer) -> Result<ClusterStatus, ReconcileError> {
    reconcile(&context(server), &cluster(server)).await
}

/// The id in the Secret with the CA.
fn cluster_id(server: &ApiServer) -> String {
    let id = &server.get(AUTHORITY).expect("made")["data"]["cluster-id"];
    let id = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, id.as_str().expect("text"));
    String::from_utf8(id.expect("base64")).expect("text")
}

/// Plays the StatefulSet's controller.
fn pods_come_up(server: &ApiServer) {
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
    server.put(
        CLAIM,
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
            "name": "v1-demo-pool-0-0", "namespace": "storage",
            "labels": {"sherd.dev/cluster": "demo", "sherd.dev/cluster-id": cluster_id(server)},
        }}),
    );
}

#[track_caller]
fn says(status: &ClusterStatus, condition: ConditionType, value: &str, reason: &str) {
    let found = status.conditions.iter().find(|found| found.type_ == condition.as_str()).expect("reported");
    assert_eq!((found.status.as_str(), found.reason.as_str()), (value, reason), "{}", found.message);
}

fn message(status: &ClusterStatus, condition: ConditionType) -> String {
    let found = status.conditions.iter().find(|found| found.type_ == condition.as_str());
    found.expect("reported").message.clone()
}

fn reported(server: &ApiServer) -> ClusterStatus {
    serde_json::from_value(server.get(CLUSTER).expect("there")["status"].clone()).expect("reported")
}

fn events(server: &ApiServer) -> Vec<String> {
    let reason =
        |path: &String| server.get(path).expect("there")["reason"].as_str().unwrap_or_default().to_owned();
    server.paths().iter().filter(|path| path.contains("/events/")).map(reason).collect()
}

#[tokio::test]
async fn a_first_reconcile_makes_every_child_and_a_second_changes_nothing() {
    let server = a_cluster();
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::Ready, "False", "Forming");
    let config = config(&server);
    for path in [STATEFUL_SET, AUTHORITY, RECOVERY, CREDENTIALS, MASTER_KEY, CERTIFICATES, &config, POLICY] {
        assert!(server.get(path).is_some(), "{path}");
    }
    assert!(events(&server).contains(&"Forming".to_owned()), "{:?}", events(&server));
    pods_come_up(&server);
    let operator = context(&server);
    let status = reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    says(&status, ConditionType::Ready, "True", "Serving");
    reconcile(&operator, &cluster(&server)).await.expect("its claims say of what geometry they are");
    server.take_changes();
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    assert_eq!(server.take_changes(), vec![], "nothing changes, no event is published");
}

#[tokio::test]
async fn a_child_that_is_deleted_or_edited_comes_back() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    step(&server).await.expect("reconciled");
    let (credentials, at) = (server.get(CREDENTIALS).expect("made"), config(&server));
    let before = server.get(&at).expect("made");
    for path in [STATEFUL_SET, CREDENTIALS, CERTIFICATES, &at, POLICY] {
        server.delete(path);
    }
    step(&server).await.expect("reconciled");
    for path in [STATEFUL_SET, CERTIFICATES, &at, POLICY] {
        assert!(server.get(path).is_some(), "{path}");
    }
    assert_eq!(server.get(&at).expect("back")["data"], before["data"]);
    assert_eq!(server.get(CREDENTIALS).expect("back")["data"], credentials["data"], "with the same bytes");

    let mut edited = server.get(CREDENTIALS).expect("back");
    edited["data"]["AWS_SECRET_ACCESS_KEY"] = json!("b3RoZXI=");
    server.put(CREDENTIALS, edited);
    step(&server).await.expect("reconciled");
    assert_eq!(server.get(CREDENTIALS).expect("mended")["data"], credentials["data"]);
}

/// Under another master key nodes could not open the secrets that they keep.
#[tokio::test]
async fn a_master_key_comes_back_as_it_was_and_is_never_replaced() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    let made = server.get(MASTER_KEY).expect("made")["data"].clone();
    let bytes = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        made["master.key"].as_str().expect("text"),
    );
    assert_eq!(bytes.expect("base64").len(), 32);
    server.delete(MASTER_KEY);
    step(&server).await.expect("reconciled");
    assert_eq!(server.get(MASTER_KEY).expect("back")["data"], made);
    let mut edited = server.get(MASTER_KEY).expect("there");
    edited["data"] = json!({"master.key": "c2hvcnQ="});
    server.put(MASTER_KEY, edited.clone());
    step(&server).await.expect("reconciled");
    assert_eq!(server.get(MASTER_KEY).expect("put back")["data"], made);
    // A key that a person brought before is kept, and one that is malformed is named.
    for path in [RECOVERY, MASTER_KEY] {
        server.delete(path);
    }
    server.put(MASTER_KEY, edited.clone());
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CredentialsReady, "False", "SecretMalformed");
    edited["data"] = json!({"master.key": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="});
    server.put(MASTER_KEY, edited.clone());
    step(&server).await.expect("reconciled");
    assert_eq!(server.get(MASTER_KEY).expect("kept")["data"], edited["data"]);
}

/// Each Secret is put back from the copy, by a process that never saw the one before; the copy from the
/// others; and all of them by the process that made them.
#[tokio::test]
async fn what_cannot_be_made_again_is_put_back() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let secrets = [AUTHORITY, CREDENTIALS, MASTER_KEY, RECOVERY];
    let data = || secrets.map(|path| server.get(path).map(|secret| secret["data"].clone()));
    let made = data();
    for deleted in [&secrets[..3], &[RECOVERY], &[AUTHORITY]] {
        for path in deleted {
            server.delete(path);
        }
        let status = step(&server).await.expect("reconciled");
        says(&status, ConditionType::CertificatesReady, "True", "Issued");
        assert_eq!(data(), made, "{deleted:?}");
    }
    let operator = context(&server);
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    for path in secrets {
        server.delete(path);
    }
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    assert_eq!(data(), made, "all at once");
    // A copy that was edited and a Secret that lost its label at the same time hold up nothing.
    for (path, part, key) in [(RECOVERY, "data", "ca.key"), (MASTER_KEY, "metadata", "labels")] {
        let mut edited = server.get(path).expect("there");
        edited[part][key] = if part == "data" { json!("b3RoZXI=") } else { json!({}) };
        server.put(path, edited);
    }
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    assert_eq!(data(), made);
    assert_eq!(server.get(MASTER_KEY).expect("there")["metadata"]["labels"]["sherd.dev/cluster"], "demo");
    // No text is taken from a copy that was edited.
    let mut edited = server.get(RECOVERY).expect("there");
    edited["data"]["AWS_SECRET_ACCESS_KEY"] = json!("b3RoZXI=");
    server.put(RECOVERY, edited);
    step(&server).await.expect("reconciled");
    assert_eq!(data(), made);
    // A part that does not fit is put back as if it were missing.
    let mut edited = server.get(AUTHORITY).expect("there");
    edited["data"]["ca.key"] = json!("b3RoZXI=");
    server.put(AUTHORITY, edited);
    step(&server).await.expect("reconciled");
    assert_eq!(data(), made);
}

/// A second CA would part the cluster from its volumes.
#[tokio::test]
async fn an_authority_of_which_no_copy_is_left_stops_changes_and_is_not_made_again() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    step(&server).await.expect("reconciled");
    let (authority, config) = (server.get(AUTHORITY).expect("made"), config(&server));
    for path in [AUTHORITY, RECOVERY, &config] {
        server.delete(path);
    }
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "False", "AuthorityMissing");
    assert!(server.get(AUTHORITY).is_none() && server.get(&config).is_none(), "nothing is changed");
    assert!(events(&server).contains(&"AuthorityMissing".to_owned()));
    server.put(AUTHORITY, authority);
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "True", "Issued");
    assert!(server.get(&config).is_some());
}

#[tokio::test]
async fn a_cluster_of_the_same_name_adopts_what_was_kept() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let (authority, credentials) =
        (server.get(AUTHORITY).expect("made"), server.get(CREDENTIALS).expect("made"));
    // The garbage collector removes what has an owner.
    for path in server.paths() {
        if server.get(&path).expect("there")["metadata"]["ownerReferences"].is_array() {
            server.delete(&path);
        }
    }
    let mut again = server.get(CLUSTER).expect("there");
    again["metadata"]["uid"] = json!("another");
    again.as_object_mut().expect("an object").remove("status");
    server.put(CLUSTER, again);
    let status = step(&server).await.expect("reconciled");
    assert_eq!(server.get(AUTHORITY).expect("kept")["data"], authority["data"]);
    assert_eq!(server.get(CREDENTIALS).expect("kept")["data"], credentials["data"]);
    let set = server.get(STATEFUL_SET).expect("made");
    let id = &set["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"]["sherd.dev/cluster-id"];
    assert_eq!(id.as_str(), status.cluster_id.as_deref());
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], "another");
}

/// The documented way out of the loss of a CA: another one with the cluster's id, and the cluster made again.
/// No key of a client follows from it.
#[tokio::test]
async fn a_lost_authority_is_replaced_by_making_the_cluster_again() {
    let server = a_cluster();
    let id = step(&server).await.expect("reconciled").cluster_id.expect("recorded");
    pods_come_up(&server);
    let data = || [CREDENTIALS, MASTER_KEY].map(|path| server.get(path).expect("there")["data"].clone());
    let before = data();
    let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    let cluster_id = sherd_core::id::ClusterId::parse(&id).expect("an id");
    let other = Authority::init(cluster_id, 1_800_000_000_000).expect("made");
    server.delete(RECOVERY);
    let data_of_other = json!({
        "cluster-id": encode(&id), "ca.crt": encode(other.certificate()), "ca.key": encode(&other.key()),
    });
    server.put(
        AUTHORITY,
        json!({"metadata": {"name": "demo-ca", "namespace": "storage"}, "data": data_of_other}),
    );
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "False", "AuthorityChanged");
    for path in server.paths() {
        if server.get(&path).expect("there")["metadata"]["ownerReferences"].is_array() {
            server.delete(&path);
        }
    }
    let mut again = server.get(CLUSTER).expect("there");
    again["metadata"]["uid"] = json!("another");
    again.as_object_mut().expect("an object").remove("status");
    server.put(CLUSTER, again);
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "True", "Issued");
    assert_eq!(status.cluster_id, Some(id));
    assert_eq!(data(), before);
    assert_eq!(server.get(RECOVERY).expect("made")["data"]["ca.key"], data_of_other["ca.key"]);
}

/// A fault that a person must mend is reported while the operator changes nothing, too; and pods that serve
/// are not called silent because the CA to ask them with is missing.
#[tokio::test]
async fn a_paused_cluster_without_its_authority_says_so() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    step(&server).await.expect("reconciled");
    change_spec(&server, |spec| spec["paused"] = json!(true));
    server.delete(AUTHORITY);
    server.delete(RECOVERY);
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "False", "AuthorityMissing");
    says(&status, ConditionType::Ready, "Unknown", "AuthorityMissing");
    says(&status, ConditionType::Paused, "True", "PausedBySpec");
}

#[tokio::test]
async fn what_a_person_must_mend_changes_nothing() {
    let server = a_cluster();
    change_spec(&server, |spec| spec["credentials"] = json!({"secretRef": {"name": "mine"}}));
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CredentialsReady, "False", "SecretMissing");
    assert!(server.get(STATEFUL_SET).is_none() && server.get(AUTHORITY).is_none());
    server.put(
        "/api/v1/namespaces/storage/secrets/mine",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": "storage"},
            "data": {"AWS_ACCESS_KEY_ID": "cm9vdA==", "AWS_SECRET_ACCESS_KEY": "bG9uZ2Vub3VnaA=="}}),
    );
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CredentialsReady, "True", "Provided");
    assert!(server.get(STATEFUL_SET).is_some() && server.get(CREDENTIALS).is_none());

    let server = a_cluster();
    change_spec(&server, |spec| spec["pools"][0]["erasure"] = json!({"setSize": 2, "parity": 2}));
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::SpecValid, "False", "SpecInvalid");
    assert!(server.get(STATEFUL_SET).is_none());
}

#[tokio::test]
async fn a_paused_cluster_is_reported_and_not_changed() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    let config = config(&server);
    server.delete(&config);
    change_spec(&server, |spec| spec["paused"] = json!(true));
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::Paused, "True", "PausedBySpec");
    says(&status, ConditionType::Ready, "True", "Serving");
    assert!(server.get(&config).is_none(), "nothing is changed");
}

#[tokio::test]
async fn a_cluster_that_is_being_deleted_is_left_alone() {
    let server = a_cluster();
    let mut deleted = server.get(CLUSTER).expect("there");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    server.put(CLUSTER, deleted);
    step(&server).await.expect("left alone");
    assert_eq!(server.take_changes(), vec![]);
}
