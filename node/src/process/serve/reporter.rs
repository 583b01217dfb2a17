//! The reporter: computes the moments of this node, once a second and at once after a change for the worse,
//! and shows them in its [`Health`], where all who show or send the node's report read them. How late a
//! moment may be is said at [`NodeMoment`].
//!
//! It begins before the store is open: a node that is forming answers pings, too. A volume counts as healed
//! when for 10 s no damage that could concern it waited on any node of its sets; a node that does not answer
//! speaks against it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use sherd_core::checksum::Digest;
use sherd_core::env::{Clock, Rng};
use sherd_core::id::{ProcessId, VolumeId};
use sherd_core::report::{NodeMoment, NodeReport, SetReport, VolumeCondition, VolumeReport};
use sherd_core::topology::Topology;
use sherd_proto::convert::Wire;
use sherd_proto::v1::{Formation, NodeStatus, SetStatus, StatusReply};

use crate::health::{Health, Phase};
use crate::process::serve::limits::{HEALED_AFTER, REPORT_EVERY, REPORT_GAP};
use crate::process::serve::store::Store;
use sherd_net::rpc::NodeDesk;
use sherd_net::tls::Trust;
use sherd_store::cluster::formation::topology_digest;
use sherd_store::cluster::membership::Membership;

/// Computes the moments of this node, and answers for it.
#[derive(Debug)]
pub struct NodeReporter {
    config: ReporterConfig,
    stage: RwLock<Stage>,
    healed: Mutex<HealedJudge>,
}

/// The inputs of a reporter.
#[derive(Debug)]
pub struct ReporterConfig {
    /// The fields that never change: name, process, version, digests.
    pub identity: NodeReport,
    /// The phase of the process; moments are shown here.
    pub health: Arc<Health>,
    /// The process's clock.
    pub clock: Arc<dyn Clock>,
    /// The other nodes; `None` for a node alone.
    pub peers: Option<Peers>,
}

/// The further inputs of the reporter of a node among others.
#[derive(Debug)]
pub struct Peers {
    /// The cluster's name, for people.
    pub cluster_name: String,
    /// The certificates.
    pub trust: Trust,
    /// The reports of the other nodes.
    pub membership: Arc<Membership>,
}

/// How far the volumes of this node are.
#[derive(Debug, Clone)]
enum Stage {
    /// They hold no topology yet, as far as this process has found.
    Forming,
    /// They hold the topology with this digest, and are being opened.
    Formed(Digest),
    /// They are open.
    Serving(Digest, Store),
}

impl Stage {
    const fn topology(&self) -> Option<Digest> {
        match self {
            Self::Forming => None,
            Self::Formed(topology) | Self::Serving(topology, _) => Some(*topology),
        }
    }

    const fn store(&self) -> Option<&Store> {
        match self {
            Self::Forming | Self::Formed(_) => None,
            Self::Serving(_, store) => Some(store),
        }
    }
}

/// The part of a node's report that never changes; of a node among others its digests come to it.
pub fn node_identity(name: String, rng: &dyn Rng) -> NodeReport {
    NodeReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..NodeReport::of(name, ProcessId(rng.next_id()))
    }
}

/// Runs a reporter until `stop`.
pub async fn keep_reporting(reporter: Arc<NodeReporter>, stop: CancellationToken) {
    stop.run_until_cancelled(reporter.run(REPORT_EVERY)).await;
}

impl NodeReporter {
    /// Shows the first moment. [`Self::run`] keeps it up to date.
    pub fn new(config: ReporterConfig) -> Self {
        let reporter = Self { config, stage: RwLock::new(Stage::Forming), healed: Mutex::default() };
        reporter.refresh();
        reporter
    }

    /// The volumes hold this topology from here on.
    pub fn formed(&self, topology: &Topology) {
        *self.stage.write() = Stage::Formed(topology_digest(topology));
        self.refresh();
    }

    /// The volumes are open from here on.
    pub fn serve(&self, store: &Store) {
        *self.stage.write() = Stage::Serving(topology_digest(store.topology()), store.clone());
        self.refresh();
    }

    /// Computes a moment each `every`, and after each change that [`NodeMoment`] names, until it is dropped.
    async fn run(&self, every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut states = self.config.health.states();
        let mut nodes = self.config.peers.as_ref().map(|peers| peers.membership.changes());
        let (mut store, mut volumes) = (None, None);
        loop {
            if store.is_none() {
                store = self.stage.read().store().cloned();
                volumes = store.as_ref().map(Store::volume_changes);
            }
            let damage = async {
                match &store {
                    Some(store) => store.damage_begins().await,
                    None => std::future::pending().await,
                }
            };
            // Cancel-safe: a change, a tick or a permit that is not taken is there at the next turn. A change
            // of the process comes first: with it the store may have come.
            tokio::select! {
                biased;
                () = next_change(Some(&mut states)) => {}
                () = next_change(volumes.as_mut()) => {}
                () = next_change(nodes.as_mut()) => {}
                () = damage => {}
                _ = ticks.tick() => {}
            }
            self.refresh();
            sleep(REPORT_GAP).await;
        }
    }

    /// Computes this moment and shows it. One that cannot be computed shows a node without volumes: neither
    /// ready nor healed.
    fn refresh(&self) {
        let ReporterConfig { identity, health, .. } = &self.config;
        // Held while it is shown: an earlier moment never replaces a later one.
        let mut healed = self.healed.lock();
        let computed = catch_unwind(AssertUnwindSafe(|| self.moment(&mut healed)));
        health.show(computed.unwrap_or_else(|_| {
            tracing::error!("the report of this node cannot be computed: a panic, see above");
            NodeMoment::of(identity.clone())
        }));
    }

    fn moment(&self, healed: &mut HealedJudge) -> NodeMoment {
        let ReporterConfig { identity, health, clock, peers } = &self.config;
        let stage = self.stage.read().clone();
        let store = stage.store().map(|store| store.report(&identity.name));
        let mut store = store.unwrap_or_default();
        let are_peers_calm = peers.as_ref().is_none_or(|peers| {
            peers.membership.other_states().iter().all(|(is_up, state)| {
                *is_up && state.as_ref().is_some_and(|state| state.reports_waiting == 0)
            })
        });
        let now = CalmSince { monotonic_us: clock.monotonic_us(), wall_ms: clock.wall_ms() };
        healed.judge(&mut store.volumes, store.damage_count == 0 && are_peers_calm, now);
        let report = NodeReport {
            trusted_cas: peers.as_ref().map(|peers| peers.trust.fingerprints()).unwrap_or_default(),
            topology_digest: stage.topology(),
            is_stopping: health.phase() == Phase::Stopping,
            volumes: store.volumes,
            reports_waiting: store.damage_count,
            ..identity.clone()
        };
        let problems = peers.as_ref().map(|peers| peers.membership.problems(&report)).unwrap_or_default();
        NodeMoment { sets: store.sets, stuck: store.stuck, problems, ..NodeMoment::of(report) }
    }

    fn formation(&self) -> Formation {
        let wait = self.config.health.wait();
        let formed = self.stage.read().topology().is_some();
        Formation { formed, waiting_for: wait.waiting_for, reason: wait.reason }
    }

    fn open_store(&self) -> Result<Store, String> {
        self.stage.read().store().cloned().ok_or_else(|| "the node is forming".to_owned())
    }
}

/// Waits for a change; for ever where none can come any more.
async fn next_change<T>(changes: Option<&mut watch::Receiver<T>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Judges which volumes are healed.
#[derive(Debug, Default)]
struct HealedJudge(HashMap<VolumeId, CalmSince>);

/// Since when no damage of a volume is known.
#[derive(Debug, Clone, Copy)]
struct CalmSince {
    monotonic_us: u64,
    wall_ms: u64,
}

impl HealedJudge {
    /// Writes into the reports since when each volume is healed. `is_calm` says that no damage waits on any
    /// node.
    fn judge(&mut self, volumes: &mut [VolumeReport], is_calm: bool, now: CalmSince) {
        for report in volumes {
            let is_well = matches!(report.condition, Some(VolumeCondition::Online | VolumeCondition::Full))
                && report.votes();
            if !is_well || !is_calm {
                self.0.remove(&report.volume);
                continue;
            }
            let since = *self.0.entry(report.volume).or_insert(now);
            let passed = Duration::from_micros(now.monotonic_us.saturating_sub(since.monotonic_us));
            if passed >= HEALED_AFTER {
                report.healed_since_ms = Some(since.wall_ms);
            }
        }
    }
}

impl NodeDesk for NodeReporter {
    fn status(&self) -> StatusReply {
        let moment = self.config.health.moment();
        let NodeMoment { report, sets, stuck, problems } = &*moment;
        let (mut nodes, mut volumes) = (Vec::new(), report.volumes.clone());
        if let Some(Peers { membership, .. }) = &self.config.peers {
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
        }
        let order: HashMap<&str, usize> =
            nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
        volumes.sort_by_key(|volume| (order.get(volume.node.as_str()).copied(), volume.ordinal));
        let topology = self.stage.read().store().map(|store| Arc::clone(store.topology()));
        StatusReply {
            sender: None,
            cluster_name: self
                .config
                .peers
                .as_ref()
                .map(|peers| peers.cluster_name.clone())
                .unwrap_or_default(),
            node: report.name.clone(),
            formation: Some(self.formation()),
            nodes,
            volumes: volumes.iter().map(Wire::to_wire).collect(),
            sets: topology.map(|topology| set_statuses(&topology, sets, &volumes)).unwrap_or_default(),
            problems: problems.iter().chain(stuck).cloned().collect(),
        }
    }

    fn replace_volume(&self, volume: VolumeId) -> Result<(), String> {
        self.open_store()?.replace_volume(volume)
    }

    fn vouch(&self, volume: VolumeId) -> Result<(), String> {
        self.open_store()?.vouch(volume)
    }
}

fn set_statuses(topology: &Topology, sets: &[SetReport], volumes: &[VolumeReport]) -> Vec<SetStatus> {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let sets = topology.sets().iter().zip(sets);
    sets.map(|(set, report)| {
        let is_healed =
            |id: &&VolumeId| volumes.iter().any(|volume| volume.volume == **id && volume.is_healed());
        SetStatus {
            set: report.set,
            volumes: count(report.volumes),
            accept: count(report.write_quorum),
            prepare: count(report.read_quorum),
            voting: count(report.voting),
            healed: count(set.volumes().iter().filter(is_healed).count()),
            data_shards: count(set.geometry().data_shards()),
            parity_shards: count(set.geometry().parity_shards()),
            takes_shards: report.takes_shards(),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use sherd_core::report::VolumeStanding;
    use sherd_store::machine::system::{SystemClock, SystemRng};
    use sherd_volume::options::Durability;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::process::serve::store::tests::open;

    fn alone() -> (Arc<Health>, Arc<NodeReporter>) {
        let health = Arc::new(Health::opening(Durability::None, Duration::ZERO));
        let config = ReporterConfig {
            identity: node_identity("n1".to_owned(), &SystemRng),
            health: Arc::clone(&health),
            clock: Arc::new(SystemClock::new()),
            peers: None,
        };
        (health, Arc::new(NodeReporter::new(config)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_moment_is_shown_each_second_and_a_stop_at_once() {
        let (health, reporter) = alone();
        let mut moments = health.moments();
        tokio::spawn(keep_reporting(reporter, CancellationToken::new()));
        moments.changed().await.expect("it runs");
        let begun = Instant::now();
        moments.changed().await.expect("it runs");
        assert!(begun.elapsed() <= REPORT_EVERY, "the clock of the test stands still between timers");
        assert!(!health.moment().report.is_stopping);
        let stopped = Instant::now();
        health.stop();
        moments.wait_for(|moment| moment.report.is_stopping).await.expect("it runs");
        assert!(stopped.elapsed() <= REPORT_GAP);
    }

    #[tokio::test]
    async fn a_volume_that_goes_away_is_shown_without_waiting_for_the_next_second() {
        let folder = tempfile::TempDir::new().expect("a folder for the test");
        let store = open(folder.path()).await;
        let (health, reporter) = alone();
        reporter.serve(&store);
        health.serve();
        assert!(health.readiness().ready, "the moment is there before S3 is announced");
        let mut moments = health.moments();
        tokio::spawn(async move { reporter.run(Duration::from_hours(1)).await });
        store.close().await;
        let is_away = |moment: &Arc<NodeMoment>| moment.sets.iter().all(|set| set.voting == 0);
        let shown = timeout(Duration::from_mins(1), moments.wait_for(is_away)).await;
        shown.expect("no second has to pass").expect("it runs");
        let readiness = health.readiness();
        assert_eq!((readiness.ready, readiness.degraded_volumes.len()), (false, 4));
    }

    #[test]
    fn a_volume_is_healed_after_ten_seconds_without_damage_and_not_healed_at_once_with_it() {
        let mut judge = HealedJudge::default();
        let mut healed_at = |second: u64, condition, is_calm| {
            let report = VolumeReport {
                condition: Some(condition),
                standing: VolumeStanding::Voting,
                ..VolumeReport::of(VolumeId([1; 16]))
            };
            let mut volumes = [report];
            let now = CalmSince { monotonic_us: second * 1_000_000, wall_ms: 5_000 + second * 1_000 };
            judge.judge(&mut volumes, is_calm, now);
            volumes[0].healed_since_ms
        };
        let (online, full) = (VolumeCondition::Online, VolumeCondition::Full);
        assert_eq!(healed_at(0, online, true), None);
        assert_eq!(healed_at(9, online, true), None);
        assert_eq!(healed_at(10, full, true), Some(5_000), "a full volume lacks nothing");
        assert_eq!(healed_at(10, online, false), None, "damage waits on some node");
        assert_eq!(healed_at(11, online, true), None);
        assert_eq!(healed_at(21, online, true), Some(16_000));
        assert_eq!(healed_at(22, VolumeCondition::Recovering, true), None);
        assert_eq!(healed_at(31, online, true), None, "the ten seconds begin again");
    }
}
