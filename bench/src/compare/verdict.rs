//! Whether B is better than A, worse, or neither, in one figure.
//!
//! A difference counts when it is significant (Welch, p < 0.05) and larger than the noise floor, which is
//! what A differs from itself by when it is measured in the same way.

use crate::stats::{Ratio, SIGNIFICANT, Summary, Welch, ratio, welch};

/// How B stands to A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B is better, beyond chance and beyond the noise floor.
    Better,
    /// B is worse, likewise. In a judged figure this is a regression.
    Worse,
    /// The difference may be chance or noise.
    NoDifference,
}

impl Verdict {
    /// The verdict as it stands in a table.
    pub fn text(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifference => "no difference",
        }
    }
}

/// One figure of one operation, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Name of the figure.
    pub figure: String,
    /// Whether the figure decides about a regression.
    pub judged: bool,
    /// Side A.
    pub a: Summary,
    /// Side B.
    pub b: Summary,
    /// B over A with its 95 % interval; none when a side is zero.
    pub ratio: Option<Ratio>,
    /// Welch's test of the two sides.
    pub welch: Welch,
    /// The noise floor as a factor: 1.02 where A differs from itself by up to 2 %. None if not measured.
    pub floor: Option<f64>,
    /// How B stands to A.
    pub verdict: Verdict,
}

impl Judgement {
    /// The probability of chance as it stands in a table.
    pub(crate) fn p_text(&self) -> String {
        let p = self.welch.p;
        if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
    }
}

/// The factor by which the two halves of an A-against-A comparison may differ: the end of the interval of
/// their ratio that lies further from 1.
pub fn noise_floor(first: &Summary, second: &Summary) -> Option<f64> {
    ratio(second, first).map(|ratio| ratio.high.max(1.0 / ratio.low))
}

/// Judges `figure` from readings of both sides; none for fewer than two readings of one.
pub fn judge(
    figure: &str,
    more_is_better: bool,
    sides: (&[f64], &[f64]),
    floor: Option<f64>,
) -> Option<Judgement> {
    let (a, b) = (Summary::of(sides.0)?, Summary::of(sides.1)?);
    let welch = welch(&a, &b)?;
    let ratio = ratio(&b, &a);
    // Without a ratio one side is zero: beyond any factor.
    let factor = ratio.map_or(f64::INFINITY, |ratio| ratio.value.max(1.0 / ratio.value));
    let verdict = if welch.p >= SIGNIFICANT || factor <= floor.unwrap_or(1.0) {
        Verdict::NoDifference
    } else if (b.mean > a.mean) == more_is_better {
        Verdict::Better
    } else {
        Verdict::Worse
    };
    Some(Judgement { figure: figure.to_owned(), judged: false, a, b, ratio, welch, floor, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(more_is_better: bool, a: &[f64], b: &[f64], floor: Option<f64>) -> Verdict {
        judge("figure", more_is_better, (a, b), floor).unwrap().verdict
    }

    #[test]
    fn the_direction_is_that_of_the_figure() {
        let (low, high) = ([10.0, 10.1, 9.9], [12.0, 12.1, 11.9]);
        assert_eq!(verdict(true, &low, &high, None), Verdict::Better);
        assert_eq!(verdict(true, &high, &low, None), Verdict::Worse);
        assert_eq!(verdict(false, &low, &high, None), Verdict::Worse);
        assert_eq!(verdict(false, &high, &low, None), Verdict::Better);
    }

    #[test]
    fn a_significant_difference_below_the_noise_floor_is_none() {
        let (a, b) = ([100.0, 100.1, 99.9], [103.0, 103.1, 102.9]);
        assert_eq!(verdict(false, &a, &b, Some(1.02)), Verdict::Worse);
        assert_eq!(verdict(false, &a, &b, Some(1.04)), Verdict::NoDifference);
        assert_eq!(verdict(false, &b, &a, Some(1.04)), Verdict::NoDifference);
    }

    #[test]
    fn a_large_difference_that_may_be_chance_is_none() {
        assert_eq!(verdict(false, &[10.0, 30.0, 20.0], &[15.0, 40.0, 25.0], None), Verdict::NoDifference);
    }

    #[test]
    fn counts_that_differ_differ_and_those_that_do_not_do_not() {
        assert_eq!(verdict(false, &[27.0; 3], &[28.0; 3], Some(1.0)), Verdict::Worse);
        assert_eq!(verdict(false, &[27.0; 3], &[27.0; 3], Some(1.0)), Verdict::NoDifference);
        assert_eq!(verdict(false, &[0.0; 3], &[1.0; 3], Some(1.5)), Verdict::Worse);
        assert_eq!(verdict(false, &[0.0; 3], &[0.0; 3], None), Verdict::NoDifference);
    }

    #[test]
    fn the_floor_is_the_far_end_of_the_interval() {
        let (one, other) =
            (Summary::of(&[10.0, 10.2, 9.8]).unwrap(), Summary::of(&[10.1, 10.3, 9.9]).unwrap());
        let interval = ratio(&other, &one).unwrap();
        let floor = noise_floor(&one, &other).unwrap();
        assert!(interval.low < 1.0 && interval.high > 1.0);
        assert_eq!(floor.to_bits(), interval.high.max(1.0 / interval.low).to_bits());
        let turned = noise_floor(&other, &one).unwrap();
        assert!((turned - floor).abs() < 1e-12, "{turned} {floor}");
    }
}
