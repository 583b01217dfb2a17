//! Draws lines over a common axis.

use super::Lines;
use super::canvas::{Anchor, Canvas, WIDTH};
use super::scale::Scale;
use crate::figure;

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const GRID: &str = "#dddddd";
const AXIS: &str = "#777777";

pub(super) fn draw(lines: &Lines) -> String {
    let mut canvas = Canvas::default();
    let names: Vec<_> = lines.series.iter().map(|line| line.name.as_str()).collect();
    let top = canvas.head(&lines.title, &names) + 24.0;
    let points = || lines.series.iter().flat_map(|line| line.points.iter().copied());
    let xs = points().map(|(x, _)| x);
    let x_scale = if lines.x_ticks.is_empty() {
        Scale::over(xs, lines.x_log)
    } else {
        Scale::between(xs.chain(lines.x_ticks.iter().map(|(x, _)| *x)), lines.x_log)
    };
    // A linear axis that does not begin at zero makes small differences look large.
    let zero = (!lines.y_log).then_some(0.0);
    let y_scale = Scale::over(points().map(|(_, y)| y).chain(zero), lines.y_log);
    let (Some(x_scale), Some(y_scale), true) = (x_scale, y_scale, points().next().is_some()) else {
        canvas.text((10.0, top), Anchor::Start, "nothing to show");
        return canvas.finish(&lines.title, top + 16.0);
    };
    let bottom = top + HEIGHT;
    let x = |value: f64| x_scale.at(value).map(|share| LEFT + share * (WIDTH - LEFT - RIGHT));
    let y = |value: f64| y_scale.at(value).map(|share| bottom - share * HEIGHT);
    for tick in &y_scale.ticks {
        let Some(place) = y(*tick) else { continue };
        canvas.stroke((LEFT, place), (WIDTH - RIGHT, place), GRID);
        canvas.text((LEFT - 8.0, place + 4.0), Anchor::End, &figure::show(&lines.figure, *tick));
    }
    let ticks = if lines.x_ticks.is_empty() {
        x_scale.ticks.iter().map(|tick| (*tick, figure::number(*tick))).collect()
    } else {
        lines.x_ticks.clone()
    };
    for (value, label) in ticks {
        let Some(place) = x(value) else { continue };
        canvas.stroke((place, top), (place, bottom), GRID);
        canvas.text((place, bottom + 16.0), Anchor::Middle, &label);
    }
    canvas.stroke((LEFT, bottom), (WIDTH - RIGHT, bottom), AXIS);
    for (series, line) in lines.series.iter().enumerate() {
        let places: Vec<_> =
            line.points.iter().filter_map(|(at, value)| Some((x(*at)?, y(*value)?))).collect();
        canvas.path(&places, series);
    }
    canvas.text((10.0, top - 14.0), Anchor::Start, &figure::heading(&lines.figure));
    canvas.text((f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 34.0), Anchor::Middle, &lines.x_label);
    canvas.finish(&lines.title, bottom + 44.0)
}
