//! What went wrong on a volume, by what the node must do about it.

use std::path::PathBuf;

/// An operation on a volume failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Not here. Ask another volume; queue a heal.
    #[error("not found")]
    NotFound,
    /// Here, and not what was written. Ask another volume; queue a heal.
    #[error("corrupt: {what}")]
    Corrupt {
        /// Which record or file.
        what: String,
    },
    /// No space for new data; deletes and repairs still work.
    #[error("volume full")]
    Full,
    /// The queue is full: back off.
    #[error("volume busy")]
    Busy,
    /// The volume is gone until it is opened anew: failed, removed, or closed.
    #[error("volume failed: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

/// A directory could not be opened as a volume.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the lock.
    #[error("{path} is in use by another process")]
    InUse {
        /// The volume's directory.
        path: PathBuf,
    },
    /// It is somebody else's.
    #[error("{path} belongs to {found}, expected {expected}")]
    Foreign {
        /// The volume's directory.
        path: PathBuf,
        /// What volume.json says.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// A format this version does not know.
    #[error("{path} has format version {version}, this version reads {supported}")]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says.
        version: u32,
        /// What is known.
        supported: u32,
    },
    /// volume.json is there and not readable as one.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How.
        what: String,
    },
    /// The volume failed before, and stays so until it is replaced.
    #[error("{path} failed earlier: {reason}")]
    Failed {
        /// The volume's directory.
        path: PathBuf,
        /// Why it failed.
        reason: String,
    },
    /// The operating system refused.
    #[error("{op} {path}: {source}")]
    Io {
        /// What was tried.
        op: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}
