//! Allocations of a request in a whole node, in steady state.
//!
//! The node runs in this process, as `sherd-node` runs it, so that its allocations can be counted. They are
//! those of all of the node's threads, upkeep included, from the first request of a measurement to its last;
//! the generator's threads are not counted. Speed is not measured here, because node and generator share the
//! process.

use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rustix::process::{Signal, getpid, kill_process};
use sherd_node::log::LevelFilters;
use sherd_node::process::config::Config;
use sherd_node::process::config::credentials::Credentials;
use sherd_node::process::config::settings::{Durability, Settings, WordList};
use sherd_node::process::config::source::Sources;
use sherd_node::process::serve::run::{RunError, run};
use sherd_store::machine::system::SystemRng;

use super::bench::Bench;
use super::error::Error;
use super::node::{self, BenchNode};
use super::page::Page;
use crate::alloc::{self, Scope};
use crate::client::sign;
use crate::limits::MOMENT_BYTES_MAX;
use crate::load::run::Plan;
use crate::load::schedule::Limit;
use crate::load::sizes::Size;
use crate::load::work::Op;
use crate::result::Row;
use crate::subject::Subject;

/// Sizes, with clients and requests of one measurement.
const CASES: [(u64, usize, u64); 4] =
    [(4 << 10, 1, 2000), (4 << 10, 32, 20_000), (1 << 20, 8, 200), (LARGE, 4, 16)];
/// From here on, what is allocated is also counted by the bytes of the objects.
const LARGE: u64 = 64 << 20;
const GIB: f64 = (1 << 30) as f64;
const MOMENT_REQUESTS: u64 = 40;
const VOLUMES: usize = 4;

/// No options of its own.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {}

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "allocations"
    }

    fn device_bytes(&self) -> u64 {
        8 << 30
    }

    fn once(&self, bench: &mut Bench) -> Result<(), Error> {
        if !alloc::is_installed() {
            return Err(Error::at("count allocations")("this program's allocator does not count"));
        }
        let folder = bench.folder()?;
        let (process, subject) = start(folder.path())?;
        let node = BenchNode::of(subject, bench)?;
        for round in 0..bench.rounds() {
            for (bytes, clients, requests) in CASES {
                let requests = if bench.is_moment() { MOMENT_REQUESTS } else { requests };
                let stored = if bench.is_moment() { bytes.min(MOMENT_BYTES_MAX) } else { bytes };
                let mut keys = node::keys(&format!("{}-{clients}-{round}", Size(bytes)), stored);
                for op in [Op::Put, Op::Get, Op::Head] {
                    let plan = Plan::new(op, clients, Limit::Count(requests));
                    // Connections are made and buffers grown before the count begins.
                    bench.count(
                        &node.run(&Plan { limit: Limit::Count(requests / 4), ..plan.clone() }, &mut keys)?,
                    );
                    let scope = Scope::begin();
                    // Allocations of this thread for the generator are not the node's.
                    let outcome = alloc::uncounted(|| node.run(&plan, &mut keys))?;
                    let counts = scope.counts();
                    bench.count(&outcome);
                    bench.add(row(op, (bytes, stored), clients, requests, counts));
                }
            }
        }
        // The node stops by its own signal handler, as for an operator.
        kill_process(getpid(), Signal::TERM).map_err(Error::at("ask the node to stop"))?;
        process.join().expect("the node does not panic").map_err(Error::at("stop the node"))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn row(op: Op, (bytes, stored): (u64, u64), clients: usize, requests: u64, counts: alloc::Counts) -> Row {
    let labels =
        [("op", op.to_string()), ("size", Size(bytes).to_string()), ("clients", clients.to_string())];
    let of_each = |count: u64| count as f64 / requests as f64;
    let row = Row::new(labels)
        .with("allocs_op", of_each(counts.allocations))
        .with("alloc_bytes_op", of_each(counts.bytes));
    if bytes < LARGE || op == Op::Head {
        return row;
    }
    let gib = (stored * requests) as f64 / GIB;
    row.with("allocs_per_gib", counts.allocations as f64 / gib)
        .with("alloc_mib_per_gib", counts.bytes as f64 / f64::from(1 << 20) / gib)
}

/// A node on new volumes below a folder, with defaults but for addresses, on threads of its own.
fn start(folder: &Path) -> Result<(JoinHandle<Result<(), RunError>>, Subject), Error> {
    let mut volumes = Vec::new();
    for number in 1..=VOLUMES {
        let path = folder.join(number.to_string());
        std::fs::create_dir(&path).map_err(Error::at("make a volume's folder"))?;
        let path = path.canonicalize().map_err(Error::at("find a volume's folder"))?;
        volumes.push(path.to_string_lossy().into_owned());
    }
    let any = "127.0.0.1:0".parse().expect("an address");
    let settings = Settings {
        volumes: Some(WordList(volumes)),
        listen: Some(any),
        admin_listen: Some(any),
        durability: Some(Durability::Fsync),
        ..Settings::default()
    };
    let given = Credentials::random(&SystemRng);
    let credentials = sign::Credentials {
        access_key: given.access_key_id.clone(),
        secret_key: given.secret_access_key.expose().to_owned(),
        region: "us-east-1".to_owned(),
    };
    let config = Config::resolve(settings, Some(given), &Sources::default());
    let config = config.map_err(Error::at("configure a node"))?;
    let (announce, announced) = mpsc::channel();
    let process = thread::spawn(move || {
        // The process logs nothing: no subscriber is set.
        let announce = |addresses| announce.send(addresses).expect("the caller waits for it");
        run(config, LevelFilters::from("off"), None, announce)
    });
    match announced.recv() {
        Ok(addresses) => Ok((process, Subject::at(addresses.s3, &addresses.s3.to_string(), credentials))),
        Err(gone) => Err(match process.join() {
            Ok(Err(error)) => Error::at("start a node")(error),
            Ok(Ok(())) | Err(_) => Error::at("start a node")(gone),
        }),
    }
}
