//! An answer that is there at once, or is not.

use crate::error::Error;

/// From where bytes may come: rows, packed shards and shard files alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Only from memory: for threads that must not wait.
    Cache,
    /// Wherever they are.
    Disk,
    /// From the device although they are in memory, and into nobody's page cache: what is read to be
    /// verified, or to rebuild something else. From wherever they are on a filesystem that cannot.
    Device,
}

/// What a lookup came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<T> {
    /// The answer.
    Immediate(T),
    /// It depends on what is not durable yet, or would block: submit the operation instead, or read
    /// on a thread that may block.
    Pending,
}

impl<T> Lookup<T> {
    /// The answer of a lookup that was allowed to ask the disk.
    ///
    /// # Errors
    /// [`Error::Busy`] when there is none.
    pub fn told(self) -> Result<T, Error> {
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
