//! `{{table ...}}`: rows of results as a table, chosen and laid out by their labels.
//!
//! `rows` names the labels whose combinations are the lines, `columns` a label whose values stand beside each
//! other, `figures` what is shown. `ratio=sherd/minio` adds how many times better the one is than the
//! other, and the target where there is one. Flags of rows become footnotes.

use super::markdown::{Align, Table};
use super::notes::Notes;
use super::placeholder::Placeholder;
use super::select::{combinations, known_figure, known_label, label_text, one, rows, values};
use super::settings::{Settings, Target};
use super::targets::{judged_ratio, target_of, times, times_better};
use crate::figure;
use crate::result::{Results, Row};

/// Keys that are not labels.
const OWN: [&str; 4] = ["rows", "columns", "figures", "ratio"];

/// What the placeholder asks for.
struct Layout<'a> {
    rows: Vec<&'a str>,
    columns: Option<&'a str>,
    figures: Vec<&'a str>,
    ratio: Option<(&'a str, &'a str)>,
}

/// Labels of a line with their values.
type Labels<'a> = [(&'a str, &'a str)];

/// The table; none if no row is as the placeholder says.
pub(super) fn table(
    settings: &Settings,
    results: &Results,
    placeholder: &Placeholder,
) -> Result<Option<String>, String> {
    let layout = layout(results, placeholder)?;
    let found = rows(results, placeholder, &OWN)?;
    if found.is_empty() {
        return Ok(None);
    }
    let columns: Vec<Option<&str>> = match layout.columns {
        Some(label) => values(&found, label).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let lines = combinations(&found, &layout.rows);
    let lines: Vec<Vec<(&str, &str)>> =
        lines.iter().map(|line| layout.rows.iter().copied().zip(line.iter().copied()).collect()).collect();
    let source = Source { settings, results, placeholder, layout: &layout, found: &found };
    // The columns of targets stand only where some line has one.
    let judged: Vec<bool> = layout
        .figures
        .iter()
        .map(|name| lines.iter().any(|line| source.target(line, name).is_some()))
        .collect();
    let mut table = head(&layout, &columns, &judged);
    let mut notes = Notes::default();
    for line in &lines {
        let mut cells: Vec<String> = line.iter().map(|(_, value)| label_text(value)).collect();
        for (name, judged) in layout.figures.iter().zip(&judged) {
            for column in &columns {
                cells.push(source.cell(line, *column, name, &mut notes)?);
            }
            if let Some((subject, peer)) = layout.ratio {
                let (subject, peer) = (source.value(line, subject, name)?, source.value(line, peer, name)?);
                let better = times_better(name, subject, peer);
                cells.push(better.map_or_else(|| "-".to_owned(), times));
                if *judged {
                    cells.extend(judged_ratio(source.target(line, name), better));
                }
            }
        }
        table.line(cells);
    }
    Ok(Some(format!("{}{}", table.text(), notes.text())))
}

fn layout<'a>(results: &Results, placeholder: &'a Placeholder) -> Result<Layout<'a>, String> {
    let (rows, figures, columns) =
        (placeholder.list("rows"), placeholder.list("figures"), placeholder.get("columns"));
    if rows.is_empty() || figures.is_empty() {
        return Err("a table has `rows` and `figures`".to_owned());
    }
    for label in rows.iter().copied().chain(columns) {
        known_label(results, label)?;
    }
    for name in &figures {
        known_figure(results, name)?;
    }
    let ratio = match placeholder.get("ratio") {
        None => None,
        Some(_) if columns.is_none() => return Err("`ratio` is of two of the `columns`".to_owned()),
        Some(ratio) => Some(ratio.split_once('/').ok_or("`ratio` is subject/peer")?),
    };
    Ok(Layout { rows, columns, figures, ratio })
}

fn head(layout: &Layout<'_>, columns: &[Option<&str>], judged: &[bool]) -> Table {
    let mut table = Table::new();
    for label in &layout.rows {
        table.column(label.replace('_', " "), Align::Left);
    }
    for (name, judged) in layout.figures.iter().zip(judged) {
        let heading = figure::heading(name);
        for column in columns {
            table
                .column(column.map_or(heading.clone(), |column| format!("{column} {heading}")), Align::Right);
        }
        let Some((subject, peer)) = layout.ratio else { continue };
        table.column(format!("{subject} : {peer}"), Align::Right);
        if *judged {
            table.column("at least", Align::Right);
            table.column("aim", Align::Right);
            table.column("met", Align::Left);
        }
    }
    table
}

/// Where the cells come from.
struct Source<'a> {
    settings: &'a Settings,
    results: &'a Results,
    placeholder: &'a Placeholder,
    layout: &'a Layout<'a>,
    found: &'a [&'a Row],
}

impl Source<'_> {
    /// The target of the ratio of a line, if there is one.
    fn target(&self, line: &Labels<'_>, name: &str) -> Option<&Target> {
        let (subject, peer) = self.layout.ratio?;
        let across = self.layout.columns?;
        let mut labels = line.to_vec();
        labels.extend(self.placeholder.pairs.iter().map(|(label, value)| (label.as_str(), value.as_str())));
        target_of(self.settings, &self.results.suite, name, (across, subject, peer), &labels)
    }

    fn row(&self, line: &Labels<'_>, column: Option<&str>) -> Result<Option<&Row>, String> {
        let mut labels = line.to_vec();
        labels.extend(self.layout.columns.zip(column));
        one(self.found, &labels)
    }

    fn value(&self, line: &Labels<'_>, column: &str, name: &str) -> Result<Option<f64>, String> {
        Ok(self.row(line, Some(column))?.and_then(|row| row.figure(name)))
    }

    fn cell(
        &self,
        line: &Labels<'_>,
        column: Option<&str>,
        name: &str,
        notes: &mut Notes,
    ) -> Result<String, String> {
        let found = self.row(line, column)?.and_then(|row| Some((row, row.figure(name)?)));
        let Some((row, value)) = found else { return Ok("-".to_owned()) };
        Ok(format!("{}{}", figure::show(name, value), notes.marks(&row.flags)))
    }
}
