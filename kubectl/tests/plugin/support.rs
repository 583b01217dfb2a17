//! `support`: an archive with all that is named, without secrets wherever they stood, and with a list of
//! what could not be read.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use sherd_kubectl::error::PluginError;
use sherd_kubectl::node::{PodPort, PodPorts};
use sherd_kubectl::support::{SupportArgs, support};

use crate::node::{MemoryNodes, secret};
use crate::server::{ApiServer, NAMESPACE, labels, pod};

/// A secret of an access key, as it is made.
const RANDOM: &str = "wJalrXUtnFEMIK7MDENGbPxRfiCYzEXAMPLEKEY1";
/// A secret that a person chose.
const CHOSEN: &str = "correct-horse";

/// The files of an archive by their names below its folder.
fn files(path: &Path) -> BTreeMap<String, String> {
    let file = std::fs::File::open(path).expect("it was written");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let entries = archive.entries().expect("an archive");
    let mut files = BTreeMap::new();
    for entry in entries {
        let mut entry = entry.expect("a file");
        let name = entry.path().expect("a name").to_str().expect("ASCII").to_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        files.insert(name.split_once('/').expect("a folder").1.to_owned(), text);
    }
    files
}

async fn archived(
    server: &ApiServer,
    nodes: &impl PodPorts,
    folder: &Path,
) -> (String, BTreeMap<String, String>) {
    let path: PathBuf = folder.join("support.tar.gz");
    let arguments = SupportArgs { cluster: None, output: Some(path.clone()) };
    let said = support(&server.session(), nodes, &arguments).await.expect("an archive");
    (said, files(&path))
}

/// Puts objects with secrets in each place where others put them.
fn put_secrets(server: &ApiServer) {
    put_workload(server);
    put_events(server);
    put_access(server);
    server.put("/api/v1", "secrets", secret("demo-root-credentials", &[("AWS_SECRET_ACCESS_KEY", RANDOM)]));
    for pod in ["demo-pool-0", "demo-pool-1"] {
        let lines = [
            format!(r#"{{"message":"request","authorization":"AWS4-HMAC-SHA256 x, Signature={CHOSEN}"}}"#),
            format!("GET /photos/a?x=kept-{pod}&X-Amz-Signature={CHOSEN}"),
            format!("secret {RANDOM} of a client"),
            format!("-----BEGIN EC PRIVATE KEY-----\n{CHOSEN}\n-----END EC PRIVATE KEY-----"),
        ];
        server.log(NAMESPACE, pod, lines.join("\n"));
    }
}

/// The annotation of kubectl, with a secret.
fn applied() -> Value {
    json!({"kubectl.kubernetes.io/last-applied-configuration": format!("{{\"a\":\"{CHOSEN}\"}}")})
}

/// Secrets in arguments, environments, annotations and settings.
fn put_workload(server: &ApiServer) {
    let metadata = |name: &str| {
        json!({"name": name, "namespace": NAMESPACE, "labels": labels(), "annotations": applied(),
            "managedFields": [{"manager": CHOSEN}]})
    };
    let containers = json!([{
        "name": "node",
        "args": ["serve", "--password", CHOSEN, format!("--token={CHOSEN}"), "--dir", "/data"],
        "env": [{"name": "HTTPS_PROXY", "value": format!("http://me:{CHOSEN}@proxy")}],
    }]);
    let template = json!({"template": {"spec": {"containers": containers}}});
    let set = json!({"metadata": metadata("demo-pool"), "spec": template});
    server.put("/apis/apps/v1", "statefulsets", set);
    let mut started_anew = pod("demo-pool-0", true);
    started_anew["metadata"] = metadata("demo-pool-0");
    started_anew["spec"] = json!({"containers": containers});
    started_anew["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    server.put("/api/v1", "pods", started_anew);
    let toml = format!("region = \"kept\"\nsecret_access_key = \"{CHOSEN}\"\n");
    let settings = json!({"metadata": metadata("demo-config-1"), "data": {"sherd.toml": toml}});
    server.put("/api/v1", "configmaps", settings);
}

/// An event of the cluster with a secret, and one of another workload.
fn put_events(server: &ApiServer) {
    let event = |name: &str, kind: &str, object: &str, message: &str| {
        json!({"metadata": {"name": name, "namespace": NAMESPACE}, "involvedObject": {"kind": kind, "name": object},
            "message": message})
    };
    server.put(
        "/api/v1",
        "events",
        event("e1", "PersistentVolumeClaim", "v1-demo-pool-0", &format!("mounting failed: {RANDOM}")),
    );
    server.put("/api/v1", "events", event("e2", "Pod", "web-0", "of another"));
    // A cluster whose name begins with this one's, and a workload that does.
    server.put("/api/v1", "events", event("e3", "StorageCluster", "demo-two", "of another"));
    server.put("/api/v1", "events", event("e4", "Pod", "demo-web-0", "of another"));
    server.put("/api/v1", "events", event("e5", "StatefulSet", "demo-two-pool-0", "of another"));
}

/// Buckets and BucketUsers of two namespaces with secrets, and a Bucket of another cluster.
fn put_access(server: &ApiServer) {
    const API: &str = "/apis/sherd.dev/v1alpha1";
    let policy = json!({"Statement": [{"Condition": {"StringEquals": {"aws:UserAgent": RANDOM}}}]});
    for (namespace, name) in [("team-a", "uploader"), (NAMESPACE, "own")] {
        let cluster = json!({"name": "demo", "namespace": NAMESPACE});
        let metadata = json!({"name": name, "namespace": namespace, "annotations": applied()});
        let user = json!({"metadata": metadata, "spec": {"cluster": cluster, "policy": policy}});
        server.put(API, "bucketusers", user);
        server.put(API, "buckets", json!({"metadata": metadata, "spec": {"cluster": cluster}}));
    }
    let metadata = json!({"name": "other", "namespace": "team-b"});
    server.put(API, "buckets", json!({"metadata": metadata, "spec": {"cluster": {"name": "demo"}}}));
}

#[tokio::test]
async fn an_archive_has_all_parts_and_no_secret() {
    let server = ApiServer::with_cluster();
    let nodes = MemoryNodes::of(&["demo-pool-1"]);
    let key = nodes.put_admin(&server);
    put_secrets(&server);
    let folder = tempfile::tempdir().expect("a folder");
    let (said, files) = archived(&server, &nodes, folder.path()).await;
    assert!(said.contains("support.tar.gz: ") && said.contains("errors.txt lists "), "{said}");
    let parts = [
        "storagecluster.json",
        "statefulsets.json",
        "pods.json",
        "claims.json",
        "budgets.json",
        "settings.json",
        "events.json",
        "buckets.json",
        "bucketusers.json",
        "status.txt",
        "status.json",
        "versions.txt",
        "logs/demo-pool-0.log",
        "logs/demo-pool-0.previous.log",
        "logs/demo-pool-1.log",
        "errors.txt",
    ];
    for part in parts {
        assert!(files.contains_key(part), "{part} in {:?}", files.keys());
    }
    let lines = key.lines().filter(|line| !line.starts_with("-----"));
    let encoded = "d0phbHJYVXRuRkVNSUs3TURFTkdiUHhSZmlDWXpFWEFNUExFS0VZMQ==";
    for secret in [RANDOM, CHOSEN, encoded].into_iter().chain(lines) {
        for (name, text) in &files {
            assert!(!text.contains(secret), "{secret} in {name}:\n{text}");
        }
    }
    for (name, kept) in [
        ("settings.json", "region = \\\"kept\\\""),
        ("statefulsets.json", "/data"),
        ("events.json", "mounting failed"),
        ("bucketusers.json", "team-a"),
        ("logs/demo-pool-0.log", "x=kept-demo-pool-0"),
        ("status.txt", "as demo-pool-1 sees it"),
        ("status.json", "\"verdict\":\"degraded\""),
        ("versions.txt", "Kubernetes v1.34.4"),
        ("errors.txt", "logs/demo-pool-2.log: "),
        ("errors.txt", "sherd-clusters"),
    ] {
        assert!(files[name].contains(kept), "{kept} in {name}:\n{}", files[name]);
    }
    assert!(!files["events.json"].contains("of another") && !files["buckets.json"].contains("team-b"));
    let secrets = server.requests().into_iter().filter(|path| path.contains("/secrets"));
    let secrets: Vec<_> = secrets.collect();
    assert_eq!(secrets, ["/api/v1/namespaces/storage/secrets/demo-admin"], "no other Secret is read");
}

/// Nodes whose ports are never opened.
struct StuckNodes;

impl PodPorts for StuckNodes {
    fn open<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<PodPort, PluginError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_answer_leave_the_rest_whole() {
    let server = ApiServer::with_cluster();
    MemoryNodes::of(&[]).put_admin(&server);
    put_secrets(&server);
    let folder = tempfile::tempdir().expect("a folder");
    let (_, files) = archived(&server, &StuckNodes, folder.path()).await;
    assert!(files["status.txt"].contains("StorageCluster demo"));
    assert!(files["logs/demo-pool-0.log"].contains("kept") && files.contains_key("buckets.json"));
    assert!(
        files["errors.txt"].contains("status.json: no node answers within 60 s"),
        "{}",
        files["errors.txt"]
    );
    assert!(!files["errors.txt"].contains("left out"), "{}", files["errors.txt"]);
}

#[tokio::test]
async fn what_may_not_be_read_is_listed_and_ends_nothing() {
    let server = ApiServer::with_cluster();
    let nodes = MemoryNodes::of(&["demo-pool-0"]);
    put_secrets(&server);
    for part in ["/secrets/", "/statefulsets", "/v1alpha1/bucketusers", "/log", "/leases/"] {
        server.forbid(part);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (_, files) = archived(&server, &nodes, folder.path()).await;
    for listed in [
        "status.json: you lack a right: get secrets demo-pool-certificates in namespace storage",
        "statefulsets.json: you lack a right: list statefulsets.apps in namespace storage",
        "bucketusers.json: you lack a right: list bucketusers.sherd.dev in all namespaces",
        "logs/demo-pool-0.log: you lack a right: get pods/log demo-pool-0 in namespace storage",
        "operator: you lack a right: get leases.coordination.k8s.io sherd-clusters in namespace storage",
    ] {
        assert!(files["errors.txt"].contains(listed), "{listed} in\n{}", files["errors.txt"]);
    }
    // The caller's own namespace is read where all may not be.
    assert!(files["bucketusers.json"].contains("\"own\"") && !files["bucketusers.json"].contains("team-a"));
    assert!(files["status.txt"].contains("StorageCluster demo"));

    // An archive that is there is not written over.
    let arguments = SupportArgs { cluster: None, output: Some(folder.path().join("support.tar.gz")) };
    let error = support(&server.session(), &nodes, &arguments).await.expect_err("it is there").to_string();
    assert!(error.contains("support.tar.gz"), "{error}");
}
