//! The answers that clients got while an administrator changed the rules, and whether each is the answer of
//! rules that were in force at a moment of its request.
//!
//! ```text
//! change n:        called ---------- returned            the rules before it may be in force until it
//! request:                  begun ------- ended          returned, those after it from when it was called
//! ```
//! Moments come from one counter. Changes are made one after the other, so that rules are numbered: number 0
//! is before all of them. A request may be answered by all numbers from the last change that had returned
//! when it began to the last one that was called before it ended, and by no mixture of them.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::model::{Answer, Ask, Rules, name};

/// A change as the administrator saw it.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) text: String,
    pub(super) called: u64,
    pub(super) returned: u64,
    /// The rules that it leaves.
    pub(super) rules: Rules,
}

/// An answer as its client saw it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) ask: Ask,
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) answer: Answer,
}

/// How much a history says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) answers: usize,
    /// Answers to requests that a change was under way at.
    pub(super) under_change: usize,
    /// Answers that the rules before those in force would not have given: old ones would be found by them.
    pub(super) telling: usize,
    pub(super) done: usize,
    pub(super) refused: usize,
}

/// Collects what the clients and the administrator see.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    clock: AtomicU64,
    changes: Mutex<Vec<Change>>,
    seen: Mutex<Vec<Seen>>,
}

impl Recorder {
    /// A moment: later than every one before.
    pub(super) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn changed(&self, text: String, called: u64, rules: Rules) {
        let returned = self.now();
        let change = Change { text, called, returned, rules };
        self.changes.lock().expect("no client panics while it records").push(change);
    }

    pub(super) fn answered(&self, seen: Seen) {
        self.seen.lock().expect("no client panics while it records").push(seen);
    }

    /// Judges all answers.
    ///
    /// # Panics
    /// With those that no rules in force give.
    pub(super) fn check(&self, first: &Rules) -> Tally {
        let changes = self.changes.lock().expect("no client panics while it records");
        let seen = self.seen.lock().expect("no client panics while it records");
        let (tally, complaints) = check(first, &changes, &seen);
        let shown = complaints.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
        assert!(complaints.is_empty(), "{} answers of {tally:?}:\n{shown}", complaints.len());
        tally
    }
}

/// Judges answers; returns a complaint for each that no rules in force give.
fn check(first: &Rules, changes: &[Change], seen: &[Seen]) -> (Tally, Vec<String>) {
    let rules = |number: usize| number.checked_sub(1).map_or(first, |change| &changes[change].rules);
    let (mut tally, mut complaints) = (Tally::default(), Vec::new());
    for seen in seen {
        let Seen { client, ask, begun, ended, answer, .. } = *seen;
        let oldest = changes.partition_point(|change| change.returned < begun);
        let newest = changes.partition_point(|change| change.called < ended);
        let gives = |number: &usize| rules(*number).answer(client, ask) == answer;
        tally.answers += 1;
        tally.under_change += usize::from(oldest < newest);
        tally.telling += usize::from(oldest.checked_sub(1).is_some_and(|before| !gives(&before)));
        let is_done = matches!(answer, Answer::Done | Answer::Absent | Answer::Erased([true, _] | [_, true]));
        tally.done += usize::from(is_done);
        tally.refused += usize::from(!is_done);
        if !(oldest..=newest).any(|number| gives(&number)) {
            complaints.push(complaint(seen, oldest..=newest, rules, changes));
        }
    }
    (tally, complaints)
}

/// An answer that is wrong, with the rules that were in force and the one before them.
fn complaint<'a>(
    seen: &Seen,
    numbers: std::ops::RangeInclusive<usize>,
    rules: impl Fn(usize) -> &'a Rules,
    changes: &[Change],
) -> String {
    let Seen { client, node, ask, begun, ended, answer } = seen;
    let mut text =
        format!("{} through node {node}: {ask:?} from {begun} to {ended}: {answer:?}", name(*client));
    for number in numbers.start().saturating_sub(2)..=*numbers.end() {
        let wanted = rules(number).answer(*client, *ask);
        let made = number.checked_sub(1).map(|change| &changes[change]);
        let made = made.map_or("the first rules".to_owned(), |change| {
            format!("{} from {} to {}", change.text, change.called, change.returned)
        });
        let place = if numbers.contains(&number) { "in force" } else { "old" };
        write!(text, "\n    {place} {number}: {wanted:?} after {made}").expect("a text grows");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::data::Dice;
    use crate::policies::model::{CLIENTS, Document};

    /// A change of the own policy of user 0.
    fn change(called: u64, returned: u64, policy: Option<Document>) -> Change {
        let mut rules = Rules::new();
        rules.inline.extend(policy.map(|policy| (0, policy)));
        Change { text: format!("{policy:?}"), called, returned, rules }
    }

    fn seen(ask: Ask, (begun, ended): (u64, u64), answer: Answer) -> Seen {
        Seen { client: 0, node: 0, ask, begun, ended, answer }
    }

    fn is_right(changes: &[Change], seen: Seen) -> bool {
        check(&Rules::new(), changes, &[seen]).1.is_empty()
    }

    #[test]
    fn an_old_answer_is_found_and_an_early_one_too() {
        let changes = [change(10, 20, Some(Document::ReadOwn))];
        let read = |moments, answer| is_right(&changes, seen(Ask::ReadOwn, moments, answer));
        for (moments, old, new) in [
            ((1, 9), true, false),
            ((9, 11), true, true),
            ((11, 12), true, true),
            ((19, 21), true, true),
            ((21, 22), false, true),
        ] {
            assert_eq!(read(moments, Answer::Denied), old, "old at {moments:?}");
            assert_eq!(read(moments, Answer::Done), new, "new at {moments:?}");
            assert!(!read(moments, Answer::UnknownKey), "neither at {moments:?}");
        }
    }

    #[test]
    fn an_answer_that_mixes_two_rules_is_found() {
        let changes = [change(10, 20, Some(Document::WriteOwn)), change(30, 40, Some(Document::All))];
        let erased = |erased| is_right(&changes, seen(Ask::EraseBoth, (5, 50), Answer::Erased(erased)));
        assert!([[false, false], [true, false], [true, true]].into_iter().all(erased));
        assert!(!erased([false, true]));
    }

    #[test]
    fn rules_that_returned_are_not_in_force_again() {
        let changes = [change(10, 20, Some(Document::All)), change(30, 40, None), change(50, 60, None)];
        assert!(is_right(&changes, seen(Ask::Write, (35, 45), Answer::Done)));
        assert!(!is_right(&changes, seen(Ask::Write, (45, 70), Answer::Done)));
    }

    /// A long history in which each answer is by the rules of a moment of its request, and one that is not.
    #[test]
    fn one_planted_old_answer_is_found_among_many() {
        let mut dice = Dice::new(7);
        let documents = [None, Some(Document::ReadOwn), Some(Document::WriteOwn), Some(Document::All)];
        let at = |number: usize| 100 * (number as u64 + 1);
        let changes: Vec<_> =
            (0..40).map(|number| change(at(number), at(number) + 40, documents[number % 4])).collect();
        let mut answers = Vec::new();
        for _ in 0..4_000 {
            let (begun, len) = (dice.within(0..=4_200), dice.within(1..=90));
            let (client, ask) = (dice.below(CLIENTS), Ask::ALL[dice.below(Ask::ALL.len())]);
            let moment = begun + dice.within(0..=len);
            // Each change is in force from the middle of its call on.
            let number = changes.partition_point(|change| change.called + 20 < moment);
            let rules = number.checked_sub(1).map_or(Rules::new(), |number| changes[number].rules.clone());
            let answer = rules.answer(client, ask);
            answers.push(Seen { client, node: dice.below(4), ask, begun, ended: begun + len + 1, answer });
        }
        let (tally, complaints) = check(&Rules::new(), &changes, &answers);
        assert_eq!(complaints, Vec::<String>::new());
        assert!(tally.under_change > 1_000 && tally.telling > 50, "{tally:?}");
        // User 0 had everything until change 4, and nothing after it.
        let (begun, ended) = (changes[4].returned + 1, changes[4].returned + 9);
        answers.insert(2_000, seen(Ask::Write, (begun, ended), Answer::Done));
        let (_, complaints) = check(&Rules::new(), &changes, &answers);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains("old 4: Done"), "{complaints:?}");
    }
}
