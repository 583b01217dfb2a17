//! An answer that is there at once, or is not.

use crate::error::Error;

/// From where bytes may come: rows, packed shards and shard files alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Only from memory: for threads that must not wait.
    Cache,
    /// Wherever they are.
    Disk,
    /// From the device although they are in memory, and past the page cache: reads for verification, or to
    /// rebuild other shards. On a filesystem that does not support it, from memory or the device.
    Device,
}

/// Result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<T> {
    /// The answer.
    Immediate(T),
    /// The answer depends on state that is not durable yet, or would block: submit the operation instead, or
    /// read on a thread that may block.
    Pending,
}

impl<T> Lookup<T> {
    /// The answer of a lookup that was allowed to ask the disk.
    ///
    /// # Errors
    /// [`Error::Busy`] when it has no answer yet.
    pub fn or_busy(self) -> Result<T, Error> {
        match self {
            Self::Immediate(answer) => Ok(answer),
            Self::Pending => Err(Error::Busy),
        }
    }

    /// The same with another answer.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Self::Immediate(answer) => Lookup::Immediate(change(answer)),
            Self::Pending => Lookup::Pending,
        }
    }
}
