//! Flags of rows as footnotes: a reader of a figure must see what speaks against it.

/// Flags of the rows that are shown, numbered as they come.
#[derive(Debug, Default)]
pub(super) struct Notes {
    flags: Vec<String>,
}

impl Notes {
    /// The marks of `flags`, such as ` [1][2]`.
    pub(super) fn marks(&mut self, flags: &[String]) -> String {
        let mut marks = Vec::new();
        for flag in flags {
            let known = self.flags.iter().position(|known| known == flag).unwrap_or_else(|| {
                self.flags.push(flag.clone());
                self.flags.len() - 1
            });
            marks.push(format!("[{}]", known + 1));
        }
        if marks.is_empty() { String::new() } else { format!(" {}", marks.concat()) }
    }

    /// The footnotes as a paragraph that follows a table; nothing if there are none.
    pub(super) fn text(&self) -> String {
        let lines: Vec<_> =
            self.flags.iter().enumerate().map(|(index, flag)| format!("[{}] {flag}", index + 1)).collect();
        if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("; ")) }
    }
}
