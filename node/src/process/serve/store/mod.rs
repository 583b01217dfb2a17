//! The store of one node: its volumes, the layers above them, and the background work, put
//! together in the order in which they need each other and taken apart in the other.

mod observe;

pub use self::observe::StoreReport;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sherd_core::env::{Clock, HybridClock, Rng};
use sherd_core::id::{ClusterId, ProposerId, VolumeId};
use sherd_core::topology::{GeometryRequest, PoolShape, Topology};
use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::index::lsm::IndexCache;
use sherd_volume::options::Options;

use crate::process::serve::limits::{
    CLOSE_PATIENCE, IDLE_BUFFER_BYTES, INDEX_FILES_MAX, OPEN_PATIENCE, TRIM_EVERY,
};
use sherd_net::grpc::GrpcPeer;
use sherd_store::cluster::Cluster;
use sherd_store::cluster::asker::Gateways;
use sherd_store::cluster::damage::{Damage, ReportCounts, Reports};
use sherd_store::cluster::deletions::Deletions;
use sherd_store::cluster::pins::Pins;
use sherd_store::iam::{Iam, IamConfig, MasterKey};
use sherd_store::machine::heap::Heap;
use sherd_store::machine::host::{Host, ThreadHost};
use sherd_store::machine::reclaim::Reclaim;
use sherd_store::machine::system::{SystemClock, SystemRng};
use sherd_store::object::{DeletionPatience, Objects, ObjectsConfig};
use sherd_store::observe::metrics::Metrics;
use sherd_store::peer::remote::RemoteVolumes;
use sherd_store::peer::{LocalPeer, VolumeRoute};
use sherd_store::register::{RegisterTimeouts, Registers, RegistersConfig, value_budget};
use sherd_store::stripe::{DigestPool, StripeTimeouts, Stripes, StripesConfig, Thresholds};
use sherd_store::upkeep::{Settings, Upkeep, UpkeepConfig, UpkeepTuning};
use sherd_store::volumes::directories::{self, Formation, FormationConfig, FormationError};
use sherd_store::volumes::{IndexFactory, LeaseTerms, Pace, Volumes, VolumesConfig, lsm_indexes};

/// The inputs of a store.
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
    /// The key under which secrets of access keys are kept, where the node has one.
    pub master_key: Option<MasterKey>,
    /// The cluster that was formed before: a node alone does not form it again.
    pub formed: Option<ClusterId>,
}

/// The machine under a store, or a simulation of one. The store touches nothing else.
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
    /// The one that the process runs on; the indexes of all volumes share a cache of `index_cache_bytes`.
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

/// The place of a node among others, which its cluster's formation found.
#[derive(Debug)]
pub struct ClusterPlace {
    /// The topology, and this node's volumes in it.
    pub formation: Formation,
    /// The volumes of the other nodes, by their last reports.
    pub remote: RemoteVolumes,
    /// How each node of the topology is reached, in its order; `None` for this one.
    pub peers: Vec<Option<Arc<GrpcPeer>>>,
    /// The other nodes as gateways; `None` of a node alone.
    pub gateways: Option<Arc<dyn Gateways>>,
}

impl ClusterPlace {
    /// The place of the only node.
    fn alone(formation: Formation) -> Self {
        Self { formation, remote: RemoteVolumes::default(), peers: Vec::new(), gateways: None }
    }

    /// The topology with the ways to its volumes: those of this node in this process, the others through the
    /// peer that reaches their node.
    fn routed(self, local: &LocalPeer) -> Cluster {
        let Self { formation: Formation { topology, node, .. }, remote, peers, gateways: _ } = self;
        let local = Arc::new(local.clone());
        let peer_of = |volume: VolumeId| {
            let node = topology.volume(volume)?.node;
            let place = topology.nodes().iter().position(|known| known.id == node)?;
            peers.get(place)?.as_ref()
        };
        let route_to = |volume| match peer_of(volume) {
            Some(peer) => VolumeRoute::through(volume, peer),
            None => VolumeRoute::through(volume, &local),
        };
        Cluster::new(Arc::clone(&topology), node, remote, route_to)
    }
}

/// The store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
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
    verbs: Verbs,
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

/// The parts of the store that requests use.
#[derive(Debug, Clone)]
struct Verbs {
    objects: Objects,
    iam: Iam,
}

impl Verbs {
    fn new(config: ObjectsConfig, master_key: Option<MasterKey>) -> Self {
        let (rng, others) = (Arc::clone(&config.rng), config.others.clone());
        let objects = Objects::new(config);
        let iam = Iam::new(IamConfig { objects: objects.clone(), rng, master_key, others });
        Self { objects, iam }
    }
}

impl Store {
    /// Opens the volumes, and starts the background work. A node among others has its `place` in the cluster;
    /// the volumes of a node alone are the cluster, which is formed if it is not there.
    ///
    /// # Errors
    /// [`StoreError`] when the directories do not make a node. A volume that does not open is an offline
    /// volume, not an error.
    pub async fn open(
        config: StoreConfig,
        machine: Machine,
        metrics: &Arc<Metrics>,
        place: Option<ClusterPlace>,
    ) -> Result<Self, StoreError> {
        let StoreConfig { volumes, geometry, options, thresholds, fast_etags, .. } = config;
        let StoreConfig { buffer_bytes_max, upkeep, master_key, formed, .. } = config;
        let Machine { disk, index, clock, rng, host } = machine;
        let is_alone = place.is_none();
        let alone = |disk| {
            let forming = FormationConfig { disk, directories: volumes, zone: None, geometry };
            if let Some(cluster) = formed {
                directories::check_formed(&forming, cluster)?;
            }
            directories::form_or_find(&forming, rng.as_ref()).map(ClusterPlace::alone)
        };
        let place = place.map_or_else(|| alone(Arc::clone(&disk)), Ok)?;
        let (formation, gateways) = (place.formation.clone(), place.gateways.clone());
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
            rng: Arc::clone(&rng),
            host: Arc::clone(&host),
            buffers: pool.clone(),
            index,
            options,
            cluster: formation.cluster,
            topology: formation.topology,
            volumes: formation.volumes,
            pace: Pace::default(),
            leases: LeaseTerms::default(),
        })?;
        if !volumes.settled(OPEN_PATIENCE).await {
            tracing::warn!("some volumes are still opening; the node serves without them");
        }
        let digests = DigestPool::start(&*host)?;
        let cluster = Arc::new(place.routed(&LocalPeer::new(volumes.clone())));
        let (store, reports) = Self::assemble(
            StoreParts {
                volumes,
                digests,
                cluster,
                gateways,
                clock,
                rng,
                pool,
                thresholds,
                fast_etags,
                upkeep,
                master_key,
            },
            metrics,
        );
        // Among others each volume votes as soon as enough peers answered; nothing waits for those that do
        // not.
        if is_alone {
            store.upkeep.confirm_volumes().await;
        }
        store.upkeep.run_all(reports);
        Ok(store)
    }

    /// Puts the layers together; nothing runs yet.
    fn assemble(parts: StoreParts, metrics: &Arc<Metrics>) -> (Self, Reports) {
        let StoreParts { volumes, digests, cluster, gateways, clock, rng, pool, .. } = parts;
        let StoreParts { thresholds, fast_etags, upkeep, master_key, .. } = parts;
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
            metrics: metrics.shards.clone(),
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
            values: value_budget(&pool),
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
        let verbs = ObjectsConfig {
            cluster: Arc::clone(&cluster),
            registers,
            stripes,
            clock,
            rng,
            deletions,
            fast_etags,
            release_grace,
            deletion_patience: DeletionPatience::default(),
            others: gateways,
        };
        let verbs = Verbs::new(verbs, master_key);
        let upkeep = Arc::new(upkeep);
        let stop = CancellationToken::new();
        (Self { verbs, cluster, volumes, upkeep, reports: counts, pool, reclaim, wall, tasks, stop }, reports)
    }

    /// The verbs.
    pub const fn objects(&self) -> &Objects {
        &self.verbs.objects
    }

    /// Puts other settings of background work into force.
    pub fn tune(&self, tuning: UpkeepTuning) {
        self.upkeep.tune(tuning);
        self.objects().set_release_grace(tuning.release_grace);
    }

    /// Identity and access management.
    pub const fn iam(&self) -> &Iam {
        &self.verbs.iam
    }

    /// How reads that wait ask slow connections for their buffers.
    pub const fn reclaim(&self) -> &Reclaim {
        &self.reclaim
    }

    pub(crate) fn local_peer(&self) -> LocalPeer {
        LocalPeer::new(self.volumes.clone())
    }

    pub(crate) fn topology(&self) -> &Arc<Topology> {
        self.cluster.topology()
    }

    /// How its volumes are cut into sets.
    pub fn shape(&self) -> PoolShape {
        PoolShape::of(self.cluster.topology())
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

struct StoreParts {
    volumes: Volumes,
    digests: DigestPool,
    cluster: Arc<Cluster>,
    gateways: Option<Arc<dyn Gateways>>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    pool: BufferPool,
    thresholds: Thresholds,
    fast_etags: bool,
    upkeep: Settings,
    master_key: Option<MasterKey>,
}

#[cfg(test)]
pub(crate) mod tests {
    use sherd_volume::options::Durability;

    use sherd_core::report::VolumeCondition;

    use super::*;

    /// Four volumes in folders below `folder`.
    pub(crate) async fn open(folder: &std::path::Path) -> Store {
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
            master_key: None,
            formed: None,
        };
        let metrics = Arc::new(Metrics::new(Durability::Fsync));
        let opened = Store::open(config, Machine::real(4 << 20), &metrics, None);
        opened.await.expect("four empty folders make a node")
    }

    fn states(store: &Store) -> Vec<VolumeCondition> {
        store.report("").volumes.iter().filter_map(|volume| volume.condition).collect()
    }

    /// One thread: what the store started in the background has not run when it is looked at.
    #[tokio::test]
    async fn a_volume_is_not_shown_online_before_it_is_known_what_it_lacks() {
        let folder = tempfile::TempDir::new().expect("a folder for the test");
        let store = open(folder.path()).await;
        assert_eq!(states(&store), [VolumeCondition::Opening; 4]);
        assert!(store.report("").sets.iter().all(|set| set.voting == 4), "they serve all the same");
        let known = async {
            while states(&store) != [VolumeCondition::Online; 4] {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(OPEN_PATIENCE, known).await.expect("upkeep looks at them");
        store.close().await;
    }
}
