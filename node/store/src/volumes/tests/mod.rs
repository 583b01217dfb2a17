//! Volumes that fail and hang, and those beside them that do not.

mod hanging;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use sherd_core::id::{
    BucketId, DataId, Epoch, Life, ObjectKey, ProposerId, RegisterKey, Sequence, ShardId, Slot, Timestamp,
};
use sherd_core::message;
use sherd_core::message::{ShardFileHeader, Target};
use sherd_core::record::Home;
use sherd_core::topology::GeometryRequest;
use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::OpenMode;
use sherd_volume::disk::faulty::{Call, Failure, Fault, FaultyDisk};
use sherd_volume::error::OpenError;
use sherd_volume::index::memory::MemoryIndex;
use sherd_volume::index::{Change, Index, IndexError, Pair};
use sherd_volume::lookup::Lookup;
use sherd_volume::open::IndexSource;
use sherd_volume::options::Options;

use super::*;
use crate::machine::host::ThreadHost;
use crate::machine::system::{SystemClock, SystemRng};
use crate::peer::{LocalPeer, Peer, ShardPeer};
use crate::volumes::directories::directory::identity_of;
use crate::volumes::directories::{Formation, FormationConfig, form_or_find};

const DEADLINE: Duration = Duration::from_mins(1);

/// An index that forgets: every opening rebuilds it from the log.
struct Forgetful;

impl IndexSource for Forgetful {
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        Ok(Arc::new(MemoryIndex::new()))
    }

    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        self.open()
    }
}

async fn start(disk: &FaultyDisk, look_every: Duration) -> (Volumes, LocalPeer) {
    start_at(disk, Pace { look_every, ..Pace::default() }).await
}

fn form(disk: &FaultyDisk, directories: &[&str]) -> Formation {
    let forming = FormationConfig {
        disk: Arc::new(disk.clone()),
        directories: directories.iter().map(PathBuf::from).collect(),
        zone: None,
        geometry: GeometryRequest::default(),
    };
    for directory in directories {
        let_go(disk, Path::new(directory));
    }
    form_or_find(&forming, &SystemRng).expect("formed")
}

/// Waits until no thread of an opening that has ended holds the directory: one that answered a read may do so
/// a moment longer.
fn let_go(disk: &FaultyDisk, directory: &Path) {
    let is_held = || {
        let locked = sherd_volume::identity::lock(disk, directory);
        matches!(locked, Err(OpenError::InUse { .. }))
    };
    let since = std::time::Instant::now();
    while is_held() {
        assert!(since.elapsed() < DEADLINE, "a thread holds {}", directory.display());
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

async fn start_at(disk: &FaultyDisk, pace: Pace) -> (Volumes, LocalPeer) {
    let volumes = start_unconfirmed(disk, pace).await;
    for volume in volumes.all().iter().filter(|volume| volume.state().is_reachable()) {
        volume.vouch().await.expect("it serves");
    }
    (volumes.clone(), LocalPeer::new(volumes))
}

async fn start_unconfirmed(disk: &FaultyDisk, pace: Pace) -> Volumes {
    start_over(disk, pace, Arc::new(|_: &Path| Box::new(Forgetful) as Box<dyn IndexSource>)).await
}

async fn start_over(disk: &FaultyDisk, pace: Pace, index: IndexFactory) -> Volumes {
    start_with(disk, pace, index, small(), Arc::new(SystemClock::new())).await
}

fn small() -> Options {
    Options {
        segment_bytes: 1 << 20,
        spare_segments: 0,
        ballast_bytes: 0,
        reserve_bytes: 0,
        ..Options::default()
    }
}

async fn start_with(
    disk: &FaultyDisk,
    pace: Pace,
    index: IndexFactory,
    options: Options,
    clock: Arc<dyn Clock>,
) -> Volumes {
    start_on(Arc::new(disk.clone()), form(disk, &["/data/a", "/data/b"]), pace, index, options, clock).await
}

async fn start_on(
    disk: Arc<dyn Disk>,
    formation: Formation,
    pace: Pace,
    index: IndexFactory,
    options: Options,
    clock: Arc<dyn Clock>,
) -> Volumes {
    let limits = PoolLimits { cap_bytes: 8 << 20, stripe_bytes: 1 << 20, idle_bytes: 0 };
    let config = VolumesConfig {
        disk,
        clock,
        rng: Arc::new(SystemRng),
        host: Arc::new(ThreadHost),
        buffers: BufferPool::new(limits),
        index,
        options,
        cluster: formation.cluster,
        topology: formation.topology,
        volumes: formation.volumes,
        pace,
        leases: LeaseTerms::default(),
    };
    let volumes = Volumes::start(&config).expect("threads start");
    assert!(volumes.settled(DEADLINE).await);
    volumes
}

fn new_disk() -> FaultyDisk {
    let disk = FaultyDisk::new(7);
    disk.create_dir(Path::new("/data")).expect("made");
    disk
}

async fn put(peer: &LocalPeer, volume: VolumeId, n: u64) -> message::Result<()> {
    put_bytes(peer, volume, n, Bytes::from_static(b"payload")).await
}

async fn put_bytes(peer: &LocalPeer, volume: VolumeId, n: u64, payload: Bytes) -> message::Result<()> {
    let data = DataId { birth: Timestamp::from_ms(n), proposer: ProposerId(1) };
    let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("k").expect("a key"));
    let target = Target::new(key, Slot(0), Epoch::FIRST);
    peer.put_shard(volume, ShardId { data, index: 0 }, &target, vec![payload]).await.map(|_life| ())
}

async fn wait_for(volumes: &Volumes, volume: &LocalVolume, is: impl Fn(&VolumeState) -> bool) {
    let mut changes = volumes.changes();
    let reached = async {
        while !is(&volume.state()) {
            changes.changed().await.expect("keepers live as long as the test");
        }
    };
    let in_time = tokio::time::timeout(DEADLINE, reached).await;
    assert!(in_time.is_ok(), "{:?}", volume.state());
}

/// An index whose first merge lasts as long as a test holds the lock, and which cannot be counted meanwhile.
#[derive(Debug)]
struct SlowMerge {
    entries: MemoryIndex,
    merging: Arc<parking_lot::Mutex<()>>,
    has_begun: Arc<AtomicBool>,
    /// Whether this one merges: another volume may still be opening its own, which counts it.
    is_merging: AtomicBool,
}

impl Index for SlowMerge {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        self.entries.get(key)
    }
    fn get_cached(&self, key: &[u8]) -> Result<Lookup<Option<Bytes>>, IndexError> {
        self.entries.get_cached(key)
    }
    fn scan<'a>(
        &'a self,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, IndexError>> + 'a> {
        self.entries.scan(from, to)
    }
    fn apply(&self, changes: Vec<Change>, sequence: Sequence) -> Result<(), IndexError> {
        self.entries.apply(changes, sequence)
    }
    fn persisted(&self) -> Option<Sequence> {
        self.entries.persisted()
    }
    fn pending_bytes(&self) -> u64 {
        self.entries.pending_bytes()
    }
    fn flush(&self) -> Result<(), IndexError> {
        self.entries.flush()
    }
    fn compact(&self) -> Result<bool, IndexError> {
        self.is_merging.store(true, Ordering::SeqCst);
        self.has_begun.store(true, Ordering::SeqCst);
        drop(self.merging.lock());
        Ok(false)
    }
    fn unmerged(&self) -> usize {
        if self.is_merging.load(Ordering::SeqCst) {
            drop(self.merging.lock());
        }
        0
    }
}

/// Opens an index of [`SlowMerge`].
struct SlowlyMerged(Arc<parking_lot::Mutex<()>>, Arc<AtomicBool>);

impl IndexSource for SlowlyMerged {
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        let (merging, has_begun) = (Arc::clone(&self.0), Arc::clone(&self.1));
        let is_merging = AtomicBool::new(false);
        Ok(Arc::new(SlowMerge { entries: MemoryIndex::new(), merging, has_begun, is_merging }))
    }

    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        self.open()
    }
}

/// Volumes of which one merges until the sender is dropped, then the thread ends.
async fn start_merging(
    disk: &FaultyDisk,
) -> (Volumes, std::thread::JoinHandle<()>, std::sync::mpsc::Sender<()>) {
    let (merging, has_begun) = (Arc::new(parking_lot::Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let (lock, flag) = (Arc::clone(&merging), Arc::clone(&has_begun));
    let index = Arc::new(move |_: &Path| {
        Box::new(SlowlyMerged(Arc::clone(&lock), Arc::clone(&flag))) as Box<dyn IndexSource>
    });
    let (held, until) = hold(merging);
    // The spare segment that is missing makes the first step ask for upkeep.
    let options = Options { spare_segments: 1, ..small() };
    let clock = Arc::new(SystemClock::new());
    let volumes = start_with(disk, Pace::default(), index, options, clock).await;
    while !has_begun.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    (volumes, held, until)
}

/// The slowest one counts: heals of a stripe use several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_devices_are_measured_beside_the_service_of_their_volumes() {
    let options = Options { ballast_bytes: 2 << 20, ..small() };
    let index = Arc::new(|_: &Path| Box::new(Forgetful) as Box<dyn IndexSource>);
    let clock = Arc::new(SystemClock::new());
    let volumes = start_with(&new_disk(), Pace::default(), index, options, clock).await;
    let measured = |volume: &Arc<LocalVolume>| volume.device_pace();
    while !volumes.all().iter().all(|volume| measured(volume).is_some()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(volumes.device_pace(), volumes.all().iter().filter_map(measured).min());
    volumes.all()[1].note_device_pace(1);
    assert_eq!(volumes.device_pace(), Some(1));
}

/// Health and pings are made from it: a disk that hangs must not hold them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_does_not_wait_for_an_index_that_writes() {
    let (volumes, held, until) = start_merging(&new_disk()).await;
    let asked = {
        let volumes = volumes.clone();
        tokio::task::spawn_blocking(move || volumes.status())
    };
    let status = tokio::time::timeout(DEADLINE, asked).await.expect("it does not wait").expect("no panic");
    assert!(status.iter().all(|volume| volume.open.is_some()), "{status:?}");
    drop(until);
    held.join().expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_volume_is_nobodys_any_more() {
    let disk = new_disk();
    let (volumes, held, until) = start_merging(&disk).await;
    let mut closing = {
        let volumes = volumes.clone();
        tokio::spawn(async move { volumes.close(DEADLINE).await })
    };
    let early = tokio::time::timeout(Duration::from_millis(200), &mut closing).await;
    assert!(early.is_err(), "a merge still writes to the directory");
    drop(until);
    held.join().expect("it ends");
    assert_eq!(closing.await.expect("no panic"), Vec::new());
    for volume in volumes.all() {
        sherd_volume::identity::lock(&disk, volume.path()).expect("it is free");
    }
}

/// A thread that holds a lock until what it gives is dropped.
fn hold(lock: Arc<parking_lot::Mutex<()>>) -> (std::thread::JoinHandle<()>, std::sync::mpsc::Sender<()>) {
    let (until, dropped) = std::sync::mpsc::channel();
    let (held, is_held) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _lock = lock.lock();
        held.send(()).expect("the test waits");
        dropped.recv().ok();
    });
    is_held.recv().expect("it holds the lock");
    (thread, until)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_fails_its_volume_for_good_and_no_other() {
    let disk = new_disk();
    let (volumes, peer) = start(&disk, Duration::from_millis(20)).await;
    let [failing, healthy] = [0, 1].map(|n| Arc::clone(&volumes.all()[n]));
    put(&peer, failing.id(), 1).await.expect("durable");
    let under = failing.path().join("log");
    let fault =
        disk.inject(Fault { under, call: Call::Sync, skip: 0, times: u64::MAX, failure: Failure::Io });
    let refused = put(&peer, failing.id(), 2).await;
    assert!(matches!(refused, Err(message::Error::Unreachable { .. })), "{refused:?}");
    wait_for(&volumes, &failing, |state| matches!(state, VolumeState::Failed { .. })).await;
    put(&peer, healthy.id(), 3).await.expect("the other volume serves");
    drop(fault);
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());

    let (volumes, _) = start(&disk, Duration::from_millis(20)).await;
    assert!(matches!(volumes.all()[0].state(), VolumeState::Failed { .. }), "it survives a restart");
    assert_eq!(volumes.all()[1].state(), VolumeState::Online);
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_whose_opening_panics_is_opened_again_and_can_be_closed() {
    let disk = new_disk();
    let opened = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&opened);
    let panics_once = move |_: &Path| {
        assert!(count.fetch_add(1, Ordering::Relaxed) != 0, "the first opening of all panics");
        Box::new(Forgetful) as Box<dyn IndexSource>
    };
    let pace = Pace { look_every: Duration::from_millis(20), ..Pace::default() };
    let volumes = start_over(&disk, pace, Arc::new(panics_once)).await;
    for volume in volumes.all() {
        wait_for(&volumes, volume, VolumeState::is_reachable).await;
    }
    assert!(opened.load(Ordering::Relaxed) >= 3);
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}

/// A clock that no keeper can read once that is wanted: each of its looks panics.
#[derive(Debug)]
struct Unreadable {
    machine: SystemClock,
    by_keepers: AtomicBool,
}

impl Clock for Unreadable {
    fn wall_ms(&self) -> u64 {
        self.machine.wall_ms()
    }

    fn monotonic_us(&self) -> u64 {
        let is_keeper = std::thread::current().name() == Some("volume-keeper");
        assert!(!(is_keeper && self.by_keepers.load(Ordering::Relaxed)), "this look panics");
        self.machine.monotonic_us()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_whose_keeper_panics_at_each_look_is_closed_and_takes_other_orders() {
    let disk = new_disk();
    let clock = Arc::new(Unreadable { machine: SystemClock::new(), by_keepers: AtomicBool::new(false) });
    let index: IndexFactory = Arc::new(|_: &Path| Box::new(Forgetful) as Box<dyn IndexSource>);
    let pace = Pace { look_every: Duration::from_millis(20), ..Pace::default() };
    let volumes = start_with(&disk, pace, index, small(), Arc::<Unreadable>::clone(&clock)).await;
    let [volume, lost] = [0, 1].map(|n| Arc::clone(&volumes.all()[n]));
    clock.by_keepers.store(true, Ordering::Relaxed);
    let serving = volume.serving().expect("open");
    let confirmed = tokio::time::timeout(DEADLINE, volume.confirm(&serving)).await;
    assert!(matches!(confirmed, Ok(Err(message::Error::Unreachable { .. }))), "{confirmed:?}");
    drop(serving);
    lost.declare_lost(&lost.serving().expect("open"), "rolled back", Life(4));
    for volume in [&volume, &lost] {
        assert_eq!(tokio::time::timeout(DEADLINE, keeper_is_through(volume)).await, Ok(()));
    }
    assert!(volume.serving().is_ok(), "it serves as long as it can");
    assert!(matches!(lost.state(), VolumeState::Offline { .. }), "{:?}", lost.state());
    assert_eq!(identity(&disk, "/data/b"), (Life(5), Some("rolled back".to_owned())));
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
    assert_eq!([volume.state(), lost.state()], [VolumeState::Closed, VolumeState::Closed]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lack_of_descriptors_makes_a_volume_busy_and_nothing_else() {
    let disk = new_disk();
    let (volumes, peer) = start(&disk, Duration::from_millis(20)).await;
    let volume = Arc::clone(&volumes.all()[0]);
    let large = Bytes::from(vec![7; 100_000]);
    let under = volume.path().join("log");
    let failure = Failure::NoDescriptor;
    let fault = disk.inject(Fault { under, call: Call::Create, skip: 0, times: u64::MAX, failure });
    let mut refused = Ok(());
    for n in 0..20 {
        refused = refused.and(put_bytes(&peer, volume.id(), n, large.clone()).await);
    }
    assert_eq!(refused, Err(message::Error::Busy), "the next segment cannot be begun");
    drop(fault);
    put_bytes(&peer, volume.id(), 30, large).await.expect("durable");
    assert_eq!((volume.state(), volume.opened_count()), (VolumeState::Online, 1));
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_whose_log_cannot_be_read_is_offline_until_it_can() {
    let disk = new_disk();
    let look_every = Duration::from_millis(20);
    let (volumes, peer) = start(&disk, look_every).await;
    let (id, path) = (volumes.all()[0].id(), volumes.all()[0].path().to_owned());
    put(&peer, id, 1).await.expect("durable");
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
    let segment = path.join("log").join(format!("{:020}.seg", 1));
    disk.make_unreadable(&segment, 8192..8193).expect("there");

    let (volumes, peer) = start(&disk, look_every).await;
    let volume = Arc::clone(&volumes.all()[0]);
    let named = segment.display().to_string();
    assert!(
        matches!(volume.state(), VolumeState::Offline { reason } if reason.contains(&named)),
        "{:?}",
        volume.state()
    );
    disk.make_readable(&segment).expect("there");
    // No peer confirms it here.
    wait_for(&volumes, &volume, |state| matches!(state, VolumeState::Unconfirmed { .. })).await;
    let data = DataId { birth: Timestamp::from_ms(1), proposer: ProposerId(1) };
    assert_eq!(peer.shard_bytes(id, ShardId { data, index: 0 }, Home::Packed).await, Ok(7));
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());

    // A range that stays unreadable is lost, and the volume comes back without it.
    disk.make_unreadable(&segment, 8192..8193).expect("there");
    let pace = Pace { look_every, unreadable_after: Duration::ZERO, ..Pace::default() };
    let (volumes, _) = start_at(&disk, pace).await;
    let volume = Arc::clone(&volumes.all()[0]);
    wait_for(&volumes, &volume, |state| *state == VolumeState::Recovering).await;
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_whose_log_hangs_is_offline_until_it_does_not() {
    let disk = new_disk();
    // The keeper looks only when the test orders it.
    let (volumes, peer) = start(&disk, Duration::from_hours(1)).await;
    let volume = Arc::clone(&volumes.all()[0]);
    let seen = Arc::clone(&volume.serving().expect("open").thread);
    seen.step_since_us.store(1, Ordering::Release);
    volume.watch(29_000_000, Duration::from_secs(30));
    assert_eq!(volume.state(), VolumeState::Online);
    volume.watch(31_000_000, Duration::from_secs(30));
    assert!(matches!(volume.state(), VolumeState::Offline { reason } if reason.contains("hangs")));
    assert!(matches!(put(&peer, volume.id(), 1).await, Err(message::Error::Unreachable { .. })));
    seen.step_since_us.store(0, Ordering::Release);
    volume.look();
    wait_for(&volumes, &volume, |state| *state == VolumeState::Online).await;
    put(&peer, volume.id(), 1).await.expect("durable");
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_before_a_close_are_there_after_it() {
    let disk = new_disk();
    let (volumes, peer) = start(&disk, Duration::from_millis(20)).await;
    let volume = volumes.all()[0].id();
    for n in 0..100 {
        put(&peer, volume, n).await.expect("durable");
    }
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
    let (volumes, peer) = start(&disk, Duration::from_millis(20)).await;
    for n in 0..100 {
        let data = DataId { birth: Timestamp::from_ms(n), proposer: ProposerId(1) };
        let bytes = peer.shard_bytes(volume, ShardId { data, index: 0 }, Home::Packed).await;
        assert_eq!(bytes, Ok(7), "shard {n}");
    }
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}

/// Keepers that look only when the test orders it.
fn only_ordered() -> Pace {
    Pace { look_every: Duration::from_hours(1), ..Pace::default() }
}

/// Waits until the keeper has carried out all its orders.
async fn keeper_is_through(volume: &LocalVolume) {
    let adopted = volume.adopt(Life(1)).await;
    assert!(matches!(adopted, Err(AdoptError::NotVacant { .. })), "{adopted:?}");
}

fn identity(disk: &FaultyDisk, directory: &str) -> (Life, Option<String>) {
    let identity = identity_of(disk, Path::new(directory)).expect("a volume");
    (identity.life, identity.lost)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_is_noted_in_the_directory_of_the_opening_that_has_it() {
    let disk = new_disk();
    let volumes = start_unconfirmed(&disk, only_ordered()).await;
    let volume = Arc::clone(&volumes.all()[0]);
    let opening = volume.serving().expect("open");
    volume.declare_lost(&opening, "rolled back", Life(4));
    keeper_is_through(&volume).await;
    // The reader of the opening has the lock, and no other process.
    let state = volume.state();
    assert!(matches!(&state, VolumeState::Offline { reason } if reason == "rolled back"), "{state:?}");
    assert_eq!(identity(&disk, "/data/a"), (Life(5), Some("rolled back".to_owned())));
    drop(opening);
    while volume.state() != VolumeState::Recovering {
        volume.look();
        keeper_is_through(&volume).await;
    }
    assert_eq!(volume.status().open.expect("open").life, Life(5));
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_upload_does_not_keep_a_volume_from_being_opened_again() {
    let disk = new_disk();
    let volumes = start_unconfirmed(&disk, only_ordered()).await;
    let volume = Arc::clone(&volumes.all()[0]);
    let peer = LocalPeer::new(volumes.clone());
    let key = RegisterKey::object(BucketId([1; 16]), ObjectKey::new("k").expect("a key"));
    let data = DataId { birth: Timestamp::from_ms(1), proposer: ProposerId(1) };
    let header = ShardFileHeader {
        shard: ShardId { data, index: 0 },
        key: key.clone(),
        data_shards: 1,
        parity_shards: 0,
        stripe_unit: 1 << 18,
        shard_bytes: 300_000,
    };
    let mut upload = peer.create_shard(volume.id(), &Target::new(key, Slot(0), Epoch::FIRST), header, false);
    let piece = || vec![Bytes::from(vec![7; 100_000])];
    upload.append(piece()).await.expect("the volume is open");
    volume.declare_lost(&volume.serving().expect("open"), "rolled back", Life(4));
    let opened_again = async {
        while volume.state() != VolumeState::Recovering {
            volume.look();
            keeper_is_through(&volume).await;
        }
    };
    tokio::time::timeout(DEADLINE, opened_again).await.expect("opened while the upload goes on");
    let refused = upload.append(piece()).await;
    assert!(matches!(refused, Err(message::Error::Unreachable { .. })), "{refused:?}");
    drop(upload);
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_is_not_noted_of_another_opening_nor_in_another_directory() {
    let disk = new_disk();
    let volumes = start_unconfirmed(&disk, only_ordered()).await;
    let [volume, other] = [0, 1].map(|n| Arc::clone(&volumes.all()[n]));
    volume.declare_lost(&other.serving().expect("open"), "rolled back", Life(4));
    keeper_is_through(&volume).await;
    assert!(matches!(volume.state(), VolumeState::Unconfirmed { .. }), "{:?}", volume.state());
    assert_eq!(identity(&disk, "/data/a"), (Life(1), None));

    // Another cluster's volume is in its place when the loss is declared.
    let opening = volume.serving().expect("open");
    disk.rename(Path::new("/data/a"), Path::new("/data/kept")).expect("renamed");
    form(&disk, &["/data/a"]);
    let before = identity(&disk, "/data/a");
    volume.declare_lost(&opening, "rolled back", Life(4));
    volume.look();
    keeper_is_through(&volume).await;
    assert_eq!(identity(&disk, "/data/a"), before);
    assert_eq!(identity(&disk, "/data/kept"), (Life(1), None), "its peers tell when it is back");
    assert!(matches!(volume.state(), VolumeState::Offline { .. }), "{:?}", volume.state());
    drop(opening);
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}

/// A clock that moves only when the test moves it.
#[derive(Debug, Default)]
struct StoppedClock(AtomicU64);

impl Clock for StoppedClock {
    fn wall_ms(&self) -> u64 {
        1_000_000 + self.monotonic_us() / 1_000
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A removal that is still at work would also remove what is rebuilt there, and no check would notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_remains_of_a_volume_are_adopted_when_their_removal_has_ended() {
    let (disk, clock) = (new_disk(), Arc::new(StoppedClock::default()));
    let index: IndexFactory = Arc::new(|_: &Path| Box::new(Forgetful) as Box<dyn IndexSource>);
    let wall: Arc<dyn Clock> = Arc::<StoppedClock>::clone(&clock);
    let volumes = start_with(&disk, only_ordered(), index, small(), wall).await;
    let volume = Arc::clone(&volumes.all()[0]);
    let path = volume.path();
    let left = ["shards/00/a", "shards/00/b"].map(|name| path.join(name));
    disk.create_dir(&path.join("shards/00")).expect("made");
    for file in &left {
        drop(disk.open(file, OpenMode::CreateNew).expect("made"));
    }
    for entry in disk.list(&path.join("log")).expect("a log") {
        disk.remove(&path.join("log").join(entry.name)).expect("removed");
    }
    disk.remove(&path.join("volume.json")).expect("removed");
    let looked = async || {
        volume.look();
        keeper_is_through(&volume).await;
        volume.state()
    };
    while !matches!(looked().await, VolumeState::Offline { reason } if reason.contains("removing")) {}
    for file in &left {
        clock.0.fetch_add(9_000_000, Ordering::Relaxed);
        assert!(matches!(looked().await, VolumeState::Offline { .. }));
        disk.remove(file).expect("removed");
    }
    clock.0.fetch_add(9_000_000, Ordering::Relaxed);
    assert!(matches!(looked().await, VolumeState::Offline { .. }), "the last one went just now");
    clock.0.fetch_add(10_000_000, Ordering::Relaxed);
    let_go(&disk, path);
    volume.adopt(Life(2)).await.expect("it is no longer changed");
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}
