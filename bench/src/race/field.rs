//! Rounds of a whole field: each round runs every tool once, in changed order, until the ratio of the first
//! tool to each other is known well enough.
//!
//! `compare::rounds` says when that is, as for two sides. A tool that fails once, or whose result is wrong,
//! is out of the row with the reason; the others go on.

use std::time::Instant;

use super::course::Course;
use super::error::{Error, Fault, RunFailure};
use crate::compare::rounds::{Limits, Stop, unsettled};
use crate::compare::runner::Sample;
use crate::compare::verdict::{Judgement, Verdict, judge, noise_floor};
use crate::stats::{Ratio, Summary, ratio};

/// The figure that decides.
pub(super) const DECIDES: &str = "seconds";
/// Tools of a field at least: the first, and the same once more.
pub(super) const AGAIN: usize = 1;

/// The runs of a tool in one row.
#[derive(Debug)]
pub(super) struct Entrant {
    pub(super) tool: String,
    pub(super) samples: Vec<Sample>,
    /// Why it is out.
    pub(super) fault: Option<Fault>,
}

impl Entrant {
    /// The readings of a figure that samples have.
    pub(super) fn readings(&self, figure: &str) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| sample.figures.get(figure).copied()).collect()
    }

    pub(super) fn summary(&self, figure: &str) -> Option<Summary> {
        Summary::of(&self.readings(figure))
    }
}

/// The outcome of one row on one store.
#[derive(Debug)]
pub(super) struct Heat {
    pub(super) store: String,
    pub(super) course: Course,
    /// The tool that is raced, the same again for the noise, the others.
    pub(super) field: Vec<Entrant>,
    /// Why the rounds ended.
    pub(super) stop: Stop,
}

impl Heat {
    pub(super) fn own(&self) -> &Entrant {
        &self.field[0]
    }

    /// The factor by which the first tool differs from itself.
    pub(super) fn noise_floor(&self) -> Option<f64> {
        noise_floor(&self.own().summary(DECIDES)?, &self.field[AGAIN].summary(DECIDES)?)
    }

    /// How the first tool stands to another; nothing where one of them is out.
    pub(super) fn judgement(&self, place: usize) -> Option<Judgement> {
        let other = &self.field[place];
        if self.own().fault.is_some() || other.fault.is_some() {
            return None;
        }
        judge(DECIDES, false, (&other.readings(DECIDES), &self.own().readings(DECIDES)), self.noise_floor())
    }

    /// The time of another tool over that of the first.
    pub(super) fn ratio(&self, place: usize) -> Option<Ratio> {
        let other = &self.field[place];
        if self.own().fault.is_some() || other.fault.is_some() {
            return None;
        }
        ratio(&other.summary(DECIDES)?, &self.own().summary(DECIDES)?)
    }

    /// The places of the other tools.
    pub(super) fn others(&self) -> std::ops::Range<usize> {
        AGAIN + 1..self.field.len()
    }

    /// Whether the first tool is out, or slower than another beyond chance and noise.
    pub(super) fn is_lost(&self) -> bool {
        let is_worse = |place| self.judgement(place).is_some_and(|found| found.verdict == Verdict::Worse);
        self.own().fault.is_some() || self.others().any(is_worse)
    }

    /// Whether any tool is out.
    pub(super) fn has_fault(&self) -> bool {
        self.field.iter().any(|entrant| entrant.fault.is_some())
    }

    /// The tools whose ratio is not known well enough, each with the width of its interval.
    pub(super) fn unsettled(&self, width: f64) -> Vec<(&str, f64)> {
        unsettled_of(&self.field, width)
    }
}

/// Runs the tools in rounds, after `warm_up` of them that do not count. `run` gets a tool's place and the
/// number of the round.
///
/// # Errors
/// A run ended the race.
pub(super) fn race(
    tools: &[&str],
    warm_up: usize,
    limits: &Limits,
    run: &mut dyn FnMut(usize, usize) -> Result<Sample, RunFailure>,
) -> Result<(Vec<Entrant>, Stop), Error> {
    let entrant = |tool: &&str| Entrant { tool: (*tool).to_owned(), samples: Vec::new(), fault: None };
    let mut field: Vec<Entrant> = tools.iter().map(entrant).collect();
    let mut begin = Instant::now();
    for round in 0.. {
        for place in order(field.len(), round) {
            if field[place].fault.is_some() {
                continue;
            }
            match run(place, round) {
                Ok(sample) if round >= warm_up => field[place].samples.push(sample),
                Ok(_) => {}
                Err(RunFailure::Tool(fault)) => field[place].fault = Some(fault),
                Err(RunFailure::Race(error)) => return Err(error),
            }
        }
        if round < warm_up {
            begin = Instant::now();
            continue;
        }
        let is_over = field.iter().all(|entrant| entrant.fault.is_some());
        let is_settled = is_over || unsettled_of(&field, limits.width).is_empty();
        if let Some(stop) = limits.stop(round + 1 - warm_up, begin, is_settled) {
            return Ok((field, stop));
        }
    }
    unreachable!("rounds do not end without a reason")
}

/// The order of a round. In as many rounds as there are tools each tool is at each place once and, for an
/// even number of tools, behind each other one once; the same rounds follow from back to front, which makes
/// up for an odd number. So all suffer alike from what a run leaves behind: a busy store, a full cache.
fn order(count: usize, round: usize) -> Vec<usize> {
    let zigzag = (0..count).map(|step| if step % 2 == 0 { step / 2 } else { count - 1 - step / 2 });
    let mut order: Vec<usize> = zigzag.map(|place| (place + round) % count).collect();
    if round / count % 2 == 1 {
        order.reverse();
    }
    order
}

/// The tools beside the first whose ratio to it is not narrower than `width`.
fn unsettled_of(field: &[Entrant], width: f64) -> Vec<(&str, f64)> {
    let Some((first, others)) = field.split_first() else { return Vec::new() };
    let running = others.iter().filter(|other| other.fault.is_none() && first.fault.is_none());
    let judged = [DECIDES.to_owned()];
    let wide = running.filter_map(|other| {
        let wide = unsettled(&first.samples, &other.samples, &judged, width);
        wide.first().map(|(_, width)| (other.tool.as_str(), *width))
    });
    wide.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::super::course::COURSES;
    use super::*;

    const LIMITS: Limits = Limits { runs_min: 3, runs_max: 6, time_max: Duration::MAX, width: 0.05 };

    fn sample(seconds: f64) -> Sample {
        let figures =
            [(DECIDES, seconds), ("peak_rss_mib", 30.0)].map(|(name, value)| (name.to_owned(), value));
        Sample { figures: BTreeMap::from(figures), flags: Vec::new() }
    }

    fn wrong() -> Fault {
        Fault::Bytes { name: "000/000001".to_owned() }
    }

    pub(in crate::race) fn entrant(tool: &str, seconds: &[f64]) -> Entrant {
        let samples = seconds.iter().copied().map(sample).collect();
        Entrant { tool: tool.to_owned(), samples, fault: None }
    }

    pub(in crate::race) fn out(tool: &str, seconds: &[f64]) -> Entrant {
        Entrant { fault: Some(wrong()), ..entrant(tool, seconds) }
    }

    pub(in crate::race) fn heat(own: &[f64], again: &[f64], others: Vec<Entrant>) -> Heat {
        let mut field = vec![entrant("sherd", own), entrant("sherd again", again)];
        field.extend(others);
        Heat { store: "minio".to_owned(), course: COURSES[0], field, stop: Stop::Settled }
    }

    #[test]
    fn each_tool_follows_each_other_equally_often() {
        for count in 1..8 {
            let mut followed = BTreeMap::new();
            let mut places = BTreeSet::new();
            for round in 0..2 * count {
                let order = order(count, round);
                assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), count, "{order:?}");
                places.extend(order.iter().enumerate().map(|(at, place)| (at, *place)));
                for pair in order.windows(2) {
                    *followed.entry((pair[0], pair[1])).or_insert(0) += 1;
                }
            }
            assert_eq!(places.len(), count * count);
            assert_eq!(followed.len(), count * (count - 1));
            assert!(followed.values().all(|times| *times == 2), "{count}: {followed:?}");
        }
    }

    #[test]
    fn rounds_end_when_the_ratios_are_known_and_the_warm_up_does_not_count() {
        let mut runs = Vec::new();
        let (field, stop) = race(&["a", "b", "c"], 1, &LIMITS, &mut |place, round| {
            runs.push((round, place));
            Ok(sample(if round == 0 { 99.0 } else { [1.0, 2.0, 3.0][place] }))
        })
        .unwrap();
        assert_eq!((runs.len(), stop), (12, Stop::Settled));
        assert_eq!(field.iter().map(|entrant| entrant.samples.len()).collect::<Vec<_>>(), [3; 3]);
        assert_eq!(field[2].readings(DECIDES), [3.0; 3]);
    }

    #[test]
    fn a_ratio_that_scatters_is_measured_up_to_the_limit() {
        let (field, stop) = race(&["a", "a again", "b"], 0, &LIMITS, &mut |place, round| {
            Ok(sample(if place == 2 && round % 2 == 0 { 9.0 } else { 1.0 }))
        })
        .unwrap();
        assert_eq!((field[0].samples.len(), field[2].samples.len(), stop), (6, 6, Stop::Runs));
        let heat = Heat { field, stop, ..heat(&[], &[], vec![]) };
        assert_eq!(heat.unsettled(LIMITS.width).first().map(|(tool, _)| *tool), Some("b"));
        assert!(!heat.is_lost());
    }

    #[test]
    fn a_tool_that_fails_is_out_and_the_others_go_on() {
        let (field, _) = race(&["a", "b", "c"], 0, &LIMITS, &mut |place, round| {
            if (place, round) == (1, 1) { Err(wrong().into()) } else { Ok(sample(1.0)) }
        })
        .unwrap();
        assert_eq!(field.iter().map(|entrant| entrant.samples.len()).collect::<Vec<_>>(), [3, 1, 3]);
        assert!(field[1].fault.is_some() && field[0].fault.is_none());
        let mut runs = 0;
        race(&["a", "b"], 1, &LIMITS, &mut |_, _| {
            runs += 1;
            Err(wrong().into())
        })
        .unwrap();
        assert_eq!(runs, 2, "a tool that is out is not run again");
    }

    #[test]
    fn an_error_of_the_store_ends_the_race_and_is_no_tools_fault() {
        let ended = race(&["a", "b"], 0, &LIMITS, &mut |_, _| Err(Error::Usage("gone").into()));
        assert!(matches!(ended, Err(Error::Usage("gone"))));
    }

    #[test]
    fn a_row_is_lost_by_a_difference_beyond_chance_and_noise() {
        let (fast, slow) = ([1.0, 1.01, 1.02], [2.0, 2.01, 2.02]);
        let against = |own: &[f64], again: &[f64], other: &[f64]| heat(own, again, vec![entrant("b", other)]);
        assert!(!against(&fast, &fast, &slow).is_lost());
        assert!(against(&slow, &slow, &fast).is_lost());
        assert!(!against(&slow, &[3.0, 3.01, 3.02], &[1.5, 1.51, 1.52]).is_lost(), "its own noise is larger");
        assert!(!against(&[1.0, 3.0], &[1.0, 3.0], &[1.2, 2.0]).is_lost(), "by chance");
    }

    #[test]
    fn a_tool_that_is_out_wins_nothing() {
        let (fast, slow) = ([1.0, 1.01, 1.02], [2.0, 2.01, 2.02]);
        let found = heat(&slow, &slow, vec![out("b", &fast)]);
        assert!(!found.is_lost() && found.has_fault());
        assert!(found.judgement(2).is_none() && found.ratio(2).is_none());
        let mut found = heat(&fast, &fast, vec![entrant("b", &slow)]);
        assert!(!found.has_fault());
        found.field[0].fault = Some(wrong());
        assert!(found.is_lost() && found.has_fault() && found.judgement(2).is_none());
    }
}
