//! Targets of `report.toml` against results: a line for each, with the worst of its cases.
//!
//! A ratio is always written so that more is in the subject's favour: of rates subject over peer, of time,
//! processor and memory peer over subject.

use std::collections::BTreeMap;

use super::markdown::{Align, Table};
use super::settings::{Settings, Target};
use crate::figure;
use crate::result::{Results, Row};

/// One case of a target: a combination of the labels that it names.
struct TargetCase {
    name: String,
    /// Times better than the peer, or without a peer the figure itself.
    found: Option<f64>,
    is_met: bool,
    has_aim: bool,
    flags: Vec<String>,
}

/// How many times better than its peer the subject is in a figure.
pub fn times_better(name: &str, subject: Option<f64>, peer: Option<f64>) -> Option<f64> {
    let (subject, peer) = (subject?, peer?);
    let (above, below) = if figure::more_is_better(name) { (subject, peer) } else { (peer, subject) };
    (below > 0.0).then(|| above / below)
}

/// A ratio as it stands in a table.
pub fn times(ratio: f64) -> String {
    format!("{}x", figure::number(ratio))
}

/// The table of all targets, and the number of their cases that are fulfilled.
pub(super) fn table(settings: &Settings, results: &BTreeMap<String, Results>) -> Result<String, String> {
    let mut table = Table::new();
    for heading in ["target", "figure", "required", "aim", "worst", "case", "met", "aim met", "suite"] {
        let is_number = matches!(heading, "required" | "aim" | "worst" | "met" | "aim met");
        table.column(heading, if is_number { Align::Right } else { Align::Left });
    }
    let (mut met, mut all, mut unmeasured) = (0, 0, 0);
    for target in &settings.targets {
        let named = |reason| format!("target `{}`: {reason}", target.work);
        let cases = cases(results.get(&target.suite), target).map_err(named)?;
        let measured: Vec<&TargetCase> = cases.iter().filter(|case| case.found.is_some()).collect();
        let of = |is: &dyn Fn(&TargetCase) -> bool| measured.iter().filter(|case| is(case)).count();
        met += of(&|case| case.is_met);
        all += cases.len();
        unmeasured += cases.len() - measured.len();
        // A bound of the figure itself is worst where it is largest.
        let rank =
            |case: &&&TargetCase| case.found.map(|found| if target.peer.is_some() { found } else { -found });
        let worst =
            measured.iter().min_by(|one, other| rank(one).partial_cmp(&rank(other)).expect("numbers"));
        let met_text = match of(&|case| case.is_met) {
            _ if measured.is_empty() => "not measured".to_owned(),
            count if count < cases.len() => format!("**{count} of {}**", cases.len()),
            count => format!("{count} of {count}"),
        };
        let aimed = format!("{} of {}", of(&|case| case.has_aim), cases.len());
        let show =
            |value| if target.peer.is_some() { times(value) } else { figure::show(&target.figure, value) };
        table.line(vec![
            target.work.clone(),
            figure::heading(&target.figure),
            required(results.get(&target.suite), target),
            target.aim.map(times).unwrap_or_default(),
            worst.and_then(|case| case.found).map_or_else(|| "-".to_owned(), show),
            worst
                .map(|case| [vec![case.name.clone()], case.flags.clone()].concat().join("; "))
                .unwrap_or_default(),
            met_text,
            target.aim.map(|_| aimed).unwrap_or_default(),
            target.suite.clone(),
        ]);
    }
    let missed = all - met - unmeasured;
    let unmeasured = if unmeasured > 0 { format!("; not measured: {unmeasured}") } else { String::new() };
    Ok(format!("{}\nMet: {met} of {all} cases; not met: {missed}{unmeasured}.\n", table.text()))
}

/// The bound of `at_most`, in the figure's unit.
fn bound(results: &Results, target: &Target) -> Result<Option<f64>, String> {
    let factor = match &target.device {
        None => 1.0,
        Some(name) => *results.device.get(name).ok_or_else(|| format!("the device has no `{name}`"))?,
    };
    Ok(target.at_most.map(|most| most * factor))
}

fn required(results: Option<&Results>, target: &Target) -> String {
    let most = results.and_then(|results| bound(results, target).ok().flatten()).or(target.at_most);
    let most = most.map(|most| format!("at most {}", figure::show(&target.figure, most)));
    target.at_least.map(times).into_iter().chain(most).collect::<Vec<_>>().join(", ")
}

/// A case for each combination of the target's labels.
fn cases(results: Option<&Results>, target: &Target) -> Result<Vec<TargetCase>, String> {
    let mut combined: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for (label, values) in &target.labels {
        let mut extended = Vec::new();
        for case in &combined {
            for value in values.all() {
                extended.push([&case[..], &[(label.as_str(), value.as_str())]].concat());
            }
        }
        combined = extended;
    }
    combined.iter().map(|labels| judge(results, target, labels)).collect()
}

fn judge(results: Option<&Results>, target: &Target, labels: &[(&str, &str)]) -> Result<TargetCase, String> {
    let several = |label: &str| target.labels.get(label).is_some_and(|values| values.all().len() > 1);
    let varying = labels.iter().filter(|(label, _)| several(label));
    let name = varying.map(|(label, value)| format!("{label} {value}")).collect::<Vec<_>>().join(", ");
    let nothing =
        || TargetCase { name: name.clone(), found: None, is_met: false, has_aim: false, flags: Vec::new() };
    let Some(results) = results else { return Ok(nothing()) };
    let side = |side: &str| one(results, &[labels, &[(target.across.as_str(), side)]].concat());
    let (subject, peer) = match &target.peer {
        Some(peer) => (side(&target.subject)?, side(peer)?),
        None => (one(results, labels)?, None),
    };
    let of = |row: Option<&Row>| row.and_then(|row| row.figure(&target.figure));
    let Some(value) = of(subject) else { return Ok(nothing()) };
    let better = times_better(&target.figure, Some(value), of(peer));
    let found = if target.peer.is_some() { better } else { Some(value) };
    let enough = |least: Option<f64>| least.is_none_or(|least| better.is_some_and(|better| better >= least));
    let is_met = enough(target.at_least) && bound(results, target)?.is_none_or(|most| value <= most);
    let mut flags: Vec<String> = Vec::new();
    for flag in [subject, peer].into_iter().flatten().flat_map(|row| &row.flags) {
        if !flags.contains(flag) {
            flags.push(flag.clone());
        }
    }
    Ok(TargetCase { name, found, is_met, has_aim: is_met && enough(target.aim), flags })
}

/// The one row with these labels; an error if there are several.
fn one<'a>(results: &'a Results, labels: &[(&str, &str)]) -> Result<Option<&'a Row>, String> {
    let mut found = results.rows.iter().filter(|row| row.is(labels));
    let (first, second) = (found.next(), found.next());
    match (first, second) {
        (Some(first), Some(second)) => {
            let differs = first.labels.iter().find(|(label, value)| second.labels.get(*label) != Some(value));
            let by = differs.map_or("nothing", |(label, _)| label);
            Err(format!("two rows fall into one place; they differ by: {by}"))
        }
        (first, _) => Ok(first),
    }
}
