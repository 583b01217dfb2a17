//! Repeated measurements of the same cases, reduced to the median of every figure.

use std::collections::{BTreeMap, BTreeSet};

use crate::result::Row;

#[derive(Debug, Default)]
pub(super) struct Rounds {
    cases: Vec<CaseRuns>,
}

#[derive(Debug)]
struct CaseRuns {
    labels: BTreeMap<String, String>,
    found: Vec<BTreeMap<String, f64>>,
    flags: BTreeSet<String>,
}

impl Rounds {
    pub(super) fn add(&mut self, row: Row) {
        let Row { labels, figures, flags } = row;
        let flags = flags.into_iter();
        match self.cases.iter_mut().find(|case| case.labels == labels) {
            Some(case) => {
                case.found.push(figures);
                case.flags.extend(flags);
            }
            None => self.cases.push(CaseRuns { labels, found: vec![figures], flags: flags.collect() }),
        }
    }

    /// The medians, with every flag that a round had. `spread_share` says how far the rounds lie apart: from
    /// the slowest to the fastest, in parts of the median.
    pub(super) fn rows(self) -> Vec<Row> {
        self.cases
            .into_iter()
            .map(|CaseRuns { labels, found, flags }| {
                let mut by_name: BTreeMap<String, Vec<f64>> = BTreeMap::new();
                for (name, value) in found.into_iter().flatten() {
                    by_name.entry(name).or_default().push(value);
                }
                let spread = by_name.get("ops_s").and_then(|rates| spread(rates));
                let mut figures: BTreeMap<String, f64> =
                    by_name.into_iter().map(|(name, values)| (name, median(values))).collect();
                figures.extend(spread.map(|spread| ("spread_share".to_owned(), spread)));
                Row { labels, figures, flags: flags.into_iter().collect() }
            })
            .collect()
    }
}

/// From the least to the most, in parts of the median; `None` for a single value.
fn spread(values: &[f64]) -> Option<f64> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    (values.len() > 1).then(|| (most - least) / median(values.to_vec()))
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.get(middle) {
        None => f64::NAN,
        Some(value) if values.len() % 2 == 1 => *value,
        Some(value) => f64::midpoint(values[middle - 1], *value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, rate: f64) -> Row {
        Row::new([("variant", variant.to_owned())]).with("ops_s", rate)
    }

    #[test]
    fn each_thing_measured_becomes_one_row_of_medians() {
        let mut rounds = Rounds::default();
        for (one, other) in [(10.0, 1.0), (30.0, 3.0), (20.0, 100.0)] {
            rounds.add(Row { flags: vec!["busy".to_owned()], ..row("one", one) });
            rounds.add(row("other", other));
        }
        let rows = rounds.rows();
        assert_eq!(rows.len(), 2);
        assert!(rows[0].is(&[("variant", "one")]));
        assert_eq!((rows[0].figure("ops_s"), rows[0].figure("spread_share")), (Some(20.0), Some(1.0)));
        assert_eq!(rows[1].figure("ops_s"), Some(3.0));
        assert_eq!((&rows[0].flags[..], &rows[1].flags[..]), (&["busy".to_owned()][..], &[][..]), "once");
    }

    #[test]
    fn one_measurement_has_no_spread() {
        let mut rounds = Rounds::default();
        rounds.add(row("one", 10.0));
        assert_eq!(rounds.rows()[0].figure("spread_share"), None);
    }
}
