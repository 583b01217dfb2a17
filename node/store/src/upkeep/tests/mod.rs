//! Whole nodes in one process, over real directories: what upkeep mends is broken here first.
//!
//! Most tests call one piece of upkeep and look at what it did; the background tasks run only where
//! the story is about them. Nothing sleeps: states are watched, with a deadline.

#[cfg(test)]
mod attributes;
#[cfg(test)]
mod buckets;
#[cfg(test)]
mod clocks;
#[cfg(test)]
mod confirmations;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod heals;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod looks;
#[cfg(test)]
mod missed;
mod node;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod rebuilds;
#[cfg(test)]
mod recoveries;
#[cfg(test)]
mod releases;
#[cfg(test)]
mod remains;
#[cfg(test)]
mod scrubs;
#[cfg(test)]
mod seals;
#[cfg(test)]
mod settling;
#[cfg(test)]
mod sweeps;
#[cfg(test)]
mod unfinished;
pub mod uploads;
#[cfg(test)]
mod wants;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use sherd_core::env::{Clock, HybridClock, Rng};
use sherd_core::id::{Ballot, ObjectKey, ProposerId, RegisterKey, Timestamp, VolumeId};
use sherd_core::message::ValueLimit;
use sherd_core::record::{Changes, State, Value};
use sherd_core::register::{Accept, EncodedValue, Prepare};
use sherd_core::topology::GeometryRequest;
use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::error::OpenError;
use sherd_volume::index::lsm::IndexCache;
use sherd_volume::options::{Durability, Options};

use super::deps::Deps;
use super::workers::Workers;
use super::{Settings, UpkeepConfig};
use crate::cluster::Cluster;
use crate::cluster::damage::{Damage, Reports};
use crate::cluster::deletions::Deletions;
use crate::cluster::pins::Pins;
use crate::machine::host::ThreadHost;
use crate::machine::system::{SystemClock, SystemRng};
use crate::object::{DeletionPatience, ObjectName, Objects, ObjectsConfig, Upload, UploadBody};
use crate::observe::metrics::Metrics;
use crate::peer::remote::RemoteVolumes;
use crate::peer::{LocalPeer, VolumeRoute};
use crate::register::{RegisterTimeouts, Registers, RegistersConfig, value_budget};
use crate::stripe::{StripeTimeouts, Stripes, StripesConfig, Thresholds};
use crate::volumes::directories::{FormationConfig, FormationError, form_or_find};
use crate::volumes::{LeaseTerms, Pace, Volumes, VolumesConfig, lsm_indexes};

/// The longest any state may take to come: generous, for a loaded machine.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// The pause between two looks at a state that a test waits for: what brings it about needs the processors.
pub async fn between_looks() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

/// Directories that outlive the nodes that use them.
#[derive(Debug)]
pub struct Directories {
    root: TempDir,
    count: usize,
    adopt_after: Duration,
    vouch_after: Option<Duration>,
    leases: LeaseTerms,
    geometry: GeometryRequest,
    durability: Durability,
}

/// The machine's clock, which a test can set ahead.
#[derive(Debug)]
pub(crate) struct Ahead {
    machine: SystemClock,
    offset_ms: AtomicU64,
    passed_us: AtomicU64,
}

impl Ahead {
    fn new(ahead_ms: u64) -> Arc<Self> {
        Arc::new(Self {
            machine: SystemClock::new(),
            offset_ms: AtomicU64::new(ahead_ms),
            passed_us: AtomicU64::new(0),
        })
    }

    fn advance(&self, ms: u64) {
        self.offset_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Lets time pass by the clock that never steps.
    fn pass_us(&self, us: u64) {
        self.passed_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Sets it so far ahead, or back.
    fn set(&self, ahead_ms: u64) {
        self.offset_ms.store(ahead_ms, Ordering::Relaxed);
    }
}

impl Clock for Ahead {
    fn wall_ms(&self) -> u64 {
        self.machine.wall_ms() + self.offset_ms.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        self.machine.monotonic_us() + self.passed_us.load(Ordering::Relaxed)
    }
}

/// A node over them.
#[expect(missing_debug_implementations, reason = "tests print what they find, not nodes")]
pub struct Node {
    clock: Arc<Ahead>,
    topology: Arc<sherd_core::topology::Topology>,
    volumes: Volumes,
    objects: Objects,
    pub(super) workers: Arc<Workers>,
    reports: Option<Reports>,
}

impl Directories {
    /// Empty ones.
    pub fn new(count: usize) -> Self {
        Self {
            root: TempDir::new().expect("a directory for tests"),
            count,
            adopt_after: Duration::ZERO,
            vouch_after: None,
            // Nothing was read before the nodes of a test.
            leases: LeaseTerms { unknown: Duration::ZERO, ..LeaseTerms::default() },
            geometry: GeometryRequest::default(),
            durability: Durability::Fsync,
        }
    }

    /// Volumes answer before their disk has synced: for tests of something else, which a busy disk makes
    /// late.
    #[must_use]
    pub fn without_syncs(mut self) -> Self {
        self.durability = Durability::None;
        self
    }

    /// A geometry with this many parity shards, in one set.
    fn with_parity(mut self, parity_shards: usize) -> Self {
        self.geometry = GeometryRequest { set_volumes: Some(self.count), parity_shards: Some(parity_shards) };
        self
    }

    /// Nodes that have an empty directory wait for its disk.
    fn with_patience_for_disks(mut self, adopt_after: Duration) -> Self {
        self.adopt_after = adopt_after;
        self
    }

    /// Nodes let volumes vote at once that their peers do not confirm.
    fn vouching(mut self) -> Self {
        self.vouch_after = Some(Duration::ZERO);
        self
    }

    /// Where they are.
    pub fn paths(&self) -> Vec<PathBuf> {
        (0..self.count).map(|n| self.root.path().join(format!("v{n}"))).collect()
    }

    /// Starts a node over them.
    pub async fn start(&self) -> Node {
        self.start_with_pool(64 << 20).await
    }

    /// Starts with a buffer pool of `cap_bytes`.
    pub(crate) async fn start_with_pool(&self, cap_bytes: usize) -> Node {
        self.start_at(cap_bytes, 0).await
    }

    /// Starts with the clock ahead.
    async fn start_ahead(&self, ahead_ms: u64) -> Node {
        self.start_at(64 << 20, ahead_ms).await
    }

    async fn start_at(&self, cap_bytes: usize, ahead_ms: u64) -> Node {
        let node = self.start_unsettled(cap_bytes, ahead_ms);
        assert!(node.volumes.settled(DEADLINE).await, "volumes open in time");
        node.workers.confirmer.confirm_volumes().await;
        node
    }

    fn start_unsettled(&self, cap_bytes: usize, ahead_ms: u64) -> Node {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let config = FormationConfig {
            disk: Arc::clone(&disk),
            directories: self.paths(),
            zone: None,
            geometry: self.geometry,
        };
        let began = std::time::Instant::now();
        let formation = loop {
            match form_or_find(&config, &SystemRng) {
                // A task of the node before may hold the volume a moment longer.
                Err(FormationError::Open(OpenError::InUse { .. })) if began.elapsed() < DEADLINE => {
                    std::thread::park_timeout(Duration::from_millis(2));
                }
                formed => break formed.expect("the directories make a node"),
            }
        };
        let ahead = Ahead::new(ahead_ms);
        let wall: Arc<dyn Clock> = Arc::<Ahead>::clone(&ahead);
        let limits = PoolLimits { cap_bytes, stripe_bytes: 1 << 20, idle_bytes: 1 << 20 };
        let pool = BufferPool::new(limits);
        let options = Options {
            segment_bytes: 4 << 20,
            spare_segments: 0,
            ballast_bytes: 0,
            reserve_bytes: 0,
            durability: self.durability,
            ..Options::default()
        };
        let volumes = Volumes::start(&VolumesConfig {
            disk,
            clock: Arc::clone(&wall),
            rng: Arc::new(SystemRng),
            host: Arc::new(ThreadHost),
            buffers: pool.clone(),
            index: lsm_indexes(IndexCache::new(4 << 20, 64)),
            options,
            cluster: formation.cluster,
            topology: Arc::clone(&formation.topology),
            volumes: formation.volumes,
            pace: Pace { look_every: Duration::from_millis(50), ..Pace::default() },
            leases: self.leases,
        })
        .expect("threads start");
        build(volumes, &formation.topology, ahead, pool, (self.adopt_after, self.vouch_after))
    }
}

/// Upkeep that waits for nothing but what adopts an empty directory.
fn at_once(adopt_after: Duration, vouch_after: Option<Duration>) -> Settings {
    Settings {
        settle_after: Duration::ZERO,
        settle_every: Duration::from_millis(50),
        finish_after: Duration::ZERO,
        recover_every: Duration::from_millis(50),
        adopt_after,
        vouch_after,
        scrub_pass: Duration::ZERO,
        sweep_look_every: Duration::from_millis(50),
        note_every: Duration::ZERO,
        ..Settings::default()
    }
}

fn build(
    volumes: Volumes,
    topology: &Arc<sherd_core::topology::Topology>,
    ahead: Arc<Ahead>,
    pool: BufferPool,
    (adopt_after, vouch_after): (Duration, Option<Duration>),
) -> Node {
    let peer = Arc::new(LocalPeer::new(volumes.clone()));
    build_over(
        &|volume| VolumeRoute::through(volume, &peer),
        volumes,
        topology,
        ahead,
        pool,
        at_once(adopt_after, vouch_after),
        RegisterTimeouts::default(),
    )
}

fn hybrid(wall: &Arc<Ahead>) -> Arc<HybridClock> {
    Arc::new(HybridClock::new(Arc::<Ahead>::clone(wall)))
}

/// A node that reaches its volumes by these ways.
fn build_over(
    route_to: &dyn Fn(VolumeId) -> VolumeRoute,
    volumes: Volumes,
    topology: &Arc<sherd_core::topology::Topology>,
    ahead: Arc<Ahead>,
    pool: BufferPool,
    settings: Settings,
    timeouts: RegisterTimeouts,
) -> Node {
    let cluster = Arc::new(Cluster::new(
        Arc::clone(topology),
        topology.nodes()[0].id,
        RemoteVolumes::default(),
        route_to,
    ));
    let (births, clock) = (hybrid(&ahead), hybrid(&ahead));
    let rng: Arc<dyn Rng> = Arc::new(SystemRng);
    let proposer = ProposerId(rng.next_u64());
    let (damage, reports) = Damage::channel();
    let report_counts = Arc::clone(damage.counts());
    let metrics = Arc::new(Metrics::new(Durability::Fsync));
    let registers = Registers::new(RegistersConfig {
        cluster: Arc::clone(&cluster),
        clock: Arc::clone(&clock),
        rng: Arc::clone(&rng),
        proposer,
        births: Arc::clone(&births),
        timeouts,
        damage: damage.clone(),
        metrics: Arc::clone(&metrics),
        tasks: TaskTracker::new(),
        values: value_budget(&pool),
    });
    let (pins, deletions) = (Pins::default(), Deletions::default());
    let stripes = Stripes::new(StripesConfig {
        digests: crate::stripe::DigestPool::start(&ThreadHost).expect("threads start"),
        pins: pins.clone(),
        cluster: Arc::clone(&cluster),
        births: Arc::clone(&births),
        proposer,
        pool,
        thresholds: Thresholds::default(),
        // Tests look for the shards of a write where it is answered, however busy the machine is.
        timeouts: StripeTimeouts { straggler: DEADLINE, ..StripeTimeouts::default() },
        damage,
        metrics: metrics.shards.clone(),
        reclaim: crate::machine::reclaim::Reclaim::default(),
    });
    let objects = Objects::new(ObjectsConfig {
        fast_etags: false,
        deletions: deletions.clone(),
        cluster: Arc::clone(&cluster),
        registers: registers.clone(),
        stripes: stripes.clone(),
        clock: Arc::clone(&clock),
        rng: Arc::clone(&rng),
        release_grace: Duration::from_mins(10),
        // No test waits for it to be over.
        deletion_patience: DeletionPatience { control: DEADLINE * 60, page: DEADLINE * 60 },
        others: None,
    });
    let deps = Deps::new(UpkeepConfig {
        cluster,
        volumes: volumes.clone(),
        registers,
        stripes,
        clock,
        rng,
        pins,
        deletions,
        report_counts,
        settings,
    });
    Node {
        clock: ahead,
        topology: Arc::clone(topology),
        volumes,
        objects,
        workers: Arc::new(Workers::new(deps)),
        reports: Some(reports),
    }
}

/// Follows the volumes in the background until the test ends.
fn follow(workers: &Arc<Workers>) -> super::Upkeep {
    let upkeep = super::Upkeep::over(Arc::clone(workers));
    upkeep.run("volumes", |workers| async move { workers.follower.follow_volumes().await });
    upkeep
}

fn name(key: &str) -> ObjectName {
    ObjectName { bucket: key_of("bucket").into(), key: key_of(key) }
}

/// A key of this text.
pub fn key_of(text: &str) -> ObjectKey {
    ObjectKey::new(text.to_owned()).expect("a key")
}

/// Bytes that differ from object to object and from block to block.
pub fn body(seed: u64, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes.into()
}

/// A body on its way in, in pieces.
pub(crate) fn upload(bytes: &Bytes) -> Upload {
    let size = bytes.len() as u64;
    let pieces: Vec<_> = bytes.chunks(64 << 10).map(Bytes::copy_from_slice).map(Ok).collect();
    let body = UploadBody::Client(futures::stream::iter(pieces).boxed());
    Upload { size, body, md5: None, checksum: None }
}

/// The writer of rows that was killed behind its accepts.
const WRITER: ProposerId = ProposerId(5);

/// A tombstone that these volumes accepted, and whose writer was killed then.
async fn accept_on(node: &Node, register: &RegisterKey, route: &[VolumeRoute]) -> Ballot {
    accept_at(node, register, route, node.workers.deps.clock.tick()).await
}

/// As [`accept_on`], with a ballot of this time.
async fn accept_at(node: &Node, register: &RegisterKey, route: &[VolumeRoute], time: Timestamp) -> Ballot {
    let value = EncodedValue::new(tombstone().encode(), bytes::Bytes::new());
    accept_value(node, register, route, value, time).await
}

fn tombstone() -> Value {
    Value { changes: Changes::default(), state: State::Tombstone }
}

/// As [`accept_at`], with another value.
async fn accept_value(
    node: &Node,
    register: &RegisterKey,
    route: &[VolumeRoute],
    value: EncodedValue,
    time: Timestamp,
) -> Ballot {
    let target = node.workers.deps.cluster.target(register.clone());
    let ballot = Ballot { time, proposer: WRITER };
    let (introduces, positions) = (Vec::new(), Arc::default());
    let origin = sherd_core::register::ValueOrigin::default();
    let accept = Accept { ballot, value, introduces, finishes: false, positions, origin };
    for one in route {
        let promise = one.peer.prepare(one.volume, &target, Prepare { ballot }, ValueLimit::NOTHING).await;
        promise.expect("answered").result.expect("promised");
        let accepted = one.peer.accept(one.volume, &target, &accept, None).await;
        accepted.expect("answered").result.expect("accepted");
    }
    ballot
}
