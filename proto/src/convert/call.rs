//! The three streams of numbered calls, each as the calls and answers of core that it carries.
//!
//! ```text
//! VolumeCall -> call (number, timeout, address) -> frame      reply (number) -> frame -> VolumeAnswer
//! ```
//! The streams differ in their messages alone, so one client and one service of the node carry all of them.
//! The bounds of a frame are checked where it is read ([`super::check_frame`]).

use std::fmt::Debug;

use prost::Message;

use sherd_core::message::call::{AnswerKind, RegisterCall, ShardCall, UpkeepCall, VolumeAnswer, VolumeCall};
use sherd_core::message::{self, Error};

use super::answer::ReplyMessage;
use super::{ConvertError, Wire, required};
use crate::v1::{self, Addressed, Failure, Sender};

/// The messages of one stream of numbered calls.
pub trait NumberedCalls: Debug + Send + Sync + Unpin + 'static {
    /// The calls that it carries.
    type Request: Debug;
    /// One call.
    type Call: Message + Default;
    /// A frame of calls.
    type Calls: Message + Default + 'static;
    /// One reply.
    type Reply: Message + Default + Unpin;
    /// A frame of replies.
    type Replies: Message + Default + 'static;

    /// A call that has no number yet.
    fn call(to: Addressed, request: &Self::Request) -> Self::Call;
    /// Numbers a call, and says how long its caller waits.
    fn stamp(call: &mut Self::Call, number: u64, timeout_ms: u32);
    /// Takes the header off a call; its body stays.
    fn take_header(call: &mut Self::Call) -> CallHeader;
    /// Bytes of the values in the body of a call.
    fn value_bytes(call: &Self::Call) -> usize;
    /// Reads the body of a call: decodes its values and hashes their inline bytes.
    ///
    /// # Errors
    /// [`ConvertError`] names the field that is wrong.
    fn read(call: Self::Call) -> Result<VolumeCall, ConvertError>;
    /// Puts calls into a frame, and the numbers of earlier ones that were dropped.
    fn frame(sender: Sender, calls: Vec<Self::Call>, dropped: Vec<u64>) -> Self::Calls;
    /// Takes a frame of calls apart.
    fn received_frame(frame: Self::Calls) -> (Option<Sender>, Vec<Self::Call>, Vec<u64>);

    /// The reply that carries an answer.
    fn reply(number: u64, result: &message::Result<VolumeAnswer>) -> Self::Reply;
    /// The reply that says that a call failed.
    fn failed(number: u64, failure: Failure) -> Self::Reply;
    /// Whether a reply is a failure.
    fn is_failure(reply: &Self::Reply) -> bool;
    /// The vote of a reply, where it carries one.
    fn vote(reply: &mut Self::Reply) -> Option<&mut v1::VoteAnswer>;
    /// The number of the call that a reply answers.
    fn number(reply: &Self::Reply) -> u64;
    /// The answer of this kind that a reply carries.
    ///
    /// # Errors
    /// [`ConvertError`] when the answer is missing, of another kind, or wrong in a field.
    fn answer(reply: Self::Reply, kind: AnswerKind) -> Result<message::Result<VolumeAnswer>, ConvertError>;
    /// Puts replies into a frame.
    fn replies(replies: Vec<Self::Reply>) -> Self::Replies;
    /// Takes a frame of replies apart.
    fn received_replies(frame: Self::Replies) -> Vec<Self::Reply>;
}

/// The header of a call.
#[derive(Debug)]
pub struct CallHeader {
    /// 0 where it has no reply.
    pub number: u64,
    /// How many milliseconds its caller waits.
    pub timeout_ms: u32,
    /// Address of the called volume.
    pub to: Option<Addressed>,
}

/// A oneof of replies that carries answers of calls.
pub(crate) trait AnswerReply: ReplyMessage {
    /// The reply; `None` where no reply carries such an answer.
    fn of_answer(answer: &VolumeAnswer) -> Option<Self>;

    /// The answer of this kind.
    fn into_answer(self, kind: AnswerKind) -> Result<VolumeAnswer, ConvertError>;
}

/// Declares which variant of a stream's reply each kind of answer travels as.
macro_rules! call_answers_in {
    ($module:ident: $($kind:ident($answer:ty) => $variant:ident),*) => {
        super::answer::reply_message!($module);
        super::answer::answer_in!($module: $($answer => $variant),*);

        impl super::call::AnswerReply for crate::v1::$module::Reply {
            fn of_answer(answer: &VolumeAnswer) -> Option<Self> {
                match answer {
                    $(VolumeAnswer::$kind(answer) => Some(super::answer::AnswerIn::to_reply(answer)),)*
                    _ => None,
                }
            }

            fn into_answer(self, kind: AnswerKind) -> Result<VolumeAnswer, ConvertError> {
                match kind {
                    $(AnswerKind::$kind => {
                        <$answer as super::answer::AnswerIn<Self>>::from_reply(self).map(VolumeAnswer::$kind)
                    })*
                    _ => Err(ConvertError::missing("answer")),
                }
            }
        }
    };
}

pub(crate) use call_answers_in;

fn reply_of<R: AnswerReply>(result: &message::Result<VolumeAnswer>) -> R {
    let failed = |error: &Error| R::of_failure(error.to_wire());
    match result {
        Ok(answer) => R::of_answer(answer).unwrap_or_else(|| {
            let reason = format!("no reply carries {:?}", answer.kind());
            failed(&Error::Unreachable { reason })
        }),
        Err(error) => failed(error),
    }
}

fn answer_of<R: AnswerReply>(
    reply: Option<R>,
    kind: AnswerKind,
) -> Result<message::Result<VolumeAnswer>, ConvertError> {
    match required(reply, "reply")?.into_failure() {
        Ok(failure) => Error::from_wire(failure).map(Err),
        Err(reply) => reply.into_answer(kind).map(Ok),
    }
}

/// Declares the streams: what each carries, and its messages.
macro_rules! numbered_calls {
    ($(
        $(#[$doc:meta])*
        $stream:ident: $request:ident, $call:ident, $calls:ident, $reply:ident, $replies:ident, $oneof:ident,
            $vote:pat => $votes:expr, $value_bytes:expr;
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $stream {}

            impl NumberedCalls for $stream {
                type Request = $request;
                type Call = v1::$call;
                type Calls = v1::$calls;
                type Reply = v1::$reply;
                type Replies = v1::$replies;

                fn call(to: Addressed, request: &$request) -> v1::$call {
                    v1::$call { number: 0, timeout_ms: 0, to: Some(to), call: Some(request.to_wire()) }
                }

                fn stamp(call: &mut v1::$call, number: u64, timeout_ms: u32) {
                    (call.number, call.timeout_ms) = (number, timeout_ms);
                }

                fn take_header(call: &mut v1::$call) -> CallHeader {
                    CallHeader { number: call.number, timeout_ms: call.timeout_ms, to: call.to.take() }
                }

                fn value_bytes(call: &v1::$call) -> usize {
                    call.call.as_ref().map_or(0, $value_bytes)
                }

                fn read(call: v1::$call) -> Result<VolumeCall, ConvertError> {
                    required(call.call, "call").and_then($request::from_wire).map(VolumeCall::from)
                }

                fn frame(sender: Sender, calls: Vec<v1::$call>, dropped: Vec<u64>) -> v1::$calls {
                    v1::$calls { sender: Some(sender), calls, dropped }
                }

                fn received_frame(frame: v1::$calls) -> (Option<Sender>, Vec<v1::$call>, Vec<u64>) {
                    let v1::$calls { sender, calls, dropped } = frame;
                    (sender, calls, dropped)
                }

                fn reply(number: u64, result: &message::Result<VolumeAnswer>) -> v1::$reply {
                    v1::$reply { number, reply: Some(reply_of(result)) }
                }

                fn failed(number: u64, failure: Failure) -> v1::$reply {
                    v1::$reply { number, reply: Some(ReplyMessage::of_failure(failure)) }
                }

                fn is_failure(reply: &v1::$reply) -> bool {
                    matches!(reply.reply, Some(v1::$oneof::Reply::Failure(_)))
                }

                fn vote(reply: &mut v1::$reply) -> Option<&mut v1::VoteAnswer> {
                    match &mut reply.reply {
                        $vote => $votes,
                        _ => None,
                    }
                }

                fn number(reply: &v1::$reply) -> u64 {
                    reply.number
                }

                fn answer(
                    reply: v1::$reply,
                    kind: AnswerKind,
                ) -> Result<message::Result<VolumeAnswer>, ConvertError> {
                    answer_of(reply.reply, kind)
                }

                fn replies(replies: Vec<v1::$reply>) -> v1::$replies {
                    v1::$replies { replies }
                }

                fn received_replies(frame: v1::$replies) -> Vec<v1::$reply> {
                    frame.replies
                }
            }
        )*
    };
}

/// Bytes of the values that a call carries, as they came.
fn value_bytes(call: &v1::register_call::Call) -> usize {
    use v1::register_call::Call;
    let bytes =
        |value: &Option<v1::Value>| value.as_ref().map_or(0, |value| value.head.len() + value.inline.len());
    match call {
        Call::Accept(accept) => bytes(&accept.value),
        Call::Pull(pull) => bytes(&pull.value),
        Call::Adopt(adopt) => adopt.rows.iter().map(|row| bytes(&row.value)).sum(),
        _ => 0,
    }
}

numbered_calls! {
    /// Calls of registers.
    RegisterStream: RegisterCall, RegisterCall, RegisterCalls, RegisterReply, RegisterReplies, register_reply,
        Some(v1::register_reply::Reply::Vote(vote)) => Some(vote), value_bytes;
    /// Calls of shards, but for their bytes.
    ShardStream: ShardCall, ShardCall, ShardCalls, ShardReply, ShardReplies, shard_reply,
        None => None, |_| 0;
    /// Calls of what volumes keep for upkeep.
    UpkeepStream: UpkeepCall, UpkeepCall, UpkeepCalls, UpkeepReply, UpkeepReplies, upkeep_reply,
        None => None, |_| 0;
}
