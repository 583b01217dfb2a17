//! When a cluster is swept: as soon as this operator leads and sees it, or sees another one of its name,
//! which adopts what was left; and every [`limits::SWEPT_AGAIN`] from then on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube::ResourceExt as _;
use tokio::time::Instant;

use super::{SweepError, sweep};
use crate::api::StorageCluster;
use crate::limits;
use crate::reconcile::Context;

/// Sweeps the clusters that `clusters` returns, without an end.
pub async fn run(context: &Context, clusters: impl Fn() -> Vec<Arc<StorageCluster>> + Sync) {
    let mut schedule = Schedule::default();
    loop {
        let due = schedule.due(clusters(), Instant::now());
        let swept = stream::iter(due).map(|cluster| async move {
            let swept = tokio::time::timeout(limits::SWEEP_TIME_MAX, sweep(context, &cluster)).await;
            (cluster, swept)
        });
        let mut swept = std::pin::pin!(swept.buffer_unordered(limits::CLUSTERS_SWEPT_AT_ONCE));
        while let Some((cluster, swept)) = swept.next().await {
            let name = format!("{}/{}", cluster.namespace().unwrap_or_default(), cluster.name_any());
            let is_done = matches!(swept, Ok(Ok(_)));
            match swept {
                Ok(Ok(_)) => {}
                Ok(Err(SweepError::NotReady(why))) => tracing::debug!(cluster = name, why, "sweep users"),
                Ok(Err(error)) => tracing::warn!(cluster = name, %error, "sweep users"),
                Err(_) => tracing::warn!(cluster = name, "sweep users: not done in time"),
            }
            schedule.ended(&cluster, is_done, Instant::now());
        }
        tokio::time::sleep(limits::SWEEPS_LOOKED_FOR).await;
    }
}

/// The next sweep of each cluster by its uid.
#[derive(Debug, Default)]
struct Schedule(HashMap<String, Instant>);

impl Schedule {
    /// Returns the clusters whose time has come; those that are gone are forgotten.
    fn due(&mut self, clusters: Vec<Arc<StorageCluster>>, now: Instant) -> Vec<Arc<StorageCluster>> {
        self.0.retain(|uid, _| clusters.iter().any(|cluster| uid_of(cluster) == *uid));
        let is_due =
            |cluster: &Arc<StorageCluster>| self.0.get(&uid_of(cluster)).is_none_or(|next| *next <= now);
        clusters.into_iter().filter(is_due).collect()
    }

    fn ended(&mut self, cluster: &StorageCluster, is_done: bool, now: Instant) {
        let wait: Duration = if is_done { limits::SWEPT_AGAIN } else { limits::RESYNC_ACCESS_UNSETTLED };
        self.0.insert(uid_of(cluster), now + wait);
    }
}

fn uid_of(cluster: &StorageCluster) -> String {
    cluster.uid().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(uid: &str) -> Arc<StorageCluster> {
        let object = json!({
            "apiVersion": "sherd.dev/v1alpha1", "kind": "StorageCluster",
            "metadata": {"name": "demo", "namespace": "storage", "uid": uid}, "spec": {"pools": []},
        });
        Arc::new(serde_json::from_value(object).expect("of the right form"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_is_swept_at_first_sight_every_five_minutes_and_when_it_is_another_one() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let due = |schedule: &mut Schedule, uid: &str, seconds: u64| {
            !schedule.due(vec![cluster(uid)], start + Duration::from_secs(seconds)).is_empty()
        };
        assert!(due(&mut schedule, "a", 0));
        schedule.ended(&cluster("a"), false, start);
        assert!(!due(&mut schedule, "a", 9) && due(&mut schedule, "a", 10), "after a failure");
        schedule.ended(&cluster("a"), true, start);
        assert!(!due(&mut schedule, "a", 299) && due(&mut schedule, "a", 300));
        schedule.ended(&cluster("a"), true, start + Duration::from_mins(5));
        assert!(due(&mut schedule, "b", 301), "it adopts what was left");
        assert!(due(&mut schedule, "a", 302), "what was gone is forgotten");
    }
}
