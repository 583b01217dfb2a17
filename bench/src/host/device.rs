//! The physical limits: what the device and the processor can do at best, measured where and when the
//! stores are.
//!
//! A store that syncs every write cannot be faster than the device's sync, and one that hashes every
//! byte not faster than its hash; a figure without its limit beside it says little.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use md5::{Digest, Md5};
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::Refusal;
use crate::limits::SYNC_NS_MAX;

/// Bytes of one append: the unit that file systems and devices write.
const APPEND_BYTES: usize = 4096;
/// Bytes of one sequential read or write.
const STRIDE_BYTES: usize = 4 << 20;
const ALIGNMENT: usize = 4096;
const MIB: f64 = (1 << 20) as f64;

/// How long the measurements take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Syncs of each kind.
    pub syncs: u32,
    /// Bytes of the file that is written and read in sequence.
    pub file_bytes: usize,
    /// Bytes that are copied and hashed at once.
    pub memory_bytes: usize,
    /// Least time of each measurement of the processor.
    pub time: Duration,
}

impl Effort {
    /// About ten seconds on a device that syncs in a millisecond.
    pub const FULL: Self =
        Self { syncs: 1000, file_bytes: 1 << 30, memory_bytes: 128 << 20, time: Duration::from_millis(500) };
    /// [`Self::MOMENT`] for a `moment`, else [`Self::FULL`].
    pub fn of(moment: bool) -> Self {
        if moment { Self::MOMENT } else { Self::FULL }
    }

    /// The least that shows that the measurement runs.
    pub const MOMENT: Self =
        Self { syncs: 5, file_bytes: 8 << 20, memory_bytes: 1 << 20, time: Duration::from_millis(1) };
}

/// Measures the device that a folder lies on, and the processor: the limits that stand beside results.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Folder on the device.
    #[arg(long, value_name = "DIR", default_value = "sherd-data/bench")]
    pub folder: PathBuf,
    /// Run for a moment, to see that it runs: figures mean nothing.
    #[arg(long)]
    pub moment: bool,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This build must not be measured with.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The folder's file system does not do what is asked of it.
    #[error("measure {}: {source}", folder.display())]
    Device {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Measures and prints, one figure a line.
///
/// # Errors
/// The folder cannot be written and read.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    super::refuse_debug_build(arguments.moment)?;
    let limits = measure(&arguments.folder, Effort::of(arguments.moment))?;
    for (name, value) in super::settings(&arguments.folder) {
        println!("{name:<26} {value}");
    }
    for (name, value) in limits {
        println!("{name:<26} {value:>12.1}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The limits of the device under `folder`, which is made, and of one core: `fdatasync_p50_us` and
/// `fdatasync_p99_us` of 4 KiB appended to a preallocated file, the same as `fdatasync_overwrite_*` over
/// blocks that were written before, `write_mib_s` and `read_mib_s` in sequence past the page cache,
/// `memory_mib_s` copied, `blake3_mib_s` and `md5_mib_s` hashed.
///
/// # Errors
/// The folder cannot be written and read.
pub fn measure(folder: &Path, effort: Effort) -> Result<BTreeMap<String, f64>, Error> {
    let device = |source| Error::Device { folder: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(device)?;
    let path = folder.join(format!("sherd-bench-device-{}", std::process::id()));
    let measured = measure_file(&path, effort);
    // The file may not even have been made.
    let _ = fs::remove_file(&path);
    let mut figures = measured.map_err(device)?;
    figures.extend(measure_processor(effort));
    Ok(figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn measure_file(path: &Path, effort: Effort) -> io::Result<Vec<(&'static str, f64)>> {
    let file = OpenOptions::new().create_new(true).write(true).open(path)?;
    let bytes = u64::from(effort.syncs) * APPEND_BYTES as u64;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // A file system without it appends to what is not there yet.
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno.into()),
    }
    file.sync_all()?;
    let append = syncs(&file, effort.syncs)?;
    let overwrite = syncs(&file, effort.syncs)?;
    drop(file);
    fs::remove_file(path)?;
    let write = sequential_write(path, effort.file_bytes)?;
    let read = sequential_read(path)?;
    let us = |histogram: &Histogram<u64>, quantile: f64| {
        #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
        let nanos = histogram.value_at_quantile(quantile) as f64;
        nanos / 1000.0
    };
    Ok(vec![
        ("fdatasync_p50_us", us(&append, 0.5)),
        ("fdatasync_p99_us", us(&append, 0.99)),
        ("fdatasync_overwrite_p50_us", us(&overwrite, 0.5)),
        ("fdatasync_overwrite_p99_us", us(&overwrite, 0.99)),
        ("write_mib_s", write),
        ("read_mib_s", read),
    ])
}

/// Times `count` writes of 4 KiB one behind the other, each synced.
fn syncs(file: &File, count: u32) -> io::Result<Histogram<u64>> {
    let mut histogram =
        Histogram::new_with_bounds(1, SYNC_NS_MAX, 3).expect("bounds and digits are in range");
    let mut block = vec![0; APPEND_BYTES];
    for index in 0..count {
        block.fill(index.to_le_bytes()[0]);
        let begin = Instant::now();
        file.write_all_at(&block, u64::from(index) * APPEND_BYTES as u64)?;
        file.sync_data()?;
        histogram.saturating_record(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(histogram)
}

fn sequential_write(path: &Path, bytes: usize) -> io::Result<f64> {
    let buffer = AlignedBuffer::random(STRIDE_BYTES);
    let mut file = open_direct(path, OpenOptions::new().write(true).create(true).truncate(true))?;
    let begin = Instant::now();
    let mut written = 0;
    while written < bytes {
        file.write_all(buffer.bytes())?;
        written += STRIDE_BYTES;
    }
    file.sync_data()?;
    Ok(rate(written, begin.elapsed()))
}

fn sequential_read(path: &Path) -> io::Result<f64> {
    let mut buffer = AlignedBuffer::random(STRIDE_BYTES);
    let mut file = open_direct(path, OpenOptions::new().read(true))?;
    file.rewind()?;
    let begin = Instant::now();
    let mut read = 0;
    loop {
        let length = file.read(buffer.bytes_mut())?;
        if length == 0 {
            return Ok(rate(read, begin.elapsed()));
        }
        read += length;
    }
}

/// Opens past the page cache, or through it where the file system has no other way.
fn open_direct(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).expect("a flag of open");
    match options.clone().custom_flags(direct).open(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => options.open(path),
        other => other,
    }
}

fn measure_processor(effort: Effort) -> Vec<(&'static str, f64)> {
    let source = random(effort.memory_bytes);
    let mut target = vec![0; effort.memory_bytes];
    let bytes = effort.memory_bytes;
    let memory = repeated(bytes, effort.time, || {
        target.copy_from_slice(black_box(&source));
        black_box(target.first());
    });
    // Hashes are measured on what the caches nearly hold: they are slower than memory is.
    let piece = source.get(..bytes.min(8 << 20)).unwrap_or_default();
    let blake3 = repeated(piece.len(), effort.time, || {
        black_box(blake3::hash(black_box(piece)));
    });
    let md5 = repeated(piece.len(), effort.time, || {
        black_box(Md5::digest(black_box(piece)));
    });
    vec![("memory_mib_s", memory), ("blake3_mib_s", blake3), ("md5_mib_s", md5)]
}

/// The best rate of several turns of `work` on `bytes`, in MiB/s: others can only slow it down.
fn repeated(bytes: usize, time: Duration, mut work: impl FnMut()) -> f64 {
    work();
    let begin = Instant::now();
    let mut best: f64 = 0.0;
    loop {
        let turn = Instant::now();
        work();
        best = best.max(rate(bytes, turn.elapsed()));
        if begin.elapsed() >= time {
            return best;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "files and buffers are far below 2^53 bytes")]
fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / MIB / time.as_secs_f64().max(1e-9)
}

fn random(bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    blake3::Hasher::new().update(b"sherd-bench device").finalize_xof().fill(&mut buffer);
    buffer
}

/// A buffer whose bytes begin where the device wants them to.
struct AlignedBuffer {
    buffer: Vec<u8>,
    begin: usize,
    length: usize,
}

impl AlignedBuffer {
    fn random(length: usize) -> Self {
        let buffer = random(length + ALIGNMENT);
        let begin = buffer.as_ptr().align_offset(ALIGNMENT);
        Self { buffer, begin, length }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.begin + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.begin..self.begin + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_measured_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let figures = measure(folder.path(), Effort::MOMENT).unwrap();
        for name in [
            "fdatasync_p50_us",
            "fdatasync_p99_us",
            "fdatasync_overwrite_p50_us",
            "fdatasync_overwrite_p99_us",
            "write_mib_s",
            "read_mib_s",
            "memory_mib_s",
            "blake3_mib_s",
            "md5_mib_s",
        ] {
            assert!(figures.get(name).is_some_and(|value| *value > 0.0), "{name}: {figures:?}");
        }
        assert!(figures["fdatasync_p50_us"] > 0.5, "no sync takes less than two system calls: {figures:?}");
        assert!(figures["fdatasync_p50_us"] <= figures["fdatasync_p99_us"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(measure(&file.path().join("x"), Effort::MOMENT).is_err());
    }
}
