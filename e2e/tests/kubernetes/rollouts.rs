//! Pods that the operator replaces, and hosts that are drained, under load: at most one node is away at a
//! time, the next goes only when what it missed is healed, and no request of an SDK client fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use aws_sdk_s3::Client;
use serde_json::{Value, json};
use sherd_e2e::command::run;
use sherd_e2e::history::Load;
use sherd_e2e::kubernetes::{Namespace, wait_for};

use crate::cases::CaseResult;

const CLUSTER: &str = "demo";
const PODS: &str = "app.kubernetes.io/name=sherd-node,sherd.dev/cluster=demo";
/// How long a rollout of four nodes may take: each restarts in seconds and heals in half a minute, or in
/// minutes on a machine that builds meanwhile.
const ROLLED: Duration = Duration::from_mins(10);
/// Writes before and after.
const WRITES_AROUND: u64 = 200;

/// An annotation replaces every pod, one after the other.
pub(crate) async fn restart_under_load(namespace: &Namespace, client: &Client) -> CaseResult {
    client.create_bucket().bucket("rolled").send().await?;
    let load = Load::start(client, "rolled", 8);
    load.goes_on_for(WRITES_AROUND).await?;
    let before = uids(namespace)?;
    namespace.kubectl(&["annotate", "storagecluster", CLUSTER, "--overwrite", "sherd.dev/restart=e2e"])?;
    let mut most_away = 0;
    let look = || {
        let pods = uids(namespace).map_err(|error| error.to_string())?;
        most_away = most_away.max(before.len() - ready(namespace)?);
        let kept = before.iter().filter(|(pod, uid)| pods.get(*pod) == Some(*uid)).count();
        if kept > 0 {
            return Err(format!("{kept} pods are not replaced: {}", rollout(namespace)["message"]));
        }
        rests(namespace)
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
    let image = |tag: Value| json!({"spec": {"image": {"tag": tag}, "upgrade": {"healthTimeout": "1m"}}});
    let patch = |patch: Value| {
        let patch = patch.to_string();
        namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=merge", "--patch", &patch])
    };
    let before = uids(namespace)?;
    patch(image(json!("there-is-none")))?;
    let blocked = || match namespace.condition(CLUSTER, "UpgradeBlocked") {
        Some((status, reason)) if status == "True" && reason == "HealthTimeout" => {
            if ready(namespace)? == before.len() { Ok(()) } else { Err("a pod is not ready".to_owned()) }
        }
        found => Err(format!("UpgradeBlocked: {found:?}: {}", rollout(namespace)["message"])),
    };
    let taken = wait_for("the last template is put back", ROLLED, blocked).await;
    let after = uids(namespace)?;
    let kept = before.iter().filter(|(pod, uid)| after.get(*pod) == Some(*uid)).count();
    patch(image(Value::Null))?;
    let ended = wait_for("the revert ends it", ROLLED, || rests(namespace)).await;
    let note = finish(load, client, "bad-image").await?;
    let taken = taken?;
    ended?;
    if kept + 1 != before.len() {
        return Err(format!("{kept} of {} pods were left alone", before.len()).into());
    }
    Ok(format!("(put back after {:.0} s, {note})", taken.as_secs_f64()))
}

/// One host is drained, and another at once: its node goes only when the first one is back and healed.
pub(crate) async fn drain(namespace: &Namespace, client: &Client) -> CaseResult {
    client.create_bucket().bucket("drained").send().await?;
    let load = Load::start(client, "drained", 8);
    load.goes_on_for(WRITES_AROUND).await?;
    let (first, second) = (host(namespace, "demo-pool-0-0")?, host(namespace, "demo-pool-0-1")?);
    let before = uids(namespace)?;
    let drain = |host: &str| {
        let arguments = ["drain", host, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10m"];
        let arguments = arguments.map(str::to_owned);
        tokio::task::spawn_blocking(move || run("kubectl", &arguments.each_ref().map(String::as_str)))
    };
    let drained = drain(&first).await?;
    let waits = drain(&second);
    load.goes_on_for(WRITES_AROUND).await?;
    // Its volumes are local: the first node is away until its host takes pods again.
    let kept = uids(namespace)?.get("demo-pool-0-1") == before.get("demo-pool-0-1");
    run("kubectl", &["uncordon", &first])?;
    let ended = waits.await?;
    let is_back = uids(namespace)?.get("demo-pool-0-0") != before.get("demo-pool-0-0");
    run("kubectl", &["uncordon", &second])?;
    load.goes_on_for(WRITES_AROUND).await?;
    let settled = wait_for("both are back", ROLLED, || rests(namespace)).await;
    let note = finish(load, client, "drained").await?;
    drained?;
    ended?;
    settled?;
    if !kept || !is_back {
        return Err(format!("the second node went before the first was back: {kept} {is_back}").into());
    }
    Ok(format!("({note})"))
}

/// Stops a load, and says what it did; a failed request or a lost object is an error.
async fn finish(load: Load, client: &Client, bucket: &str) -> CaseResult {
    let report = load.finish(client, bucket).await;
    let errors = report.errors.iter().take(5).collect::<Vec<_>>();
    if !report.wrong.is_empty() || !errors.is_empty() {
        return Err(format!("{bucket}: lost or wrong: {:#?}; failed: {errors:#?}", report.wrong).into());
    }
    let mut note = String::new();
    write!(note, "{} writes, slowest {:.1} s", report.acknowledged, report.slowest.as_secs_f64())?;
    Ok(note)
}

/// Nothing is left to replace or to heal.
fn rests(namespace: &Namespace) -> Result<(), String> {
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

fn rollout(namespace: &Namespace) -> Value {
    namespace.get("storagecluster", CLUSTER).unwrap_or_default()["status"]["rollout"].clone()
}

fn uids(namespace: &Namespace) -> Result<BTreeMap<String, Value>, Box<dyn std::error::Error>> {
    let pods = namespace.names("pod", PODS)?;
    let uid = |pod: String| {
        let found = namespace.get("pod", &pod)?["metadata"]["uid"].clone();
        Some((pod, found))
    };
    Ok(pods.into_iter().filter_map(uid).collect())
}

/// How many pods are ready and stay.
fn ready(namespace: &Namespace) -> Result<usize, String> {
    let pods = namespace.names("pod", PODS).map_err(|error| error.to_string())?;
    let is_ready = |pod: &String| {
        let pod = namespace.get("pod", pod).unwrap_or_default();
        pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["containerStatuses"][0]["ready"] == true
    };
    Ok(pods.iter().filter(|pod| is_ready(pod)).count())
}

fn host(namespace: &Namespace, pod: &str) -> Result<String, String> {
    let found = namespace.get("pod", pod).ok_or_else(|| format!("{pod} is not there"))?;
    found["spec"]["nodeName"].as_str().map(str::to_owned).ok_or_else(|| format!("{pod} has no host"))
}
