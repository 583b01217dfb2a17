//! A number of threads that work on one device at the same time until the window ends.
//!
//! Operations are numbered, so that each has its own place and bytes. They end by time or by count, whichever
//! comes first: a measurement never writes more than it was allowed to.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use super::Error;
use crate::result::Row;

/// The longest latency that is told apart, in nanoseconds: ten minutes.
const LATENCY_NS_MAX: u64 = 600_000_000_000;
/// Digits of a latency that are kept.
const LATENCY_DIGITS: u8 = 2;
pub(super) const MIB: f64 = (1 << 20) as f64;

/// How many work, and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    /// Threads.
    pub(super) clients: usize,
    /// When no new operation begins.
    pub(super) window: Duration,
    /// Operations at most.
    pub(super) ops_max: u64,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Operations done; they are numbered from 0 on, and none is left out.
    pub(super) ops: u64,
    elapsed: Duration,
    cpu: Duration,
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

/// A latency that a part of all do not exceed, in microseconds.
#[expect(clippy::cast_precision_loss, reason = "ten minutes are far below 2^53 ns")]
pub(super) fn us(latencies: &Latencies, quantile: f64) -> f64 {
    latencies.value_at_quantile(quantile) as f64 / 1_000.0
}

impl Outcome {
    /// Adds rates and latencies to a row; `bytes` is the size of one operation.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub(super) fn fill(&self, row: Row, bytes: u64) -> Row {
        let rate = self.ops as f64 / self.elapsed.as_secs_f64();
        row.with("ops_s", rate)
            .with("mib_s", rate * bytes as f64 / MIB)
            .with("cpu_us_op", self.cpu.as_secs_f64() * 1e6 / self.ops as f64)
            .with("p50_us", us(&self.latencies, 0.5))
            .with("p99_us", us(&self.latencies, 0.99))
    }
}

/// Processor time of this process, all threads.
fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

impl Crowd {
    /// Runs `one` with the number of every operation. Each client does one at least, while there are any
    /// left.
    ///
    /// # Errors
    /// The first failure.
    pub(super) fn run(self, one: impl Fn(u64) -> Result<(), Error> + Sync) -> Result<Outcome, Error> {
        let Self { clients, window, ops_max } = self;
        let (next, go) = (AtomicU64::new(0), Barrier::new(clients + 1));
        let client = || {
            let mut latencies = new_latencies();
            go.wait();
            let end = Instant::now() + window;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= ops_max {
                    return Ok(latencies);
                }
                let begun = Instant::now();
                one(number)?;
                note(&mut latencies, begun.elapsed());
                if Instant::now() >= end {
                    return Ok(latencies);
                }
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
            go.wait();
            let (begun, before) = (Instant::now(), cpu());
            let mut latencies = new_latencies();
            for thread in threads {
                let seen: Result<Latencies, Error> = thread.join().expect("a client does not panic");
                latencies.add(seen?).expect("all have the same bounds");
            }
            let (elapsed, cpu) = (begun.elapsed(), cpu().saturating_sub(before));
            Ok(Outcome { ops: latencies.len(), elapsed, cpu, latencies })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    fn crowd(clients: usize, window: Duration, ops_max: u64) -> Crowd {
        Crowd { clients, window, ops_max }
    }

    #[test]
    fn every_number_is_worked_on_once_until_none_is_left() {
        let seen = Mutex::new(Vec::new());
        let one = |number| {
            seen.lock().push(number);
            Ok(())
        };
        let outcome = crowd(3, Duration::from_hours(1), 50).run(one).unwrap();
        seen.lock().sort_unstable();
        assert_eq!(*seen.lock(), (0..50).collect::<Vec<_>>());
        assert_eq!(outcome.ops, 50);
    }

    #[test]
    fn a_window_that_is_over_leaves_each_client_its_one_operation() {
        assert_eq!(crowd(4, Duration::ZERO, u64::MAX).run(|_| Ok(())).unwrap().ops, 4);
    }

    #[test]
    fn one_failure_is_the_failure_of_all() {
        let failing =
            |number| if number == 5 { Err(Error::OtherBytes { what: "x".to_owned() }) } else { Ok(()) };
        assert!(crowd(2, Duration::from_hours(1), 10).run(failing).is_err());
    }
}
