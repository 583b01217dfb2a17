//! `sherd-bench compare`: two builds, two endpoints or two commands, run in turn and judged.
//!
//! The order is: warm up, measure A against A for the noise floor, then A B, B A, A B, ... until the 95 %
//! interval of the ratio is narrow. [`Runner`] is the seam: to the rounds, a run is a set of figures. Ends
//! with 0 when nothing is worse, 1 on a regression, and an error when a run failed; the program makes that
//! a 2.

pub mod failure;
pub mod runner;
pub mod operation;
pub mod rounds;
pub mod verdict;
pub mod measure;
pub mod command;
pub mod store;
mod show;
pub(crate) mod chart;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::host;
use crate::host::device::{self, Effort};
use crate::result::{self, Results, SCHEMA};
use command::Figure;
use measure::{Outcome, Plan, StopReason, measure};
use operation::{Operation, Work};
use rounds::Limits;
use runner::{RunError, Runner, Sample, Side};
use store::Stores;

/// Exit code of a comparison in which B is worse.
const REGRESSION: u8 = 1;

/// Compares two builds, two endpoints or two commands by interleaved runs.
#[expect(clippy::struct_excessive_bools, reason = "they are flags of a command line")]
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The base of the comparison.
    pub a: String,
    /// The side that is judged against it.
    pub b: String,
    /// A and B are shell commands: compares their wall time, processor time and peak memory.
    #[arg(long)]
    pub command: bool,
    /// With --command: the commands print their figures as a JSON object, or one number, in the last line.
    #[arg(long, requires = "command")]
    pub stdout: bool,
    /// With --command: figures that decide, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "FIGURES", requires = "command")]
    pub judge: Vec<String>,
    /// With --command: figures of which more is better, beside ops_s and other rates.
    #[arg(long, value_delimiter = ',', value_name = "FIGURES", requires = "command")]
    pub more: Vec<String>,
    /// Operations to run, separated by commas; all of the folder if none is named.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", conflicts_with = "command")]
    pub operations: Vec<String>,
    /// Where stores that are started keep their data.
    #[arg(long, value_name = "DIR", default_value = "sherd-data/bench")]
    pub folder: PathBuf,
    /// Durability of a write that an endpoint has answered; sides must promise the same.
    #[arg(long, value_name = "PROMISE")]
    pub durability: Option<String>,
    /// Folder of the files that define operations.
    #[arg(long, value_name = "DIR", default_value = "bench/operations")]
    pub operations_from: PathBuf,
    /// Runs of A against as many runs of A for the noise floor, 0 for none [default: until it is settled].
    #[arg(long, value_name = "RUNS")]
    pub noise_runs: Option<usize>,
    /// Runs of each side at least.
    #[arg(long, value_name = "RUNS", default_value_t = 5)]
    pub min_runs: usize,
    /// Runs of each side at most.
    #[arg(long, value_name = "RUNS", default_value_t = 50)]
    pub max_runs: usize,
    /// No further run of an operation begins after these seconds; the noise floor has as many of its own.
    #[arg(long, value_name = "SECONDS", default_value_t = 900.0)]
    pub max_seconds: f64,
    /// Width of the 95 % interval of the ratio, as a share of it, under which no more runs are needed.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub interval: f64,
    /// Runs of each side that are thrown away first.
    #[arg(long, value_name = "RUNS", default_value_t = 1)]
    pub warm_up: usize,
    /// Print every figure, not only those that decide or differ.
    #[arg(long)]
    pub all: bool,
    /// Two runs of everything, to see that it works; never ends with 1.
    #[arg(long)]
    pub moment: bool,
    /// Folder for the results and charts.
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    pub out: PathBuf,
    /// Stem of the files' names.
    #[arg(long, value_name = "NAME", default_value = "compare")]
    pub name: String,
}

/// Why nothing was compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument makes no sense.
    #[error("{0}")]
    Usage(&'static str),
    /// The operations cannot be read.
    #[error(transparent)]
    Operations(#[from] operation::Error),
    /// The stores cannot be compared.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The device's own figures cannot be measured.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// A run failed.
    #[error("operation `{operation}`, side {side}: {source}")]
    Run {
        /// The operation.
        operation: String,
        /// The side that ran.
        side: Side,
        /// The cause.
        source: RunError,
    },
    /// No figure that decides is reported by both sides.
    #[error(
        "operation `{operation}`: none of the figures that decide is reported by both sides, only: {found}"
    )]
    NothingToJudge {
        /// The operation.
        operation: String,
        /// The figures that both sides report.
        found: String,
    },
    /// The results cannot be written.
    #[error(transparent)]
    Results(#[from] result::Error),
}

/// Compares as the arguments say, prints the table, and writes results and charts.
///
/// # Errors
/// The arguments make no sense, a run failed, or the results cannot be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let plan = plan(arguments)?;
    let names = [arguments.a.as_str(), arguments.b.as_str()];
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut outcomes = Vec::new();
    let operations = operations(arguments)?;
    let device = limits(arguments, &operations)?;
    for operation in operations {
        outcomes.push(compare(operation, names, &plan, arguments)?);
    }
    print!("{}", show::text(names, &outcomes, arguments.all));
    let results = Results {
        schema: SCHEMA,
        suite: arguments.name.clone(),
        started,
        settings: settings(arguments, &plan, &outcomes),
        device,
        rows: show::rows(&outcomes),
    };
    let written = results.write(&arguments.out)?;
    write_charts(arguments, &outcomes)?;
    println!("written: {}", written.display());
    let worse = outcomes.iter().any(|outcome| outcome.regressions().next().is_some());
    Ok(if worse && !arguments.moment { ExitCode::from(REGRESSION) } else { ExitCode::SUCCESS })
}

fn plan(arguments: &Arguments) -> Result<Plan, Error> {
    let &Arguments { noise_runs, min_runs, max_runs, max_seconds, interval, warm_up, moment, .. } = arguments;
    let compare = Limits::checked((min_runs, max_runs), max_seconds, interval).map_err(Error::Usage)?;
    if noise_runs == Some(1) {
        return Err(Error::Usage("--noise-runs is 0 or at least 2: one run has no spread"));
    }
    let exactly = |runs| Limits::exactly(runs, interval);
    if moment {
        return Ok(Plan { warm_up: 0, noise: Some(exactly(2)), compare: exactly(2) });
    }
    let noise = match noise_runs {
        None => Some(compare),
        Some(0) => None,
        Some(runs) => Some(exactly(runs)),
    };
    Ok(Plan { warm_up, noise, compare })
}

fn operations(arguments: &Arguments) -> Result<Vec<Operation>, Error> {
    if arguments.command {
        let figure = if arguments.stdout { Figure::Stdout } else { Figure::Usage };
        let (judge, more) = (arguments.judge.clone(), arguments.more.clone());
        return Ok(vec![Operation::of_commands(figure, judge, more)]);
    }
    Ok(operation::load(&arguments.operations_from, &arguments.operations)?)
}

fn compare(
    operation: Operation,
    names: [&str; 2],
    plan: &Plan,
    arguments: &Arguments,
) -> Result<Outcome, Error> {
    let name = operation.name.clone();
    let mut runner: Box<dyn Runner> = match &operation.work {
        Work::Command { command, figure, limit } => {
            Box::new(operation::commands(command, names, *figure, *limit))
        }
        Work::Store(load) => {
            let Arguments { folder, durability, moment, .. } = arguments;
            let settings = store::Settings { folder, durability: durability.as_deref(), moment: *moment };
            Box::new(Stores::new(names, load, &settings)?)
        }
    };
    let mut progress = ProgressLines { inner: runner.as_mut(), operation: operation.clone(), count: 0 };
    measure(operation, &mut progress, plan).map_err(|stopped| match stopped {
        StopReason::Run(failure) => {
            Error::Run { operation: name, side: failure.side, source: failure.source }
        }
        StopReason::NothingToJudge(found) => {
            Error::NothingToJudge { operation: name, found: found.join(", ") }
        }
    })
}

/// Prints a line on standard error for each run.
struct ProgressLines<'a> {
    inner: &'a mut dyn Runner,
    operation: Operation,
    count: usize,
}

impl Runner for ProgressLines<'_> {
    fn run(&mut self, side: Side) -> Result<Sample, RunError> {
        let sample = self.inner.run(side)?;
        self.count += 1;
        let decides = |name: &str| {
            self.operation.judge.is_empty() || self.operation.judge.iter().any(|judged| judged == name)
        };
        let figures: Vec<_> = sample
            .figures
            .iter()
            .filter(|(name, _)| decides(name))
            .map(|(name, value)| format!("{name} {}", crate::figure::show(name, *value)))
            .collect();
        eprintln!("{} run {} {side}: {}", self.operation.name, self.count, figures.join(", "));
        Ok(sample)
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.inner.settings()
    }
}

/// The device's own figures, if stores are compared: commands may not use it.
fn limits(arguments: &Arguments, operations: &[Operation]) -> Result<BTreeMap<String, f64>, Error> {
    let stores = operations.iter().any(|operation| matches!(operation.work, Work::Store(_)));
    let effort = Effort::of(arguments.moment);
    Ok(if stores { device::measure(&arguments.folder, effort)? } else { BTreeMap::new() })
}

fn settings(arguments: &Arguments, plan: &Plan, outcomes: &[Outcome]) -> BTreeMap<String, String> {
    // Without stores their folder may not exist; the file system is then that of the current folder.
    let folder = if arguments.folder.exists() { arguments.folder.as_path() } else { Path::new(".") };
    let mut settings = host::settings(folder);
    settings.extend([
        ("a".to_owned(), arguments.a.clone()),
        ("b".to_owned(), arguments.b.clone()),
        ("interval".to_owned(), plan.compare.width.to_string()),
        ("runs".to_owned(), format!("{} to {}", plan.compare.runs_min, plan.compare.runs_max)),
    ]);
    for outcome in outcomes {
        settings.insert(format!("operation {}", outcome.operation.name), outcome.operation.describe());
        settings.extend(outcome.settings.clone());
    }
    settings
}

fn write_charts(arguments: &Arguments, outcomes: &[Outcome]) -> Result<(), Error> {
    for (end, svg) in chart::charts(outcomes) {
        let path: &Path = &arguments.out.join(format!("{}{end}.svg", arguments.name));
        let io = |source| result::Error::Io { path: path.to_owned(), source };
        std::fs::write(path, svg).map_err(io)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
