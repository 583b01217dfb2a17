//! Figures by their names: the unit, the text, and whether more is better.
//!
//! The names are those of `result`: the unit stands at the end. Tables, charts and `compare` ask here, so
//! that a figure looks the same wherever it stands.

/// Figures whose heading is not just their name, and how they are called.
const HEADINGS: [(&str, &str); 15] = [
    ("ops_s", "ops/s"),
    ("mib_s", "MiB/s"),
    ("gib_s", "GiB/s"),
    ("p50_us", "p50"),
    ("p90_us", "p90"),
    ("p99_us", "p99"),
    ("p999_us", "p99.9"),
    ("max_us", "max"),
    ("seconds", "time"),
    ("client_cpu_us_op", "client CPU/op"),
    ("client_cpu_share", "client CPU"),
    ("server_cpu_us_op", "server CPU/op"),
    ("server_anon_mib", "server memory"),
    ("allocs_op", "allocs/op"),
    ("alloc_bytes_op", "allocated/op"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// A rate; the heading names it.
    Rate,
    /// Time: nanoseconds of its unit.
    Time(u32),
    /// Memory or data: bytes of its unit.
    Bytes(u32),
    /// A part of one.
    Share,
    /// A number and nothing more.
    Plain,
}

fn unit(name: &str) -> Unit {
    let name = name.strip_suffix("_op").unwrap_or(name);
    let is =
        |suffix: &str| name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    if is("ops_s") || is("mib_s") || is("gib_s") {
        Unit::Rate
    } else if is("ns") {
        Unit::Time(1)
    } else if is("us") {
        Unit::Time(1_000)
    } else if is("ms") {
        Unit::Time(1_000_000)
    } else if is("seconds") {
        Unit::Time(1_000_000_000)
    } else if is("bytes") {
        Unit::Bytes(1)
    } else if is("kib") {
        Unit::Bytes(1 << 10)
    } else if is("mib") {
        Unit::Bytes(1 << 20)
    } else if is("share") {
        Unit::Share
    } else {
        Unit::Plain
    }
}

/// Whether the name ends in a unit, as `memory_mib` does and `commit` does not.
pub fn has_unit(name: &str) -> bool {
    unit(name) != Unit::Plain
}

/// Whether more of the figure is better: only of rates.
pub fn more_is_better(name: &str) -> bool {
    unit(name) == Unit::Rate
}

/// The figure as the head of a column: `p999_us` is `p99.9`.
pub fn heading(name: &str) -> String {
    if let Some((_, heading)) = HEADINGS.iter().find(|(known, _)| *known == name) {
        return (*heading).to_owned();
    }
    if let Some((known, heading)) =
        HEADINGS.iter().find(|(known, _)| name.strip_suffix(known).is_some_and(|rest| rest.ends_with('_')))
    {
        return format!("{} {heading}", name.trim_end_matches(known).trim_end_matches('_').replace('_', " "));
    }
    let (stem, per) = name.strip_suffix("_op").map_or((name, ""), |stem| (stem, "/op"));
    let stem = match unit(name) {
        Unit::Time(_) | Unit::Bytes(_) => stem.rsplit_once('_').map_or(stem, |(stem, _)| stem),
        Unit::Rate | Unit::Share | Unit::Plain => stem,
    };
    format!("{}{per}", stem.replace('_', " "))
}

/// The value with its unit, as a reader wants it: `12.3 ms`, `4,810`, `18 KiB`, `37 %`.
pub fn show(name: &str, value: f64) -> String {
    match unit(name) {
        Unit::Time(nanoseconds) => {
            scaled(value * f64::from(nanoseconds), &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")])
        }
        Unit::Bytes(bytes) => scaled(
            value * f64::from(bytes),
            &[
                (f64::from(1 << 30), "GiB"),
                (f64::from(1 << 20), "MiB"),
                (f64::from(1 << 10), "KiB"),
                (1.0, "B"),
            ],
        ),
        Unit::Share => format!("{} %", number(value * 100.0)),
        Unit::Rate | Unit::Plain => number(value),
    }
}

/// Heading and value as they stand in a sentence: `fdatasync p50 915 µs`, `read 1,900 MiB/s`.
pub fn sentence(name: &str, value: f64) -> String {
    let (heading, value) = (heading(name), show(name, value));
    match heading.rsplit_once(' ') {
        Some((what, rate)) if unit(name) == Unit::Rate => format!("{what} {value} {rate}"),
        _ if unit(name) == Unit::Rate => format!("{value} {heading}"),
        _ => format!("{heading} {value}"),
    }
}

/// The value in the largest of `units` that leaves at least one of it, else in the smallest.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let fits = |size: f64| significant(value / size).abs() >= 1.0;
    let found = units.iter().find(|(size, _)| fits(*size)).or(units.last());
    found.map_or_else(|| number(value), |(size, unit)| format!("{} {unit}", number(value / size)))
}

/// The value in three significant digits, whole from 1,000 on, with thousands set apart.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let rounded = if value.abs() < 1_000.0 { significant(value) } else { value.round() };
    if rounded == 0.0 {
        return "0".to_owned();
    }
    if rounded.fract() == 0.0 {
        return thousands(&format!("{rounded:.0}"));
    }
    let magnitude = rounded.abs();
    if magnitude >= 10.0 {
        format!("{rounded:.1}")
    } else if magnitude >= 1.0 {
        format!("{rounded:.2}")
    } else {
        format!("{rounded}")
    }
}

fn significant(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn thousands(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_mean_something() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0001, "-0.0001"),
            (0.012_345, "0.0123"),
            (0.999_6, "1"),
            (3.0, "3"),
            (3.144, "3.14"),
            (9.996, "10"),
            (31.44, "31.4"),
            (314.4, "314"),
            (999.7, "1,000"),
            (1_234.5, "1,235"),
            (-12_345_678.0, "-12,345,678"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn a_figure_is_shown_in_the_unit_of_its_name() {
        for (name, value, text) in [
            ("p50_us", 915.4, "915 µs"),
            ("p99_us", 12_345.0, "12.3 ms"),
            ("p99_us", 999.9, "1 ms"),
            ("max_us", 0.25, "250 ns"),
            ("seconds", 61.2, "61.2 s"),
            ("server_cpu_us_op", 80.0, "80 µs"),
            ("alloc_bytes_op", 18_022.0, "17.6 KiB"),
            ("server_anon_mib", 2_048.0, "2 GiB"),
            ("client_cpu_share", 0.371, "37.1 %"),
            ("ops_s", 4_810.4, "4,810"),
            ("errors", 0.0, "0"),
            ("p50_us", 0.0, "0"),
        ] {
            assert_eq!(show(name, value), text, "{name} {value}");
        }
    }

    #[test]
    fn headings_leave_the_unit_to_the_value() {
        for (name, text) in [
            ("p999_us", "p99.9"),
            ("fdatasync_p50_us", "fdatasync p50"),
            ("read_mib_s", "read MiB/s"),
            ("cpu_seconds", "cpu time"),
            ("peak_rss_mib", "peak rss"),
            ("alloc_bytes_op", "allocated/op"),
            ("disk_bytes_op", "disk/op"),
            ("keys", "keys"),
        ] {
            assert_eq!(heading(name), text);
        }
    }

    #[test]
    fn in_a_sentence_the_unit_follows_the_value() {
        assert_eq!(sentence("fdatasync_p50_us", 915.0), "fdatasync p50 915 µs");
        assert_eq!(sentence("read_mib_s", 1_900.4), "read 1,900 MiB/s");
        assert_eq!(sentence("mib_s", 3.0), "3 MiB/s");
    }

    #[test]
    fn only_rates_are_better_when_they_are_more() {
        assert!(more_is_better("ops_s") && more_is_better("encode_mib_s"));
        assert!(!more_is_better("p99_us") && !more_is_better("allocs_op") && !more_is_better("stops_s"));
    }
}
