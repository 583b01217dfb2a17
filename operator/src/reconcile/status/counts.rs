//! Counts of a cluster: how many pods serve, how many volumes are online.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use sherd_proto::v1::{StatusReply, VolumeState};

use crate::api::{ClusterStatus, Pool, PoolStatus};

pub(super) fn count(
    status: &mut ClusterStatus,
    pool: &Pool,
    wanted: &[String],
    ready: &BTreeSet<String>,
    view: Option<&StatusReply>,
) {
    let volumes = view.map(|view| view.volumes.as_slice()).unwrap_or_default();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let serving = number(wanted.len() - absent(wanted, ready).len());
    let pool_status = PoolStatus {
        name: pool.name.clone(),
        nodes: pool.nodes,
        ready: serving,
        volumes: pool.nodes.saturating_mul(pool.volumes_per_node),
        online: number(volumes.iter().filter(|volume| is_online(volume.state())).count()),
        healing: number(volumes.iter().filter(|volume| is_online(volume.state()) && !volume.healed).count()),
    };
    status.pools_ready = Some(format!("{}/1", i32::from(serving == pool.nodes)));
    status.nodes_ready = Some(format!("{serving}/{}", pool.nodes));
    status.volumes_online = Some(format!("{}/{}", pool_status.online, pool_status.volumes));
    status.volumes_healing = Some(pool_status.healing);
    status.pools = vec![pool_status];
}

pub(super) const fn is_online(state: VolumeState) -> bool {
    matches!(state, VolumeState::Online)
}

pub(super) fn versions(view: Option<&StatusReply>) -> Option<String> {
    let versions = view?.nodes.iter().map(|node| node.version.as_str()).filter(|version| !version.is_empty());
    let versions: BTreeSet<&str> = versions.collect();
    (!versions.is_empty()).then(|| versions.into_iter().collect::<Vec<_>>().join(","))
}

/// The pods that pass their readiness probe and are not on their way out.
pub(super) fn ready_pods(pods: &[Pod]) -> BTreeSet<String> {
    let is_ready = |pod: &&Pod| {
        let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
        pod.metadata.deletion_timestamp.is_none()
            && conditions
                .into_iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    pods.iter().filter(is_ready).map(Pod::name_any).collect()
}

/// The pods that are wanted and do not serve.
pub(super) fn absent<'a>(wanted: &'a [String], ready: &BTreeSet<String>) -> Vec<&'a str> {
    wanted.iter().filter(|pod| !ready.contains(*pod)).map(String::as_str).collect()
}
