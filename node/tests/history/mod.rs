//! The answers that clients got, and whether one register per key can have given them.
//!
//! A history is a list of operations, each with the moments it was sent and answered, the state that it found
//! and the state that it left. Moments come from one counter: an operation that was answered before another
//! was sent lies before it. An operation without an answer may have happened at any time after it was sent,
//! or never. [`check`] searches for one order of all operations that explains every answer: without such an
//! order the store was not linearizable, or lost an acknowledged write.

mod search;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use search::check;

/// Operations that the report of a violation shows, the last ones.
const OPERATIONS_SHOWN: usize = 60;

/// State of a key: the id of a write, or nothing.
pub(crate) type State = Option<u64>;

/// State that an operation found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Found {
    /// No look at the state.
    Anything,
    /// Exactly this.
    Is(State),
    /// Anything but this.
    IsNot(State),
}

impl Found {
    const fn admits(self, state: State) -> bool {
        match (self, state) {
            (Self::Anything, _) => true,
            (Self::Is(wanted), state) => same(wanted, state),
            (Self::IsNot(unwanted), state) => !same(unwanted, state),
        }
    }
}

const fn same(one: State, other: State) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        (None, None) => true,
        _ => false,
    }
}

/// One operation on one key, as its client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    /// The client's name of it, for the report.
    pub(crate) name: &'static str,
    /// When it was sent.
    pub(crate) sent: u64,
    /// When its answer arrived; `None` when its outcome is unknown.
    pub(crate) answered: Option<u64>,
    /// The state that it must have found.
    pub(crate) found: Found,
    /// State of the key afterwards; `None` when it changes nothing.
    pub(crate) leaves: Option<State>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, sent, answered, found, leaves } = self;
        write!(f, "{name} from {sent} to ")?;
        match answered {
            Some(answered) => write!(f, "{answered}")?,
            None => write!(f, "?")?,
        }
        if *found != Found::Anything {
            write!(f, " found {found:?}")?;
        }
        leaves.map_or(Ok(()), |leaves| write!(f, " leaves {leaves:?}"))
    }
}

/// No order of the operations explains them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    /// The search went through all orders.
    Impossible {
        /// The most operations that could be put in order.
        explained: usize,
        /// State of the key after them.
        state: State,
        /// Operations, one of which had to be next.
        stuck: Vec<Operation>,
    },
    /// The search gave up: the history says nothing.
    TooHard {
        /// Steps that it took.
        steps: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooHard { steps } => write!(f, "gave up after {steps} steps"),
            Self::Impossible { explained, state, stuck } => {
                writeln!(f, "{explained} operations can be put in order; then the key holds {state:?}, and")?;
                stuck.iter().try_for_each(|operation| writeln!(f, "  {operation}"))?;
                write!(f, "cannot be next")
            }
        }
    }
}

/// Collects the histories of many keys from many clients.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    clock: AtomicU64,
    keys: Mutex<BTreeMap<String, Vec<Operation>>>,
}

impl Recorder {
    /// A moment: later than every one before.
    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Notes an operation that was answered in this moment.
    pub(crate) fn answered(
        &self,
        name: &'static str,
        key: &str,
        sent: u64,
        found: Found,
        leaves: Option<State>,
    ) {
        let answered = Some(self.now());
        self.push(key, Operation { name, sent, answered, found, leaves });
    }

    /// Notes a change whose outcome is unknown. It happened only if it found what it asked for.
    pub(crate) fn unknown(&self, name: &'static str, key: &str, sent: u64, found: Found, leaves: State) {
        self.push(key, Operation { name, sent, answered: None, found, leaves: Some(leaves) });
    }

    fn push(&self, key: &str, operation: Operation) {
        let mut keys = self.keys.lock().expect("no test panics while it records");
        keys.entry(key.to_owned()).or_default().push(operation);
    }

    /// Operations recorded.
    pub(crate) fn len(&self) -> usize {
        self.keys.lock().expect("no test panics while it records").values().map(Vec::len).sum()
    }

    /// Checks every key's history. Panics with the first that no order explains.
    pub(crate) fn check(&self) {
        let keys = self.keys.lock().expect("no test panics while it records");
        for (key, history) in keys.iter() {
            if let Err(violation) = check(history) {
                let shortest = search::shortest(history);
                let violation = check(&shortest).err().unwrap_or(violation);
                let begin = shortest.len().saturating_sub(OPERATIONS_SHOWN);
                let lines: Vec<_> =
                    shortest[begin..].iter().map(|operation| format!("  {operation}")).collect();
                panic!("the history of {key} is not linearizable:\n{}\n{violation}", lines.join("\n"));
            }
        }
    }
}
