//! The output: a line for each entity, and how many there were of each outcome.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::limits::LETTERS_MAX;
use crate::process::exit::Exit;

/// The outcome of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Made,
    Finished,
    Equal,
    Differs,
    LeftOut,
    Failed,
}

/// The lines of a run.
#[derive(Debug)]
pub(super) struct Report {
    is_applied: bool,
    text: String,
    counts: BTreeMap<Outcome, usize>,
}

impl Report {
    pub(super) const fn new(is_applied: bool) -> Self {
        Self { is_applied, text: String::new(), counts: BTreeMap::new() }
    }

    const fn word(&self, outcome: Outcome) -> &'static str {
        match (outcome, self.is_applied) {
            (Outcome::Made, true) => "made",
            (Outcome::Made, false) => "to make",
            (Outcome::Finished, true) => "finished",
            (Outcome::Finished, false) => "to finish",
            (Outcome::Equal, _) => "is there",
            (Outcome::Differs, _) => "differs",
            (Outcome::LeftOut, _) => "left out",
            (Outcome::Failed, _) => "failed",
        }
    }

    /// Adds a line. `why` is empty where there is nothing to say.
    pub(super) fn add(&mut self, outcome: Outcome, what: &str, name: &str, why: &str) {
        let (word, behind) = (self.word(outcome), if why.is_empty() { "" } else { ": " });
        let (name, why) = (shown(name), shown(why));
        writeln!(self.text, "{word:9}  {what} {name}{behind}{why}").expect("a String takes every text");
        *self.counts.entry(outcome).or_default() += 1;
    }

    /// The lines, and the sums behind them.
    pub(super) fn text(&self) -> String {
        let sums = self.counts.iter().map(|(outcome, count)| format!("{} {count}", self.word(*outcome)));
        format!("{}{}\n", self.text, sums.collect::<Vec<_>>().join(", "))
    }

    /// How the process ends.
    pub(super) fn exit(&self) -> Exit {
        let has = |outcome| self.counts.contains_key(&outcome);
        if has(Outcome::Failed) {
            Exit::Failed
        } else if has(Outcome::Differs) || has(Outcome::LeftOut) {
            Exit::InPart
        } else {
            Exit::Done
        }
    }
}

/// A text in one line of at most 500 letters: those of the export may have any characters.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (place, letter) in text.chars().enumerate() {
        match letter {
            _ if place == LETTERS_MAX => {
                shown.push_str("...");
                break;
            }
            '"' | '\'' => shown.push(letter),
            letter => shown.extend(letter.escape_debug()),
        }
    }
    shown
}
