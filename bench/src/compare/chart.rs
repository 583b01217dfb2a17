//! The two charts of a comparison as SVG: all ratios with their intervals, and the runs of one operation in
//! order.
//!
//! `plotters` draws them; the same figures give the same bytes.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::measure::Outcome;
use super::runner::Sample;
use crate::figure;
use crate::stats::Ratio;

const WIDTH: u32 = 900;
/// Height of a chart of runs, and of a ratio with what stands around all of them.
const HEIGHT: u32 = 360;
const RATIO_HEIGHT: u32 = 28;
const FRAME_HEIGHT: u32 = 120;
const FONT: &str = "sans-serif";
/// Heights of letters, which would else follow from that of the chart.
const LETTER: u32 = 14;
const CAPTION: u32 = 18;
const COLORS: [RGBColor; 2] = [RGBColor(31, 119, 180), RGBColor(214, 96, 20)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type ChartError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// The charts, each with the end of its file's name: all ratios, and for each operation its runs in order.
pub(super) fn charts(outcomes: &[Outcome]) -> Vec<(String, String)> {
    let judged = outcomes.iter().flat_map(|outcome| {
        let name = &outcome.operation.name;
        let decide = outcome.judgements.iter().filter(|found| found.judged);
        decide.filter_map(move |found| {
            Some((format!("{name} {}", figure::heading(&found.figure)), found.ratio?))
        })
    });
    let judged: Vec<(String, Ratio)> = judged.collect();
    let mut charts = vec![(String::new(), ratio_chart("B/A with its 95 % interval", &judged))];
    for outcome in outcomes {
        if let Some(found) = outcome.judgements.first() {
            let svg = svg(HEIGHT, |area| history(area, outcome, &found.figure));
            charts.push((format!("-{}", outcome.operation.name), svg));
        }
    }
    charts
}

/// A chart of named ratios.
pub(crate) fn ratio_chart(caption: &str, named: &[(String, Ratio)]) -> String {
    let height = FRAME_HEIGHT + RATIO_HEIGHT * u32::try_from(named.len()).unwrap_or(u32::MAX >> 8);
    svg(height, |area| ratios(area, caption, named))
}

fn svg(height: u32, draw: impl for<'a> FnOnce(&Area<'a>) -> Result<(), ChartError<'a>>) -> String {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)
        .and_then(|()| draw(&area))
        .and_then(|()| area.present())
        .expect("a string takes what is drawn");
    drop(area);
    text
}

/// Ratios over a logarithmic axis.
fn ratios<'a>(area: &Area<'a>, caption: &str, judged: &[(String, Ratio)]) -> Result<(), ChartError<'a>> {
    if judged.is_empty() {
        return Ok(());
    }
    let finite = |value: f64, other: f64| if value.is_finite() && value > 0.0 { value } else { other };
    let ends = |ratio: &Ratio| (finite(ratio.low, ratio.value), finite(ratio.high, ratio.value));
    let low = judged.iter().map(|(_, ratio)| ends(ratio).0).fold(1.0, f64::min) / 1.05;
    let high = judged.iter().map(|(_, ratio)| ends(ratio).1).fold(1.0, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(area)
        .caption(caption, (FONT, CAPTION))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(260)
        .build_cartesian_2d((low..high).log_scale(), (0..judged.len()).into_segmented())?;
    let name = |place: &SegmentValue<usize>| match place {
        SegmentValue::CenterOf(index) => judged.get(*index).map(|(name, _)| name.clone()).unwrap_or_default(),
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .label_style((FONT, LETTER))
        .axis_desc_style((FONT, LETTER))
        .x_desc("ratio")
        .x_label_formatter(&|value| figure::number(*value))
        .y_labels(judged.len())
        .y_label_formatter(&name)
        .draw()?;
    let base = [SegmentValue::Exact(0), SegmentValue::Last].map(|place| (1.0, place));
    chart.draw_series([PathElement::new(base.to_vec(), BLACK.stroke_width(1))])?;
    for (index, (_, ratio)) in judged.iter().enumerate() {
        let (low, high) = ends(ratio);
        let at = |value: f64| (value, SegmentValue::CenterOf(index));
        chart.draw_series([PathElement::new(vec![at(low), at(high)], COLORS[0].stroke_width(3))])?;
        chart.draw_series([Circle::new(at(ratio.value), 5, COLORS[0].filled())])?;
    }
    Ok(())
}

/// The runs of both sides in the figure `name`.
fn history<'a>(area: &Area<'a>, outcome: &Outcome, name: &str) -> Result<(), ChartError<'a>> {
    let points = |samples: &[Sample]| -> Vec<(f64, f64)> {
        let values = samples.iter().filter_map(|sample| sample.figures.get(name).copied());
        (1..).map(f64::from).zip(values).collect()
    };
    let sides = [("A", points(&outcome.rounds.first)), ("B", points(&outcome.rounds.second))];
    let values = || sides.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value));
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let margin = ((high - low) * 0.1).max(high.abs() * 0.01).max(f64::MIN_POSITIVE);
    let runs = sides.iter().map(|(_, points)| points.len()).max().unwrap_or(0);
    let runs = f64::from(u32::try_from(runs).unwrap_or(u32::MAX));
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("{}: {} of each run", outcome.operation.name, figure::heading(name)),
            (FONT, CAPTION),
        )
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(90)
        .build_cartesian_2d(0.5..runs + 0.5, low - margin..high + margin)?;
    let show = |value: &f64| figure::show(name, *value);
    chart
        .configure_mesh()
        .label_style((FONT, LETTER))
        .axis_desc_style((FONT, LETTER))
        .x_desc("run")
        .y_desc(figure::heading(name))
        .y_label_formatter(&show)
        .draw()?;
    for ((side, points), color) in sides.into_iter().zip(COLORS) {
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, color.filled())))?;
        let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color);
        chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?.label(side).legend(key);
    }
    chart
        .configure_series_labels()
        .label_font((FONT, LETTER))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
}
