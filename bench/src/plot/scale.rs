//! Axes: where a value stands between the ends, and which values get a tick.

/// Ticks that a linear axis aims at.
const TICKS: f64 = 5.0;

/// A logarithmic axis that spans less than this factor has the ticks of a linear one.
const NARROW: f64 = 4.0;

/// A logarithmic axis that spans more than this has ticks at powers of ten only.
const WIDE: f64 = 300.0;

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Values to mark, from low to high, all within the ends.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// An axis over `values`, widened to ticks; none if nothing of it can be shown.
    pub(super) fn over(values: impl Iterator<Item = f64>, log: bool) -> Option<Self> {
        let Self { low, high, .. } = Self::between(values, log)?;
        let ticks = if log && high / low >= NARROW { decades(low, high) } else { linear(low, high, log) };
        let (first, last) = (*ticks.first()?, *ticks.last()?);
        Some(Self { low: first, high: last, log, ticks })
    }

    /// An axis that ends exactly at the outermost of `values`, without ticks.
    pub(super) fn between(values: impl Iterator<Item = f64>, log: bool) -> Option<Self> {
        let shown = |value: &f64| value.is_finite() && (!log || *value > 0.0);
        let (low, high) = values
            .filter(shown)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        (low <= high).then_some(Self { low, high, log, ticks: Vec::new() })
    }

    /// Where `value` stands, 0 at the low end and 1 at the high end; none if it cannot be shown.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.log && value <= 0.0) {
            return None;
        }
        let place = |value: f64| if self.log { value.ln() } else { value };
        let span = place(self.high) - place(self.low);
        let share = if span > 0.0 { (place(value) - place(self.low)) / span } else { 0.5 };
        Some(share.clamp(0.0, 1.0))
    }

    /// The low end.
    pub(super) fn low(&self) -> f64 {
        self.low
    }
}

/// Round values from at or below `low` to at or above `high`, about [`TICKS`] of them.
fn linear(low: f64, high: f64, positive: bool) -> Vec<f64> {
    let span = if high > low { high - low } else { high.abs().max(1.0) };
    let magnitude = 10_f64.powf((span / TICKS).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * magnitude);
    let step = steps.into_iter().find(|step| span / step <= TICKS).unwrap_or(10.0 * magnitude);
    let mut first = (low / step).floor();
    if positive && first <= 0.0 {
        // An axis of logarithms does not reach zero.
        first = low / step;
    }
    let count = ((high / step).ceil() - first).max(1.0);
    let mut ticks = Vec::new();
    let mut index = 0.0;
    while index <= count {
        ticks.push(tidy((first + index) * step));
        index += 1.0;
    }
    ticks
}

/// 1, 2 and 5 times the powers of ten around `low` and `high`, or the powers alone for a wide span.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let digits: &[f64] = if high / low > WIDE { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let (mut exponent, end) = (low.log10().floor(), high.log10().ceil() + 1.0);
    let mut ticks: Vec<f64> = Vec::new();
    while exponent <= end {
        ticks.extend(digits.iter().map(|digit| tidy(digit * 10_f64.powf(exponent))));
        exponent += 1.0;
    }
    let first = ticks.iter().rposition(|tick| *tick <= low).unwrap_or(0);
    let last = ticks.iter().position(|tick| *tick >= high).unwrap_or(ticks.len() - 1);
    ticks.get(first..=last).map(<[f64]>::to_vec).unwrap_or_default()
}

/// The number without the dust of the multiplication: 0.30000000000000004 is 0.3.
fn tidy(value: f64) -> f64 {
    format!("{value:.9e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(values: &[f64], log: bool) -> Vec<f64> {
        Scale::over(values.iter().copied(), log).unwrap().ticks
    }

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        assert_eq!(ticks(&[0.0, 4_810.0], false), [0.0, 1_000.0, 2_000.0, 3_000.0, 4_000.0, 5_000.0]);
        assert_eq!(ticks(&[0.97, 1.04], true), [0.96, 0.98, 1.0, 1.02, 1.04]);
        assert_eq!(ticks(&[3.0, 700.0], true), [2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0]);
        assert_eq!(ticks(&[0.5, 3_000.0], true), [0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
    }

    #[test]
    fn a_single_value_and_zero_have_an_axis() {
        for (values, log) in [(&[7.0][..], false), (&[7.0], true), (&[0.0], false), (&[0.000_2], true)] {
            let scale = Scale::over(values.iter().copied(), log).unwrap();
            let place = scale.at(values[0]).unwrap();
            assert!(scale.ticks.len() > 1 && (0.0..=1.0).contains(&place), "{scale:?}");
        }
    }

    #[test]
    fn what_cannot_be_shown_has_no_place() {
        assert_eq!(Scale::over([f64::NAN].into_iter(), false), None);
        assert_eq!(Scale::over([0.0, -1.0].into_iter(), true), None);
        let scale = Scale::over([1.0, 100.0].into_iter(), true).unwrap();
        assert_eq!((scale.at(0.0), scale.at(f64::INFINITY)), (None, None));
        assert!((scale.at(10.0).unwrap() - 0.5).abs() < 1e-12);
    }
}
