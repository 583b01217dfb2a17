//! GET and PUT with all volumes, with one gone, and with two gone, on one node.
//!
//! All GETs are of objects that were written while all volumes were there; PUTs are of new objects. Before
//! a GET of large objects counts, all have been read once, so that the page cache is equally warm in every
//! state, whichever shards it reads.

use std::time::Duration;

use crate::limits::DEGRADED_WARM_UP;
use crate::load::keys::Keys;
use crate::load::run::{Outcome, Plan};
use crate::load::schedule::Limit;
use crate::load::tally::Fault;
use crate::load::work::Op;
use crate::question::bench::Bench;
use crate::question::error::Error;
use crate::question::node::{self, BenchNode};
use crate::result::Row;

/// The volumes that are lost, one after the other, and how rows call the node then.
const STATES: [(Option<usize>, &str); 3] = [(None, "healthy"), (Some(4), "1-gone"), (Some(3), "2-gone")];
/// How many may be gone before PUTs are refused.
const READ_ONLY: &str = "2-gone";
/// Bytes that one measurement of PUTs writes, where time would write too many.
const PUT_BYTES: u64 = 768 << 20;
/// PUTs of every client that must be refused, each on a connection of its own: an answer that comes
/// before the body was read may end the connection.
const REFUSED_OF_CLIENT: u64 = 4;

/// Objects of one size, and the clients of them.
#[derive(Debug, Clone, Copy)]
struct Load {
    bytes: u64,
    clients: usize,
    objects: u64,
}

const LOADS: [Load; 4] = [
    Load { bytes: 4 << 10, clients: 32, objects: 4000 },
    Load { bytes: 1 << 20, clients: 32, objects: 256 },
    Load { bytes: 64 << 20, clients: 4, objects: 8 },
    Load { bytes: 1 << 30, clients: 1, objects: 1 },
];

/// `LOADS` for a moment.
const MOMENT_LOADS: [Load; 3] = [
    Load { bytes: 4 << 10, clients: 32, objects: 64 },
    Load { bytes: 1 << 20, clients: 32, objects: 32 },
    Load { bytes: 8 << 20, clients: 4, objects: 4 },
];

/// Measures everything once, on a node of its own.
pub(super) fn round(bench: &mut Bench) -> Result<(), Error> {
    let node = BenchNode::start(bench, &[])?;
    let loads: &[Load] = if bench.is_moment() { &MOMENT_LOADS } else { &LOADS };
    let mut stored: Vec<Keys> = Vec::new();
    for load in loads {
        let mut keys = node::keys(&format!("stored-{}", load.bytes), load.bytes);
        node.fill(load.objects, &mut keys)?;
        stored.push(keys);
    }
    let mut healthy: Vec<Row> = Vec::new();
    for (lost, state) in STATES {
        node.spread_commits(state)?;
        if let Some(number) = lost {
            node.lose(number)?;
        }
        for (load, keys) in loads.iter().zip(&mut stored) {
            let requests = RequestLoad { node: &node, load: *load, state };
            let rows = [requests.get(keys, bench)?, requests.put(bench)?];
            for row in rows {
                let rate_in = |row: &Row| row.figure("ops_s").filter(|rate| *rate > 0.0);
                let same =
                    |one: &&Row| ["op", "size"].iter().all(|name| one.labels[*name] == row.labels[*name]);
                let share = healthy.iter().find(same).and_then(rate_in).zip(rate_in(&row));
                if state == STATES[0].1 {
                    healthy.push(row.clone());
                }
                bench.add(match share {
                    Some((whole, now)) => row.with("of_healthy_share", now / whole),
                    None => row,
                });
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct RequestLoad<'a> {
    node: &'a BenchNode,
    load: Load,
    state: &'static str,
}

impl RequestLoad<'_> {
    fn plan(&self, op: Op, bench: &Bench) -> Plan {
        let warm_up = if bench.is_moment() { Duration::ZERO } else { DEGRADED_WARM_UP };
        Plan { warm_up, ..Plan::new(op, self.load.clients, Limit::Time(bench.window())) }
    }

    fn row(&self, plan: &Plan, outcome: &Outcome) -> Row {
        let labels = [("part", "requests".to_owned()), ("state", self.state.to_owned())];
        node::row(labels, self.load.bytes, plan, outcome)
    }

    fn get(&self, keys: &mut Keys, bench: &mut Bench) -> Result<Row, Error> {
        if self.load.bytes >= 1 << 20 {
            // Objects are drawn at random: three draws for each leave out about 5 % of them.
            let all = Plan::new(Op::Get, self.load.clients, Limit::Count(3 * self.load.objects));
            bench.count(&self.node.run(&all, keys)?);
        }
        let plan = self.plan(Op::Get, bench);
        let outcome = self.node.run(&plan, keys)?;
        bench.count(&outcome);
        Ok(self.row(&plan, &outcome))
    }

    fn put(&self, bench: &mut Bench) -> Result<Row, Error> {
        let mut keys = node::keys(&format!("put-{}-{}", self.load.bytes, self.state), self.load.bytes);
        if self.state == READ_ONLY {
            return self.refused_put(&mut keys, bench);
        }
        let mut plan = self.plan(Op::Put, bench);
        if self.load.bytes >= 1 << 20 {
            let clients = self.load.clients as u64;
            let most = if bench.is_moment() { 0 } else { PUT_BYTES / self.load.bytes };
            plan = Plan { limit: Limit::Count(most.max(clients)), warm_up: Duration::ZERO, ..plan };
        }
        let outcome = self.node.run(&plan, &mut keys)?;
        bench.count(&outcome);
        Ok(self.row(&plan, &outcome))
    }

    /// PUTs that no quorum can take: each must be answered 503, and none may succeed.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn refused_put(&self, keys: &mut Keys, bench: &mut Bench) -> Result<Row, Error> {
        let plan = Plan::new(Op::Put, self.load.clients, Limit::Count(self.load.clients as u64));
        let mut outcome = self.node.run(&plan, keys)?;
        for _ in 1..REFUSED_OF_CLIENT {
            outcome.append(self.node.run(&plan, keys)?);
        }
        let refused = outcome.tally.faults.get(&Fault::SlowDown).copied().unwrap_or(0);
        if outcome.tally.ops > 0 {
            bench.fault("a PUT was acknowledged though no quorum of volumes is there");
        }
        let others = outcome.tally.errors() - refused;
        if others > 0 {
            let faults = crate::load::prepare::Faults(&outcome.tally.faults);
            bench.fault(&format!("PUTs that must be refused with 503 SlowDown: {faults}"));
        }
        let whole = self.row(&plan, &outcome);
        Ok(Row { labels: whole.labels, ..Row::default() }
            .with("refused", refused as f64)
            .with("errors", others as f64))
    }
}
