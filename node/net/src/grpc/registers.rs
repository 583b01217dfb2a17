//! Registers of a peer's volumes: each call of the seam as one numbered call of the stream.
//!
//! Each call has the deadline of its kind. A commit has no answer and follows its accept in the same queue, so it
//! never overtakes it. Register rounds, listings and recovery call these through [`RegisterPeer`].

use bytes::Bytes;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, RegisterKey, VolumeId};
use sherd_core::message::{
    AdoptedRow, Answer, Control, Error, ListPage, ListScan, PartsScan, RowPage, RowScan, ScannedRow, Target,
    UnsettledKind, UnsettledPage, ValueLimit,
};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{Accept, CommitHint, Prepare, Vote};
use sherd_proto::convert::Wire;
use sherd_proto::convert::register::{RegisterRequest, accept_to_wire, commit_to_wire, read_to_wire};
use sherd_proto::v1::register_call::{self, Call};
use sherd_proto::v1::{RegisterCall, RegisterCalls, RegisterReplies, RegisterReply, Sender};

use super::GrpcPeer;
use super::calls::CallService;
use super::limits::{CallTime, LIST_CALL, LONG_CALL, PAGE_CALL, SMALL_CALL};
use super::reply::deliver;
use sherd_store::peer::{AnswerSender, Pending, RegisterPeer};

/// The calls of [`RegisterPeer`].
#[derive(Debug)]
pub(super) enum RegisterCallService {}

/// A caller, by the kind of reply that it waits for.
#[derive(Debug)]
pub(super) enum RegisterWaiter {
    Vote(AnswerSender<Answer<Vote>>),
    Done(AnswerSender<Answer<()>>),
    Inline(AnswerSender<Bytes>),
    Verified(AnswerSender<()>),
    List(AnswerSender<Answer<ListPage>>),
    Parts(AnswerSender<Answer<Vec<ScannedRow>>>),
    Rows(AnswerSender<Answer<RowPage>>),
    Unsettled(AnswerSender<UnsettledPage>),
    Guarantees(AnswerSender<Answer<Guarantees>>),
}

impl CallService for RegisterCallService {
    type Call = RegisterCall;
    type Frame = RegisterCalls;
    type Reply = RegisterReply;
    type Replies = RegisterReplies;
    type Waiter = RegisterWaiter;

    fn stamp(call: &mut RegisterCall, number: u64, timeout_ms: u32) {
        (call.number, call.timeout_ms) = (number, timeout_ms);
    }

    fn ends_when_dropped(call: &RegisterCall) -> bool {
        call.call.as_ref().is_some_and(Call::ends_when_dropped)
    }

    fn frame(sender: Sender, calls: Vec<RegisterCall>, dropped: Vec<u64>) -> RegisterCalls {
        RegisterCalls { sender: Some(sender), calls, dropped }
    }

    fn replies(frame: RegisterReplies) -> Vec<RegisterReply> {
        frame.replies
    }

    fn number(reply: &RegisterReply) -> u64 {
        reply.number
    }

    fn answer(waiter: RegisterWaiter, reply: Result<RegisterReply, Error>) {
        let reply = reply.map(|reply| reply.reply);
        match waiter {
            RegisterWaiter::Vote(to) => deliver(to, reply),
            RegisterWaiter::Done(to) => deliver(to, reply),
            RegisterWaiter::Inline(to) => deliver(to, reply),
            RegisterWaiter::Verified(to) => deliver(to, reply),
            RegisterWaiter::List(to) => deliver(to, reply),
            RegisterWaiter::Parts(to) => deliver(to, reply),
            RegisterWaiter::Rows(to) => deliver(to, reply),
            RegisterWaiter::Unsettled(to) => deliver(to, reply),
            RegisterWaiter::Guarantees(to) => deliver(to, reply),
        }
    }

    fn is_dropped(waiter: &RegisterWaiter) -> bool {
        match waiter {
            RegisterWaiter::Vote(to) => to.is_closed(),
            RegisterWaiter::Done(to) => to.is_closed(),
            RegisterWaiter::Inline(to) => to.is_closed(),
            RegisterWaiter::Verified(to) => to.is_closed(),
            RegisterWaiter::List(to) => to.is_closed(),
            RegisterWaiter::Parts(to) => to.is_closed(),
            RegisterWaiter::Rows(to) => to.is_closed(),
            RegisterWaiter::Unsettled(to) => to.is_closed(),
            RegisterWaiter::Guarantees(to) => to.is_closed(),
        }
    }
}

impl GrpcPeer {
    fn ask_register<R>(
        &self,
        volume: VolumeId,
        time: CallTime,
        call: Call,
        waiter: impl FnOnce(AnswerSender<R>) -> RegisterWaiter,
    ) -> Pending<R> {
        let live = match self.link.calls() {
            Ok(live) => live,
            Err(error) => return Pending::ready(Err(error)),
        };
        let (answering, pending) = self.waiting(volume, time.length, call.name());
        live.registers.submit(volume, self.register_call(volume, call), time, waiter(answering));
        pending
    }

    fn register_call(&self, volume: VolumeId, call: Call) -> RegisterCall {
        RegisterCall { number: 0, timeout_ms: 0, to: Some(self.address(volume)), call: Some(call) }
    }
}

impl RegisterPeer for GrpcPeer {
    fn prepare(
        &self,
        volume: VolumeId,
        target: &Target,
        prepare: Prepare,
        values: ValueLimit,
    ) -> Pending<Answer<Vote>> {
        let (target, ballot) = (Some(target.to_wire()), prepare.ballot.to_wire());
        let (want_value, value_bytes_max) = (values != ValueLimit::NOTHING, values.bytes());
        let call = Call::Prepare(register_call::Prepare { target, ballot, want_value, value_bytes_max });
        self.ask_register(volume, SMALL_CALL, call, RegisterWaiter::Vote)
    }

    fn accept(
        &self,
        volume: VolumeId,
        target: &Target,
        accept: &Accept,
        heal: Option<&HealEntry>,
    ) -> Pending<Answer<()>> {
        let call = Call::Accept(accept_to_wire(target, accept, heal));
        self.ask_register(volume, SMALL_CALL, call, RegisterWaiter::Done)
    }

    fn is_full(&self, volume: VolumeId) -> bool {
        !self.remote.has_room(volume)
    }

    fn is_returning(&self, _volume: VolumeId) -> bool {
        self.link.was_lost_lately()
    }

    fn is_late(&self, volume: VolumeId) -> bool {
        self.link.calls().is_err() || self.watches.of(volume).is_late()
    }

    fn has_overdue(&self, volume: VolumeId) -> bool {
        self.watches.of(volume).has_overdue()
    }

    fn commit(&self, volume: VolumeId, target: &Target, commit: &CommitHint) {
        for live in self.link.calls_for_commit(volume) {
            let call = Call::Commit(commit_to_wire(target, commit));
            live.registers.send(self.register_call(volume, call));
        }
    }

    fn read(&self, volume: VolumeId, target: &Target, values: ValueLimit) -> Pending<Answer<Vote>> {
        let call = Call::Read(read_to_wire(target, values));
        self.ask_register(volume, SMALL_CALL, call, RegisterWaiter::Vote)
    }

    fn inline(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Bytes> {
        let (target, ballot) = (Some(target.to_wire()), ballot.to_wire());
        let call = Call::Inline(register_call::Inline { target, ballot });
        self.ask_register(volume, SMALL_CALL, call, RegisterWaiter::Inline)
    }

    fn verify_row(&self, volume: VolumeId, key: &RegisterKey) -> Pending<()> {
        let call = Call::VerifyRow(key.to_wire());
        self.ask_register(volume, LONG_CALL, call, RegisterWaiter::Verified)
    }

    fn list(&self, volume: VolumeId, request: &ListScan) -> Pending<Answer<ListPage>> {
        let call = Call::List(request.to_wire());
        self.ask_register(volume, LIST_CALL, call, RegisterWaiter::List)
    }

    fn parts(&self, volume: VolumeId, request: &PartsScan) -> Pending<Answer<Vec<ScannedRow>>> {
        let call = Call::Parts(request.to_wire());
        self.ask_register(volume, LIST_CALL, call, RegisterWaiter::Parts)
    }

    fn rows(&self, volume: VolumeId, request: &RowScan) -> Pending<Answer<RowPage>> {
        let call = Call::Rows(request.to_wire());
        self.ask_register(volume, PAGE_CALL, call, RegisterWaiter::Rows)
    }

    fn unsettled(
        &self,
        volume: VolumeId,
        kind: UnsettledKind,
        after: Option<&RegisterKey>,
        limit: usize,
    ) -> Pending<UnsettledPage> {
        let call = RegisterRequest::Unsettled { kind, after: after.cloned(), limit }.to_wire();
        self.ask_register(volume, PAGE_CALL, call, RegisterWaiter::Unsettled)
    }

    fn control(&self, volume: VolumeId, control: Control) -> Pending<Answer<Guarantees>> {
        let call = Call::Control(control.to_wire());
        self.ask_register(volume, LONG_CALL, call, RegisterWaiter::Guarantees)
    }

    fn adopt(&self, volume: VolumeId, rows: Vec<AdoptedRow>) -> Pending<Answer<()>> {
        let rows = rows.iter().map(Wire::to_wire).collect();
        let call = Call::Adopt(register_call::Adopt { rows });
        self.ask_register(volume, LONG_CALL, call, RegisterWaiter::Done)
    }

    fn drop_row(&self, volume: VolumeId, target: &Target, ballot: Ballot) -> Pending<Answer<()>> {
        let (target, ballot) = (Some(target.to_wire()), ballot.to_wire());
        let call = Call::DropRow(register_call::DropRow { target, ballot });
        self.ask_register(volume, SMALL_CALL, call, RegisterWaiter::Done)
    }
}
