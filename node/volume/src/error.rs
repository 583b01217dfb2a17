//! Errors of a volume, by the action that the node must take.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sherd_core::message;
use sherd_core::register::Refusal;

/// Meaning of a refused call of the disk for the volume: the one place where that is decided.
///
/// A sync that failed is fatal under any error code: see [`SyncFailure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultClass {
    /// The disk is full. Nothing is broken, and space may be freed.
    Full,
    /// The process or the system lacks something for the moment. The same call may succeed later.
    Busy,
    /// The disk is not what it should be.
    Fatal,
}

impl FaultClass {
    /// Judges a call that did not sync: nothing that was durable is in doubt by it.
    pub fn of(error: &io::Error) -> Self {
        if SyncFailure::within(error).is_some() {
            return Self::Fatal;
        }
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        match (error.kind(), errno) {
            // A file that may not grow any further (its size limit, the filesystem's largest file) is as
            // full as a filesystem.
            (ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge, _)
            | (_, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Self::Full,
            (
                ErrorKind::OutOfMemory
                | ErrorKind::WouldBlock
                | ErrorKind::Interrupted
                | ErrorKind::TimedOut
                | ErrorKind::ResourceBusy,
                _,
            )
            | (
                _,
                Some(
                    Errno::MFILE
                    | Errno::NFILE
                    | Errno::NOMEM
                    | Errno::NOBUFS
                    | Errno::AGAIN
                    | Errno::INTR
                    | Errno::BUSY
                    | Errno::TIMEDOUT
                    | Errno::NOLCK,
                ),
            ) => Self::Busy,
            _ => Self::Fatal,
        }
    }
}

/// A sync was begun and failed: the kernel may have dropped what was to be written, and a second sync
/// would answer well. Disks wrap their errors in it, so that no class of errors makes it one to retry.
#[derive(Debug, thiserror::Error)]
#[error("sync: {source}")]
pub struct SyncFailure {
    /// The error of the system.
    pub source: io::Error,
}

impl SyncFailure {
    /// An error of the sync of a file that is not referenced yet, and that is removed or made again: lack of
    /// space for it does not endanger bytes that were synced before.
    pub(crate) fn of_a_new_file(error: io::Error) -> io::Error {
        let is_full = Self::within(&error).is_some_and(Self::is_full);
        if is_full { ErrorKind::StorageFull.into() } else { error }
    }

    /// An error of a sync, as the calls of a disk give it.
    pub fn wrap(source: io::Error) -> io::Error {
        io::Error::other(Self { source })
    }

    /// The failed sync in an error, if it is one.
    pub fn within(error: &io::Error) -> Option<&Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref())
    }

    /// Whether a filesystem that allocates late found no space for written bytes: those that were not synced
    /// before are lost, and those that were are not in doubt.
    pub fn is_full(&self) -> bool {
        FaultClass::of(&self.source) == FaultClass::Full
    }
}

/// An operation on a volume failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Not here. Ask another volume; queue a heal.
    #[error("not found")]
    NotFound,
    /// Here, and not what was written. Ask another volume; queue a heal.
    #[error("corrupt: {what}")]
    Corrupt {
        /// Record or file.
        what: String,
    },
    /// A shard file as a crash leaves it before its end was written, or one that is being written. Ask
    /// another volume; queue a heal where a row names it. The disk is not at fault.
    #[error("unfinished: {what}")]
    Unfinished {
        /// File.
        what: String,
    },
    /// No space for new data; deletes and repairs still work.
    #[error("volume full")]
    Full,
    /// The queue is full: back off.
    #[error("volume busy")]
    Busy,
    /// The volume works and its rules forbid it: the asker's topology is out of date.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The volume is gone until it is opened again: failed, removed, or closed.
    #[error("volume failed: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
}

impl From<Error> for message::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => Self::NotFound,
            // A peer does the same about both: something is there, and it is not the shard.
            Error::Corrupt { what } | Error::Unfinished { what } => Self::Corrupt { what },
            Error::Full => Self::Full,
            Error::Busy => Self::Busy,
            Error::Refused(refusal) => Self::Refused(refusal),
            Error::Failed { reason } => Self::Unreachable { reason },
        }
    }
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
    /// The directory belongs to another cluster or volume.
    #[error("{path} belongs to {found}, expected {expected}")]
    Foreign {
        /// The volume's directory.
        path: PathBuf,
        /// The id in volume.json.
        found: String,
        /// The id that was asked for.
        expected: String,
    },
    /// A format this version does not know.
    #[error("{path} {}", unknown_version(*.version, *.supported))]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it.
        version: u32,
        /// The newest that is known.
        supported: u32,
    },
    /// A file is not what a volume keeps under its name.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How.
        what: String,
    },
    /// The disk cannot read a part of the log, and its content is unknown. Nothing is lost by trying again.
    #[error("read {path} at {offset}: {source}")]
    Unreadable {
        /// The segment's file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// Why not.
        source: io::Error,
    },
    /// The volume failed, now or before, and stays so until it is replaced.
    #[error("{path} failed: {reason}")]
    Failed {
        /// The volume's directory.
        path: PathBuf,
        /// Why it failed.
        reason: String,
    },
    /// The operating system refused.
    #[error("{op} {path}: {source}")]
    Io {
        /// The operation that failed.
        op: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl OpenError {
    /// Of a call that the system refused. A failed sync fails the volume until it is replaced: what was to be
    /// written may be gone, and a second sync would answer well.
    pub(crate) fn refused(op: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match SyncFailure::within(&source) {
            Some(failure) => {
                let reason = format!("{op} {}: {failure}", path.display());
                Self::Failed { path, reason }
            }
            None => Self::Io { op, path, source },
        }
    }
}

fn unknown_version(version: u32, supported: u32) -> String {
    let why = if version > supported { "was written by a newer version" } else { "is not read any more" };
    format!("has format version {version} and {why}: this version reads up to {supported}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_retry_can_mend_is_fatal() {
        let class = |errno: Errno| FaultClass::of(&errno.into());
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::INTR, Errno::TIMEDOUT] {
            assert_eq!(class(errno), FaultClass::Busy, "{errno:?}");
        }
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
            assert_eq!(class(errno), FaultClass::Full, "{errno:?}");
        }
        assert_eq!(FaultClass::of(&ErrorKind::StorageFull.into()), FaultClass::Full);
        for errno in [Errno::IO, Errno::ROFS, Errno::NXIO, Errno::STALE, Errno::NOENT, Errno::BADF] {
            assert_eq!(class(errno), FaultClass::Fatal, "{errno:?}");
        }
        for errno in [Errno::IO, Errno::NOSPC, Errno::NOMEM, Errno::AGAIN] {
            let failed = SyncFailure::wrap(errno.into());
            assert_eq!(FaultClass::of(&failed), FaultClass::Fatal, "a failed sync, {errno:?}");
            let is_full = SyncFailure::within(&failed).is_some_and(SyncFailure::is_full);
            assert_eq!(is_full, errno == Errno::NOSPC);
        }
    }
}
