//! Interleaved runs of two sides, until the judged figures are known well enough.
//!
//! One round runs both sides, in turned order every other time: A B, B A, A B, ... Drift (a disk that fills,
//! a processor that warms up) then affects both alike. The rounds stop by the width of the interval of the
//! ratio, not by a difference between the sides: stopping at the first significant difference would find one
//! by chance.

use std::time::{Duration, Instant};

use super::runner::{RunError, Runner, Sample, Side};
use crate::stats::{Summary, ratio};

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Rounds before the intervals are looked at, at least 2.
    pub runs_min: usize,
    /// Rounds at most.
    pub runs_max: usize,
    /// No round begins after so much time, once there are `runs_min`.
    pub time_max: Duration,
    /// Width of the 95 % interval of the ratio, as a share of the ratio, under which a figure is settled.
    pub width: f64,
}

/// The samples of the rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// Samples of the first side, in the order of their rounds.
    pub first: Vec<Sample>,
    /// Samples of the second side.
    pub second: Vec<Sample>,
    /// Why the rounds ended.
    pub stop: Stop,
    /// The judged figures whose interval is still too wide, each with the width that it has.
    pub unsettled: Vec<(String, f64)>,
}

/// Why no further round was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Every judged figure is settled.
    Settled,
    /// The largest number of runs is reached.
    Runs,
    /// The time is over.
    Time,
}

/// Runs `sides` in turn until every figure of `judged` is settled or a limit is reached.
///
/// # Errors
/// A run failed.
pub fn interleave(
    runner: &mut dyn Runner,
    sides: [Side; 2],
    judged: &[String],
    limits: &Limits,
) -> Result<Rounds, Failure> {
    let begin = Instant::now();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    loop {
        let turned = first.len() % 2 == 1;
        let order = if turned { [1, 0] } else { [0, 1] };
        for which in order {
            let side = sides[which];
            let sample = runner.run(side).map_err(|source| Failure { side, source })?;
            [&mut first, &mut second][which].push(sample);
        }
        if first.len() < limits.runs_min.max(2) {
            continue;
        }
        let unsettled = unsettled(&first, &second, judged, limits.width);
        let stop = if unsettled.is_empty() {
            Stop::Settled
        } else if first.len() >= limits.runs_max {
            Stop::Runs
        } else if begin.elapsed() >= limits.time_max {
            Stop::Time
        } else {
            continue;
        };
        return Ok(Rounds { first, second, stop, unsettled });
    }
}

/// A run that failed, and its side.
#[derive(Debug)]
pub struct Failure {
    /// The side that ran.
    pub side: Side,
    /// The cause.
    pub source: RunError,
}

/// Readings of one figure; nothing if a sample lacks it.
pub fn readings(samples: &[Sample], figure: &str) -> Option<Vec<f64>> {
    samples.iter().map(|sample| sample.figures.get(figure).copied()).collect()
}

/// The judged figures whose interval is not under `width`. A figure without a ratio (one side is zero, or
/// lacks it) has no interval to wait for.
fn unsettled(first: &[Sample], second: &[Sample], judged: &[String], width: f64) -> Vec<(String, f64)> {
    let width_of = |figure: &String| {
        let summary = |samples| Summary::of(&readings(samples, figure)?);
        ratio(&summary(second)?, &summary(first)?).map(|ratio| ratio.width())
    };
    let wide = |figure: &String| Some((figure.clone(), width_of(figure).filter(|found| *found >= width)?));
    judged.iter().filter_map(wide).collect()
}
