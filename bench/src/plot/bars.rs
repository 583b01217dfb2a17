//! Draws groups of horizontal bars: long names of categories have room, and any number of them.

use super::canvas::{Anchor, Canvas, WIDTH, colour, width};
use super::scale::Scale;
use super::{Bar, Bars};
use crate::figure;

const BAR: f64 = 15.0;
const GAP: f64 = 11.0;
const GRID: &str = "#dddddd";
const AXIS: &str = "#777777";
const WHISKER: &str = "#222222";

/// Room for the value right of the longest bar.
const VALUE: f64 = 78.0;

/// The widest that names of categories may be.
const NAMES_MAX: f64 = 320.0;

pub(super) fn draw(bars: &Bars) -> String {
    let mut canvas = Canvas::default();
    let names: Vec<_> = bars.series.iter().map(|(name, _)| name.as_str()).collect();
    let top = canvas.head(&bars.title, &names);
    let begin = (!bars.log || bars.base > 0.0).then_some(bars.base);
    let scale = Scale::over(ends(bars).chain(begin), bars.log);
    let Some(scale) = scale.filter(|_| ends(bars).next().is_some()) else {
        canvas.text((10.0, top + 14.0), Anchor::Start, "nothing to show");
        return canvas.finish(&bars.title, top + 30.0);
    };
    let longest = bars.categories.iter().map(|name| width(name)).fold(0.0, f64::max).min(NAMES_MAX);
    let left = 10.0 + longest + 8.0;
    let x = |share: f64| left + share * (WIDTH - left - VALUE);
    let group = BAR * whole(bars.series.len()) + GAP;
    let bottom = top + group * whole(bars.categories.len());
    for tick in &scale.ticks {
        let Some(place) = scale.at(*tick).map(x) else { continue };
        canvas.stroke((place, top), (place, bottom), GRID);
        canvas.text((place, bottom + 16.0), Anchor::Middle, &figure::show(&bars.figure, *tick));
    }
    let base = x(scale.at(begin.unwrap_or(scale.low())).unwrap_or(0.0));
    for (category, name) in bars.categories.iter().enumerate() {
        let middle = top + group * (whole(category) + 0.5);
        canvas.text((left - 8.0, middle + 4.0), Anchor::End, name);
        for (series, (_, values)) in bars.series.iter().enumerate() {
            let Some(Some(bar)) = values.get(category) else { continue };
            let y = top + group * whole(category) + GAP / 2.0 + BAR * whole(series);
            one(&mut canvas, bars, bar, (base, y), colour(series), &|value| scale.at(value).map(x));
        }
    }
    canvas.stroke((base, top), (base, bottom), AXIS);
    let heading = figure::heading(&bars.figure);
    canvas.text((x(0.5), bottom + 34.0), Anchor::Middle, &heading);
    canvas.finish(&bars.title, bottom + 44.0)
}

fn one(
    canvas: &mut Canvas,
    bars: &Bars,
    bar: &Bar,
    (base, y): (f64, f64),
    colour: &str,
    x: &dyn Fn(f64) -> Option<f64>,
) {
    let Some(end) = x(bar.value) else { return };
    canvas.rectangle((base.min(end), y), ((end - base).abs(), BAR - 2.0), colour);
    let mut right = base.max(end);
    if let Some((Some(low), Some(high))) = bar.interval.map(|(low, high)| (x(low), x(high))) {
        let middle = y + (BAR - 2.0) / 2.0;
        canvas.stroke((low, middle), (high, middle), WHISKER);
        for place in [low, high] {
            canvas.stroke((place, middle - 3.5), (place, middle + 3.5), WHISKER);
        }
        right = right.max(high);
    }
    canvas.text((right + 5.0, y + BAR - 4.0), Anchor::Start, &figure::show(&bars.figure, bar.value));
}

/// Everything that must lie on the axis.
fn ends(bars: &Bars) -> impl Iterator<Item = f64> {
    let all = bars.series.iter().flat_map(|(_, values)| values.iter().flatten());
    all.flat_map(|bar| {
        let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
        [bar.value, low, high]
    })
}

#[expect(clippy::cast_precision_loss, reason = "numbers of bars are small")]
fn whole(count: usize) -> f64 {
    count as f64
}
