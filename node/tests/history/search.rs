//! The search for an order: depth first over what may be next, and never twice into the same node
//! (Wing and Gong, 1993, with Lowe's memory of visited nodes).
//!
//! An operation may be next if no other one that is left was answered before it was sent. Three rules keep
//! the search short without losing an order: a read that sees the key's state goes next at once; a write of
//! unknown outcome that no other operation saw is left out; an answered write that did not look, and that no
//! other one saw, goes right before the next write that does not look either, if it may: there it changes
//! nothing.

use std::collections::HashSet;

use super::{Found, Operation, State, Violation};

/// Nodes at most: far more than a history of a few hundred operations needs, and a few seconds.
const STEPS_MAX: usize = 2_000_000;
/// Operations shown of those that could not be next.
const STUCK_SHOWN: usize = 8;

/// Looks for an order of a key's operations that explains every answer; the key holds nothing at
/// first.
///
/// # Errors
/// [`Violation`] when no order exists, or none was found in time.
pub(crate) fn check(history: &[Operation]) -> Result<(), Violation> {
    let mut operations: Vec<Operation> = history.to_vec();
    let conditions = operations.iter().any(|operation| matches!(operation.found, Found::IsNot(_)));
    let seen: HashSet<State> = operations
        .iter()
        .filter_map(|operation| match operation.found {
            Found::Is(state) => Some(state),
            Found::Anything | Found::IsNot(_) => None,
        })
        .collect();
    // Without it every other operation finds the same, unless one says only what it did not find.
    operations.retain(|operation| {
        operation.answered.is_some()
            || conditions
            || operation.leaves.is_some_and(|leaves| seen.contains(&leaves))
    });
    operations.sort_by_key(|operation| operation.sent);
    let is_unseen = |operation: &Operation| {
        !conditions && is_blind(operation) && operation.leaves.is_some_and(|leaves| !seen.contains(&leaves))
    };
    let unseen = operations.iter().map(is_unseen).collect();
    Search::new(&operations, unseen).run()
}

/// Whether it writes without having looked.
fn is_blind(operation: &Operation) -> bool {
    operation.found == Found::Anything && operation.leaves.is_some()
}

/// The shortest beginning of a history that no order explains: what was not sent yet is left out, what
/// was not answered yet has an unknown outcome.
pub(crate) fn shortest(history: &[Operation]) -> Vec<Operation> {
    let mut moments: Vec<u64> = history.iter().filter_map(|operation| operation.answered).collect();
    moments.sort_unstable();
    let index = moments.partition_point(|&moment| check(&until(history, moment)).is_ok());
    moments.get(index).map_or_else(|| history.to_vec(), |&moment| until(history, moment))
}

fn until(history: &[Operation], moment: u64) -> Vec<Operation> {
    let mut beginning: Vec<Operation> =
        history.iter().copied().filter(|operation| operation.sent < moment).collect();
    for operation in &mut beginning {
        operation.answered = operation.answered.filter(|&answered| answered <= moment);
    }
    beginning.retain(|operation| operation.answered.is_some() || operation.leaves.is_some());
    beginning.sort_by_key(|operation| operation.sent);
    beginning
}

/// Operations that were put in order: a bit each.
type Done = Vec<u64>;

struct Search<'a> {
    operations: &'a [Operation],
    /// Whether an operation is a write that did not look, and that no other operation saw.
    unseen: Vec<bool>,
    visited: HashSet<(Done, State)>,
    /// The furthest node, for the report.
    furthest: Option<SearchNode>,
}

/// A node of the search: operations that are done, and the state behind them.
#[derive(Debug, Clone)]
struct SearchNode {
    done: Done,
    /// Operations in `done`.
    count: usize,
    /// The first operation that may be missing from `done`.
    first: usize,
    state: State,
}

impl SearchNode {
    fn has(&self, index: usize) -> bool {
        self.done[index / 64] >> (index % 64) & 1 == 1
    }

    fn put(&mut self, index: usize, operation: &Operation) {
        self.done[index / 64] |= 1 << (index % 64);
        self.count += 1;
        self.state = operation.leaves.unwrap_or(self.state);
        while self.first / 64 < self.done.len() && self.has(self.first) {
            self.first += 1;
        }
    }
}

impl<'a> Search<'a> {
    fn new(operations: &'a [Operation], unseen: Vec<bool>) -> Self {
        Self { operations, unseen, visited: HashSet::new(), furthest: None }
    }

    fn run(mut self) -> Result<(), Violation> {
        let words = self.operations.len() / 64 + 1;
        let mut open = vec![SearchNode { done: vec![0; words], count: 0, first: 0, state: None }];
        while let Some(mut at) = open.pop() {
            self.look(&mut at);
            let next = self.next(&at);
            let answered = next.iter().any(|&index| self.operations[index].answered.is_some());
            if !answered {
                // Only what was never answered is left, and that may never have happened.
                return Ok(());
            }
            if !self.visited.insert((at.done.clone(), at.state)) {
                continue;
            }
            if self.visited.len() > STEPS_MAX {
                return Err(Violation::TooHard { steps: STEPS_MAX });
            }
            // Popped first: what was answered, earliest first; unknown ones only where needed.
            let mut choices: Vec<_> =
                next.into_iter().filter(|&index| self.operations[index].found.admits(at.state)).collect();
            choices
                .sort_by_key(|&index| std::cmp::Reverse(self.operations[index].answered.unwrap_or(u64::MAX)));
            for index in choices {
                let mut further = at.clone();
                if is_blind(&self.operations[index]) {
                    self.put_unseen(&mut further);
                }
                if !further.has(index) {
                    further.put(index, &self.operations[index]);
                }
                open.push(further);
            }
            if self.furthest.as_ref().is_none_or(|furthest| furthest.count < at.count) {
                self.furthest = Some(at);
            }
        }
        Err(self.impossible())
    }

    /// Puts in order what only looks and sees what is there.
    fn look(&self, at: &mut SearchNode) {
        loop {
            let next = self.next(at).into_iter().find(|&index| {
                let operation = &self.operations[index];
                // Not a write that changes nothing here: it may be needed later.
                operation.leaves.is_none() && operation.found.admits(at.state)
            });
            match next {
                Some(index) => at.put(index, &self.operations[index]),
                None => return,
            }
        }
    }

    /// Puts in order the writes that no other operation saw and that may be next.
    fn put_unseen(&self, at: &mut SearchNode) {
        while let Some(index) = self.next(at).into_iter().find(|&index| self.unseen[index]) {
            at.put(index, &self.operations[index]);
        }
    }

    /// The operations that may be next: sent before any other that is left was answered.
    fn next(&self, at: &SearchNode) -> Vec<usize> {
        let mut earliest = u64::MAX;
        let mut next = Vec::new();
        for (index, operation) in self.operations.iter().enumerate().skip(at.first) {
            if operation.sent > earliest {
                break;
            }
            if !at.has(index) {
                earliest = earliest.min(operation.answered.unwrap_or(u64::MAX));
                next.push(index);
            }
        }
        next.retain(|&index| self.operations[index].sent < earliest);
        next
    }

    fn impossible(&self) -> Violation {
        let Some(at) = &self.furthest else {
            return Violation::Impossible { explained: 0, state: None, stuck: Vec::new() };
        };
        let next = self.next(at);
        let stuck = next.into_iter().take(STUCK_SHOWN).map(|index| self.operations[index]).collect();
        Violation::Impossible { explained: at.count, state: at.state, stuck }
    }
}
