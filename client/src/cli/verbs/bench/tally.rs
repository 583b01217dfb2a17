//! Counts, latencies and faults of one operation.

use std::collections::BTreeMap;
use std::time::Duration;

use bytesize::ByteSize;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::error::Error;
use crate::limits::LATENCY_US_MAX;

/// Quantiles that are shown, each with its name.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The outcome of an operation.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) operation: &'static str,
    pub(super) workers: usize,
    /// Bytes of an object; none for a list.
    pub(super) object_bytes: Option<u64>,
    /// From the first begin to the last end.
    pub(super) elapsed: Duration,
    /// Microseconds of what was right.
    latencies: Histogram<u64>,
    /// Counts by the kind of the error.
    faults: BTreeMap<&'static str, u64>,
    pub(super) first_fault: Option<Error>,
}

impl Tally {
    pub(super) fn new(operation: &'static str, workers: usize, object_bytes: Option<u64>) -> Self {
        let latencies =
            Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("three digits of an hour are allowed");
        let (elapsed, faults, first_fault) = (Duration::ZERO, BTreeMap::new(), None);
        Self { operation, workers, object_bytes, elapsed, latencies, faults, first_fault }
    }

    /// Counts an operation that took `elapsed`.
    pub(super) fn count(&mut self, elapsed: Duration, ended: Result<(), Error>) {
        match ended {
            Ok(()) => {
                self.latencies.saturating_record(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX));
            }
            Err(error) => {
                *self.faults.entry(error.kind()).or_default() += 1;
                self.first_fault.get_or_insert(error);
            }
        }
    }

    /// Adds what another worker did.
    pub(super) fn add(&mut self, other: Self) {
        self.latencies.add(&other.latencies).expect("both have the same bounds");
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        if let (None, Some(error)) = (&self.first_fault, other.first_fault) {
            self.first_fault = Some(error);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a short run are far below 2^52")]
    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn bytes_rate(&self) -> Option<u64> {
        let bytes = u128::from(self.object_bytes?) * u128::from(self.latencies.len());
        u64::try_from(bytes * 1000 / self.elapsed.as_millis().max(1)).ok()
    }

    fn faults(&self) -> u64 {
        self.faults.values().sum()
    }

    #[expect(clippy::cast_precision_loss, reason = "an operation takes less than 2^52 microseconds")]
    fn milliseconds(microseconds: u64) -> f64 {
        microseconds as f64 / 1000.0
    }

    fn latency(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let at = |quantile| Self::milliseconds(self.latencies.value_at_quantile(quantile));
        let quantiles = QUANTILES.into_iter().map(move |(name, quantile)| (name, at(quantile)));
        quantiles.chain([("max", Self::milliseconds(self.latencies.max()))])
    }

    pub(super) fn json(&self) -> Value {
        let latency: serde_json::Map<_, _> =
            self.latency().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        json!({
            "event": "measured", "operation": self.operation, "workers": self.workers,
            "object_bytes": self.object_bytes, "seconds": self.elapsed.as_secs_f64(),
            "operations": self.latencies.len(), "operations_per_second": self.rate(),
            "bytes_per_second": self.bytes_rate(), "latency_ms": latency, "faults": self.faults,
        })
    }

    pub(super) fn text(&self) -> String {
        let bytes = self.bytes_rate().map(|rate| format!(", {}/s", ByteSize::b(rate).display().iec()));
        let latency: Vec<String> = self.latency().map(|(name, value)| format!("{name} {value:.2}")).collect();
        format!(
            "{:4}  {:.1}/s{}, {} operations in {:.1} s by {} workers, ms: {}; {} faults",
            self.operation,
            self.rate(),
            bytes.unwrap_or_default(),
            self.latencies.len(),
            self.elapsed.as_secs_f64(),
            self.workers,
            latency.join(", "),
            self.faults(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_faults_apart_from_what_was_right() {
        let mut one = Tally::new("get", 2, Some(1 << 20));
        for ms in 1..=100 {
            one.count(Duration::from_millis(ms), Ok(()));
        }
        let mut other = Tally::new("get", 2, Some(1 << 20));
        other.count(Duration::from_secs(9), Err(Error::Cancelled));
        one.add(other);
        one.elapsed = Duration::from_secs(2);
        let json = one.json();
        assert_eq!((&json["operations"], &json["faults"]["cancelled"]), (&100.into(), &1.into()));
        assert_eq!(json["bytes_per_second"], 50 << 20);
        let p90 = json["latency_ms"]["p90"].as_f64().expect("a number");
        assert!((p90 - 90.0).abs() < 0.1 && json["latency_ms"]["max"].as_f64() < Some(101.0), "{json}");
        assert!(one.text().starts_with("get   50.0/s, 50.0 MiB/s, 100 operations"), "{}", one.text());
        assert!(one.text().ends_with("1 faults"));
    }
}
