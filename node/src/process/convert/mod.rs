//! `sherd-node convert`: a Tenant of MinIO's operator as a StorageCluster, Buckets and BucketUsers.
//!
//! ```text
//! file -> documents -> tenant: one StorageCluster, its pool (`pool`), Buckets, BucketUsers
//!                   -> what has no place here, each by its path and the reason (`left_out`)
//! ```
//! Every field of the Tenant is either taken or named, but those that a cluster adds by itself. Values of
//! Secrets are not printed, but a region and names of hosts of `config.env`. The shape of what is printed is
//! that of the resource definitions; a test of the operator reads the examples of `testdata`.

mod limits;
mod error;
mod left_out;
mod secrets;
mod tls;
mod variables;
mod pool;
mod tenant;

use std::fmt::Write as _;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::process::config::private_file::{self, PrivateFileError};
use crate::process::exit::Exit;
pub use error::InvalidTenant;
use left_out::LeftOut;
use limits::FILE_BYTES_MAX;

/// `sherd-node convert`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 converted, 1 the file cannot be read, 2 it holds no Tenant that can be converted"
)]
pub struct ConvertArgs {
    /// YAML with a Tenant (minio.min.io/v2), and with the Secrets that it names if they are at hand; - for
    /// standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Name of the StorageCluster [default: that of the Tenant]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// Why nothing is printed.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// Standard input cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The name that was given.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is longer than any Tenant.
    #[error("{path} has more than {FILE_BYTES_MAX} bytes", path = path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be parsed.
    #[error("{path}: {words}", path = path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// The place and the reason.
        words: String,
    },
    /// The file has no Tenant, or one that cannot be converted.
    #[error(transparent)]
    Tenant(#[from] InvalidTenant),
    /// The documents cannot be written as text.
    #[error("write YAML: {0}")]
    Print(String),
    /// Standard output is closed.
    #[error("print: {0}")]
    Output(#[source] io::Error),
}

impl ConvertError {
    /// Returns the exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::File(_) | Self::Read { .. } | Self::Print(_) | Self::Output(_) => Exit::Failed,
            Self::TooLong { .. } | Self::Yaml { .. } | Self::Tenant(_) => Exit::Refused,
        }
    }
}

/// Converts a file. `out` gets the documents, whole or not at all, `err` a line for each thing that was left
/// out.
///
/// # Errors
/// [`ConvertError`].
pub fn convert(
    arguments: &ConvertArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<(), ConvertError> {
    let ConvertArgs { file, name } = arguments;
    let text = read(file)?;
    let converted = convert_text(&text, name.as_deref(), file)?;
    for line in &converted.left_out {
        // The same lines are in the output.
        let _unread = writeln!(err, "left out: {line}");
    }
    out.write_all(converted.yaml.as_bytes()).and_then(|()| out.flush()).map_err(ConvertError::Output)
}

fn read(path: &Path) -> Result<String, ConvertError> {
    let failed = |source| ConvertError::Read { path: path.to_owned(), source };
    let bytes = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        io::stdin().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        bytes
    } else {
        private_file::read(path, 0o777, FILE_BYTES_MAX + 1)?
    };
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ConvertError::TooLong { path: path.to_owned() });
    }
    let words = |error: std::string::FromUtf8Error| error.to_string();
    String::from_utf8(bytes)
        .map_err(|error| ConvertError::Yaml { path: path.to_owned(), words: words(error) })
}

/// The output and what is not in it.
#[derive(Debug)]
struct ConvertedText {
    yaml: String,
    left_out: Vec<LeftOut>,
}

fn convert_text(text: &str, name: Option<&str>, path: &Path) -> Result<ConvertedText, ConvertError> {
    // Further lines of an error show the text at that place, which may be a Secret's.
    let first_line = |error: String| error.lines().next().unwrap_or_default().to_owned();
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| ConvertError::Yaml {
        path: path.to_owned(),
        words: first_line(error.to_string()),
    })?;
    let tenant::ConvertedTenant { title, documents, left_out } = tenant::convert(documents, name)?;
    let mut yaml = format!("# Made by sherd-node convert from {title}.\n");
    yaml.push_str(if left_out.is_empty() { "# Nothing was left out.\n" } else { "# Left out:\n" });
    for line in &left_out {
        let _ = writeln!(yaml, "#   {line}");
    }
    for document in documents {
        let printed = serde_saphyr::to_string(&document);
        let printed = printed.map_err(|error| ConvertError::Print(error.to_string()))?;
        let _ = write!(yaml, "---\n{}\n", printed.trim_end());
    }
    Ok(ConvertedText { yaml, left_out })
}

#[cfg(test)]
mod tests;
