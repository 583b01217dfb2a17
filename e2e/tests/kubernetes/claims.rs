//! Claims that are lost: three of four at once, which is more than the cluster bears. Nothing is formatted,
//! the status names the claims, and what a person brings back, vouches for and gives up ends it. Then all of
//! four: the cluster forms again, empty, when a person orders it, and not before.

use std::time::Duration;

use serde_json::{Value, json};
use sherd_e2e::command::run;
use sherd_e2e::kubernetes::{Namespace, wait_for};

use crate::cases::CaseResult;

const CLUSTER: &str = "demo";
const POOL: &str = "demo-pool-0";
/// How long a pod may take to come back, or the status to say what happened.
const SEEN: Duration = Duration::from_mins(5);
/// How long a claim may take to go with its pod.
const GONE: Duration = Duration::from_mins(2);

/// Loses the claims of three of four nodes, and brings one of them back as it was.
pub(crate) async fn lose_three_of_four(namespace: &Namespace) -> CaseResult {
    // The PersistentVolume of the node that comes back outlives its claim, as one of the class `Retain` does.
    let kept = volume_of(namespace, 1)?;
    run(
        "kubectl",
        &["patch", "pv", &kept, "--patch", r#"{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}"#],
    )?;
    // The nodes are lost one after the other: each pod finds the host that it left, which the others do not
    // take.
    for node in [1, 2, 3] {
        lose(namespace, node).await?;
    }
    wait_for("the status says what is lost", SEEN, || {
        let degraded = namespace.condition(CLUSTER, "Degraded");
        let ready = namespace.condition(CLUSTER, "Ready");
        let lost = losses(namespace, "Lost");
        let claims = [1, 2, 3].map(claim);
        let is_named = claims.iter().all(|claim| lost.iter().any(|loss| loss["claim"] == **claim));
        match (&degraded, &ready) {
            (Some((_, degraded)), Some((status, _)))
                if degraded == "DataLost" && status == "False" && is_named =>
            {
                Ok(())
            }
            _ => Err(format!("{degraded:?} {ready:?} {lost:?}")),
        }
    })
    .await?;
    let formatted = losses(namespace, "Lost")
        .into_iter()
        .find(|loss| !loss["reason"].as_str().unwrap_or_default().contains("empty"));
    if let Some(loss) = formatted {
        return Err(format!("its directory is not empty any more: {loss}").into());
    }

    bring_back(namespace, 1, &kept).await?;
    wait_for("the status asks for a word on the one that is back", SEEN, || {
        match namespace.condition(CLUSTER, "Degraded") {
            Some((_, reason)) if reason == "DataAtRisk" && losses(namespace, "Unconfirmed").len() == 1 => {
                Ok(())
            }
            found => Err(format!("{found:?} {:?}", losses(namespace, "Unconfirmed"))),
        }
    })
    .await?;
    order(namespace, "sherd.dev/vouch", &losses(namespace, "Unconfirmed"))?;
    wait_for("it votes", SEEN, || match losses(namespace, "Unconfirmed").as_slice() {
        [] => Ok(()),
        left => Err(format!("{left:?}")),
    })
    .await?;
    // The others need not wait for ten minutes whether their disks come back.
    order(namespace, "sherd.dev/replace-volume", &losses(namespace, "Lost"))?;
    let orders =
        || namespace.get("storagecluster", CLUSTER).unwrap_or_default()["status"]["volumeOrders"].clone();
    wait_for("three orders are recorded", SEEN, || {
        let orders = orders();
        let accepted =
            orders.as_array().into_iter().flatten().filter(|order| order["accepted"] == true).count();
        if accepted == 3 { Ok(()) } else { Err(orders.to_string()) }
    })
    .await?;
    Ok("(one of three came back, two were rebuilt)".to_owned())
}

/// Loses the claims of all nodes, and has the cluster form again.
pub(crate) async fn lose_all(namespace: &Namespace) -> Result<(), Box<dyn std::error::Error>> {
    let live = || namespace.get("configmap", "demo-live").unwrap_or_default()["data"]["live.toml"].clone();
    wait_for("nodes are told that the cluster was formed", GONE, || match live() {
        Value::String(text) if text.contains("formed = ") => Ok(()),
        text => Err(text.to_string()),
    })
    .await?;
    let selector = "sherd.dev/cluster=demo";
    namespace.kubectl(&["delete", "persistentvolumeclaim", "--selector", selector, "--wait=false"])?;
    namespace.kubectl(&["delete", "pod", "--selector", selector])?;
    let status = || namespace.get("storagecluster", CLUSTER).unwrap_or_default()["status"].clone();
    wait_for("the status says that all is lost", SEEN, || {
        let (ready, status) = (namespace.condition(CLUSTER, "Ready"), status());
        match (&ready, &status["formEmptyOrder"]) {
            (Some((_, reason)), Value::String(_)) if reason == "DataLost" => Ok(()),
            (ready, order) => Err(format!("{ready:?} {order}")),
        }
    })
    .await?;
    let lost = losses(namespace, "Lost");
    if lost.len() != 4 {
        return Err(format!("not four claims are lost: {lost:?}").into());
    }
    let order = status()["formEmptyOrder"].as_str().unwrap_or_default().to_owned();
    let text = format!("sherd.dev/form-empty={order}");
    namespace.kubectl(&["annotate", "storagecluster", CLUSTER, "--overwrite", &text])?;
    wait_for("it forms again", SEEN, || match namespace.condition(CLUSTER, "Ready") {
        Some((status, _)) if status == "True" => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await?;
    Ok(())
}

fn claim(node: usize) -> String {
    format!("v1-{POOL}-{node}")
}

fn claim_uid(namespace: &Namespace, node: usize) -> Option<String> {
    let found = namespace.get("persistentvolumeclaim", &claim(node))?;
    Some(found["metadata"]["uid"].as_str()?.to_owned())
}

fn volume_of(namespace: &Namespace, node: usize) -> Result<String, String> {
    let found = namespace.get("persistentvolumeclaim", &claim(node)).unwrap_or_default();
    found["spec"]["volumeName"].as_str().map(str::to_owned).ok_or(format!("{} is not bound", claim(node)))
}

/// Deletes a node's claim with its pod, and waits for both to be made again.
async fn lose(namespace: &Namespace, node: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (pod, before) = (format!("{POOL}-{node}"), claim_uid(namespace, node));
    namespace.kubectl(&["delete", "persistentvolumeclaim", &claim(node), "--wait=false"])?;
    namespace.kubectl(&["delete", "pod", &pod])?;
    wait_for("the claim is made again", GONE, || match claim_uid(namespace, node) {
        Some(uid) if Some(&uid) != before.as_ref() => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await?;
    runs(namespace, &pod).await
}

async fn runs(namespace: &Namespace, pod: &str) -> Result<(), Box<dyn std::error::Error>> {
    wait_for("the pod runs", SEEN, || {
        let phase = namespace.get("pod", pod).unwrap_or_default()["status"]["phase"].clone();
        if phase == "Running" { Ok(()) } else { Err(format!("{pod}: {phase}")) }
    })
    .await?;
    Ok(())
}

/// Binds a PersistentVolume that was kept to the next claim of its former name.
async fn bring_back(
    namespace: &Namespace,
    node: usize,
    volume: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let reserve = json!([
        {"op": "remove", "path": "/spec/claimRef/uid"},
        {"op": "remove", "path": "/spec/claimRef/resourceVersion"},
    ]);
    run("kubectl", &["patch", "pv", volume, "--type=json", "--patch", &reserve.to_string()])?;
    lose(namespace, node).await?;
    match volume_of(namespace, node)? {
        bound if bound == volume => Ok(()),
        other => Err(format!("{} is bound to {other} instead of {volume}", claim(node)).into()),
    }
}

/// The volumes that the status lists in a state.
fn losses(namespace: &Namespace, state: &str) -> Vec<Value> {
    let found = namespace.get("storagecluster", CLUSTER).unwrap_or_default();
    let losses = found["status"]["volumeLosses"].as_array().cloned().unwrap_or_default();
    losses.into_iter().filter(|loss| loss["state"] == state).collect()
}

/// Writes the orders about volumes, as the status has them, into an annotation.
fn order(
    namespace: &Namespace,
    annotation: &str,
    losses: &[Value],
) -> Result<(), Box<dyn std::error::Error>> {
    let orders: Vec<&str> = losses.iter().filter_map(|loss| loss["order"].as_str()).collect();
    if orders.is_empty() || orders.len() != losses.len() {
        return Err(format!("no orders for {losses:?}").into());
    }
    let text = format!("{annotation}={}", orders.join(","));
    namespace.kubectl(&["annotate", "storagecluster", CLUSTER, "--overwrite", &text])?;
    Ok(())
}
