//! The store of one node: its volumes, the layers above them, and the background work, put
//! together in the order in which they need each other and taken apart in the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounter;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sherd_core::env::{Clock, HybridClock, Rng};
use sherd_core::id::{NodeId, ProposerId, VolumeId};
use sherd_core::topology::{GeometryRequest, PoolShape, Topology};
use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::index::lsm::IndexCache;
use sherd_volume::options::Options;

use crate::cluster::Cluster;
use crate::cluster::damage::{Damage, ReportCounts, Reports};
use crate::cluster::pins::Pins;
use crate::machine::heap::Heap;
use crate::machine::host::{Host, ThreadHost};
use crate::machine::reclaim::Reclaim;
use crate::machine::system::{SystemClock, SystemRng};
use crate::object::{Objects, ObjectsConfig};
use crate::observe::health::{self, HealthReport, SetHealth, VolumeHealth};
use crate::observe::metrics::Metrics;
use crate::peer::remote::RemoteVolumes;
use crate::peer::{LocalPeer, VolumeRoute};
use crate::register::{RegisterTimeouts, Registers, RegistersConfig};
use crate::stripe::{DigestPool, StripeTimeouts, Stripes, StripesConfig, Thresholds};
use crate::upkeep::{Deletions, OpeningStatus, Settings, Upkeep, UpkeepConfig};
use crate::volumes::form::{self, FormationConfig, FormationError};
use crate::volumes::{IndexFactory, Pace, VolumeState, VolumeStatus, Volumes, VolumesConfig, lsm_indexes};

/// Bytes of buffers that an idle node keeps committed.
const IDLE_BUFFER_BYTES: usize = 4 << 20;
/// Files that the indexes of all volumes keep open together.
pub(crate) const INDEX_FILES_MAX: usize = 1024;
/// How long the start waits for volumes that replay their logs; whatever takes longer is offline
/// until it is done.
const OPEN_PATIENCE: Duration = Duration::from_mins(10);
/// How long volumes may take to sync and close.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at memory that nobody uses.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// What a store is built from.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Directories of the volumes, in their order.
    pub volumes: Vec<PathBuf>,
    /// The geometry asked for when a cluster is formed.
    pub geometry: GeometryRequest,
    /// How volumes are run.
    pub options: Options,
    /// Where bodies go by their size.
    pub thresholds: Thresholds,
    /// Whether a body whose client sent another checksum goes without its MD5.
    pub fast_etags: bool,
    /// Bytes of the buffer pool.
    pub buffer_bytes_max: usize,
    /// Background work.
    pub upkeep: Settings,
}

/// What a store runs on: the machine, or a simulation of one. It touches nothing else.
#[derive(Clone)]
pub struct Machine {
    /// Where the directories are.
    pub disk: Arc<dyn Disk>,
    /// Opens the index of a volume's directory.
    pub index: IndexFactory,
    /// The process's clock; in a simulation the one of the runtime that the store is opened in.
    pub clock: Arc<dyn Clock>,
    /// Entropy.
    pub rng: Arc<dyn Rng>,
    /// Runs what lives beside the requests.
    pub host: Arc<dyn Host>,
}

impl Machine {
    /// The one that the process runs on; the indexes of all volumes share a cache of so many bytes.
    pub fn real(index_cache_bytes: u64) -> Self {
        Self {
            disk: Arc::new(RealDisk),
            index: lsm_indexes(IndexCache::new(index_cache_bytes, INDEX_FILES_MAX)),
            clock: Arc::new(SystemClock::new()),
            rng: Arc::new(SystemRng),
            host: Arc::new(ThreadHost),
        }
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("disk", &self.disk).field("host", &self.host).finish_non_exhaustive()
    }
}

/// The store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directories do not make a node.
    #[error(transparent)]
    Formation(#[from] FormationError),
    /// Threads cannot be started.
    #[error("start volume threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// An open store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    objects: Objects,
    cluster: Arc<Cluster>,
    volumes: Volumes,
    upkeep: Arc<Upkeep>,
    /// Reports that upkeep has not queued yet, or did not get.
    reports: Arc<ReportCounts>,
    pool: BufferPool,
    reclaim: Reclaim,
    wall: Arc<dyn Clock>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Store {
    /// Opens the volumes, forming a cluster where there is none, and starts the background work.
    ///
    /// # Errors
    /// [`OpenError`] when the directories do not make a node. A volume that does not open is an
    /// offline volume, not an error.
    pub async fn open(
        config: StoreConfig,
        machine: Machine,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, OpenError> {
        let StoreConfig { volumes, geometry, options, thresholds, fast_etags, .. } = config;
        let StoreConfig { buffer_bytes_max, upkeep, .. } = config;
        let Machine { disk, index, clock, rng, host } = machine;
        let forming = FormationConfig { disk: Arc::clone(&disk), directories: volumes, zone: None, geometry };
        let formation = form::form_or_find(&forming, rng.as_ref())?;
        for warning in &formation.warnings {
            tracing::warn!(%warning, "geometry");
        }
        let pool = BufferPool::new(PoolLimits {
            cap_bytes: buffer_bytes_max,
            stripe_bytes: 1 << 20,
            idle_bytes: IDLE_BUFFER_BYTES,
        });
        let options = options.shared_by(formation.volumes.len());
        let volumes = Volumes::start(&VolumesConfig {
            disk,
            clock: Arc::clone(&clock),
            host: Arc::clone(&host),
            buffers: pool.clone(),
            index,
            options,
            cluster: formation.cluster,
            topology: Arc::clone(&formation.topology),
            volumes: formation.volumes,
            pace: Pace::default(),
        })?;
        if !volumes.settled(OPEN_PATIENCE).await {
            tracing::warn!("some volumes are still opening; the node serves without them");
        }
        let digests = DigestPool::start(&*host)?;
        let (store, reports) = Self::assemble(
            Parts {
                volumes,
                digests,
                topology: formation.topology,
                node: formation.node,
                clock,
                rng,
                pool,
                thresholds,
                fast_etags,
                upkeep,
            },
            metrics,
        );
        store.upkeep.confirm_volumes().await;
        store.upkeep.run_all(reports);
        Ok(store)
    }

    /// Puts the layers together; nothing runs yet.
    fn assemble(parts: Parts, metrics: &Arc<Metrics>) -> (Self, Reports) {
        let Parts { volumes, digests, topology, node, clock, rng, pool, thresholds, fast_etags, upkeep } =
            parts;
        let local = Arc::new(LocalPeer::new(volumes.clone()));
        let cluster = Arc::new(Cluster::new(topology, node, RemoteVolumes::default(), |volume| {
            VolumeRoute::through(volume, &local)
        }));
        let wall = Arc::clone(&clock);
        let births = Arc::new(HybridClock::new(Arc::clone(&clock)));
        let clock = Arc::new(HybridClock::new(clock));
        let proposer = ProposerId(rng.next_u64());
        let (damage, reports) = Damage::channel();
        let counts = Arc::clone(damage.counts());
        let pins = Pins::default();
        let deletions = Deletions::default();
        let tasks = TaskTracker::new();
        let reclaim = Reclaim::default();
        let stripes = Stripes::new(StripesConfig {
            cluster: Arc::clone(&cluster),
            births: Arc::clone(&births),
            proposer,
            pool: pool.clone(),
            thresholds,
            timeouts: StripeTimeouts::default(),
            damage: damage.clone(),
            pins: pins.clone(),
            digests,
            reclaim: reclaim.clone(),
        });
        let registers = Registers::new(RegistersConfig {
            cluster: Arc::clone(&cluster),
            clock: Arc::clone(&clock),
            rng: Arc::clone(&rng),
            proposer,
            births: Arc::clone(&births),
            timeouts: RegisterTimeouts::default(),
            damage,
            metrics: Arc::clone(metrics),
            tasks: tasks.clone(),
        });
        let release_grace = upkeep.release_grace;
        let upkeep = Upkeep::new(UpkeepConfig {
            cluster: Arc::clone(&cluster),
            volumes: volumes.clone(),
            registers: registers.clone(),
            stripes: stripes.clone(),
            clock: Arc::clone(&clock),
            rng: Arc::clone(&rng),
            pins,
            deletions: deletions.clone(),
            report_counts: Arc::clone(&counts),
            settings: upkeep,
        });
        let objects = Objects::new(ObjectsConfig {
            cluster: Arc::clone(&cluster),
            registers,
            stripes,
            clock,
            rng,
            deletions,
            fast_etags,
            release_grace,
        });
        let upkeep = Arc::new(upkeep);
        let stop = CancellationToken::new();
        (
            Self { objects, cluster, volumes, upkeep, reports: counts, pool, reclaim, wall, tasks, stop },
            reports,
        )
    }

    /// The verbs.
    pub const fn objects(&self) -> &Objects {
        &self.objects
    }

    /// How reads that wait ask slow connections for their buffers.
    pub const fn reclaim(&self) -> &Reclaim {
        &self.reclaim
    }

    /// How its volumes are cut into sets.
    pub fn shape(&self) -> PoolShape {
        PoolShape::of(self.cluster.topology())
    }

    /// What is whole and what is not, at this moment.
    pub fn health(&self) -> HealthReport {
        let status = self.volumes.status();
        let votes = |id: VolumeId| status.iter().any(|volume| volume.id == id && volume.state.votes());
        let has_room = |route: &&VolumeRoute| !route.registers.is_full(route.volume);
        let is_there = |id: VolumeId| self.volumes.get(id).is_some_and(|volume| volume.serving().is_ok());
        let sets = self
            .cluster
            .sets()
            .iter()
            .map(|set| SetHealth {
                set: set.id.0,
                volumes: set.routes.len(),
                voting: set.routes.iter().filter(|route| votes(route.volume)).count(),
                with_room: set.routes.iter().filter(has_room).count(),
                taking_shards: set
                    .routes
                    .iter()
                    .filter(has_room)
                    .filter(|route| is_there(route.volume))
                    .count(),
                shards_needed: set.durable_enough(),
                write_quorum: set.quorums().accept(),
                read_quorum: set.quorums().prepare(),
            })
            .collect();
        let volumes = status
            .iter()
            .map(|volume| {
                let (state, reason) = self.shown(volume);
                VolumeHealth { name: volume.path.display().to_string(), state, reason }
            })
            .collect();
        let stuck = self.upkeep.stuck_sets().iter().map(ToString::to_string).collect();
        HealthReport { sets, volumes, stuck, release_grace: self.objects.release_grace() }
    }

    /// A volume's state as health and metrics name it, and why it is not online. A volume votes again
    /// before it is known what it lacks, and before its shards are rebuilt; until then it is shown as
    /// what it is to an operator: on its way back, so that the next one is not taken away.
    fn shown(&self, volume: &VolumeStatus) -> (health::VolumeState, String) {
        use health::VolumeState as Shown;
        let standing = self.upkeep.standing(volume.id, volume.opened_count);
        let shown = match (&volume.state, standing) {
            (
                VolumeState::Online | VolumeState::Suspect { .. } | VolumeState::Recovering,
                OpeningStatus::Recovering(recovery),
            ) => return (Shown::Recovering, recovery.to_string()),
            (VolumeState::Online, OpeningStatus::Unknown) => {
                return (
                    Shown::Opening,
                    "it is compared with its peers: what it lacks is not known yet".to_owned(),
                );
            }
            (VolumeState::Online, _) if volume.open.as_ref().is_some_and(|open| open.full) => Shown::Full,
            (VolumeState::Online, _) => Shown::Online,
            (VolumeState::Opening | VolumeState::Unconfirmed { .. }, _) => Shown::Opening,
            (VolumeState::Suspect { .. }, _) => Shown::Suspect,
            (VolumeState::Recovering, _) => Shown::Recovering,
            (VolumeState::Failed { .. }, _) => Shown::Failed,
            (VolumeState::Vacant { .. } | VolumeState::Offline { .. } | VolumeState::Closed, _) => {
                Shown::Offline
            }
        };
        (shown, volume.state.reason().unwrap_or_default().to_owned())
    }

    /// Sets the gauges that mirror the store's state.
    pub fn observe(&self, metrics: &Metrics) {
        for volume in self.volumes.status() {
            let gauges = metrics.volume(&volume.path.display().to_string());
            gauges.set_state(self.shown(&volume).0);
            if let Some(open) = &volume.open {
                gauges.bytes.set(gauge(open.total_bytes));
                gauges.free_bytes.set(gauge(open.free_bytes));
                gauges.index_pending_bytes.set(gauge(open.index_pending_bytes));
                gauges.index_unmerged.set(gauge(open.index_unmerged as u64));
                gauges.sync_duration.show(open.sync_us.clone());
                gauges.batch_records.show(open.frame_records.clone());
            }
            for (fault, count) in volume.faults {
                gauges.show_errors(fault, count);
            }
        }
        let usage = self.pool.usage();
        metrics.buffer.cap_bytes.set(gauge(usage.cap_bytes as u64));
        metrics.buffer.used_bytes.set(gauge(usage.in_use_bytes as u64));
        // Before the queue: a report is in the one or the other.
        let waiting_count = self.reports.waiting_heals_count();
        let upkeep = self.upkeep.status();
        metrics.mrf.queue_length.set(gauge((upkeep.mrf.len + waiting_count) as u64));
        let oldest = upkeep.mrf.oldest_ms.map_or(0, |since| self.wall.wall_ms().saturating_sub(since));
        metrics.mrf.oldest_age_seconds.set(Duration::from_millis(oldest).as_secs_f64());
        catch_up(&metrics.mrf.healed, upkeep.mrf.healed_count);
        catch_up(&metrics.mrf.failed, upkeep.mrf.failed_count);
        catch_up(&metrics.buffer.waits, usage.waits);
        catch_up(&metrics.scrub.verified, upkeep.scrub.rows_count + upkeep.scrub.shards_count);
        catch_up(&metrics.scrub.verified_bytes, upkeep.scrub.bytes_count);
        metrics.scrub.progress_ratio.set(f64::from(upkeep.scrub.done_permille) / 1000.0);
        let ended = Duration::from_millis(upkeep.scrub.ended_ms);
        metrics.scrub.last_pass_timestamp_seconds.set(ended.as_secs_f64());
        catch_up(&metrics.scrub.damaged, upkeep.scrub.findings_count);
        catch_up(&metrics.scrub.passes, upkeep.scrub.passes_count);
        catch_up(&metrics.upkeep.panics, upkeep.panics_count);
        metrics.upkeep.release_queue_length.set(gauge(upkeep.release.len as u64));
        catch_up(&metrics.upkeep.released, upkeep.release.released_count);
        catch_up(&metrics.mrf.dropped, self.reports.dropped_heals_count());
        let dropped_count = self.reports.dropped_superseded_count() + upkeep.release.dropped_count;
        catch_up(&metrics.upkeep.release_dropped, dropped_count);
    }

    /// Gives idle buffers back to the system, every second, and what the allocator keeps where that is much.
    pub(crate) fn trim_memory(&self) {
        let (pool, stop) = (self.pool.clone(), self.stop.clone());
        let mut heap = Heap::default();
        self.tasks.spawn(async move {
            loop {
                // Cancel-safe: a sleep holds nothing.
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(TRIM_EVERY) => {
                        pool.trim();
                        heap.trim();
                    }
                }
            }
        });
    }

    /// Ends the background work, waits for what requests left under way, and closes the volumes.
    pub async fn close(&self) {
        self.stop.cancel();
        self.upkeep.stop().await;
        self.tasks.close();
        if tokio::time::timeout(CLOSE_PATIENCE, self.tasks.wait()).await.is_ok() {
            self.upkeep.note_peers_at_end().await;
        } else {
            tracing::warn!(tasks = self.tasks.len(), "work left by requests did not end in time");
        }
        for (volume, reason) in self.volumes.close(CLOSE_PATIENCE).await {
            tracing::warn!(%volume, reason, "volume was not closed cleanly; the next start replays its log");
        }
    }
}

/// What the layers are assembled from.
struct Parts {
    volumes: Volumes,
    digests: DigestPool,
    topology: Arc<Topology>,
    node: NodeId,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    pool: BufferPool,
    thresholds: Thresholds,
    fast_etags: bool,
    upkeep: Settings,
}

/// Brings a counter up to a count that is kept elsewhere.
fn catch_up(counter: &IntCounter, count: u64) {
    counter.inc_by(count.saturating_sub(counter.get()));
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use sherd_volume::options::Durability;

    use super::*;

    async fn open(folder: &std::path::Path) -> Store {
        let volumes: Vec<PathBuf> = (1..=4).map(|number| folder.join(format!("v{number}"))).collect();
        for volume in &volumes {
            std::fs::create_dir_all(volume).expect("the folder is writable");
        }
        let config = StoreConfig {
            volumes,
            geometry: GeometryRequest::default(),
            options: Options { ballast_bytes: 0, reserve_bytes: 0, ..Options::default() },
            thresholds: Thresholds::default(),
            fast_etags: false,
            buffer_bytes_max: 64 << 20,
            upkeep: Settings::default(),
        };
        let metrics = Arc::new(Metrics::new(Durability::Fsync));
        let opened = Store::open(config, Machine::real(4 << 20), &metrics);
        opened.await.expect("four empty folders make a node")
    }

    fn states(store: &Store) -> Vec<health::VolumeState> {
        store.health().volumes.iter().map(|volume| volume.state).collect()
    }

    /// One thread: what the store started in the background has not run when it is looked at.
    #[tokio::test]
    async fn a_volume_is_not_shown_online_before_it_is_known_what_it_lacks() {
        let folder = tempfile::TempDir::new().expect("a folder for the test");
        let store = open(folder.path()).await;
        assert_eq!(states(&store), [health::VolumeState::Opening; 4]);
        assert!(store.health().sets.iter().all(|set| set.voting == 4), "they serve all the same");
        let known = async {
            while states(&store) != [health::VolumeState::Online; 4] {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(OPEN_PATIENCE, known).await.expect("upkeep looks at them");
        store.close().await;
    }
}
