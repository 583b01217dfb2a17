//! What can be compared: anything that runs once for a side and comes back with figures.
//!
//! Two things implement it, [`super::command`] for shell commands and [`super::store`] for stores under the
//! load generator. The rounds above know neither.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use super::failure::StoreError;

/// Which of the two compared things runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The base of the comparison: what the other is held against.
    A,
    /// The base once more, for A against A: another instance of it where there are instances, so that
    /// what differs between two processes of one program is part of the noise.
    Again,
    /// What is judged.
    B,
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::A => "A",
            Self::Again => "A again",
            Self::B => "B",
        })
    }
}

/// What one run gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Finite numbers by the names of `result`: `ops_s`, `p99_us`, `seconds`, ...
    pub figures: BTreeMap<String, f64>,
    /// What a reader must know to trust them: `client bound`, ...
    pub flags: Vec<String>,
}

/// Runs one operation for either side, as often as it is asked to.
pub trait Runner {
    /// Runs once for `side` and waits for the end.
    ///
    /// # Errors
    /// The run failed, so it says nothing of speed; the comparison ends.
    fn run(&mut self, side: Side) -> Result<Sample, RunError>;

    /// What a reader of the results must know of the sides that ran: versions, durability, ...
    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

/// Why a run is worth nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The command cannot be started or waited for.
    #[error("`{command}`: {source}")]
    Start {
        /// What was to run.
        command: String,
        /// What the system says.
        source: io::Error,
    },
    /// The command says itself that it failed.
    #[error("`{command}` ended with {status}: {message}")]
    Failed {
        /// What ran.
        command: String,
        /// Its exit code or signal.
        status: String,
        /// The end of what it wrote to standard error.
        message: String,
    },
    /// The command took longer than it may.
    #[error("`{command}` was stopped after {limit:?}")]
    TooLong {
        /// What ran.
        command: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The store cannot be measured, or not all that it did was right.
    #[error(transparent)]
    Store(#[from] Box<StoreError>),
    /// The command printed something else than its figures.
    #[error("the last line that `{command}` printed is no figures: {reason}")]
    Output {
        /// What ran.
        command: String,
        /// What is wrong with the line.
        reason: String,
    },
}
