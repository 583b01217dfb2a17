//! A cluster of four nodes beside a peer's four processes, with clients spread over all nodes.
//!
//! ```text
//! 4 KiB    32 clients   PUT, GET, DELETE
//! 1 MiB    16 clients   PUT, GET
//! 64 MiB    4 clients   PUT, GET
//! 8,000 keys, 8 clients   pages of 1,000
//! ```
//! Both stores run side by side and are measured in turns, the other one first in every second round. Each
//! round begins with empty stores, so that none does upkeep for the round before; the bucket that is listed
//! is written once, because that takes longest. GETs read the same number of objects of both.

use std::path::PathBuf;
use std::time::Duration;

use super::bench::Bench;
use super::error::Error;
use super::node::{self, BenchNode};
use super::page::Page;
use crate::limits::{MOMENT_BYTES_MAX, PAGE};
use crate::load::keys::Keys;
use crate::load::run::Plan;
use crate::load::schedule::Limit;
use crate::load::work::Op;
use crate::subject::{Subject, Tool, refuse_unequal_durability};

/// Bytes that may be on the device at one time: PUTs of both stores, twice their size each.
const FREE_BYTES: u64 = 12 << 30;
/// The most that one measurement of PUTs writes.
const PUT_BYTES: u64 = 1 << 30;
/// Objects written before anything is measured, by clients that may be refused: a store that just started may
/// not take every request yet.
const FIRST: u64 = 200;
const FIRST_BYTES: u64 = 4 << 10;
/// Objects that are listed, their size, and clients.
const LISTED: u64 = 8000;
const MOMENT_LISTED: u64 = 1100;
const LISTED_BYTES: u64 = 16;
const LISTERS: usize = 8;

/// Objects of one size, and the clients that work on them.
struct ObjectLoad {
    bytes: u64,
    clients: usize,
    ops: &'static [Op],
}

const LOADS: [ObjectLoad; 3] = [
    ObjectLoad { bytes: 4 << 10, clients: 32, ops: &[Op::Put, Op::Get, Op::Delete] },
    ObjectLoad { bytes: 1 << 20, clients: 16, ops: &[Op::Put, Op::Get] },
    ObjectLoad { bytes: 64 << 20, clients: 4, ops: &[Op::Put, Op::Get] },
];

/// Options of the question.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Store to compare with: minio, which stands for minio-cluster, or a file that describes one
    #[arg(long, value_name = "TOOL")]
    peer: Option<String>,
    /// TLS on both sides: between all nodes, and with clients
    #[arg(long)]
    tls: bool,
    /// The peer's program, instead of looking for it in PATH
    #[arg(long, value_name = "PATH", requires = "peer")]
    peer_binary: Option<PathBuf>,
}

impl Page for Arguments {
    fn name(&self) -> &'static str {
        if self.tls { "cluster-tls" } else { "cluster" }
    }

    fn device_bytes(&self) -> u64 {
        FREE_BYTES
    }

    fn round(&self, bench: &mut Bench, round: usize) -> Result<(), Error> {
        let stores = self.start(bench)?;
        for load in &LOADS {
            measure_load(load, &stores, round, bench)?;
        }
        Ok(())
    }

    fn once(&self, bench: &mut Bench) -> Result<(), Error> {
        let stores = self.start(bench)?;
        let count = if bench.is_moment() { MOMENT_LISTED } else { LISTED };
        bench.set("listed_keys", &count);
        let mut sides = Vec::new();
        for store in &stores {
            let mut keys = node::keys("listed", LISTED_BYTES);
            store.node.fill(count, &mut keys)?;
            sides.push((store, keys));
        }
        for round in 0..bench.rounds() {
            measure(Op::List, LISTERS, LISTED_BYTES, &mut sides, round, bench)?;
        }
        Ok(())
    }
}

/// A store that runs.
#[derive(Debug)]
struct RunningStore {
    name: String,
    node: BenchNode,
}

impl Arguments {
    /// Starts all stores, ours first.
    fn start(&self, bench: &mut Bench) -> Result<Vec<RunningStore>, Error> {
        let find = |name: &str| Tool::find(name).map_err(Error::at("describe a store"));
        let (ours, theirs) = if self.tls {
            ("sherd-cluster-tls", "minio-cluster-tls")
        } else {
            ("sherd-cluster", "minio-cluster")
        };
        // Rows have the names that the rows of one node have.
        let named = |name: &str, tool: Tool| Tool { name: name.to_owned(), ..tool };
        let mut tools = vec![(named("sherd", find(ours)?), node::binary(bench))];
        if let Some(peer) = &self.peer {
            let tool = if peer == "minio" { named(peer, find(theirs)?) } else { find(peer.as_str())? };
            tools.push((tool, self.peer_binary.clone()));
        }
        let promises: Vec<&Tool> = tools.iter().map(|(tool, _)| tool).collect();
        refuse_unequal_durability(&promises).map_err(Error::at("compare stores"))?;
        let mut stores = Vec::new();
        for (tool, binary) in tools {
            let subject = Subject::start(&tool, binary.as_deref(), &bench.options.dir);
            let subject = subject.map_err(Error::at("start a cluster"))?;
            bench.settings.extend(subject.settings());
            bench.set(&format!("{}_nodes", tool.name), &subject.endpoints().count());
            let node = BenchNode::of(subject, bench)?;
            node.fill(FIRST, &mut node::keys("first", FIRST_BYTES))?;
            stores.push(RunningStore { name: tool.name, node });
        }
        Ok(stores)
    }
}

fn measure_load(
    load: &ObjectLoad,
    stores: &[RunningStore],
    round: usize,
    bench: &mut Bench,
) -> Result<(), Error> {
    let bytes = if bench.is_moment() { load.bytes.min(MOMENT_BYTES_MAX) } else { load.bytes };
    let keys = || node::keys(&format!("{}-{}", load.bytes, load.clients), bytes);
    let mut sides: Vec<(&RunningStore, Keys)> = stores.iter().map(|store| (store, keys())).collect();
    for op in load.ops {
        measure(*op, load.clients, load.bytes, &mut sides, round, bench)?;
    }
    Ok(())
}

/// Measures one operation on all sides; `bytes` is the size that the rows state.
fn measure(
    op: Op,
    clients: usize,
    bytes: u64,
    sides: &mut [(&RunningStore, Keys)],
    round: usize,
    bench: &mut Bench,
) -> Result<(), Error> {
    let fewest = sides.iter().map(|(_, keys)| keys.count()).min().unwrap_or_default();
    for turn in 0..sides.len() {
        let side = (round + turn) % sides.len();
        let (store, keys) = &mut sides[side];
        let plan = plan(op, clients, keys, bench);
        let outcome = if op == Op::Get {
            store.node.run(&plan, &mut keys.first(fewest))?
        } else {
            store.node.run(&plan, keys)?
        };
        bench.count(&outcome);
        bench.add(node::row([("subject", store.name.clone())], bytes, &plan, &outcome));
    }
    Ok(())
}

fn plan(op: Op, clients: usize, keys: &Keys, bench: &Bench) -> Plan {
    let window = Limit::Time(bench.window());
    let most = PUT_BYTES / keys.size.0;
    let (limit, warm_up) = match op {
        _ if bench.is_moment() => (Limit::Count(clients as u64), Duration::ZERO),
        // A warm-up would use up objects that are to be deleted in the measurement.
        Op::Delete => (Limit::Count(keys.count()), Duration::ZERO),
        // Limited by room on the device instead of time.
        Op::Put if keys.size.0 >= 32 << 20 => (Limit::Count(most), Duration::ZERO),
        _ => (window, bench.window() / 4),
    };
    Plan { warm_up, page: PAGE, ..Plan::new(op, clients, limit) }
}
