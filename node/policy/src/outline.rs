//! The places of statements in a document, for people: by line and column, and by `Sid`.
//!
//! Read from the text for each explanation: a parsed policy keeps none of it in memory.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::policy::Policy;

/// A place in a document. Both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A statement as its document has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementOutline {
    /// The statement's `Sid`; empty without one.
    pub sid: String,
    /// The place of the statement's first character.
    pub start: Position,
    /// The place behind its last character.
    pub end: Position,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(rename = "Statement", borrow)]
    statement: &'a RawValue,
}

#[derive(Deserialize)]
struct SidElement {
    #[serde(rename = "Sid", default)]
    sid: String,
}

impl Policy {
    /// The statements of its document, in order.
    pub fn outline(&self) -> Vec<StatementOutline> {
        let text = self.document();
        let Ok(document) = serde_json::from_str::<Document<'_>>(text) else { return vec![] };
        let one = document.statement;
        let statements: Vec<&RawValue> = if one.get().starts_with('[') {
            serde_json::from_str(one.get()).unwrap_or_default()
        } else {
            vec![one]
        };
        let mut cursor = Cursor { text, at: 0, position: Position { line: 1, column: 1 } };
        let outline = |statement: &RawValue| {
            let begin = statement.get().as_ptr().addr() - text.as_ptr().addr();
            let element = serde_json::from_str::<SidElement>(statement.get());
            let start = cursor.advance(begin);
            let end = cursor.advance(begin + statement.get().len());
            StatementOutline { sid: element.map(|element| element.sid).unwrap_or_default(), start, end }
        };
        statements.into_iter().map(outline).collect()
    }
}

/// A place that goes through a text once.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    position: Position,
}

impl Cursor<'_> {
    /// Goes on to a byte.
    fn advance(&mut self, to: usize) -> Position {
        for letter in self.text.get(self.at..to).unwrap_or_default().chars() {
            if letter == '\n' {
                self.position = Position { line: self.position.line + 1, column: 1 };
            } else {
                self.position.column += 1;
            }
        }
        self.at = to;
        self.position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::PolicyForm;

    fn outline(document: &str) -> Vec<(String, [usize; 4])> {
        let policy = Policy::parse(document.as_bytes(), PolicyForm::Identity).expect("a policy");
        let places = |found: StatementOutline| {
            let StatementOutline { sid, start, end } = found;
            (sid, [start.line, start.column, end.line, end.column])
        };
        policy.outline().into_iter().map(places).collect()
    }

    #[test]
    fn statements_have_their_lines_and_columns() {
        let one =
            r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}"#;
        assert_eq!(outline(one), [(String::new(), [1, 40, 1, one.len()])]);
        let several = r#"{
  "Id": "ü",
  "Statement": [
    {
      "Sid": "a\u0062", "Effect": "Allow", "Action": "*", "Resource": "*"
    },
    {"Effect": "Deny", "Action": "*", "Resource": "arn:aws:s3:::ü/*"}, {"Effect": "Deny", "Action": "*", "Resource": "*"}]}"#;
        let found = outline(several);
        assert_eq!(found[0], ("ab".to_owned(), [4, 5, 6, 6]));
        assert_eq!(found[1], (String::new(), [7, 5, 7, 70]));
        assert_eq!(found[2].1[..2], [7, 72]);
    }
}
