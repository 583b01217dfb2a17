//! Answers of acceptors, and the replies that carry them.
//!
//! A reply is a failure of the call or one kind of answer. [`reply`] and [`answer`] take a result of a seam
//! to a reply and back; the seam's type says which kind it must be, so that a reply of another kind is
//! refused.

use bytes::Bytes;

use sherd_core::id::{BucketId, ChangeId, Life};
use sherd_core::message::{self, Answer, ListPage, LookPage, RowPage, ScannedRow};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::Memory;
use sherd_core::register::{Answerer, Refusal, Vote};

use super::{ConvertError, Wire, required};
use crate::v1;

/// The replies of one stream or call.
pub trait ReplyMessage: Sized {
    /// The reply that says that the call failed.
    fn of_failure(failure: v1::Failure) -> Self;

    /// Takes the failure out.
    ///
    /// # Errors
    /// The reply, when it is an answer.
    fn into_failure(self) -> Result<v1::Failure, Self>;
}

/// An answer that travels as one kind of such a reply.
pub trait AnswerIn<R: ReplyMessage>: Sized {
    /// The reply.
    fn to_reply(&self) -> R;

    /// The answer.
    ///
    /// # Errors
    /// [`ConvertError`] when the reply is of another kind, or names the field that is wrong.
    fn from_reply(reply: R) -> Result<Self, ConvertError>;
}

/// The reply for what a seam gave.
pub fn reply<R: ReplyMessage, A: AnswerIn<R>>(result: &message::Result<A>) -> R {
    match result {
        Ok(answer) => answer.to_reply(),
        Err(error) => R::of_failure(error.to_wire()),
    }
}

/// Converts a reply to the result that the seam gives its caller.
///
/// # Errors
/// [`ConvertError`] when the reply is missing, is of another kind, or has a wrong field.
pub fn answer<R: ReplyMessage, A: AnswerIn<R>>(reply: Option<R>) -> Result<message::Result<A>, ConvertError> {
    match required(reply, "reply")?.into_failure() {
        Ok(failure) => message::Error::from_wire(failure).map(Err),
        Err(reply) => A::from_reply(reply).map(Ok),
    }
}

/// Declares the replies of a stream, whose oneof has a `failure`.
macro_rules! reply_message {
    ($module:ident) => {
        impl super::answer::ReplyMessage for crate::v1::$module::Reply {
            fn of_failure(failure: crate::v1::Failure) -> Self {
                Self::Failure(failure)
            }

            fn into_failure(self) -> Result<crate::v1::Failure, Self> {
                match self {
                    Self::Failure(failure) => Ok(failure),
                    answer => Err(answer),
                }
            }
        }
    };
}

/// Declares which variant of a reply an answer travels as.
macro_rules! answer_in {
    ($module:ident: $($answer:ty => $variant:ident),*) => {
        $(impl super::answer::AnswerIn<crate::v1::$module::Reply> for $answer {
            fn to_reply(&self) -> crate::v1::$module::Reply {
                crate::v1::$module::Reply::$variant(self.to_wire())
            }

            fn from_reply(reply: crate::v1::$module::Reply) -> Result<Self, ConvertError> {
                match reply {
                    crate::v1::$module::Reply::$variant(message) => Self::from_wire(message),
                    _ => Err(ConvertError::missing(stringify!($variant))),
                }
            }
        })*
    };
}

pub(crate) use {answer_in, reply_message};

impl Wire for () {
    type Message = v1::Empty;

    fn to_wire(&self) -> v1::Empty {
        v1::Empty {}
    }

    fn from_wire(v1::Empty {}: v1::Empty) -> Result<Self, ConvertError> {
        Ok(())
    }
}

/// Bytes without a hash in the message: the caller verifies them.
impl Wire for Bytes {
    type Message = Self;

    fn to_wire(&self) -> Self {
        self.clone()
    }

    fn from_wire(message: Self) -> Result<Self, ConvertError> {
        Ok(message)
    }
}

impl Wire for Life {
    type Message = u32;

    fn to_wire(&self) -> u32 {
        self.0
    }

    fn from_wire(message: u32) -> Result<Self, ConvertError> {
        Ok(Self(message))
    }
}

/// Declares how an acceptor's answer travels: who says it, and a refusal or what was asked for.
macro_rules! answers {
    ($($inner:ty => $message:ident, $module:ident, $variant:ident;)*) => {
        $(impl Wire for Answer<$inner> {
            type Message = v1::$message;

            fn to_wire(&self) -> v1::$message {
                let Self { from, result } = self;
                let result = match result {
                    Ok(inner) => v1::$module::Result::$variant(inner.to_wire()),
                    Err(refusal) => v1::$module::Result::Refused(refusal.to_wire()),
                };
                v1::$message { from: Some(from.to_wire()), result: Some(result) }
            }

            fn from_wire(message: v1::$message) -> Result<Self, ConvertError> {
                let v1::$message { from, result } = message;
                let result = match required(result, stringify!($variant))? {
                    v1::$module::Result::$variant(inner) => Ok(<$inner>::from_wire(inner)?),
                    v1::$module::Result::Refused(refusal) => Err(Refusal::from_wire(refusal)?),
                };
                Ok(Self { from: answerer(from)?, result })
            }
        })*
    };
}

answers! {
    Vote => VoteAnswer, vote_answer, Vote;
    ListPage => ListAnswer, list_answer, Page;
    Vec<ScannedRow> => PartsAnswer, parts_answer, Rows;
    RowPage => RowsAnswer, rows_answer, Page;
    LookPage => LookAnswer, look_answer, Page;
    Guarantees => GuaranteesAnswer, guarantees_answer, Guarantees;
    Memory => MemoryAnswer, memory_answer, Memory;
    Vec<(BucketId, Vec<ChangeId>)> => SealsAnswer, seals_answer, Seals;
}

impl Wire for Answer<()> {
    type Message = v1::DoneAnswer;

    fn to_wire(&self) -> v1::DoneAnswer {
        let Self { from, result } = self;
        v1::DoneAnswer { from: Some(from.to_wire()), refused: result.as_ref().err().map(Wire::to_wire) }
    }

    fn from_wire(message: v1::DoneAnswer) -> Result<Self, ConvertError> {
        let v1::DoneAnswer { from, refused } = message;
        let result = match refused {
            None => Ok(()),
            Some(refusal) => Err(Refusal::from_wire(refusal)?),
        };
        Ok(Self { from: answerer(from)?, result })
    }
}

fn answerer(from: Option<v1::Answerer>) -> Result<Answerer, ConvertError> {
    Answerer::from_wire(required(from, "answerer")?)
}
