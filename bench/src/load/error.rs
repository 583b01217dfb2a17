//! Why the load generator measured nothing.

use std::io;

use crate::client::ask;
use crate::host::{self, Refusal, device};
use crate::{result, subject};

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This build must not be measured with.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The store cannot be started or reached.
    #[error("{0}")]
    Subject(#[from] subject::Error),
    /// Flags that do not go together, or out of range.
    #[error("--{flag}: {reason}")]
    Flag {
        /// The flag's name.
        flag: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// The bucket cannot be made or removed.
    #[error("bucket: {0}")]
    Bucket(#[from] ask::Error),
    /// The objects to measure with could not be written.
    #[error("{subject}: only {written} of {wanted} objects could be written: {faults}")]
    Preparation {
        /// The store.
        subject: String,
        /// Objects there are.
        written: u64,
        /// Objects wanted.
        wanted: u64,
        /// The faults, and how often each occurred.
        faults: String,
    },
    /// The device's own figures cannot be measured.
    #[error("{0}")]
    Device(#[from] device::Error),
    /// A store would run into the end of the disk.
    #[error("{0}")]
    Full(#[from] host::Full),
    /// The system lacks threads or polling.
    #[error("generate load: {0}")]
    System(#[from] io::Error),
    /// The result cannot be written.
    #[error("{0}")]
    Results(#[from] result::Error),
}
