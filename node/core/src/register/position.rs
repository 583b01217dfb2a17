//! How far a volume's log is durable.

use std::fmt;

use crate::id::{Incarnation, Sequence};

/// How far a volume's log is durable, and in which of its lives. Ordered: a later life is above every
/// sequence of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The life.
    pub incarnation: Incarnation,
    /// Its highest durable sequence in that life.
    pub durable: Sequence,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} of life {}", self.durable.0, self.incarnation.0)
    }
}
