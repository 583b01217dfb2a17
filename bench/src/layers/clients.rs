//! The closed loop: clients that warm up, start together, and work until the window ends.
//!
//! ```text
//! client       warm-up | ready | go   operations ...   done | check what was written
//! coordinator            ready | look | go             done | look
//! ```
//! Counters are read while every client stands still. A client measures its own operation, so that
//! preparing one is not part of it. Nothing here allocates between the two looks.

use std::future::Future;
use std::sync::{Arc, Barrier as ThreadBarrier};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::Barrier as TaskBarrier;

use super::error::Failure;
use crate::alloc::sites::{self, Site};
use crate::alloc::{Counts, Scope};

/// The longest latency that is told apart, in nanoseconds: ten minutes.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// How long each client works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Before anything is counted; at least one operation.
    pub(crate) warm_up: Duration,
    /// Every how many allocations a stack is kept; 0 for never.
    pub(crate) sample_every: u64,
    /// The window; an operation that began in it ends in it, and each client does one at least.
    pub(crate) window: Duration,
}

/// Latencies in nanoseconds, to three digits.
pub(crate) type Latencies = Histogram<u32>;

/// What came of a window.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Of every operation.
    pub(crate) latencies: Latencies,
    /// From the start to the end of the last operation.
    pub(crate) elapsed: Duration,
    /// What the process allocated meanwhile.
    pub(crate) counts: Counts,
    /// From where, when that was asked for.
    pub(crate) sites: Vec<Site>,
}

/// A client whose operations wait for something: driven by the runtime's threads.
pub(crate) trait Client: Send + 'static {
    /// Does one operation and says how long it took.
    fn one(&mut self) -> impl Future<Output = Result<Duration, Failure>> + Send;

    /// Reads back what its last operation wrote, if it wrote.
    fn check(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A client that blocks: a thread of its own.
pub(crate) trait BlockingClient: Send {
    /// Does one operation and says how long it took.
    fn one(&mut self) -> Result<Duration, Failure>;

    /// Reads back what its last operation wrote, if it wrote.
    fn check(&mut self) -> Result<(), Failure>;
}

fn new_latencies() -> Latencies {
    Latencies::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are valid")
}

fn note(latencies: &mut Latencies, took: Duration) {
    latencies.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
}

/// Adds up what the clients saw, or gives the first failure.
fn sum(
    seen: impl IntoIterator<Item = Result<Latencies, Failure>>,
    elapsed: Duration,
    counts: Counts,
) -> Result<Measured, Failure> {
    let sites = sites::stop();
    let mut latencies = new_latencies();
    for seen in seen {
        latencies.add(&seen?).expect("all have the same bounds");
    }
    Ok(Measured { latencies, elapsed, counts, sites })
}

/// Where clients and coordinator meet.
struct Meeting<B> {
    ready: B,
    go: B,
    done: B,
}

/// Drives clients that wait, on the runtime that this is called on.
///
/// # Errors
/// The first failure of any client.
pub(crate) async fn tasks<C: Client>(clients: Vec<C>, pace: Pace) -> Result<Measured, Failure> {
    let parties = clients.len() + 1;
    let meeting = Arc::new(Meeting {
        ready: TaskBarrier::new(parties),
        go: TaskBarrier::new(parties),
        done: TaskBarrier::new(parties),
    });
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| tokio::spawn(run_task(client, pace, Arc::clone(&meeting))))
        .collect();
    meeting.ready.wait().await;
    sites::start(pace.sample_every);
    let (scope, begun) = (Scope::begin(), Instant::now());
    meeting.go.wait().await;
    meeting.done.wait().await;
    let (elapsed, counts) = (begun.elapsed(), scope.counts());
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(task.await.map_err(Failure::of)?);
    }
    sum(seen, elapsed, counts)
}

async fn run_task<C: Client>(
    mut client: C,
    pace: Pace,
    meeting: Arc<Meeting<TaskBarrier>>,
) -> Result<Latencies, Failure> {
    let mut latencies = new_latencies();
    let mut went = work(&mut client, pace.warm_up, None).await;
    meeting.ready.wait().await;
    meeting.go.wait().await;
    if went.is_ok() {
        went = work(&mut client, pace.window, Some(&mut latencies)).await;
    }
    meeting.done.wait().await;
    went?;
    client.check().await?;
    Ok(latencies)
}

async fn work<C: Client>(
    client: &mut C,
    time: Duration,
    mut latencies: Option<&mut Latencies>,
) -> Result<(), Failure> {
    let end = Instant::now() + time;
    loop {
        let took = client.one().await?;
        if let Some(latencies) = &mut latencies {
            note(latencies, took);
        }
        if Instant::now() >= end {
            return Ok(());
        }
        // An operation that never waits would keep its thread, and the others' turns, to the end.
        tokio::task::yield_now().await;
    }
}

/// Drives clients that block, each on a thread of its own.
///
/// # Errors
/// The first failure of any client.
pub(crate) fn threads<C: BlockingClient>(clients: Vec<C>, pace: Pace) -> Result<Measured, Failure> {
    let parties = clients.len() + 1;
    let meeting = Meeting {
        ready: ThreadBarrier::new(parties),
        go: ThreadBarrier::new(parties),
        done: ThreadBarrier::new(parties),
    };
    std::thread::scope(|scope| {
        let meeting = &meeting;
        let threads: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(move || run_thread(client, pace, meeting)))
            .collect();
        meeting.ready.wait();
        sites::start(pace.sample_every);
        let (counting, begun) = (Scope::begin(), Instant::now());
        meeting.go.wait();
        meeting.done.wait();
        let (elapsed, counts) = (begun.elapsed(), counting.counts());
        let seen = threads.into_iter().map(|thread| thread.join().expect("a client does not panic"));
        sum(seen.collect::<Vec<_>>(), elapsed, counts)
    })
}

fn run_thread<C: BlockingClient>(
    mut client: C,
    pace: Pace,
    meeting: &Meeting<ThreadBarrier>,
) -> Result<Latencies, Failure> {
    let mut latencies = new_latencies();
    let mut went = work_blocking(&mut client, pace.warm_up, None);
    meeting.ready.wait();
    meeting.go.wait();
    if went.is_ok() {
        went = work_blocking(&mut client, pace.window, Some(&mut latencies));
    }
    meeting.done.wait();
    went?;
    client.check()?;
    Ok(latencies)
}

fn work_blocking<C: BlockingClient>(
    client: &mut C,
    time: Duration,
    mut latencies: Option<&mut Latencies>,
) -> Result<(), Failure> {
    let end = Instant::now() + time;
    loop {
        let took = client.one()?;
        if let Some(latencies) = &mut latencies {
            note(latencies, took);
        }
        if Instant::now() >= end {
            return Ok(());
        }
    }
}
