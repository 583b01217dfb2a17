//! Why a store cannot be started, reached or compared.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::limits::{READY_TIMEOUT, STORE_FOLDERS};

/// Why a store cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tool's file cannot be read.
    #[error("{}: {source}", path.display())]
    ToolFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A tool's file is not one.
    #[error("tool {name}: {source}")]
    MalformedTool {
        /// The tool.
        name: String,
        /// Where and what.
        source: Box<toml::de::Error>,
    },
    /// No file comes with the program under that name.
    #[error("no tool `{name}`: sherd, minio, or a path to a file that ends in .toml")]
    UnknownTool {
        /// The name.
        name: String,
    },
    /// A tool must say what its answers promise.
    #[error("tool {name} does not state its durability, and is not measured without")]
    NoDurability {
        /// The tool.
        name: String,
    },
    /// A store's certificates cannot be made.
    #[error("make certificates for {name}: {source}")]
    Certificates {
        /// The tool.
        name: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A store is of one process or of a few.
    #[error("tool {name}: `processes` is from 1 to {}", STORE_FOLDERS)]
    Processes {
        /// The tool.
        name: String,
    },
    /// Figures of different promises are not comparable.
    #[error("refusing to compare different promises: {one}: {one_durability}, {other}: {other_durability}")]
    UnequalDurability {
        /// One tool,
        one: String,
        /// and its durability.
        one_durability: String,
        /// The other,
        other: String,
        /// and its durability.
        other_durability: String,
    },
    /// The program is not there.
    #[error("tool {name}: no program {}: give its path", path.display())]
    NoBinary {
        /// The tool.
        name: String,
        /// Where the program was looked for.
        path: PathBuf,
    },
    /// The command has no words.
    #[error("tool {name} has an empty command")]
    EmptyCommand {
        /// The tool.
        name: String,
    },
    /// The command has a placeholder that means nothing.
    #[error("tool {name}: unknown placeholder {{{placeholder}}}")]
    UnknownPlaceholder {
        /// The tool.
        name: String,
        /// The placeholder.
        placeholder: String,
    },
    /// Folders, port or process cannot be made.
    #[error("start {name}: {source}")]
    Start {
        /// The tool.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// The process ended before it answered.
    #[error("{name} ended before it answered ({status}): {output}")]
    Ended {
        /// The tool.
        name: String,
        /// How the process ended.
        status: ExitStatus,
        /// The end of its output.
        output: String,
    },
    /// An endpoint cannot be started again.
    #[error("{name} was not started by this program")]
    Foreign {
        /// The endpoint.
        name: String,
    },
    /// The process does not answer.
    #[error("{name} does not answer after {} s ({reason}): {output}", READY_TIMEOUT.as_secs())]
    Silent {
        /// The tool.
        name: String,
        /// The error of the last attempt.
        reason: String,
        /// The end of its output.
        output: String,
    },
    /// An endpoint that cannot be used.
    #[error("endpoint {url}: {reason}")]
    Endpoint {
        /// The endpoint.
        url: String,
        /// The reason.
        reason: &'static str,
    },
    /// An endpoint needs credentials.
    #[error("{name} is not set: an endpoint's credentials come from the environment")]
    NoCredentials {
        /// The variable.
        name: &'static str,
    },
}
