//! The rules of style that a machine can check, each with a test that shows it bites.
//!
//! A rule is a function from one source file to complaints. Comments and texts are blanked out first where a
//! rule is about code. Rules that need types (the bans on clocks, files and tasks) are clippy's; `seams` has
//! only the list of files that may break it.

mod arrows;
mod circles;
mod docs;
mod figures;
mod invariants;
mod ratchet;
mod reading;
mod rooms;
mod seams;
mod source;
mod style;

use source::{Source, sources};

/// Checks one rule on every file.
fn holds(rule: fn(&Source) -> Vec<String>) {
    let complaints: Vec<String> = sources().iter().flat_map(rule).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// A rule's verdict on one text.
fn bites(rule: fn(&Source) -> Vec<String>, text: &str) -> bool {
    !rule(&Source::new("node/src/example.rs", text)).is_empty()
}
