//! What a client does next: which operation, on which object, of how many bytes.

use std::fmt;

use super::payload::{Arena, Body};

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Write one that is new.
    Put,
    /// Read one of those that are there.
    Get,
}

impl Op {
    /// The label of its rows.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
        }
    }
}

/// The numbers of the objects that one client works on.
#[derive(Debug, Clone)]
pub(crate) enum Numbers {
    /// One after the other, each once.
    Fresh {
        /// The next one.
        next: u64,
    },
    /// Those from 0 to `count`, over and over.
    Round {
        /// The next one.
        next: u64,
        /// How many there are.
        count: u64,
    },
}

/// What one client does.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// Which operation.
    pub(crate) op: Op,
    /// Bytes of each object.
    pub(crate) bytes: u64,
    /// Where bodies come from.
    pub(crate) arena: Arena,
    /// On which objects.
    pub(crate) numbers: Numbers,
    /// The object of the last operation.
    pub(crate) last: Option<u64>,
}

impl Work {
    /// The number of the next object.
    pub(crate) fn next(&mut self) -> u64 {
        let number = match &mut self.numbers {
            Numbers::Fresh { next } => {
                *next += 1;
                *next - 1
            }
            Numbers::Round { next, count } => {
                let number = *next % *count;
                *next = number + 1;
                number
            }
        };
        self.last = Some(number);
        number
    }

    /// The bytes of an object.
    pub(crate) fn body(&self, number: u64) -> Body {
        self.arena.body(number, self.bytes)
    }

    /// What was written last, and is to be read back.
    pub(crate) fn written(&self) -> Option<u64> {
        self.last.filter(|_| self.op == Op::Put)
    }
}

/// The key of an object, as it is written.
pub(crate) struct Key(pub(crate) u64);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{:016x}", self.0)
    }
}

/// The key of an object.
pub(crate) fn key(number: u64) -> String {
    Key(number).to_string()
}
