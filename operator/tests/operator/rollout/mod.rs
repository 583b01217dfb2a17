//! The planner of rollouts: every geometry, a simulation with failures and a killed operator, and the
//! meaning of single nodes' answers.

mod geometries;
mod simulation;
mod answers;

use sherd_core::erasure::Geometry;
use sherd_core::topology::GeometryRequest;
use sherd_operator::rollout::{PoolSets, UpgradeRules};

const RULES: UpgradeRules = UpgradeRules {
    health_timeout: std::time::Duration::from_mins(15),
    is_paused: false,
    allows_downtime: false,
};

fn names(nodes: usize) -> Vec<String> {
    (0..nodes).map(|node| format!("demo-pool-0-{node}")).collect()
}

/// Whether a set takes reads and writes with `up` volumes that vote and hold their shards.
fn takes_reads_and_writes(geometry: Geometry, up: usize) -> bool {
    let (volumes, data, parity) = (geometry.volumes(), geometry.data_shards(), geometry.parity_shards());
    let accept = volumes / 2 + 1;
    let prepare = volumes - accept + 1;
    up >= accept && up >= prepare && up >= data + usize::from(parity > 0)
}

/// Every pool of this many nodes and volumes: the default, and the sizes and codes that can be asked for.
fn pools(nodes: usize, volumes: usize) -> Vec<PoolSets> {
    let mut requests = vec![GeometryRequest::default()];
    for size in (1..=32).filter(|size| (nodes * volumes).is_multiple_of(*size)) {
        let share = size.div_ceil(nodes);
        let mut parities = vec![0, 1, share, share + 1, size / 2, size - 1];
        parities.sort_unstable();
        parities.dedup();
        let request = |parity| GeometryRequest { set_volumes: Some(size), parity_shards: Some(parity) };
        requests.extend(parities.into_iter().map(request));
    }
    requests.into_iter().filter_map(|request| PoolSets::of(nodes, volumes, request).ok()).collect()
}
