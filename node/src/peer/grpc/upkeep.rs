//! What a peer's volumes keep for upkeep, as numbered calls of a stream.

use std::time::Duration;

use bytes::Bytes;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::VolumeId;
use sherd_core::message::{Answer, Error};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::Memory;
use sherd_core::release::{ReleaseEntry, ReleaseId};
use sherd_proto::convert::Wire;
use sherd_proto::v1::upkeep_call::{Call, EntryPage};
use sherd_proto::v1::upkeep_reply::Reply;
use sherd_proto::v1::{Empty, Sender, UpkeepCall, UpkeepCalls, UpkeepReplies, UpkeepReply};

use super::calls::{CallService, unreachable};
use super::limits::{PAGE_CALL_MAX, SMALL_CALL_MAX};
use super::registers::deliver;
use super::{GrpcPeer, failed, wire_limit};
use crate::peer::{AnswerSender, Pending, UpkeepPeer};

/// The calls of [`UpkeepPeer`].
#[derive(Debug)]
pub(super) enum UpkeepCallService {}

/// Who waits for which kind of reply.
#[derive(Debug)]
pub(super) enum UpkeepWaiter {
    Heals(AnswerSender<Vec<(HealId, Bytes)>>),
    Releases(AnswerSender<Vec<(ReleaseId, Bytes)>>),
    Done(AnswerSender<()>),
    Guarantees(AnswerSender<Answer<Guarantees>>),
    Memory(AnswerSender<Answer<Memory>>),
}

impl CallService for UpkeepCallService {
    type Call = UpkeepCall;
    type Frame = UpkeepCalls;
    type Reply = UpkeepReply;
    type Replies = UpkeepReplies;
    type Waiter = UpkeepWaiter;

    fn stamp(call: &mut UpkeepCall, number: u64, timeout_ms: u32) {
        (call.number, call.timeout_ms) = (number, timeout_ms);
    }

    fn frame(sender: Sender, calls: Vec<UpkeepCall>) -> UpkeepCalls {
        UpkeepCalls { sender: Some(sender), calls }
    }

    fn replies(frame: UpkeepReplies) -> Vec<UpkeepReply> {
        frame.replies
    }

    fn number(reply: &UpkeepReply) -> u64 {
        reply.number
    }

    fn answer(waiter: UpkeepWaiter, reply: Result<UpkeepReply, Error>) {
        let reply = reply.and_then(|reply| match reply.reply {
            Some(Reply::Failure(failure)) => Err(failed(failure)),
            Some(reply) => Ok(reply),
            None => Err(unreachable("the peer's reply is empty")),
        });
        match (waiter, reply) {
            (UpkeepWaiter::Heals(to), Ok(Reply::Entries(page))) => deliver(to, page),
            (UpkeepWaiter::Releases(to), Ok(Reply::Entries(page))) => deliver(to, page),
            (UpkeepWaiter::Done(to), Ok(Reply::Done(_))) => to.answer(Ok(())),
            (UpkeepWaiter::Guarantees(to), Ok(Reply::Guarantees(answer))) => deliver(to, answer),
            (UpkeepWaiter::Memory(to), Ok(Reply::Memory(answer))) => deliver(to, answer),
            (waiter, Ok(_)) => waiter.fail(unreachable("the peer answers another call than was asked")),
            (waiter, Err(error)) => waiter.fail(error),
        }
    }
}

impl UpkeepWaiter {
    fn fail(self, error: Error) {
        match self {
            Self::Heals(to) => to.answer(Err(error)),
            Self::Releases(to) => to.answer(Err(error)),
            Self::Done(to) => to.answer(Err(error)),
            Self::Guarantees(to) => to.answer(Err(error)),
            Self::Memory(to) => to.answer(Err(error)),
        }
    }
}

impl GrpcPeer {
    fn ask_upkeep<R>(
        &self,
        volume: VolumeId,
        timeout: Duration,
        call: Call,
        waiter: impl FnOnce(AnswerSender<R>) -> UpkeepWaiter,
    ) -> Pending<R> {
        let live = match self.link.calls() {
            Ok(live) => live,
            Err(error) => return Pending::ready(Err(error)),
        };
        let (answering, pending) = Pending::waiting();
        live.upkeep.submit(self.upkeep_call(volume, call), timeout, waiter(answering));
        pending
    }

    fn tell_upkeep(&self, volume: VolumeId, call: Call) {
        if let Ok(live) = self.link.calls() {
            live.upkeep.send(self.upkeep_call(volume, call));
        }
    }

    fn upkeep_call(&self, volume: VolumeId, call: Call) -> UpkeepCall {
        UpkeepCall { number: 0, timeout_ms: 0, to: Some(self.address(volume)), call: Some(call) }
    }
}

impl UpkeepPeer for GrpcPeer {
    fn heals(
        &self,
        volume: VolumeId,
        after: Option<HealId>,
        limit: usize,
    ) -> Pending<Vec<(HealId, Bytes)>> {
        let page = EntryPage { after: after.as_ref().map(Wire::to_wire), limit: wire_limit(limit) };
        self.ask_upkeep(volume, PAGE_CALL_MAX, Call::Heals(page), UpkeepWaiter::Heals)
    }

    fn heal_put(&self, volume: VolumeId, entry: &HealEntry) -> Pending<()> {
        let call = Call::HealPut(entry.encode());
        self.ask_upkeep(volume, SMALL_CALL_MAX, call, UpkeepWaiter::Done)
    }

    fn heal_done(&self, volume: VolumeId, id: HealId) {
        self.tell_upkeep(volume, Call::HealDone(id.to_wire()));
    }

    fn releases(
        &self,
        volume: VolumeId,
        after: Option<ReleaseId>,
        limit: usize,
    ) -> Pending<Vec<(ReleaseId, Bytes)>> {
        let page = EntryPage { after: after.as_ref().map(Wire::to_wire), limit: wire_limit(limit) };
        self.ask_upkeep(volume, PAGE_CALL_MAX, Call::Releases(page), UpkeepWaiter::Releases)
    }

    fn release_put(&self, volume: VolumeId, entry: &ReleaseEntry) {
        self.tell_upkeep(volume, Call::ReleasePut(entry.encode()));
    }

    fn release_done(&self, volume: VolumeId, id: ReleaseId) {
        self.tell_upkeep(volume, Call::ReleaseDone(id.to_wire()));
    }

    fn guarantees(&self, volume: VolumeId) -> Pending<Answer<Guarantees>> {
        self.ask_upkeep(volume, SMALL_CALL_MAX, Call::Guarantees(Empty {}), UpkeepWaiter::Guarantees)
    }

    fn remembers(&self, volume: VolumeId) -> Pending<Answer<Memory>> {
        self.ask_upkeep(volume, SMALL_CALL_MAX, Call::Remembers(Empty {}), UpkeepWaiter::Memory)
    }
}
