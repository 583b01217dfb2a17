//! `{{plot bars ...}}` and `{{plot lines ...}}`: rows of results as a plot.
//!
//! `x` names the labels of the categories or the one label of the horizontal axis, `series` the label that
//! tells the bars of a group or the lines apart, `figure` what is shown, `log` the logarithmic axes. Bars with
//! `ratio=sherd/minio across=subject` show instead how many times better the one is than the other.

use super::placeholder::Placeholder;
use super::select::{combinations, known_figure, known_label, label_text, one, rows, values};
use super::targets::times_better;
use crate::figure;
use crate::plot::{Bar, Bars, Line, Lines};
use crate::result::{Results, Row};

/// Keys that are not labels.
const OWN: [&str; 8] = ["name", "title", "x", "series", "figure", "log", "ratio", "across"];

/// Labels on a horizontal axis at most; more would overlap.
const TICKS_MAX: usize = 14;

/// A plot and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chart {
    /// Stem of the file's name.
    pub(super) name: String,
    /// What it shows.
    pub(super) title: String,
    /// The SVG document.
    pub(super) svg: String,
}

/// What the placeholder asks for.
struct Layout<'a> {
    x: Vec<&'a str>,
    series: Option<&'a str>,
    figure: &'a str,
    log: &'a str,
    title: &'a str,
    /// The label across which the one is held against the other.
    ratio: Option<(&'a str, &'a str, &'a str)>,
}

/// The plot of `kind`; none if no row is as the placeholder says.
pub(super) fn chart(
    results: &Results,
    kind: &str,
    placeholder: &Placeholder,
) -> Result<Option<Chart>, String> {
    let name = placeholder.get("name").ok_or("a plot has a `name`")?;
    if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
        return Err("the `name` of a plot is of letters, digits and `-`".to_owned());
    }
    let layout = layout(results, placeholder)?;
    let found = rows(results, placeholder, &OWN)?;
    if found.is_empty() {
        return Ok(None);
    }
    let svg = match kind {
        "bars" => bars(&found, &layout)?,
        "lines" => lines(&found, &layout)?,
        _ => return Err("a plot is `bars` or `lines`".to_owned()),
    };
    Ok(Some(Chart { name: name.to_owned(), title: layout.title.to_owned(), svg }))
}

fn layout<'a>(results: &Results, placeholder: &'a Placeholder) -> Result<Layout<'a>, String> {
    let (x, series) = (placeholder.list("x"), placeholder.get("series"));
    let (Some(figure), Some(title), false) =
        (placeholder.get("figure"), placeholder.get("title"), x.is_empty())
    else {
        return Err("a plot has `x`, `figure` and `title`".to_owned());
    };
    let ratio = match (placeholder.get("ratio"), placeholder.get("across")) {
        (None, None) => None,
        (Some(ratio), Some(across)) => {
            let (subject, peer) = ratio.split_once('/').ok_or("`ratio` is subject/peer")?;
            Some((across, subject, peer))
        }
        _ => return Err("`ratio` and `across` go together".to_owned()),
    };
    let across = ratio.map(|(across, _, _)| across);
    for label in x.iter().copied().chain(series).chain(across) {
        known_label(results, label)?;
    }
    known_figure(results, figure)?;
    let log = placeholder.get("log").unwrap_or_default();
    if !matches!(log, "" | "x" | "y" | "xy") {
        return Err("`log` is x, y or xy".to_owned());
    }
    Ok(Layout { x, series, figure, log, title, ratio })
}

/// The values of the label that tells series apart, or one series without a name.
fn names<'a>(found: &[&'a Row], layout: &Layout<'_>) -> Vec<Option<&'a str>> {
    layout.series.map_or_else(|| vec![None], |label| values(found, label).into_iter().map(Some).collect())
}

fn value(
    found: &[&Row],
    layout: &Layout<'_>,
    place: &[&str],
    name: Option<&str>,
) -> Result<Option<f64>, String> {
    let mut labels: Vec<_> = layout.x.iter().copied().zip(place.iter().copied()).collect();
    labels.extend(layout.series.zip(name));
    let figure = |labels: &[(&str, &str)]| -> Result<Option<f64>, String> {
        Ok(one(found, labels)?.and_then(|row| row.figure(layout.figure)))
    };
    let Some((across, subject, peer)) = layout.ratio else { return figure(&labels) };
    let side = |who| figure(&[labels.as_slice(), &[(across, who)]].concat());
    Ok(times_better(layout.figure, side(subject)?, side(peer)?))
}

fn bars(found: &[&Row], layout: &Layout<'_>) -> Result<String, String> {
    let mut bars = match layout.ratio {
        Some(_) => Bars { base: 1.0, log: true, ..Bars::new(layout.title, "ratio") },
        None => Bars { log: !layout.log.is_empty(), ..Bars::new(layout.title, layout.figure) },
    };
    let names = names(found, layout);
    bars.series = names.iter().map(|name| (name.map(label_text).unwrap_or_default(), Vec::new())).collect();
    for place in combinations(found, &layout.x) {
        let mut values = Vec::new();
        for name in &names {
            values.push(value(found, layout, &place, *name)?.map(|value| Bar { value, interval: None }));
        }
        // A place without any bar, such as one whose peer was not measured, is left out.
        if values.iter().any(Option::is_some) {
            let labels: Vec<_> = place.iter().map(|value| label_text(value)).collect();
            bars.categories.push(labels.join(", "));
            bars.series.iter_mut().zip(values).for_each(|((_, bars), value)| bars.push(value));
        }
    }
    // A series that has other figures only has no place in the legend.
    bars.series.retain(|(_, values)| values.iter().any(Option::is_some));
    Ok(bars.svg())
}

fn lines(found: &[&Row], layout: &Layout<'_>) -> Result<String, String> {
    if layout.ratio.is_some() {
        return Err("a `ratio` is shown as bars".to_owned());
    }
    let [label] = layout.x[..] else { return Err("lines have one label as `x`".to_owned()) };
    let places = values(found, label);
    let known = places.iter().all(|place| figure::magnitude(place).is_some());
    // Labels that are no numbers stand at equal distances.
    let at =
        |index: usize, place: &str| figure::magnitude(place).filter(|_| known).unwrap_or(whole(index + 1));
    let mut lines = Lines::new(layout.title, label, layout.figure);
    lines.x_log = known && layout.log.contains('x');
    lines.y_log = layout.log.contains('y');
    if places.len() <= TICKS_MAX {
        lines.x_ticks =
            places.iter().enumerate().map(|(index, place)| (at(index, place), label_text(place))).collect();
    }
    for name in names(found, layout) {
        let mut points = Vec::new();
        for (index, place) in places.iter().enumerate() {
            points.extend(value(found, layout, &[*place], name)?.map(|value| (at(index, place), value)));
        }
        if !points.is_empty() {
            lines.series.push(Line { name: name.map(label_text).unwrap_or_default(), points });
        }
    }
    Ok(lines.svg())
}

#[expect(clippy::cast_precision_loss, reason = "numbers of labels are small")]
fn whole(count: usize) -> f64 {
    count as f64
}
