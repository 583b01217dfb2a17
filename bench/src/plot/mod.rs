//! Plots as SVG: groups of bars with intervals, and lines over linear or logarithmic axes.
//!
//! `report` and `compare` fill a [`Bars`] or [`Lines`] from rows of results and write the text to a file.
//! The same input gives the same bytes, so that a plot in docs/ only changes with its figures.

mod canvas;
mod scale;
mod bars;
mod lines;

/// Groups of horizontal bars: one group per category, one bar per series.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Stands above the plot.
    pub title: String,
    /// Name of the figure, which tells heading and units of the axis.
    pub figure: String,
    /// What the groups are called.
    pub categories: Vec<String>,
    /// Each series' name and its bar per category, where it has one.
    pub series: Vec<(String, Vec<Option<Bar>>)>,
    /// Where bars begin.
    pub base: f64,
    /// Whether the axis is logarithmic; it then begins at the smallest value if `base` is not above zero.
    pub log: bool,
}

/// One bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Where it ends.
    pub value: f64,
    /// The interval drawn over its end.
    pub interval: Option<(f64, f64)>,
}

/// Lines over a common axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// Stands above the plot.
    pub title: String,
    /// What the horizontal axis shows.
    pub x_label: String,
    /// Name of the figure, which tells heading and units of the vertical axis.
    pub figure: String,
    /// Places with their labels on the horizontal axis; chosen by the values if there are none.
    pub x_ticks: Vec<(f64, String)>,
    /// Whether the horizontal axis is logarithmic; values that are not above zero are left out.
    pub x_log: bool,
    /// Whether the vertical axis is logarithmic.
    pub y_log: bool,
    /// The lines.
    pub series: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points from left to right.
    pub points: Vec<(f64, f64)>,
}

impl Bars {
    /// No bars yet, on a linear axis from zero.
    pub fn new(title: &str, figure: &str) -> Self {
        let (title, figure) = (title.to_owned(), figure.to_owned());
        Self { title, figure, categories: Vec::new(), series: Vec::new(), base: 0.0, log: false }
    }

    /// The plot as an SVG document.
    pub fn svg(&self) -> String {
        bars::draw(self)
    }
}

impl Lines {
    /// No lines yet, on linear axes.
    pub fn new(title: &str, x_label: &str, figure: &str) -> Self {
        Self {
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            figure: figure.to_owned(),
            x_ticks: Vec::new(),
            x_log: false,
            y_log: false,
            series: Vec::new(),
        }
    }

    /// The plot as an SVG document.
    pub fn svg(&self) -> String {
        lines::draw(self)
    }
}

#[cfg(test)]
mod tests;
