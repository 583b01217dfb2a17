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

impl Limits {
    /// The limits that arguments ask for.
    ///
    /// # Errors
    /// An argument makes no sense; the text names it.
    pub fn checked(
        (runs_min, runs_max): (usize, usize),
        seconds_max: f64,
        width: f64,
    ) -> Result<Self, &'static str> {
        if runs_min < 2 || runs_max < runs_min {
            return Err("--min-runs is at least 2 and --max-runs at least --min-runs");
        }
        if width.is_nan() || width <= 0.0 {
            return Err("--interval is above 0");
        }
        let Ok(time_max) = Duration::try_from_secs_f64(seconds_max) else {
            return Err("--max-seconds is a number from 0 on");
        };
        Ok(Self { runs_min, runs_max, time_max, width })
    }

    /// Exactly `runs` rounds.
    pub const fn exactly(runs: usize, width: f64) -> Self {
        Self { runs_min: runs, runs_max: runs, time_max: Duration::MAX, width }
    }

    /// Why no round follows `rounds` of them, the first of which began at `begin`; nothing while one does.
    pub(crate) fn stop(&self, rounds: usize, begin: Instant, is_settled: bool) -> Option<Stop> {
        if rounds < self.runs_min.max(2) {
            None
        } else if is_settled {
            Some(Stop::Settled)
        } else if rounds >= self.runs_max {
            Some(Stop::Runs)
        } else if begin.elapsed() >= self.time_max {
            Some(Stop::Time)
        } else {
            None
        }
    }
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

impl Stop {
    /// The argument that ended rounds which are not settled.
    pub(crate) fn limit(self) -> Option<&'static str> {
        match self {
            Self::Settled => None,
            Self::Runs => Some("--max-runs"),
            Self::Time => Some("--max-seconds"),
        }
    }
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
        let unsettled = unsettled(&first, &second, judged, limits.width);
        if let Some(stop) = limits.stop(first.len(), begin, unsettled.is_empty()) {
            return Ok(Rounds { first, second, stop, unsettled });
        }
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
pub(crate) fn unsettled(
    first: &[Sample],
    second: &[Sample],
    judged: &[String],
    width: f64,
) -> Vec<(String, f64)> {
    let width_of = |figure: &String| {
        let summary = |samples| Summary::of(&readings(samples, figure)?);
        ratio(&summary(second)?, &summary(first)?).map(|ratio| ratio.width())
    };
    let wide = |figure: &String| Some((figure.clone(), width_of(figure).filter(|found| *found >= width)?));
    judged.iter().filter_map(wide).collect()
}
