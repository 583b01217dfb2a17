//! The questions whose answers decided how the store works, each measured: `answer <question>`.
//!
//! A question compares ways to do one thing, in turns, so that whatever else the machine does meets
//! all of them. What stands in the rows are medians over the rounds. Every write is synced, every
//! read compared with what was written. `--moment` runs the same code on almost nothing.
//!
//! `crowd` is the clients, `bed` one volume with its own threads, `whole` a whole node's store in this
//! process, `pattern` the bytes, `cold` reads without the page cache, `rounds` what becomes of many measurements
//! of one thing; `interleaved` is for what is computed, `served` for what is asked of the node's own program.

#![expect(clippy::cast_precision_loss, reason = "figures are for people: three digits of them count")]

mod bed;
mod cold;
mod crowd;
mod interleaved;
mod pattern;
mod rounds;
mod served;
mod whole;

pub mod checksums;
pub mod degraded;
pub mod erasure;
pub mod etag;
pub mod growth;
pub mod read_path;
pub mod small_objects;
pub mod write_path;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sherd_volume::options::Options;

use crate::alloc;
use crate::host::{self, device};
use crate::result::{self, Results, Row, SCHEMA};

/// Between two looks at what the device writes.
const QUIET_LOOK: Duration = Duration::from_millis(100);
/// Looks at most.
const QUIET_LOOKS_MAX: u32 = 50;
/// Bytes between two looks that are next to nothing.
const QUIET_BYTES: u64 = 256 << 10;

/// `answer <question>`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    question: Question,
}

/// The questions.
#[derive(Debug, clap::Subcommand)]
enum Question {
    /// Small objects: packed in the log, or a file each; in the row, or in shards
    SmallObjects(small_objects::Arguments),
    /// Reading: by pread, from the page cache first, past it, or from a mapping
    ReadPath(read_path::Arguments),
    /// Writing: page cache or past it, kinds of segments and of syncs, threads of a volume
    WritePath(write_path::Arguments),
    /// Erasure code: every kernel against the reference
    Erasure {
        #[command(flatten)]
        arguments: erasure::Arguments,
        /// Folder that takes `erasure.json`
        #[arg(long, default_value = "bench/results", value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Checksums over lists of buffers against one buffer
    Checksums {
        #[command(flatten)]
        arguments: checksums::Arguments,
        /// Folder that takes `checksums.json`
        #[arg(long, default_value = "bench/results", value_name = "FOLDER")]
        out: PathBuf,
    },
    /// ETags: MD5 one stream at a time or side by side, and PUTs with and without it
    Etag(etag::Arguments),
    /// Volumes lost: what requests cost meanwhile, and how fast a volume is healed
    Degraded(degraded::Arguments),
    /// Many keys: PUT, LIST, memory, disk and start as a bucket grows
    Growth(growth::Arguments),
}

/// What every question takes.
#[derive(Debug, Clone, clap::Args)]
pub struct Common {
    /// Folder that takes `<question>.json`
    #[arg(long, default_value = "bench/results", value_name = "FOLDER")]
    out: PathBuf,
    /// Folder on the device to measure; what is made in it is removed at the end
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    dir: PathBuf,
    /// How often every measurement is made; the medians are kept
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    rounds: usize,
    /// Seconds of one measurement
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    seconds: f64,
    /// Leave out the device's own figures, which take ten seconds and a GiB
    #[arg(long)]
    no_device: bool,
    /// Only to see that it runs: one round of almost nothing
    #[arg(long)]
    moment: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that the measurement needs did not work.
    #[error("{action}: {source}")]
    Failed {
        /// What was done.
        action: &'static str,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What was read is not what was written: no figure of this run counts.
    #[error("{what}: not what was written")]
    OtherBytes {
        /// What was read.
        what: String,
    },
    /// The results cannot be written.
    #[error(transparent)]
    Results(#[from] result::Error),
    /// This build must not be measured with.
    #[error(transparent)]
    Refused(#[from] host::Refusal),
    /// The device would run full.
    #[error("{} has {} MiB free, {} MiB are needed", folder.display(), free >> 20, needed >> 20)]
    Full {
        /// The folder on the device.
        folder: PathBuf,
        /// Bytes that are free there,
        free: u64,
        /// and bytes that may be needed.
        needed: u64,
    },
    /// The results are there, and not to be believed without a look.
    #[error("{}: {count} operations went wrong", path.display())]
    Faults {
        /// How many.
        count: u64,
        /// The results, whose flags say what.
        path: PathBuf,
    },
}

impl Error {
    /// For `map_err`.
    fn at<E: Into<Box<dyn std::error::Error + Send + Sync>>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Failed { action, source: source.into() }
    }
}

/// Answers the question and says where the answer is.
///
/// # Errors
/// [`Error`].
pub fn run(arguments: Arguments) -> Result<ExitCode, Error> {
    let path = answer(arguments.question)?;
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}

fn answer(question: Question) -> Result<PathBuf, Error> {
    match question {
        Question::SmallObjects(arguments) => small_objects::run(&arguments),
        Question::ReadPath(arguments) => read_path::run(&arguments),
        Question::WritePath(arguments) => write_path::run(&arguments),
        Question::Etag(arguments) => etag::run(&arguments),
        Question::Degraded(arguments) => degraded::run(&arguments),
        Question::Growth(arguments) => growth::run(&arguments),
        Question::Erasure { arguments, out } => {
            let mut results = erasure::run(&arguments).map_err(Error::at("compare the kernels"))?;
            results.settings.extend(host::settings(Path::new(".")));
            Ok(results.write(&out)?)
        }
        Question::Checksums { arguments, out } => {
            let allocations: fn() -> u64 = || alloc::Counts::now().allocations;
            let mut results = checksums::run(&arguments, Some(allocations))
                .map_err(Error::at("compare the ways to check a list"))?;
            results.settings.extend(host::settings(Path::new(".")));
            Ok(results.write(&out)?)
        }
    }
}

impl Common {
    /// Rounds to make.
    fn rounds(&self) -> usize {
        if self.moment { 1 } else { self.rounds.max(1) }
    }

    /// How long one measurement lasts.
    fn window(&self) -> Duration {
        if self.moment {
            Duration::from_millis(20)
        } else {
            Duration::try_from_secs_f64(self.seconds).unwrap_or_default()
        }
    }

    /// How volumes are run: as in a node, and with little to make in a moment.
    fn options(&self) -> Options {
        if self.moment {
            Options { segment_bytes: 4 << 20, ballast_bytes: 64 << 10, ..Options::default() }
        } else {
            Options::default()
        }
    }

    /// A folder on the device, removed when it is dropped.
    fn folder(&self) -> Result<tempfile::TempDir, Error> {
        tempfile::Builder::new()
            .prefix("sherd-bench-")
            .tempdir_in(&self.dir)
            .map_err(Error::at("make a folder to measure in"))
    }

    /// The device's own figures, unless they are not wanted.
    fn device(&self) -> Result<BTreeMap<String, f64>, Error> {
        if self.no_device {
            return Ok(BTreeMap::new());
        }
        device::measure(&self.dir, device::Effort::of(self.moment)).map_err(Error::at("measure the device"))
    }

    /// Writes the answer, beside what the machine and the device are.
    fn write(&self, suite: &str, started: SystemTime, rows: Vec<Row>) -> Result<PathBuf, Error> {
        self.write_beside(suite, started, rows, self.device()?, BTreeMap::new())
    }

    /// Writes the answer, beside what the machine is and what is known of the device and else.
    fn write_beside(
        &self,
        suite: &str,
        started: SystemTime,
        rows: Vec<Row>,
        device: BTreeMap<String, f64>,
        more: BTreeMap<String, String>,
    ) -> Result<PathBuf, Error> {
        let mut settings = host::settings(&self.dir);
        settings.extend(more);
        if self.moment {
            settings.insert("moment".to_owned(), "true".to_owned());
        }
        settings.extend(
            [
                ("durability", "fsync".to_owned()),
                ("rounds", self.rounds().to_string()),
                ("seconds", self.window().as_secs_f64().to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        let started = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let results = Results { schema: SCHEMA, suite: suite.to_owned(), started, settings, device, rows };
        Ok(results.write(&self.out)?)
    }

    /// The moment at which the answer begins; a build that must not be measured with ends here.
    fn begin(&self) -> Result<SystemTime, Error> {
        host::refuse_debug_build(self.moment)?;
        Ok(SystemTime::now())
    }
}

/// A runtime as a node has it: a thread for every core.
fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::at("start the runtime"))
}

/// A size as the rows name it: `4KiB`.
fn size_name(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{}GiB", bytes >> 30),
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        bytes => format!("{bytes}B"),
    }
}

/// CPU time of this process, all threads.
fn cpu() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

impl Common {
    /// Bytes that the device below the folder has written; `None` where the system does not count them,
    /// as for a file system in memory. What the process gave to the page cache would be the wrong figure:
    /// a write of 4 KiB may dirty a folio many times as large.
    fn disk_bytes(&self) -> Option<u64> {
        let device = rustix::fs::stat(&self.dir).ok()?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
        // Reads, merges, sectors, ticks; writes, merges, sectors: of 512 bytes, whatever the device has.
        let sectors: u64 = stat.split_whitespace().nth(6)?.parse().ok()?;
        Some(sectors * 512)
    }

    /// Waits until the device writes next to nothing: what the measurement before set off (segments made
    /// ready, flushes, merges) is not the next one's. Not for long, for others may use the device.
    async fn until_quiet(&self) {
        let looks = if self.moment { 0 } else { QUIET_LOOKS_MAX };
        let mut written = self.disk_bytes();
        for _ in 0..looks {
            tokio::time::sleep(QUIET_LOOK).await;
            let before = std::mem::replace(&mut written, self.disk_bytes());
            let calm = |(before, now): (u64, u64)| now.saturating_sub(before) < QUIET_BYTES;
            if before.zip(written).is_none_or(calm) {
                return;
            }
        }
    }

    /// A row with what the device wrote for each operation since `before`.
    fn with_disk_bytes(&self, row: Row, before: Option<u64>, ops: u64) -> Row {
        let written = before.zip(self.disk_bytes()).map(|(before, now)| now.saturating_sub(before));
        match written {
            Some(written) => row.with("disk_bytes_op", written as f64 / ops.max(1) as f64),
            None => row,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tests of all questions pass.
    pub(super) fn a_moment(folder: &std::path::Path) -> Common {
        Common {
            out: folder.join("results"),
            dir: folder.to_owned(),
            rounds: 1,
            seconds: 0.02,
            no_device: false,
            moment: true,
        }
    }

    #[test]
    fn sizes_are_named_by_their_largest_whole_unit() {
        let names = [1, 512, 4096, 3 << 20, 1 << 30, 1500].map(size_name);
        assert_eq!(names, ["1B", "512B", "4KiB", "3MiB", "1GiB", "1500B"]);
    }
}
