//! The ordered index: a checkpoint of the log, never the truth.
//!
//! Two implementations: an LSM tree on disk, and for tests (feature `testing`) an ordered map in memory
//! that forgets what was not flushed. The log's sequence is the index's own, so `persisted` says from where
//! the log must be replayed.

pub mod lsm;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod memory;
pub mod table;

use std::io::ErrorKind;

use bytes::Bytes;

use sherd_core::id::Sequence;

use crate::error::FaultClass;
use crate::lookup::Lookup;

/// An operation on the index failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IndexError {
    /// The index cannot be read or written. It is removed and rebuilt from the log.
    #[error("index damaged: {what}")]
    Damaged {
        /// The damage that was seen.
        what: String,
    },
    /// The system refused, and nothing says that the files are bad: too many are open, a device does not
    /// answer. It is tried again, and never removed for it.
    #[error("index unavailable: {what}")]
    Unavailable {
        /// The operation that was refused.
        what: String,
        /// Whether the device is at fault, or the process lacks something for the moment.
        class: FaultClass,
    },
    /// Space to write it is short. Nothing is lost: the next flush tries again.
    #[error("no space for the index")]
    Full,
    /// The caller broke the rules of [`Index::apply`]; nothing changed.
    #[error("index misused: {what}")]
    Misused {
        /// Rule that was broken.
        what: &'static str,
    },
}

impl IndexError {
    /// Meaning of the system's refusal for the index. A file that is missing or ends early is damage; other
    /// refusals are not.
    fn refused(op: &str, error: &std::io::Error) -> Self {
        let what = format!("{op}: {error}");
        match (FaultClass::of(error), error.kind()) {
            (FaultClass::Full, _) => Self::Full,
            (_, ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData) => {
                Self::Damaged { what }
            }
            (class, _) => Self::Unavailable { what, class },
        }
    }
}

/// One entry as a scan gives it: key and value.
pub type Pair = (Bytes, Bytes);

/// One change of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets a value.
    Put {
        /// The key, table prefix first.
        key: Bytes,
        /// The value.
        value: Bytes,
    },
    /// Removes a key; nothing happens when it is not there.
    Remove {
        /// The key, table prefix first.
        key: Bytes,
    },
}

impl Change {
    /// The key that changes.
    pub const fn key(&self) -> &Bytes {
        match self {
            Self::Put { key, .. } | Self::Remove { key } => key,
        }
    }
}

/// An ordered map from bytes to bytes.
pub trait Index: Send + Sync + std::fmt::Debug {
    /// Looks a key up.
    ///
    /// # Errors
    /// [`IndexError::Damaged`]; [`IndexError::Unavailable`].
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError>;

    /// As [`Index::get`], but waits for nothing: neither for the disk nor for a flush.
    ///
    /// # Errors
    /// As [`Index::get`].
    fn get_cached(&self, key: &[u8]) -> Result<Lookup<Option<Bytes>>, IndexError>;

    /// Walks `from..to` (`to` excluded; `None` is the end) in byte order, over a snapshot.
    fn scan<'a>(
        &'a self,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, IndexError>> + 'a>;

    /// Applies changes that the log holds up to `sequence`; visible on return, not durable. The
    /// last change of a key wins. Called from one thread, with sequences that rise. A sequence at or
    /// below what was persisted when the index was opened changes nothing: a replay may begin early.
    /// Keys have 1 to 65,535 bytes, the first below 0xff.
    ///
    /// # Errors
    /// [`IndexError::Damaged`]; [`IndexError::Unavailable`]; [`IndexError::Misused`].
    fn apply(&self, changes: Vec<Change>, sequence: Sequence) -> Result<(), IndexError>;

    /// The sequence up to which everything applied survives a crash.
    fn persisted(&self) -> Option<Sequence>;

    /// Bytes applied and not persisted. Waits for nothing.
    fn pending_bytes(&self) -> u64;

    /// Makes everything applied before the call durable. Takes its time; other calls go on.
    ///
    /// # Errors
    /// [`IndexError::Full`]; [`IndexError::Damaged`] or [`IndexError::Unavailable`] when it could not be
    /// read or written.
    fn flush(&self) -> Result<(), IndexError>;

    /// Merges files once, where that pays; whether it did. Takes its time; other calls go on, another merge
    /// of other files too.
    ///
    /// # Errors
    /// [`IndexError::Full`]; [`IndexError::Damaged`] or [`IndexError::Unavailable`] when it could not be
    /// read or written.
    fn compact(&self) -> Result<bool, IndexError>;

    /// Flushed files that no merge has touched: each may be asked by every lookup. May wait for a flush or a
    /// merge that writes to the disk.
    fn unmerged(&self) -> usize;
}

/// Sequences that an index has applied and those that it has made durable: one rule for both.
#[derive(Debug, Clone, Copy, Default)]
struct IndexProgress {
    /// The last durable sequence when the index was opened: batches up to here are in it already.
    opened_at: Option<Sequence>,
    last_applied: Option<Sequence>,
    persisted: Option<Sequence>,
}

impl IndexProgress {
    const fn opened_at(persisted: Option<Sequence>) -> Self {
        Self { opened_at: persisted, last_applied: persisted, persisted }
    }

    /// Judges a batch before it is applied; `false` when it is in the index already.
    fn begin(&self, sequence: Sequence) -> Result<bool, IndexError> {
        if self.opened_at.is_some_and(|opened_at| sequence <= opened_at) {
            return Ok(false);
        }
        match self.last_applied {
            Some(last) if sequence <= last => Err(IndexError::Misused { what: "the sequence does not rise" }),
            _ => Ok(true),
        }
    }

    const fn applied(&mut self, sequence: Sequence) {
        self.last_applied = Some(sequence);
    }

    const fn flushed(&mut self, sequence: Sequence) {
        self.persisted = Some(sequence);
    }

    const fn last_applied(&self) -> Option<Sequence> {
        self.last_applied
    }

    const fn persisted(&self) -> Option<Sequence> {
        self.persisted
    }
}

/// Keys that begin with this byte are the index's own.
const RESERVED: u8 = 0xff;

fn check_keys(changes: &[Change]) -> Result<(), IndexError> {
    for change in changes {
        let key = change.key();
        if key.len() > usize::from(u16::MAX) || key.first().is_none_or(|first| *first == RESERVED) {
            return Err(IndexError::Misused { what: "a key is empty, too long, or reserved" });
        }
    }
    Ok(())
}

/// Memory that an entry takes until it is flushed, about.
fn entry_bytes(change: &Change) -> u64 {
    const OVERHEAD_BYTES: u64 = 96;
    let value_bytes = match change {
        Change::Put { value, .. } => value.len(),
        Change::Remove { .. } => 0,
    };
    OVERHEAD_BYTES + change.key().len() as u64 + value_bytes as u64
}

#[cfg(test)]
mod tests;
