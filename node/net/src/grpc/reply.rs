//! Replies of the wire as answers of the seams. Used by the waiters of numbered calls and by transfers.

use sherd_core::message::Result;
use sherd_proto::convert::answer::{AnswerIn, ReplyMessage, answer};

use super::calls::unreachable;
use sherd_store::peer::AnswerSender;

/// Answers a call with its reply.
pub(super) fn deliver<R: ReplyMessage, A: AnswerIn<R>>(to: AnswerSender<A>, reply: Result<Option<R>>) {
    to.answer(reply.and_then(answered));
}

/// Reads a reply. From one that cannot be read it is not known whether the call was done.
pub(super) fn answered<R: ReplyMessage, A: AnswerIn<R>>(reply: Option<R>) -> Result<A> {
    answer(reply).unwrap_or_else(|error| Err(unreachable(format!("the peer's reply: {error}"))))
}
