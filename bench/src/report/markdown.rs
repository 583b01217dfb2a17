//! Tables of Markdown whose columns also line up in a terminal.

/// A table: a head and lines of as many cells.
#[derive(Clone, Debug, Default)]
pub struct Table {
    head: Vec<(String, Align)>,
    lines: Vec<Vec<String>>,
}

/// Where the text of a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

impl Table {
    /// An empty table without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column, before any line.
    pub fn column(&mut self, heading: impl Into<String>, align: Align) {
        self.head.push((heading.into(), align));
    }

    /// Adds a line; it has a cell for each column.
    pub fn line(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.head.len(), "a line has a cell for each column");
        self.lines.push(cells);
    }

    /// The table as text, each line ended.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.lines.iter().filter_map(|line| line.get(column));
            let heading = self.head.get(column).map(|(heading, _)| heading);
            cells.chain(heading).map(|cell| escaped(cell).chars().count()).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let aligns = || self.head.iter().map(|(_, align)| *align);
        let mut text = String::new();
        let mut push = |cells: &mut dyn Iterator<Item = String>| {
            for ((cell, &width), align) in cells.zip(&widths).zip(aligns()) {
                let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
                let (before, after) =
                    if align == Align::Left { ("", pad.as_str()) } else { (pad.as_str(), "") };
                text.extend(["| ", before, &cell, after, " "]);
            }
            text.push_str("|\n");
        };
        push(&mut self.head.iter().map(|(heading, _)| escaped(heading)));
        push(&mut widths.iter().zip(aligns()).map(|(&width, align)| match align {
            Align::Left => "-".repeat(width),
            Align::Right => format!("{}:", "-".repeat(width - 1)),
        }));
        for line in &self.lines {
            push(&mut line.iter().map(|cell| escaped(cell)));
        }
        text
    }
}

/// A cell in which a bar does not end it.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_bars_are_escaped() {
        let mut table = Table::new();
        table.column("op", Align::Left);
        table.column("ops/s", Align::Right);
        table.line(vec!["put".to_owned(), "4,810".to_owned()]);
        table.line(vec!["a|b".to_owned(), "µs".to_owned()]);
        let text = "| op   | ops/s |\n| ---- | ----: |\n| put  | 4,810 |\n| a\\|b |    µs |\n";
        assert_eq!(table.text(), text);
    }
}
