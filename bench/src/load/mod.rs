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
//! sent or compared bytes, signing keys kept. Its own processor time stands in every row.

mod error;
pub mod arguments;
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
pub mod meter;
pub mod progress;
pub mod tally;

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

pub use arguments::Arguments;
pub use error::Error;

use crate::client::payload::Payloads;
use crate::host::{self, device};
use crate::result::{Results, SCHEMA};
use keys::Keys;
use run::Target;

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
