//! Whole nodes in one process, over real directories: what upkeep mends is broken here first.
//!
//! Most tests call one piece of upkeep and look at what it did; the background tasks run only where
//! the story is about them. Nothing sleeps: states are watched, with a deadline.

mod buckets;
mod clocks;
mod confirmations;
mod heals;
mod leases;
mod missed;
mod pages;
mod rebuilds;
mod recoveries;
pub(crate) mod releases;
mod remains;
mod seals;
mod settling;
mod sweeps;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use futures::{StreamExt, TryStreamExt};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use sherd_core::env::{Clock, HybridClock, Rng};
use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{
    Ballot, BucketId, ChangeId, Incarnation, ObjectKey, ProposerId, RegisterKey, ShardId, Timestamp, VolumeId,
};
use sherd_core::message::Control;
use sherd_core::placement;
use sherd_core::record::{Attributes, Body, Changes, DataRef, State, Value, VersionKind};
use sherd_core::register::{Accept, EncodedValue, Prepare};
use sherd_core::topology::GeometryRequest;
use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::error::OpenError;
use sherd_volume::index::lsm::IndexCache;
use sherd_volume::options::Options;

use super::heal::HealOutcome;
use super::settle::RowsAhead;
use super::{Context, Deletions, Settings, UpkeepConfig};
use crate::cluster::Cluster;
use crate::cluster::damage::{Damage, Report, Reports};
use crate::cluster::pins::Pins;
use crate::machine::host::ThreadHost;
use crate::machine::system::{SystemClock, SystemRng};
use crate::object::{
    ObjectName, Objects, ObjectsConfig, PutRequest, ReadConditions, ReadRequest, Span, Upload,
    WriteConditions,
};
use crate::observe::metrics::Metrics;
use crate::peer::remote::RemoteVolumes;
use crate::peer::scripted::ScriptedPeer;
use crate::peer::{LocalPeer, VolumeRoute};
use crate::register::{RegisterTimeouts, Registers, RegistersConfig};
use crate::stripe::{StripeTimeouts, Stripes, StripesConfig, Thresholds};
use crate::volumes::form::{FormationConfig, FormationError, form_or_find};
use crate::volumes::{
    LeaseTerms, LocalVolume, Pace, VolumeState, Volumes, VolumesConfig, WORKERS, lsm_indexes,
};

/// The longest any state may take to come: generous, for a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// Directories that outlive the nodes that use them.
pub(crate) struct Directories {
    root: TempDir,
    count: usize,
    adopt_after: Duration,
    vouch_after: Option<Duration>,
    leases: LeaseTerms,
    geometry: GeometryRequest,
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
pub(crate) struct Node {
    clock: Arc<Ahead>,
    topology: Arc<sherd_core::topology::Topology>,
    volumes: Volumes,
    objects: Objects,
    pub(super) context: Arc<Context>,
    reports: Option<Reports>,
}

impl Directories {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            root: TempDir::new().expect("a directory for tests"),
            count,
            adopt_after: Duration::ZERO,
            vouch_after: None,
            // Nobody read before the nodes of a test.
            leases: LeaseTerms { unknown: Duration::ZERO, ..LeaseTerms::default() },
            geometry: GeometryRequest::default(),
        }
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

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        (0..self.count).map(|n| self.root.path().join(format!("v{n}"))).collect()
    }

    pub(crate) async fn start(&self) -> Node {
        self.start_with_pool(64 << 20).await
    }

    /// Starts with a buffer pool of so many bytes.
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
        node.context.confirm_volumes().await;
        node
    }

    fn start_unsettled(&self, cap_bytes: usize, ahead_ms: u64) -> Node {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let config = FormationConfig {
            disk: Arc::clone(&disk),
            directories: self.paths(),
            zone: None,
            geometry: self.geometry.clone(),
        };
        let began = std::time::Instant::now();
        let formation = loop {
            match form_or_find(&config, &SystemRng) {
                // What still answers for the node before holds a volume a moment longer.
                Err(FormationError::Open(OpenError::InUse { .. })) if began.elapsed() < DEADLINE => {
                    std::thread::yield_now();
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
    let wall: Arc<dyn Clock> = Arc::<Ahead>::clone(&ahead);
    let cluster = Arc::new(Cluster::new(
        Arc::clone(topology),
        topology.nodes()[0].id,
        RemoteVolumes::default(),
        route_to,
    ));
    let births = Arc::new(HybridClock::new(Arc::clone(&wall)));
    let clock = Arc::new(HybridClock::new(wall));
    let rng: Arc<dyn Rng> = Arc::new(SystemRng);
    let proposer = ProposerId(rng.next_u64());
    let (damage, reports) = Damage::channel();
    let report_counts = Arc::clone(damage.counts());
    let metrics = Arc::new(Metrics::new(sherd_volume::options::Durability::Fsync));
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
    });
    let pins = Pins::default();
    let deletions = Deletions::default();
    let stripes = Stripes::new(StripesConfig {
        digests: crate::stripe::DigestPool::start(&ThreadHost).expect("threads start"),
        pins: pins.clone(),
        cluster: Arc::clone(&cluster),
        births: Arc::clone(&births),
        proposer,
        pool,
        thresholds: Thresholds::default(),
        timeouts: StripeTimeouts::default(),
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
    });
    let context = Context::new(UpkeepConfig {
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
        context: Arc::new(context),
        reports: Some(reports),
    }
}

/// Follows the volumes in the background until the test ends.
fn follow(context: &Arc<Context>) -> super::Upkeep {
    let upkeep = super::Upkeep::over(Arc::clone(context));
    upkeep.run("volumes", |context| async move { context.follow_volumes().await });
    upkeep
}

fn name(key: &str) -> ObjectName {
    ObjectName { bucket: key_of("bucket"), key: key_of(key) }
}

pub(crate) fn key_of(text: &str) -> ObjectKey {
    ObjectKey::new(text.to_owned()).expect("a key")
}

/// Bytes that differ from object to object and from block to block.
pub(crate) fn body(seed: u64, length: usize) -> Bytes {
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
    Upload { size, body: futures::stream::iter(pieces).boxed(), md5: None, checksum: None }
}

impl Node {
    pub(crate) async fn create_bucket(&self) {
        self.objects.create_bucket(key_of("bucket"), String::new()).await.expect("a bucket is created");
    }

    pub(crate) async fn put(&self, key: &str, bytes: &Bytes) {
        self.try_put(key, bytes).await.expect("the object is stored");
    }

    async fn try_put(&self, key: &str, bytes: &Bytes) -> Result<(), String> {
        let request = PutRequest {
            name: name(key),
            attributes: Attributes::default(),
            conditions: WriteConditions::default(),
            upload: upload(bytes),
        };
        self.objects.put(request).await.map(drop).map_err(|error| error.to_string())
    }

    /// Another gateway to the same volumes, with a clock of its own.
    fn another_gateway(&self, ahead_ms: u64) -> Self {
        let limits = PoolLimits { cap_bytes: 64 << 20, stripe_bytes: 1 << 20, idle_bytes: 1 << 20 };
        let (ahead, pool) = (Ahead::new(ahead_ms), BufferPool::new(limits));
        build(self.volumes.clone(), &self.topology, ahead, pool, (Duration::ZERO, None))
    }

    /// Another gateway, between which and the same volumes a script stands.
    pub(crate) fn scripted_gateway(&self, timeouts: RegisterTimeouts) -> (Self, Arc<ScriptedPeer>) {
        let limits = PoolLimits { cap_bytes: 64 << 20, stripe_bytes: 1 << 20, idle_bytes: 1 << 20 };
        let (ahead, pool) = (Ahead::new(0), BufferPool::new(limits));
        let scripted = Arc::new(ScriptedPeer::new(LocalPeer::new(self.volumes.clone())));
        let route_to = |volume| VolumeRoute::through(volume, &scripted);
        let settings = at_once(Duration::ZERO, None);
        let volumes = self.volumes.clone();
        (build_over(&route_to, volumes, &self.topology, ahead, pool, settings, timeouts), scripted)
    }

    /// Another node, of which these volumes are: the others are this one's.
    fn another_node(&self, own: std::ops::Range<usize>) -> Self {
        let mut node = self.another_gateway(0);
        let context = Arc::get_mut(&mut node.context).expect("nothing runs yet");
        context.volumes = self.volumes.only(own);
        node
    }

    /// Puts an object, of which every volume has the row then: a write waits for A of them only.
    pub(crate) async fn put_everywhere(&self, key: &str, bytes: &Bytes) {
        self.put(key, bytes).await;
        self.on_all_volumes(&self.register(key).await).await;
    }

    /// Brings a volume back as its tasks do: its rows are settled, look by look, while it is compared.
    async fn comes_back(&self, volume: &LocalVolume) -> bool {
        self.comes_back_after(volume, async {}).await
    }

    /// The same, where nothing is settled before `first` has ended.
    async fn comes_back_after(&self, volume: &LocalVolume, first: impl Future<Output = ()>) -> bool {
        let came_back =
            Box::pin(self.context.came_back(volume.id(), self.context.caught_up_now(volume.opened_count())));
        let settling = Box::pin(async {
            first.await;
            let mut ahead = RowsAhead::default();
            loop {
                self.context.settle_volume(volume.id(), &mut ahead).await;
                tokio::task::yield_now().await;
            }
        });
        match select(came_back, settling).await {
            Either::Left((came_back, _)) => came_back,
            Either::Right((never, _)) => never,
        }
    }

    /// Makes shards that a write did not wait for.
    pub(crate) async fn complete(&self, register: &RegisterKey, data: &DataRef) {
        assert_eq!(self.context.heal_data(register, data.id).await, HealOutcome::Whole);
    }

    pub(crate) async fn get(&self, key: &str) -> Option<Bytes> {
        let request =
            ReadRequest { name: name(key), span: Span::Whole, conditions: ReadConditions::default() };
        let read = self.objects.get(request).await.ok()?;
        let pieces: Vec<Bytes> = read.body.try_collect().await.ok()?;
        Some(pieces.concat().into())
    }

    /// The register of an object.
    pub(crate) async fn register(&self, key: &str) -> RegisterKey {
        let bucket = RegisterKey::bucket(key_of("bucket"));
        let found = self.context.registers.read(&bucket).await.expect("readable").expect("there");
        match found.value.state {
            State::Bucket(bucket) => RegisterKey::object(bucket.id, key_of(key)),
            other => panic!("not a bucket: {other:?}"),
        }
    }

    /// Where the bytes of an object are.
    pub(crate) async fn data(&self, key: &str) -> DataRef {
        let register = self.register(key).await;
        let found = self.context.registers.read(&register).await.expect("readable").expect("there");
        let object = found.object().expect("an object").clone();
        match &object.versions[0].kind {
            VersionKind::Content(content) => match &content.body {
                Body::Data(data) => *data,
                other => panic!("not coded: {other:?}"),
            },
            VersionKind::DeleteMarker => panic!("deleted"),
        }
    }

    /// The volume that holds one shard.
    fn home(&self, register: &RegisterKey, data: &DataRef, index: u8) -> VolumeId {
        let set = self.context.cluster.set_of(register);
        set.routes[placement::home(data.id, index, set.routes.len())].volume
    }

    fn local(&self, volume: VolumeId) -> &Arc<LocalVolume> {
        self.volumes.get(volume).expect("a volume of this node")
    }

    /// The path of a shard file.
    pub(crate) fn file(&self, register: &RegisterKey, data: &DataRef, index: u8) -> PathBuf {
        let shard = ShardId { data: data.id, index };
        let volume = self.local(self.home(register, data, index));
        let wanted = format!("{}.{}", shard.data, shard.index);
        let directories = std::fs::read_dir(volume.path().join("shards")).expect("readable");
        directories
            .map(|entry| entry.expect("readable").path().join(&wanted))
            .find(|path| path.exists())
            .expect("the shard has a file")
    }

    /// The path that a shard file has where it is present.
    fn file_on(&self, register: &RegisterKey, data: &DataRef, index: u8) -> PathBuf {
        let volume = self.local(self.home(register, data, index));
        let wanted = format!("{}.{index}", data.id);
        let directories = std::fs::read_dir(volume.path().join("shards")).into_iter().flatten();
        let mut paths = directories.flatten().map(|entry| entry.path().join(&wanted));
        paths.find(|path| path.exists()).unwrap_or_else(|| volume.path().join("no such shard"))
    }

    /// The other volumes learn that this one is in a later life than the one in which it answers: it
    /// is back after it was replaced.
    pub(crate) async fn outlive(&self, volume: VolumeId) {
        let set = self.context.set_with(volume).expect("it is in a set");
        let life = self.local(volume).serving().expect("it serves").reader.answerer().incarnation;
        let record = Control::RecordIncarnation { volume, incarnation: Incarnation(life.0 + 1) };
        for route in set.routes.iter().filter(|route| route.volume != volume) {
            let recorded = route.registers.control(route.volume, record.clone()).await.expect("it serves");
            assert!(recorded.result.is_ok());
        }
    }

    /// The volumes of this node, in their order.
    pub(crate) fn volume_ids(&self) -> Vec<VolumeId> {
        self.volumes.all().iter().map(|volume| volume.id()).collect()
    }

    /// Heals that were reported and that nobody has taken yet.
    pub(crate) fn reported_heals(&mut self) -> Vec<HealId> {
        let heal = |report| match report {
            Report::Heal(entry) => Some(entry.id()),
            Report::Superseded { .. } => None,
        };
        self.reported().into_iter().filter_map(heal).collect()
    }

    /// Heals that its volumes' logs hold.
    pub(crate) async fn logged_heals(&self) -> Vec<HealId> {
        let routes = self.context.cluster.sets().iter().flat_map(|set| &set.routes);
        let pages = routes.map(|route| route.upkeep.heals(route.volume, None, 1_000));
        let pages = futures::future::join_all(pages).await;
        pages.into_iter().flatten().flatten().map(|(id, _)| id).collect()
    }

    /// Lets a volume's blocking reads hang until what this gives is dropped.
    pub(crate) fn hang_reads(&self, volume: VolumeId) -> std::sync::mpsc::Sender<()> {
        let serving = self.local(volume).serving().expect("it serves");
        let (hung, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(parking_lot::Mutex::new(wait));
        for _ in 0..WORKERS {
            let wait = Arc::clone(&wait);
            let job = move || assert!(wait.lock().recv().is_err(), "nothing is ever sent");
            serving.reads.run(job).expect("nothing else waits");
        }
        hung
    }

    /// Moves a volume's directory away.
    pub(crate) async fn take_away(&self, volume: VolumeId) {
        let path = self.local(volume).path();
        std::fs::rename(path, path.with_extension("away")).expect("moved away");
        self.wait_for(volume, |state| matches!(state, VolumeState::Offline { .. })).await;
    }

    /// Waits until a volume is in the state that `is` names.
    async fn wait_for(&self, volume: VolumeId, is: impl Fn(&VolumeState) -> bool) {
        let local = self.local(volume);
        let mut changes = self.volumes.changes();
        let reached = async {
            while !is(&local.state()) {
                changes.changed().await.expect("keepers live as long as the test");
            }
        };
        let in_time = tokio::time::timeout(DEADLINE, reached).await;
        assert!(in_time.is_ok(), "{volume} is {:?}", local.state());
    }

    /// Waits until the last of its volumes has the row of a write that was acknowledged, and none has one of
    /// before. A volume that opened later than the others may refuse the first ballot after a start; that is
    /// reported, and upkeep, which does not run here, would bring the row there.
    async fn on_all_volumes(&self, register: &RegisterKey) {
        let on_all = async {
            loop {
                let rows = self.context.rows_of(register).await;
                if rows.held.len() == self.volumes.all().len() && rows.are_same() {
                    return;
                }
                if self.context.report_counts.made_heals_count() > 0 {
                    let behind = HealEntry { key: register.clone(), data: None, since_ms: 0 };
                    self.context.heal(&behind).await;
                }
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(DEADLINE, on_all).await.is_ok(), "a volume never got the row");
    }

    /// Waits until every volume has the same row.
    async fn until_same(&self, register: &RegisterKey) {
        let same = async {
            while !self.context.rows_of(register).await.are_same() {
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(DEADLINE, same).await.is_ok(), "the rows stay different");
    }

    /// Waits until a volume was opened again, and has its peers confirm it.
    async fn back_online(&self, volume: VolumeId) {
        self.wait_for(volume, |state| matches!(state, VolumeState::Unconfirmed { .. })).await;
        self.context.confirm_volumes().await;
        self.wait_for(volume, |state| *state == VolumeState::Online).await;
    }

    /// The seals on its volumes.
    pub(crate) fn seals(&self) -> Vec<(BucketId, Vec<ChangeId>)> {
        let serving = self.volumes.all().iter().filter_map(|volume| volume.serving().ok());
        serving.flat_map(|serving| serving.reader.all_seals().collect::<Vec<_>>()).collect()
    }

    /// What was reported to upkeep, which does not run, since this was last asked.
    pub(crate) fn reported(&mut self) -> Vec<Report> {
        let reports = self.reports.as_mut().expect("nobody took them");
        std::iter::from_fn(|| reports.reports.try_recv().ok()).collect()
    }

    /// The verbs.
    pub(crate) const fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Its registers.
    /// Lets a volume note how far its peers' logs are.
    pub(crate) async fn note_peers(&self, volume: &LocalVolume, opening: u32) {
        let peers = self.context.peer_positions(volume.id()).await;
        crate::upkeep::recover::note_peers(volume, opening, &peers);
    }

    /// Waits for the next report of damage, or of what was replaced. Nobody else takes it.
    pub(crate) async fn next_report(&mut self) -> Report {
        let reports = self.reports.as_mut().expect("not taken");
        reports.reports.recv().await.expect("its senders are there")
    }

    pub(crate) fn registers(&self) -> &Registers {
        &self.context.registers
    }

    /// Its data path.
    pub(crate) fn stripes(&self) -> &Stripes {
        &self.context.stripes
    }

    /// Only its volumes.
    pub(crate) fn volumes(self) -> Volumes {
        self.volumes
    }

    /// Ends as the process does: what is left of its writes first, which reaches the volumes that were not waited for.
    pub(crate) async fn close(self) {
        let tasks = self.context.registers.tasks();
        tasks.close();
        tokio::time::timeout(DEADLINE, tasks.wait()).await.expect("its writes end");
        assert_eq!(self.volumes.close(DEADLINE).await, Vec::new());
    }
}

/// Who wrote rows, and was killed then.
const WRITER: ProposerId = ProposerId(5);

/// A tombstone that these volumes accepted, and whose writer was killed then.
async fn accept_on(node: &Node, register: &RegisterKey, route: &[VolumeRoute]) -> Ballot {
    accept_at(node, register, route, node.context.clock.tick()).await
}

/// As [`accept_on`], with a ballot of this time.
async fn accept_at(node: &Node, register: &RegisterKey, route: &[VolumeRoute], time: Timestamp) -> Ballot {
    let value = Value { changes: Changes::default(), state: State::Tombstone };
    accept_value(node, register, route, EncodedValue::new(value.encode(), bytes::Bytes::new()), time).await
}

/// As [`accept_at`], with another value.
async fn accept_value(
    node: &Node,
    register: &RegisterKey,
    route: &[VolumeRoute],
    value: EncodedValue,
    time: Timestamp,
) -> Ballot {
    let target = node.context.cluster.target(register.clone());
    let ballot = Ballot { time, proposer: WRITER };
    let (introduces, positions) = (Vec::new(), Arc::default());
    let accept = Accept { ballot, value, introduces, finishes: false, positions };
    for one in route {
        let promise = one.registers.prepare(one.volume, &target, Prepare { ballot }, false).await;
        promise.expect("answered").result.expect("promised");
        let accepted = one.registers.accept(one.volume, &target, &accept, None).await;
        accepted.expect("answered").result.expect("accepted");
    }
    ballot
}
