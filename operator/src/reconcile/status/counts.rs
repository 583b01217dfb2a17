//! Counts of a cluster: how many pods serve, how many volumes are online.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use sherd_proto::v1::{StatusReply, VolumeState};

use crate::api::{ClusterStatus, Pool, PoolStatus};
use crate::reconcile::nodes::NodeAnswers;

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
        claim_capacity: None,
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

/// The version of the wire protocol of the oldest node: of those that do not answer as it was last. A node
/// that names none is older than any that does.
pub(super) fn wire_version(answers: &NodeAnswers, last: Option<i32>) -> Option<i32> {
    let wire = |reply: &StatusReply| reply.sender.as_ref().map_or(0, |sender| sender.wire);
    let oldest = answers.values().flatten().map(wire).min();
    let oldest = oldest.map(|wire| i32::try_from(wire).unwrap_or(i32::MAX));
    let all_answer = answers.values().all(Result::is_ok);
    oldest.into_iter().chain(last.filter(|_| oldest.is_none() || !all_answer)).min()
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

#[cfg(test)]
mod tests {
    use sherd_proto::v1::Sender;

    use super::*;

    #[test]
    fn the_oldest_node_decides_and_a_silent_one_as_it_was() {
        let of = |wires: &[Option<u32>]| -> NodeAnswers {
            let answer = |wire: &Option<u32>| {
                let sender = wire.map(|wire| Sender { wire, ..Sender::default() });
                let reply = StatusReply { sender, ..StatusReply::default() };
                wire.map(|_| reply).ok_or_else(|| "no answer".to_owned())
            };
            let named = wires.iter().enumerate();
            named.map(|(node, wire)| (format!("demo-pool-0-{node}"), answer(wire))).collect()
        };
        assert_eq!(wire_version(&of(&[]), None), None);
        assert_eq!(wire_version(&of(&[]), Some(2)), Some(2));
        assert_eq!(wire_version(&of(&[Some(3), Some(2)]), Some(1)), Some(2));
        assert_eq!(wire_version(&of(&[Some(2), None]), Some(1)), Some(1));
        assert_eq!(wire_version(&of(&[Some(2), None]), Some(3)), Some(2));
        assert_eq!(wire_version(&of(&[None]), Some(2)), Some(2));
        let unnamed = [("demo-pool-0-0".to_owned(), Ok(StatusReply::default()))].into();
        assert_eq!(wire_version(&unnamed, Some(2)), Some(0));
    }
}
