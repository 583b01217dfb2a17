//! How far a volume's log is durable, in which of its lives and in which opening.
//!
//! ```text
//! life 1   opening a            opening b                  opening c
//!          records 1 .. 9       begins at 9, 10 .. 40      begins at 40, 41 ...
//! ```
//! A sequence alone says little about a log that went back in time: records written after that get the same
//! numbers again. Each opening draws a random number, which distinguishes two logs that diverged. Guards
//! I-18.

use std::fmt;

use crate::env::Rng;
use crate::id::{Life, Sequence};

/// One opening of a volume: drawn at random each time, and never the same in two logs that went apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct OpeningId(pub u64);

impl OpeningId {
    /// Records before the first opening that a log names, and a life alone.
    pub const NONE: Self = Self(0);

    /// Draws an opening.
    pub fn draw(rng: &dyn Rng) -> Self {
        loop {
            let drawn = Self(rng.next_u64());
            if drawn != Self::NONE {
                return drawn;
            }
        }
    }
}

/// How far a volume's log is durable: in which of its lives, and which of its openings wrote that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The life.
    pub life: Life,
    /// The opening.
    pub opening: OpeningId,
    /// Highest durable sequence in that opening.
    pub durable: Sequence,
}

impl Position {
    /// Position at the beginning of a life, with none of its records.
    pub const fn life(life: Life) -> Self {
        Self { life, opening: OpeningId::NONE, durable: Sequence(0) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { life, opening, durable } = self;
        write!(f, "record {} of opening {:016x} in life {}", durable.0, opening.0, life.0)
    }
}
