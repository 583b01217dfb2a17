//! Pods that the operator replaces, and hosts that are drained, under load: at most one node is away at a
//! time, the next goes only when the one before is back, and no request of an SDK client fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_s3::Client;
use serde_json::{Value, json};
use sherd_e2e::command::run;
use sherd_e2e::history::Load;
use sherd_e2e::kubernetes::{Namespace, wait_for};

use crate::cases::CaseResult;

const CLUSTER: &str = "demo";
const FIRST: &str = "demo-pool-0-0";
const SECOND: &str = "demo-pool-0-1";
pub(crate) const PODS: &str = "app.kubernetes.io/name=sherd-node,sherd.dev/cluster=demo";
/// How long a rollout of four nodes may take: each restarts in seconds and heals in half a minute, or in
/// minutes on a machine that builds meanwhile.
pub(crate) const ROLLED: Duration = Duration::from_mins(20);
/// How long `kubectl drain` may take to ask for the first time.
const ASKED: Duration = Duration::from_mins(2);
/// Writes before and after.
pub(crate) const WRITES_AROUND: u64 = 200;

/// An annotation replaces every pod, one after the other.
pub(crate) async fn restart_under_load(namespace: &Namespace, client: &Client) -> CaseResult {
    client.create_bucket().bucket("rolled").send().await?;
    let load = Load::start(client, "rolled", 8);
    load.goes_on_for(WRITES_AROUND).await?;
    let before = pods(namespace)?;
    namespace.kubectl(&["annotate", "storagecluster", CLUSTER, "--overwrite", "sherd.dev/restart=e2e"])?;
    let mut most_away = 0;
    let look = || {
        let now = pods(namespace)?;
        most_away = most_away.max(before.len().saturating_sub(ready(&now)));
        match same(&before, &now) {
            0 => rests(namespace),
            kept => Err(format!("{kept} pods are not replaced: {}", rollout(namespace)["message"])),
        }
    };
    let taken = wait_for("every pod is replaced", ROLLED, look).await;
    load.goes_on_for(WRITES_AROUND).await?;
    let note = finish(load, client, "rolled").await?;
    let taken = taken?;
    if most_away > 1 {
        return Err(format!("{most_away} pods were away at one time").into());
    }
    Ok(format!("({} pods in {:.0} s, {note})", before.len(), taken.as_secs_f64()))
}

/// An image that is not there takes one pod, which comes back with the last template that worked.
pub(crate) async fn bad_image(namespace: &Namespace, client: &Client) -> CaseResult {
    client.create_bucket().bucket("bad-image").send().await?;
    let load = Load::start(client, "bad-image", 8);
    let patch = |tag: Value, health_timeout: Value| {
        let patch = json!({"spec": {"image": {"tag": tag}, "upgrade": {"healthTimeout": health_timeout}}});
        let patch = patch.to_string();
        namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=merge", "--patch", &patch])
    };
    let before = pods(namespace)?;
    patch(json!("there-is-none"), json!("3m"))?;
    let look = || {
        let record = rollout(namespace);
        if record["failed"].is_null() {
            return Err(format!("no template failed: {}", record["message"]));
        }
        match ready(&pods(namespace)?) {
            all if all == before.len() => Ok(()),
            _ => Err("a pod is not ready".to_owned()),
        }
    };
    let taken = wait_for("the last template is put back", ROLLED, look).await;
    let kept = same(&before, &pods(namespace)?);
    patch(Value::Null, Value::Null)?;
    let ended = wait_for("the revert ends it", ROLLED, || rests(namespace)).await;
    let note = finish(load, client, "bad-image").await?;
    let taken = taken?;
    ended?;
    if kept + 1 != before.len() {
        return Err(format!("{kept} of {} pods were left alone", before.len()).into());
    }
    Ok(format!("(put back after {:.0} s, {note})", taken.as_secs_f64()))
}

/// One host is drained, and another at once: its node goes only when the first one is back.
pub(crate) async fn drain(namespace: &Namespace, client: &Client) -> CaseResult {
    client.create_bucket().bucket("drained").send().await?;
    let load = Load::start(client, "drained", 8);
    load.goes_on_for(WRITES_AROUND).await?;
    let before = pods(namespace)?;
    let host = |pod: &str| before.get(pod).map(|pod| pod.host.clone()).ok_or(format!("{pod} is not there"));
    let (first, second) = (host(FIRST)?, host(SECOND)?);
    Drain::start(&first)?.ended().await?;
    let mut waits = Drain::start(&second)?;
    let asked = wait_for("the second drain is refused for now", ASKED, || waits.was_refused()).await;
    // The volumes of the first node are local: it is away until its host takes pods again.
    let kept = is_same(&before, &pods(namespace)?, SECOND);
    run("kubectl", &["uncordon", &first])?;
    let mut was_back = false;
    let look = || {
        let now = pods(namespace)?;
        if !is_same(&before, &now, SECOND) {
            return Ok(());
        }
        was_back = now.get(FIRST).is_some_and(|pod| pod.is_ready && !is_same(&before, &now, FIRST));
        Err("the second node is still there".to_owned())
    };
    let gone = wait_for("the second node goes", ROLLED, look).await;
    let ended = waits.ended().await;
    run("kubectl", &["uncordon", &second])?;
    load.goes_on_for(WRITES_AROUND).await?;
    let settled = wait_for("both are back", ROLLED, || rests(namespace)).await;
    let note = finish(load, client, "drained").await?;
    asked?;
    gone?;
    ended?;
    settled?;
    if !kept || !was_back {
        return Err(format!("the second node went before the first was back: {kept} {was_back}").into());
    }
    Ok(format!("({note})"))
}

/// A `kubectl drain` that runs, and what it says.
struct Drain {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Drain {
    fn start(host: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let mut child = Command::new("kubectl")
            .args(["drain", host, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=20m"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let said = Arc::new(Mutex::new(String::new()));
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    said.push_str(&line);
                    said.push('\n');
                }
            });
        }
        Ok(Self { child, said })
    }

    fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a budget has refused an eviction.
    fn was_refused(&mut self) -> Result<(), String> {
        let said = self.said();
        if said.contains("disruption budget") { Ok(()) } else { Err(said) }
    }

    async fn ended(mut self) -> Result<(), Box<dyn std::error::Error>> {
        let mut status = None;
        let look = || {
            status = self.child.try_wait().map_err(|error| error.to_string())?;
            if status.is_some() { Ok(()) } else { Err("it runs".to_owned()) }
        };
        wait_for("kubectl drain", ROLLED, look).await?;
        match status {
            Some(status) if status.success() => Ok(()),
            _ => Err(format!("kubectl drain failed: {}", self.said()).into()),
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stops a load, and says what it did; a failed request or a lost object is an error.
pub(crate) async fn finish(load: Load, client: &Client, bucket: &str) -> CaseResult {
    let report = load.finish(client, bucket).await;
    let errors = report.errors.iter().take(5).collect::<Vec<_>>();
    if !report.wrong.is_empty() || !errors.is_empty() {
        return Err(format!("{bucket}: lost or wrong: {:#?}; failed: {errors:#?}", report.wrong).into());
    }
    let mut note = String::new();
    write!(note, "{} writes, slowest {:.1} s", report.acknowledged, report.slowest.as_secs_f64())?;
    Ok(note)
}

/// Checks that the cluster rests: no pod is to be replaced, and no volume to be healed.
pub(crate) fn rests(namespace: &Namespace) -> Result<(), String> {
    for (condition, expected) in
        [("UpgradeBlocked", "False"), ("Progressing", "False"), ("Degraded", "False")]
    {
        match namespace.condition(CLUSTER, condition) {
            Some((status, _)) if status == expected => {}
            found => return Err(format!("{condition}: {found:?}: {}", rollout(namespace)["message"])),
        }
    }
    Ok(())
}

pub(crate) fn rollout(namespace: &Namespace) -> Value {
    namespace.get("storagecluster", CLUSTER).unwrap_or_default()["status"]["rollout"].clone()
}

/// A pod as one look shows it.
#[derive(Debug)]
pub(crate) struct Pod {
    uid: String,
    host: String,
    /// Whether its container is ready, and it stays.
    is_ready: bool,
    /// How often its container was started again.
    restarts: u64,
}

/// The nodes' pods by name, all as of one look.
pub(crate) fn pods(namespace: &Namespace) -> Result<BTreeMap<String, Pod>, String> {
    let listed = namespace.kubectl(&["get", "pods", "--selector", PODS, "--output", "json"]);
    let listed = listed.map_err(|error| error.to_string())?;
    let listed: Value = serde_json::from_str(&listed).map_err(|error| error.to_string())?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pod = |pod: &Value| {
        let (metadata, status) = (&pod["metadata"], &pod["status"]);
        let is_ready =
            metadata["deletionTimestamp"].is_null() && status["containerStatuses"][0]["ready"] == true;
        let host = text(&pod["spec"]["nodeName"]);
        let restarts = status["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default();
        (text(&metadata["name"]), Pod { uid: text(&metadata["uid"]), host, is_ready, restarts })
    };
    Ok(listed["items"].as_array().into_iter().flatten().map(pod).collect())
}

/// How many pods are ready and stay.
pub(crate) fn ready(pods: &BTreeMap<String, Pod>) -> usize {
    pods.values().filter(|pod| pod.is_ready).count()
}

/// How many pods are still those of before.
pub(crate) fn same(before: &BTreeMap<String, Pod>, now: &BTreeMap<String, Pod>) -> usize {
    before.keys().filter(|name| is_same(before, now, name)).count()
}

/// Whether all pods are those of before, are ready, and no container was started again.
pub(crate) fn stayed(before: &BTreeMap<String, Pod>, now: &BTreeMap<String, Pod>) -> Result<(), String> {
    for (name, was) in before {
        match now.get(name) {
            Some(is) if is.uid == was.uid && is.is_ready && is.restarts == was.restarts => {}
            found => return Err(format!("{name} did not stay as it was: {was:?}, then {found:?}")),
        }
    }
    Ok(())
}

fn is_same(before: &BTreeMap<String, Pod>, now: &BTreeMap<String, Pod>, name: &str) -> bool {
    before.get(name).zip(now.get(name)).is_some_and(|(before, now)| before.uid == now.uid)
}
