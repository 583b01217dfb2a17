//! The whole object layer on one thread with a paused clock: volumes on a disk in memory that loses what was
//! not synced, indexes in memory, entropy from a seed. A test binary of its own, with one test, so that no
//! thread but this one's can have come from the store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use sherd_core::env::{Clock, Rng};
use sherd_core::id::ObjectKey;
use sherd_core::record::{Attributes, ObjectTags};
use sherd_core::report::VolumeCondition;
use sherd_core::topology::GeometryRequest;
use sherd_node::process::serve::store::{Machine, Store, StoreConfig};
use sherd_store::machine::host::TaskHost;
use sherd_store::object::{
    CompleteUpload, CreateUpload, Error, EtagMatch, ListEntry, ListRequest, ListedPart, MissingResource,
    NewBucket, ObjectName, Objects, PartName, PutRequest, ReadConditions, ReadRequest, Span, Upload,
    UploadBody, WriteConditions,
};
use sherd_store::observe::metrics::Metrics;
use sherd_store::stripe::Thresholds;
use sherd_store::upkeep::Settings;
use sherd_volume::disk::Disk as _;
use sherd_volume::disk::faulty::{FaultyDisk, Keep};
use sherd_volume::index::memory::MemoryIndex;
use sherd_volume::index::{Index, IndexError};
use sherd_volume::open::IndexSource;
use sherd_volume::options::{Durability, Options};

/// 2026-01-01, in milliseconds since the Unix epoch: where the simulated wall clock begins.
const BEGIN_MS: u64 = 1_767_225_600_000;
/// The longest that anything may take, in simulated time.
const PATIENCE: Duration = Duration::from_mins(10);
const VOLUMES: usize = 4;
/// How long replaced data stays, and a time after which it must still be there.
const GRACE: Duration = Duration::from_mins(2);
const WITHIN_GRACE: Duration = Duration::from_secs(100);
/// Large objects that are replaced.
const REPLACED: usize = 3;

/// The clock of the runtime, behind what earlier lives of the process took.
#[derive(Debug)]
struct RuntimeClock {
    start: Instant,
    passed: Duration,
}

impl RuntimeClock {
    fn now(&self) -> Duration {
        self.passed + self.start.elapsed()
    }
}

impl Clock for RuntimeClock {
    fn wall_ms(&self) -> u64 {
        BEGIN_MS + u64::try_from(self.now().as_millis()).expect("a test is short")
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.now().as_micros()).expect("a test is short")
    }
}

/// Bytes that follow from a seed.
#[derive(Debug)]
struct SeededRng {
    seed: u64,
    calls: AtomicU64,
}

impl Rng for SeededRng {
    fn fill(&self, bytes: &mut [u8]) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes()).update(&call.to_le_bytes());
        hasher.finalize_xof().fill(bytes);
    }
}

/// Indexes that outlive the process, each as of its last flush.
type Indexes = Arc<Mutex<BTreeMap<PathBuf, Arc<MemoryIndex>>>>;

struct IndexOf {
    indexes: Indexes,
    volume: PathBuf,
}

impl IndexSource for IndexOf {
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        Ok(Arc::clone(self.indexes.lock().entry(self.volume.clone()).or_default()) as Arc<dyn Index>)
    }

    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        self.indexes.lock().remove(&self.volume);
        self.open()
    }
}

/// State that outlives a process.
struct World {
    seed: u64,
    disk: FaultyDisk,
    indexes: Indexes,
    rng: Arc<SeededRng>,
    passed: Duration,
    /// Objects that must be read back, by key.
    stored: BTreeMap<String, Bytes>,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = FaultyDisk::new(seed);
        for path in std::iter::once(PathBuf::from("/data")).chain(paths()) {
            disk.create_dir(&path).expect("a new directory");
            disk.sync_dir(path.parent().expect("not the root"))
                .expect("what was made before a store runs stays");
        }
        let rng = Arc::new(SeededRng { seed, calls: AtomicU64::new(0) });
        let stored = BTreeMap::new();
        Self { seed, disk, indexes: Indexes::default(), rng, passed: Duration::ZERO, stored }
    }

    /// A process: everything it started is gone when this returns, however far it was.
    fn live(&mut self, life: impl AsyncFnOnce(&mut Self, Store)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without threads");
        runtime.block_on(async {
            let clock = Arc::new(RuntimeClock { start: Instant::now(), passed: self.passed });
            let store = self.open(Arc::clone(&clock)).await;
            life(self, store).await;
            self.passed = clock.now();
        });
    }

    async fn open(&self, clock: Arc<RuntimeClock>) -> Store {
        let indexes = Arc::clone(&self.indexes);
        let machine = Machine {
            disk: Arc::new(self.disk.clone()),
            index: Arc::new(move |volume: &Path| {
                Box::new(IndexOf { indexes: Arc::clone(&indexes), volume: volume.to_owned() })
                    as Box<dyn IndexSource>
            }),
            clock,
            rng: Arc::<SeededRng>::clone(&self.rng),
            host: Arc::new(TaskHost::default()),
        };
        let config = StoreConfig {
            volumes: paths().collect(),
            geometry: GeometryRequest::default(),
            options: Options {
                segment_bytes: 4 << 20,
                spare_segments: 0,
                ballast_bytes: 0,
                reserve_bytes: 0,
                ..Options::default()
            },
            thresholds: Thresholds::default(),
            fast_etags: false,
            buffer_bytes_max: 64 << 20,
            master_key: None,
            formed: None,
            upkeep: Settings {
                adopt_after: Duration::from_secs(5),
                release_grace: GRACE,
                ..Settings::default()
            },
        };
        let metrics = Arc::new(Metrics::new(Durability::Fsync));
        Store::open(config, machine, &metrics, None).await.expect("the directories make a node")
    }

    /// Power comes back with some of what was not synced.
    fn lose_power(&self) {
        self.disk.cut_power();
        self.disk.restart(self.seed, Keep::Some);
        for index in self.indexes.lock().values_mut() {
            *index = Arc::new(index.crash());
        }
    }

    async fn put(&mut self, objects: &Objects, key: &str, length: usize) {
        let bytes = body(self.seed, key, length);
        put(objects, key, &bytes, WriteConditions::default()).await.expect("stored");
        self.stored.insert(key.to_owned(), bytes);
    }

    /// Files of shards on all volumes.
    fn shard_files(&self) -> usize {
        let names =
            |path: &Path| self.disk.list(path).unwrap_or_default().into_iter().map(|entry| entry.name);
        let folders = paths().map(|volume| volume.join("shards"));
        let folders = folders.flat_map(|shards| names(&shards).map(move |name| shards.join(name)));
        folders.map(|folder| names(&folder).count()).sum()
    }

    async fn read_all(&mut self, objects: &Objects) {
        for (key, bytes) in &self.stored {
            let read = get(objects, key).await.unwrap_or_else(|error| panic!("{key}: {error}"));
            assert!(read == bytes, "{key} has other bytes");
        }
    }
}

fn paths() -> impl Iterator<Item = PathBuf> {
    (1..=VOLUMES).map(|number| PathBuf::from(format!("/data/v{number}")))
}

fn body(seed: u64, key: &str, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).update(key.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes.into()
}

fn key_of(text: &str) -> ObjectKey {
    ObjectKey::new(text.to_owned()).expect("a key")
}

fn name(key: &str) -> ObjectName {
    ObjectName { bucket: key_of("bucket").into(), key: key_of(key) }
}

fn upload(bytes: &Bytes) -> Upload {
    let pieces: Vec<_> = bytes.chunks(64 << 10).map(Bytes::copy_from_slice).map(Ok).collect();
    let body = UploadBody::Client(futures::stream::iter(pieces).boxed());
    Upload { size: bytes.len() as u64, body, md5: None, checksum: None }
}

async fn put(
    objects: &Objects,
    key: &str,
    bytes: &Bytes,
    conditions: WriteConditions,
) -> Result<String, Error> {
    let (name, attributes) = (name(key), Attributes::default());
    let request =
        PutRequest { name, attributes, tags: ObjectTags::default(), conditions, upload: upload(bytes) };
    let written = timeout(PATIENCE, objects.put(request)).await.expect("in time")?;
    Ok(written.etag)
}

async fn get(objects: &Objects, key: &str) -> Result<Bytes, Error> {
    let request = ReadRequest { name: name(key), span: Span::Whole, conditions: ReadConditions::default() };
    let whole = async {
        let read = objects.get(request).await?;
        let bytes: BytesMut = read.body.try_collect().await?;
        Ok(bytes.freeze())
    };
    timeout(PATIENCE, whole).await.expect("in time")
}

fn is_missing(read: &Result<Bytes, Error>) -> bool {
    matches!(read, Err(Error::Missing(MissingResource::Key)))
}

/// A page of keys and common prefixes, and where the next begins.
async fn list(objects: &Objects, after: Option<String>, max_keys: u32) -> (Vec<String>, Option<String>) {
    let (bucket, delimiter) = (key_of("bucket").into(), Some("/".to_owned()));
    let request = ListRequest { bucket, prefix: String::new(), delimiter, after, max_keys };
    let page = timeout(PATIENCE, objects.list(request)).await.expect("in time").expect("listed");
    let shown = page.entries.into_iter().map(|entry| match entry {
        ListEntry::Object { key, .. } => key.as_str().to_owned(),
        ListEntry::Prefix(prefix) => prefix,
    });
    (shown.collect(), page.next)
}

async fn all_online(store: &Store) {
    let online = async {
        while !store.report("").volumes.iter().all(|volume| volume.condition == Some(VolumeCondition::Online))
        {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, online).await.unwrap_or_else(|_| panic!("volumes stay {:?}", store.report("").volumes));
}

async fn write_and_race(world: &mut World, store: Store) {
    let objects = store.objects();
    objects.create_bucket(key_of("bucket"), NewBucket::default()).await.expect("created");
    for (key, length) in
        [("inline", 1000), ("folder/packed", 300_000), ("folder/striped", 3 << 20), ("empty", 0)]
    {
        world.put(objects, key, length).await;
    }
    world.put(objects, "gone", 10_000).await;
    objects.delete(name("gone"), WriteConditions::default()).await.expect("deleted");
    world.stored.remove("gone");
    assert!(is_missing(&get(objects, "gone").await));

    let absent = || WriteConditions { if_none_match: Some(EtagMatch::Any), ..WriteConditions::default() };
    let bytes = [body(1, "race", 5000), body(2, "race", 5000)];
    let (one, two) =
        futures::join!(put(objects, "race", &bytes[0], absent()), put(objects, "race", &bytes[1], absent()));
    let won = usize::from(one.is_err());
    let (winner, loser) = if won == 0 { (one, two) } else { (two, one) };
    let etag = winner.expect("one of two creates it");
    assert!(matches!(loser, Err(Error::PreconditionFailed { .. })), "{loser:?}");
    let stale =
        WriteConditions { if_match: Some(EtagMatch::OneOf(vec!["no".into()])), ..WriteConditions::default() };
    let refused = put(objects, "race", &bytes[1 - won], stale).await;
    assert!(matches!(refused, Err(Error::PreconditionFailed { .. })), "{refused:?}");
    assert_eq!(get(objects, "race").await.expect("it is there"), bytes[won]);
    let current =
        WriteConditions { if_match: Some(EtagMatch::OneOf(vec![etag])), ..WriteConditions::default() };
    put(objects, "race", &bytes[1 - won], current).await.expect("the tag is the current one");
    world.stored.insert("race".to_owned(), bytes[1 - won].clone());
    world.read_all(objects).await;
}

async fn upload_in_parts(world: &mut World, store: Store) {
    let objects = store.objects();
    world.read_all(objects).await;
    let (attributes, checksum) = (Attributes::default(), None);
    let create = CreateUpload { name: name("parts"), attributes, tags: ObjectTags::default(), checksum };
    let id = objects.create_upload(create).await.expect("begun");
    let bytes = body(world.seed, "parts", (5 << 20) + 70_000);
    let mut parts = Vec::new();
    for (number, range) in [(1, 0..5 << 20), (2, 5 << 20..bytes.len())] {
        let part = PartName { name: name("parts"), upload: id, number };
        let written = objects.put_part(part, upload(&bytes.slice(range))).await.expect("stored");
        parts.push(ListedPart { number, etag: written.etag, checksum: None });
    }
    assert!(is_missing(&get(objects, "parts").await), "before it is completed");
    let conditions = WriteConditions::default();
    let complete = CompleteUpload {
        name: name("parts"),
        upload: id,
        parts,
        checksum: None,
        checksum_kind: None,
        size: None,
        conditions,
    };
    objects.complete_upload(complete).await.expect("completed");
    world.stored.insert("parts".to_owned(), bytes);
    world.read_all(objects).await;

    let (first, next) = list(objects, None, 3).await;
    assert_eq!(first, ["empty", "folder/", "inline"]);
    assert_eq!(list(objects, next, 1000).await, (vec!["parts".to_owned(), "race".to_owned()], None));
    store.close().await;
}

/// Replaces large objects; the frames of small ones take the notes of it into the logs. The power goes then.
async fn replace(world: &mut World, store: Store) {
    let objects = store.objects();
    all_online(&store).await;
    let before = world.shard_files();
    for more in 0..2 {
        for n in 0..REPLACED {
            world.put(objects, &format!("replaced/{n}"), (3 << 20) + more).await;
        }
    }
    for n in 0..4 * REPLACED {
        world.put(objects, &format!("small/{n}"), 100).await;
    }
    assert_eq!(world.shard_files(), before + 2 * REPLACED * VOLUMES);
}

/// Replaced data goes after its grace, and not before.
async fn release(world: &mut World, store: Store) {
    all_online(&store).await;
    let before = world.shard_files();
    sleep(WITHIN_GRACE).await;
    assert_eq!(world.shard_files(), before, "its readers have the grace");
    let released = async {
        while world.shard_files() > before - REPLACED * VOLUMES {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let in_time = timeout(PATIENCE, released).await;
    in_time.unwrap_or_else(|_| panic!("{} of {before} shard files are left", world.shard_files()));
    world.read_all(store.objects()).await;
    store.close().await;
}

async fn lose_volumes(world: &mut World, store: Store) {
    let objects = store.objects();
    all_online(&store).await;
    let lost: Vec<PathBuf> = paths().collect();
    world.disk.vanish(&lost[1]).expect("it was there");
    world.indexes.lock().remove(&lost[1]);
    world.put(objects, "while one is away", 200_000).await;
    world.read_all(objects).await;
    world.disk.create_dir(&lost[1]).expect("an empty one in its place");
    sleep(Duration::from_secs(3)).await;
    all_online(&store).await;
    // Two volumes of four are left: the one that was rebuilt has to do its part.
    world.disk.vanish(&lost[2]).expect("it was there");
    world.disk.vanish(&lost[3]).expect("it was there");
    world.read_all(objects).await;
    store.close().await;
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux shows the threads of a process").count()
}

#[test]
fn the_object_layer_runs_on_one_thread_with_a_paused_clock() {
    let before = threads();
    for seed in 0..4 {
        let mut world = World::new(seed);
        world.live(write_and_race);
        world.lose_power();
        world.live(upload_in_parts);
        world.live(replace);
        world.lose_power();
        world.live(release);
        world.live(lose_volumes);
        assert!(
            world.passed > Duration::from_secs(5),
            "an empty directory is adopted after that: {:?}",
            world.passed
        );
        assert_eq!(world.stored.len(), 7 + 5 * REPLACED);
    }
    assert_eq!(threads(), before, "the store started no thread");
}
