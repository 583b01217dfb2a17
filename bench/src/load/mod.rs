//! The load generator: S3 operations against any endpoint, every byte verified, errors never counted
//! as operations.
//!
//! ```text
//!   schedule (when) --> engine: epoll, sockets --> exchange (is it right) --> tally
//!   source (what)   -->    ^ request, sign            ^ response, payload       |
//!                                                                     report: row, line
//! ```
//!
//! It shares the machine with what it measures, so it is built to cost little: one thread, no copy of
//! what is sent or compared, signing keys kept. What it costs stands in every row.

pub mod bucket;
pub mod engine;
pub mod exchange;
pub mod keys;
pub mod meter;
pub mod payload;
pub mod random;
pub mod report;
pub mod request;
pub mod response;
pub mod run;
pub mod schedule;
pub mod sign;
pub mod sizes;
pub mod tally;
pub mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use crate::host::{self, Refusal};
use crate::result::{self, Results, SCHEMA};
use crate::subject::{self, Subject, Tool};
use keys::Keys;
use payload::Payloads;
use run::{Outcome, Plan};
use schedule::Limit;
use sizes::{Size, Sizes};
use work::{Mix, Op};

/// Clients that write what a measurement reads.
const PREPARING_CLIENTS: usize = 64;
/// How long a `moment` lasts.
const MOMENT: Duration = Duration::from_millis(300);
/// Objects that a `moment` prepares.
const MOMENT_KEYS: u64 = 50;

/// Measures one operation on an S3 endpoint, or on a store that is started for it.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("who").required(true).args(["endpoint", "subject"]))]
pub struct Arguments {
    /// Endpoint, as http://host:port; credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY
    /// and AWS_REGION.
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// Store to start: sherd, minio, or a file that describes one.
    #[arg(long, value_name = "TOOL")]
    pub subject: Option<String>,
    /// The store's program, instead of looking for it in PATH.
    #[arg(long, value_name = "PATH", requires = "subject")]
    pub binary: Option<PathBuf>,
    /// Where a started store keeps its data.
    #[arg(long, value_name = "DIR", default_value = "sherd-data/bench")]
    pub folder: PathBuf,
    /// What clients do; several one after the other, on the same objects.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "put,get")]
    pub op: Vec<Op>,
    /// Shares of the operations of `mixed`.
    #[arg(long, value_name = "OP:SHARE,...", default_value = "put:30,get:60,delete:10")]
    pub mix: Mix,
    /// Clients, each with a connection and one operation at a time; several numbers one after the other.
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_value = "32")]
    pub clients: Vec<usize>,
    /// Size of the objects.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", conflicts_with = "sizes")]
    pub size: Size,
    /// Sizes of the objects: `4KiB:80,1MiB:20`, or `lognormal:MEDIAN:SIGMA:MAX`.
    #[arg(long, value_name = "SIZES")]
    pub sizes: Option<Sizes>,
    /// Length of a measurement in seconds.
    #[arg(long, default_value = "5", conflicts_with = "count")]
    pub seconds: f64,
    /// Length of a measurement in operations.
    #[arg(long)]
    pub count: Option<u64>,
    /// Seconds before a measurement; 0 for operations that use objects up.
    #[arg(long, default_value = "1")]
    pub warm_up: f64,
    /// Operations per second that are begun whether earlier ones have ended or not; latency is measured
    /// from when they were due.
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Objects that are written before get, head, list, delete and mixed.
    #[arg(long, value_name = "COUNT", default_value = "2000")]
    pub keys: u64,
    /// Write to these keys over and over instead of to new ones.
    #[arg(long)]
    pub overwrite: bool,
    /// Objects of a page of list and delete-objects.
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub page: u64,
    /// Size of a part of a multipart upload.
    #[arg(long, value_name = "SIZE", default_value = "8MiB")]
    pub part_size: Size,
    /// Threads of the generator.
    #[arg(long, default_value = "1")]
    pub threads: usize,
    /// Bucket, which is made if it is not there.
    #[arg(long, default_value = "sherd-bench")]
    pub bucket: String,
    /// Seed of contents and choices.
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Leave the objects on the endpoint.
    #[arg(long)]
    pub keep: bool,
    /// Write the result here, as load.json.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the result as JSON instead of as a table.
    #[arg(long)]
    pub json: bool,
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
    /// There is nothing to measure.
    #[error("{0}")]
    Subject(#[from] subject::Error),
    /// Flags that do not go together, or out of range.
    #[error("--{flag}: {reason}")]
    Flag {
        /// The flag's name.
        flag: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The bucket cannot be made or removed.
    #[error("bucket: {0}")]
    Bucket(#[from] bucket::Error),
    /// The objects to measure with could not be written.
    #[error("only {written} of {wanted} objects could be written: {faults}")]
    Preparation {
        /// Objects there are.
        written: u64,
        /// Objects wanted.
        wanted: u64,
        /// What went wrong, and how often.
        faults: String,
    },
    /// The system lacks threads or polling.
    #[error("generate load: {0}")]
    System(#[from] io::Error),
    /// The result cannot be written.
    #[error("{0}")]
    Results(#[from] result::Error),
}

/// Measures as `arguments` say; the code is 1 when any operation went wrong.
///
/// # Errors
/// Nothing could be measured.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    host::refuse_debug_build(arguments.moment)?;
    let plans = plans(arguments)?;
    let subject = open_subject(arguments)?;
    let made = bucket::make(&subject, &arguments.bucket)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let sizes = arguments.sizes.clone().unwrap_or(Sizes::Fixed(arguments.size));
    let size = sizes.to_string();
    // A prefix of its own keeps runs on one bucket apart.
    let mut keys = Keys::new(&format!("{started}/"), sizes);
    let payloads = Payloads::new(arguments.seed);
    let mut rows = Vec::new();
    if !arguments.json {
        println!("{}", report::heading());
    }
    for plan in &plans {
        prepare(&subject, &arguments.bucket, &payloads, plan, wanted(arguments, plan), &mut keys)?;
        let outcome = run::run(&subject, &arguments.bucket, &payloads, plan, &mut keys)?;
        let row = report::row(&subject.name, &size, plan, &outcome);
        if !arguments.json {
            println!("{}", report::line(&row));
        }
        rows.push(row);
    }
    if subject.process().is_none() && !arguments.keep {
        clean(&subject, &arguments.bucket, &payloads, &mut keys, made)?;
    }
    let failed = rows.iter().any(|row| row.figure("errors").is_some_and(|errors| errors > 0.0));
    let settings = settings(&subject, &plans);
    let results = Results {
        schema: SCHEMA,
        suite: "load".to_owned(),
        started,
        settings,
        device: BTreeMap::new(),
        rows,
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&results).map_err(io::Error::from)?);
    }
    if let Some(folder) = &arguments.out {
        results.write(folder)?;
    }
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Opens what `arguments` name.
fn open_subject(arguments: &Arguments) -> Result<Subject, Error> {
    Ok(match (&arguments.endpoint, &arguments.subject) {
        (Some(url), _) => Subject::endpoint(url)?,
        (None, Some(name)) => {
            Subject::start(&Tool::find(name)?, arguments.binary.as_deref(), &arguments.folder)?
        }
        (None, None) => return Err(Error::Flag { flag: "endpoint", reason: "or --subject is needed" }),
    })
}

/// A plan per operation and number of clients.
fn plans(arguments: &Arguments) -> Result<Vec<Plan>, Error> {
    let flag = |flag, reason| Err(Error::Flag { flag, reason });
    if arguments.clients.iter().any(|clients| !(1..=4096).contains(clients)) {
        return flag("clients", "from 1 to 4096");
    }
    if !(1..=64).contains(&arguments.threads)
        || arguments.clients.iter().any(|clients| *clients < arguments.threads)
    {
        return flag("threads", "from 1 to 64, and no more than clients");
    }
    if arguments.rate.is_some_and(|rate| !(0.001..=1e7).contains(&rate)) {
        return flag("rate", "from 0.001 to 10000000");
    }
    if !(0.0..=86_400.0).contains(&arguments.seconds) || !(0.0..=3_600.0).contains(&arguments.warm_up) {
        return flag("seconds", "from 0 to 86400, and at most 3600 of warm-up");
    }
    if arguments.keys == 0 || arguments.count == Some(0) {
        return flag("keys", "at least 1, like --count");
    }
    if !(5 << 20..=5 << 30).contains(&arguments.part_size.0) {
        return flag("part-size", "from 5MiB to 5GiB");
    }
    let mut plans = Vec::new();
    for clients in &arguments.clients {
        for op in &arguments.op {
            let limit = match arguments.count {
                _ if arguments.moment => Limit::Time(MOMENT),
                Some(count) => Limit::Count(count),
                None => Limit::Time(Duration::from_secs_f64(arguments.seconds)),
            };
            let uses_up = matches!(op, Op::Delete | Op::DeleteObjects);
            let warm_up = if arguments.moment || uses_up { 0.0 } else { arguments.warm_up };
            plans.push(Plan {
                mix: (*op == Op::Mixed).then(|| arguments.mix.clone()),
                threads: arguments.threads,
                rate: arguments.rate,
                warm_up: Duration::from_secs_f64(warm_up),
                page: arguments.page,
                part_bytes: arguments.part_size.0,
                overwrite: arguments.overwrite.then_some(arguments.keys),
                seed: arguments.seed,
                ..Plan::new(*op, *clients, limit)
            });
        }
    }
    Ok(plans)
}

/// How many objects `plan` needs before it.
fn wanted(arguments: &Arguments, plan: &Plan) -> u64 {
    match plan.op {
        Op::Put | Op::Multipart => 0,
        _ if arguments.moment => arguments.keys.min(MOMENT_KEYS),
        Op::Get | Op::Head | Op::List | Op::Delete | Op::DeleteObjects | Op::Mixed => arguments.keys,
    }
}

/// Writes objects until `wanted` are there.
///
/// # Errors
/// Not all of them could be written.
pub fn prepare(
    subject: &Subject,
    bucket: &str,
    payloads: &Payloads,
    plan: &Plan,
    wanted: u64,
    keys: &mut Keys,
) -> Result<(), Error> {
    let missing = wanted.saturating_sub(keys.count());
    if missing == 0 {
        return Ok(());
    }
    let clients = PREPARING_CLIENTS.min(usize::try_from(missing).unwrap_or(PREPARING_CLIENTS));
    let writing = Plan { stall: plan.stall, ..Plan::new(Op::Put, clients, Limit::Count(missing)) };
    let Outcome { tally, .. } = run::run(subject, bucket, payloads, &writing, keys)?;
    let written = keys.count();
    if written < wanted {
        return Err(Error::Preparation { written, wanted, faults: Faults(&tally.faults).to_string() });
    }
    Ok(())
}

/// Deletes all objects, and the bucket if it was made for them.
fn clean(
    subject: &Subject,
    bucket: &str,
    payloads: &Payloads,
    keys: &mut Keys,
    made: bool,
) -> Result<(), Error> {
    let pages = keys.count().div_ceil(1000);
    if pages > 0 {
        let plan = Plan::new(Op::DeleteObjects, 4, Limit::Count(pages));
        let Outcome { tally, .. } = run::run(subject, bucket, payloads, &plan, keys)?;
        if tally.errors() > 0 {
            eprintln!("sherd-bench: some objects are left in {bucket}: {}", Faults(&tally.faults));
            return Ok(());
        }
    }
    if made {
        bucket::remove(subject, bucket)?;
    }
    Ok(())
}

/// Settings that a reader of the result needs.
fn settings(subject: &Subject, plans: &[Plan]) -> BTreeMap<String, String> {
    let mut settings = plans.first().map(report::settings).unwrap_or_default();
    settings.insert("durability".to_owned(), subject.durability.clone());
    for (name, value) in [("version", &subject.version), ("binary", &subject.fingerprint)] {
        if !value.is_empty() {
            settings.insert(format!("{}_{name}", subject.name), value.clone());
        }
    }
    settings
}

/// Faults for people.
#[derive(Debug)]
struct Faults<'a>(&'a BTreeMap<tally::Fault, u64>);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (fault, times)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{times} x {fault}")?;
        }
        Ok(())
    }
}
