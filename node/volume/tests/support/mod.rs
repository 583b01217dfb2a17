//! A volume under test: a disk that fails on demand, an index that forgets, a clock that the test sets.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod hooked;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use sherd_core::env::Clock;
use sherd_core::heal::HealId;
use sherd_core::id::{
    Ballot, BucketId, ChangeId, ClusterId, DataId, Epoch, Life, ObjectKey, PartKey, ProposerId, RegisterKey,
    ShardId, Slot, Timestamp, UploadId, VolumeId,
};
use sherd_core::message::{Answer, Control, PulledRow, Target, ValueLimit};
use sherd_core::record::{Attributes, Bucket, BucketPhase, ChangeTry, Changes, Object, State, Upload, Value};
use sherd_core::register::position::OpeningId;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{Accept, EncodedValue, Prepare, Refusal, Vote};
use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::Disk;
use sherd_volume::disk::faulty::FaultyDisk;
use sherd_volume::error::{Error, OpenError};
use sherd_volume::identity::{ExpectedIdentity, Phase};
use sherd_volume::index::memory::MemoryIndex;
use sherd_volume::index::{Index, IndexError};
use sherd_volume::lookup::Source;
use sherd_volume::open::{IndexSource, NewVolume, OpenReport, Setup, create, open};
use sherd_volume::options::Options;
use sherd_volume::request::{Completion, Op};
use sherd_volume::{Reader, Volume};

pub(crate) const CLUSTER: ClusterId = ClusterId([1; 16]);
pub(crate) const VOLUME: VolumeId = VolumeId([2; 16]);
pub(crate) const BUCKET: BucketId = BucketId([3; 16]);
pub(crate) const START_MS: u64 = 1_700_000_000_000;

#[derive(Debug)]
pub(crate) struct TestClock {
    now_ms: AtomicU64,
    ahead_ms: AtomicU64,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self { now_ms: AtomicU64::new(START_MS), ahead_ms: AtomicU64::new(0) }
    }

    /// Time passes.
    pub(crate) fn advance_ms(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Sets the wall clock so far ahead of the time, or back to it.
    pub(crate) fn set_ahead_ms(&self, ms: u64) {
        self.ahead_ms.store(ms, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn wall_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed) + self.ahead_ms.load(Ordering::Relaxed)
    }
    fn monotonic_us(&self) -> u64 {
        (self.now_ms.load(Ordering::Relaxed) - START_MS) * 1000 + 1
    }
}

/// The index as its disk has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemorySource(pub(crate) Arc<Mutex<Arc<MemoryIndex>>>);

impl MemorySource {
    /// The rest of it after a crash.
    pub(crate) fn crash(&self) {
        let mut held = self.0.lock();
        let left = held.crash();
        *held = Arc::new(left);
    }

    /// An index of its own with what this one has flushed.
    pub(crate) fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(self.0.lock().crash()))))
    }

    /// Nothing at all, as after `rm -r index`.
    pub(crate) fn wipe(&self) {
        *self.0.lock() = Arc::new(MemoryIndex::new());
    }
}

impl IndexSource for MemorySource {
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        Ok(Arc::clone(&*self.0.lock()) as Arc<dyn Index>)
    }
    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        self.wipe();
        self.open()
    }
}

/// Everything around a volume.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) disk: FaultyDisk,
    pub(crate) path: PathBuf,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) index: MemorySource,
    pub(crate) options: Options,
    pub(crate) buffers: BufferPool,
}

pub(crate) fn small_options() -> Options {
    Options {
        segment_bytes: 256 << 10,
        ballast_bytes: 64 << 10,
        reserve_bytes: 512 << 10,
        flush_bytes: 1 << 20,
        replay_bytes: 16 << 10,
        fold_entries: 24,
        ..Options::default()
    }
}

impl Bench {
    /// A disk with a fresh volume on it.
    pub(crate) fn new(seed: u64) -> Self {
        let disk = FaultyDisk::new(seed);
        let path = PathBuf::from("/volume");
        disk.create_dir(&path).unwrap();
        disk.sync_dir(&PathBuf::from("/")).unwrap();
        let bench = Self {
            disk,
            path,
            clock: Arc::new(TestClock::new()),
            index: MemorySource::default(),
            options: small_options(),
            buffers: pool(),
        };
        bench.create(1, None).unwrap();
        bench
    }

    pub(crate) fn create(&self, life: u32, lost: Option<String>) -> Result<(), OpenError> {
        let new =
            NewVolume { cluster: CLUSTER, volume: VOLUME, life: Life(life), phase: Phase::Formed, lost };
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        create(&disk, &self.path, new)
    }

    pub(crate) fn open_volume(&self) -> Result<(Volume, OpenReport), OpenError> {
        self.open_volume_with(Box::new(self.index.clone()))
    }

    /// Opens the volume with another index.
    pub(crate) fn open_volume_with(
        &self,
        index: Box<dyn IndexSource>,
    ) -> Result<(Volume, OpenReport), OpenError> {
        let setup = Setup {
            disk: Arc::new(self.disk.clone()),
            path: self.path.clone(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            index,
            buffers: self.buffers.clone(),
            expected: ExpectedIdentity { cluster: Some(CLUSTER), volume: Some(VOLUME) },
            options: self.options,
            opening: next_opening(),
        };
        open(setup)
    }

    pub(crate) fn open(&self) -> Result<(Driver, OpenReport), OpenError> {
        self.open_volume().map(|(volume, report)| (Driver::new(volume, Arc::clone(&self.clock)), report))
    }

    /// Opens what must open, with nothing lost.
    pub(crate) fn reopen(&self) -> Driver {
        let (driver, report) = self.open().expect("the volume opens");
        assert_eq!(report.lost_state, None, "nothing acknowledged is gone: {report:?}");
        driver
    }

    /// The process ends, the machine goes on; the index loses what it had not flushed.
    pub(crate) fn kill(&self) {
        self.disk.kill();
        self.index.crash();
    }
}

/// An opening that was not drawn before.
pub(crate) fn next_opening() -> OpeningId {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    OpeningId(DRAWN.fetch_add(1, Ordering::Relaxed) + 1)
}

pub(crate) fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { cap_bytes: 64 << 20, stripe_bytes: 1 << 20, idle_bytes: 1 << 20 })
}

/// A volume that is driven until it answers.
pub(crate) struct Driver {
    pub(crate) volume: Volume,
    pub(crate) reader: Arc<Reader>,
    pub(crate) clock: Arc<TestClock>,
}

/// An answer to come.
pub(crate) type Held<R> = Arc<Mutex<Option<Result<R, Error>>>>;

pub(crate) fn slot<R: Send + 'static>() -> (Held<R>, Completion<R>) {
    let slot: Held<R> = Arc::new(Mutex::new(None));
    let into = Arc::clone(&slot);
    let done = Completion::new(move |result| {
        let before = into.lock().replace(result);
        assert!(before.is_none(), "an operation is answered once");
    });
    (slot, done)
}

impl Driver {
    /// Drives a volume whose peers confirmed it.
    pub(crate) fn new(mut volume: Volume, clock: Arc<TestClock>) -> Self {
        volume.confirm();
        Self::unconfirmed(volume, clock)
    }

    pub(crate) fn unconfirmed(volume: Volume, clock: Arc<TestClock>) -> Self {
        let reader = volume.reader();
        Self { volume, reader, clock }
    }

    pub(crate) fn run(&mut self) {
        while self.volume.step().more {}
    }

    /// Lets time pass until nothing is waiting to be written.
    pub(crate) fn settle(&mut self) {
        for _ in 0..4 {
            self.clock.advance_ms(1_001);
            self.run();
        }
    }

    fn ask<R: Send + 'static>(&mut self, op: impl FnOnce(Completion<R>) -> Op) -> Result<R, Error> {
        let (slot, done) = slot();
        self.volume.submit(op(done));
        self.run();
        let answer = slot.lock().take();
        answer.expect("the volume answers")
    }

    pub(crate) fn prepare(&mut self, key: &RegisterKey, ballot: Ballot) -> Result<Answer<Vote>, Error> {
        let (target, prepare) = (target(key), Prepare { ballot });
        self.ask(|done| Op::Prepare { target, prepare, values: ValueLimit::USUAL, done })
    }

    pub(crate) fn accept(
        &mut self,
        key: &RegisterKey,
        ballot: Ballot,
        value: &EncodedValue,
    ) -> Result<Answer<()>, Error> {
        self.accept_for(key, ballot, value, false)
    }

    /// As [`Self::accept`], of a value that the prepare found elsewhere where it `finishes`.
    pub(crate) fn accept_for(
        &mut self,
        key: &RegisterKey,
        ballot: Ballot,
        value: &EncodedValue,
        finishes: bool,
    ) -> Result<Answer<()>, Error> {
        let (value, introduces, positions) = (value.clone(), Vec::new(), Arc::default());
        let origin = sherd_core::register::ValueOrigin::default();
        let accept = Accept { ballot, value, introduces, finishes, positions, origin };
        let target = target(key);
        self.ask(|done| Op::Accept { target, accept, heal: None, done })
    }

    /// Hands over a peer's row.
    pub(crate) fn pull(&mut self, key: &RegisterKey, row: &PulledRow) -> Result<Answer<()>, Error> {
        let (target, row) = (target(key), row.clone());
        self.ask(|done| Op::Pull { target, row, done })
    }

    /// Prepares and accepts; the write is acknowledged.
    pub(crate) fn write(&mut self, key: &RegisterKey, ballot: Ballot, value: &EncodedValue) {
        assert_eq!(self.prepare(key, ballot).unwrap().result.map(|_| ()), Ok(()));
        assert_eq!(self.accept(key, ballot, value).unwrap().result, Ok(()));
    }

    pub(crate) fn commit(&mut self, key: &RegisterKey, ballot: Ballot) {
        self.volume.submit(Op::Commit {
            target: target(key),
            ballot,
            is_everywhere: true,
            positions: Arc::default(),
        });
        self.run();
    }

    /// Says that a row is committed that another volume of the set may lack.
    pub(crate) fn commit_missed(&mut self, key: &RegisterKey, ballot: Ballot) {
        let (target, positions) = (target(key), Arc::default());
        self.volume.submit(Op::Commit { target, ballot, is_everywhere: false, positions });
        self.run();
    }

    pub(crate) fn read(&mut self, key: &RegisterKey) -> Result<Answer<Vote>, Error> {
        let target = target(key);
        self.ask(|done| Op::Read { target, values: ValueLimit::USUAL, done })
    }

    pub(crate) fn put_shard(&mut self, shard: ShardId, bytes: &Bytes) -> Result<(), Error> {
        let payload = vec![bytes.clone()];
        self.ask(|done| Op::PutShard { shard, target: target(&object("shards")), payload, done })
    }

    pub(crate) fn delete_shard(&mut self, shard: ShardId) -> Result<(), Error> {
        self.ask(|done| Op::DeleteShard { shard, done })
    }

    pub(crate) fn heal_put(&mut self, id: HealId, entry: &Bytes) -> Result<(), Error> {
        let entry = entry.clone();
        self.ask(|done| Op::HealPut { id, entry, done })
    }

    pub(crate) fn control(&mut self, control: Control) -> Result<Result<Guarantees, Refusal>, Error> {
        self.ask(|done| Op::Control { control, done }).map(|answer| answer.result)
    }

    pub(crate) fn drop_row(&mut self, key: &RegisterKey, ballot: Ballot) -> Result<Answer<()>, Error> {
        let target = target(key);
        self.ask(|done| Op::Drop { target, ballot, done })
    }

    pub(crate) fn close(self) {
        let Self { volume, reader, clock: _ } = self;
        drop(reader);
        volume.close().unwrap();
    }

    /// Compacts until nothing is left to do; how many segments were reclaimed.
    pub(crate) fn compact(&mut self) -> usize {
        use sherd_volume::write::compact::CompactionStep;
        let mut reclaimed = 0;
        for _ in 0..10_000 {
            match self.volume.compact_step(64 << 10).unwrap() {
                CompactionStep::Idle => return reclaimed,
                CompactionStep::Reclaimed { .. } => reclaimed += 1,
                CompactionStep::Progress { .. } => {}
            }
        }
        panic!("compaction never ends");
    }

    pub(crate) fn packed(&self, shard: ShardId) -> Result<Bytes, Error> {
        let length = self.reader.packed_len(shard)?;
        Ok(self.reader.packed(shard, 0..length, Source::Disk)?.or_busy()?.concat().into())
    }
}

/// The end of a recovery whose voters remember nothing.
pub(crate) fn finish() -> Control {
    Control::FinishRecovery { remembered: Arc::default() }
}

pub(crate) fn target(key: &RegisterKey) -> Target {
    Target::new(key.clone(), Slot(7), Epoch(1))
}

pub(crate) fn object(name: &str) -> RegisterKey {
    RegisterKey::object(BUCKET, ObjectKey::new(name.to_owned()).unwrap())
}

pub(crate) fn part(name: &str, upload: u8, number: u16) -> RegisterKey {
    let part = PartKey { upload: UploadId([upload; 16]), number };
    RegisterKey::part(BUCKET, ObjectKey::new(name.to_owned()).unwrap(), part)
}

/// A ballot some counts after the start.
pub(crate) fn ballot(count: u64) -> Ballot {
    let time = Timestamp::from_u64(Timestamp::from_ms(START_MS).as_u64() + count);
    Ballot { time, proposer: ProposerId(5) }
}

pub(crate) fn change(number: u64) -> ChangeId {
    ChangeId { made: Timestamp::from_u64(number), proposer: ProposerId(9) }
}

pub(crate) fn shard(number: u64, index: u8) -> ShardId {
    let birth = Timestamp::from_ms(START_MS + number);
    ShardId { data: DataId { birth, proposer: ProposerId(6) }, index }
}

/// A value that differs from every other number's, with inline bytes.
pub(crate) fn value(number: u64, inline_bytes: usize) -> EncodedValue {
    let changes = Changes {
        count: number,
        recent: vec![ChangeTry { change: change(number), number: 1 }],
        ..Changes::default()
    };
    let head = Value { changes, state: State::Object(Object::default()) }.encode();
    EncodedValue::new(head, bytes(number, inline_bytes))
}

/// A value whose head is too large for an index row.
pub(crate) fn large_value(number: u64) -> EncodedValue {
    let upload = |id: u8| Upload {
        id: UploadId([id; 16]),
        initiated_ms: number,
        attributes: Some(Attributes { pairs: vec![("x-amz-meta-a".to_owned(), "v".repeat(100))] }),
        checksum: None,
    };
    let object = Object { versions: Vec::new(), uploads: (0..60).map(upload).collect() };
    let changes = Changes {
        count: number,
        recent: vec![ChangeTry { change: change(number), number: 1 }],
        ..Changes::default()
    };
    let head = Value { changes, state: State::Object(object) }.encode();
    assert!(head.len() > 4096);
    EncodedValue::new(head, Bytes::new())
}

pub(crate) fn tombstone(number: u64) -> EncodedValue {
    let changes = Changes {
        count: number,
        recent: vec![ChangeTry { change: change(number), number: 1 }],
        ..Changes::default()
    };
    EncodedValue::new(Value { changes, state: State::Tombstone }.encode(), Bytes::new())
}

/// A bucket in a phase.
pub(crate) fn bucket(number: u64, id: u8, phase: BucketPhase) -> EncodedValue {
    let changes = Changes {
        count: number,
        recent: vec![ChangeTry { change: change(number), number: 1 }],
        ..Changes::default()
    };
    let bucket = Bucket {
        id: BucketId([id; 16]),
        created_ms: 1,
        location: String::new(),
        phase,
        tags: Vec::new(),
        entries: sherd_core::record::Entries::default(),
    };
    EncodedValue::new(Value { changes, state: State::Bucket(bucket) }.encode(), Bytes::new())
}

/// Bytes that depend on a number.
pub(crate) fn bytes(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes.into()
}
