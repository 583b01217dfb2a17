//! How many threads of a volume write shard files, and how many read them.
//!
//! Sixteen clients hand whole files to the threads, as a node's requests hand them pieces; reads are of
//! one stripe unit each and begin with nothing in the page cache.

use std::sync::Arc;

use tokio::sync::oneshot;

use sherd_core::env::HybridClock;
use sherd_core::id::{ClusterId, DataId, ProposerId, ShardId};
use sherd_core::limits::STRIPE_UNIT_BYTES;
use sherd_node::machine::system::SystemClock;
use sherd_node::machine::workers::Workers;
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::lookup::{Lookup, Source};
use sherd_volume::shard_file::ShardFiles;

use super::Arguments;
use crate::answer::bed::{pool, put_file};
use crate::answer::cold::Cold;
use crate::answer::crowd::{Crowd, UNTIL_DONE};
use crate::answer::pattern::Pattern;
use crate::answer::rounds::Rounds;
use crate::answer::{Error, size_name};
use crate::result::Row;

/// Bytes of a shard.
const SIZES: [u64; 3] = [256 << 10, 1 << 20, 16 << 20];
const MOMENT_SIZES: [u64; 1] = [256 << 10];
/// Threads.
const THREADS: [usize; 4] = [1, 2, 4, 8];
/// Clients.
const CLIENTS: usize = 16;
/// Jobs that may wait.
const QUEUE_MAX: usize = 64;

/// Measures every number of threads once.
pub(super) async fn round(arguments: &Arguments, rounds: &mut Rounds) -> Result<(), Error> {
    let sizes: &[u64] = if arguments.common.moment { &MOMENT_SIZES } else { &SIZES };
    for &bytes in sizes {
        for threads in THREADS {
            let folder = arguments.common.folder()?;
            let disk: Arc<dyn Disk> = Arc::new(RealDisk);
            let files = ShardFiles::new(disk, folder.path().to_owned(), ClusterId([9; 16]), pool());
            let workers =
                Workers::start("threads", threads, QUEUE_MAX).map_err(Error::at("start threads"))?;
            let cell = Arc::new(Cell { files, workers, pattern: Pattern::new(bytes), bytes });
            let shards = cell.put(arguments, threads, rounds).await?;
            let cold = Some(Cold::begin(folder.path())?);
            rounds.add(Cold::end(cold, cell.get(threads, &shards).await?, shards.len() as u64 * bytes));
        }
    }
    Ok(())
}

struct Cell {
    files: ShardFiles,
    workers: Workers,
    pattern: Pattern,
    bytes: u64,
}

impl Cell {
    fn row(&self, threads: usize, op: &str, cache: &str) -> Row {
        Row::new([
            ("part", "threads".to_owned()),
            ("variant", threads.to_string()),
            ("op", op.to_owned()),
            ("size", size_name(self.bytes)),
            ("clients", CLIENTS.to_string()),
            ("cache", cache.to_owned()),
        ])
    }

    /// Runs a job on the threads and waits for it.
    async fn on_threads(
        self: &Arc<Self>,
        job: impl FnOnce(&Self) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let (answer, wait) = oneshot::channel();
        let cell = Arc::clone(self);
        let queued = self.workers.run(move || drop(answer.send(job(&cell))));
        queued.map_err(Error::at("queue a job"))?;
        wait.await.map_err(Error::at("wait for a job"))?
    }

    async fn put(
        self: &Arc<Self>,
        arguments: &Arguments,
        threads: usize,
        rounds: &mut Rounds,
    ) -> Result<Arc<[ShardId]>, Error> {
        let clock = HybridClock::new(Arc::new(SystemClock::new()));
        let shard = |_| ShardId { data: DataId { birth: clock.tick(), proposer: ProposerId(1) }, index: 0 };
        let ops_max = arguments.ops_max(self.bytes, CLIENTS);
        let shards: Arc<[ShardId]> = (0..ops_max).map(shard).collect();
        let crowd = Crowd { clients: CLIENTS, window: arguments.common.window(), ops_max, first: 0 };
        let (cell, names) = (Arc::clone(self), Arc::clone(&shards));
        let outcome = crowd.run(move |number| {
            let (cell, shard) = (Arc::clone(&cell), names[index(number)]);
            async move {
                let put =
                    move |cell: &Self| put_file(&cell.files, shard, cell.pattern.bytes(number, cell.bytes));
                cell.on_threads(put).await
            }
        });
        let outcome = outcome.await?;
        rounds.add(outcome.fill(self.row(threads, "put", "hot"), self.bytes));
        Ok(shards.iter().copied().take(index(outcome.ops)).collect())
    }

    async fn get(self: &Arc<Self>, threads: usize, shards: &Arc<[ShardId]>) -> Result<Row, Error> {
        let unit = u64::from(STRIPE_UNIT_BYTES).min(self.bytes);
        let units = self.bytes / unit;
        let ops_max = shards.len() as u64 * units;
        let crowd = Crowd { clients: CLIENTS, window: UNTIL_DONE, ops_max, first: 0 };
        let (cell, shards) = (Arc::clone(self), Arc::clone(shards));
        let outcome = crowd.run(move |number| {
            let (cell, shards) = (Arc::clone(&cell), Arc::clone(&shards));
            async move {
                let (file, at) = (number % shards.len() as u64, number / shards.len() as u64 * unit);
                let shard = shards[index(file)];
                let read = move |cell: &Self| cell.read(file, shard, at, unit);
                cell.on_threads(read).await
            }
        });
        Ok(outcome.await?.fill(self.row(threads, "get", "cold"), unit))
    }

    fn read(&self, number: u64, shard: ShardId, at: u64, length: u64) -> Result<(), Error> {
        let found = self.files.read(shard, at..at + length, Source::Disk).and_then(Lookup::told);
        let found = found.map_err(Error::at("read a shard file"))?;
        let expected = self.pattern.bytes(number, self.bytes).slice(index(at)..index(at + length));
        if found.concat() == expected {
            return Ok(());
        }
        Err(Error::OtherBytes { what: "a shard file".to_owned() })
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a count of shards in memory")
}
