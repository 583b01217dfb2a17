//! A ResourceQuota that allows no further pod of the namespace: the status of a cluster that is made then
//! repeats the API server's own words, and the cluster is Ready once the quota is gone. The case removes all
//! that it made.

use std::time::Duration;

use serde_json::{Value, json};
use sherd_e2e::kubernetes::{Namespace, condition_in, wait_for};

use crate::cases::CaseResult;

const CLUSTER: &str = "capped";
const QUOTA: &str = "no-pods";
/// How long a change may take: generous, for a busy machine. The controller of StatefulSets tries again at
/// growing intervals.
const DONE: Duration = Duration::from_mins(5);

/// The whole case.
pub(crate) async fn story(namespace: &Namespace) -> CaseResult {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA},
        "spec": {"hard": {"pods": "0"}},
    });
    namespace.apply(&quota.to_string())?;
    let ended = forbidden_and_allowed(namespace).await;
    namespace.kubectl(&["delete", "resourcequota", QUOTA, "--ignore-not-found"])?;
    namespace.kubectl(&["delete", "storagecluster", CLUSTER, "--ignore-not-found"])?;
    let selector = format!("sherd.dev/cluster={CLUSTER}");
    namespace.kubectl(&["delete", "persistentvolumeclaims,secrets", "--selector", &selector])?;
    ended
}

async fn forbidden_and_allowed(namespace: &Namespace) -> CaseResult {
    // The quota is in force once its controller has counted what is there.
    let counted = || match namespace.get("resourcequota", QUOTA) {
        Some(quota) if quota["status"]["hard"]["pods"] == "0" => Ok(()),
        found => Err(format!("{found:?}")),
    };
    wait_for("the quota is in force", DONE, counted).await?;
    let cluster = json!({
        "apiVersion": "sherd.dev/v1alpha1", "kind": "StorageCluster", "metadata": {"name": CLUSTER},
        "spec": {"pools": [{
            "name": "pool-0", "nodes": 1, "volumesPerNode": 4,
            "volumeClaimTemplate": {
                "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}},
            },
        }]},
    });
    namespace.apply(&cluster.to_string())?;
    let said = wait_for("the status says why no pod is made", DONE, || {
        let found = condition(namespace, "PoolsReady");
        let words = found["message"].as_str().unwrap_or_default();
        let is_quoted = words.contains("exceeded quota: no-pods") && words.contains("capped-pool-0-0");
        if found["reason"] == "FailedCreate" && is_quoted { Ok(()) } else { Err(found.to_string()) }
    });
    let said = said.await?;
    let ready = condition(namespace, "Ready");
    if ready["status"] == "True" {
        return Err(format!("Ready without a pod: {ready}").into());
    }
    namespace.kubectl(&["delete", "resourcequota", QUOTA])?;
    let took = wait_for("Ready without the quota", DONE, || {
        let (ready, pools) = (condition(namespace, "Ready"), condition(namespace, "PoolsReady"));
        let is_ready = ready["status"] == "True" && pools["status"] == "True";
        if is_ready { Ok(()) } else { Err(format!("{ready} {pools}")) }
    });
    let took = took.await?;
    Ok(format!("(said after {:.1} s, Ready after {:.1} s)", said.as_secs_f64(), took.as_secs_f64()))
}

fn condition(namespace: &Namespace, condition: &str) -> Value {
    condition_in(&namespace.get("storagecluster", CLUSTER).unwrap_or_default(), condition)
}
