//! The exit codes of `sherd-node`; [`super::cli`] explains them to its users.

use std::process::ExitCode;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Stopped as asked.
    Done = 0,
    /// Failed for another reason than those below.
    Failed = 1,
    /// The command line or the configuration was refused. Clap uses the same number.
    Refused = 2,
    /// The processor lacks features.
    Processor = 3,
    /// An address cannot be listened on.
    Listen = 4,
    /// The volumes cannot be opened.
    Volumes = 5,
    /// Requests were cut.
    Unfinished = 6,
    /// Done, and some of it was left out.
    InPart = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
