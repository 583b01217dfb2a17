//! How bytes come from a file into verified bytes that we own.
//!
//! Each way reads ranges of one large file into a pooled buffer, hashes every 64 KiB of them and compares the
//! hashes. Cold runs begin with nothing of the file in the page cache and read no range twice.
//!
//! ```text
//! pread      on the caller's thread, which may block
//! hop        the same on one of two reading threads
//! nowait     preadv2 with RWF_NOWAIT on the caller's thread, on a reading thread what would block: the node
//! direct     O_DIRECT, on the caller's thread
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Sender, bounded};
use sherd_core::checksum::Digest;
use sherd_core::limits::HASH_BLOCK_BYTES;
use sherd_volume::buffer::{Buffer, BufferPool, PoolLimits};
use sherd_volume::disk::real::RealDisk;
use sherd_volume::disk::{Disk, DiskFile, OpenMode};

use super::cold::Cold;
use super::crowd::Crowd;
use super::{Bench, Error, Page};
use crate::load::sizes::Size;
use crate::result::Row;

/// Bytes of the file, and in a moment.
const FILE_BYTES: u64 = 256 << 20;
const MOMENT_FILE_BYTES: u64 = 4 << 20;
/// Bytes of a range: all of one or of several hash blocks, or one page.
const SIZES: [u64; 4] = [64 << 10, 4 << 10, 256 << 10, 1 << 20];
/// Readers.
const CLIENTS: [usize; 2] = [1, 32];
/// Reading threads of a volume, as in a node.
const READING_THREADS: usize = 2;
const PAGE_BYTES: usize = 4096;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {}

#[derive(Debug, Clone, Copy)]
enum Way {
    Pread,
    Hop,
    Nowait,
    Direct,
}

const WAYS: [(&str, Way); 4] =
    [("pread", Way::Pread), ("hop", Way::Hop), ("nowait", Way::Nowait), ("direct", Way::Direct)];

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "read-path"
    }

    fn device_bytes(&self) -> u64 {
        2 << 30
    }

    fn round(&self, bench: &mut Bench, _: usize) -> Result<(), Error> {
        let folder = bench.folder()?;
        let bytes = if bench.is_moment() { MOMENT_FILE_BYTES } else { FILE_BYTES };
        let file = RangesFile::make(folder.path(), bytes)?;
        let cases = bench.some(&SIZES, 1).to_vec();
        for size in cases {
            for clients in CLIENTS {
                for cache in ["hot", "cold"] {
                    for (name, way) in WAYS {
                        let labels = [
                            ("variant", name.to_owned()),
                            ("op", "range".to_owned()),
                            ("size", Size(size).to_string()),
                            ("clients", clients.to_string()),
                            ("cache", cache.to_owned()),
                        ];
                        let row =
                            file.ranges(bench, folder.path(), Row::new(labels), (way, size, clients, cache))?;
                        bench.add(row);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The file, open in every way.
struct RangesFile {
    bytes: u64,
    /// Of each page, and of each hash block.
    page_hashes: Vec<Digest>,
    block_hashes: Vec<Digest>,
    plain: Arc<dyn DiskFile>,
    direct: File,
    pool: BufferPool,
    /// To the reading threads.
    jobs: Sender<Job>,
}

/// A buffer to fill from a place of the file, and who waits for it.
type Job = (Buffer, u64, Sender<io::Result<Buffer>>);

fn hashes(bytes: &[u8], of: usize) -> impl Iterator<Item = Digest> + '_ {
    bytes.chunks(of).map(|bytes| *blake3::hash(bytes).as_bytes())
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is read fits memory")
}

/// Memory for readers, as much as they ask for.
pub(super) fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { cap_bytes: 1 << 30, stripe_bytes: 1 << 20, idle_bytes: 64 << 20 })
}

fn whole(buffer: Buffer, read: io::Result<usize>) -> io::Result<Buffer> {
    if read? == buffer.len() { Ok(buffer) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl RangesFile {
    fn make(folder: &Path, bytes: u64) -> Result<Self, Error> {
        let path = folder.join("file");
        let mut content = vec![0; length(bytes)];
        getrandom::fill(&mut content).map_err(|error| error.to_string()).map_err(Error::at("draw bytes"))?;
        let written = std::fs::write(&path, &content).and_then(|()| File::open(&path)?.sync_all());
        written.map_err(Error::at("write the file"))?;
        let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
        let plain = RealDisk.open(&path, OpenMode::Read).map_err(Error::at("open the file"))?;
        let (jobs, taken) = bounded::<Job>(1024);
        for _ in 0..READING_THREADS {
            let (taken, plain) = (taken.clone(), Arc::clone(&plain));
            // They end with the sender of their jobs.
            thread::spawn(move || {
                for (mut buffer, at, answer) in taken {
                    let read = plain.read_at(&mut buffer, at);
                    // Who asked waits for it, unless it has panicked.
                    let _ = answer.send(whole(buffer, read));
                }
            });
        }
        Ok(Self {
            bytes,
            page_hashes: hashes(&content, PAGE_BYTES).collect(),
            block_hashes: hashes(&content, HASH_BLOCK_BYTES).collect(),
            plain,
            direct: direct.map_err(Error::at("open the file with O_DIRECT"))?,
            pool: pool(),
            jobs,
        })
    }

    fn ranges(
        &self,
        bench: &Bench,
        folder: &Path,
        row: Row,
        (way, size, clients, cache): (Way, u64, usize, &str),
    ) -> Result<Row, Error> {
        let count = self.bytes / size;
        let (cold, ops_max) = if cache == "cold" {
            (Some(Cold::begin(folder)?), count)
        } else {
            let warm = Crowd { clients: 1, window: bench.window() * 100, ops_max: count };
            warm.run(|number| self.read(Way::Pread, number * size, size))?;
            (None, u64::MAX)
        };
        let crowd = Crowd { clients, window: bench.window() / 2, ops_max };
        // Odd, so that every range of a power of two of them is visited, and far from the last one.
        let outcome =
            crowd.run(|number| self.read(way, number.wrapping_mul(0x9e37_79b1) % count * size, size))?;
        Ok(Cold::end(cold, outcome.fill(row, size), outcome.ops * size))
    }

    /// Reads a range, hashes it, and lets go of it as a reply would.
    fn read(&self, way: Way, at: u64, size: u64) -> Result<(), Error> {
        let mut buffer = self
            .pool
            .try_take(length(size))
            .ok_or("the pool is empty")
            .map_err(Error::at("take a buffer"))?;
        let read = match way {
            Way::Pread => self.plain.read_at(&mut buffer, at),
            Way::Direct => self.direct.read_at(&mut buffer, at),
            Way::Nowait => self.plain.read_cached_at(&mut buffer, at),
            Way::Hop => Err(io::ErrorKind::WouldBlock.into()),
        };
        let found = match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let (answer, wait) = bounded(1);
                self.jobs.send((buffer, at, answer)).map_err(Error::at("queue a read"))?;
                wait.recv().map_err(Error::at("wait for a read"))?
            }
            read => whole(buffer, read),
        };
        let found = found.map_err(Error::at("read the file"))?;
        let (expected, of) = if length(size) < HASH_BLOCK_BYTES {
            (&self.page_hashes, PAGE_BYTES)
        } else {
            (&self.block_hashes, HASH_BLOCK_BYTES)
        };
        let expected = expected.iter().copied().skip(length(at) / of).take(length(size) / of);
        if expected.eq(hashes(&found, of)) {
            return Ok(());
        }
        Err(Error::OtherBytes { what: "a range of the file".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_not_what_was_written_is_found_by_every_way() {
        let folder = tempfile::tempdir().unwrap();
        let ranges = RangesFile::make(folder.path(), MOMENT_FILE_BYTES).unwrap();
        let file = File::options().write(true).open(folder.path().join("file")).unwrap();
        let mut byte = [0];
        ranges.plain.read_at(&mut byte, 70_000).unwrap();
        file.write_all_at(&[byte[0] ^ 1], 70_000).unwrap();
        for (name, way) in WAYS {
            let read = ranges.read(way, 65_536, 65_536);
            assert!(matches!(read, Err(Error::OtherBytes { .. })), "{name}");
            ranges.read(way, 0, 65_536).unwrap();
        }
    }
}
