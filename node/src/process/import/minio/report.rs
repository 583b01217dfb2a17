//! The output: a line for each entity, and how many there were of each outcome.

use std::collections::BTreeMap;
use std::io::Write;

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

/// The lines of a run, which are written as they come: a run over a slow cluster takes minutes, and may be
/// cut.
pub(super) struct Report<'a> {
    is_applied: bool,
    out: &'a mut dyn Write,
    counts: BTreeMap<Outcome, usize>,
}

impl<'a> Report<'a> {
    pub(super) const fn new(is_applied: bool, out: &'a mut dyn Write) -> Self {
        Self { is_applied, out, counts: BTreeMap::new() }
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
        self.say(&format!("{word:9}  {what} {name}{behind}{why}"));
        *self.counts.entry(outcome).or_default() += 1;
    }

    /// Adds the sums, if there are any.
    pub(super) fn end(&mut self) {
        let sums = self.counts.iter().map(|(outcome, count)| format!("{} {count}", self.word(*outcome)));
        let sums = sums.collect::<Vec<_>>().join(", ");
        if !sums.is_empty() {
            self.say(&sums);
        }
    }

    fn say(&mut self, line: &str) {
        let _reader_left = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
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
