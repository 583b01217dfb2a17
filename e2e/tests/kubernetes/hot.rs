//! Settings of a StorageCluster that running nodes take are changed under load: the condition says when every
//! node runs with them, metrics and logs of each node show it, values that nodes refuse are reported in the
//! node's words and leave the former ones in force, no pod restarts and no request fails.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_s3::Client;
use serde_json::{Value, json};
use sherd_e2e::command::run;
use sherd_e2e::history::Load;
use sherd_e2e::kubernetes::{Namespace, condition_in, wait_for};

use crate::cases::{CaseResult, opens_admin_ports};
use crate::rollouts::{PODS, ROLLED, WRITES_AROUND, finish, pods, rests, stayed};

const CLUSTER: &str = "demo";
const CONDITION: &str = "SettingsLoaded";
/// How long the nodes may take to load other settings: kubelets bring them within two minutes.
const LOADED: Duration = Duration::from_mins(5);
const GENERATION: &str = "sherd_config_generation";
const REFUSED: &str = "sherd_config_refused";

/// Changes settings, has some refused, and takes all of them away again.
pub(crate) async fn change_under_load(namespace: &Namespace, client: &Client) -> CaseResult {
    opens_admin_ports(namespace, CLUSTER)?;
    settings_are(namespace, "AsAsked").await?;
    wait_for("the pods stay", ROLLED, || rests(namespace)).await?;
    let before = pods(namespace)?;
    client.create_bucket().bucket("settings").send().await?;
    let load = Load::start(client, "settings", 8);
    load.goes_on_for(WRITES_AROUND).await?;
    let changed = change(namespace, &load).await;
    let note = finish(load, client, "settings").await?;
    let changed = changed?;
    stayed(&before, &pods(namespace)?)?;
    Ok(format!("({changed}, {note})"))
}

async fn change(namespace: &Namespace, load: &Load) -> CaseResult {
    let first = gauges(namespace, GENERATION)?;
    // Every request is slow, and each call to another node is a line: a node's log shows both.
    set(
        namespace,
        &json!({
            "logLevel": "info,peer_calls=debug", "slowRequest": "1ms", "releaseGrace": "5m", "scrubPeriod": "20days",
        }),
    )?;
    let taken = settings_are(namespace, "AsAsked").await?;
    load.goes_on_for(WRITES_AROUND).await?;
    each_log_has(namespace, |line| line["message"] == "call to another node").await?;
    each_log_has(namespace, |line| {
        // Each field of a line is a text.
        let took: Option<u32> = line["total_ms"].as_str().and_then(|took| took.parse().ok());
        line["message"] == "slow request" && took.is_some_and(|took| took < 1000)
    })
    .await?;
    let second = gauges(namespace, GENERATION)?;
    if let Some((pod, before)) = first.iter().find(|(pod, before)| second.get(*pod) <= Some(*before)) {
        return Err(format!("{pod} loaded nothing: {GENERATION} was {before}, then {second:?}").into());
    }

    // The operator takes any text for a level, and a node takes none but its own.
    set(namespace, &json!({"logLevel": "sherd_store=loud"}))?;
    let refused = settings_are(namespace, "SettingsRefused").await?;
    let message = message(namespace);
    if !message.contains("log.level") {
        return Err(format!("the refusal has not the node's words: {message}").into());
    }
    let look = || match gauges(namespace, REFUSED) {
        Ok(refused) if refused.values().all(|value| *value == 1) => Ok(()),
        found => Err(format!("{REFUSED}: {found:?}")),
    };
    wait_for("every node refuses the level", LOADED, look).await?;
    if gauges(namespace, GENERATION)? != second {
        return Err("a node loaded what it refuses".into());
    }

    set(namespace, &Value::Null)?;
    let back = settings_are(namespace, "AsAsked").await?;
    load.goes_on_for(WRITES_AROUND).await?;
    if gauges(namespace, REFUSED)?.values().any(|value| *value != 0) {
        return Err("a node still refuses its settings".into());
    }
    Ok(format!(
        "taken after {:.0} s, refused after {:.0} s, taken away after {:.0} s",
        taken.as_secs_f64(),
        refused.as_secs_f64(),
        back.as_secs_f64()
    ))
}

fn set(namespace: &Namespace, config: &Value) -> Result<(), Box<dyn std::error::Error>> {
    let patch = json!({"spec": {"config": config}}).to_string();
    namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=merge", "--patch", &patch])?;
    Ok(())
}

fn message(namespace: &Namespace) -> String {
    let cluster = namespace.get("storagecluster", CLUSTER).unwrap_or_default();
    condition_in(&cluster, CONDITION)["message"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the condition has a reason, for the settings as they are asked for now.
async fn settings_are(namespace: &Namespace, reason: &str) -> Result<Duration, String> {
    let look = || {
        let cluster = namespace.get("storagecluster", CLUSTER).unwrap_or_default();
        let found = condition_in(&cluster, CONDITION);
        let is_new = found["observedGeneration"] == cluster["metadata"]["generation"];
        if is_new && found["reason"] == reason { Ok(()) } else { Err(found.to_string()) }
    };
    wait_for(&format!("{CONDITION} with {reason}"), LOADED, look).await
}

/// A metric of each node that has one value.
fn gauges(namespace: &Namespace, metric: &str) -> Result<BTreeMap<String, u64>, String> {
    let names = namespace.names("pod", PODS).map_err(|error| error.to_string())?;
    let value = |pod: String| {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}:9200/proxy/metrics", namespace.name);
        let text = run("kubectl", &["get", "--raw", &path]).map_err(|error| error.to_string())?;
        let mut values = text.lines().filter_map(|line| line.strip_prefix(metric)?.trim().parse().ok());
        values.next().map(|value| (pod.clone(), value)).ok_or(format!("{pod} has no {metric}"))
    };
    names.into_iter().map(value).collect()
}

/// Waits until the log of each node has such a line among its last ones.
async fn each_log_has(namespace: &Namespace, is_wanted: impl Fn(&Value) -> bool) -> Result<(), String> {
    let look = || {
        for pod in namespace.names("pod", PODS).map_err(|error| error.to_string())? {
            let log = namespace.kubectl(&["logs", &pod, "--tail=2000"]).map_err(|error| error.to_string())?;
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if !lines.any(|line| is_wanted(&line)) {
                return Err(format!("the log of {pod} has no such line; its last: {:?}", log.lines().last()));
            }
        }
        Ok(())
    };
    wait_for("a line in each node's log", LOADED, look).await.map(|_| ())
}
