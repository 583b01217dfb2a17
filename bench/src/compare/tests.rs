//! Comparisons of seeded runners: what is found, what is not, and when it ends.

use std::time::Duration;

use super::rounds::{Stop, interleave};
use super::verdict::Verdict;
use super::*;

/// Runs that scatter by a few percent around a mean of each side, from a seed.
struct Scattered {
    state: u64,
    spread: f64,
    mean: [f64; 2],
    order: Vec<Side>,
}

impl Scattered {
    fn new(seed: u64, spread: f64, mean: [f64; 2]) -> Self {
        Self { state: seed, spread, mean, order: Vec::new() }
    }

    /// A number from 0 to 1 (an LCG with Knuth's constants, upper bits).
    fn share(&mut self) -> f64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.state >> 32).unwrap()) / f64::from(u32::MAX)
    }
}

impl Runner for Scattered {
    fn run(&mut self, side: Side) -> Result<Sample, RunError> {
        self.order.push(side);
        // A sum of twelve shares is nearly normal with a deviation of one.
        let normal = (0..12).map(|_| self.share()).sum::<f64>() - 6.0;
        let mean = if side == Side::B { self.mean[1] } else { self.mean[0] };
        let seconds = mean * (1.0 + self.spread * normal);
        let figures = BTreeMap::from([("seconds".to_owned(), seconds), ("runs".to_owned(), 1.0)]);
        Ok(Sample { figures, flags: Vec::new() })
    }
}

fn limits() -> Limits {
    Limits { runs_min: 5, runs_max: 200, time_max: Duration::MAX, width: 0.05 }
}

fn operation() -> Operation {
    Operation::of_commands(Figure::Usage, vec!["seconds".to_owned()], Vec::new())
}

fn outcome(runner: &mut Scattered, limits: Limits) -> Outcome {
    let plan = Plan { warm_up: 1, noise: Some(limits), compare: limits };
    measure(operation(), runner, &plan).unwrap()
}

fn verdict(outcome: &Outcome) -> Verdict {
    outcome.judgements.iter().find(|found| found.figure == "seconds").unwrap().verdict
}

#[test]
fn a_against_a_shows_no_difference() {
    let found: Vec<_> = (0..200)
        .map(|seed| verdict(&outcome(&mut Scattered::new(seed, 0.03, [1.0, 1.0]), limits())))
        .collect();
    let differing = found.iter().filter(|found| **found != Verdict::NoDifference).count();
    // Welch alone would err in ten of two hundred.
    assert!(differing < 10, "{differing} of 200");
    assert_eq!(verdict(&outcome(&mut Scattered::new(7, 0.03, [1.0, 1.0]), limits())), Verdict::NoDifference);
}

#[test]
fn a_tenth_slower_is_a_regression_and_a_tenth_faster_is_none() {
    for seed in 0..50 {
        let slower = outcome(&mut Scattered::new(seed, 0.03, [1.0, 1.1]), limits());
        assert_eq!(verdict(&slower), Verdict::Worse, "seed {seed}");
        assert_eq!(slower.regressions().count(), 1);
        let faster = outcome(&mut Scattered::new(seed, 0.03, [1.0, 0.9]), limits());
        assert_eq!(verdict(&faster), Verdict::Better, "seed {seed}");
        assert_eq!(faster.regressions().count(), 0);
    }
}

#[test]
fn more_scatter_takes_more_runs() {
    let runs = |spread| outcome(&mut Scattered::new(3, spread, [1.0, 1.0]), limits()).rounds.first.len();
    let (quiet, loud) = (runs(0.001), runs(0.05));
    assert_eq!(quiet, 5, "settled as soon as it may be");
    assert!(loud > 20, "{loud}");
}

#[test]
fn what_does_not_settle_ends_and_is_said() {
    let limits = Limits { runs_max: 6, ..limits() };
    let mut runner = Scattered::new(1, 0.5, [1.0, 1.0]);
    let outcome = outcome(&mut runner, limits);
    assert_eq!((outcome.rounds.stop, outcome.rounds.first.len()), (Stop::Runs, 6));
    let text = show::text(["a", "b"], std::slice::from_ref(&outcome), true);
    assert!(text.contains("NOT SETTLED: command: stopped by --max-runs"), "{text}");
    assert!(text.contains("seconds (") && text.contains("A against A is not settled either"), "{text}");
    let rows = show::rows(&[outcome]);
    let seconds = rows.iter().find(|row| row.is(&[("kind", "verdict"), ("figure", "seconds")])).unwrap();
    assert_eq!(seconds.flags, ["not settled"]);
    let runs = rows.iter().find(|row| row.is(&[("kind", "verdict"), ("figure", "runs")])).unwrap();
    assert!(runs.flags.is_empty(), "only the judged figures settle");
}

#[test]
fn the_time_ends_it_after_the_least_number_of_runs() {
    let limits = Limits { time_max: Duration::ZERO, ..limits() };
    let outcome = outcome(&mut Scattered::new(1, 0.5, [1.0, 1.0]), limits);
    assert_eq!((outcome.rounds.stop, outcome.rounds.first.len()), (Stop::Time, 5));
    assert!(show::text(["a", "b"], &[outcome], true).contains("stopped by --max-seconds"));
}

#[test]
fn the_sides_take_turns_in_going_first() {
    let mut runner = Scattered::new(1, 0.0, [1.0, 1.0]);
    let limits = Limits { runs_min: 4, runs_max: 4, ..limits() };
    let judged = ["seconds".to_owned()];
    interleave(&mut runner, [Side::A, Side::B], &judged, &limits).unwrap();
    let order: String = runner.order.iter().map(Side::to_string).collect();
    assert_eq!(order, "ABBAABBA");
}

#[test]
fn a_figure_that_does_not_decide_is_no_regression() {
    struct Counting(usize);
    impl Runner for Counting {
        fn run(&mut self, side: Side) -> Result<Sample, RunError> {
            self.0 += 1;
            let noted = if side == Side::B { 2.0 } else { 1.0 };
            let figures = [("seconds", 1.0), ("noted", noted), ("steady", 3.0)];
            let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
            Ok(Sample { figures, flags: vec!["client bound".to_owned()] })
        }
    }
    let mut runner = Counting(0);
    let plan = Plan { warm_up: 2, noise: None, compare: Limits { runs_min: 3, runs_max: 3, ..limits() } };
    let outcome = measure(operation(), &mut runner, &plan).unwrap();
    assert_eq!(runner.0, 2 * 2 + 3 * 2);
    let noted = outcome.judgements.iter().find(|found| found.figure == "noted").unwrap();
    assert_eq!((noted.verdict, noted.judged, outcome.regressions().count()), (Verdict::Worse, false, 0));
    assert!(show::text(["a", "b"], std::slice::from_ref(&outcome), true).contains("| steady "));
    let text = show::text(["a", "b"], &[outcome], false);
    assert!(text.contains("| noted ") && !text.contains("| steady "), "{text}");
    assert!(text.contains("flagged: client bound") && text.contains("no noise floor was measured"), "{text}");
    assert!(text.ends_with("no regression\n"), "{text}");
}

#[test]
fn an_interval_without_end_can_be_written_and_read() {
    struct Wild(f64);
    impl Runner for Wild {
        fn run(&mut self, _: Side) -> Result<Sample, RunError> {
            // The mean is far smaller than the scatter, which only readings below zero can do.
            self.0 = if self.0 > 0.0 { -1e9 } else { 1e9 + 2.0 };
            Ok(Sample { figures: BTreeMap::from([("seconds".to_owned(), self.0)]), flags: Vec::new() })
        }
    }
    let limits = Limits { runs_min: 2, runs_max: 2, ..limits() };
    let plan = Plan { warm_up: 0, noise: Some(limits), compare: limits };
    let rows = show::rows(&[measure(operation(), &mut Wild(0.0), &plan).unwrap()]);
    let text = serde_json::to_string(&rows).unwrap();
    let read: Vec<crate::result::Row> = serde_json::from_str(&text).unwrap();
    assert_eq!(read.len(), rows.len());
    assert!(rows[0].is(&[("kind", "verdict")]), "{text}");
    assert!(rows[0].figure("ratio").is_some() && rows[0].figure("ratio_high").is_none(), "{text}");
}

#[test]
fn figures_that_are_not_reported_are_named() {
    let plan = Plan { warm_up: 0, noise: None, compare: Limits { runs_min: 2, runs_max: 2, ..limits() } };
    let judged = |names: &[&str]| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let operation = Operation::of_commands(Figure::Usage, names, Vec::new());
        measure(operation, &mut Scattered::new(1, 0.01, [1.0, 1.0]), &plan)
    };
    let outcome = judged(&["seconds", "p99_us"]).unwrap();
    assert_eq!(outcome.missing, ["p99_us"]);
    assert!(show::text(["a", "b"], &[outcome], true).contains("NOT JUDGED: command: p99_us"));
    let Err(StopReason::NothingToJudge(found)) = judged(&["p99_us"]) else { panic!("judged nothing") };
    assert_eq!(found, ["runs", "seconds"]);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let arguments = || Arguments {
        a: "a".to_owned(),
        b: "b".to_owned(),
        command: true,
        stdout: false,
        judge: Vec::new(),
        more: Vec::new(),
        operations: Vec::new(),
        folder: PathBuf::new(),
        durability: None,
        operations_from: PathBuf::new(),
        noise_runs: None,
        min_runs: 5,
        max_runs: 50,
        max_seconds: 900.0,
        interval: 0.05,
        warm_up: 1,
        all: false,
        moment: false,
        out: PathBuf::new(),
        name: "compare".to_owned(),
    };
    assert!(plan(&arguments()).is_ok());
    for wrong in [
        Arguments { min_runs: 1, ..arguments() },
        Arguments { max_runs: 4, ..arguments() },
        Arguments { noise_runs: Some(1), ..arguments() },
        Arguments { interval: 0.0, ..arguments() },
        Arguments { interval: f64::NAN, ..arguments() },
        Arguments { max_seconds: -1.0, ..arguments() },
        Arguments { max_seconds: f64::NAN, ..arguments() },
    ] {
        assert!(matches!(plan(&wrong), Err(Error::Usage(_))), "{wrong:?}");
    }
    let plan = |arguments: &Arguments| super::plan(arguments).unwrap();
    assert_eq!(plan(&Arguments { noise_runs: Some(0), ..arguments() }).noise, None);
    let fixed = plan(&Arguments { noise_runs: Some(7), ..arguments() }).noise.unwrap();
    assert_eq!((fixed.runs_min, fixed.runs_max), (7, 7));
    assert_eq!(plan(&Arguments { moment: true, ..arguments() }).compare.runs_max, 2);
}
