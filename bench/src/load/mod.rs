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

pub mod arguments;
pub mod ask;
pub mod bucket;
pub mod prepare;
pub mod run;
pub mod report;
pub mod work;
pub mod sizes;
pub mod keys;
pub mod schedule;
pub mod engine;
pub mod exchange;
pub mod request;
pub mod response;
pub mod sign;
pub mod payload;
pub mod checksum;
pub mod random;
pub mod meter;
pub mod progress;
pub mod tally;

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

pub use arguments::Arguments;

use crate::host::{self, Refusal, device};
use crate::result::{self, Results, SCHEMA};
use crate::subject;
use keys::Keys;
use payload::Payloads;
use run::Target;

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
    Bucket(#[from] ask::Error),
    /// The objects to measure with could not be written.
    #[error("{subject}: only {written} of {wanted} objects could be written: {faults}")]
    Preparation {
        /// The store.
        subject: String,
        /// Objects there are.
        written: u64,
        /// Objects wanted.
        wanted: u64,
        /// What went wrong, and how often.
        faults: String,
    },
    /// The device's own figures cannot be measured.
    #[error("{0}")]
    Device(#[from] device::Error),
    /// A store would run into the end of the disk.
    #[error("{0}")]
    Full(#[from] host::Full),
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
    let plans = arguments.plans()?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // The device is measured before a store uses it, and only for a result that is kept.
    let folder = arguments.data_folder();
    let limits = match &arguments.out {
        Some(_) if arguments.has_device() => device::measure(&folder, device::Effort::of(arguments.moment))?,
        _ => BTreeMap::new(),
    };
    let subject = arguments.open_subject()?;
    let size = arguments.size.to_string();
    // A prefix of its own keeps runs on one bucket apart.
    let mut keys = Keys::new(&format!("{started}/"), arguments.size);
    keys.folder_digits = arguments.op.iter().map(|op| op.folder_digits()).max().unwrap_or(0);
    let payloads = Payloads::new(arguments.seed);
    let target = Target { subject: &subject, bucket: &arguments.bucket, payloads: &payloads };
    let made = bucket::make(&subject, &arguments.bucket)?;
    let mut rows = Vec::new();
    for plan in &plans {
        prepare::write(&target, arguments.wanted(plan), &mut keys)?;
        let outcome = run::run(&target, plan, &mut keys)?;
        let row = report::row(&subject.name, &size, plan, &outcome);
        if !arguments.json {
            println!("{}", row.line());
        }
        rows.push(row);
    }
    if subject.process().is_none() && !arguments.keep {
        prepare::clean(&target, &mut keys, made)?;
    }
    let failed = rows.iter().any(|row| row.figure("errors").is_some_and(|errors| errors > 0.0));
    let mut settings = host::settings(&folder);
    settings.extend(plans.first().map(report::settings).unwrap_or_default());
    settings.extend(subject.settings());
    let results =
        Results { schema: SCHEMA, suite: "load".to_owned(), started, settings, device: limits, rows };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&results).map_err(io::Error::from)?);
    }
    if let Some(folder) = &arguments.out {
        results.write(folder)?;
    }
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
