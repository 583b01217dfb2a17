//! A table of the rows of a suite that have some labels and a figure, with the labels in which they differ.

use std::collections::BTreeSet;

use super::markdown::{Align, Table};
use crate::figure;
use crate::result::{Results, Row};

/// Labels as a placeholder states them: `part=requests,op=get`.
pub(super) fn pairs(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let pair = |pair: &_| format!("`{pair}` is not LABEL=VALUE");
    text.split(',').map(|text| text.split_once('=').ok_or_else(|| pair(&text))).collect()
}

/// The rows with these labels and the first of `figures`, which have commas between them.
pub(super) fn table(results: &Results, labels: &[(&str, &str)], figures: &str) -> String {
    let figures: Vec<&str> = figures.split(',').collect();
    let is_shown =
        |row: &&Row| row.is(labels) && figures.first().is_some_and(|name| row.figure(name).is_some());
    let rows: Vec<&Row> = results.rows.iter().filter(is_shown).collect();
    if rows.is_empty() {
        return "*Not measured yet.*\n".to_owned();
    }
    let all: BTreeSet<&String> = rows.iter().flat_map(|row| row.labels.keys()).collect();
    let differs =
        |label: &&&String| rows.iter().any(|row| row.labels.get(**label) != rows[0].labels.get(**label));
    let differing: Vec<&String> = all.iter().filter(differs).copied().collect();
    let mut table = Table::new();
    for label in &differing {
        table.column(label.as_str(), Align::Left);
    }
    for name in &figures {
        table.column(figure::heading(name), Align::Right);
    }
    for row in &rows {
        let label = |label: &&String| row.labels.get(*label).cloned().unwrap_or_default();
        let shown =
            |name: &&str| row.figure(name).map_or_else(|| "-".to_owned(), |value| figure::show(name, value));
        table.line(differing.iter().map(label).chain(figures.iter().map(shown)).collect());
    }
    table.text()
}
