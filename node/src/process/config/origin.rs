//! Where one setting came from, for messages.

use std::fmt;
use std::path::PathBuf;

/// Where one setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command.
    Flag(String),
    /// A variable of the environment.
    Variable(String),
    /// A line of the file, counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line of the key.
        line: usize,
        /// The key with its table.
        key: &'static str,
    },
    /// Nowhere: the default, or missing.
    Default(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Variable(variable) => f.write_str(variable),
            Self::File { path, line, key } => write!(f, "{}:{line}: {key}", path.display()),
            Self::Default(key) => f.write_str(key),
        }
    }
}
