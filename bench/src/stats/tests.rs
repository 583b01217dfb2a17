//! The statistics against published and independently computed numbers.

use super::*;

/// Student's sleep data, the example of R's manual page of `t.test`.
const SLEEP: ([f64; 10], [f64; 10]) = (
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
);

/// Two sides of unequal size and variance, the second and third example of the encyclopedia's article on
/// Welch's test.
const UNEQUAL: ([f64; 10], [f64; 20]) = (
    [17.2, 20.9, 22.6, 18.1, 21.7, 21.4, 23.5, 24.2, 14.7, 21.8],
    [
        21.5, 22.8, 21.0, 23.0, 21.6, 23.6, 22.5, 20.7, 23.4, 21.8, 20.7, 21.7, 21.5, 22.5, 23.6, 21.5, 22.5,
        23.5, 21.5, 21.8,
    ],
);
const WIDE: ([f64; 10], [f64; 20]) = (
    [19.8, 20.4, 19.6, 17.8, 18.5, 18.9, 18.3, 18.9, 19.5, 22.0],
    [
        28.2, 26.6, 20.1, 23.3, 25.2, 22.1, 17.7, 27.6, 20.6, 13.7, 23.2, 17.5, 20.6, 18.0, 23.9, 21.6, 24.3,
        20.4, 24.0, 13.2,
    ],
);

fn summary(readings: &[f64]) -> Summary {
    Summary::of(readings).unwrap()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} is not {expected}");
}

#[test]
fn mean_and_variance_are_those_of_the_textbook() {
    let found = summary(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
    assert_eq!(found.count, 8);
    close(found.mean, 5.0);
    close(found.variance, 32.0 / 7.0);
    assert_eq!(summary(&[3.0]).variance.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn no_readings_and_readings_that_are_no_numbers_have_no_summary() {
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    assert_eq!(Summary::of(&[1.0, f64::INFINITY]), None);
}

#[test]
fn welch_agrees_with_r_and_scipy() {
    let known = [
        (summary(&SLEEP.0), summary(&SLEEP.1), -1.860_813_467_486_852_6, 17.776_473_516, 0.079_394_140_187),
        (summary(&UNEQUAL.0), summary(&UNEQUAL.1), -1.565_433_523_6, 9.904_741_248_65, 0.148_841_696_605),
        (summary(&WIDE.0), summary(&WIDE.1), -2.219_240_915_82, 24.496_223_124_2, 0.035_972_271_029_8),
    ];
    for (first, second, t, degrees, p) in known {
        let found = welch(&first, &second).unwrap();
        close(found.t, t);
        close(found.degrees, degrees);
        close(found.p, p);
        let turned = welch(&second, &first).unwrap();
        assert_eq!((turned.t.to_bits(), turned.p.to_bits()), ((-found.t).to_bits(), found.p.to_bits()));
    }
}

#[test]
fn the_quantiles_behind_the_interval_agree_with_scipy() {
    for (degrees, quantile) in [
        (1.0, 12.706_204_736_2),
        (4.0, 2.776_445_105_2),
        (17.776, 2.102_821_310_38),
        (100.0, 1.983_971_518_52),
    ] {
        close(student(degrees).unwrap().inverse_cdf(0.975), quantile);
    }
}

#[test]
fn the_interval_of_a_ratio_agrees_with_scipy() {
    let found = ratio(&summary(&WIDE.1), &summary(&WIDE.0)).unwrap();
    close(found.value, 1.114_610_221_992_77);
    close(found.low, 1.011_573_606_899_15);
    close(found.high, 1.228_141_915_227_56);
    close(found.width(), (found.high - found.low) / found.value);
}

#[test]
fn a_ratio_and_its_inverse_say_the_same() {
    let (one, other) = (summary(&WIDE.0), summary(&WIDE.1));
    let (there, back) = (ratio(&one, &other).unwrap(), ratio(&other, &one).unwrap());
    close(there.low, 1.0 / back.high);
    close(there.high, 1.0 / back.low);
}

#[test]
fn sides_that_do_not_scatter_differ_with_certainty_or_not_at_all() {
    let (one, other) = (summary(&[27.0; 4]), summary(&[28.0; 4]));
    let same = welch(&one, &one).unwrap();
    assert_eq!((same.t.to_bits(), same.p.to_bits()), (0.0_f64.to_bits(), 1.0_f64.to_bits()));
    let different = welch(&one, &other).unwrap();
    assert_eq!(
        (different.t.to_bits(), different.p.to_bits()),
        (f64::NEG_INFINITY.to_bits(), 0.0_f64.to_bits())
    );
    let found = ratio(&other, &one).unwrap();
    assert_eq!((found.low.to_bits(), found.high.to_bits()), (found.value.to_bits(), found.value.to_bits()));
}

#[test]
fn too_few_readings_and_means_without_a_ratio_have_none() {
    let (single, pair, zero) = (summary(&[1.0]), summary(&[1.0, 2.0]), summary(&[0.0, 0.0]));
    assert_eq!(welch(&single, &pair), None);
    assert_eq!(ratio(&pair, &single), None);
    assert_eq!(ratio(&pair, &zero), None);
    assert_eq!(ratio(&zero, &pair), None);
    assert!(welch(&zero, &pair).is_some());
}

#[test]
fn tiny_and_huge_readings_keep_their_degrees_of_freedom() {
    for scale in [1e-100, 1.0, 1e100] {
        let scaled = |readings: &[f64]| {
            let readings: Vec<f64> = readings.iter().map(|reading| reading * scale).collect();
            summary(&readings)
        };
        close(welch(&scaled(&WIDE.0), &scaled(&WIDE.1)).unwrap().degrees, 24.496_223_124_2);
    }
}
