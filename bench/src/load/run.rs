//! One measurement: a plan, carried out by the generator's threads against a subject.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::engine::{Engine, NodeRequests, Parts};
use super::keys::{Keys, Order};
use super::meter::{CpuTime, Meter};
use super::progress::Progress;
use super::schedule::{Limit, Pace, Schedule};
use super::tally::Tally;
use super::work::{Choice, Mix, Op, RunState, Source};
use crate::alloc;
use crate::client::checksum::Checksum;
use crate::client::payload::Payloads;
use crate::client::request::Requests;
use crate::subject::{Endpoint, Process, Subject};

/// One measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The operation.
    pub op: Op,
    /// Shares of the operations of [`Op::Mixed`].
    pub mix: Option<Mix>,
    /// Connections, each with one operation at a time.
    pub clients: usize,
    /// Threads that they are spread over.
    pub threads: usize,
    /// Operations per second that are begun whether earlier ones have ended or not; without it, each
    /// client begins one when its last has ended.
    pub rate: Option<f64>,
    /// When the run ends.
    pub limit: Limit,
    /// Time before the measured window.
    pub warm_up: Duration,
    /// Objects of a page of `list` and `delete-objects`.
    pub page: u64,
    /// Bytes of a part of a multipart upload.
    pub part_bytes: u64,
    /// Keys that writes go to over and over; without it, each write goes to a new key.
    pub overwrite: Option<u64>,
    /// Seed of the choice of objects.
    pub seed: u64,
    /// How long a connection may stand still.
    pub stall: Duration,
    /// Checksum that PUTs carry, for the store to verify.
    pub checksum: Option<Checksum>,
}

impl Plan {
    /// A closed loop of `op` by `clients` on one thread, until `limit`.
    pub fn new(op: Op, clients: usize, limit: Limit) -> Self {
        Self {
            op,
            mix: None,
            clients,
            threads: 1,
            rate: None,
            limit,
            warm_up: Duration::ZERO,
            page: 1000,
            part_bytes: 8 << 20,
            overwrite: None,
            seed: 1,
            stall: Duration::from_mins(1),
            checksum: None,
        }
    }

    /// The schedule of thread `thread`, which has its share of the rate and of the count.
    fn schedule(&self, thread: usize) -> Schedule {
        let threads = self.threads as u64;
        let pace = match self.rate {
            None => Pace::Closed,
            Some(rate) => {
                let between = Duration::from_secs_f64(1.0 / rate);
                let interval = between.saturating_mul(u32::try_from(threads).unwrap_or(u32::MAX));
                Pace::Open { interval, phase: between.saturating_mul(u32::try_from(thread).unwrap_or(0)) }
            }
        };
        let limit = match self.limit {
            Limit::Time(length) => Limit::Time(length),
            Limit::Count(count) => {
                Limit::Count(count / threads + u64::from((thread as u64) < count % threads))
            }
        };
        Schedule::new(pace, limit, self.warm_up)
    }
}

/// The store that is measured, and its bucket and objects.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The store.
    pub subject: &'a Subject,
    /// A bucket of it, which is there.
    pub bucket: &'a str,
    /// Contents of the objects.
    pub payloads: &'a Payloads,
}

/// The result of a plan.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counts and latencies of all threads.
    pub tally: Tally,
    /// Processor time in the measured window.
    pub spent: Option<CpuTime>,
    /// The largest `RssAnon` of the server during the run, in bytes.
    pub server_anon: Option<u64>,
}

impl Outcome {
    /// Adds the result of the same plan at another time.
    pub fn append(&mut self, other: Self) {
        let Self { tally, spent, server_anon } = other;
        self.tally.append(tally);
        self.spent = match (self.spent, spent) {
            (Some(one), Some(other)) => Some(one.append(other)),
            (one, other) => one.or(other),
        };
        self.server_anon = self.server_anon.max(server_anon);
    }
}

/// Runs `plan` on `target` and updates `keys` to the objects that were written and deleted.
///
/// # Errors
/// The system lacks threads or polling. Faults of the store are counted and are not an error.
pub fn run(target: &Target<'_>, plan: &Plan, keys: &mut Keys) -> io::Result<Outcome> {
    let Target { subject, bucket, payloads } = *target;
    let shared = Arc::new(RunState::new(keys));
    let lists = plan.op == Op::List || plan.mix.as_ref().is_some_and(Mix::lists);
    let order = match plan.op {
        Op::ListFolders => keys.folders(),
        _ if lists => keys.order(),
        _ => Order::default(),
    };
    let choice = Choice {
        op: plan.op,
        mix: plan.mix.clone(),
        page: plan.page,
        overwrite: plan.overwrite,
        seed: plan.seed,
    };
    let meter = Meter::new(subject.process());
    let requests_to = |node: &Endpoint| NodeRequests {
        address: node.address,
        tls: node.tls.clone(),
        requests: Requests::new(subject.credentials.clone(), &node.host, bucket),
    };
    let (mut engines, mut first_node) = (Vec::new(), 0);
    for thread in 0..plan.threads {
        let source = Source::new(&choice, keys, &order, &shared, thread as u64, plan.threads as u64);
        let clients = plan.clients / plan.threads + usize::from(thread < plan.clients % plan.threads);
        engines.push(Engine::new(Parts {
            nodes: subject.endpoints().map(requests_to).collect(),
            first_node,
            stall: plan.stall,
            clients,
            part_bytes: plan.part_bytes,
            checksum: plan.checksum,
            payloads,
            meter: &meter,
            source,
            schedule: plan.schedule(thread),
        })?);
        first_node += clients;
    }
    if let Some(process) = subject.process() {
        process.reset_peak();
    }
    let begin = Instant::now();
    let outcomes: Vec<io::Result<(Tally, Vec<u64>)>> = thread::scope(|scope| {
        let threads: Vec<_> = engines
            .into_iter()
            .map(|engine| scope.spawn(move || alloc::uncounted(|| engine.run(begin))))
            .collect();
        let _progress = Progress::show(scope, &meter, &format!("{} {} {}", subject.name, plan.op, keys.size));
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a generator's thread does not panic"))
            .collect()
    });
    let mut tally = Tally::default();
    for outcome in outcomes {
        let (counts, absent) = outcome?;
        tally.join(counts);
        keys.absent.extend(absent);
    }
    shared.update(keys, plan.overwrite);
    let server_anon = subject.process().map(Process::peak_rss_anon);
    Ok(Outcome { tally, spent: meter.spent(), server_anon })
}
