//! What the foreground pays while old segments are being copied.
//!
//! A volume is filled with shards, two thirds of them are deleted, and 4 KiB shards are written and read
//! while the log thread copies what is left: not at all, at the pace of a node, and as fast as it can. The
//! thread is this file's own, so that copying begins when the measurement does.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use sherd_core::env::{Clock, HybridClock};
use sherd_core::id::{ClusterId, DataId, Incarnation, ProposerId, ShardId, VolumeId};
use sherd_node::machine::system::SystemClock;
use sherd_node::volumes::lsm_indexes;
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::identity::{Expected, Phase};
use sherd_volume::index::lsm::IndexCache;
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::open::{NewVolume, Setup, create, open};
use sherd_volume::options::Options;
use sherd_volume::request::{Completion, Op};
use sherd_volume::write::compact::Compacted;
use sherd_volume::{Reader, Volume};

use super::Arguments;
use crate::answer::bed::{pool, target};
use crate::answer::crowd::Crowd;
use crate::answer::pattern::Pattern;
use crate::answer::rounds::Rounds;
use crate::answer::{Common, Error, size_name};
use crate::result::Row;

/// Bytes of one copying step, and bytes per second, as in a node.
const STEP_BYTES: u64 = 1 << 20;
const NODE_BYTES_PER_SECOND: u64 = 32 << 20;
/// Shards of the filling, and in a moment: eight segments, and some of a small one.
const FILLING: (u64, u64) = (32 << 10, 16_384);
const MOMENT_FILLING: (u64, u64) = (32 << 10, 512);
/// Foreground: bytes of a shard that is written, and who writes and reads.
const BYTES: u64 = 4 << 10;
const WRITERS: usize = 20;
const READERS: usize = 4;
/// Operations that the log thread takes at one time, as in a node.
const TAKE_MAX: usize = 1024;
/// The most that the log thread waits.
const WAIT_MAX: Duration = Duration::from_millis(20);

const VARIANTS: [(&str, u64); 3] = [("none", 0), ("paced", NODE_BYTES_PER_SECOND), ("unthrottled", u64::MAX)];

/// A volume, and the thread that owns it.
struct Owned {
    queue: Sender<Op>,
    reader: Arc<Reader>,
    pace: Arc<Pace>,
    thread: JoinHandle<Result<(), sherd_volume::error::Error>>,
}

/// How fast to copy, and what was copied.
#[derive(Default)]
struct Pace {
    bytes_per_second: AtomicU64,
    copied_bytes: AtomicU64,
    is_idle: AtomicBool,
}

/// Measures every pace once.
pub(super) fn round(runtime: &Runtime, arguments: &Arguments, rounds: &mut Rounds) -> Result<(), Error> {
    for (variant, bytes_per_second) in VARIANTS {
        let folder = arguments.common.folder()?;
        let filled = Filled::make(runtime, folder.path(), &arguments.common)?;
        filled.measure(runtime, arguments, variant, bytes_per_second, rounds)?;
    }
    Ok(())
}

/// A volume with holes.
struct Filled {
    owned: Owned,
    clock: HybridClock,
    pattern: Pattern,
    bytes: u64,
    /// What was not deleted, by number.
    left: Vec<(u64, ShardId)>,
}

impl Filled {
    fn make(runtime: &Runtime, folder: &Path, common: &Common) -> Result<Self, Error> {
        let (bytes, count) = if common.moment { MOMENT_FILLING } else { FILLING };
        let owned = Owned::open(folder, common.options())?;
        let clock = HybridClock::new(Arc::new(SystemClock::new()));
        let pattern = Pattern::new(bytes.max(BYTES));
        let shard = || ShardId { data: DataId { birth: clock.tick(), proposer: ProposerId(1) }, index: 0 };
        let shards: Vec<(u64, ShardId)> = (0..count).map(|number| (number, shard())).collect();
        for few in shards.chunks(TAKE_MAX) {
            owned.all(
                runtime,
                few.iter().map(|(number, shard)| {
                    let (shard, payload) = (*shard, vec![pattern.bytes(*number, bytes)]);
                    move |done| Op::PutShard { shard, target: target(), payload, done }
                }),
            )?;
        }
        let (left, gone): (Vec<_>, Vec<_>) = shards.into_iter().partition(|(number, _)| number % 3 == 0);
        for few in gone.chunks(TAKE_MAX) {
            owned.all(
                runtime,
                few.iter().map(|(_, shard)| {
                    let shard = *shard;
                    move |done| Op::DeleteShard { shard, done }
                }),
            )?;
        }
        // Only what the index has behind it is copied.
        owned.reader.flush().map_err(Error::at("flush the index"))?;
        Ok(Self { owned, clock, pattern, bytes, left })
    }

    fn measure(
        self,
        runtime: &Runtime,
        arguments: &Arguments,
        variant: &str,
        bytes_per_second: u64,
        rounds: &mut Rounds,
    ) -> Result<(), Error> {
        let Self { owned, clock, pattern, bytes, left } = self;
        let crowd =
            |clients| Crowd { clients, window: arguments.common.window(), ops_max: u64::MAX, first: 0 };
        let (queue, left, payloads) = (owned.queue.clone(), Arc::new(left), pattern.clone());
        let writing = crowd(WRITERS).run(move |number| {
            let data = DataId { birth: clock.tick(), proposer: ProposerId(2) };
            let (queue, payload) = (queue.clone(), vec![payloads.bytes(number, BYTES)]);
            let shard = ShardId { data, index: 0 };
            async move { ask(&queue, |done| Op::PutShard { shard, target: target(), payload, done }).await }
        });
        let (reader, judged) = (Arc::clone(&owned.reader), Arc::clone(&left));
        let judge = move |number: u64| {
            let (number, shard) = judged[usize::try_from(number).unwrap_or(0) % judged.len()];
            let found = reader.packed(shard, 0..bytes, Source::Disk).and_then(Lookup::told);
            let found = found.map_err(Error::at("read a shard"))?;
            if pattern.is(number, bytes, &found) {
                return Ok(());
            }
            Err(Error::OtherBytes { what: "a shard".to_owned() })
        };
        let reading = judge.clone();
        let reading = crowd(READERS).run(move |number| {
            let reading = reading.clone();
            async move {
                // A read from memory never waits, and the writers are woken on the same threads.
                tokio::task::yield_now().await;
                reading(number)
            }
        });
        owned.pace.bytes_per_second.store(bytes_per_second, Ordering::Relaxed);
        let begun = Instant::now();
        let (put, get) = runtime.block_on(async { futures::future::join(writing, reading).await });
        let copied = owned.pace.copied_bytes.load(Ordering::Relaxed) as f64 / f64::from(1 << 20);
        let copied = copied / begun.elapsed().as_secs_f64();
        rounds.add(put?.fill(row(variant, "put", BYTES, WRITERS), BYTES).with("copied_mib_s", copied));
        rounds.add(get?.fill(row(variant, "get", bytes, READERS), bytes).with("copied_mib_s", copied));
        // What was copied is all there.
        (0..left.len() as u64).try_for_each(judge)?;
        owned.close()
    }
}

fn row(variant: &str, op: &str, bytes: u64, clients: usize) -> Row {
    Row::new([
        ("part", "compaction".to_owned()),
        ("variant", variant.to_owned()),
        ("op", op.to_owned()),
        ("size", size_name(bytes)),
        ("clients", clients.to_string()),
    ])
}

/// Asks the log thread and waits.
async fn ask(queue: &Sender<Op>, op: impl FnOnce(Completion<()>) -> Op) -> Result<(), Error> {
    let (answer, wait) = oneshot::channel();
    let done = Completion::new(move |result| drop(answer.send(result)));
    queue.send(op(done)).map_err(|_| "it ended").map_err(Error::at("ask the log thread"))?;
    wait.await.map_err(Error::at("wait for the log thread"))?.map_err(Error::at("write a shard"))
}

impl Owned {
    fn open(folder: &Path, options: Options) -> Result<Self, Error> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let (cluster, id) = (ClusterId([3; 16]), VolumeId([4; 16]));
        let new =
            NewVolume { cluster, volume: id, incarnation: Incarnation(1), phase: Phase::Formed, lost: None };
        create(&disk, folder, new).map_err(Error::at("make a volume"))?;
        let setup = Setup {
            disk,
            path: folder.to_owned(),
            clock: Arc::clone(&clock),
            index: lsm_indexes(IndexCache::new(64 << 20, 256))(folder),
            buffers: pool(),
            expected: Expected { cluster: Some(cluster), volume: Some(id) },
            options,
        };
        let (mut volume, _) = open(setup).map_err(Error::at("open a volume"))?;
        volume.confirm();
        let (queue, ops) = crossbeam_channel::bounded(TAKE_MAX);
        let (reader, pace) = (volume.reader(), Arc::new(Pace::default()));
        let owner = Owner { volume, ops, pace: Arc::clone(&pace), clock, copy_at_us: 0 };
        let thread = std::thread::spawn(move || owner.run());
        Ok(Self { queue, reader, pace, thread })
    }

    /// Queues several operations at once and waits for all.
    fn all<F: FnOnce(Completion<()>) -> Op>(
        &self,
        runtime: &Runtime,
        ops: impl Iterator<Item = F>,
    ) -> Result<(), Error> {
        let asked: Vec<_> = ops.map(|op| ask(&self.queue, op)).collect();
        runtime.block_on(futures::future::try_join_all(asked)).map(drop)
    }

    fn close(self) -> Result<(), Error> {
        let Self { queue, reader, pace: _, thread } = self;
        drop((queue, reader));
        thread.join().expect("the log thread does not panic").map_err(Error::at("close the volume"))
    }
}

/// The log thread.
struct Owner {
    volume: Volume,
    ops: Receiver<Op>,
    pace: Arc<Pace>,
    clock: Arc<dyn Clock>,
    copy_at_us: u64,
}

impl Owner {
    fn run(mut self) -> Result<(), sherd_volume::error::Error> {
        loop {
            if !self.take() {
                return self.volume.close();
            }
            let step = self.volume.step();
            if step.upkeep {
                // On this thread: what a measurement meets of it is then the same each time.
                self.volume.reader().upkeep()?;
            }
            self.copy()?;
            let busy = self.pace.bytes_per_second.load(Ordering::Relaxed) == u64::MAX
                && !self.pace.is_idle.load(Ordering::Relaxed);
            if step.more || busy {
                continue;
            }
            if let Ok(op) = self.ops.recv_timeout(WAIT_MAX) {
                self.volume.submit(op);
            }
        }
    }

    /// Takes what is queued; whether there is anybody left to queue more.
    fn take(&mut self) -> bool {
        for _ in 0..TAKE_MAX {
            match self.ops.try_recv() {
                Ok(op) => self.volume.submit(op),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn copy(&mut self) -> Result<(), sherd_volume::error::Error> {
        let bytes_per_second = self.pace.bytes_per_second.load(Ordering::Relaxed);
        let now_us = self.clock.monotonic_us();
        if bytes_per_second == 0 || now_us < self.copy_at_us {
            return Ok(());
        }
        let bytes = match self.volume.compact_step(STEP_BYTES)? {
            Compacted::Progress { walked_bytes, moved_bytes } => walked_bytes + moved_bytes,
            Compacted::Reclaimed { .. } => 0,
            Compacted::Idle => {
                self.pace.is_idle.store(true, Ordering::Relaxed);
                0
            }
        };
        self.pace.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.copy_at_us = now_us + bytes.saturating_mul(1_000_000) / bytes_per_second;
        Ok(())
    }
}
