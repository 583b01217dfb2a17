//! Statistics of a few runs: mean, spread, Welch's t-test, the interval of a ratio.
//!
//! Runs of a benchmark are few (5 to 100) and the two sides scatter differently, so nothing here assumes
//! equal variances. `compare` judges by [`welch`] and stops by the width of [`ratio`]; both are plain
//! functions of two [`Summary`].

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Probability that an interval covers what it is the interval of.
pub const CONFIDENCE: f64 = 0.95;

/// Below this probability a difference is called significant.
pub const SIGNIFICANT: f64 = 0.05;

/// Count, mean and variance of some readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of readings, at least one.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Unbiased sample variance; zero for a single reading.
    pub variance: f64,
}

/// Welch's t-test of two sets of readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// Distance of the means (first less second) in standard errors; infinite when neither side scatters.
    pub t: f64,
    /// Degrees of freedom after Welch and Satterthwaite.
    pub degrees: f64,
    /// Two-sided probability of such a distance between two sets of readings of the same thing.
    pub p: f64,
}

/// A quotient of two means with the interval that covers it with [`CONFIDENCE`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Quotient of the two means.
    pub value: f64,
    /// Lower end of the interval, above zero.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Summary {
    /// Summarises `readings`; nothing for none, and nothing when one of them is not a finite number.
    pub fn of(readings: &[f64]) -> Option<Self> {
        if readings.is_empty() || readings.iter().any(|reading| !reading.is_finite()) {
            return None;
        }
        let count = readings.len();
        let mean = readings.iter().sum::<f64>() / whole(count);
        let squares: f64 = readings.iter().map(|reading| (reading - mean).powi(2)).sum();
        let variance = if count > 1 { squares / whole(count - 1) } else { 0.0 };
        Some(Self { count, mean, variance })
    }

    fn of_mean(&self) -> f64 {
        self.variance / whole(self.count)
    }
}

/// Tests whether two sets of readings are of things with one mean. Needs two readings of each.
///
/// Two sides that do not scatter at all, counts for instance, differ with certainty or not at all.
pub fn welch(first: &Summary, second: &Summary) -> Option<Welch> {
    if first.count < 2 || second.count < 2 {
        return None;
    }
    let difference = first.mean - second.mean;
    let (one, other) = (first.of_mean(), second.of_mean());
    let Some(degrees) = degrees((one, first.count), (other, second.count)) else {
        let degrees = whole(first.count + second.count - 2);
        return Some(if difference == 0.0 {
            Welch { t: 0.0, degrees, p: 1.0 }
        } else {
            Welch { t: f64::INFINITY.copysign(difference), degrees, p: 0.0 }
        });
    };
    let t = difference / (one + other).sqrt();
    let p = 2.0 * student(degrees)?.sf(t.abs());
    Some(Welch { t, degrees, p: p.min(1.0) })
}

/// The quotient of the means, `numerator` over `denominator`, with its interval.
///
/// The interval is that of the difference of the means' logarithms, each with its relative error (the
/// delta method), carried back: it never reaches below zero and says the same of a quotient and of its
/// inverse. Needs two readings of each side and means above zero.
pub fn ratio(numerator: &Summary, denominator: &Summary) -> Option<Ratio> {
    if numerator.count < 2 || denominator.count < 2 || numerator.mean <= 0.0 || denominator.mean <= 0.0 {
        return None;
    }
    let value = numerator.mean / denominator.mean;
    let above = numerator.of_mean() / numerator.mean.powi(2);
    let below = denominator.of_mean() / denominator.mean.powi(2);
    let Some(degrees) = degrees((above, numerator.count), (below, denominator.count)) else {
        return Some(Ratio { value, low: value, high: value });
    };
    let quantile = student(degrees)?.inverse_cdf(f64::midpoint(1.0, CONFIDENCE));
    let reach = (quantile * (above + below).sqrt()).exp();
    Some(Ratio { value, low: value / reach, high: value * reach })
}

impl Ratio {
    /// Width of the interval as a share of the quotient.
    pub fn width(&self) -> f64 {
        (self.high - self.low) / self.value
    }
}

/// Welch's and Satterthwaite's degrees of freedom of a sum of two variances, each with its number of
/// readings; nothing when both are zero.
fn degrees(one: (f64, usize), other: (f64, usize)) -> Option<f64> {
    let sum = one.0 + other.0;
    if sum <= 0.0 {
        return None;
    }
    // Shares of the sum instead of the terms themselves: their squares never overflow or vanish.
    let part = |(term, count): (f64, usize)| (term / sum).powi(2) / whole(count - 1);
    Some(1.0 / (part(one) + part(other)))
}

fn student(degrees: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, degrees).ok()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of runs are far below 2^52")]
fn whole(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
