//! The output of a command.

use serde_json::Value;

/// The output of a command, as text and as JSON.
pub(super) struct CommandOutput {
    pub(super) text: String,
    pub(super) json: Value,
}

impl CommandOutput {
    /// The JSON as a line, in which no control character is left that a terminal would obey.
    pub(super) fn json_line(&self) -> String {
        let escape = |letter: char| {
            if letter.is_control() { format!("\\u{:04x}", u32::from(letter)) } else { letter.to_string() }
        };
        self.json.to_string().chars().map(escape).collect::<String>() + "\n"
    }
}

/// Why writing to a `String` cannot fail.
pub(super) const TEXT: &str = "a String takes every text";
