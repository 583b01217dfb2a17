//! The reporter: computes the moments of this node, once a second and at once after a change for the worse,
//! and shows them in its [`Health`], where all who show or send the node's report read them. How late a
//! moment may be is said at [`NodeMoment`]. Nothing on the way to one waits for a disk or another node. If
//! the reporter is blocked nevertheless, another task shows the node as unknown after 30 s.
//!
//! It begins before the store is open: a node that is forming answers pings, too. `HealedJudge` judges
//! which volumes are healed.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sherd_core::checksum::Digest;
use sherd_core::env::{Clock, Rng};
use sherd_core::iam::AccessKeyId;
use sherd_core::id::{ObjectKey, ProcessId, VolumeId};
use sherd_core::report::{NodeMoment, NodeReport, SetReport, VolumeCondition, VolumeReport};
use sherd_core::topology::Topology;
use sherd_proto::convert::Wire;
use sherd_proto::v1::{ConfigStatus, Formation, LoadedTrust, NodeStatus, SetStatus, StatusReply};

use crate::health::{FormationWait, Health, Phase};
use crate::process::serve::limits::{
    DAMAGE_OLD_AFTER, HEALED_AFTER, MOMENT_AGE_MAX, MOMENT_TURNS_MAX, REFUSAL_CHARACTERS_MAX, REPORT_EVERY,
    REPORT_GAP, STEADY_AFTER,
};
use crate::process::serve::live::{LiveSettings, LoadedConfig};
use crate::process::serve::root_credentials::RootCredentials;
use crate::process::serve::store::Store;
use sherd_net::rpc::NodeControl;
use sherd_net::tls::Trust;
use sherd_store::cluster::formation::topology_digest;
use sherd_store::cluster::membership::Membership;

/// Computes the moments of this node, and answers for it.
#[derive(Debug)]
pub struct NodeReporter {
    config: ReporterConfig,
    stage: RwLock<OpeningStage>,
    healed: Mutex<HealedJudge>,
}

/// The inputs of a reporter.
#[derive(Debug)]
pub struct ReporterConfig {
    /// The fields that never change: name, process, version, digests.
    pub identity: NodeReport,
    /// The phase of the process; moments are shown here.
    pub health: Arc<Health>,
    /// The settings that may change.
    pub live: Arc<LiveSettings>,
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
    /// The root credentials that are accepted.
    pub root: RootCredentials,
    /// The certificates.
    pub trust: Trust,
    /// The reports of the other nodes.
    pub membership: Arc<Membership>,
}

/// How far the volumes of this node are.
#[derive(Debug, Clone)]
enum OpeningStage {
    /// No topology on the volumes yet, as far as this process has found.
    Forming,
    /// Topology with this digest on the volumes, which are being opened.
    Formed(Digest),
    /// Open.
    Serving(Digest, Store),
}

impl OpeningStage {
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

/// Runs a reporter until `stop`, and watches that it goes on.
pub fn start_reporting(reporter: &Arc<NodeReporter>, tasks: &TaskTracker, stop: &CancellationToken) {
    // Two tasks: one that is blocked holds its thread.
    let (watched, until) = (Arc::clone(&reporter.config.health), stop.clone());
    tasks.spawn(async move { until.run_until_cancelled(watch_moments(&watched, REPORT_EVERY)).await });
    let (reporter, until) = (Arc::clone(reporter), stop.clone());
    tasks.spawn(async move { until.run_until_cancelled(reporter.run(REPORT_EVERY)).await });
}

/// Shows the node as unknown when no moment came for [`MOMENT_TURNS_MAX`] turns: the reporter is blocked, or
/// has ended. Counts its own turns and not the time, which also passes while the whole process stands still.
/// Takes no lock that the reporter holds while it computes.
async fn watch_moments(health: &Health, every: Duration) {
    let mut turns = interval_at(Instant::now() + every, every);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut moments = health.moments();
    let (mut last, mut turns_count) = (health.moment(), 0);
    loop {
        turns.tick().await;
        let shown = Arc::clone(&moments.borrow_and_update());
        if !Arc::ptr_eq(&last, &shown) {
            (last, turns_count) = (shown, 0);
            continue;
        }
        turns_count += 1;
        if turns_count == MOMENT_TURNS_MAX {
            let age_s = MOMENT_AGE_MAX.as_secs();
            let problem = format!("the state of this node is not known: it was not computed for {age_s} s");
            if health.show_unknown(&last, problem) {
                last = health.moment();
                tracing::error!(
                    "the state of this node was not computed for {age_s} s: it is shown as unknown"
                );
            }
        }
    }
}

impl NodeReporter {
    /// Shows the first moment. [`start_reporting`] keeps it up to date.
    pub fn new(config: ReporterConfig) -> Self {
        config.health.show(NodeMoment::of(config.identity.clone()));
        let reporter = Self { config, stage: RwLock::new(OpeningStage::Forming), healed: Mutex::default() };
        reporter.refresh();
        reporter
    }

    /// The volumes hold this topology from here on.
    pub fn formed(&self, topology: &Topology) {
        *self.stage.write() = OpeningStage::Formed(topology_digest(topology));
        self.refresh();
    }

    /// The volumes are open from here on.
    pub fn serve(&self, store: &Store) {
        *self.stage.write() = OpeningStage::Serving(topology_digest(store.topology()), store.clone());
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

    /// Computes this moment and shows it. After a panic the state of the node is not known: it is shown
    /// neither ready nor healed, with the volumes and lives of the last moment.
    ///
    /// Each lock on the way is held for as long as memory is read or written, and never across a call to the
    /// disk or to another node: its own, the table of nodes, the certificates, and those of
    /// [`Store::report`].
    fn refresh(&self) {
        let health = &self.config.health;
        // Held while it is shown: an earlier moment never replaces a later one.
        let mut healed = self.healed.lock();
        if let Ok(moment) = catch_unwind(AssertUnwindSafe(|| self.moment(&mut healed))) {
            return health.show(moment);
        }
        *healed = HealedJudge::default();
        let problem = "the state of this node is not known: to compute it panics, see its log".to_owned();
        health.show(health.moment().unknown(problem));
        tracing::error!("the state of this node cannot be computed: a panic, see above");
    }

    fn moment(&self, healed: &mut HealedJudge) -> NodeMoment {
        let ReporterConfig { identity, health, live: _, clock, peers } = &self.config;
        let stage = self.stage.read().clone();
        let store = stage.store().map(|store| store.report(&identity.name));
        let mut store = store.unwrap_or_default();
        let mut report = NodeReport {
            trusted_cas: peers.as_ref().map(|peers| peers.trust.fingerprints()).unwrap_or_default(),
            credentials_proofs: peers.as_ref().map(|peers| peers.root.proofs()).unwrap_or_default(),
            topology_digest: stage.topology(),
            is_stopping: health.phase() == Phase::Stopping,
            reports_waiting: store.damage_count,
            damage_age: store.damage_age,
            ..identity.clone()
        };
        let others = peers.as_ref().map(|peers| peers.membership.other_states()).unwrap_or_default();
        let others_damage =
            others.iter().map(|(is_up, state)| Some(damage_of(state.as_deref().filter(|_| *is_up)?)));
        let damage = others_damage
            .chain([Some(damage_of(&report))])
            .try_fold(WaitingDamage::None, |most, of_node| Some(most.max(of_node?)));
        let now = Now { monotonic_us: clock.monotonic_us(), wall_ms: clock.wall_ms() };
        healed.judge(&mut store.volumes, damage, now);
        report.volumes = store.volumes;
        let problems = peers.as_ref().map(|peers| peers.membership.problems(&report)).unwrap_or_default();
        NodeMoment { sets: store.sets, stuck: store.stuck, problems, ..NodeMoment::of(report) }
    }

    fn formation(&self) -> Formation {
        let FormationWait { waiting_for, reason, formed_before } = self.config.health.wait();
        let formed = self.stage.read().topology().is_some();
        Formation { formed, waiting_for, reason, formed_before }
    }

    fn open_store(&self) -> Result<Store, String> {
        self.stage.read().store().cloned().ok_or_else(|| "the node is forming".to_owned())
    }
}

fn loaded_trust(trust: &Trust) -> LoadedTrust {
    LoadedTrust {
        trusted_cas: trust.fingerprints().iter().map(|print| Bytes::copy_from_slice(print)).collect(),
        certificate_ca: Bytes::copy_from_slice(&trust.own_authority()),
        certificate_expires_s: trust.expires(),
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

/// Judges which volumes are healed: those that were well for [`HEALED_AFTER`], with every node up, while no
/// node has damage to heal. A volume that was well for [`STEADY_AFTER`] is healed beside damage that is not
/// [old](DAMAGE_OLD_AFTER), as all is by then that it missed before: on slow disks some write misses a volume
/// at any moment, and is healed within seconds. On a full one it is not.
#[derive(Debug, Default)]
struct HealedJudge {
    well: HashMap<VolumeId, WellVolume>,
    /// Monotonic microseconds of the last judgement.
    judged_us: u64,
}

/// A time on both clocks.
#[derive(Debug, Clone, Copy)]
struct Now {
    monotonic_us: u64,
    wall_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct WellVolume {
    /// Since when, in monotonic microseconds.
    since_us: u64,
    healed_since_ms: Option<u64>,
}

/// The worst damage that waits on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WaitingDamage {
    None,
    Young,
    Old,
}

fn damage_of(report: &NodeReport) -> WaitingDamage {
    match report.reports_waiting {
        0 => WaitingDamage::None,
        _ if report.has_damage_since(DAMAGE_OLD_AFTER) => WaitingDamage::Old,
        _ => WaitingDamage::Young,
    }
}

impl HealedJudge {
    /// Writes into the reports since when each volume is healed. `damage` is that of all nodes; `None` where
    /// one is down or was not asked yet. The seconds begin again when the last judgement is too old.
    fn judge(&mut self, volumes: &mut [VolumeReport], damage: Option<WaitingDamage>, now: Now) {
        let unknown_us = now.monotonic_us.saturating_sub(self.judged_us);
        if Duration::from_micros(unknown_us) >= MOMENT_AGE_MAX {
            self.well.clear();
        }
        self.judged_us = now.monotonic_us;
        for report in volumes {
            let is_well = matches!(report.condition, Some(VolumeCondition::Online | VolumeCondition::Full))
                && report.votes();
            let is_full = report.condition == Some(VolumeCondition::Full);
            let Some(damage) = damage.filter(|_| is_well) else {
                self.well.remove(&report.volume);
                continue;
            };
            let new = WellVolume { since_us: now.monotonic_us, healed_since_ms: None };
            let volume = self.well.entry(report.volume).or_insert(new);
            let well_for = Duration::from_micros(now.monotonic_us.saturating_sub(volume.since_us));
            let is_healed = match damage {
                WaitingDamage::None => well_for >= HEALED_AFTER,
                WaitingDamage::Young => well_for >= STEADY_AFTER && !is_full,
                WaitingDamage::Old => false,
            };
            volume.healed_since_ms = is_healed.then(|| volume.healed_since_ms.unwrap_or(now.wall_ms));
            report.healed_since_ms = volume.healed_since_ms;
        }
    }
}

/// Of a refusal its first characters: it may quote a line of the file.
fn config_status(loaded: LoadedConfig, refusal: Option<String>) -> ConfigStatus {
    let live_sha256 = loaded.live.map(|digest| digest.to_vec().into()).unwrap_or_default();
    let refused = refusal.unwrap_or_default().chars().take(REFUSAL_CHARACTERS_MAX).collect();
    ConfigStatus { generation: loaded.generation, live_sha256, refused }
}

impl NodeControl for NodeReporter {
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
            trust: self.config.peers.as_ref().map(|peers| loaded_trust(&peers.trust)),
            credentials_proofs: report
                .credentials_proofs
                .iter()
                .map(|proof| Bytes::copy_from_slice(proof))
                .collect(),
            config: Some(config_status(self.config.live.loaded(), self.config.live.refusal())),
        }
    }

    fn replace_volume(&self, volume: VolumeId) -> Result<(), String> {
        self.open_store()?.replace_volume(volume)
    }

    fn forget_bucket(&self, bucket: &ObjectKey) {
        // Before the store is open no request was answered here, and no view read.
        if let Some(store) = self.stage.read().store() {
            store.objects().forget_bucket(bucket);
        }
    }

    fn forget_iam(&self) {
        // Before the store is open no view of IAM was read either.
        if let Some(store) = self.stage.read().store() {
            store.iam().forget();
        }
    }

    fn revoke_key(&self, key: AccessKeyId) {
        // Before the store is open no request was begun here.
        if let Some(store) = self.stage.read().store() {
            store.iam().revoke_key(key);
        }
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
mod tests;
