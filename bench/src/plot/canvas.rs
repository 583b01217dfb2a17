//! The few elements of SVG that a plot needs, with text escaped and coordinates in tenths.

use std::fmt::Write;

/// Width of every plot.
pub(super) const WIDTH: f64 = 760.0;

/// About the width of a letter of the plots' text.
const LETTER: f64 = 7.1;

/// Colours of series that differ for colour-blind readers too.
const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#555555"];

/// Where a text stands to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A document that grows.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    body: String,
}

impl Canvas {
    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.styled_text(at, anchor, "", text);
    }

    pub(super) fn styled_text(&mut self, (x, y): (f64, f64), anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{style}>{text}</text>"));
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.add(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    pub(super) fn stroke(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        ));
    }

    /// A line through `points` with a dot at each; a second use of a colour is dashed.
    pub(super) fn path(&mut self, points: &[(f64, f64)], series: usize) {
        let colour = colour(series);
        let dashes = if series < COLOURS.len() { "" } else { " stroke-dasharray=\"6 4\"" };
        let places: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let places = places.join(" ");
        self.add(&format!(
            "<polyline points=\"{places}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>"
        ));
        for (x, y) in points {
            self.add(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"));
        }
    }

    /// The title and, for more than one series, their names; returns the height that it takes.
    pub(super) fn head(&mut self, title: &str, names: &[&str]) -> f64 {
        self.styled_text((10.0, 22.0), Anchor::Start, " font-size=\"14\" font-weight=\"bold\"", title);
        let mut bottom = 34.0;
        if names.len() < 2 {
            return bottom;
        }
        let mut x = 10.0;
        for (series, name) in names.iter().enumerate() {
            let width = 22.0 + width(name) + 14.0;
            if x > 10.0 && x + width > WIDTH {
                x = 10.0;
                bottom += 18.0;
            }
            self.rectangle((x, bottom + 2.0), (12.0, 12.0), colour(series));
            self.text((x + 18.0, bottom + 12.0), Anchor::Start, name);
            x += width;
        }
        bottom += 26.0;
        bottom
    }

    /// The whole document, `height` high.
    pub(super) fn finish(self, title: &str, height: f64) -> String {
        let title = escaped(title);
        let body = self.body;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\" \
             fill=\"#222222\">\n<title>{title}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }

    fn add(&mut self, element: &str) {
        writeln!(self.body, "{element}").expect("a String takes what it is given");
    }
}

/// The colour of a series by its place.
pub(super) fn colour(series: usize) -> &'static str {
    COLOURS.get(series % COLOURS.len()).copied().unwrap_or("#555555")
}

/// About the width of a text.
pub(super) fn width(text: &str) -> f64 {
    text.chars().map(|_| LETTER).sum()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
