//! Sections as they are written: text, and placeholders that stand alone on their lines.
//!
//! `{{name word key=value key="two words"}}`. A pair of braces anywhere else is an error: a placeholder that
//! is overlooked would stand in docs/performance.md as it is.

/// A line or several of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Goes into the document as it is, with its line ends.
    Text(String),
    /// Is replaced by what it asks for.
    Placeholder(Placeholder),
}

/// A request for a table, a plot, ...
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placeholder {
    /// Line of the file, from 1.
    pub(super) line: usize,
    /// What is asked for.
    pub(super) name: String,
    /// The words without a key.
    pub(super) words: Vec<String>,
    /// The words with one, in their order.
    pub(super) pairs: Vec<(String, String)>,
}

impl Placeholder {
    /// The value of `key`.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
    }

    /// The values of `key`, which are separated by commas.
    pub(super) fn list(&self, key: &str) -> Vec<&str> {
        self.get(key).map(|value| value.split(',').collect()).unwrap_or_default()
    }
}

/// Splits a section; an error is a line and what is wrong with it.
pub(super) fn split(text: &str) -> Result<Vec<Piece>, (usize, String)> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let number = index + 1;
        let trimmed = line.trim();
        if let Some(inside) = trimmed.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
            let placeholder = parse(inside, number).map_err(|reason| (number, reason))?;
            pieces.push(Piece::Placeholder(placeholder));
        } else if line.contains("{{") || line.contains("}}") {
            return Err((number, "a placeholder stands alone on its line: {{name ...}}".to_owned()));
        } else if let Some(Piece::Text(text)) = pieces.last_mut() {
            text.push_str(line);
        } else {
            pieces.push(Piece::Text(line.to_owned()));
        }
    }
    Ok(pieces)
}

fn parse(inside: &str, line: usize) -> Result<Placeholder, String> {
    let mut words = words(inside)?.into_iter();
    let name = words.next().ok_or("a placeholder has a name")?;
    let mut placeholder = Placeholder { line, name, words: Vec::new(), pairs: Vec::new() };
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            placeholder.words.push(word);
            continue;
        };
        if placeholder.get(key).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
        placeholder.pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(placeholder)
}

/// Splits at spaces that are not between quotation marks, and drops the marks.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    if quoted {
        return Err("a quotation mark is not closed".to_owned());
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_placeholders_are_told_apart() {
        let text = "## Loads\n\nSome text.\n{{table load op=put title=\"4 KiB = small\" rows=size,clients}}\nMore.\n";
        let pieces = split(text).unwrap();
        let [Piece::Text(before), Piece::Placeholder(table), Piece::Text(after)] = &pieces[..] else {
            panic!("{pieces:?}")
        };
        assert_eq!((before.as_str(), after.as_str()), ("## Loads\n\nSome text.\n", "More.\n"));
        assert_eq!((table.name.as_str(), table.line), ("table", 4));
        assert_eq!(table.words, ["load"]);
        assert_eq!(table.get("title"), Some("4 KiB = small"));
        assert_eq!(table.list("rows"), ["size", "clients"]);
        assert!(table.list("columns").is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, part) in [
            ("one\nsee {{table load}} here\n", 2, "alone"),
            ("{{table load\n", 1, "alone"),
            ("\n\n{{}}\n", 3, "a name"),
            ("{{table a=\"b}}\n", 1, "not closed"),
            ("{{table a=b a=c}}\n", 1, "`a` is given twice"),
        ] {
            let (found, reason) = split(text).unwrap_err();
            assert_eq!(found, line, "{text}");
            assert!(reason.contains(part), "{reason}");
        }
    }
}
