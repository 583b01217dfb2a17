//! The ordered index: a checkpoint of the log, never the truth.
//!
//! Two real implementations: an LSM tree on disk, and an ordered map in memory for the simulator
//! and the crash tests. The log's sequence is the index's own, so `persisted` says from where the
//! log must be replayed.

use bytes::Bytes;

use sherd_core::id::Sequence;

/// The index could not be read or written. It can always be rebuilt from the log.
#[derive(Debug, Clone, thiserror::Error)]
#[error("index: {what}")]
pub struct IndexError {
    /// What happened.
    pub what: String,
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

/// An ordered map from bytes to bytes.
pub trait Index: Send + Sync + std::fmt::Debug {
    /// Looks a key up.
    ///
    /// # Errors
    /// [`IndexError`] when the index is damaged.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError>;

    /// Walks `from..to` (`to` excluded; `None` is the end) in byte order, over a snapshot.
    fn scan<'a>(
        &'a self,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Box<dyn Iterator<Item = Result<Pair, IndexError>> + 'a>;

    /// Applies changes that the log holds up to `sequence`; visible on return, not durable.
    /// Called from one thread, with sequences that never fall.
    ///
    /// # Errors
    /// [`IndexError`] when the index is damaged.
    fn apply(&self, changes: Vec<Change>, sequence: Sequence) -> Result<(), IndexError>;

    /// The sequence up to which everything applied survives a crash.
    fn persisted(&self) -> Option<Sequence>;

    /// Bytes applied and not persisted.
    fn pending_bytes(&self) -> u64;

    /// Makes everything applied before the call durable. Takes its time; other calls go on.
    ///
    /// # Errors
    /// [`IndexError`] when it could not be written.
    fn flush(&self) -> Result<(), IndexError>;

    /// Merges files where that pays. Takes its time; other calls go on.
    ///
    /// # Errors
    /// [`IndexError`] when it could not be written.
    fn compact(&self) -> Result<(), IndexError>;
}
