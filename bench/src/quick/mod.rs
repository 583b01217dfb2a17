//! `sherd-bench quick`: the project's table of targets in less than ten minutes, our node and a peer in
//! turns.
//!
//! Each group of rows starts new stores, so that the memory in a row is that of the row's load. Each row is
//! measured in turns (ours, theirs, ours, theirs), so that changes of the machine affect both.

pub mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::client::payload::Payloads;
use crate::host::{self, device};
use crate::limits::{MOMENT_BYTES_MAX, PAGE, QUICK_WARM_UP};
use crate::load::keys::Keys;
use crate::load::run::{Outcome, Plan, Target};
use crate::load::schedule::Limit;
use crate::load::sizes::Size;
use crate::load::work::Op;
use crate::load::{self, bucket, prepare, report};
use crate::report::targets::{times, times_better};
use crate::result::{Results, Row, SCHEMA};
use crate::subject::{Subject, Tool, refuse_unequal_durability};
use table::{GROUPS, Group, Objects, Step};

const BUCKET: &str = "sherd-bench";
const SEED: u64 = 1;
/// Turns that each row is measured in.
const TURNS: u32 = 2;
/// Clients that write the objects of listings.
const WRITERS: usize = 128;
/// Bytes that a group may need on the disk: four objects of 1 GiB with parity, of both stores, and a reserve.
const FREE_BYTES: u64 = 18 << 30;
const MOMENT_FREE_BYTES: u64 = 1 << 30;
/// Objects that are listed in a moment: more than a page.
const MOMENT_OBJECTS: u64 = 1100;

/// Measures the table of targets: our node, and a peer in turns with it if one is given.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Our node's program, instead of looking for sherd-node in PATH.
    #[arg(long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
    /// Store to compare with: minio, or a file that describes one.
    #[arg(long, value_name = "TOOL")]
    pub peer: Option<String>,
    /// The peer's program, instead of looking for it in PATH.
    #[arg(long, value_name = "PATH", requires = "peer")]
    pub peer_binary: Option<PathBuf>,
    /// Where the stores keep their data.
    #[arg(long, value_name = "DIR", default_value = "sherd-data/bench")]
    pub folder: PathBuf,
    /// Where the result goes, as quick.json: bench/results by default, and nowhere for a moment.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seconds that each row is measured, each store.
    #[arg(long, default_value = "3")]
    pub seconds: f64,
    /// Objects in the bucket that is listed.
    #[arg(long, default_value = "100000")]
    pub objects: u64,
    /// Only groups of objects of these sizes; 16B is that of listings.
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub only: Vec<Size>,
    /// Run for a moment, to see that it runs: figures mean nothing.
    #[arg(long)]
    pub moment: bool,
}

/// Measures as `arguments` say and writes the result; the code is 1 when any operation went wrong.
///
/// # Errors
/// Nothing could be measured, or the result not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode, load::Error> {
    host::refuse_debug_build(arguments.moment)?;
    let contestants = contestants(arguments)?;
    let begin = Instant::now();
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let limits = device::measure(&arguments.folder, device::Effort::of(arguments.moment))?;
    host::require_room(&arguments.folder, if arguments.moment { MOMENT_FREE_BYTES } else { FREE_BYTES })?;
    let mut settings = host::settings(&arguments.folder);
    settings.insert("turns".to_owned(), TURNS.to_string());
    settings.insert("seconds".to_owned(), arguments.seconds.to_string());
    settings.insert("warm_up_s".to_owned(), QUICK_WARM_UP.as_secs_f64().to_string());
    settings.insert("generator_threads".to_owned(), "1".to_owned());
    settings.insert("moment".to_owned(), arguments.moment.to_string());
    let payloads = Payloads::new(SEED);
    let mut rows = Vec::new();
    for group in &GROUPS {
        if arguments.only.is_empty() || arguments.only.contains(&Size(group.bytes)) {
            measure_group(arguments, &contestants, group, &payloads, &mut settings, &mut rows)?;
        }
    }
    let failed = rows.iter().any(|row: &Row| row.figure("errors").is_some_and(|errors| errors > 0.0));
    let results =
        Results { schema: SCHEMA, suite: "quick".to_owned(), started, settings, device: limits, rows };
    println!("{} rows in {} s", results.rows.len(), begin.elapsed().as_secs());
    let kept = (!arguments.moment).then(|| PathBuf::from("bench/results"));
    if let Some(folder) = arguments.out.clone().or(kept) {
        println!("written to {}", results.write(&folder)?.display());
    }
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The measured tools with their programs, ours first.
type Contestants = Vec<(Tool, Option<PathBuf>)>;

fn contestants(arguments: &Arguments) -> Result<Contestants, load::Error> {
    let mut found = vec![(Tool::find("sherd")?, arguments.binary.clone())];
    if let Some(peer) = &arguments.peer {
        found.push((Tool::find(peer)?, arguments.peer_binary.clone()));
    }
    refuse_unequal_durability(&found.iter().map(|(tool, _)| tool).collect::<Vec<_>>())?;
    for (tool, binary) in &found {
        tool.locate(binary.as_deref())?;
    }
    Ok(found)
}

fn measure_group(
    arguments: &Arguments,
    contestants: &Contestants,
    group: &Group,
    payloads: &Payloads,
    settings: &mut BTreeMap<String, String>,
    rows: &mut Vec<Row>,
) -> Result<(), load::Error> {
    let mut subjects = Vec::new();
    for (tool, binary) in contestants {
        let subject = Subject::start(tool, binary.as_deref(), &arguments.folder)?;
        bucket::make(&subject, BUCKET)?;
        settings.extend(subject.settings());
        subjects.push(subject);
    }
    let bytes = if arguments.moment { group.bytes.min(MOMENT_BYTES_MAX) } else { group.bytes };
    for clients in group.clients {
        let prefix = format!("{}-{clients}/", Size(group.bytes));
        let keys = || Keys::new(&prefix, Size(bytes));
        let mut sides: Vec<(&Subject, Keys)> = subjects.iter().map(|subject| (subject, keys())).collect();
        if group.objects == Objects::Listed {
            let count = if arguments.moment { MOMENT_OBJECTS } else { arguments.objects };
            fill(&mut sides, count, payloads)?;
        }
        for step in group.steps {
            let of_step = measure_step(arguments, group, step, *clients, payloads, &mut sides)?;
            for row in &of_step {
                println!("{}", row.line());
            }
            if let [ours, theirs] = of_step.as_slice() {
                println!("{}", verdict(ours, theirs));
            }
            rows.extend(of_step);
        }
    }
    Ok(())
}

/// Writes the objects of listings to all stores at the same time: that takes the longest of all, and is
/// not measured.
fn fill(sides: &mut [(&Subject, Keys)], count: u64, payloads: &Payloads) -> Result<(), load::Error> {
    let plan = Plan::new(Op::Put, WRITERS, Limit::Count(count));
    let written: Vec<Result<_, load::Error>> = thread::scope(|scope| {
        let fillers: Vec<_> = sides
            .iter_mut()
            .map(|(subject, keys)| {
                let (target, plan) = (Target { subject, bucket: BUCKET, payloads }, &plan);
                scope.spawn(move || prepare::write_as(&target, plan, count, keys))
            })
            .collect();
        fillers
            .into_iter()
            .map(|filler| filler.join().expect("whoever writes objects does not panic"))
            .collect()
    });
    for outcome in written {
        outcome?;
    }
    Ok(())
}

/// Measures one operation on all sides in turns; a row each.
fn measure_step(
    arguments: &Arguments,
    group: &Group,
    step: &Step,
    clients: usize,
    payloads: &Payloads,
    sides: &mut [(&Subject, Keys)],
) -> Result<Vec<Row>, load::Error> {
    let turns = if arguments.moment { 1 } else { TURNS };
    // GETs read the same number of objects of both stores, so that both read the same share of them from the
    // device.
    let fewest = sides.iter().map(|(_, keys)| keys.count()).min().unwrap_or_default();
    let mut outcomes: Vec<Option<Outcome>> = sides.iter().map(|_| None).collect();
    let mut plan = Plan::new(step.op, clients, Limit::Count(1));
    for turn in 0..turns {
        for ((subject, keys), outcome) in sides.iter_mut().zip(&mut outcomes) {
            plan = plan_of(arguments, step, clients, keys, turns - turn);
            let target = Target { subject, bucket: BUCKET, payloads };
            let of_turn = if step.op == Op::Get {
                load::run::run(&target, &plan, &mut keys.first(fewest))?
            } else {
                load::run::run(&target, &plan, keys)?
            };
            match outcome {
                Some(outcome) => outcome.append(of_turn),
                None => *outcome = Some(of_turn),
            }
        }
    }
    let size = Size(group.bytes).to_string();
    let sides = sides.iter().zip(outcomes);
    Ok(sides
        .filter_map(|((subject, keys), outcome)| {
            let mut row = report::row(&subject.name, &size, &plan, &outcome?);
            if group.objects == Objects::Listed && step.op == Op::List {
                row.labels.insert("objects".to_owned(), keys.count().to_string());
            }
            Some(row)
        })
        .collect())
}

/// The plan of one turn of `step`, with `turns_left` turns left, this one included.
fn plan_of(arguments: &Arguments, step: &Step, clients: usize, keys: &Keys, turns_left: u32) -> Plan {
    let time = Limit::Time(Duration::from_secs_f64(arguments.seconds / f64::from(TURNS)));
    let (limit, warm_up) = match step.op {
        _ if arguments.moment => (Limit::Count(clients as u64), Duration::ZERO),
        // Deletions use objects up: each turn takes its share, without a warm-up.
        Op::Delete => (Limit::Count((keys.count() / u64::from(turns_left)).max(1)), Duration::ZERO),
        Op::DeleteObjects => {
            (Limit::Count((keys.count() / PAGE / u64::from(turns_left)).clamp(1, 20)), Duration::ZERO)
        }
        _ => step.count.map_or((time, QUICK_WARM_UP), |count| (Limit::Count(count), Duration::ZERO)),
    };
    Plan { warm_up, page: PAGE, ..Plan::new(step.op, clients, limit) }
}

/// A line that sets ours beside theirs.
fn verdict(ours: &Row, theirs: &Row) -> String {
    let ratio = |name: &str| times_better(name, ours.figure(name), theirs.figure(name));
    let named = [("ops_s", "throughput"), ("server_cpu_us_op", "server time per operation")];
    let better = named.into_iter().filter_map(|(name, what)| Some(format!("{what} {}", times(ratio(name)?))));
    format!("    times better: {}", better.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_in_favour_of_ours_where_it_is_above_one() {
        let row = |ops_s, cpu| Row::default().with("ops_s", ops_s).with("server_cpu_us_op", cpu);
        let line = verdict(&row(4100.0, 20.0), &row(1000.0, 100.0));
        assert!(line.ends_with("throughput 4.10x, server time per operation 5x"), "{line}");
    }

    #[test]
    fn turns_share_what_can_be_deleted_once() {
        let arguments = Arguments {
            binary: None,
            peer: None,
            peer_binary: None,
            folder: PathBuf::new(),
            out: None,
            seconds: 4.0,
            objects: 1,
            only: Vec::new(),
            moment: false,
        };
        let keys = |end| Keys { end, ..Keys::new("", Size(1)) };
        let limit = |op, end, turns| {
            let step = GROUPS.iter().flat_map(|group| group.steps).find(|step| step.op == op).unwrap();
            plan_of(&arguments, step, 1, &keys(end), turns).limit
        };
        assert_eq!(limit(Op::Delete, 1001, 2), Limit::Count(500));
        assert_eq!(limit(Op::Delete, 501, 1), Limit::Count(501));
        assert_eq!(limit(Op::DeleteObjects, 100_000, 2), Limit::Count(20));
        assert_eq!(limit(Op::DeleteObjects, 500, 2), Limit::Count(1));
        assert_eq!(limit(Op::Get, 500, 2), Limit::Time(Duration::from_secs(2)));
    }
}
