//! A number of clients that work at the same time until the window ends: tasks on the runtime, as the
//! requests of a node are.
//!
//! Operations are numbered, so that each has its own key and bytes. They end by time or by count,
//! whichever comes first: a measurement never writes more than it was allowed to.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::sync::Barrier;

use super::{Error, cpu};
use crate::alloc::{self, Counts, Scope};
use crate::result::Row;

/// The longest latency that is told apart, in nanoseconds: ten minutes.
const LATENCY_NS_MAX: u64 = 600_000_000_000;
/// Digits of a latency that are kept.
const LATENCY_DIGITS: u8 = 2;

/// A window that never ends by itself: the operations do.
pub(super) const UNTIL_DONE: Duration = Duration::from_hours(24);

/// How many work, and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    /// Clients.
    pub(super) clients: usize,
    /// When no new operation begins.
    pub(super) window: Duration,
    /// Operations at most.
    pub(super) ops_max: u64,
    /// Number of the first operation.
    pub(super) first: u64,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Operations done; they are numbered from the crowd's first on.
    pub(super) ops: u64,
    elapsed: Duration,
    cpu: Duration,
    allocated: Option<Counts>,
    latencies: Latencies,
}

/// Latencies in nanoseconds.
pub(super) type Latencies = Histogram<u32>;

/// An empty histogram.
pub(super) fn new_latencies() -> Latencies {
    Latencies::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS).expect("the bounds are valid")
}

/// Adds one latency.
pub(super) fn note(latencies: &mut Latencies, took: Duration) {
    latencies.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
}

/// Adds the percentiles to a row.
pub(super) fn with_latencies(row: Row, latencies: &Latencies) -> Row {
    let us = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1_000.0;
    row.with("p50_us", us(0.5)).with("p99_us", us(0.99)).with("max_us", latencies.max() as f64 / 1_000.0)
}

impl Outcome {
    /// Adds rates and latencies to a row; `bytes` is the size of one operation.
    pub(super) fn fill(&self, row: Row, bytes: u64) -> Row {
        let rate = self.ops as f64 / self.elapsed.as_secs_f64();
        let row = row.with("ops_s", rate).with("mib_s", rate * bytes as f64 / f64::from(1 << 20));
        let row = row.with("cpu_us_op", self.cpu.as_secs_f64() * 1e6 / self.ops as f64);
        let row = match self.allocated {
            Some(Counts { allocations, bytes }) => row
                .with("allocs_op", allocations as f64 / self.ops as f64)
                .with("alloc_bytes_op", bytes as f64 / self.ops as f64),
            None => row,
        };
        with_latencies(row, &self.latencies)
    }
}

impl Crowd {
    /// Runs `one` with the number of every operation. Each client does one at least, while there are
    /// any left.
    ///
    /// # Errors
    /// The first failure.
    pub(super) async fn run<F, W>(self, one: F) -> Result<Outcome, Error>
    where
        F: Fn(u64) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Error>> + Send,
    {
        let Self { clients, window, ops_max, first } = self;
        let one = Arc::new(one);
        let next = Arc::new(AtomicU64::new(0));
        let go = Arc::new(Barrier::new(clients + 1));
        let tasks: Vec<_> = (0..clients)
            .map(|_| {
                let (one, next, go) = (Arc::clone(&one), Arc::clone(&next), Arc::clone(&go));
                tokio::spawn(async move {
                    let mut latencies = new_latencies();
                    go.wait().await;
                    let end = Instant::now() + window;
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= ops_max {
                            return Ok(latencies);
                        }
                        let begun = Instant::now();
                        one(first + number).await?;
                        note(&mut latencies, begun.elapsed());
                        if Instant::now() >= end {
                            return Ok(latencies);
                        }
                    }
                })
            })
            .collect();
        go.wait().await;
        let (begun, before, scope) = (Instant::now(), cpu(), Scope::begin());
        let mut latencies = alloc::uncounted(new_latencies);
        for task in tasks {
            let seen: Result<Latencies, Error> = task.await.map_err(Error::at("run a client"))?;
            latencies.add(&seen?).expect("all have the same bounds");
        }
        let (elapsed, cpu) = (begun.elapsed(), cpu().saturating_sub(before));
        let allocated = alloc::is_installed().then(|| scope.counts());
        // The numbers that were taken are those from the first on: none is left out.
        Ok(Outcome { ops: latencies.len(), elapsed, cpu, allocated, latencies })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    fn crowd(clients: usize, window: Duration, ops_max: u64) -> Crowd {
        Crowd { clients, window, ops_max, first: 100 }
    }

    #[tokio::test]
    async fn every_number_is_worked_on_once_until_none_is_left() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let numbers = Arc::clone(&seen);
        let outcome = crowd(3, Duration::from_hours(1), 50)
            .run(move |number| {
                numbers.lock().push(number);
                std::future::ready(Ok(()))
            })
            .await
            .unwrap();
        seen.lock().sort_unstable();
        assert_eq!(*seen.lock(), (100..150).collect::<Vec<_>>());
        assert_eq!(outcome.ops, 50);
        assert_eq!(outcome.latencies.len(), 50);
    }

    #[tokio::test]
    async fn a_window_that_is_over_leaves_each_client_its_one_operation() {
        let outcome = crowd(4, Duration::ZERO, u64::MAX).run(|_| std::future::ready(Ok(()))).await.unwrap();
        assert_eq!(outcome.ops, 4);
    }

    #[tokio::test]
    async fn one_failure_is_the_failure_of_all() {
        let failing = |number| {
            let error = Error::OtherBytes { what: "a shard".to_owned() };
            std::future::ready(if number == 105 { Err(error) } else { Ok(()) })
        };
        let outcome = crowd(2, Duration::from_hours(1), 10).run(failing).await;
        assert!(outcome.is_err());
    }
}
