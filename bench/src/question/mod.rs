//! The questions whose answers decide how the store works, each measured: `answer QUESTION`.
//!
//! A question is a `Page`: what it compares, and the rows that come of it. All else is this frame's: a page
//! is asked for its rounds, in which every case has its turn, so that whatever else the machine does meets
//! all of them alike; the medians are kept, beside the machine, the device and the settings. Every write is
//! synced, every byte that is read is compared with what was written, and what went wrong is counted and ends
//! the command with 1.
//!
//! `turns` is for what is computed on one thread, `crowd` for threads on one device, `cold` for reads without
//! the page cache, `node` for what is asked of the node's own program.

mod cold;
mod crowd;
mod node;
mod rounds;
mod turns;

pub mod allocations;
pub mod checksums;
pub mod cluster;
pub mod degraded;
pub mod erasure;
pub mod etag;
pub mod growth;
pub mod read_path;
pub mod small_objects;
pub mod write_path;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::host::{self, device};
use crate::load::run::Outcome;
use crate::load::tally::Fault;
use crate::result::{self, Results, Row, SCHEMA};
use rounds::Rounds;

/// Answers one of the questions that decide how the store works
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    question: Question,
    #[command(flatten)]
    common: Common,
}

/// The questions.
#[derive(Debug, clap::Subcommand)]
enum Question {
    /// Memory: what a request allocates in a whole node
    Allocations(allocations::Arguments),
    /// Checksums over lists of buffers against one buffer
    Checksums(checksums::Arguments),
    /// Four nodes: requests through all of them, beside a peer's four
    Cluster(cluster::Arguments),
    /// Volumes lost: what requests cost meanwhile, and how fast a volume is healed
    Degraded(degraded::Arguments),
    /// Erasure code: every kernel against the reference
    Erasure(erasure::Arguments),
    /// ETags: PUTs with MD5 and without
    Etag(etag::Arguments),
    /// Many keys: PUT, LIST, memory, disk and start as a bucket grows
    Growth(growth::Arguments),
    /// Reading: from the page cache first or not, on another thread, past the page cache
    ReadPath(read_path::Arguments),
    /// Small objects: in the row, packed in the log, or a file each
    SmallObjects(small_objects::Arguments),
    /// Writing: page cache or past it, kinds of segments and of syncs
    WritePath(write_path::Arguments),
}

/// What every question takes.
#[derive(Debug, Clone, clap::Args)]
struct Common {
    /// Folder that takes `QUESTION.json`
    #[arg(long, global = true, default_value = "bench/results", value_name = "FOLDER")]
    out: PathBuf,
    /// Folder on the device to measure; what is made in it is removed at the end
    #[arg(long, global = true, default_value = ".", value_name = "FOLDER")]
    dir: PathBuf,
    /// The node's program, where it is asked [default: sherd-node beside this program]
    #[arg(long, global = true, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// How often every measurement is made; the medians are kept
    #[arg(long, global = true, default_value_t = 5, value_name = "COUNT")]
    rounds: usize,
    /// Seconds of one measurement
    #[arg(long, global = true, default_value_t = 1.0, value_name = "SECONDS")]
    seconds: f64,
    /// Only to see that it runs: one round of almost nothing
    #[arg(long, global = true)]
    moment: bool,
}

/// One question.
trait Page {
    /// Its name on the command line, and of its file of results.
    fn name(&self) -> &'static str;

    /// Bytes that may be on the device at one time; without any, nothing is asked of the device.
    fn device_bytes(&self) -> u64;

    /// Measures every case once; `round` counts from 0.
    ///
    /// # Errors
    /// Nothing could be measured.
    fn round(&self, _bench: &mut Bench, _round: usize) -> Result<(), Error> {
        Ok(())
    }

    /// Measures what is too long for rounds, behind them.
    ///
    /// # Errors
    /// Nothing could be measured.
    fn once(&self, _bench: &mut Bench) -> Result<(), Error> {
        Ok(())
    }
}

/// What pages measure with, and what they found.
#[derive(Debug)]
struct Bench {
    common: Common,
    /// The device's own figures.
    device: BTreeMap<String, f64>,
    settings: BTreeMap<String, String>,
    rounds: Rounds,
    /// What went wrong.
    faults: u64,
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
    /// What was read or computed is not what it must be: no figure of this run counts.
    #[error("{what}: not what it must be")]
    OtherBytes {
        /// What was read or computed.
        what: String,
    },
    /// The results cannot be written.
    #[error(transparent)]
    Results(#[from] result::Error),
    /// This build must not be measured with.
    #[error("{0}")]
    Refused(#[from] host::Refusal),
    /// The device would run full.
    #[error(transparent)]
    Full(#[from] host::Full),
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
    let Arguments { question, common } = arguments;
    let path = match &question {
        Question::Allocations(page) => answer(page, common),
        Question::Checksums(page) => answer(page, common),
        Question::Cluster(page) => answer(page, common),
        Question::Degraded(page) => answer(page, common),
        Question::Erasure(page) => answer(page, common),
        Question::Etag(page) => answer(page, common),
        Question::Growth(page) => answer(page, common),
        Question::ReadPath(page) => answer(page, common),
        Question::SmallObjects(page) => answer(page, common),
        Question::WritePath(page) => answer(page, common),
    }?;
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}

fn answer(page: &impl Page, common: Common) -> Result<PathBuf, Error> {
    host::refuse_debug_build(common.moment)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    std::fs::create_dir_all(&common.dir).map_err(Error::at("make the folder to measure in"))?;
    let (needed, moment) = (page.device_bytes(), common.moment);
    if needed > 0 && !moment {
        host::require_room(&common.dir, needed)?;
    }
    let device = if needed > 0 {
        device::measure(&common.dir, device::Effort::of(moment))
    } else {
        Ok(BTreeMap::new())
    };
    let mut bench = Bench {
        device: device.map_err(Error::at("measure the device"))?,
        settings: host::settings(&common.dir),
        rounds: Rounds::default(),
        faults: 0,
        common,
    };
    for round in 0..bench.rounds() {
        page.round(&mut bench, round)?;
    }
    page.once(&mut bench)?;
    bench.set("durability", &"fsync");
    bench.set("rounds", &bench.rounds());
    bench.set("seconds", &bench.window().as_secs_f64());
    if moment {
        bench.set("moment", &true);
    }
    let Bench { common, device, settings, rounds, faults: count } = bench;
    let rows = rounds.rows();
    for row in &rows {
        println!("{}", row.line());
    }
    let results = Results { schema: SCHEMA, suite: page.name().to_owned(), started, settings, device, rows };
    let path = results.write(&common.out)?;
    if count > 0 { Err(Error::Faults { count, path }) } else { Ok(path) }
}

impl Bench {
    /// Only to see that it runs?
    fn is_moment(&self) -> bool {
        self.common.moment
    }

    /// Rounds to make.
    fn rounds(&self) -> usize {
        if self.is_moment() { 1 } else { self.common.rounds.max(1) }
    }

    /// How long one measurement lasts.
    fn window(&self) -> Duration {
        if self.is_moment() {
            Duration::from_millis(20)
        } else {
            Duration::try_from_secs_f64(self.common.seconds).unwrap_or_default()
        }
    }

    /// The whole of `all`, or its first `count` for a moment.
    fn some<'a, T>(&self, all: &'a [T], count: usize) -> &'a [T] {
        if self.is_moment() { &all[..count.min(all.len())] } else { all }
    }

    /// A folder on the device, removed when it is dropped.
    fn folder(&self) -> Result<tempfile::TempDir, Error> {
        let folder = tempfile::Builder::new().prefix("sherd-bench-").tempdir_in(&self.common.dir);
        folder.map_err(Error::at("make a folder to measure in"))
    }

    /// Takes one measurement.
    fn add(&mut self, row: Row) {
        self.rounds.add(row);
    }

    /// Notes what a reader must know beside the rows.
    fn set(&mut self, name: &str, value: &impl ToString) {
        self.settings.insert(name.to_owned(), value.to_string());
    }

    /// Counts what went wrong in a row of the load generator.
    fn count(&mut self, outcome: &Outcome) {
        self.faults += outcome.tally.errors();
    }

    /// The same where a client must expect to be asked to come again later: those are in the row's `errors`
    /// and flags alone.
    fn count_all_but_503(&mut self, outcome: &Outcome) {
        let is_503 = |fault: &Fault| matches!(fault, Fault::SlowDown | Fault::Status(503, _));
        let faults = outcome.tally.faults.iter();
        self.faults += faults.filter(|(fault, _)| !is_503(fault)).map(|(_, times)| times).sum::<u64>();
    }

    /// Takes a fault that is no operation's.
    fn fault(&mut self, what: &str) {
        eprintln!("sherd-bench: {what}");
        self.faults += 1;
    }
}

/// Fills a file from its start and syncs it, so that later writes change nothing but bytes.
fn fill(path: &Path, bytes: u64, with: u8) -> io::Result<std::fs::File> {
    use std::os::unix::fs::FileExt as _;
    const PIECE: usize = 1 << 20;
    let file = std::fs::File::create(path)?;
    for offset in (0..bytes).step_by(PIECE) {
        file.write_all_at(&vec![with; PIECE], offset)?;
    }
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests;
