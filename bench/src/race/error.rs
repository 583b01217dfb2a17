//! Errors of a race, and why a tool is out of a row.

use std::io;
use std::path::PathBuf;

use crate::client::ask;
use crate::compare::runner::RunError;
use crate::host::{self, Refusal, device};
use crate::{result, subject};

/// Why there was no race.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This build must not be measured with.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// An argument makes no sense.
    #[error("{0}")]
    Usage(&'static str),
    /// A row does not exist.
    #[error("no row {name}, but: {rows}")]
    UnknownRow {
        /// The name.
        name: String,
        /// The rows.
        rows: String,
    },
    /// A tool does not exist.
    #[error("no tool {0}: name one of bench/race, or a file as those there")]
    UnknownTool(String),
    /// A tool's file is wrong.
    #[error("tool {name}: {source}")]
    MalformedTool {
        /// The tool.
        name: String,
        /// The fault in it.
        source: Box<toml::de::Error>,
    },
    /// A command or a variable of a tool has a placeholder that means nothing there.
    #[error("tool {name}: unknown placeholder {{{placeholder}}}")]
    UnknownPlaceholder {
        /// The tool.
        name: String,
        /// The placeholder.
        placeholder: String,
    },
    /// A tool does not say its version, and so may do nothing else.
    #[error("the version of {tool}: {source}")]
    Version {
        /// The tool.
        tool: String,
        /// The cause.
        source: RunError,
    },
    /// A file cannot be used.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// The action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The files would fill the disk.
    #[error("{0}")]
    Full(#[from] host::Full),
    /// A store cannot be started or reached.
    #[error("{0}")]
    Store(#[from] subject::Error),
    /// A store does not do what the bench itself asks of it: not the fault of a tool.
    #[error("the store: {0}")]
    Witness(#[from] ask::Error),
    /// The device's own figures cannot be measured.
    #[error("{0}")]
    Device(#[from] device::Error),
    /// The results cannot be written.
    #[error("{0}")]
    Results(#[from] result::Error),
}

impl Error {
    pub(super) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

/// Why a tool is out of a row.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The tool failed, or was stopped.
    #[error("{0}")]
    Command(#[from] RunError),
    /// Not all files or objects are there, or not all names were printed.
    #[error("{name} is missing, {there} of {wanted} are there")]
    Missing { name: String, there: u64, wanted: u64 },
    /// A name that is not one of the files', or is there twice.
    #[error("{name} was not asked for")]
    Unexpected { name: String },
    /// A file or object differs.
    #[error("{name} has other bytes")]
    Bytes { name: String },
    /// A sync stored an object that was up to date.
    #[error("{name} was stored again without need")]
    Needless { name: String },
}

/// How a run ends without a time: its tool is out, or the whole race is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunFailure {
    #[error("OUT: {0}")]
    Tool(Fault),
    #[error("{0}")]
    Race(Error),
}

impl From<Fault> for RunFailure {
    fn from(fault: Fault) -> Self {
        Self::Tool(fault)
    }
}

impl From<Error> for RunFailure {
    fn from(error: Error) -> Self {
        Self::Race(error)
    }
}
