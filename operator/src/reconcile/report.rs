//! The report of a cluster: writes its status, and publishes what changed.
//!
//! An API server drops what the definition of StorageClusters does not have. Where that is of an older
//! version, the operator loses what it recorded, and writes the same status at each look. An event names the
//! remedy.

use std::collections::HashSet;

use kube::runtime::events::Recorder;
use kube::{Client, Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::error::ReconcileError;
use super::{condition, events};
use crate::api::{ClusterStatus, StorageCluster};

/// The clusters whose status was stored in part, and for which that was published.
#[derive(Debug, Default)]
pub struct PartialReports {
    /// By namespace and cluster.
    clusters: Mutex<HashSet<(String, String)>>,
}

impl PartialReports {
    /// Notes whether a cluster's status was stored in part. Returns whether that is new.
    fn note(&self, cluster: &StorageCluster, is_partial: bool) -> bool {
        let key = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        let mut clusters = self.clusters.lock();
        if is_partial {
            clusters.insert(key)
        } else {
            clusters.remove(&key);
            false
        }
    }

    /// Forgets the clusters, by namespace and name, that are gone.
    pub fn retain(&self, is_there: impl Fn(&str, &str) -> bool) {
        self.clusters.lock().retain(|(namespace, cluster)| is_there(namespace, cluster));
    }
}

/// Writes what was judged, and publishes what changed.
pub(super) async fn publish_status(
    (client, recorder): (&Client, &Recorder),
    reports: &PartialReports,
    cluster: &StorageCluster,
    judged: &ClusterStatus,
) -> Result<(), ReconcileError> {
    let last = cluster.status.as_ref();
    let written = condition::write(client, cluster, last, judged).await?;
    let reference = cluster.object_ref(&());
    if let Some(written) = written {
        let dropped = dropped_fields(&json!({"status": judged}), &json!({"status": written.status}), "");
        if reports.note(cluster, !dropped.is_empty()) {
            events::publish_dropped(recorder, &reference, &dropped).await;
        }
    }
    let last = last.map(|status| status.conditions.as_slice()).unwrap_or_default();
    events::publish(recorder, &reference, last, &judged.conditions, events::is_bad).await;
    Ok(())
}

/// The paths of fields that were written and are not stored. Lists are not looked into.
fn dropped_fields(written: &Value, stored: &Value, at: &str) -> Vec<String> {
    let Some(fields) = written.as_object() else { return vec![] };
    let mut dropped = vec![];
    for (name, value) in fields {
        let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        match stored.get(name) {
            None | Some(Value::Null) if !value.is_null() => dropped.push(at),
            found => dropped.extend(found.into_iter().flat_map(|found| dropped_fields(value, found, &at))),
        }
    }
    dropped
}
