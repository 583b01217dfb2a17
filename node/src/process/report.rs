//! What this node says of itself to other nodes and to `status`: its state in each ping, and the cluster as it
//! sees it.
//!
//! Made before the store is open, and completed by it: a node that is forming answers pings, too. A volume
//! counts as healed when nothing that could concern it was queued on any node of its sets for 10 s; a node that
//! does not answer speaks against that.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use sherd_core::checksum::Digest;
use sherd_core::env::{Clock, Rng};
use sherd_core::id::{ProcessId, VolumeId};
use sherd_core::report::{NodeReport, VolumeCondition, VolumeReport};
use sherd_core::topology::Topology;
use sherd_proto::convert::Wire;
use sherd_proto::v1::{Formation, NodeStatus, SetStatus, StatusReply};

use crate::health::{Health, Phase, SetHealth};
use crate::process::store::Store;
use sherd_net::rpc::NodeDesk;
use sherd_net::tls::Trust;
use sherd_store::cluster::formation::topology_digest;
use sherd_store::cluster::membership::Membership;

/// How long nothing may have been queued before a volume counts as healed.
const HEALED_AFTER: Duration = Duration::from_secs(10);

/// What is said of this node, and of the cluster as it sees it.
pub struct NodeReporter {
    /// What never changes: name, process, version, digests.
    fixed: NodeReport,
    cluster_name: String,
    trust: Trust,
    health: Arc<Health>,
    clock: Arc<dyn Clock>,
    membership: OnceLock<Arc<Membership>>,
    topology: OnceLock<Digest>,
    store: OnceLock<Store>,
    calm: Mutex<HashMap<VolumeId, CalmSince>>,
}

/// Since when nothing is known that a volume lacks.
#[derive(Debug, Clone, Copy)]
struct CalmSince {
    monotonic_us: u64,
    wall_ms: u64,
}

/// What a reporter is made of.
#[derive(Debug)]
pub struct ReporterConfig {
    /// This node's name.
    pub node: String,
    /// The cluster's name, for people.
    pub cluster_name: String,
    /// Over what must be equal on all nodes.
    pub config_digest: [u8; 32],
    /// Shows that the root credentials are equal, and not what they are.
    pub credentials_proof: [u8; 32],
    /// The certificates.
    pub trust: Trust,
    /// Whether the process is stopping.
    pub health: Arc<Health>,
    /// The process's clock.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for NodeReporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeReporter").field("name", &self.fixed.name).finish_non_exhaustive()
    }
}

impl NodeReporter {
    /// Makes one; membership, topology and store come later.
    pub fn new(config: ReporterConfig, rng: &dyn Rng) -> Self {
        let ReporterConfig { node, cluster_name, config_digest, credentials_proof, trust, health, clock } =
            config;
        let fixed = NodeReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config_digest: Some(config_digest),
            credentials_proof: Some(credentials_proof),
            ..NodeReport::of(node, ProcessId(rng.next_id()))
        };
        Self {
            fixed,
            cluster_name,
            trust,
            health,
            clock,
            membership: OnceLock::new(),
            topology: OnceLock::new(),
            store: OnceLock::new(),
            calm: Mutex::default(),
        }
    }

    /// Learns where the other nodes' states are. Once. Health lists from here on what is wrong with them.
    pub fn know_membership(&self, membership: &Arc<Membership>) {
        let known = Arc::downgrade(membership);
        let problems = move || known.upgrade().map_or_else(Vec::new, |known| known.problems());
        self.health.know_problems(Arc::new(problems));
        let _first_stays = self.membership.set(Arc::clone(membership));
    }

    /// Says from here on which topology this node's volumes hold. Once.
    pub fn know_topology(&self, topology: &Topology) {
        let _first_stays = self.topology.set(topology_digest(topology));
    }

    /// Speaks of the volumes from here on. Once.
    pub fn know_store(&self, store: &Store) {
        let _first_stays = self.store.set(store.clone());
    }

    /// What this node says of itself at this moment.
    pub fn state(&self) -> NodeReport {
        let store = self.store.get();
        let mut volumes = store.map(|store| store.volume_reports(&self.fixed.name)).unwrap_or_default();
        let reports_waiting = store.map_or(0, Store::reports_waiting_count);
        self.judge_healed(&mut volumes, reports_waiting);
        NodeReport {
            trusted_cas: self.trust.fingerprints(),
            topology_digest: self.topology.get().copied(),
            is_stopping: self.health.phase() == Phase::Stopping,
            volumes,
            reports_waiting,
            ..self.fixed.clone()
        }
    }

    /// Says which volumes are healed, and since when.
    fn judge_healed(&self, volumes: &mut [VolumeReport], reports_waiting: u64) {
        let are_peers_calm = self.membership.get().is_none_or(|membership| {
            membership.other_states().iter().all(|(is_up, state)| {
                *is_up && state.as_ref().is_some_and(|state| state.reports_waiting == 0)
            })
        });
        let now = CalmSince { monotonic_us: self.clock.monotonic_us(), wall_ms: self.clock.wall_ms() };
        let mut calm = self.calm.lock();
        for report in volumes {
            let is_well = matches!(report.condition, Some(VolumeCondition::Online | VolumeCondition::Full))
                && report.votes();
            if !is_well || reports_waiting > 0 || !are_peers_calm {
                calm.remove(&report.volume);
                continue;
            }
            let since = *calm.entry(report.volume).or_insert(now);
            let passed = Duration::from_micros(now.monotonic_us.saturating_sub(since.monotonic_us));
            if passed >= HEALED_AFTER {
                report.healed_since_ms = Some(since.wall_ms);
            }
        }
    }

    fn formation(&self) -> Formation {
        let serving = self.health.serving();
        Formation {
            formed: self.topology.get().is_some(),
            waiting_for: serving.waiting_for,
            reason: serving.forming,
        }
    }
}

impl NodeDesk for NodeReporter {
    fn status(&self) -> StatusReply {
        let own = self.state();
        let (mut nodes, mut volumes, mut problems) = (Vec::new(), own.volumes.clone(), Vec::new());
        if let Some(membership) = self.membership.get() {
            for view in membership.nodes() {
                nodes.push(NodeStatus {
                    name: view.name,
                    address: view.address,
                    up: view.is_up,
                    reason: view.reason,
                    version: view.state.as_ref().map(|state| state.version.clone()).unwrap_or_default(),
                    reports_waiting: view.state.as_ref().map_or(0, |state| state.reports_waiting),
                });
            }
            volumes.extend(membership.volumes().all().into_iter().map(|volume| volume.report));
            problems = membership.problems();
        }
        let order: HashMap<&str, usize> =
            nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
        volumes.sort_by_key(|volume| (order.get(volume.node.as_str()).copied(), volume.ordinal));
        let sets = self.store.get().map(|store| set_statuses(store, &volumes)).unwrap_or_default();
        if let Some(store) = self.store.get() {
            problems.extend(store.health().stuck);
        }
        StatusReply {
            sender: None,
            cluster_name: self.cluster_name.clone(),
            node: own.name,
            formation: Some(self.formation()),
            nodes,
            volumes: volumes.iter().map(Wire::to_wire).collect(),
            sets,
            problems,
        }
    }

    fn replace_volume(&self, volume: VolumeId) -> Result<(), String> {
        self.store.get().ok_or("the node is forming")?.replace_volume(volume)
    }

    fn vouch(&self, volume: VolumeId) -> Result<(), String> {
        self.store.get().ok_or("the node is forming")?.vouch(volume)
    }
}

fn set_statuses(store: &Store, volumes: &[VolumeReport]) -> Vec<SetStatus> {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let topology = store.topology();
    let healths: Vec<SetHealth> = store.health().sets;
    let sets = topology.sets().iter().zip(healths);
    sets.map(|(set, health)| {
        let is_healed =
            |id: &&VolumeId| volumes.iter().any(|report| report.volume == **id && report.is_healed());
        SetStatus {
            set: health.set,
            volumes: count(health.volumes),
            accept: count(health.write_quorum),
            prepare: count(health.read_quorum),
            voting: count(health.voting),
            healed: count(set.volumes().iter().filter(is_healed).count()),
            data_shards: count(set.geometry().data_shards()),
            parity_shards: count(set.geometry().parity_shards()),
            takes_shards: health.taking_shards >= health.shards_needed,
        }
    })
    .collect()
}
