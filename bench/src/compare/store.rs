//! Runs an operation of the load generator on either of two stores.
//!
//! A side is a program of Sherd, a tool that `subject` can start, or an endpoint. A store that is only read
//! is filled once and keeps running. An operation that writes or deletes begins with an empty store in every
//! run, so that no run finds objects or garbage of another. Called by `compare` for operations with an `op`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use super::failure::StoreError;
use super::operation::Load;
use super::runner::{RunError, Runner, Sample, Side};
use crate::client::checksum::Checksum;
use crate::client::payload::Payloads;
use crate::host::{self, Refusal};
use crate::limits::{COMPARE_WARM_UP, MOMENT_RUN};
use crate::load::keys::Keys;
use crate::load::prepare;
use crate::load::run::{self, Plan, Target};
use crate::load::schedule::Limit;
use crate::load::sizes::Size;
use crate::load::work::Op;
use crate::load::{bucket, report};
use crate::subject::{self, Subject, Tool};

/// The tool behind a path to a program.
const SHERD: &str = "sherd";

/// Durability of an endpoint for which the command line states none.
const UNKNOWN: &str = "unknown";

/// Buckets of the sides: endpoints may be the same one.
const BUCKETS: [&str; 3] = ["sherd-bench-a", "sherd-bench-again", "sherd-bench-b"];

/// The mix of `mixed`.
const MIX: &str = "put:30,get:60,delete:10";

/// Objects that a run finds, for a moment.
const MOMENT_KEYS: u64 = 50;

/// Figures of a row that only tell how long it was.
const COUNTS: [&str; 3] = ["ops", "seconds", "errors"];

/// How stores are run.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// Where started stores keep their data.
    pub folder: &'a Path,
    /// Durability of a write that an endpoint has answered, as stated on the command line.
    pub durability: Option<&'a str>,
    /// Only to see that it runs.
    pub moment: bool,
}

/// Why stores cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This build must not be measured with.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A side can neither be started nor reached.
    #[error(transparent)]
    Subject(#[from] subject::Error),
    /// The operation is not one of the load generator.
    #[error("`{0}` is no operation of `sherd-bench load`")]
    Op(String),
    /// The size is malformed.
    #[error("`{0}` is no size")]
    Size(String),
    /// The checksum is unknown, or its operation sends none.
    #[error("`{0}` is no checksum of a put or mixed")]
    Checksum(String),
}

/// Two stores and what is done to them.
#[derive(Debug)]
pub struct Stores {
    a: ComparedStore,
    again: ComparedStore,
    b: ComparedStore,
    work: Work,
}

#[derive(Debug)]
struct Work {
    plan: Plan,
    /// Objects that exist before a run.
    wanted: u64,
    size: Size,
    payloads: Payloads,
}

#[derive(Debug)]
struct ComparedStore {
    side: SideStore,
    bucket: &'static str,
    folder: PathBuf,
    open: Option<Open>,
    runs: u64,
    /// Settings of the store that was opened last.
    settings: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq)]
enum SideStore {
    /// A store to start, from this program or the one that the tool names.
    Started(Box<Tool>, Option<PathBuf>),
    /// A running store, by its URL.
    Endpoint(String),
}

#[derive(Debug)]
struct Open {
    subject: Subject,
    keys: Keys,
    /// Whether the bucket was made for this.
    made: bool,
}

impl Stores {
    /// The stores that `sides` name, each an endpoint (`http://...`), a tool, `tool=program`, or a path to
    /// a program of Sherd. Nothing is started yet.
    ///
    /// # Errors
    /// This is a debug build, a side or the operation is not known, or the sides promise different things.
    pub fn new(sides: [&str; 2], load: &Load, settings: &Settings<'_>) -> Result<Self, Error> {
        host::refuse_debug_build(settings.moment)?;
        let [a, b] = sides;
        let (a, b) = (SideStore::of(a)?, SideStore::of(b)?);
        same_promise([(sides[0], &a), (sides[1], &b)], settings.durability)?;
        let work = Work::new(load, settings.moment)?;
        let store = |side, bucket| ComparedStore {
            side,
            bucket,
            folder: settings.folder.to_owned(),
            open: None,
            runs: 0,
            settings: BTreeMap::new(),
        };
        let [in_a, in_again, in_b] = BUCKETS;
        Ok(Self { a: store(a.clone(), in_a), again: store(a, in_again), b: store(b, in_b), work })
    }
}

impl Runner for Stores {
    fn run(&mut self, side: Side) -> Result<Sample, RunError> {
        let store = match side {
            Side::A => &mut self.a,
            Side::Again => &mut self.again,
            Side::B => {
                // The noise is measured, so the second instance of A stops before the comparison.
                self.again.close(&self.work).map_err(|source| RunError::Store(Box::new(source)))?;
                &mut self.b
            }
        };
        store.run(&self.work).map_err(|source| RunError::Store(Box::new(source)))
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let of = |side: &str, store: &ComparedStore| -> Vec<(String, String)> {
            store.settings.iter().map(|(name, value)| (format!("{side}_{name}"), value.clone())).collect()
        };
        [of("a", &self.a), of("b", &self.b)].into_iter().flatten().collect()
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        for store in [&mut self.a, &mut self.again, &mut self.b] {
            if let Err(error) = store.close(&self.work) {
                eprintln!("sherd-bench: objects may be left in {}: {error}", store.bucket);
            }
        }
    }
}

impl SideStore {
    fn of(side: &str) -> Result<Self, subject::Error> {
        if side.contains("://") {
            return Ok(Self::Endpoint(side.to_owned()));
        }
        let started = |name: &str, program: Option<&str>| -> Result<Self, subject::Error> {
            let tool = Tool::find(name)?;
            let program = program.map(PathBuf::from);
            tool.locate(program.as_deref())?;
            Ok(Self::Started(Box::new(tool), program))
        };
        if let Some((name, program)) = side.split_once('=') {
            return started(name, Some(program));
        }
        let path = Path::new(side);
        let is_program =
            path.components().count() > 1 && path.extension().is_none_or(|extension| extension != "toml");
        if is_program { started(SHERD, Some(side)) } else { started(side, None) }
    }

    /// Durability of an answered write.
    fn durability<'a>(&'a self, stated: Option<&'a str>) -> &'a str {
        match self {
            Self::Started(tool, _) => &tool.durability,
            Self::Endpoint(_) => stated.unwrap_or(UNKNOWN),
        }
    }
}

fn same_promise(sides: [(&str, &SideStore); 2], stated: Option<&str>) -> Result<(), subject::Error> {
    let [(one, first), (other, second)] = sides;
    let (one_durability, other_durability) = (first.durability(stated), second.durability(stated));
    if one_durability == other_durability {
        return Ok(());
    }
    Err(subject::Error::UnequalDurability {
        one: one.to_owned(),
        one_durability: one_durability.to_owned(),
        other: other.to_owned(),
        other_durability: other_durability.to_owned(),
    })
}

impl Work {
    fn new(load: &Load, moment: bool) -> Result<Self, Error> {
        let Load { op, size, clients, seconds, keys, checksum } = load;
        let op = Op::from_str(op, false).map_err(|_| Error::Op(op.clone()))?;
        let size = Size::from_str(size).map_err(|_| Error::Size(size.clone()))?;
        let checksum = match checksum {
            None => None,
            Some(name) => match Checksum::from_str(name, false) {
                Ok(checksum) if matches!(op, Op::Put | Op::Mixed) => Some(checksum),
                _ => return Err(Error::Checksum(name.clone())),
            },
        };
        let length = if moment { MOMENT_RUN } else { Duration::from_secs_f64(*seconds) };
        let uses_up = matches!(op, Op::Delete | Op::DeleteObjects);
        let plan = Plan {
            mix: (op == Op::Mixed).then(|| MIX.parse().expect("a mix")),
            warm_up: if moment || uses_up { Duration::ZERO } else { COMPARE_WARM_UP },
            checksum,
            ..Plan::new(op, *clients, Limit::Time(length))
        };
        let keys = u64::try_from(*keys).unwrap_or(u64::MAX);
        let wanted = match op.needs_objects() {
            false => 0,
            true if moment => keys.min(MOMENT_KEYS),
            true => keys,
        };
        Ok(Self { plan, wanted, size, payloads: Payloads::new(1) })
    }

    fn reads_only(&self) -> bool {
        matches!(self.plan.op, Op::Get | Op::Head | Op::List | Op::ListFolders)
    }
}

impl ComparedStore {
    fn run(&mut self, work: &Work) -> Result<Sample, StoreError> {
        self.runs += 1;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin(work)?,
        };
        let target = Target { subject: &open.subject, bucket: self.bucket, payloads: &work.payloads };
        prepare::write(&target, work.wanted, &mut open.keys)?;
        let outcome = run::run(&target, &work.plan, &mut open.keys)?;
        self.open = Some(open);
        let row = report::row("", &work.size.to_string(), &work.plan, &outcome);
        let errors = row.figure("errors").unwrap_or(0.0);
        if errors > 0.0 {
            return Err(StoreError::Wrong { errors, faults: row.flags.join(", ") });
        }
        if row.figure("ops").is_none_or(|ops| ops <= 0.0) {
            return Err(StoreError::Nothing);
        }
        if !work.reads_only() {
            self.close(work)?;
        }
        let mut figures = row.figures;
        figures.retain(|name, _| !COUNTS.contains(&name.as_str()));
        Ok(Sample { figures, flags: row.flags })
    }

    /// Starts or reaches the store and makes the bucket.
    fn begin(&mut self, work: &Work) -> Result<Open, StoreError> {
        let subject = match &self.side {
            SideStore::Started(tool, program) => Subject::start(tool, program.as_deref(), &self.folder)?,
            SideStore::Endpoint(url) => Subject::endpoint(url)?,
        };
        let made = bucket::make(&subject, self.bucket)?;
        let own = format!("{}_", subject.name);
        for (name, value) in subject.settings() {
            self.settings.insert(name.strip_prefix(&own).unwrap_or(&name).to_owned(), value);
        }
        // Names of their own keep runs on an endpoint apart, also from those of another process.
        let prefix = format!("{}-{}/", std::process::id(), self.runs);
        let folder_digits = work.plan.op.folder_digits();
        let keys = Keys { folder_digits, ..Keys::new(&prefix, work.size) };
        Ok(Open { subject, keys, made })
    }

    /// Stops a started store, which removes it; deletes on an endpoint what was written there.
    fn close(&mut self, work: &Work) -> Result<(), StoreError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if matches!(self.side, SideStore::Endpoint(_)) {
            let target = Target { subject: &open.subject, bucket: self.bucket, payloads: &work.payloads };
            prepare::clean(&target, &mut open.keys, open.made)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(side: &str) -> (String, Option<PathBuf>) {
        match SideStore::of(side).unwrap() {
            SideStore::Started(tool, program) => (tool.name, program),
            SideStore::Endpoint(url) => panic!("{url}"),
        }
    }

    fn load(op: &str, size: &str) -> Load {
        Load { op: op.to_owned(), size: size.to_owned(), clients: 8, seconds: 3.0, keys: 700, checksum: None }
    }

    #[test]
    fn a_side_is_a_program_a_tool_or_an_endpoint() {
        let shell = Some(PathBuf::from("/bin/sh"));
        assert_eq!(started("/bin/sh"), ("sherd".to_owned(), shell.clone()));
        assert_eq!(started("minio=/bin/sh"), ("minio".to_owned(), shell));
        let url = "http://127.0.0.1:9000";
        assert_eq!(SideStore::of(url).unwrap(), SideStore::Endpoint(url.to_owned()));
        assert!(matches!(SideStore::of("nothing"), Err(subject::Error::UnknownTool { .. })));
        assert!(matches!(SideStore::of("/nowhere/sherd-node"), Err(subject::Error::NoBinary { .. })));
        assert!(matches!(SideStore::of("/nowhere/own.toml"), Err(subject::Error::ToolFile { .. })));
    }

    #[test]
    fn sides_that_promise_different_things_are_refused() {
        let settings = |durability| Settings { folder: Path::new("/tmp"), durability, moment: true };
        let load = load("put", "4KiB");
        let of = |sides, durability| Stores::new(sides, &load, &settings(durability));
        let mixed = ["/bin/sh", "http://127.0.0.1:9000"];
        let error = of(mixed, None).unwrap_err().to_string();
        assert!(error.contains("fsync") && error.contains("unknown"), "{error}");
        assert!(of(mixed, Some("none")).is_err());
        assert!(of(mixed, Some("fsync")).is_ok());
        assert!(of(["http://127.0.0.1:1", "http://127.0.0.1:2"], None).is_ok());
    }

    #[test]
    fn work_is_that_of_the_load_generator() {
        let of = |op: &str, size: &str| Work::new(&load(op, size), false);
        let put = of("put", "1MiB").unwrap();
        assert_eq!((put.wanted, put.reads_only(), put.plan.clients), (0, false, 8));
        let get = of("get", "4KiB").unwrap();
        assert_eq!((get.wanted, get.reads_only()), (700, true));
        let delete = of("delete-objects", "4KiB").unwrap();
        assert_eq!((delete.wanted, delete.reads_only(), delete.plan.warm_up), (700, false, Duration::ZERO));
        assert!(of("mixed", "4KiB").unwrap().plan.mix.is_some());
        let with =
            |op, name: &str| Work::new(&Load { checksum: Some(name.to_owned()), ..load(op, "4KiB") }, false);
        assert_eq!(with("put", "crc32c").unwrap().plan.checksum, Some(Checksum::Crc32c));
        for (op, name) in [("put", "crc9"), ("get", "crc32c"), ("multipart", "crc32c")] {
            assert!(matches!(with(op, name), Err(Error::Checksum(_))), "{op} {name}");
        }
        assert!(matches!(of("poke", "4KiB"), Err(Error::Op(op)) if op == "poke"));
        assert!(matches!(of("put", "large"), Err(Error::Size(size)) if size == "large"));
    }
}
