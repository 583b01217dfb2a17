//! An API server in memory that only answers: objects by path, lists of those below a path by labels, logs of
//! pods, and refusals by script.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use sherd_kubectl::session::Session;

/// The namespace of the cluster.
pub(crate) const NAMESPACE: &str = "storage";

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    logs: BTreeMap<String, Vec<u8>>,
    /// Parts of paths that the caller may not read.
    forbidden: Vec<&'static str>,
    requests: Vec<String>,
}

/// The server; clones share its objects.
#[derive(Clone, Default)]
pub(crate) struct ApiServer(Arc<Mutex<State>>);

impl ApiServer {
    /// A server with the cluster `demo`, its four pods, of which the last is not ready, and its budget.
    pub(crate) fn with_cluster() -> Self {
        let server = Self::default();
        server.put("/apis/sherd.dev/v1alpha1", "storageclusters", cluster());
        for number in 0..4 {
            server.put("/api/v1", "pods", pod(&format!("demo-pool-{number}"), number < 3));
        }
        server.put("/apis/policy/v1", "poddisruptionbudgets", budget());
        server
    }

    pub(crate) fn session(&self) -> Session {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(&request);
            async move { Ok::<_, std::io::Error>(answer) }
        });
        Session { client: Client::new(service, NAMESPACE), namespace: NAMESPACE.to_owned() }
    }

    /// Puts an object below the path of its API, at the namespace and name in it.
    pub(crate) fn put(&self, api: &str, resource: &str, object: Value) {
        let [namespace, name] = ["namespace", "name"]
            .map(|field| object["metadata"][field].as_str().expect("every object has one").to_owned());
        self.state().objects.insert(format!("{api}/namespaces/{namespace}/{resource}/{name}"), object);
    }

    pub(crate) fn delete(&self, path: &str) {
        self.state().objects.remove(path).expect("it was there");
    }

    pub(crate) fn log(&self, namespace: &str, pod: &str, text: impl Into<Vec<u8>>) {
        self.state().logs.insert(format!("/api/v1/namespaces/{namespace}/pods/{pod}/log"), text.into());
    }

    pub(crate) fn forbid(&self, part: &'static str) {
        self.state().forbidden.push(part);
    }

    /// Paths and queries of all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no test fails while it holds this")
    }

    fn answer(&self, request: &Request<Body>) -> Response<Full<Bytes>> {
        let mut state = self.state();
        state.requests.push(request.uri().to_string());
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if state.forbidden.iter().any(|part| path.contains(part)) {
            let words = format!("{path} is forbidden: User \"jane\x1b[2J\" cannot read it");
            return refusal(403, "Forbidden", &words);
        }
        if path == "/version" {
            let version = json!({"gitVersion": "v1.34.4", "major": "1", "minor": "34", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
            return answered(version.to_string());
        }
        if let Some(log) = state.logs.get(path) {
            return answered(log.clone());
        }
        if let Some(object) = state.objects.get(path) {
            return answered(object.to_string());
        }
        // A list of a namespace has its name and a resource behind it, and one of all namespaces the
        // resource alone.
        let is_list = path.split_once("/namespaces/").is_none_or(|(_, rest)| rest.split('/').count() == 2);
        if !is_list {
            return refusal(404, "NotFound", "not found");
        }
        let (api, resource) = path.rsplit_once('/').expect("a path");
        let is_listed = |known: &str| {
            let below = known.rsplit_once('/').expect("a path").0;
            let is_everywhere = below.starts_with(&format!("{api}/namespaces/"));
            below == path || is_everywhere && below.ends_with(&format!("/{resource}"))
        };
        let listed = state.objects.iter().filter(|(known, _)| is_listed(known)).map(|(_, object)| object);
        let listed: Vec<_> = listed.filter(|object| fits(object, query)).collect();
        answered(json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": listed}).to_string())
    }
}

/// Whether an object has the labels that a query asks for.
fn fits(object: &Value, query: &str) -> bool {
    let selector = query.split('&').find_map(|pair| pair.strip_prefix("labelSelector=")).unwrap_or_default();
    let selector = selector.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/");
    let wanted = selector.split(',').filter_map(|pair| pair.split_once('='));
    wanted.into_iter().all(|(label, value)| object["metadata"]["labels"][label] == value)
}

fn answered(body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::new(Full::new(body.into()))
}

fn refusal(code: u16, reason: &str, message: &str) -> Response<Full<Bytes>> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
        "reason": reason, "message": message, "code": code});
    let answer = Response::builder().status(code).body(Full::new(status.to_string().into()));
    answer.expect("a status and a body are an answer")
}

pub(crate) fn labels() -> Value {
    json!({
        "app.kubernetes.io/name": "sherd-node",
        "app.kubernetes.io/managed-by": "sherd-operator",
        "app.kubernetes.io/instance": "demo",
        "sherd.dev/cluster": "demo",
    })
}

/// A cluster amid a rollout, with one node down, as its operator reports it.
fn cluster() -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-28T22:12:01Z"})
    };
    json!({
        "apiVersion": "sherd.dev/v1alpha1",
        "kind": "StorageCluster",
        "metadata": {"name": "demo", "namespace": NAMESPACE, "generation": 5},
        "spec": {"pools": [{"name": "pool", "nodes": 4}]},
        "status": {
            "observedGeneration": 4,
            "nodesReady": "3/4", "volumesOnline": "3/4", "volumesHealing": 0, "version": "0.1.0",
            "conditions": [
                condition("Ready", "True", "Serving", "all sets"),
                condition("Degraded", "True", "NodeDown", "nodes that do not answer: demo-pool-3\u{1b}[2J"),
                condition("UpgradeBlocked", "False", "RollingOut", ""),
                condition("Paused", "False", "NotPaused", ""),
            ],
            "rollout": {
                "revision": "demo-pool-7c", "updated": 1, "pods": 4,
                "order": ["demo-pool-2", "demo-pool-1", "demo-pool-0"],
                "message": "waiting: demo-pool-3 is not ready",
            },
        },
    })
}

/// A pod of the cluster; its node runs, also where it is not ready.
pub(crate) fn pod(name: &str, is_ready: bool) -> Value {
    let ready = if is_ready { "True" } else { "False" };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels()},
        "spec": {"containers": [{"name": "node", "image": "sherd-node:v1"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "node", "image": "", "imageID": "", "ready": is_ready, "restartCount": 0}],
        },
    })
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "demo-pool", "namespace": NAMESPACE, "labels": labels()},
        "spec": {"maxUnavailable": 0},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 4, "expectedPods": 4},
    })
}
