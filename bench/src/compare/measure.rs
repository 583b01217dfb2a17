//! One operation from warm-up to verdicts: A against A, then A against B, then every figure judged.
//!
//! Works on any [`Runner`], of commands or of stores; `compare::run` calls it once per operation.

use std::collections::{BTreeMap, BTreeSet};

use super::operation::Operation;
use super::rounds::{Failure, Limits, Rounds, interleave, readings};
use super::runner::{Runner, Sample, Side};
use super::verdict::{Judgement, Verdict, judge, noise_floor};
use crate::stats::Summary;

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Runs of each side that are thrown away first.
    pub warm_up: usize,
    /// Limits of A against A; none leaves it out.
    pub noise: Option<Limits>,
    /// Limits of A against B.
    pub compare: Limits,
}

/// The result of one operation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The operation.
    pub operation: Operation,
    /// A against A.
    pub noise: Option<Rounds>,
    /// A against B.
    pub rounds: Rounds,
    /// Every figure that both sides report: first those that decide, in the operation's order.
    pub judgements: Vec<Judgement>,
    /// Figures that should decide and that one side does not report.
    pub missing: Vec<String>,
    /// Settings of the sides, for the results.
    pub settings: BTreeMap<String, String>,
}

/// Why an operation has no outcome.
#[derive(Debug)]
pub enum StopReason {
    /// A run failed.
    Run(Failure),
    /// The sides do not both report a figure that decides; what they do report.
    NothingToJudge(Vec<String>),
}

impl Outcome {
    /// The figures that decide and in which B is worse.
    pub fn regressions(&self) -> impl Iterator<Item = &Judgement> {
        self.judgements.iter().filter(|found| found.judged && found.verdict == Verdict::Worse)
    }

    /// Every flag that a run of A against B has, once.
    pub fn flags(&self) -> BTreeSet<&str> {
        let samples = self.rounds.first.iter().chain(&self.rounds.second);
        samples.flat_map(|sample| sample.flags.iter().map(String::as_str)).collect()
    }
}

/// Measures `operation` as `plan` says.
///
/// # Errors
/// A run failed, or the sides share none of the figures that decide.
pub fn measure(operation: Operation, runner: &mut dyn Runner, plan: &Plan) -> Result<Outcome, StopReason> {
    for _ in 0..plan.warm_up {
        for side in [Side::A, Side::B] {
            runner.run(side).map_err(|source| StopReason::Run(Failure { side, source }))?;
        }
    }
    let mut rounds_of =
        |sides, limits: &Limits| interleave(runner, sides, &operation.judge, limits).map_err(StopReason::Run);
    let noise = match &plan.noise {
        Some(limits) => Some(rounds_of([Side::A, Side::Again], limits)?),
        None => None,
    };
    let rounds = rounds_of([Side::A, Side::B], &plan.compare)?;
    let reported = reported(&rounds);
    let (judge_first, mut missing): (Vec<String>, Vec<String>) = if operation.judge.is_empty() {
        (reported.clone(), Vec::new())
    } else {
        operation.judge.iter().cloned().partition(|figure| reported.contains(figure))
    };
    if judge_first.is_empty() {
        return Err(StopReason::NothingToJudge(reported));
    }
    let others = reported.iter().filter(|figure| !judge_first.contains(figure)).cloned();
    let mut judgements = Vec::new();
    for (figure, judged) in
        judge_first.iter().map(|figure| (figure.clone(), true)).chain(others.map(|figure| (figure, false)))
    {
        let sides = (readings(&rounds.first, &figure), readings(&rounds.second, &figure));
        let (Some(a), Some(b)) = sides else { continue };
        let floor = noise.as_ref().and_then(|noise| floor_of(noise, &figure));
        let found = judge(&figure, operation.more_is_better(&figure), (&a, &b), floor);
        match found {
            Some(found) => judgements.push(Judgement { judged, ..found }),
            // The figure's numbers are too large to compute with.
            None if judged => missing.push(figure),
            None => {}
        }
    }
    if !judgements.iter().any(|found| found.judged) {
        return Err(StopReason::NothingToJudge(reported));
    }
    Ok(Outcome { operation, noise, rounds, judgements, missing, settings: runner.settings() })
}

fn floor_of(noise: &Rounds, figure: &str) -> Option<f64> {
    let summary = |samples: &[Sample]| Summary::of(&readings(samples, figure)?);
    noise_floor(&summary(&noise.first)?, &summary(&noise.second)?)
}

/// The figures that every sample of both sides has.
fn reported(rounds: &Rounds) -> Vec<String> {
    let mut samples = rounds.first.iter().chain(&rounds.second);
    let Some(first) = samples.next() else { return Vec::new() };
    let mut names: Vec<_> = first.figures.keys().cloned().collect();
    for sample in samples {
        names.retain(|name| sample.figures.contains_key(name));
    }
    names
}
