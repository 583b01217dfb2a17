//! Targets of `report.toml` against results: `{{targets SUITE}}`, and the columns beside a ratio.
//!
//! A ratio is always written so that more is in the subject's favour: of rates subject over peer, of time,
//! processor and memory peer over subject.

use super::markdown::{Align, Table};
use super::notes::Notes;
use super::select::{label_text, one};
use super::settings::{Settings, Target};
use crate::figure;
use crate::result::{Results, Row};

/// Whether a target is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// The aim, or all that was asked for where no aim is set.
    Yes,
    /// What is asked for at least, and not the aim.
    AtLeast,
    /// Not.
    No,
    /// The results do not tell.
    Unknown,
}

impl Met {
    fn text(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::AtLeast => "yes, aim not",
            Self::No => "**no**",
            Self::Unknown => "not measured",
        }
    }
}

/// How many times better than its peer the subject is in a figure.
pub(super) fn times_better(name: &str, subject: Option<f64>, peer: Option<f64>) -> Option<f64> {
    let (subject, peer) = (subject?, peer?);
    let (above, below) = if figure::more_is_better(name) { (subject, peer) } else { (peer, subject) };
    (below > 0.0).then(|| above / below)
}

/// A ratio as it stands in a table.
pub(super) fn times(ratio: f64) -> String {
    format!("{}x", figure::number(ratio))
}

/// The target of a ratio between `subject` and `peer` of the label `across`, for rows of these labels.
pub(super) fn target_of<'a>(
    settings: &'a Settings,
    suite: &str,
    name: &str,
    (across, subject, peer): (&str, &str, &str),
    labels: &[(&str, &str)],
) -> Option<&'a Target> {
    settings.targets.iter().find(|target| {
        let holds = |(label, wanted): (&String, &super::settings::Values)| {
            labels
                .iter()
                .any(|(known, value)| known == label && wanted.all().iter().any(|wanted| wanted == value))
        };
        target.suite == suite
            && target.figure == name
            && target.at_least.is_some()
            && target.across == across
            && target.subject == subject
            && target.peer.as_deref() == Some(peer)
            && target.labels.iter().all(holds)
    })
}

/// The cells `at least`, `aim` and `met` beside a ratio; empty where no target holds.
pub(super) fn judged_ratio(target: Option<&Target>, better: Option<f64>) -> [String; 3] {
    let Some(target) = target else { return [String::new(), String::new(), String::new()] };
    let show = |ratio: Option<f64>| ratio.map(times).unwrap_or_default();
    [show(target.at_least), show(target.aim), met_ratio(target, better).text().to_owned()]
}

fn met_ratio(target: &Target, better: Option<f64>) -> Met {
    match (better, target.at_least) {
        (None, _) => Met::Unknown,
        (Some(better), Some(least)) if better < least => Met::No,
        (Some(better), _) if target.aim.is_some_and(|aim| better < aim) => Met::AtLeast,
        _ => Met::Yes,
    }
}

/// One line of the table of targets.
struct Judged {
    case: String,
    met: Met,
    cells: Vec<String>,
}

/// The table of all targets of a suite, and how many are met; none if the suite has none.
pub(super) fn table(settings: &Settings, results: &Results) -> Result<Option<String>, String> {
    let targets = settings.targets.iter().filter(|target| target.suite == results.suite);
    let (mut lines, mut notes) = (Vec::new(), Notes::default());
    for target in targets {
        let named = |reason| format!("target `{}`: {reason}", target.work);
        lines.extend(judge(results, target, &mut notes).map_err(named)?);
    }
    if lines.is_empty() {
        return Ok(None);
    }
    let mut table = Table::new();
    for (heading, align) in [
        ("work", Align::Left),
        ("figure", Align::Left),
        ("subject", Align::Right),
        ("peer", Align::Right),
        ("times better", Align::Right),
        ("required", Align::Right),
        ("aim", Align::Right),
        ("met", Align::Left),
    ] {
        table.column(heading, align);
    }
    for line in &lines {
        let mut cells = vec![line.case.clone()];
        cells.extend(line.cells.iter().cloned());
        cells.push(line.met.text().to_owned());
        table.line(cells);
    }
    Ok(Some(format!("{}{}\n{}\n", table.text(), notes.text(), summary(&lines))))
}

fn summary(lines: &[Judged]) -> String {
    let of = |met: Met| lines.iter().filter(move |line| line.met == met);
    let (full, least) = (of(Met::Yes).count(), of(Met::AtLeast).count());
    let (missed, unknown) = (of(Met::No).count(), of(Met::Unknown).count());
    let missed = if missed > 0 { format!("; not met: {missed}") } else { String::new() };
    let unknown = if unknown > 0 { format!("; not measured: {unknown}") } else { String::new() };
    format!("Met: {} of {}, {full} of them in full{missed}{unknown}.", full + least, lines.len())
}

/// A line for each combination of the target's labels.
fn judge(results: &Results, target: &Target, notes: &mut Notes) -> Result<Vec<Judged>, String> {
    let mut cases: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for (label, values) in &target.labels {
        let mut extended = Vec::new();
        for case in &cases {
            for value in values.all() {
                extended.push([case.clone(), vec![(label.as_str(), value.as_str())]].concat());
            }
        }
        cases = extended;
    }
    let several = |label: &str| target.labels.get(label).is_some_and(|values| values.all().len() > 1);
    cases
        .iter()
        .map(|labels| {
            let varying = labels.iter().filter(|(label, _)| several(label));
            let varying: Vec<_> =
                varying.map(|(label, value)| format!("{label} {}", label_text(value))).collect();
            let case = [vec![target.work.clone()], varying].concat().join(", ");
            one_case(results, target, labels, case, notes)
        })
        .collect()
}

fn one_case(
    results: &Results,
    target: &Target,
    labels: &[(&str, &str)],
    case: String,
    notes: &mut Notes,
) -> Result<Judged, String> {
    let rows: Vec<&Row> = results.rows.iter().collect();
    let row_of = |who: &str| -> Result<Option<&Row>, String> {
        one(&rows, &[labels, &[(target.across.as_str(), who)]].concat())
    };
    // Without a peer there is nothing to tell apart, and the rows may not have the label.
    let (subject_row, peer_row) = match &target.peer {
        Some(peer) => (row_of(&target.subject)?, row_of(peer)?),
        None => (one(&rows, labels)?, None),
    };
    let value = |row: Option<&Row>| row.and_then(|row| row.figure(&target.figure));
    let (subject, peer) = (value(subject_row), value(peer_row));
    let better = times_better(&target.figure, subject, peer);
    let unit = target.device.as_ref().map_or(Some(1.0), |device| results.device.get(device).copied());
    let bound = target.at_most.zip(unit).map(|(times, unit)| times * unit);
    let within = match (subject, target.at_most) {
        (_, None) => Met::Yes,
        (Some(subject), Some(_)) => {
            bound.map_or(Met::Unknown, |bound| if subject <= bound { Met::Yes } else { Met::No })
        }
        (None, Some(_)) => Met::Unknown,
    };
    let ratio = if target.at_least.is_some() { met_ratio(target, better) } else { Met::Yes };
    let met = [Met::No, Met::Unknown, Met::AtLeast].into_iter().find(|met| [within, ratio].contains(met));
    let show = |value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |value| figure::show(&target.figure, value))
    };
    let required: Vec<_> =
        [target.at_least.map(times), target.at_most.map(|_| format!("at most {}", show(bound)))]
            .into_iter()
            .flatten()
            .collect();
    let mut marked = |row: Option<&Row>, text: String| match row {
        Some(row) => format!("{text}{}", notes.marks(&row.flags)),
        None => text,
    };
    let cells = vec![
        figure::heading(&target.figure),
        marked(subject_row, show(subject)),
        marked(peer_row, show(peer)),
        better.map_or_else(|| "-".to_owned(), times),
        required.join(", "),
        target.aim.map(times).unwrap_or_default(),
    ];
    Ok(Judged { case, met: met.unwrap_or(Met::Yes), cells })
}
