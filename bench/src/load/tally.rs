//! The result of a run: counts, latencies and faults by kind. Only operations that were right are
//! counted as operations.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::limits::LATENCY_MAX;

/// Why an operation does not count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// 503 SlowDown: the server says that it is overloaded.
    SlowDown,
    /// Any other status than the right one, with the code of S3 if there is one.
    Status(u16, String),
    /// The bytes of an object are not those that were written.
    WrongBytes,
    /// The answer is well-formed but not right: a length, a listing, a deletion.
    WrongAnswer,
    /// The answer is not HTTP.
    Malformed,
    /// The connection was refused, reset or closed.
    Connection(String),
    /// No byte came for longer than the limit.
    Timeout,
    /// An open loop could not send it in time.
    Unsent,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlowDown => f.write_str("503 SlowDown"),
            Self::Status(status, code) if code.is_empty() => write!(f, "status {status}"),
            Self::Status(status, code) => write!(f, "status {status} {code}"),
            Self::WrongBytes => f.write_str("wrong bytes"),
            Self::WrongAnswer => f.write_str("wrong answer"),
            Self::Malformed => f.write_str("malformed answer"),
            Self::Connection(kind) => write!(f, "connection: {kind}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Unsent => f.write_str("unsent"),
        }
    }
}

/// Counts of one thread, or of several together.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Operations that were right and lie in the measured window.
    pub ops: u64,
    /// Bytes of objects that those moved.
    pub bytes: u64,
    /// Operations per second, summed over threads.
    pub ops_s: f64,
    /// Bytes per second, summed over threads.
    pub bytes_s: f64,
    /// The longest measured window of a thread.
    pub elapsed: Duration,
    /// Latencies of those operations, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Times to the first byte of their objects, in nanoseconds: of those that read one.
    pub first_byte: Histogram<u64>,
    /// Faults, those of the warm-up included.
    pub faults: BTreeMap<Fault, u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            ops: 0,
            bytes: 0,
            ops_s: 0.0,
            bytes_s: 0.0,
            elapsed: Duration::ZERO,
            latency: latencies(),
            first_byte: latencies(),
            faults: BTreeMap::new(),
        }
    }
}

fn latencies() -> Histogram<u64> {
    let longest = u64::try_from(LATENCY_MAX.as_nanos()).expect("an hour");
    Histogram::new_with_bounds(1, longest, 3).expect("bounds and digits are in range")
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

impl Tally {
    /// Counts an operation that moved `bytes` in `latency`.
    pub fn count(&mut self, bytes: u64, latency: Duration) {
        self.ops += 1;
        self.bytes += bytes;
        record(&mut self.latency, latency);
    }

    /// Counts the time until the first byte of an object was there, of an operation that is counted.
    pub fn count_first_byte(&mut self, time: Duration) {
        record(&mut self.first_byte, time);
    }

    /// Counts `times` faults of one kind.
    pub fn fault(&mut self, fault: Fault, times: u64) {
        *self.faults.entry(fault).or_default() += times;
    }

    /// Closes the counts of one thread, which lasted `elapsed`.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn close(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
        let seconds = elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.ops_s = self.ops as f64 / seconds;
            self.bytes_s = self.bytes as f64 / seconds;
        }
    }

    /// Adds the counts of a thread that ran at the same time.
    pub fn join(&mut self, other: Self) {
        let Self { ops, bytes, ops_s, bytes_s, elapsed, latency, first_byte, faults } = other;
        self.ops += ops;
        self.bytes += bytes;
        self.ops_s += ops_s;
        self.bytes_s += bytes_s;
        self.elapsed = self.elapsed.max(elapsed);
        self.latency.add(latency).expect("both have the same bounds");
        self.first_byte.add(first_byte).expect("both have the same bounds");
        for (fault, times) in faults {
            self.fault(fault, times);
        }
    }

    /// Adds the counts of another time.
    pub fn append(&mut self, other: Self) {
        let elapsed = self.elapsed + other.elapsed;
        self.join(other);
        self.close(elapsed);
    }

    /// Faults of all kinds, overload included.
    pub fn errors(&self) -> u64 {
        self.faults.values().sum()
    }

    /// The latency that `percent` of the operations do not exceed, in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "an hour in nanoseconds is far below 2^53")]
    pub fn latency_us(&self, percent: f64) -> f64 {
        self.latency.value_at_percentile(percent) as f64 / 1000.0
    }

    /// The time until the first byte of an object that `percent` of the reads do not exceed, in microseconds;
    /// `None` where nothing was read.
    #[expect(clippy::cast_precision_loss, reason = "an hour in nanoseconds is far below 2^53")]
    pub fn first_byte_us(&self, percent: f64) -> Option<f64> {
        (!self.first_byte.is_empty()).then(|| self.first_byte.value_at_percentile(percent) as f64 / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let mut one = Tally::default();
        one.count(10, Duration::from_micros(100));
        one.count(10, Duration::from_micros(300));
        one.close(Duration::from_secs(2));
        one.count_first_byte(Duration::from_micros(40));
        let mut other = Tally::default();
        other.count(5, Duration::from_micros(200));
        other.count_first_byte(Duration::from_micros(60));
        other.fault(Fault::SlowDown, 2);
        other.close(Duration::from_secs(1));
        one.join(other);
        assert_eq!((one.ops, one.bytes, one.errors()), (3, 25, 2));
        assert!((one.ops_s - 2.0).abs() < 1e-9, "one per second each");
        assert!((one.latency_us(50.0) - 200.0).abs() < 1.0);
        assert!((one.latency_us(100.0) - 300.0).abs() < 1.0);
        assert!(one.first_byte_us(100.0).is_some_and(|last| (last - 60.0).abs() < 1.0));
        assert_eq!(Tally::default().first_byte_us(50.0), None);
    }

    #[test]
    fn times_add_up() {
        let of = |ops: u64, seconds: u64| {
            let mut tally = Tally::default();
            (0..ops).for_each(|_| tally.count(1, Duration::from_millis(1)));
            tally.close(Duration::from_secs(seconds));
            tally
        };
        let mut one = of(30, 1);
        one.append(of(30, 2));
        assert!((one.ops_s - 20.0).abs() < 1e-9, "60 in 3 s");
        assert_eq!(one.latency.len(), 60);
    }

    #[test]
    fn a_latency_beyond_the_end_is_recorded_as_the_end() {
        let mut tally = Tally::default();
        tally.count(0, Duration::from_hours(25));
        assert!(tally.latency_us(100.0) >= 3.5e9);
    }
}
