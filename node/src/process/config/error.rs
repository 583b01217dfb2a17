//! Errors of a configuration: each names the place, the key and the reason.

use std::path::PathBuf;

use sherd_core::topology::FormError;

use super::credentials::InvalidCredentials;
use super::limits::CONFIG_BYTES_MAX;
use super::master_key::InvalidMasterKey;
use super::nodes::InvalidCluster;
use super::origin::Origin;
use super::volumes::InvalidVolumes;

/// The process must not start with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is longer than files of settings are.
    #[error("{path} is longer than {bytes} bytes", path = path.display(), bytes = CONFIG_BYTES_MAX)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The live file has a key that only a start takes.
    #[error("{path}: {key} takes effect only when a node starts: it belongs into the main file", path = path.display())]
    NotHot {
        /// The live file.
        path: PathBuf,
        /// The key with its table.
        key: String,
    },
    /// The file has an unknown key, a malformed value, or is not TOML.
    #[error("{path}:{line}: {why} (in `{written}`)", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The line itself.
        written: String,
        /// The fault.
        why: String,
    },
    /// A setting is well formed and not valid.
    #[error("{origin}: {why}")]
    Value {
        /// Where the value was written.
        origin: Origin,
        /// The fault.
        why: InvalidValue,
    },
    /// Usable credentials are missing.
    #[error(transparent)]
    Credentials(#[from] InvalidCredentials),
    /// The file of the master key cannot be used.
    #[error("master_key_file: {0}")]
    MasterKey(#[from] InvalidMasterKey),
    /// The data directory of `dev` cannot be made.
    #[error("create {path}: {source}")]
    CreateDirectory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Why one setting is not valid.
#[derive(Debug, thiserror::Error)]
pub enum InvalidValue {
    /// The volumes are not volumes.
    #[error(transparent)]
    Volumes(#[from] InvalidVolumes),
    /// The volumes and the parity make no geometry.
    #[error(transparent)]
    Geometry(#[from] FormError),
    /// Outside its range.
    #[error("{value} is outside {min} to {max}")]
    Range {
        /// The value as written.
        value: String,
        /// The least.
        min: String,
        /// The most.
        max: String,
    },
    /// No name that can stand in a signature's scope.
    #[error("{name:?} is not a region: lower-case letters, digits and '-'")]
    Region {
        /// The name as written.
        name: String,
    },
    /// No name that can stand in a Host header.
    #[error("{name:?} is not a domain name")]
    Domain {
        /// The name as written.
        name: String,
    },
    /// No network of addresses.
    #[error("{text:?} is no network of addresses, as 10.0.0.0/8 or fd00::/8, and no address")]
    Network {
        /// The text as written.
        text: String,
    },
    /// Two listeners on one address.
    #[error("{address} is the address of the {other} listener too")]
    SameAddress {
        /// The address as written.
        address: std::net::SocketAddr,
        /// The owner of the file.
        other: &'static str,
    },
    /// Table `[cluster]`.
    #[error(transparent)]
    Cluster(#[from] InvalidCluster),
    /// Certificate or key is missing in table `[tls]`.
    #[error("missing: TLS needs `tls.cert` and `tls.key`")]
    HalfOfTls,
    /// A relative path, and no directory from which it counts.
    #[error("{path}: {source}", path = path.display())]
    Path {
        /// The path as written.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// No filter for log lines.
    #[error("{level:?} is not a log filter: {why}")]
    LogLevel {
        /// The filter as written.
        level: String,
        /// The fault.
        why: String,
    },
}
