//! The bench that pages measure with: options of the command line, a folder on the device, rows and faults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::error::Error;
use super::rounds::Rounds;
use crate::limits::MOMENT_WINDOW;
use crate::load::run::Outcome;
use crate::load::tally::Fault;
use crate::result::Row;

/// The options that every question takes.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Options {
    /// Folder that takes `QUESTION.json`
    #[arg(long, global = true, default_value = "bench/results", value_name = "FOLDER")]
    pub(super) out: PathBuf,
    /// Folder on the device to measure; what is made in it is removed at the end
    #[arg(long, global = true, default_value = ".", value_name = "FOLDER")]
    pub(super) dir: PathBuf,
    /// The node's program, where it is asked [default: sherd-node beside this program]
    #[arg(long, global = true, value_name = "PATH")]
    pub(super) binary: Option<PathBuf>,
    /// How often every measurement is made; the medians are kept
    #[arg(long, global = true, default_value_t = 5, value_name = "COUNT")]
    pub(super) rounds: usize,
    /// Seconds of one measurement
    #[arg(long, global = true, default_value_t = 1.0, value_name = "SECONDS")]
    pub(super) seconds: f64,
    /// Only to see that it runs: one round of almost nothing
    #[arg(long, global = true)]
    pub(super) moment: bool,
}

/// The options of a run, and its rows and faults so far.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) options: Options,
    pub(super) device: BTreeMap<String, f64>,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) rounds: Rounds,
    pub(super) faults: u64,
}

impl Bench {
    /// Whether this run only shows that the page works.
    pub(super) fn is_moment(&self) -> bool {
        self.options.moment
    }

    pub(super) fn rounds(&self) -> usize {
        if self.is_moment() { 1 } else { self.options.rounds.max(1) }
    }

    pub(super) fn window(&self) -> Duration {
        if self.is_moment() {
            MOMENT_WINDOW
        } else {
            Duration::try_from_secs_f64(self.options.seconds).unwrap_or_default()
        }
    }

    /// The whole of `all`, or its first `count` for a moment.
    pub(super) fn some<'a, T>(&self, all: &'a [T], count: usize) -> &'a [T] {
        if self.is_moment() { &all[..count.min(all.len())] } else { all }
    }

    pub(super) fn folder(&self) -> Result<tempfile::TempDir, Error> {
        let folder = tempfile::Builder::new().prefix("sherd-bench-").tempdir_in(&self.options.dir);
        folder.map_err(Error::at("make a folder to measure in"))
    }

    pub(super) fn add(&mut self, row: Row) {
        self.rounds.add(row);
    }

    pub(super) fn set(&mut self, name: &str, value: &impl ToString) {
        self.settings.insert(name.to_owned(), value.to_string());
    }

    /// Counts the operations of the load generator that failed.
    pub(super) fn count(&mut self, outcome: &Outcome) {
        self.faults += outcome.tally.errors();
    }

    /// Counts failed operations except answers 503, where clients must expect some: these stand only in the
    /// row's `errors` and flags.
    pub(super) fn count_all_but_503(&mut self, outcome: &Outcome) {
        let is_503 = |fault: &Fault| matches!(fault, Fault::SlowDown | Fault::Status(503, _));
        let faults = outcome.tally.faults.iter();
        self.faults += faults.filter(|(fault, _)| !is_503(fault)).map(|(_, times)| times).sum::<u64>();
    }

    pub(super) fn fault(&mut self, what: &str) {
        eprintln!("sherd-bench: {what}");
        self.faults += 1;
    }
}
