//! A comparison as a table and as rows of results.

use super::measure::Outcome;
use super::rounds::Rounds;
use super::runner::{Sample, Side};
use super::verdict::{Judgement, Verdict};
use crate::figure;
use crate::report::markdown::{Align, Table};
use crate::result::Row;
use crate::stats::Summary;

/// Mark of a figure that decides.
const DECIDES: &str = "*";

/// The table of all operations, and remarks on it.
///
/// Figures that do not decide stand in it only where they differ, unless `all` are wanted.
pub(super) fn text(names: [&str; 2], outcomes: &[Outcome], all: bool) -> String {
    let mut table = Table::new();
    table.column("operation", Align::Left);
    table.column("figure", Align::Left);
    for heading in ["A", "B", "B/A", "95 % interval", "noise", "p"] {
        table.column(heading, Align::Right);
    }
    table.column("verdict", Align::Left);
    for outcome in outcomes {
        let shown = |found: &&Judgement| all || found.judged || found.verdict != Verdict::NoDifference;
        for found in outcome.judgements.iter().filter(shown) {
            table.line(cells(&outcome.operation.name, found));
        }
    }
    let [a, b] = names;
    let mut text = format!("A: {a}\nB: {b}\n\n{}", table.text());
    text.push_str("\n* decides about a regression; noise: how far A is from itself\n\n");
    for outcome in outcomes {
        for line in remarks(outcome) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text.push_str(&conclusion(outcomes));
    text.push('\n');
    text
}

fn cells(operation: &str, found: &Judgement) -> Vec<String> {
    let show = |side: &Summary| figure::show(&found.figure, side.mean);
    let ratio =
        |text: &dyn Fn(crate::stats::Ratio) -> String| found.ratio.map_or_else(|| "-".to_owned(), text);
    let mark = if found.judged { DECIDES } else { "" };
    vec![
        operation.to_owned(),
        format!("{}{mark}", found.figure),
        show(&found.a),
        show(&found.b),
        ratio(&|ratio| format!("{:.3}", ratio.value)),
        ratio(&|ratio| format!("{:.3} - {:.3}", ratio.low, ratio.high)),
        found.floor.map_or_else(|| "-".to_owned(), |floor| percent(floor - 1.0)),
        found.p_text(),
        found.verdict.text().to_owned(),
    ]
}

fn percent(share: f64) -> String {
    format!("{} %", figure::number(share * 100.0))
}

fn remarks(outcome: &Outcome) -> Vec<String> {
    let name = &outcome.operation.name;
    let runs = outcome.rounds.first.len();
    let noise = outcome.noise.as_ref().map_or_else(
        || "no noise floor was measured".to_owned(),
        |noise| format!("noise floor from {} runs of A against as many", noise.first.len()),
    );
    let mut lines =
        vec![format!("{name}: {}; {runs} runs of each side, {noise}", outcome.operation.describe())];
    let wide = |rounds: &Rounds| {
        let figures: Vec<_> = rounds
            .unsettled
            .iter()
            .map(|(figure, width)| format!("{figure} ({} wide)", percent(*width)))
            .collect();
        figures.join(", ")
    };
    if let Some(limit) = outcome.rounds.stop.limit() {
        let wide = wide(&outcome.rounds);
        lines.push(format!(
            "NOT SETTLED: {name}: stopped by {limit} while the 95 % interval is too wide: {wide}"
        ));
    }
    if let Some(noise) = outcome.noise.as_ref().filter(|noise| !noise.unsettled.is_empty()) {
        lines.push(format!("{name}: A against A is not settled either: {}", wide(noise)));
    }
    if !outcome.missing.is_empty() {
        let missing = outcome.missing.join(", ");
        lines.push(format!("NOT JUDGED: {name}: {missing}, which not both sides report"));
    }
    lines.extend(outcome.flags().into_iter().map(|flag| format!("{name}: flagged: {flag}")));
    lines
}

fn conclusion(outcomes: &[Outcome]) -> String {
    let found: Vec<_> = outcomes
        .iter()
        .flat_map(|outcome| {
            outcome.regressions().map(|found| format!("{} {}", outcome.operation.name, found.figure))
        })
        .collect();
    match found.as_slice() {
        [] => "no regression".to_owned(),
        [one] => format!("REGRESSION: {one}"),
        many => format!("{} REGRESSIONS: {}", many.len(), many.join(", ")),
    }
}

/// The rows of a file of results: one for each judged figure, then one for each run.
pub(super) fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let verdicts =
        outcomes.iter().flat_map(|outcome| outcome.judgements.iter().map(|found| verdict(outcome, found)));
    verdicts.chain(outcomes.iter().flat_map(runs)).collect()
}

fn verdict(outcome: &Outcome, found: &Judgement) -> Row {
    let mut row = Row::new([
        ("kind", "verdict".to_owned()),
        ("operation", outcome.operation.name.clone()),
        ("figure", found.figure.clone()),
        ("verdict", found.verdict.text().to_owned()),
    ])
    .with("a", found.a.mean)
    .with("a_deviation", found.a.variance.sqrt())
    .with("b", found.b.mean)
    .with("b_deviation", found.b.variance.sqrt())
    .with("runs", whole(outcome.rounds.first.len()))
    .with("p", found.welch.p)
    .with("degrees", found.welch.degrees)
    .with("decides", if found.judged { 1.0 } else { 0.0 });
    if let Some(ratio) = found.ratio {
        row = row.with("ratio", ratio.value).with("ratio_low", ratio.low).with("ratio_high", ratio.high);
    }
    if let Some(floor) = found.floor {
        row = row.with("noise", floor - 1.0);
    }
    // Two runs that scatter wildly have an interval without end, which no file of results can hold.
    row.figures.retain(|_, value| value.is_finite());
    row.flags.extend(outcome.flags().into_iter().map(str::to_owned));
    if outcome.rounds.unsettled.iter().any(|(figure, _)| *figure == found.figure) {
        row.flags.push("not settled".to_owned());
    }
    row
}

fn runs(outcome: &Outcome) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |phase: &str, side: Side, samples: &[Sample]| {
        for (index, sample) in samples.iter().enumerate() {
            let mut row = Row::new([
                ("kind", "run".to_owned()),
                ("operation", outcome.operation.name.clone()),
                ("phase", phase.to_owned()),
                ("side", side.to_string()),
                ("run", (index + 1).to_string()),
            ]);
            row.figures.clone_from(&sample.figures);
            row.flags.clone_from(&sample.flags);
            rows.push(row);
        }
    };
    if let Some(noise) = &outcome.noise {
        add("noise", Side::A, &noise.first);
        add("noise", Side::Again, &noise.second);
    }
    add("compare", Side::A, &outcome.rounds.first);
    add("compare", Side::B, &outcome.rounds.second);
    rows
}

#[expect(clippy::cast_precision_loss, reason = "numbers of runs are far below 2^52")]
fn whole(count: usize) -> f64 {
    count as f64
}
