//! How bytes come from a file into verified bytes that we own.
//!
//! Each way reads ranges of one large file, hashes every 64 KiB of them and compares the hashes. `range`
//! reads here and there, as GETs do; `scan` reads from the first byte to the last on one thread, as
//! verification does. Cold runs begin with nothing of the file in the page cache and read no range twice.
//!
//! ```text
//! pread      into a pooled buffer, on the caller's thread, which may block
//! hop        the same on a reading thread
//! nowait     preadv2 with RWF_NOWAIT on the caller's thread, on a reading thread what would block: the node
//! direct     O_DIRECT into a pooled buffer
//! map-copy   a guarded mapping, copied into a pooled buffer before it is hashed
//! map-hash   a guarded mapping, hashed in place; nothing is handed out, for it could change
//! ```

mod mapped;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use memmap2::Advice;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use sherd_core::checksum::Digest;
use sherd_core::limits::HASH_BLOCK_BYTES;
use sherd_node::machine::workers::Workers;
use sherd_volume::buffer::{Buffer, BufferPool};
use sherd_volume::disk::real::RealDisk;
use sherd_volume::disk::{Disk, DiskFile, OpenMode};

use super::bed::pool;
use super::cold::Cold;
use super::crowd::{Crowd, UNTIL_DONE};
use super::rounds::Rounds;
use super::{Common, Error, cpu, size_name};
use crate::result::Row;
use mapped::MappedFile;

/// Bytes of the file, and in a moment.
const FILE_BYTES: u64 = 256 << 20;
const MOMENT_FILE_BYTES: u64 = 4 << 20;
/// Bytes of a range.
const SIZES: [u64; 4] = [4 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Readers.
const CLIENTS: [usize; 2] = [1, 32];
/// Bytes of one step of a scan.
const SCAN_BYTES: u64 = 1 << 20;
/// Reading threads of a volume, and what may wait for them, as in a node.
const WORKERS: usize = 2;
const QUEUE_MAX: usize = 1024;
/// Parts of a window that a hot measurement takes: it needs less time than a cold one.
const HOT_PART: u32 = 2;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
}

/// A way to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Pread,
    Hop,
    Nowait,
    Direct,
    MapCopy,
    MapHash,
}

impl Way {
    const ALL: [Self; 6] = [Self::Pread, Self::Hop, Self::Nowait, Self::Direct, Self::MapCopy, Self::MapHash];
    /// What a scan on one thread can do.
    const SCANNING: [Self; 4] = [Self::Pread, Self::Direct, Self::MapCopy, Self::MapHash];

    const fn name(self) -> &'static str {
        match self {
            Self::Pread => "pread",
            Self::Hop => "hop",
            Self::Nowait => "nowait",
            Self::Direct => "direct",
            Self::MapCopy => "map-copy",
            Self::MapHash => "map-hash",
        }
    }
}

/// Measures every way and writes the table.
///
/// # Errors
/// [`Error`].
pub fn run(arguments: &Arguments) -> Result<PathBuf, Error> {
    let common = &arguments.common;
    let started = common.begin()?;
    let runtime = super::runtime()?;
    let folder = common.folder()?;
    let bytes = if common.moment { MOMENT_FILE_BYTES } else { FILE_BYTES };
    let bench = Arc::new(Bench::make(folder.path(), bytes)?);
    let mut rounds = Rounds::default();
    for _ in 0..common.rounds() {
        for size in SIZES {
            for clients in CLIENTS {
                for cache in ["hot", "cold"] {
                    for way in Way::ALL {
                        rounds.add(bench.ranges(&runtime, common, way, size, clients, cache)?);
                    }
                }
            }
        }
        for cache in ["hot", "cold"] {
            for way in Way::SCANNING {
                rounds.add(bench.scan(common, way, cache)?);
            }
        }
    }
    common.write("read-path", started, rounds.rows())
}

/// The file, open in every way.
#[derive(Debug)]
struct Bench {
    folder: PathBuf,
    path: PathBuf,
    bytes: u64,
    /// Of each 4 KiB, and of each hash block.
    page_hashes: Vec<Digest>,
    block_hashes: Vec<Digest>,
    plain: Arc<dyn DiskFile>,
    direct: File,
    pool: BufferPool,
    workers: Workers,
}

fn hashes(bytes: &[u8], of: usize) -> Vec<Digest> {
    bytes.chunks(of).map(|bytes| *blake3::hash(bytes).as_bytes()).collect()
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is read fits memory")
}

impl Bench {
    fn make(folder: &Path, bytes: u64) -> Result<Self, Error> {
        let path = folder.join("file");
        let mut content = vec![0; length(bytes)];
        getrandom::fill(&mut content).map_err(|error| error.to_string()).map_err(Error::at("draw bytes"))?;
        let written = std::fs::write(&path, &content).and_then(|()| File::open(&path)?.sync_all());
        written.map_err(Error::at("write the file"))?;
        let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
        Ok(Self {
            folder: folder.to_owned(),
            bytes,
            page_hashes: hashes(&content, 4096),
            block_hashes: hashes(&content, HASH_BLOCK_BYTES),
            plain: RealDisk.open(&path, OpenMode::Read).map_err(Error::at("open the file"))?,
            direct: direct.map_err(Error::at("open the file with O_DIRECT"))?,
            pool: pool(),
            workers: Workers::start("read", WORKERS, QUEUE_MAX).map_err(Error::at("start threads"))?,
            path,
        })
    }

    /// Maps the file for one measurement: the page cache keeps what is mapped, and the next one may be cold.
    fn map(&self, advice: Advice) -> Result<MappedFile, Error> {
        MappedFile::open(&self.path, advice).map_err(Error::at("map the file"))
    }

    fn ranges(
        self: &Arc<Self>,
        runtime: &Runtime,
        common: &Common,
        way: Way,
        size: u64,
        clients: usize,
        cache: &str,
    ) -> Result<Row, Error> {
        let count = self.bytes / size;
        let Prepared { cold, window, ops_max } = self.prepare(common, cache, count)?;
        let (bench, map) = (Arc::clone(self), Arc::new(self.map(Advice::Random)?));
        let one = move |number: u64| {
            let (bench, map) = (Arc::clone(&bench), Arc::clone(&map));
            // Odd, so that every range of a power of two of them is visited, and far from the last one.
            let at = number.wrapping_mul(0x9e37_79b1) % count * size;
            async move { bench.one(way, &map, at, size).await }
        };
        let crowd = Crowd { clients, window, ops_max, first: 0 };
        let row = Row::new([
            ("variant", way.name().to_owned()),
            ("op", "range".to_owned()),
            ("size", size_name(size)),
            ("clients", clients.to_string()),
            ("cache", cache.to_owned()),
        ]);
        let outcome = runtime.block_on(crowd.run(one))?;
        Ok(Cold::end(cold, outcome.fill(row, size), outcome.ops * size))
    }

    /// Fills or empties the page cache; says how long to measure and how many operations.
    fn prepare(&self, common: &Common, cache: &str, count: u64) -> Result<Prepared, Error> {
        if cache == "cold" {
            let window = if common.moment { UNTIL_DONE } else { common.window() };
            return Ok(Prepared { cold: Some(Cold::begin(&self.folder)?), window, ops_max: count });
        }
        for at in (0..self.bytes).step_by(length(SCAN_BYTES)) {
            let mut buffer = self.buffer(SCAN_BYTES)?;
            self.plain.read_at(&mut buffer, at).map_err(Error::at("read the file"))?;
        }
        Ok(Prepared { cold: None, window: common.window() / HOT_PART, ops_max: u64::MAX })
    }

    async fn one(self: &Arc<Self>, way: Way, map: &MappedFile, at: u64, size: u64) -> Result<(), Error> {
        match way {
            Way::Hop => self.hop(at, size).await,
            Way::Nowait => {
                let mut buffer = self.buffer(size)?;
                match self.plain.read_cached_at(&mut buffer, at) {
                    Ok(read) if read == buffer.len() => self.judge(at, buffer.freeze(read)),
                    Ok(_) => Err(other_bytes()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        drop(buffer);
                        self.hop(at, size).await
                    }
                    Err(error) => Err(Error::at("read the file")(error)),
                }
            }
            Way::Pread | Way::Direct | Way::MapCopy | Way::MapHash => self.here(way, map, at, size),
        }
    }

    /// Reads on a reading thread.
    async fn hop(self: &Arc<Self>, at: u64, size: u64) -> Result<(), Error> {
        let (answer, wait) = oneshot::channel();
        let bench = Arc::clone(self);
        let job = move || drop(answer.send(bench.pread(at, size)));
        self.workers.run(job).map_err(Error::at("queue a read"))?;
        wait.await.map_err(Error::at("wait for a read"))?
    }

    /// Reads on this thread.
    fn here(&self, way: Way, map: &MappedFile, at: u64, size: u64) -> Result<(), Error> {
        match way {
            Way::Pread | Way::Hop | Way::Nowait => self.pread(at, size),
            Way::Direct => self.filled(at, size, |buffer| self.direct.read_at(buffer, at)),
            Way::MapCopy => self.filled(at, size, |buffer| {
                map.copy(length(at), buffer).map(|()| length(size)).map_err(io::Error::other)
            }),
            Way::MapHash => self.judge_in_place(map, at, size),
        }
    }

    fn pread(&self, at: u64, size: u64) -> Result<(), Error> {
        self.filled(at, size, |buffer| self.plain.read_at(buffer, at))
    }

    /// Judges a buffer that is filled in some way.
    fn filled(
        &self,
        at: u64,
        size: u64,
        fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> Result<(), Error> {
        let mut buffer = self.buffer(size)?;
        match fill(&mut buffer).map_err(Error::at("read the file"))? {
            read if read == buffer.len() => self.judge(at, buffer.freeze(read)),
            _ => Err(other_bytes()),
        }
    }

    fn buffer(&self, size: u64) -> Result<Buffer, Error> {
        self.pool.try_take(length(size)).ok_or("the pool is empty").map_err(Error::at("take a buffer"))
    }

    /// Hashes what was read, and lets go of it as a reply would.
    fn judge(&self, at: u64, bytes: Bytes) -> Result<(), Error> {
        let is_same = self.expected(at, bytes.len() as u64).eq(hashes_of(&bytes));
        drop(bytes);
        if is_same { Ok(()) } else { Err(other_bytes()) }
    }

    fn judge_in_place(&self, map: &MappedFile, at: u64, size: u64) -> Result<(), Error> {
        let step = length(size.min(HASH_BLOCK_BYTES as u64));
        let starts = (length(at)..length(at + size)).step_by(step);
        for (start, expected) in starts.zip(self.expected(at, size)) {
            let found = map.hash(start..start + step).map_err(Error::at("read the mapping"))?;
            if found != expected {
                return Err(other_bytes());
            }
        }
        Ok(())
    }

    /// The hashes of a range: pages or whole blocks.
    fn expected(&self, at: u64, size: u64) -> impl Iterator<Item = Digest> + '_ {
        let (hashes, of) = if size < HASH_BLOCK_BYTES as u64 {
            (&self.page_hashes, 4096)
        } else {
            (&self.block_hashes, HASH_BLOCK_BYTES as u64)
        };
        hashes.iter().skip(length(at / of)).take(length(size / of)).copied()
    }

    /// Reads everything on this thread.
    fn scan(&self, common: &Common, way: Way, cache: &str) -> Result<Row, Error> {
        let Prepared { cold, .. } = self.prepare(common, cache, 1)?;
        let map = self.map(Advice::Sequential)?;
        let (begun, before) = (Instant::now(), cpu());
        for at in (0..self.bytes).step_by(length(SCAN_BYTES)) {
            self.here(way, &map, at, SCAN_BYTES)?;
        }
        let (took, used) = (begun.elapsed(), cpu().saturating_sub(before));
        let mib = self.bytes as f64 / f64::from(1 << 20);
        let row = Row::new([
            ("variant", way.name().to_owned()),
            ("op", "scan".to_owned()),
            ("size", size_name(SCAN_BYTES)),
            ("clients", "1".to_owned()),
            ("cache", cache.to_owned()),
        ]);
        let row = row.with("mib_s", mib / took.as_secs_f64()).with("ops_s", mib / took.as_secs_f64());
        Ok(Cold::end(cold, row.with("cpu_us_op", used.as_secs_f64() * 1e6 / mib), self.bytes))
    }
}

/// How a measurement begins, and when it ends.
struct Prepared {
    cold: Option<Cold>,
    window: Duration,
    ops_max: u64,
}

fn hashes_of(bytes: &[u8]) -> impl Iterator<Item = Digest> + '_ {
    bytes.chunks(HASH_BLOCK_BYTES).map(|bytes| *blake3::hash(bytes).as_bytes())
}

fn other_bytes() -> Error {
    Error::OtherBytes { what: "a range of the file".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::cold::tests::can_be_seen;
    use crate::answer::tests::a_moment;
    use crate::result::Results;

    #[test]
    fn every_way_reads_what_was_written_hot_and_cold() {
        let folder = tempfile::tempdir().unwrap();
        let can_be_seen = can_be_seen(folder.path());
        let arguments = Arguments { common: a_moment(folder.path()) };
        let results = Results::read(&run(&arguments).unwrap()).unwrap();
        for way in Way::ALL {
            for cache in ["hot", "cold"] {
                let labels = [("variant", way.name()), ("op", "range"), ("size", "64KiB"), ("cache", cache)];
                let rows: Vec<_> = results.rows.iter().filter(|row| row.is(&labels)).collect();
                assert_eq!(rows.len(), CLIENTS.len(), "{labels:?}");
                assert!(rows.iter().all(|row| row.figure("ops_s").is_some_and(|rate| rate > 0.0)));
                let is_as_said = |row: &&Row| row.flags.is_empty() || !can_be_seen;
                assert!(rows.iter().all(is_as_said), "{labels:?} {:?}", rows[0].flags);
            }
        }
        assert_eq!(results.rows.iter().filter(|row| row.is(&[("op", "scan")])).count(), 8);
    }

    #[test]
    fn a_byte_that_is_not_what_was_written_is_found_by_every_way() {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench::make(folder.path(), MOMENT_FILE_BYTES).unwrap();
        let file = File::options().write(true).open(folder.path().join("file")).unwrap();
        let mut byte = [0];
        bench.plain.read_at(&mut byte, 70_000).unwrap();
        file.write_all_at(&[byte[0] ^ 1], 70_000).unwrap();
        let map = bench.map(Advice::Random).unwrap();
        for way in Way::SCANNING {
            let read = bench.here(way, &map, 65_536, 65_536);
            assert!(matches!(read, Err(Error::OtherBytes { .. })), "{way:?}");
            bench.here(way, &map, 0, 65_536).unwrap();
        }
    }
}
