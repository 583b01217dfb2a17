//! An answer that is there at once, or is not.

use crate::error::Error;

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
