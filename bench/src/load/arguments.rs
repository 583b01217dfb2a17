//! The flags of `sherd-bench load`, and the plans that they stand for.

use std::path::PathBuf;
use std::time::Duration;

use super::error::Error;
use super::run::Plan;
use super::schedule::Limit;
use super::sizes::Size;
use super::work::{Mix, Op};
use crate::client::checksum::Checksum;
use crate::limits::MOMENT_RUN;
use crate::subject::{Subject, Tool};

/// Objects that a `moment` prepares.
const MOMENT_KEYS: u64 = 50;

/// Measures one operation on an S3 endpoint, or on a store that is started for it.
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line are independent of each other")]
#[command(group = clap::ArgGroup::new("who").required(true).args(["endpoint", "subject"]))]
pub struct Arguments {
    /// Endpoint, as http://host:port, or several of one store with commas between them, over which clients
    /// are spread; credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY
    /// and AWS_REGION.
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// Store to start: sherd, minio, or a file that describes one.
    #[arg(long, value_name = "TOOL")]
    pub subject: Option<String>,
    /// The store's program, instead of looking for it in PATH.
    #[arg(long, value_name = "PATH", conflicts_with = "endpoint")]
    pub binary: Option<PathBuf>,
    /// Where a started store keeps its data, sherd-data/bench by default; with an endpoint, a folder on
    /// its device, if that is here.
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Operations of the clients; several one after the other, on the same objects.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "put,get")]
    pub op: Vec<Op>,
    /// Shares of the operations of `mixed`.
    #[arg(long, value_name = "OP:SHARE,...", default_value = "put:30,get:60,delete:10")]
    pub mix: Mix,
    /// Clients, each with a connection and one operation at a time; several numbers one after the other.
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_value = "32")]
    pub clients: Vec<usize>,
    /// Size of the objects.
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub size: Size,
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
    /// Checksum that every PUT carries.
    #[arg(long, value_enum)]
    pub checksum: Option<Checksum>,
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

impl Arguments {
    /// Starts the store, or takes the endpoint.
    ///
    /// # Errors
    /// The store cannot be started, or the endpoint cannot be used.
    pub fn open_subject(&self) -> Result<Subject, Error> {
        Ok(match (&self.endpoint, &self.subject) {
            (Some(url), _) => Subject::endpoint(url)?,
            (None, Some(name)) => {
                Subject::start(&Tool::find(name)?, self.binary.as_deref(), &self.data_folder())?
            }
            (None, None) => return Err(Error::Flag { flag: "endpoint", reason: "or --subject is needed" }),
        })
    }

    /// A plan per number of clients and operation.
    ///
    /// # Errors
    /// A flag is out of range.
    pub fn plans(&self) -> Result<Vec<Plan>, Error> {
        let flag = |flag, reason| Err(Error::Flag { flag, reason });
        if self.clients.iter().any(|clients| !(1..=4096).contains(clients)) {
            return flag("clients", "from 1 to 4096");
        }
        if !(1..=64).contains(&self.threads) || self.clients.iter().any(|clients| *clients < self.threads) {
            return flag("threads", "from 1 to 64, and no more than clients");
        }
        if self.rate.is_some_and(|rate| !(0.001..=1e7).contains(&rate)) {
            return flag("rate", "from 0.001 to 10000000");
        }
        if !(0.0..=86_400.0).contains(&self.seconds) || !(0.0..=3_600.0).contains(&self.warm_up) {
            return flag("seconds", "from 0 to 86400, and at most 3600 of warm-up");
        }
        if self.keys == 0 || self.count == Some(0) {
            return flag("keys", "at least 1, like --count");
        }
        if self.checksum.is_some() && self.op.contains(&Op::Multipart) {
            return flag("checksum", "goes with put and mixed, not with multipart");
        }
        if !(5 << 20..=5 << 30).contains(&self.part_size.0) {
            return flag("part-size", "from 5MiB to 5GiB");
        }
        let mut plans = Vec::new();
        for clients in &self.clients {
            for op in &self.op {
                let limit = match self.count {
                    _ if self.moment => Limit::Time(MOMENT_RUN),
                    Some(count) => Limit::Count(count),
                    None => Limit::Time(Duration::from_secs_f64(self.seconds)),
                };
                let uses_up = matches!(op, Op::Delete | Op::DeleteObjects);
                let warm_up = if self.moment || uses_up { 0.0 } else { self.warm_up };
                plans.push(Plan {
                    mix: (*op == Op::Mixed).then(|| self.mix.clone()),
                    threads: self.threads,
                    rate: self.rate,
                    warm_up: Duration::from_secs_f64(warm_up),
                    page: self.page,
                    part_bytes: self.part_size.0,
                    overwrite: self.overwrite.then_some(self.keys),
                    seed: self.seed,
                    checksum: self.checksum,
                    ..Plan::new(*op, *clients, limit)
                });
            }
        }
        Ok(plans)
    }

    /// Objects that `plan` needs before it.
    pub fn wanted(&self, plan: &Plan) -> u64 {
        match plan.op.needs_objects() {
            false => 0,
            true if self.moment => self.keys.min(MOMENT_KEYS),
            true => self.keys,
        }
    }

    /// Where a started store keeps its data.
    pub fn data_folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| PathBuf::from("sherd-data/bench"))
    }

    /// Whether the store's device can be measured: the store is started here, or `--folder` names a folder on
    /// it.
    pub fn has_device(&self) -> bool {
        self.subject.is_some() || self.folder.is_some()
    }
}
