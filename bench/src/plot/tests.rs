//! Plots as a reader of the file meets them: what is in the SVG, and that it is well-formed.

use super::*;

/// Checks that elements are closed and text is escaped, and returns how often each element occurs.
fn count(svg: &str, element: &str) -> usize {
    let opened = svg.matches('<').count();
    assert_eq!(opened, svg.matches('>').count(), "{svg}");
    let closed = svg.matches("</").count() + svg.matches("/>").count();
    let empty = svg.matches("/>").count();
    assert_eq!(opened - svg.matches("</").count(), closed, "every element is closed: {empty} empty ones");
    svg.matches(&format!("<{element} ")).count()
}

fn bars() -> Bars {
    let mut bars = Bars::new("PUT & GET <4 KiB>", "ops_s");
    bars.categories = vec!["put 4KiB".to_owned(), "get 4KiB".to_owned()];
    let bar = |value, interval| Some(Bar { value, interval });
    bars.series = vec![
        ("sherd".to_owned(), vec![bar(4_810.0, Some((4_700.0, 4_900.0))), bar(9_000.0, None)]),
        ("minio".to_owned(), vec![bar(480.0, None), None]),
    ];
    bars
}

#[test]
fn bars_have_a_rectangle_per_value_and_their_numbers() {
    let svg = bars().svg();
    // Three bars, two in the legend, one behind everything.
    assert_eq!(count(&svg, "rect"), 3 + 2 + 1);
    for text in
        ["PUT &amp; GET &lt;4 KiB&gt;", ">sherd<", ">minio<", ">put 4KiB<", ">4,810<", ">480<", ">ops/s<"]
    {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
}

#[test]
fn the_same_input_gives_the_same_plot() {
    assert_eq!(bars().svg(), bars().svg());
}

#[test]
fn longer_bars_are_of_larger_values_also_on_a_logarithmic_axis() {
    for log in [false, true] {
        let svg = Bars { log, ..bars() }.svg();
        let widths: Vec<f64> = svg
            .lines()
            .filter(|line| line.contains("height=\"13.0\""))
            .map(|line| line.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        let [sherd, minio, get] = widths[..] else { panic!("{widths:?}") };
        assert!(minio > 0.0 && minio < sherd && sherd < get, "{widths:?}");
        let share = minio / get;
        assert!(if log { share > 0.2 } else { share < 0.1 }, "{widths:?}");
    }
}

#[test]
fn ratios_grow_to_both_sides_of_one() {
    let mut bars = Bars::new("ratios", "ratio");
    (bars.base, bars.log) = (1.0, true);
    bars.categories = vec!["worse".to_owned(), "better".to_owned()];
    let bar = |value| Some(Bar { value, interval: None });
    bars.series = vec![("B/A".to_owned(), vec![bar(0.5), bar(2.0)])];
    let svg = bars.svg();
    let starts: Vec<(f64, f64)> = svg
        .lines()
        .filter(|line| line.contains("height=\"13.0\""))
        .map(|line| {
            let after =
                |key: &str| line.split(key).nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
            (after(" x=\""), after("width=\""))
        })
        .collect();
    let [(worse, length), (better, _)] = starts[..] else { panic!("{svg}") };
    assert!((worse + length - better).abs() < 0.2, "the one ends where the other begins: {starts:?}");
}

#[test]
fn lines_have_their_own_ticks_and_a_dot_per_point() {
    let mut lines = Lines::new("by size", "size", "p99_us");
    lines.x_log = true;
    lines.y_log = true;
    lines.x_ticks = vec![(4096.0, "4KiB".to_owned()), (1_048_576.0, "1MiB".to_owned())];
    lines.series = (0..9)
        .map(|series| Line {
            name: format!("series {series}"),
            points: vec![(4096.0, 900.0), (1_048_576.0, 20_000.0 + f64::from(series))],
        })
        .collect();
    let svg = lines.svg();
    assert_eq!((count(&svg, "polyline"), count(&svg, "circle")), (9, 18));
    assert!(svg.contains(">4KiB<") && svg.contains(">1MiB<") && svg.contains("ms<"), "{svg}");
    assert_eq!(svg.matches("stroke-dasharray").count(), 2, "colours that come again are dashed");
}

#[test]
fn a_plot_of_nothing_says_so() {
    assert!(Bars::new("empty", "ops_s").svg().contains("nothing to show"));
    assert!(Lines::new("empty", "size", "ops_s").svg().contains("nothing to show"));
}
