//! A real node for a question: the program itself with four volumes, asked over HTTP as by any client.
//!
//! The node runs in a process of its own, as operators run it. Rows are those of the
//! load generator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use super::bench::Bench;
use super::error::Error;
use crate::client::payload::Payloads;
use crate::limits::{CHANGE_TIMEOUT, METRICS_POLL};
use crate::load::keys::Keys;
use crate::load::run::{self, Outcome, Plan, Target};
use crate::load::schedule::Limit;
use crate::load::sizes::Size;
use crate::load::work::Op;
use crate::load::{bucket, prepare, report};
use crate::result::Row;
use crate::subject::admin::{self, Metrics};
use crate::subject::{End, Subject, Tool};

const BUCKET: &str = "sherd-bench";
const SEED: u64 = 1;
/// Objects that are written to carry earlier commits to all volumes.
const BYSTANDERS: u64 = 8;

#[derive(Debug)]
pub(super) struct BenchNode {
    subject: Subject,
    payloads: Payloads,
    moment: bool,
}

/// A node as it comes, with these flags besides.
fn tool(flags: &[&str]) -> Result<Tool, Error> {
    let mut tool = Tool::find("sherd").map_err(Error::at("describe the node"))?;
    tool.command.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Ok(tool)
}

/// The node's program: as given, or beside this one.
pub(super) fn binary(bench: &Bench) -> Option<PathBuf> {
    let beside = || std::env::current_exe().ok().map(|path| path.with_file_name("sherd-node"));
    bench.options.binary.clone().or_else(beside)
}

/// The row of `outcome` with these labels, and those of the plan.
pub(super) fn row<const N: usize>(
    labels: [(&str, String); N],
    bytes: u64,
    plan: &Plan,
    outcome: &Outcome,
) -> Row {
    let mut row = report::row("", &Size(bytes).to_string(), plan, outcome);
    row.labels.remove("subject");
    row.labels.extend(labels.map(|(name, value)| (name.to_owned(), value)));
    row
}

/// Objects of one size below a prefix; none of them is there yet.
pub(super) fn keys(prefix: &str, bytes: u64) -> Keys {
    Keys::new(&format!("{prefix}/"), Size(bytes))
}

impl BenchNode {
    /// Starts a node as it comes, with these flags besides, and makes the bucket.
    pub(super) fn start(bench: &mut Bench, flags: &[&str]) -> Result<Self, Error> {
        let subject = Subject::start(&tool(flags)?, binary(bench).as_deref(), &bench.options.dir);
        let node = Self::of(subject.map_err(Error::at("start a node"))?, bench)?;
        bench.settings.extend(node.subject.settings());
        Ok(node)
    }

    /// A node that answers, and its bucket, which is made.
    pub(super) fn of(subject: Subject, bench: &Bench) -> Result<Self, Error> {
        bucket::make(&subject, BUCKET).map_err(Error::at("make the bucket"))?;
        Ok(Self { subject, payloads: Payloads::new(SEED), moment: bench.is_moment() })
    }

    pub(super) fn run(&self, plan: &Plan, keys: &mut Keys) -> Result<Outcome, Error> {
        run::run(&self.target(), plan, keys).map_err(Error::at("generate load"))
    }

    /// Writes objects until `wanted` exist.
    pub(super) fn fill(&self, wanted: u64, keys: &mut Keys) -> Result<(), Error> {
        prepare::write(&self.target(), wanted, keys).map_err(Error::at("write the objects"))
    }

    /// Writes objects as `plan` says, after which `wanted` must be there.
    pub(super) fn fill_as(
        &self,
        plan: &Plan,
        wanted: u64,
        keys: &mut Keys,
    ) -> Result<Option<Outcome>, Error> {
        prepare::write_as(&self.target(), plan, wanted, keys).map_err(Error::at("write the objects"))
    }

    fn target(&self) -> Target<'_> {
        Target { subject: &self.subject, bucket: BUCKET, payloads: &self.payloads }
    }

    /// Writes some objects, so that all volumes have the commits so far: a commit reaches them with later
    /// writes.
    pub(super) fn spread_commits(&self, label: &str) -> Result<(), Error> {
        let plan = Plan::new(Op::Put, 1, Limit::Count(BYSTANDERS));
        self.run(&plan, &mut keys(&format!("bystanders-{label}"), 1))?;
        Ok(())
    }

    pub(super) fn memory(&self) -> u64 {
        self.subject.process().and_then(crate::subject::Process::rss_anon).unwrap_or(0)
    }

    /// Ends the node's process, and starts it again with these flags; says how long it took to answer.
    pub(super) fn restart(&mut self, flags: &[&str], end: End) -> Result<Duration, Error> {
        self.subject.restart(&tool(flags)?, end).map_err(Error::at("start the node again"))
    }

    pub(super) fn folder(&self) -> &Path {
        self.subject.folder().expect("the node was started here")
    }

    /// The folder of volume `number`, from 1 to 4.
    pub(super) fn volume(&self, number: usize) -> PathBuf {
        self.folder().join(number.to_string())
    }

    /// Where the node's metrics are.
    pub(super) fn admin(&self) -> Result<SocketAddr, Error> {
        let missing = || io::Error::other("the node did not say where its admin listener is");
        self.subject.admin().ok_or_else(missing).map_err(Error::at("look for the metrics"))
    }

    /// Removes the folder of volume `number` and waits until the node reports the volume as offline.
    pub(super) fn lose(&self, number: usize) -> Result<(), Error> {
        let volume = self.volume(number);
        remove(&volume).map_err(Error::at("remove a volume's folder"))?;
        until(self.admin()?, CHANGE_TIMEOUT, "a lost volume goes offline", |metrics| {
            metrics.volume_state(&volume) == Some("offline")
        })?;
        Ok(())
    }

    /// Makes the folder of volume `number` again, empty, and says when that was.
    pub(super) fn give_back(&self, number: usize) -> Result<Instant, Error> {
        let begin = Instant::now();
        fs::create_dir(self.volume(number)).map_err(Error::at("make a volume's folder again"))?;
        Ok(begin)
    }

    /// [`Process::until_idle`], but for a moment.
    ///
    /// [`Process::until_idle`]: crate::subject::Process::until_idle
    pub(super) fn until_idle(&self, patience: Duration) -> Option<Duration> {
        let process = self.subject.process().filter(|_| !self.moment);
        process.map_or(Some(Duration::ZERO), |process| process.until_idle(patience))
    }
}

/// Waits until `wanted` is true of the metrics at `admin`; returns when that was.
///
/// # Errors
/// It is not true within `patience`.
pub(super) fn until(
    admin: SocketAddr,
    patience: Duration,
    what: &'static str,
    wanted: impl Fn(&Metrics) -> bool,
) -> Result<Instant, Error> {
    let begin = Instant::now();
    loop {
        // A node that starts does not answer yet.
        if admin::scrape(admin).is_ok_and(|metrics| wanted(&metrics)) {
            return Ok(Instant::now());
        }
        if begin.elapsed() > patience {
            return Err(Error::at(what)(io::Error::from(io::ErrorKind::TimedOut)));
        }
        thread::sleep(METRICS_POLL);
    }
}

/// Removes a folder that a node may be writing into.
fn remove(folder: &Path) -> io::Result<()> {
    loop {
        match fs::remove_dir_all(folder) {
            // A file was made while its folder was being emptied.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            other => return other,
        }
    }
}
