//! Finds rows of results by their labels and puts values of labels in order.

use std::collections::BTreeSet;

use super::placeholder::Placeholder;
use crate::figure;
use crate::result::{Results, Row};

/// Stands for a label that a row does not have.
const MISSING: &str = "-";

/// The rows of `results` whose labels are as the pairs of the placeholder say, `own` keys aside.
///
/// A value may be several, separated by commas, and [`MISSING`] is a label that is not there. A label that no
/// row has is an error: it is a typing mistake. A value that no row has is not: that part was not measured.
pub(super) fn rows<'a>(
    results: &'a Results,
    placeholder: &Placeholder,
    own: &[&str],
) -> Result<Vec<&'a Row>, String> {
    let filters: Vec<_> = placeholder.pairs.iter().filter(|(key, _)| !own.contains(&key.as_str())).collect();
    for (label, _) in &filters {
        known_label(results, label)?;
    }
    let fits = |row: &&Row| {
        let has = |(label, values): &&(String, String)| {
            let found = row.labels.get(label).map_or(MISSING, String::as_str);
            values.split(',').any(|value| value == found)
        };
        filters.iter().all(has)
    };
    Ok(results.rows.iter().filter(fits).collect())
}

/// Checks that some row has the label.
pub(super) fn known_label(results: &Results, label: &str) -> Result<(), String> {
    let known: BTreeSet<_> =
        results.rows.iter().flat_map(|row| row.labels.keys().map(String::as_str)).collect();
    if known.contains(label) { Ok(()) } else { Err(unknown("label", label, results, &known)) }
}

/// Checks that some row has the figure.
pub(super) fn known_figure(results: &Results, name: &str) -> Result<(), String> {
    let known: BTreeSet<_> =
        results.rows.iter().flat_map(|row| row.figures.keys().map(String::as_str)).collect();
    if known.contains(name) { Ok(()) } else { Err(unknown("figure", name, results, &known)) }
}

fn unknown(what: &str, name: &str, results: &Results, known: &BTreeSet<&str>) -> String {
    let known: Vec<_> = known.iter().copied().collect();
    format!("no row of {}.json has the {what} `{name}`, but: {}", results.suite, known.join(", "))
}

/// The values of `label` in `rows`, each once: by magnitude where all have one, else as they come.
pub(super) fn values<'a>(rows: &[&'a Row], label: &str) -> Vec<&'a str> {
    let mut values: Vec<&str> = Vec::new();
    for row in rows {
        if let Some(value) = row.labels.get(label).filter(|value| !values.contains(&value.as_str())) {
            values.push(value);
        }
    }
    if values.iter().all(|value| figure::magnitude(value).is_some()) {
        values.sort_by(|one, other| {
            figure::magnitude(one).partial_cmp(&figure::magnitude(other)).expect("numbers")
        });
    }
    values
}

/// The combinations of `labels` that occur in `rows`, ordered label by label; a missing label is empty.
pub(super) fn combinations<'a>(rows: &[&'a Row], labels: &[&str]) -> Vec<Vec<&'a str>> {
    let orders: Vec<Vec<&str>> = labels.iter().map(|label| values(rows, label)).collect();
    let mut found: Vec<(Vec<usize>, Vec<&str>)> = Vec::new();
    for row in rows {
        let values: Vec<&str> =
            labels.iter().map(|label| row.labels.get(*label).map_or("", String::as_str)).collect();
        let rank = |(value, order): (&&str, &Vec<&str>)| {
            order.iter().position(|known| known == value).map_or(0, |position| position + 1)
        };
        let ranks = values.iter().zip(&orders).map(rank).collect();
        if !found.iter().any(|(_, known)| *known == values) {
            found.push((ranks, values));
        }
    }
    found.sort();
    found.into_iter().map(|(_, values)| values).collect()
}

/// The one row of `rows` with these labels; an error if there are several.
pub(super) fn one<'a>(rows: &[&'a Row], labels: &[(&str, &str)]) -> Result<Option<&'a Row>, String> {
    let is = |row: &&&Row| {
        labels.iter().all(|(label, value)| row.labels.get(*label).map_or("", String::as_str) == *value)
    };
    let found: Vec<&Row> = rows.iter().filter(is).copied().collect();
    if let [first, second, ..] = found[..] {
        let differs = |label: &&String| first.labels.get(*label) != second.labels.get(*label);
        let names: BTreeSet<_> = first.labels.keys().chain(second.labels.keys()).filter(differs).collect();
        let names: Vec<_> = names.into_iter().map(String::as_str).collect();
        let by = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(format!("two rows fall into one place; they differ by: {by}"));
    }
    Ok(found.first().copied())
}

/// The value of a label as a reader wants it: `4KiB` is `4 KiB`.
pub(super) fn label_text(value: &str) -> String {
    let digits = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    match value.split_at(digits) {
        (number, unit @ ("B" | "KiB" | "MiB" | "GiB")) if !number.is_empty() => format!("{number} {unit}"),
        _ => value.to_owned(),
    }
}
