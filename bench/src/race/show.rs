//! A race as a table, as rows of results, and as a chart for each store.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::course::{Course, Task};
use super::field::{AGAIN, DECIDES, Entrant, Heat};
use crate::compare::chart::ratio_chart;
use crate::figure;
use crate::load::meter::{BUSY_WITH_OTHERS, OTHERS_SHARE};
use crate::report::markdown::{Align, Table};
use crate::result::Row;
use crate::stats::{Ratio, Summary};

/// Why writing to a `String` cannot fail.
const TEXT: &str = "a String takes every text";
const OTHERS: &str = "others_cpu_share";
/// The figures of a tool whose means are shown, each under its heading.
const SHOWN: [(&str, &str); 5] = [
    (DECIDES, "time"),
    ("flush_seconds", "flush"),
    ("cpu_seconds", "cpu time"),
    ("server_cpu_seconds", "store's cpu"),
    ("peak_rss_mib", "peak rss"),
];

/// The table, a line for each tool in each row, and remarks on it. `width` is that under which a ratio is
/// settled.
pub(super) fn text(heats: &[Heat], width: f64) -> String {
    let mut table = Table::new();
    for heading in ["store", "row", "tool"] {
        table.column(heading, Align::Left);
    }
    let first = ["runs", "rate"].into_iter().chain(SHOWN.map(|(_, heading)| heading));
    for heading in first.chain(["slowest/fastest", "/first", "95 % interval", "p"]) {
        table.column(heading, Align::Right);
    }
    table.column("the first is", Align::Left);
    for heat in heats {
        for place in 0..heat.field.len() {
            table.line(cells(heat, place));
        }
    }
    let mut text = table.text();
    text.push_str(
        "\n/first: time of the tool by that of the first; again: the first once more, whose interval is the noise\n\n",
    );
    for heat in heats {
        for line in remarks(heat, width) {
            writeln!(text, "{line}").expect(TEXT);
        }
    }
    text.push_str(&conclusion(heats));
    text
}

fn named(heat: &Heat) -> String {
    format!("{} {}", heat.store, heat.course.name)
}

fn remarks(heat: &Heat, width: f64) -> Vec<String> {
    let name = named(heat);
    let (mut lines, mut flagged) = (Vec::new(), BTreeMap::<String, Vec<&str>>::new());
    for entrant in &heat.field {
        if let Some(fault) = &entrant.fault {
            lines.push(format!("OUT: {name} {}: {fault}", entrant.tool));
        }
        for flag in flags(entrant) {
            flagged.entry(flag).or_default().push(&entrant.tool);
        }
    }
    lines
        .extend(flagged.iter().map(|(flag, tools)| format!("{name}: flagged: {flag}: {}", tools.join(", "))));
    if let Some(limit) = heat.stop.limit() {
        let wide = heat.unsettled(width);
        let wide: Vec<_> =
            wide.iter().map(|(tool, width)| format!("{tool} ({} wide)", percent(*width))).collect();
        let wide = wide.join(", ");
        lines.push(format!(
            "NOT SETTLED: {name}: stopped by {limit} while 95 % intervals are too wide: {wide}"
        ));
    }
    lines
}

/// The flags of all samples, each once, and one for a machine that was busy with others on average.
fn flags(entrant: &Entrant) -> Vec<String> {
    let mut flags: Vec<String> = entrant.samples.iter().flat_map(|sample| sample.flags.clone()).collect();
    flags.sort();
    flags.dedup();
    if entrant.summary(OTHERS).is_some_and(|share| share.mean > OTHERS_SHARE) {
        flags.push(BUSY_WITH_OTHERS.to_owned());
    }
    flags
}

fn conclusion(heats: &[Heat]) -> String {
    let names = |heats: Vec<&Heat>| heats.into_iter().map(named).collect::<Vec<_>>().join(", ");
    let lost: Vec<&Heat> = heats.iter().filter(|heat| heat.is_lost()).collect();
    let alone = |heat: &&Heat| !heat.is_lost() && heat.others().all(|place| heat.judgement(place).is_none());
    let alone: Vec<&Heat> = heats.iter().filter(alone).collect();
    let level = heats.len() - lost.len() - alone.len();
    let mut text =
        format!("the first tool is fastest, or level with that, in {level} of {} rows\n", heats.len());
    if !alone.is_empty() {
        writeln!(text, "NOTHING TO COMPARE WITH: {}", names(alone)).expect(TEXT);
    }
    if !lost.is_empty() {
        writeln!(text, "LOST: {}", names(lost)).expect(TEXT);
    }
    text
}

fn cells(heat: &Heat, place: usize) -> Vec<String> {
    let none = || "-".to_owned();
    let entrant = &heat.field[place];
    let mean =
        |name: &str| entrant.summary(name).map_or_else(none, |summary| figure::show(name, summary.mean));
    let ratio = heat.ratio(place).filter(|_| place > 0);
    let judgement = heat.judgement(place).filter(|_| place > AGAIN);
    let verdict = match (&judgement, heat.noise_floor().filter(|_| place == AGAIN)) {
        (Some(found), _) => found.verdict.text().to_owned(),
        (None, Some(floor)) => format!("noise {}", percent(floor - 1.0)),
        (None, None) => none(),
    };
    let mut cells = vec![heat.store.clone(), heat.course.name.to_owned(), entrant.tool.clone()];
    cells.push(entrant.samples.len().to_string());
    cells.push(entrant.summary(DECIDES).map_or_else(none, |summary| rate(heat.course, &summary)));
    cells.extend(SHOWN.map(|(name, _)| mean(name)));
    cells.extend([
        spread(&entrant.readings(DECIDES)).map_or_else(none, |spread| format!("{spread:.2}")),
        ratio.map_or_else(none, |ratio| format!("{:.2}", ratio.value)),
        ratio.map_or_else(none, |ratio| format!("{:.2} - {:.2}", ratio.low, ratio.high)),
        judgement.map_or_else(none, |found| found.p_text()),
        verdict,
    ]);
    cells
}

fn percent(share: f64) -> String {
    format!("{} %", figure::number(share * 100.0))
}

/// The slowest run by the fastest one.
fn spread(readings: &[f64]) -> Option<f64> {
    let fastest = readings.iter().copied().reduce(f64::min)?;
    let slowest = readings.iter().copied().reduce(f64::max)?;
    (fastest > 0.0).then(|| slowest / fastest)
}

/// Bytes, or names, by a time.
#[expect(clippy::cast_precision_loss, reason = "a course has less than 2^52 bytes")]
fn rate(course: Course, time: &Summary) -> String {
    let files = figure::number(course.files as f64 / time.mean);
    match course.task {
        Task::Up | Task::Down => {
            let bytes = figure::number(course.all_bytes() as f64 / f64::from(1 << 20) / time.mean);
            format!("{bytes} MiB/s, {files} files/s")
        }
        Task::List | Task::Sync => format!("{files} names/s"),
    }
}

/// The rows of a file of results: one for each tool of each course, one for each run.
#[expect(clippy::cast_precision_loss, reason = "numbers of runs are far below 2^52")]
pub(super) fn rows(heats: &[Heat], width: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for heat in heats {
        for (place, entrant) in heat.field.iter().enumerate() {
            let labels = |kind: &str| {
                let (store, row) = (heat.store.clone(), heat.course.name.to_owned());
                [("kind", kind.to_owned()), ("store", store), ("row", row), ("tool", entrant.tool.clone())]
            };
            let errors = if entrant.fault.is_some() { 1.0 } else { 0.0 };
            let mut whole =
                Row::new(labels("tool")).with("runs", entrant.samples.len() as f64).with("errors", errors);
            for (name, _) in SHOWN {
                if let Some(summary) = entrant.summary(name) {
                    let deviation = format!("{name}_deviation");
                    whole = whole.with(name, summary.mean).with(&deviation, summary.variance.sqrt());
                }
            }
            if let Some(spread) = spread(&entrant.readings(DECIDES)) {
                whole = whole.with("slowest_by_fastest", spread);
            }
            if let Some(ratio) = heat.ratio(place).filter(|_| place > 0) {
                whole = whole.with("ratio", ratio.value).with("ratio_low", ratio.low);
                whole = whole.with("ratio_high", ratio.high);
            }
            if let Some(found) = heat.judgement(place).filter(|_| place > AGAIN) {
                whole.labels.insert("first_is".to_owned(), found.verdict.text().to_owned());
                whole = whole.with("p", found.welch.p);
            }
            if let Some(floor) = heat.noise_floor().filter(|_| place == AGAIN) {
                whole = whole.with("noise", floor - 1.0);
            }
            whole.figures.retain(|_, value| value.is_finite());
            whole.flags = flags(entrant);
            whole.flags.extend(entrant.fault.iter().map(ToString::to_string));
            if heat.unsettled(width).iter().any(|(tool, _)| *tool == entrant.tool) {
                whole.flags.push("not settled".to_owned());
            }
            rows.push(whole);
            for sample in &entrant.samples {
                let mut row = Row::new(labels("run"));
                row.figures.clone_from(&sample.figures);
                row.flags.clone_from(&sample.flags);
                rows.push(row);
            }
        }
    }
    rows
}

/// A chart for each store: the time of each tool by that of the first.
pub(super) fn charts(heats: &[Heat]) -> Vec<(String, String)> {
    let mut stores: Vec<&String> = heats.iter().map(|heat| &heat.store).collect();
    stores.dedup();
    let ratios_of = |store: &String| -> Vec<(String, Ratio)> {
        let heats = heats.iter().filter(|heat| heat.store == *store);
        let pairs = heats.flat_map(|heat| (AGAIN..heat.field.len()).map(move |place| (heat, place)));
        let named = |(heat, place): (&Heat, usize)| {
            Some((format!("{} {}", heat.course.name, heat.field[place].tool), heat.ratio(place)?))
        };
        pairs.filter_map(named).collect()
    };
    let chart = |store: &String| {
        let caption = format!("{store}: time of a tool by that of the first, with its 95 % interval");
        (store.clone(), ratio_chart(&caption, &ratios_of(store)))
    };
    stores.into_iter().map(chart).collect()
}

#[cfg(test)]
mod tests {
    use super::super::field::tests::{entrant, heat, out};
    use super::*;
    use crate::compare::rounds::Stop;

    const WIDTH: f64 = 0.05;

    fn heats() -> Vec<Heat> {
        let (fast, slow) = ([1.0, 1.01, 1.02], [2.0, 2.01, 2.02]);
        let won = heat(&fast, &fast, vec![entrant("other", &slow), out("third", &[0.5])]);
        let mut lost = heat(&slow, &slow, vec![entrant("other", &fast)]);
        lost.stop = Stop::Runs;
        lost.field[2].samples[0].figures.insert(DECIDES.to_owned(), 1.3);
        let alone = heat(&slow, &slow, vec![out("other", &fast)]);
        vec![won, lost, alone]
    }

    #[test]
    fn every_tool_has_its_line_and_no_fault_or_doubt_is_left_out() {
        let text = text(&heats(), WIDTH);
        for words in [
            "2,028 MiB/s",
            "OUT: minio up-1g third: 000/000001 has other bytes",
            "NOT SETTLED: minio up-1g: stopped by --max-runs",
            "other (",
            "noise ",
            "in 1 of 3 rows",
            "NOTHING TO COMPARE WITH: minio up-1g",
            "LOST: minio up-1g",
            "better",
            "worse",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_machine_that_is_busy_with_others_is_flagged() {
        let mut heats = heats();
        for (sample, share) in heats[0].field[0].samples.iter_mut().zip([0.05, 0.3, 0.1]) {
            sample.figures.insert(OTHERS.to_owned(), share);
        }
        assert_eq!(flags(&heats[0].field[0]), [BUSY_WITH_OTHERS]);
        assert!(flags(&heats[0].field[1]).is_empty());
    }

    #[test]
    fn results_have_each_tool_and_each_run() {
        let heats = heats();
        let rows = rows(&heats, WIDTH);
        assert_eq!(rows.iter().filter(|row| row.is(&[("kind", "tool")])).count(), 10);
        assert_eq!(rows.iter().filter(|row| row.is(&[("kind", "run")])).count(), 28);
        let found = |labels: &[(&str, &str)]| rows.iter().find(|row| row.is(labels)).unwrap();
        let other = found(&[("tool", "other"), ("kind", "tool")]);
        assert_eq!(other.labels["first_is"], "better");
        assert!(other.figure("ratio").is_some_and(|ratio| (1.9..2.1).contains(&ratio)), "{other:?}");
        let third = found(&[("tool", "third"), ("kind", "tool")]);
        assert_eq!((third.figure("errors"), third.figure("ratio")), (Some(1.0), None));
        assert_eq!(third.flags, ["000/000001 has other bytes"]);
        assert!(found(&[("tool", "sherd again"), ("kind", "tool")]).figure("noise").is_some());
    }

    #[test]
    fn each_store_has_a_chart_of_the_tools_that_are_not_out() {
        let charts = charts(&heats());
        assert!(charts.len() == 1 && charts[0].0 == "minio");
        assert!(charts[0].1.contains("up-1g other") && !charts[0].1.contains("third"));
    }
}
