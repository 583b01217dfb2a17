//! The output of a command.

use serde_json::Value;

/// The output of a command, as text and as JSON.
pub(super) struct CommandOutput {
    pub(super) text: String,
    pub(super) json: Value,
}

/// Why writing to a `String` cannot fail.
pub(super) const TEXT: &str = "a String takes every text";
