//! Runs one way of one layer, pass after pass, and makes a row of the processor time that it took.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::ends::{BoxError, THREADS};
use super::payload::{Check, Payload};
use crate::question::bench::Bench;
use crate::question::error::Error;
use crate::result::Row;

/// Bytes of one pass.
const PASS_BYTES: u64 = 64 << 20;
const MOMENT_PASS_BYTES: u64 = 2 << 20;
const MIB: f64 = (1 << 20) as f64;

/// The outcome of one pass.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pass {
    /// Whether every byte arrived, and as it was sent where that was checked.
    pub(super) is_right: bool,
    /// Processor time of the end that sent, where it is a thread of its own.
    pub(super) sent: Option<Duration>,
    /// Processor time of the end that received, where it is a thread of its own.
    pub(super) received: Option<Duration>,
}

/// The bench, and what all layers need of it.
pub(super) struct Gauge<'a> {
    pub(super) bench: &'a mut Bench,
    pub(super) payload: Payload,
}

impl Pass {
    /// A pass whose two ends share their threads.
    pub(super) fn of(is_right: bool) -> Self {
        Self { is_right, ..Self::default() }
    }
}

impl<'a> Gauge<'a> {
    pub(super) fn new(bench: &'a mut Bench) -> Self {
        Self { bench, payload: Payload::new() }
    }

    /// Writes the settings of all rows.
    pub(super) fn state(&mut self) {
        let bytes = self.pass_bytes();
        self.bench.set("pass_mib", &(bytes >> 20));
        self.bench.set("payload_mib", &(self.payload.bytes().len() >> 20));
        self.bench.set("runtime_threads", &THREADS);
    }

    pub(super) fn pass_bytes(&self) -> u64 {
        if self.bench.is_moment() { MOMENT_PASS_BYTES } else { PASS_BYTES }
    }

    /// Measures `pass`, which moves the given number of bytes, for the time of the bench. Returns the
    /// processor seconds of a MiB.
    ///
    /// # Errors
    /// A pass failed.
    pub(super) fn measure(
        &mut self,
        layer: &str,
        way: &str,
        mut pass: impl FnMut(u64, Check) -> Result<Pass, BoxError>,
    ) -> Result<f64, Error> {
        let bytes = self.pass_bytes();
        let mut run = |check| {
            pass(bytes, check).map_err(|source| Error::at("move bytes")(format!("{layer}, {way}: {source}")))
        };
        // Also the first touch of buffers and connections.
        let mut wrong = u64::from(!run(Check::Compare)?.is_right);
        let (mut passes, mut sent, mut received) = (0_u32, Some(Duration::ZERO), Some(Duration::ZERO));
        let (begin, used) = (Instant::now(), process_time());
        while passes == 0 || begin.elapsed() < self.bench.window() {
            let done = run(Check::Count)?;
            wrong += u64::from(!done.is_right);
            sent = sent.zip(done.sent).map(|(all, one)| all + one);
            received = received.zip(done.received).map(|(all, one)| all + one);
            passes += 1;
        }
        let (used, wall) = (process_time().saturating_sub(used), begin.elapsed());
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53 bytes")]
        let mib = bytes as f64 / MIB * f64::from(passes);
        let rate = |time: Duration| mib / time.as_secs_f64().max(1e-9);
        for _ in 0..wrong {
            self.bench.fault(&format!("{layer}, {way}: the bytes that arrived are not those that were sent"));
        }
        let mut row = labelled(layer, way).with("core_mib_s", rate(used)).with("wall_mib_s", rate(wall));
        for (name, time) in [("sender_core_mib_s", sent), ("receiver_core_mib_s", received)] {
            row = match time {
                Some(time) => row.with(name, rate(time)),
                None => row,
            };
        }
        self.bench.add(row);
        Ok(used.as_secs_f64() / mib)
    }

    /// Adds the row of a difference of processor seconds of a MiB, if it is one.
    pub(super) fn difference(&mut self, layer: &str, way: &str, whole: f64, part: f64) {
        if whole > part {
            self.bench.add(labelled(layer, way).with("core_mib_s", 1.0 / (whole - part)));
        }
    }
}

fn labelled(layer: &str, way: &str) -> Row {
    Row::new([("layer", layer.to_owned()), ("way", way.to_owned())])
}

/// Processor time of this process so far, all threads.
fn process_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

/// Runs `work` and says how much processor time of this thread it took.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = time_of(ClockId::ThreadCPUTime);
    let result = work();
    (result, time_of(ClockId::ThreadCPUTime).saturating_sub(begin))
}

fn time_of(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).expect("used time is not negative")
}
