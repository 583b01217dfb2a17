//! The numbered calls of [`sherd_store::peer::ShardPeer`], and their waiting callers. Made by [`super::shards`].

use sherd_core::message::{Error, LeaseAnswer, ShardPage};
use sherd_proto::v1::shard_call::Call;
use sherd_proto::v1::{Sender, ShardCall, ShardCalls, ShardReplies, ShardReply};

use super::calls::CallService;
use super::reply::deliver;
use sherd_store::peer::AnswerSender;

/// The small calls of shards.
#[derive(Debug)]
pub(super) enum ShardCallService {}

/// A caller, by the kind of reply that it waits for.
#[derive(Debug)]
pub(super) enum ShardWaiter {
    Done(AnswerSender<()>),
    Bytes(AnswerSender<u64>),
    Page(AnswerSender<ShardPage>),
    Released(AnswerSender<bool>),
    Leases(AnswerSender<LeaseAnswer>),
}

impl CallService for ShardCallService {
    type Call = ShardCall;
    type Frame = ShardCalls;
    type Reply = ShardReply;
    type Replies = ShardReplies;
    type Waiter = ShardWaiter;

    fn stamp(call: &mut ShardCall, number: u64, timeout_ms: u32) {
        (call.number, call.timeout_ms) = (number, timeout_ms);
    }

    fn ends_when_dropped(call: &ShardCall) -> bool {
        call.call.as_ref().is_some_and(Call::ends_when_dropped)
    }

    fn frame(sender: Sender, calls: Vec<ShardCall>, dropped: Vec<u64>) -> ShardCalls {
        ShardCalls { sender: Some(sender), calls, dropped }
    }

    fn replies(frame: ShardReplies) -> Vec<ShardReply> {
        frame.replies
    }

    fn number(reply: &ShardReply) -> u64 {
        reply.number
    }

    fn answer(waiter: ShardWaiter, reply: Result<ShardReply, Error>) {
        let reply = reply.map(|reply| reply.reply);
        match waiter {
            ShardWaiter::Done(to) => deliver(to, reply),
            ShardWaiter::Bytes(to) => deliver(to, reply),
            ShardWaiter::Page(to) => deliver(to, reply),
            ShardWaiter::Released(to) => deliver(to, reply),
            ShardWaiter::Leases(to) => deliver(to, reply),
        }
    }

    fn is_dropped(waiter: &ShardWaiter) -> bool {
        match waiter {
            ShardWaiter::Done(to) => to.is_closed(),
            ShardWaiter::Bytes(to) => to.is_closed(),
            ShardWaiter::Page(to) => to.is_closed(),
            ShardWaiter::Released(to) => to.is_closed(),
            ShardWaiter::Leases(to) => to.is_closed(),
        }
    }
}
