//! What a peer's volumes keep for upkeep, as numbered calls of a stream.
//!
//! Notes that a heal or a release is done have no answer and may be lost: they are made again. Upkeep and recovery
//! call these through [`UpkeepPeer`].

use bytes::Bytes;

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::{BucketId, VolumeId};
use sherd_core::message::{Answer, Error};
use sherd_core::register::Answerer;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::{Asker, Memory};
use sherd_core::register::seal::StoredSeals;
use sherd_core::release::{ReleaseEntry, ReleaseId};
use sherd_proto::convert::Wire;
use sherd_proto::convert::upkeep::UpkeepRequest;
use sherd_proto::v1::upkeep_call::Call;
use sherd_proto::v1::{Sender, UpkeepCall, UpkeepCalls, UpkeepReplies, UpkeepReply};

use super::GrpcPeer;
use super::calls::CallService;
use super::limits::{CallTime, PAGE_CALL, SMALL_CALL};
use super::reply::deliver;
use sherd_store::peer::{AnswerSender, Pending, UpkeepPeer};

/// The calls of [`UpkeepPeer`].
#[derive(Debug)]
pub(super) enum UpkeepCallService {}

/// A caller, by the kind of reply that it waits for.
#[derive(Debug)]
pub(super) enum UpkeepWaiter {
    Heals(AnswerSender<Vec<(HealId, Bytes)>>),
    Releases(AnswerSender<Vec<(ReleaseId, Bytes)>>),
    Done(AnswerSender<()>),
    Guarantees(AnswerSender<Answer<Guarantees>>),
    Memory(AnswerSender<Answer<Memory>>),
    Position(AnswerSender<Answerer>),
    Seals(AnswerSender<Answer<Vec<StoredSeals>>>),
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

    fn ends_when_dropped(call: &UpkeepCall) -> bool {
        call.call.as_ref().is_some_and(Call::ends_when_dropped)
    }

    fn frame(sender: Sender, calls: Vec<UpkeepCall>, dropped: Vec<u64>) -> UpkeepCalls {
        UpkeepCalls { sender: Some(sender), calls, dropped }
    }

    fn replies(frame: UpkeepReplies) -> Vec<UpkeepReply> {
        frame.replies
    }

    fn number(reply: &UpkeepReply) -> u64 {
        reply.number
    }

    fn answer(waiter: UpkeepWaiter, reply: Result<UpkeepReply, Error>) {
        let reply = reply.map(|reply| reply.reply);
        match waiter {
            UpkeepWaiter::Heals(to) => deliver(to, reply),
            UpkeepWaiter::Releases(to) => deliver(to, reply),
            UpkeepWaiter::Done(to) => deliver(to, reply),
            UpkeepWaiter::Guarantees(to) => deliver(to, reply),
            UpkeepWaiter::Memory(to) => deliver(to, reply),
            UpkeepWaiter::Position(to) => deliver(to, reply),
            UpkeepWaiter::Seals(to) => deliver(to, reply),
        }
    }

    fn is_dropped(waiter: &UpkeepWaiter) -> bool {
        match waiter {
            UpkeepWaiter::Heals(to) => to.is_closed(),
            UpkeepWaiter::Releases(to) => to.is_closed(),
            UpkeepWaiter::Done(to) => to.is_closed(),
            UpkeepWaiter::Guarantees(to) => to.is_closed(),
            UpkeepWaiter::Memory(to) => to.is_closed(),
            UpkeepWaiter::Position(to) => to.is_closed(),
            UpkeepWaiter::Seals(to) => to.is_closed(),
        }
    }
}

impl GrpcPeer {
    fn ask_upkeep<R>(
        &self,
        volume: VolumeId,
        time: CallTime,
        request: &UpkeepRequest,
        waiter: impl FnOnce(AnswerSender<R>) -> UpkeepWaiter,
    ) -> Pending<R> {
        let live = match self.link.calls() {
            Ok(live) => live,
            Err(error) => return Pending::ready(Err(error)),
        };
        let call = self.upkeep_call(volume, request);
        let name = call.call.as_ref().map_or("", Call::name);
        let (answering, pending) = self.waiting(volume, time.length, name);
        live.upkeep.submit(volume, call, time, waiter(answering));
        pending
    }

    fn tell_upkeep(&self, volume: VolumeId, request: &UpkeepRequest) {
        if let Ok(live) = self.link.calls() {
            live.upkeep.send(self.upkeep_call(volume, request));
        }
    }

    fn upkeep_call(&self, volume: VolumeId, request: &UpkeepRequest) -> UpkeepCall {
        let (to, call) = (Some(self.address(volume)), Some(request.to_wire()));
        UpkeepCall { number: 0, timeout_ms: 0, to, call }
    }
}

impl UpkeepPeer for GrpcPeer {
    fn heals(&self, volume: VolumeId, after: Option<HealId>, limit: usize) -> Pending<Vec<(HealId, Bytes)>> {
        let request = UpkeepRequest::Heals { after, limit };
        self.ask_upkeep(volume, PAGE_CALL, &request, UpkeepWaiter::Heals)
    }

    fn heal_put(&self, volume: VolumeId, entry: &HealEntry) -> Pending<()> {
        let request = UpkeepRequest::HealPut(entry.clone());
        self.ask_upkeep(volume, SMALL_CALL, &request, UpkeepWaiter::Done)
    }

    fn heal_done(&self, volume: VolumeId, id: HealId) {
        self.tell_upkeep(volume, &UpkeepRequest::HealDone(id));
    }

    fn releases(
        &self,
        volume: VolumeId,
        after: Option<ReleaseId>,
        limit: usize,
    ) -> Pending<Vec<(ReleaseId, Bytes)>> {
        let request = UpkeepRequest::Releases { after, limit };
        self.ask_upkeep(volume, PAGE_CALL, &request, UpkeepWaiter::Releases)
    }

    fn release_put(&self, volume: VolumeId, entry: &ReleaseEntry) {
        self.tell_upkeep(volume, &UpkeepRequest::ReleasePut(entry.clone()));
    }

    fn release_done(&self, volume: VolumeId, id: ReleaseId) {
        self.tell_upkeep(volume, &UpkeepRequest::ReleaseDone(id));
    }

    fn position(&self, volume: VolumeId) -> Pending<Answerer> {
        self.ask_upkeep(volume, SMALL_CALL, &UpkeepRequest::Position, UpkeepWaiter::Position)
    }

    fn seals(
        &self,
        volume: VolumeId,
        after: Option<BucketId>,
        limit: usize,
    ) -> Pending<Answer<Vec<StoredSeals>>> {
        let request = UpkeepRequest::Seals { after, limit };
        self.ask_upkeep(volume, PAGE_CALL, &request, UpkeepWaiter::Seals)
    }

    fn guarantees(&self, volume: VolumeId) -> Pending<Answer<Guarantees>> {
        self.ask_upkeep(volume, SMALL_CALL, &UpkeepRequest::Guarantees, UpkeepWaiter::Guarantees)
    }

    fn remembers(&self, volume: VolumeId, asker: Option<&Asker>) -> Pending<Answer<Memory>> {
        let request = UpkeepRequest::Remembers(asker.cloned());
        self.ask_upkeep(volume, SMALL_CALL, &request, UpkeepWaiter::Memory)
    }
}
