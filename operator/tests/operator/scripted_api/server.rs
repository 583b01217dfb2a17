//! An API server in memory: objects by path, server-side apply as a deep merge, resource versions that
//! rise with each change, and faults by script.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// How a request is answered instead of being carried out.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// With this status code.
    Code(u16),
    /// Not at all.
    Silence,
    /// The connection breaks.
    Broken,
    /// With the status code 500 and these words.
    Worded(String),
    /// The request is carried out at once, and the answer comes after this time.
    Late(Duration),
}

#[derive(Default, Clone)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// Method, part of the path, and the answer.
    faults: Vec<(Method, String, Fault)>,
    /// Writes that changed something: method and path.
    changes: Vec<(Method, String)>,
    /// A field of a status that the definition does not have: the pointer to what holds it, and its name.
    unknown_field: Option<(&'static str, &'static str)>,
    /// All requests: method and path.
    requests: Vec<(Method, String)>,
    /// Deletions: path and options.
    deletions: Vec<(String, Value)>,
    /// The last apply of each Service.
    applied: BTreeMap<String, Value>,
    /// Changes each StatefulSet that is written, as an admission policy does.
    admission: Option<fn(&mut Value)>,
    /// Requests that are carried out before the connection breaks; the answer to the last of them is lost.
    requests_left: Option<usize>,
}

/// The server; clones share its objects.
#[derive(Clone, Default)]
pub(crate) struct ApiServer {
    state: Arc<Mutex<State>>,
}

impl ApiServer {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        Client::new(service, "storage")
    }

    /// Another server with the same objects.
    pub(crate) fn copy(&self) -> Self {
        Self { state: Arc::new(Mutex::new(self.state.lock().clone())) }
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        self.state.lock().objects.insert(path.to_owned(), object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().objects.get(path).cloned()
    }

    pub(crate) fn delete(&self, path: &str) {
        self.state.lock().objects.remove(path).expect("it was there");
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.state.lock().objects.keys().cloned().collect()
    }

    /// Answers requests of this method, whose path contains this text, with a fault from here on.
    pub(crate) fn fail(&self, method: Method, path: &str, fault: Fault) {
        self.state.lock().faults.push((method, path.to_owned(), fault));
    }

    /// Drops a field below `/status` from what is applied from here on, as an older definition does.
    pub(crate) fn drop_field(&self, field: Option<(&'static str, &'static str)>) {
        self.state.lock().unknown_field = field;
    }

    /// Has each StatefulSet that is written changed from here on.
    pub(crate) fn admit(&self, policy: fn(&mut Value)) {
        self.state.lock().admission = Some(policy);
    }

    /// Carries out this number of requests, and answers all but the last of them, as with a client that ends
    /// there.
    pub(crate) fn cut_after(&self, requests: usize) {
        self.state.lock().requests_left = Some(requests);
    }

    /// Ends all faults. Returns whether a request was cut off.
    pub(crate) fn mend(&self) -> bool {
        let mut state = self.state.lock();
        state.faults.clear();
        state.requests_left.take() == Some(0)
    }

    /// The writes that changed something since the last call.
    pub(crate) fn take_changes(&self) -> Vec<(Method, String)> {
        std::mem::take(&mut self.state.lock().changes)
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<(Method, String)> {
        std::mem::take(&mut self.state.lock().requests)
    }

    /// The deletions since the last call, with their options.
    pub(crate) fn take_deletions(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.state.lock().deletions)
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Answer>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.expect("a body in memory").to_bytes();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).expect("JSON") };
        let path = parts.uri.path().to_owned();
        let fault = {
            let mut state = self.state.lock();
            if state.requests_left == Some(0) {
                return Err(std::io::Error::other("the client has ended"));
            }
            state.requests.push((parts.method.clone(), path.clone()));
            let fits =
                |(method, part, _): &&(Method, String, Fault)| *method == parts.method && path.contains(part);
            state.faults.iter().find(fits).map(|(_, _, fault)| fault.clone())
        };
        match fault {
            Some(Fault::Code(code)) => return Ok(refusal(code, &path)),
            Some(Fault::Worded(words)) => return Ok(refusal(500, &words)),
            Some(Fault::Silence) => {
                tokio::time::sleep(Duration::from_hours(1)).await;
                return Ok(refusal(504, &path));
            }
            Some(Fault::Broken) => return Err(std::io::Error::other("the connection broke")),
            Some(Fault::Late(_)) | None => {}
        }
        let query = parts.uri.query().unwrap_or_default();
        let answer = {
            let mut state = self.state.lock();
            let answer = state.carry_out(&parts.method, &path, query, body);
            state.requests_left = state.requests_left.map(|left| left.saturating_sub(1));
            if state.requests_left == Some(0) {
                return Err(std::io::Error::other("the client has ended"));
            }
            answer
        };
        if let Some(Fault::Late(time)) = fault {
            tokio::time::sleep(time).await;
        }
        Ok(answer)
    }
}

impl State {
    fn carry_out(&mut self, method: &Method, path: &str, query: &str, body: Value) -> Response<Answer> {
        match *method {
            Method::GET => self.read(path, query),
            Method::POST => self.create(path, query, body),
            Method::PATCH => self.apply(path, query, &body),
            Method::PUT => self.replace(path, query, body),
            Method::DELETE => {
                self.deletions.push((path.to_owned(), body));
                match self.objects.remove(path) {
                    Some(object) => success(&object),
                    None => refusal(404, path),
                }
            }
            _ => panic!("{method} is not scripted"),
        }
    }

    fn read(&self, path: &str, query: &str) -> Response<Answer> {
        if query.contains("watch=true") {
            // A watch in which nothing happens; it ends when its client goes.
            return Response::new(Answer::Right(Silence));
        }
        if let Some(object) = self.objects.get(path) {
            return success(object);
        }
        // The name of a collection stands behind its namespace; that of all namespaces behind the version.
        let (group, kind) = path.rsplit_once('/').unwrap_or_default();
        let is_of_all = ["bucketusers"].contains(&kind) && !path.contains("/namespaces/");
        if path.rsplit('/').nth(2) != Some("namespaces") && !is_of_all {
            return refusal(404, path);
        }
        let selector = query.split('&').find_map(|part| part.strip_prefix("labelSelector="));
        let selector = selector.map(|selector| selector.replace("%3D", "=").replace("%2F", "/"));
        let selector = selector.map(|selector| selector.replace("%2C", ","));
        let selected = |object: &Value| {
            let mut rules = selector.iter().flat_map(|selector| selector.split(','));
            rules.all(|rule| {
                let labels = &object["metadata"]["labels"];
                match rule.split_once('=') {
                    Some((label, value)) => labels[label] == *value,
                    None => !labels[rule].is_null(),
                }
            })
        };
        let below = format!("{path}/");
        let is_below = |at: &str| {
            let is_of_kind = is_of_all && at.starts_with(group) && at.rsplit('/').nth(1) == Some(kind);
            is_of_kind || at.starts_with(&below)
        };
        let found = self.objects.iter().filter(|(at, one)| is_below(at) && selected(one));
        let found: Vec<&Value> = found.map(|(_, one)| one).collect();
        success(
            &json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": found}),
        )
    }

    fn create(&mut self, path: &str, query: &str, mut object: Value) -> Response<Answer> {
        if let Some(pod) = path.strip_suffix("/eviction") {
            return self.evict(pod, &object);
        }
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let path = format!("{path}/{name}");
        if self.objects.contains_key(&path) {
            return refusal(409, &path);
        }
        if query.contains("dryRun") {
            return success(&object);
        }
        self.store(&Method::POST, &path, &mut object)
    }

    /// Deletes a pod, if it is the one that is meant and the budget lets it go: at once, without an end that
    /// takes time.
    fn evict(&mut self, path: &str, eviction: &Value) -> Response<Answer> {
        let Some(pod) = self.objects.get(path) else { return refusal(404, path) };
        if eviction["deleteOptions"]["preconditions"]["uid"] != pod["metadata"]["uid"] {
            return refusal(409, path);
        }
        let is_ready = |pod: &Value| pod["status"]["conditions"][0]["status"] == "True";
        let mut budgets = self.objects.iter().filter(|(path, _)| path.contains("/poddisruptionbudgets/"));
        let spare = budgets.next().and_then(|(_, budget)| budget["spec"]["maxUnavailable"].as_u64());
        let set = self.objects.iter().find(|(path, _)| path.contains("/statefulsets/"));
        let wanted = set.and_then(|(_, set)| set["spec"]["replicas"].as_u64()).unwrap_or(0);
        let pods = self.objects.iter().filter(|(path, pod)| path.contains("/pods/") && is_ready(pod));
        let ready = u64::try_from(pods.count()).expect("few");
        if is_ready(pod) && ready + spare.unwrap_or(0) <= wanted {
            return refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.");
        }
        self.objects.remove(path);
        self.changes.push((Method::DELETE, path.to_owned()));
        success(
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        )
    }

    fn apply(&mut self, path: &str, query: &str, body: &Value) -> Response<Answer> {
        let (at, is_status) = path.strip_suffix("/status").map_or((path, false), |at| (at, true));
        let last = self.objects.get(at).cloned();
        if is_status && last.is_none() {
            return refusal(404, path);
        }
        let mut object = last.clone().unwrap_or_else(|| json!({"metadata": {}}));
        let stale = |key: &str| {
            let said = &body["metadata"][key];
            last.as_ref().is_some_and(|last| !said.is_null() && *said != last["metadata"][key])
        };
        let names_another = last.is_none() && !body["metadata"]["uid"].is_null();
        if names_another || stale("uid") || stale("resourceVersion") {
            return refusal(409, path);
        }
        if is_status {
            object["status"] = body["status"].clone();
            if let Some((holder, name)) = self.unknown_field
                && let Some(fields) = object.pointer_mut(holder).and_then(Value::as_object_mut)
            {
                fields.remove(name);
            }
        } else if let Some(operations) = body.as_array() {
            for operation in operations {
                let path = operation["path"].as_str().expect("a pointer");
                *object.pointer_mut(path).expect("it is there") = operation["value"].clone();
            }
        } else {
            remove_given_up(&mut object, self.applied.get(at), body);
            merge(&mut object, body);
        }
        if let Some(policy) = self.admission.filter(|_| object["kind"] == "StatefulSet") {
            policy(&mut object);
        }
        if let Some(refused) = invalid(&object, last.as_ref()) {
            return refusal(422, refused);
        }
        if body["kind"] == "Service" && !query.contains("dryRun") {
            self.applied.insert(at.to_owned(), body.clone());
        }
        if last.as_ref() == Some(&object) || query.contains("dryRun") {
            return success(&object);
        }
        let metadata = &object["metadata"];
        let is_let_go = metadata["finalizers"].as_array().is_some_and(Vec::is_empty);
        if is_let_go && !metadata["deletionTimestamp"].is_null() {
            self.objects.remove(at);
            self.changes.push((Method::DELETE, at.to_owned()));
            return success(&object);
        }
        self.store(&Method::PATCH, at, &mut object)
    }

    fn replace(&mut self, path: &str, query: &str, mut object: Value) -> Response<Answer> {
        let Some(last) = self.objects.get(path) else { return refusal(404, path) };
        if last["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return refusal(409, path);
        }
        if let Some(refused) = invalid(&object, Some(last)) {
            return refusal(422, refused);
        }
        if query.contains("dryRun") {
            return success(&object);
        }
        self.store(&Method::PUT, path, &mut object)
    }

    fn store(&mut self, method: &Method, path: &str, object: &mut Value) -> Response<Answer> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        self.objects.insert(path.to_owned(), object.clone());
        self.changes.push((method.clone(), path.to_owned()));
        success(object)
    }
}

/// The body of an answer: whole, or one that never ends.
type Answer = Either<Full<Bytes>, Silence>;

/// A body without bytes and without an end.
pub(crate) struct Silence;

impl http_body::Body for Silence {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

/// Removes the fields and ports that a Service had by the last apply, and that this one leaves out.
fn remove_given_up(object: &mut Value, last: Option<&Value>, body: &Value) {
    let has_port = |body: &Value, port: &Value| {
        let mut ports = body["spec"]["ports"].as_array().into_iter().flatten();
        ports.any(|found| found["port"] == port["port"])
    };
    let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    if let (Some(last), Some(ports)) = (last, ports) {
        ports.retain(|port| !has_port(last, port) || has_port(body, port));
    }
    let last = last.and_then(|last| last["spec"].as_object()).into_iter().flatten();
    for (field, _) in last.filter(|(field, _)| body["spec"][field.as_str()].is_null()) {
        object["spec"].as_object_mut().and_then(|spec| spec.remove(field));
    }
}

/// Lists of a pod's template that merge by this field of their entries.
const NAMED_LISTS: [(&str, &str); 4] =
    [("containers", "name"), ("volumes", "name"), ("env", "name"), ("volumeMounts", "mountPath")];

/// Merges as server-side apply does: objects by field, the ports of a Service by number, the lists of a pod's
/// template by name, other lists whole.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            let is_service = base.get("kind").is_some_and(|kind| kind == "Service");
            for (key, value) in over {
                // Of a merge patch.
                if value.is_null() {
                    base.remove(key);
                    continue;
                }
                let under = base.entry(key).or_insert(Value::Null);
                if let Some((_, by)) = NAMED_LISTS.iter().find(|(list, _)| list == key) {
                    *under = merge_list(under, value, by);
                    continue;
                }
                let ports = under["ports"].clone();
                merge(under, value);
                if is_service && key == "spec" {
                    under["ports"] = merge_list(&ports, &value["ports"], "port");
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// The entries that are there with ours laid over them, each over the one with the same field.
fn merge_list(there: &Value, ours: &Value, by: &str) -> Value {
    let mut entries = there.as_array().cloned().unwrap_or_default();
    for entry in ours.as_array().into_iter().flatten() {
        match entries.iter_mut().find(|found| found[by] == entry[by]) {
            Some(found) => merge(found, entry),
            None => entries.push(entry.clone()),
        }
    }
    Value::Array(entries)
}

/// The reason for which the API server refuses an object: a Service with two ports of one name, or with the
/// fields of a load balancer and without one; a budget with two bounds; a change of what cannot change.
fn invalid(object: &Value, last: Option<&Value>) -> Option<&'static str> {
    let spec = &object["spec"];
    let was = last.map(|last| &last["spec"]);
    match object["kind"].as_str() {
        Some("Service") => {
            let names: Vec<_> =
                spec["ports"].as_array().into_iter().flatten().map(|port| port["name"].to_string()).collect();
            let unique: std::collections::BTreeSet<_> = names.iter().collect();
            let is_balanced = |spec: &Value| spec["type"] == "LoadBalancer";
            let of_balancers = ["loadBalancerClass", "loadBalancerSourceRanges"];
            let class = of_balancers[0];
            if unique.len() < names.len() {
                Some("spec.ports[1].name: Duplicate value: \"s3\"")
            } else if is_balanced(spec) {
                let differs = |was: &Value| is_balanced(was) && was[class] != spec[class];
                was.is_some_and(differs).then_some("spec.loadBalancerClass: may not change once set")
            } else {
                let is_set = of_balancers.iter().any(|field| !spec[field].is_null());
                is_set.then_some("may only be used when `type` is 'LoadBalancer'")
            }
        }
        Some("PodDisruptionBudget") => {
            let both = !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null();
            both.then_some("minAvailable and maxUnavailable cannot be both set")
        }
        Some("StatefulSet") => {
            let fixed = ["serviceName", "selector", "podManagementPolicy", "volumeClaimTemplates"];
            let differs = |field: &str| was.is_some_and(|was| was[field] != spec[field]);
            fixed.into_iter().any(differs).then_some("updates to statefulset spec are forbidden")
        }
        Some("PersistentVolumeClaim") => {
            let size = |holder: &Value, list: &str| gibibytes(&holder[list]["storage"]);
            let [asked, before] = [spec, was?].map(|spec| size(&spec["resources"], "requests"));
            let capacity = size(&last?["status"], "capacity");
            (asked < before && asked <= capacity).then_some("field can not be less than status.capacity")
        }
        Some("ConfigMap") => {
            let changed =
                last.is_some_and(|last| last["immutable"] == true && last["data"] != object["data"]);
            changed.then_some("data: field is immutable when `immutable` is set")
        }
        _ => None,
    }
}

/// The number before `Gi`; 0 for any other size.
fn gibibytes(size: &Value) -> f64 {
    let number = size.as_str().and_then(|size| size.strip_suffix("Gi"));
    number.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

fn success(object: &Value) -> Response<Answer> {
    Response::new(Answer::Left(Full::from(serde_json::to_vec(object).expect("JSON"))))
}

fn refusal(code: u16, path: &str) -> Response<Answer> {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        403 => "Forbidden",
        422 => "Invalid",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("{reason} {path}"), "reason": reason, "code": code,
    });
    let mut response = success(&status);
    *response.status_mut() = StatusCode::from_u16(code).expect("a code");
    response
}
