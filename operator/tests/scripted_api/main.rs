//! The operator against an API server in memory: whole reconciles, faults on the way, and two operators
//! that want to lead.

mod lease;
mod server;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::{Recorder, Reporter};
use serde_json::{Value, json};
use sherd_operator::api::{ClusterStatus, ConditionType, StorageCluster};
use sherd_operator::controller;
use sherd_operator::lease::NamespaceLeases;
use sherd_operator::metrics::Metrics;
use sherd_operator::plan::DefaultImage;
use sherd_operator::reconcile::{Context, NodeQuestion, ReconcileError, StatusSource, reconcile};
use sherd_proto::v1::{Formation, NodeStatus, SetStatus, StatusReply, VolumeReport, VolumeState};
use sherd_trust::Authority;
use tokio_util::sync::CancellationToken;

use server::{ApiServer, Fault};

const CLUSTER: &str = "/apis/sherd.dev/v1alpha1/namespaces/storage/storageclusters/demo";
const STATEFUL_SET: &str = "/apis/apps/v1/namespaces/storage/statefulsets/demo-pool-0";
const AUTHORITY: &str = "/api/v1/namespaces/storage/secrets/demo-ca";
const CREDENTIALS: &str = "/api/v1/namespaces/storage/secrets/demo-root-credentials";
const CERTIFICATES: &str = "/api/v1/namespaces/storage/secrets/demo-pool-0-certificates";
const CONFIG: &str = "/api/v1/namespaces/storage/configmaps/demo-config";
const POLICY: &str = "/apis/networking.k8s.io/v1/namespaces/storage/networkpolicies/demo-node";
const CLAIM: &str = "/api/v1/namespaces/storage/persistentvolumeclaims/v1-demo-pool-0-0";

/// Nodes that answer that all is well.
struct WellNodes;

impl StatusSource for WellNodes {
    fn ask(
        &self,
        _: &Arc<Authority>,
        question: NodeQuestion,
        _: Duration,
    ) -> BoxFuture<'static, Result<StatusReply, String>> {
        assert_eq!(question.address, format!("{}.demo-nodes.storage.svc:9100", question.pod));
        let node = NodeStatus { name: question.pod.clone(), up: true, ..NodeStatus::default() };
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
}

fn context(server: &ApiServer) -> Context {
    Context {
        client: server.client(),
        default_image: DefaultImage { repository: "sherd-node".to_owned(), tag: "1".to_owned() },
        nodes: Arc::new(WellNodes),
        recorder: Recorder::new(
            server.client(),
            Reporter { controller: "sherd-operator".into(), instance: None },
        ),
        namespaces: NamespaceLeases::new(server.client(), "storage/sherd-operator", Timestamp::now),
        metrics: Metrics::new().expect("declared once"),
        now: || Timestamp::from_second(1_800_000_000).expect("a time"),
    }
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

fn change_spec(server: &ApiServer, change: impl FnOnce(&mut Value)) {
    let mut cluster = server.get(CLUSTER).expect("there");
    change(&mut cluster["spec"]);
    server.put(CLUSTER, cluster);
}

fn cluster(server: &ApiServer) -> StorageCluster {
    serde_json::from_value(server.get(CLUSTER).expect("there")).expect("decodes")
}

async fn step(server: &ApiServer) -> Result<ClusterStatus, ReconcileError> {
    reconcile(&context(server), &cluster(server)).await
}

/// What a StatefulSet's controller would make of it.
fn pods_come_up(server: &ApiServer) {
    server.put(
        "/api/v1/namespaces/storage/pods/demo-pool-0-0",
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "demo-pool-0-0", "namespace": "storage", "labels": {"sherd.dev/cluster": "demo"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
    let id = &server.get(AUTHORITY).expect("made")["data"]["cluster-id"];
    let id: Vec<u8> =
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, id.as_str().expect("text"))
            .expect("base64");
    server.put(
        CLAIM,
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
            "name": "v1-demo-pool-0-0", "namespace": "storage",
            "labels": {"sherd.dev/cluster": "demo", "sherd.dev/cluster-id": String::from_utf8(id).expect("text")},
        }}),
    );
}

#[track_caller]
fn says(status: &ClusterStatus, condition: ConditionType, value: &str, reason: &str) {
    let found = status.conditions.iter().find(|found| found.type_ == condition.as_str()).expect("reported");
    assert_eq!((found.status.as_str(), found.reason.as_str()), (value, reason), "{}", found.message);
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
    for path in [STATEFUL_SET, AUTHORITY, CREDENTIALS, CERTIFICATES, CONFIG, POLICY] {
        assert!(server.get(path).is_some(), "{path}");
    }
    assert!(events(&server).contains(&"Forming".to_owned()), "{:?}", events(&server));
    pods_come_up(&server);
    let operator = context(&server);
    let status = reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    says(&status, ConditionType::Ready, "True", "Serving");
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
    let (credentials, config) = (server.get(CREDENTIALS).expect("made"), server.get(CONFIG).expect("made"));
    for path in [STATEFUL_SET, CREDENTIALS, CERTIFICATES, CONFIG, POLICY] {
        server.delete(path);
    }
    step(&server).await.expect("reconciled");
    for path in [STATEFUL_SET, CERTIFICATES, CONFIG, POLICY] {
        assert!(server.get(path).is_some(), "{path}");
    }
    assert_eq!(server.get(CREDENTIALS).expect("back")["data"], credentials["data"], "with the same bytes");

    let mut edited = server.get(CONFIG).expect("back");
    edited["data"]["sherd.toml"] = json!("volumes = []");
    server.put(CONFIG, edited);
    let mut edited = server.get(CREDENTIALS).expect("back");
    edited["data"]["AWS_SECRET_ACCESS_KEY"] = json!("b3RoZXI=");
    server.put(CREDENTIALS, edited);
    step(&server).await.expect("reconciled");
    assert_eq!(server.get(CONFIG).expect("mended")["data"], config["data"]);
    assert_eq!(server.get(CREDENTIALS).expect("mended")["data"], credentials["data"]);
}

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

/// A second CA would part the cluster from its volumes.
#[tokio::test]
async fn an_authority_that_is_deleted_stops_changes_and_is_not_made_again() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    step(&server).await.expect("reconciled");
    let authority = server.get(AUTHORITY).expect("made");
    server.delete(AUTHORITY);
    server.delete(CONFIG);
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "False", "AuthorityMissing");
    assert!(server.get(AUTHORITY).is_none() && server.get(CONFIG).is_none(), "nothing is changed");
    assert!(events(&server).contains(&"AuthorityMissing".to_owned()));
    server.put(AUTHORITY, authority);
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "True", "Issued");
    assert!(server.get(CONFIG).is_some());
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

/// Two operators that both see no CA: the slower one is refused and goes on with the faster one's.
#[tokio::test]
async fn two_operators_at_once_make_one_authority() {
    let server = a_cluster();
    let before = cluster(&server);
    server.fail(Method::GET, AUTHORITY, Fault::Code(404));
    reconcile(&context(&server), &before).await.expect("the faster one");
    let authority = server.get(AUTHORITY).expect("made");
    let refused = reconcile(&context(&server), &before).await.expect_err("the slower one");
    assert_eq!(refused.category(), "conflict");
    assert_eq!(server.get(AUTHORITY).expect("kept"), authority);
    server.mend();
    step(&server).await.expect("reconciled");
    assert_eq!(server.get(AUTHORITY).expect("kept")["data"], authority["data"]);
}

#[tokio::test]
async fn a_refusal_is_reported_and_tried_again() {
    let server = a_cluster();
    server.fail(Method::PATCH, "statefulsets", Fault::Code(403));
    let refused = step(&server).await.expect_err("tried again");
    assert_eq!(refused.category(), "forbidden");
    let status = server.get(CLUSTER).expect("there")["status"].clone();
    let progressing =
        status["conditions"].as_array().expect("conditions").iter().find(|one| one["type"] == "Progressing");
    let progressing = progressing.expect("reported");
    assert_eq!(progressing["reason"], "ApplyRejected");
    assert!(
        progressing["message"].as_str().expect("words").contains("StatefulSet demo-pool-0"),
        "{progressing}"
    );
    assert!(events(&server).contains(&"ApplyRejected".to_owned()));
    server.mend();
    step(&server).await.expect("reconciled");
    assert!(server.get(STATEFUL_SET).is_some());
}

#[tokio::test]
async fn a_server_that_goes_away_changes_nothing_and_is_tried_again() {
    let server = a_cluster();
    for (method, path, fault, category) in [
        (Method::GET, "secrets", Fault::Broken, "unreachable"),
        (Method::GET, "pods", Fault::Code(500), "server"),
        (Method::PUT, "leases", Fault::Code(500), "lease"),
        (Method::PATCH, "configmaps", Fault::Code(503), "server"),
        (Method::PATCH, "/status", Fault::Broken, "unreachable"),
    ] {
        server.fail(method, path, fault);
        let failed = step(&server).await.expect_err("tried again");
        assert_eq!(failed.category(), category, "{failed}");
        server.mend();
    }
    step(&server).await.expect("reconciled");
}

/// What fails on its way is reported like a refusal; nodes that answer leave the cluster ready.
#[tokio::test]
async fn a_change_that_fails_is_reported() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    server.fail(Method::PATCH, "configmaps", Fault::Code(500));
    server.delete(CONFIG);
    step(&server).await.expect_err("tried again");
    let status = reported(&server);
    says(&status, ConditionType::Progressing, "False", "ApplyFailed");
    says(&status, ConditionType::Ready, "True", "Serving");
    assert!(events(&server).contains(&"ApplyFailed".to_owned()));
}

/// The last report does not stand as if it were true when the cluster cannot be looked at for long: at once where
/// the API server refuses, after some tries where it fails.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_looked_at_is_reported_so() {
    for (code, begun) in [(403, Duration::ZERO), (500, Duration::from_secs(4))] {
        let server = a_cluster();
        step(&server).await.expect("reconciled");
        pods_come_up(&server);
        step(&server).await.expect("reconciled");
        says(&reported(&server), ConditionType::Ready, "True", "Serving");
        server.fail(Method::GET, "persistentvolumeclaims", Fault::Code(code));
        let (stop, started) = (CancellationToken::new(), tokio::time::Instant::now());
        let running = tokio::spawn({
            let (context, stop) = (context(&server), stop.clone());
            async move { controller::run(context, &["storage".to_owned()], stop).await }
        });
        let seen = async {
            while !events(&server).contains(&"NotObserved".to_owned()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), seen).await.expect("reported");
        assert!(started.elapsed() >= begun, "{code}: {:?}", started.elapsed());
        stop.cancel();
        running.await.expect("without a panic");
        server.mend();
        step(&server).await.expect("looked at again");
        says(&reported(&server), ConditionType::Ready, "True", "Serving");
    }
}

/// Two installations that watch one namespace: the second leaves it alone until the first is gone for good.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_worked_on_by_one_installation() {
    let server = a_cluster();
    step(&server).await.expect("the first one");
    let second = Context {
        namespaces: NamespaceLeases::new(server.client(), "elsewhere/sherd-operator", Timestamp::now),
        default_image: DefaultImage { repository: "sherd-node".to_owned(), tag: "2".to_owned() },
        ..context(&server)
    };
    server.delete(CONFIG);
    let before = reported(&server);
    reconcile(&second, &cluster(&server)).await.expect("left alone");
    assert!(server.get(CONFIG).is_none(), "nothing is changed");
    assert_eq!(reported(&server), before, "nor is the status");
    assert!(events(&server).contains(&"AnotherOperator".to_owned()));
    tokio::time::sleep(Duration::from_secs(89)).await;
    reconcile(&second, &cluster(&server)).await.expect("left alone");
    assert!(server.get(CONFIG).is_none());
    tokio::time::sleep(Duration::from_secs(2)).await;
    reconcile(&second, &cluster(&server)).await.expect("taken over");
    assert!(server.get(CONFIG).is_some());
}

/// What another person or another cluster made is neither written over nor owned, and is used once it is given.
#[tokio::test]
async fn objects_of_others_are_left_as_they_are() {
    for (path, kind) in [(CONFIG, "ConfigMap"), (CREDENTIALS, "Secret"), (STATEFUL_SET, "StatefulSet")] {
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
    claim("v1-demo-pool-0-0", json!({}));
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "False", "AuthorityMissing");
    assert!(server.get(AUTHORITY).is_none());
    claim("v1-demo-pool-0-0", json!({"sherd.dev/cluster": "demo"}));
    step(&server).await.expect("reconciled");
    assert!(server.get(AUTHORITY).is_some(), "the claim was said to be empty");
}

/// A watcher's reconcile has a limit of its own; here the future is dropped at any point, and the next
/// one goes on.
#[tokio::test(start_paused = true)]
async fn a_reconcile_that_is_cut_anywhere_is_gone_on_with() {
    for path in ["secrets/demo-ca", "serviceaccounts", "statefulsets", "/status"] {
        let server = a_cluster();
        server.fail(Method::PATCH, path, Fault::Silence);
        let cut = tokio::time::timeout(Duration::from_mins(1), step(&server)).await;
        assert!(cut.is_err(), "{path} is silent");
        let authority = server.get(AUTHORITY).expect("made first");
        server.mend();
        step(&server).await.expect("reconciled");
        assert_eq!(server.get(AUTHORITY).expect("kept")["data"], authority["data"]);
        assert!(server.get(STATEFUL_SET).is_some());
    }
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
    server.delete(CONFIG);
    change_spec(&server, |spec| spec["paused"] = json!(true));
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::Paused, "True", "PausedBySpec");
    says(&status, ConditionType::Ready, "True", "Serving");
    assert!(server.get(CONFIG).is_none(), "nothing is changed");
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

/// One object that this operator cannot decode, as an older or newer one may have stored it.
#[tokio::test]
async fn a_cluster_that_cannot_be_decoded_does_not_stop_the_others() {
    let server = a_cluster();
    let mut odd = server.get(CLUSTER).expect("there");
    odd["metadata"]["name"] = json!("odd");
    odd["spec"]["pools"] = json!("none");
    server.put(&CLUSTER.replace("demo", "odd"), odd);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (context, stop) = (context(&server), stop.clone());
        async move { controller::run(context, &["storage".to_owned()], stop).await }
    });
    let both = async {
        while server.get(STATEFUL_SET).is_none() || !events(&server).contains(&"SpecInvalid".to_owned()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("one is made, the other is reported");
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await;
    ended.expect("it ends when it is stopped").expect("without a panic");
}
