//! L5, the disk: one volume by itself, in each of its three homes for bytes.
//!
//! ```text
//! inline  a row with its bytes: promise, one durable log frame, commit hint | row, then inline bytes
//! packed  a shard in the log: one durable log frame                         | index, then log
//! file    a file of its own: payload, hashes, footer, two syncs             | blocks, each hashed
//! ```
//! The size is what this one volume gets. Rows of the home where an object of that size lives on four
//! volumes stand beside those of other layers; the others have a `kind`. The log is owned by a thread, as in a node; its clients
//! are threads that wait for their answers.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use parking_lot::{Condvar, Mutex};
use sherd_core::env::{Clock, HybridClock};
use sherd_core::id::{
    Ballot, BucketId, ChangeId, ClusterId, DataId, Epoch, Incarnation, ObjectKey, ProposerId, RegisterKey,
    ShardId, Timestamp, VersionId, VolumeId,
};
use sherd_core::limits::{INLINE_BYTES_MAX, PACK_BYTES_MAX, STRIPE_UNIT_BYTES};
use sherd_core::placement;
use sherd_core::record::{
    Attributes, Body as Placed, ChangeTry, Changes, Content, Object, State, Value, Version, VersionKind,
};
use sherd_core::register::{Accept, Encoded, Prepare};
use sherd_node::machine::system::SystemClock;
use sherd_node::volumes::lsm_indexes;
use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::error::Error as VolumeError;
use sherd_volume::identity::{Expected, Phase};
use sherd_volume::index::lsm::IndexCache;
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::open::{NewVolume, Setup, create, open};
use sherd_volume::options::Options;
use sherd_volume::request::{Completion, Op as VolumeOp, ShardFileHeader, Target};
use sherd_volume::{Reader, Volume};

use super::clients::{BlockingClient, threads};
use super::error::{Error, Failure};
use super::payload::Body;
use super::store::{Scratch, VOLUMES};
use super::work::{Numbers, Op, Work, key};
use super::{Layer, Session};
use crate::alloc::uncounted;

const CLUSTER: ClusterId = ClusterId([1; 16]);
const VOLUME: VolumeId = VolumeId([2; 16]);
const BUCKET: BucketId = BucketId([3; 16]);
const PROPOSER: ProposerId = ProposerId(1);
/// When every data id of the bench was born; the number makes it unique.
const BIRTH_MS: u64 = 1_700_000_000_000;
/// Data shards of an object on four volumes, 2+2.
const DATA_SHARDS: u64 = 2;
/// Bytes of the pool: the node's default.
const POOL_BYTES: usize = 128 << 20;
/// Bytes of the index's cache and the files it keeps open: the node's defaults.
const INDEX_CACHE_BYTES: u64 = 64 << 20;
const INDEX_FILES: usize = 1024;
/// Operations waiting for the log thread.
const QUEUE_MAX: usize = 1024;
/// Operations taken before one step, as in a node.
const TAKE_MAX: usize = 1024;
/// The longest wait without anything to do.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes asked of a shard file at one time, as the node does.
const WINDOW_BYTES: u64 = 1 << 20;

/// A home for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    Inline,
    Packed,
    File,
}

impl Home {
    const ALL: [Self; 3] = [Self::Inline, Self::Packed, Self::File];

    /// Where an object of so many bytes lives, or its shards.
    fn of(bytes: u64) -> Self {
        if bytes <= u64::from(INLINE_BYTES_MAX) / VOLUMES as u64 {
            Self::Inline
        } else if bytes.div_ceil(DATA_SHARDS) <= u64::from(PACK_BYTES_MAX) {
            Self::Packed
        } else {
            Self::File
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Packed => "packed",
            Self::File => "file",
        }
    }

    /// The labels of its rows beside those of every layer.
    fn labels(self, bytes: u64) -> Vec<(&'static str, &'static str)> {
        let kind = (self != Self::of(bytes)).then(|| ("kind", self.label()));
        [("home", self.label())].into_iter().chain(kind).collect()
    }

    /// Whether bytes of that length may live there.
    const fn takes(self, bytes: u64) -> bool {
        match self {
            Self::Inline => bytes <= INLINE_BYTES_MAX as u64,
            Self::Packed => bytes <= PACK_BYTES_MAX as u64,
            Self::File => true,
        }
    }
}

/// The labels of every home that takes bytes of that length.
#[cfg(test)]
pub(super) fn labels(bytes: u64) -> Vec<Vec<(&'static str, &'static str)>> {
    Home::ALL.into_iter().filter(|home| home.takes(bytes)).map(|home| home.labels(bytes)).collect()
}

/// Measures the layer at one size.
///
/// # Errors
/// [`Error`]
pub(super) fn run(session: &mut Session, bytes: u64) -> Result<(), Error> {
    for home in Home::ALL.into_iter().filter(|home| home.takes(bytes)) {
        let failed = |op: Op| move |source| Layer::Disk.failure(op, bytes, source);
        let open = OpenVolume::new(session.dir())?;
        let mut filling = DiskClient::new(&open, home, session.filling(bytes));
        if let Numbers::Round { count, .. } = filling.work.numbers {
            for _ in 0..count {
                let number = filling.work.next();
                filling.write(number).map_err(failed(Op::Put))?;
            }
        }
        for (op, clients) in session.cells(Layer::Disk, bytes) {
            let team = session.team(op, bytes, clients);
            let team = team.into_iter().map(|work| DiskClient::new(&open, home, work)).collect();
            let measured = threads(team, session.pace()).map_err(failed(op))?;
            session.note(Layer::Disk, op, bytes, clients, &home.labels(bytes), &measured);
        }
    }
    Ok(())
}

/// A volume with the threads that a node gives it.
struct OpenVolume {
    reader: Arc<Reader>,
    queue: Option<Sender<VolumeOp>>,
    clock: Arc<HybridClock>,
    log: Option<std::thread::JoinHandle<()>>,
    _scratch: Scratch,
}

impl OpenVolume {
    fn new(dir: &Path) -> Result<Self, Error> {
        let scratch = Scratch::new(dir)?;
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let new = NewVolume {
            cluster: CLUSTER,
            volume: VOLUME,
            incarnation: Incarnation(1),
            phase: Phase::Formed,
            lost: None,
        };
        create(&disk, scratch.path(), new).map_err(Error::setup("make a volume"))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let limits = PoolLimits { cap_bytes: POOL_BYTES, stripe_bytes: 1 << 20, idle_bytes: 4 << 20 };
        let setup = Setup {
            disk,
            path: scratch.path().to_owned(),
            clock: Arc::clone(&clock),
            index: lsm_indexes(IndexCache::new(INDEX_CACHE_BYTES, INDEX_FILES))(scratch.path()),
            buffers: BufferPool::new(limits),
            expected: Expected { cluster: Some(CLUSTER), volume: Some(VOLUME) },
            options: Options::default(),
        };
        let (mut volume, _) = open(setup).map_err(Error::setup("open a volume"))?;
        volume.confirm();
        let reader = volume.reader();
        let (queue, taken) = crossbeam_channel::bounded(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("log".to_owned());
        let of_log = Arc::clone(&clock);
        let log = thread.spawn(move || serve(volume, &taken, of_log.as_ref()));
        let log = log.map_err(Error::setup("start a log thread"))?;
        let clock = Arc::new(HybridClock::new(clock));
        Ok(Self { reader, queue: Some(queue), clock, log: Some(log), _scratch: scratch })
    }
}

impl Drop for OpenVolume {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(log) = self.log.take() {
            // A panic there was a dropped answer here, and said so.
            let _ = log.join();
        }
    }
}

/// The log's owner: takes what is queued, steps, waits. Ends when nobody can ask any more.
fn serve(mut volume: Volume, queue: &Receiver<VolumeOp>, clock: &dyn Clock) {
    let reader = volume.reader();
    let (upkeep, asked) = crossbeam_channel::bounded::<()>(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // What it cannot do shows in the volume's next answers.
            asked.iter().for_each(|()| drop(reader.upkeep()));
        });
        let mut step = volume.step();
        loop {
            if step.upkeep {
                // One at a time: when it is still busy, the next step asks again.
                let _ = upkeep.try_send(());
            }
            let taken = queue.try_iter().take(TAKE_MAX).map(|op| volume.submit(op)).count();
            if taken == 0 && !step.more {
                let wait = step.wake_at_us.map_or(WAIT_MAX, |at| {
                    Duration::from_micros(at.saturating_sub(clock.monotonic_us())).min(WAIT_MAX)
                });
                match queue.recv_timeout(wait) {
                    Ok(op) => {
                        volume.submit(op);
                        queue.try_iter().take(TAKE_MAX).for_each(|op| volume.submit(op));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            step = volume.step();
        }
        drop(upkeep);
    });
}

/// Where a client waits for an answer.
struct Slot<R> {
    answer: Mutex<Option<Result<R, VolumeError>>>,
    arrived: Condvar,
}

impl<R: Send + 'static> Slot<R> {
    fn new() -> Arc<Self> {
        Arc::new(Self { answer: Mutex::new(None), arrived: Condvar::new() })
    }

    fn completion(self: &Arc<Self>) -> Completion<R> {
        let slot = Arc::clone(self);
        Completion::new(move |result| {
            *slot.answer.lock() = Some(result);
            slot.arrived.notify_one();
        })
    }

    fn wait(&self) -> Result<R, Failure> {
        let mut answer = self.answer.lock();
        loop {
            match answer.take() {
                Some(answer) => return answer.map_err(Failure::of),
                None => self.arrived.wait(&mut answer),
            }
        }
    }
}

struct DiskClient {
    home: Home,
    work: Work,
    reader: Arc<Reader>,
    queue: Sender<VolumeOp>,
    clock: Arc<HybridClock>,
    durable: Arc<Slot<()>>,
    promised: Arc<Slot<sherd_volume::request::Answer<sherd_core::register::Vote>>>,
    accepted: Arc<Slot<sherd_volume::request::Answer<()>>>,
}

impl DiskClient {
    fn new(open: &OpenVolume, home: Home, work: Work) -> Self {
        Self {
            home,
            work,
            reader: Arc::clone(&open.reader),
            queue: open.queue.clone().expect("open until dropped"),
            clock: Arc::clone(&open.clock),
            durable: Slot::new(),
            promised: Slot::new(),
            accepted: Slot::new(),
        }
    }

    fn submit(&self, op: VolumeOp) -> Result<(), Failure> {
        self.queue.send(op).map_err(|_| Failure::of("the log thread is gone"))
    }

    fn write(&self, number: u64) -> Result<Duration, Failure> {
        match self.home {
            Home::Inline => self.write_row(number),
            Home::Packed => self.write_packed(number),
            Home::File => self.write_file(number),
        }
    }

    fn read(&self, number: u64) -> Result<Duration, Failure> {
        match self.home {
            Home::Inline => self.read_row(number),
            Home::Packed => self.read_packed(number),
            Home::File => self.read_file(number),
        }
    }

    fn write_row(&self, number: u64) -> Result<Duration, Failure> {
        let (target, value) = uncounted(|| {
            let inline: Vec<u8> = self.work.body(number).collect::<Vec<_>>().concat();
            (target(number), value(inline.into(), self.clock.wall().wall_ms()))
        });
        let begun = Instant::now();
        let ballot = Ballot { time: self.clock.tick(), proposer: PROPOSER };
        let prepare = Prepare { ballot };
        let vote = match self.reader.prepare(&target, &prepare, true, Source::Disk).map_err(Failure::of)? {
            Lookup::Immediate(vote) => vote,
            Lookup::Pending => {
                let (target, done) = (target.clone(), self.promised.completion());
                self.submit(VolumeOp::Prepare { target, prepare, want_value: true, done })?;
                self.promised.wait()?
            }
        };
        vote.result.map_err(Failure::of)?;
        let accept =
            Accept { ballot, value, introduces: Vec::new(), finishes: false, positions: Arc::default() };
        let committed = target.clone();
        let done = self.accepted.completion();
        self.submit(VolumeOp::Accept { target, accept, heal: None, done })?;
        self.accepted.wait()?.result.map_err(Failure::of)?;
        let took = begun.elapsed();
        self.submit(VolumeOp::Commit { target: committed, ballot, positions: Arc::default() })?;
        Ok(took)
    }

    fn read_row(&self, number: u64) -> Result<Duration, Failure> {
        let target = uncounted(|| target(number));
        let begun = Instant::now();
        let answer = match self.reader.row(&target, true, Source::Disk).map_err(Failure::of)? {
            Lookup::Immediate(answer) => answer,
            Lookup::Pending => {
                let (target, done) = (target.clone(), self.promised.completion());
                self.submit(VolumeOp::Read { target, want_value: true, done })?;
                self.promised.wait()?
            }
        };
        let row = answer.result.map_err(Failure::of)?.row.ok_or(Failure::OtherBytes)?;
        let inline = self
            .reader
            .inline(&target, row.head.ballot, Source::Disk)
            .and_then(Lookup::told)
            .map_err(Failure::of)?;
        let took = begun.elapsed();
        whole(self.work.body(number), [inline]).map(|()| took)
    }

    fn write_packed(&self, number: u64) -> Result<Duration, Failure> {
        let (target, payload) = uncounted(|| (target(number), self.work.body(number).collect()));
        let begun = Instant::now();
        let done = self.durable.completion();
        self.submit(VolumeOp::PutShard { shard: shard(number), target, payload, done })?;
        self.durable.wait()?;
        Ok(begun.elapsed())
    }

    fn read_packed(&self, number: u64) -> Result<Duration, Failure> {
        let begun = Instant::now();
        let bytes =
            self.reader.packed(shard(number), 0..self.work.bytes, Source::Disk).and_then(Lookup::told);
        let bytes = bytes.map_err(Failure::of)?;
        let took = begun.elapsed();
        whole(self.work.body(number), bytes).map(|()| took)
    }

    fn write_file(&self, number: u64) -> Result<Duration, Failure> {
        let header = uncounted(|| ShardFileHeader {
            shard: shard(number),
            key: register(number),
            data_shards: 1,
            parity_shards: 0,
            stripe_unit: STRIPE_UNIT_BYTES,
            shard_bytes: self.work.bytes,
        });
        let begun = Instant::now();
        let mut writer = self.reader.shard_files().create(&header).map_err(Failure::of)?;
        for piece in self.work.body(number) {
            writer.append(&[piece]).map_err(Failure::of)?;
        }
        writer.finish().map_err(Failure::of)?;
        Ok(begun.elapsed())
    }

    fn read_file(&self, number: u64) -> Result<Duration, Failure> {
        let mut expected = self.work.body(number);
        let begun = Instant::now();
        let mut at = 0;
        while at < self.work.bytes {
            let end = self.work.bytes.min(at + WINDOW_BYTES);
            let bytes =
                self.reader.shard_files().read(shard(number), at..end, Source::Disk).and_then(Lookup::told);
            let bytes = bytes.map_err(Failure::of)?;
            if !bytes.iter().all(|bytes| expected.is_next(bytes)) {
                return Err(Failure::OtherBytes);
            }
            at = end;
        }
        let took = begun.elapsed();
        whole(expected, []).map(|()| took)
    }
}

/// Whether `bytes` are all that was expected.
fn whole(mut expected: Body, bytes: impl IntoIterator<Item = Bytes>) -> Result<(), Failure> {
    let same = bytes.into_iter().all(|bytes| expected.is_next(&bytes));
    if same && expected.left() == 0 { Ok(()) } else { Err(Failure::OtherBytes) }
}

fn register(number: u64) -> RegisterKey {
    RegisterKey::object(BUCKET, ObjectKey::new(key(number)).expect("a key"))
}

fn target(number: u64) -> Target {
    let key = register(number);
    let slot = placement::slot(&key);
    Target::new(key, slot, Epoch(1))
}

const fn shard(number: u64) -> ShardId {
    let birth = Timestamp::from_ms(BIRTH_MS);
    ShardId { data: DataId { birth, proposer: ProposerId(number) }, index: 0 }
}

/// What the row of an inline object says.
fn value(inline: Bytes, modified_ms: u64) -> Encoded {
    let content = Content {
        size: inline.len() as u64,
        etag: "d41d8cd98f00b204e9800998ecf8427e".to_owned(),
        attributes: Attributes::default(),
        checksums: Vec::new(),
        upload: None,
        body: Placed::Inline { hash: *blake3::hash(&inline).as_bytes() },
    };
    let version = Version { id: VersionId::NULL, modified_ms, kind: VersionKind::Content(content) };
    let change = ChangeId { made: Timestamp::from_ms(modified_ms), proposer: PROPOSER };
    let changes = Changes { count: 1, recent: vec![ChangeTry { change, number: 1 }] };
    let state = State::Object(Object { versions: vec![version], uploads: Vec::new() });
    Encoded::of(&Value { changes, state }, inline).expect("a small value")
}

impl BlockingClient for DiskClient {
    fn one(&mut self) -> Result<Duration, Failure> {
        let number = self.work.next();
        match self.work.op {
            Op::Put => self.write(number),
            Op::Get => self.read(number),
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.work.written().map_or(Ok(()), |number| self.read(number).map(drop))
    }
}
