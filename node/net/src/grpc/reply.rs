//! Replies of the wire as answers of the seam. Used by the numbered calls and by transfers.

use sherd_core::message::{Error, Result};
use sherd_proto::convert::ConvertError;
use sherd_proto::convert::answer::{AnswerIn, ReplyMessage, answer};

pub(super) fn answered<R: ReplyMessage, A: AnswerIn<R>>(reply: Option<R>) -> Result<A> {
    readable(answer(reply))
}

/// From a reply that cannot be read it is not known whether the call was done.
pub(super) fn readable<A>(read: Result<Result<A>, ConvertError>) -> Result<A> {
    read.unwrap_or_else(|error| Err(unreachable(format!("the peer's reply: {error}"))))
}

/// Makes the error of a call with an unknown outcome.
pub(super) fn unreachable(reason: impl Into<String>) -> Error {
    Error::Unreachable { reason: reason.into() }
}
