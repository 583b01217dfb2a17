//! One shard on one volume: packed in the log, or a file of its own.
//!
//! `packed` and `file` go through the volume's queues as in a node; `file-threads` gives every writer a
//! thread that writes its file alone, the best that files can do. The spare segments that the log uses
//! up are made again before the next measurement; what they cost is in `disk_bytes_op`.

use std::sync::Arc;

use sherd_core::id::ShardId;
use sherd_core::record::Home;
use sherd_volume::lookup::{Lookup, Source};

use super::Arguments;
use crate::answer::bed::{self, Bed};
use crate::answer::cold::Cold;
use crate::answer::crowd::{Crowd, Outcome, UNTIL_DONE};
use crate::answer::pattern::Pattern;
use crate::answer::rounds::Rounds;
use crate::answer::{Error, size_name};
use crate::result::Row;

/// Sizes of shards, and of two of them in a moment.
const SIZES: [u64; 11] =
    [1, 512, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
const MOMENT_SIZES: [u64; 2] = [4 << 10, 128 << 10];
/// Writers and readers.
const CLIENTS: [usize; 4] = [1, 20, 100, 200];
const MOMENT_CLIENTS: [usize; 2] = [1, 20];
/// Bytes of shards that are read, and how many of them at least and at most.
const READ_BYTES: u64 = 64 << 20;
const READ_COUNTS: (u64, u64) = (16, 4096);
/// Shards that are read again after they were written.
const CHECKED: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Packed,
    File,
    FileThreads,
}

impl Variant {
    const ALL: [Self; 3] = [Self::Packed, Self::File, Self::FileThreads];

    const fn name(self) -> &'static str {
        match self {
            Self::Packed => "packed",
            Self::File => "file",
            Self::FileThreads => "file-threads",
        }
    }

    const fn home(self) -> Home {
        match self {
            Self::Packed => Home::Packed,
            Self::File | Self::FileThreads => Home::File,
        }
    }
}

/// What one size is measured with.
struct Cell {
    bed: Arc<Bed>,
    pattern: Pattern,
    bytes: u64,
}

/// Measures every size once.
pub(super) async fn round(arguments: &Arguments, rounds: &mut Rounds) -> Result<(), Error> {
    let moment = arguments.common.moment;
    let sizes: &[u64] = if moment { &MOMENT_SIZES } else { &SIZES };
    let crowds: &[usize] = if moment { &MOMENT_CLIENTS } else { &CLIENTS };
    for &bytes in sizes {
        let folder = arguments.common.folder()?;
        let bed = Arc::new(Bed::make(folder.path(), arguments.common.options()).await?);
        let cell = Cell { bed, pattern: Pattern::new(bytes), bytes };
        for &clients in crowds {
            for variant in Variant::ALL {
                rounds.add(cell.put(arguments, clients, variant).await?);
            }
        }
        for variant in [Variant::Packed, Variant::File] {
            let shards = cell.fill(variant, if moment { 16 } else { READ_COUNTS.1 }).await?;
            for &clients in crowds {
                for cache in ["hot", "cold"] {
                    rounds.add(cell.get(arguments, clients, variant, &shards, cache).await?);
                }
            }
        }
        Arc::into_inner(cell.bed).expect("no client is left").close().await?;
    }
    Ok(())
}

fn row(variant: Variant, op: &str, bytes: u64, clients: usize, cache: &str) -> Row {
    Row::new([
        ("part", "shards".to_owned()),
        ("variant", variant.name().to_owned()),
        ("op", op.to_owned()),
        ("size", size_name(bytes)),
        ("clients", clients.to_string()),
        ("cache", cache.to_owned()),
    ])
}

impl Cell {
    async fn put(&self, arguments: &Arguments, clients: usize, variant: Variant) -> Result<Row, Error> {
        let shards: Arc<[ShardId]> = self.names(arguments.ops_max(self.bytes, clients));
        let crowd =
            Crowd { clients, window: arguments.common.window(), ops_max: shards.len() as u64, first: 0 };
        let before = arguments.common.disk_bytes();
        let outcome = self.write(crowd, variant, &shards).await?;
        self.bed.settle().await?;
        for number in (0..outcome.ops).rev().take(usize::try_from(CHECKED).unwrap_or(usize::MAX)) {
            self.check(variant, &shards, number).await?;
        }
        let row = outcome.fill(row(variant, "put", self.bytes, clients, "hot"), self.bytes);
        Ok(arguments.common.with_disk_bytes(row, before, outcome.ops))
    }

    fn names(&self, count: u64) -> Arc<[ShardId]> {
        (0..count).map(|_| self.bed.new_shard()).collect()
    }

    /// Lets a crowd write shards.
    async fn write(&self, crowd: Crowd, variant: Variant, shards: &Arc<[ShardId]>) -> Result<Outcome, Error> {
        let (bed, pattern, bytes) = (Arc::clone(&self.bed), self.pattern.clone(), self.bytes);
        let shards = Arc::clone(shards);
        let run = crowd.run(move |number| {
            let (bed, payload) = (Arc::clone(&bed), pattern.bytes(number, bytes));
            let shard = shards[index(number)];
            async move {
                if variant != Variant::FileThreads {
                    return bed.put(shard, variant.home(), payload).await;
                }
                let written = tokio::task::spawn_blocking(move || bed::put_file(bed.alone(), shard, payload));
                written.await.map_err(Error::at("run a writer"))?
            }
        });
        run.await
    }

    /// Reads one shard and compares it with what was written.
    async fn check(&self, variant: Variant, shards: &[ShardId], number: u64) -> Result<(), Error> {
        let shard = shards[index(number)];
        let found = match variant {
            Variant::FileThreads => {
                let found = self.bed.alone().read(shard, 0..self.bytes, Source::Disk);
                found.and_then(Lookup::told).map_err(Error::at("read a shard file"))?
            }
            Variant::Packed | Variant::File => self.bed.get(shard, variant.home(), self.bytes).await?,
        };
        if self.pattern.is(number, self.bytes, &found) { Ok(()) } else { Err(other_bytes()) }
    }

    /// Writes what will be read.
    async fn fill(&self, variant: Variant, most: u64) -> Result<Arc<[ShardId]>, Error> {
        let shards = self.names((READ_BYTES / self.bytes).max(READ_COUNTS.0).min(most));
        let crowd = Crowd { clients: 32, window: UNTIL_DONE, ops_max: shards.len() as u64, first: 0 };
        self.write(crowd, variant, &shards).await?;
        self.bed.settle().await?;
        Ok(shards)
    }

    async fn get(
        &self,
        arguments: &Arguments,
        clients: usize,
        variant: Variant,
        shards: &Arc<[ShardId]>,
        cache: &str,
    ) -> Result<Row, Error> {
        let (bytes, count) = (self.bytes, shards.len() as u64);
        let (cold, window, ops_max) = if cache == "cold" {
            // Each shard once: the second time it would be in the cache.
            (Some(self.bed.cold()?), UNTIL_DONE, count)
        } else {
            (None, arguments.common.window() / 4, u64::MAX)
        };
        let (bed, pattern, shards) = (Arc::clone(&self.bed), self.pattern.clone(), Arc::clone(shards));
        let crowd = Crowd { clients, window, ops_max, first: 0 };
        let outcome = crowd.run(move |number| {
            // An odd stride visits all of a power of two of shards, and nearly all of any other count.
            let number = number.wrapping_mul(2_654_435_761) % count;
            let (bed, pattern, shards) = (Arc::clone(&bed), pattern.clone(), Arc::clone(&shards));
            async move {
                let found = bed.get(shards[index(number)], variant.home(), bytes).await?;
                if pattern.is(number, bytes, &found) { Ok(()) } else { Err(other_bytes()) }
            }
        });
        let outcome = outcome.await?;
        let row = outcome.fill(row(variant, "get", bytes, clients, cache), bytes);
        Ok(Cold::end(cold, row, outcome.ops * bytes))
    }
}

fn other_bytes() -> Error {
    Error::OtherBytes { what: "a shard".to_owned() }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a count of shards in memory")
}
