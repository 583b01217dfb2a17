//! The seam of a comparison: something that runs once for a side and returns figures.
//!
//! Two things implement it, [`super::command`] for shell commands and [`super::store`] for stores under the
//! load generator. The rounds above depend on neither.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use super::failure::StoreError;

/// Side of a comparison: the compared thing that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The base of the comparison.
    A,
    /// The base once more, for A against A: another instance of it where there are instances, so that
    /// differences between two processes of one program are part of the noise.
    Again,
    /// The side that is judged.
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

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Finite numbers by the names of `result`: `ops_s`, `p99_us`, `seconds`, ...
    pub figures: BTreeMap<String, f64>,
    /// Reasons to distrust them: `client bound`, ...
    pub flags: Vec<String>,
}

/// Runs one operation for either side, as often as it is asked to.
pub trait Runner {
    /// Runs once for `side` and waits for the end.
    ///
    /// # Errors
    /// The run failed, so it says nothing of speed; the comparison ends.
    fn run(&mut self, side: Side) -> Result<Sample, RunError>;

    /// Settings of the sides, for the results: versions, durability, ...
    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

/// Why a run has no figures.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The command cannot be started or waited for.
    #[error("`{command}`: {source}")]
    Start {
        /// The command.
        command: String,
        /// The cause.
        source: io::Error,
    },
    /// The command failed by its exit code.
    #[error("`{command}` ended with {status}: {message}")]
    Failed {
        /// The command.
        command: String,
        /// The command's exit code or signal.
        status: String,
        /// The end of what it wrote to standard error.
        message: String,
    },
    /// The command took longer than it may.
    #[error("`{command}` was stopped after {limit:?}")]
    TooLong {
        /// The command.
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
        /// The command.
        command: String,
        /// The fault in the line.
        reason: String,
    },
}
