//! `sherd-bench race`: transfer tools against each other, on stores that are started for it or on endpoints.
//!
//! ```text
//! show     the table, rows of results, charts
//! track    a store: one run of a tool, verified
//! witness  the bench's own view of a store
//! field    rounds of all tools, and how they stand
//! tool     a tool and its commands
//! course   rows, and the files that they move
//! ```
//! Ends with 1 where the first tool is slower than another in a row, beyond chance and noise, or any tool is
//! out.

mod show;
mod track;
mod witness;
mod field;
mod tool;
mod course;
mod error;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use self::course::{COURSES, Course};
pub use self::error::Error;
use self::field::{AGAIN, DECIDES, Heat};
use self::tool::TransferTool;
use self::track::Track;
use self::witness::Witness;
use crate::client::payload::Payloads;
use crate::compare::rounds::Limits;
use crate::host::device::{self, Effort};
use crate::host::{self, require_room};
use crate::limits::RACE_ROOM_BYTES;
use crate::load::bucket;
use crate::result::{Results, SCHEMA};
use crate::subject::folder::Folder;
use crate::subject::{Subject, Tool};

/// Bytes of which files are cut: few, for a tool's peak of memory counts only above that of the bench.
const POOL_BYTES: usize = 4 << 20;

/// Races transfer tools on stores: large and small files up and down, a list, a sync; every outcome verified.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The tools, by name or file of bench/race: the first is raced against the others, of which those that
    /// are not in PATH are named and left out
    #[arg(long, value_delimiter = ',', value_name = "TOOLS", default_value = "sherd,aws,s5cmd,mc,rclone")]
    pub tools: Vec<String>,
    /// Program of the first tool [default: that of its file]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Stores, by name or file of bench/tools, or http:// endpoints; those without their program are named
    /// and left out
    #[arg(long, value_delimiter = ',', value_name = "STORES", default_value = "sherd,sherd-cluster,minio")]
    pub stores: Vec<String>,
    /// Program of the stores of Sherd
    #[arg(long, value_name = "FILE", default_value = "target/release/sherd-node")]
    pub binary: PathBuf,
    /// Program of the other stores [default: that of their file, in PATH]
    #[arg(long, value_name = "FILE")]
    pub peer_binary: Option<PathBuf>,
    /// Rows, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    pub rows: Vec<String>,
    /// Rounds of a row that are thrown away first
    #[arg(long, value_name = "ROUNDS", default_value_t = 1)]
    pub warm_up: usize,
    /// Rounds of a row at least
    #[arg(long, value_name = "ROUNDS", default_value_t = 5)]
    pub min_runs: usize,
    /// Rounds of a row at most
    #[arg(long, value_name = "ROUNDS", default_value_t = 10)]
    pub max_runs: usize,
    /// No further round of a row begins after these seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    pub max_seconds: f64,
    /// Width of the 95 % interval of the ratios, as a share, under which no more rounds are needed
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub interval: f64,
    /// Folder for files and stores, with 12 GiB free
    #[arg(long, value_name = "DIR", default_value = "sherd-data/bench")]
    pub folder: PathBuf,
    /// Folder for the results and charts
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    pub out: PathBuf,
    /// Two rounds of a hundredth of each row, to see that it works: no time is judged, a tool that is out is
    #[arg(long)]
    pub moment: bool,
}

/// A store of a race.
#[derive(Debug)]
enum StoreChoice {
    Started(Box<Tool>, Option<PathBuf>),
    Endpoint(String),
}

/// Races as the arguments say, prints the table, and writes results and charts.
///
/// # Errors
/// The arguments make no sense, or a store or the disk failed. A tool that fails is a line of the table.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    host::refuse_debug_build(arguments.moment)?;
    let limits = limits(arguments)?;
    let courses = courses(arguments)?;
    let (tools, absent) = tools(arguments)?;
    let stores = stores(arguments)?;
    let scratch = Folder::new("race", &arguments.folder).map_err(Error::file("make", &arguments.folder))?;
    let files = courses.iter().map(|course| course.room_bytes(tools.len() as u64)).max().unwrap_or(0);
    require_room(&scratch.0, files + if arguments.moment { 0 } else { RACE_ROOM_BYTES })?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut settings = host::settings(&arguments.folder);
    settings.extend(absent.into_iter().map(|name| (format!("absent {name}"), "not in PATH".to_owned())));
    settings.insert("interval".to_owned(), limits.width.to_string());
    let payloads = Payloads::with_pool(1, POOL_BYTES);
    let mut heats = Vec::new();
    for store in stores {
        let subject = match store {
            StoreChoice::Started(tool, program) => {
                Subject::start(&tool, program.as_deref(), &arguments.folder)?
            }
            StoreChoice::Endpoint(urls) => Subject::endpoint(&urls)?,
        };
        settings.extend(subject.settings());
        let bucket = format!("sherd-race-{}", std::process::id());
        if !bucket::make(&subject, &bucket)? {
            return Err(Error::Usage("the bucket of the race is there already"));
        }
        let witness = Witness { subject: &subject, bucket: &bucket, payloads: &payloads };
        let track = Track { witness, tools: &tools, scratch: &scratch.0, moment: arguments.moment };
        let raced = track.versions().and_then(|versions| {
            settings.extend(versions);
            courses
                .iter()
                .map(|course| heat(&track, *course, arguments, &limits))
                .collect::<Result<Vec<_>, _>>()
        });
        if subject.process().is_none() {
            // An endpoint is left as it was, also after an error; a store that was started ends with its
            // value.
            witness.remove("")?;
            bucket::remove(&subject, &bucket)?;
        }
        heats.extend(raced?);
    }
    // After the tools, whose peaks of memory count only above that of this process.
    let device = device::measure(&arguments.folder, Effort::of(arguments.moment))?;
    print!("{}", show::text(&heats, limits.width));
    let results = Results {
        schema: SCHEMA,
        suite: "race".to_owned(),
        started,
        settings,
        device,
        rows: show::rows(&heats, limits.width),
    };
    println!("written: {}", results.write(&arguments.out)?.display());
    for (store, svg) in show::charts(&heats) {
        let store = store.replace([':', '/'], "-");
        let path = arguments.out.join(format!("race-{store}.svg"));
        std::fs::write(&path, svg).map_err(Error::file("write", &path))?;
    }
    let is_lost = !arguments.moment && heats.iter().any(Heat::is_lost);
    let is_wrong = is_lost || heats.iter().any(Heat::has_fault);
    Ok(if is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn limits(arguments: &Arguments) -> Result<Limits, Error> {
    let &Arguments { min_runs, max_runs, max_seconds, interval, moment, .. } = arguments;
    let limits = Limits::checked((min_runs, max_runs), max_seconds, interval).map_err(Error::Usage)?;
    Ok(if moment { Limits::exactly(2, interval) } else { limits })
}

fn courses(arguments: &Arguments) -> Result<Vec<Course>, Error> {
    let Arguments { rows, moment, .. } = arguments;
    if let Some(row) = rows.iter().find(|row| COURSES.iter().all(|course| course.name != **row)) {
        let rows = COURSES.map(|course| course.name).join(", ");
        return Err(Error::UnknownRow { name: row.clone(), rows });
    }
    let wanted =
        COURSES.into_iter().filter(|course| rows.is_empty() || rows.iter().any(|row| row == course.name));
    Ok(wanted.map(|course| if *moment { course.short() } else { course }).collect())
}

/// The tools that are there, the first and the same again before the others, and the names of those that are
/// not.
fn tools(arguments: &Arguments) -> Result<(Vec<TransferTool>, Vec<String>), Error> {
    let (first, others) = arguments.tools.split_first().ok_or(Error::Usage("--tools names none"))?;
    let first = TransferTool::find(first)?.located(arguments.program.as_deref());
    let first = first.ok_or(Error::Usage("the program of the first tool is not there: give --program"))?;
    let mut tools = vec![first; AGAIN + 1];
    tools[AGAIN].name.push_str(" again");
    let mut absent = Vec::new();
    for name in others {
        if let Some(tool) = TransferTool::find(name)?.located(None) {
            tools.push(tool);
        } else {
            eprintln!("sherd-bench: ABSENT: {name} is not in PATH");
            absent.push(name.clone());
        }
    }
    if tools.len() == AGAIN + 1 && !arguments.moment {
        return Err(Error::Usage("none of the other --tools is in PATH"));
    }
    Ok((tools, absent))
}

/// The stores that can be started or asked.
fn stores(arguments: &Arguments) -> Result<Vec<StoreChoice>, Error> {
    let mut stores = Vec::new();
    for name in &arguments.stores {
        if name.starts_with("http://") {
            stores.push(StoreChoice::Endpoint(name.clone()));
            continue;
        }
        let tool = Tool::find(name)?;
        if tool.tls {
            return Err(Error::Usage("a race is run in clear: its stores have no `tls`"));
        }
        let is_own = tool.binary == Path::new("sherd-node");
        let program = if is_own { Some(arguments.binary.clone()) } else { arguments.peer_binary.clone() };
        match tool.locate(program.as_deref()) {
            Ok(_) => stores.push(StoreChoice::Started(Box::new(tool), program)),
            Err(error) => eprintln!("sherd-bench: ABSENT: {error}"),
        }
    }
    if stores.is_empty() { Err(Error::Usage("none of --stores is there")) } else { Ok(stores) }
}

/// Runs one row on one store.
fn heat(track: &Track<'_>, course: Course, arguments: &Arguments, limits: &Limits) -> Result<Heat, Error> {
    let store = track.witness.subject.name.clone();
    let names: Vec<&str> = track.tools.iter().map(|tool| tool.name.as_str()).collect();
    let warm_up = if arguments.moment { 0 } else { arguments.warm_up };
    let mut prepared = track.prepare(course)?;
    let (field, stop) = field::race(&names, warm_up, limits, &mut |place, round| {
        let sample = track.run(&mut prepared, place, round);
        let said = match &sample {
            Ok(sample) => format!("{:.2} s", sample.figures[DECIDES]),
            Err(failure) => failure.to_string(),
        };
        eprintln!("{store} {} round {} {}: {said}", course.name, round + 1, names[place]);
        sample
    })?;
    track.clear()?;
    Ok(Heat { store, course, field, stop })
}
