//! Between the messages of the wire and the values of core: the only place where one becomes the other.
//!
//! Each message is checked once, here: ids have their length, numbers their range, lists and texts their
//! limits, a row's value its digest, inline bytes the hash that the value names, a target the slot of its
//! key. So a volume or a quorum can take a converted value as if this process had made it. Nothing panics on
//! any message. The clients of `peer` and the services of `rpc` call this.

#![deny(clippy::indexing_slicing)]

pub mod admin;
pub mod answer;
pub mod call;
pub mod control;
pub mod http_call;
pub mod page;
pub mod register;
pub mod shard;
pub mod upkeep;
pub mod value;

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test that indexes past an end has failed")]
mod tests;

use std::time::Duration;

use bytes::Bytes;

use sherd_core::codec::DecodeError;

use crate::limits::{FRAME_CALLS_MAX, PAGE_ROWS_MAX, REASON_BYTES_MAX, TIMEOUT_MS_MAX};

/// A value of core that travels.
pub trait Wire: Sized {
    /// As what it travels.
    type Message;

    /// The message. Long bytes are shared, not copied.
    fn to_wire(&self) -> Self::Message;

    /// The value, checked.
    ///
    /// # Errors
    /// [`ConvertError`] names the field and what is wrong with it.
    fn from_wire(message: Self::Message) -> Result<Self, ConvertError>;
}

/// A message that does not convert: the node that sent it is broken, or speaks another version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct ConvertError {
    /// Name of the field.
    pub field: &'static str,
    /// Fault of the field.
    pub fault: FieldFault,
}

/// The fault of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldFault {
    /// Absent, or of a kind that this version does not have.
    #[error("missing")]
    Missing,
    /// Not of the form that it must have.
    #[error("malformed")]
    Malformed,
    /// Not of the length that it must have.
    #[error("{bytes} bytes instead of {expected}")]
    Length {
        /// How many it has.
        bytes: usize,
        /// How many it must have.
        expected: usize,
    },
    /// The number lies outside the field's range.
    #[error("{number} is out of range")]
    Range {
        /// The number.
        number: u64,
    },
    /// The bytes do not have the hash that they are sent under.
    #[error("the bytes have another digest")]
    Digest,
    /// The bytes are not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// More than is taken.
    #[error("{count} where {max} is the limit")]
    OverLimit {
        /// How many bytes or members.
        count: usize,
        /// How many are taken.
        max: usize,
    },
    /// The bytes do not decode as a stored form of core's.
    #[error(transparent)]
    Undecodable(#[from] DecodeError),
}

impl ConvertError {
    pub(crate) const fn missing(field: &'static str) -> Self {
        Self { field, fault: FieldFault::Missing }
    }

    pub(crate) fn range(field: &'static str, number: impl Into<u64>) -> Self {
        Self { field, fault: FieldFault::Range { number: number.into() } }
    }
}

/// Takes a field that must be there.
pub(crate) fn required<T>(field: Option<T>, name: &'static str) -> Result<T, ConvertError> {
    field.ok_or(ConvertError::missing(name))
}

/// Takes bytes of a fixed number.
pub(crate) fn array<const N: usize>(bytes: &Bytes, field: &'static str) -> Result<[u8; N], ConvertError> {
    let length = FieldFault::Length { bytes: bytes.len(), expected: N };
    bytes.as_ref().try_into().map_err(|_| ConvertError { field, fault: length })
}

/// Refuses more bytes or members than a limit.
pub(crate) const fn at_most(count: usize, max: usize, field: &'static str) -> Result<(), ConvertError> {
    if count <= max {
        Ok(())
    } else {
        Err(ConvertError { field, fault: FieldFault::OverLimit { count, max } })
    }
}

pub(crate) fn list_to_wire<T: Wire>(values: &[T]) -> Vec<T::Message> {
    values.iter().map(Wire::to_wire).collect()
}

/// The values of at most `max` messages.
pub(crate) fn list_from_wire<T: Wire>(
    messages: Vec<T::Message>,
    max: usize,
    field: &'static str,
) -> Result<Vec<T>, ConvertError> {
    at_most(messages.len(), max, field)?;
    messages.into_iter().map(T::from_wire).collect()
}

/// A number of rows to ask for.
pub(crate) fn limit_to_wire(limit: usize) -> u32 {
    u32::try_from(limit.min(PAGE_ROWS_MAX)).expect("a page has few rows")
}

/// A number of rows that are asked for, at most a page.
pub(crate) fn limit_from_wire(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX).min(PAGE_ROWS_MAX)
}

/// A text that says why, cut behind its limit.
pub(crate) fn reason(text: &str) -> String {
    let end = text.floor_char_boundary(REASON_BYTES_MAX);
    text.get(..end).unwrap_or_default().to_owned()
}

/// How long a caller waits, in whole milliseconds. At least one: 0 is what a message without the field has.
pub fn timeout_to_wire(left: Duration) -> u32 {
    u32::try_from(left.as_millis()).unwrap_or(u32::MAX).clamp(1, TIMEOUT_MS_MAX)
}

/// How long a caller waits, at most the limit.
///
/// # Errors
/// [`ConvertError`] when no time is given.
pub fn timeout_from_wire(timeout_ms: u32) -> Result<Duration, ConvertError> {
    match timeout_ms {
        0 => Err(ConvertError::missing("timeout")),
        ms => Ok(Duration::from_millis(u64::from(ms.min(TIMEOUT_MS_MAX)))),
    }
}

/// Refuses a frame with more calls or replies than one holds.
///
/// # Errors
/// [`ConvertError`] with the number.
pub const fn check_frame(calls: usize) -> Result<(), ConvertError> {
    at_most(calls, FRAME_CALLS_MAX, "frame")
}
