//! Shards of a peer's volumes: small calls as numbered calls of the stream, bytes over the other connection.
//!
//! So no frame of bytes stands before an accept. Stripes, heals and the scrubber call these through [`ShardPeer`];
//! the bytes themselves are in [`transfers`] and [`super::sink`].

use bytes::Bytes;

use sherd_core::id::{Incarnation, ShardId, VolumeId};
use sherd_core::message::{
    Error, LeaseAnswer, ReadPurpose, ReaderLeases, ShardFileHeader, ShardPage, ShardRange, ShardScan, Target,
};
use sherd_core::record::Home;
use sherd_proto::convert::Wire;
use sherd_proto::v1::shard_call::Call;
use sherd_proto::v1::{Sender, ShardCall, ShardCalls, ShardReplies, ShardReply, write_shard};

use super::calls::CallService;
use super::limits::{CallTime, PAGE_CALL, SMALL_CALL, VERIFY_SHARD_CALL};
use super::sink::RemoteSink;
use super::transfers::{self, Transfer};
use super::{GrpcPeer, deliver};
use crate::peer::watch::CallLength;
use crate::peer::{AnswerSender, Pending, ShardPeer, ShardSink};

/// The small calls of [`ShardPeer`].
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

impl GrpcPeer {
    fn transfer(&self, volume: VolumeId, length: CallLength, call: &'static str) -> Transfer<'_> {
        let (to, watch, logged) = (self.address(volume), self.watches.of(volume), self.logged(volume, call));
        Transfer { link: &self.link, to, watch, length, logged }
    }

    fn ask_shard<R>(
        &self,
        volume: VolumeId,
        time: CallTime,
        call: Call,
        waiter: impl FnOnce(AnswerSender<R>) -> ShardWaiter,
    ) -> Pending<R> {
        let live = match self.link.calls() {
            Ok(live) => live,
            Err(error) => return Pending::ready(Err(error)),
        };
        let (answering, pending) = self.waiting(volume, time.length, call.name());
        let call = ShardCall { number: 0, timeout_ms: 0, to: Some(self.address(volume)), call: Some(call) };
        live.shards.submit(volume, call, time, waiter(answering));
        pending
    }
}

impl ShardPeer for GrpcPeer {
    fn put_shard(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<Incarnation> {
        let transfer = self.transfer(volume, CallLength::Short, "put_shard");
        transfers::put(transfer, shard, target, payload)
    }

    fn create_shard(
        &self,
        volume: VolumeId,
        target: &Target,
        header: ShardFileHeader,
        replace: bool,
    ) -> Box<dyn ShardSink> {
        let begin = write_shard::Begin {
            sender: Some(self.link.sender()),
            to: Some(self.address(volume)),
            target: Some(target.to_wire()),
            file: Some(header.to_wire()),
            replace,
        };
        Box::new(RemoteSink::begin(self, volume, begin))
    }

    fn read_shard(&self, volume: VolumeId, range: ShardRange) -> Pending<Vec<Bytes>> {
        let length = match range.wanted {
            ReadPurpose::ByClient => CallLength::Short,
            ReadPurpose::ByUpkeep => CallLength::Long,
        };
        transfers::read(self.transfer(volume, length, "read_shard"), range)
    }

    fn delete_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<()> {
        let call = Call::Delete((shard, home).to_wire());
        self.ask_shard(volume, SMALL_CALL, call, ShardWaiter::Done)
    }

    fn release_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<bool> {
        let call = Call::Release((shard, home).to_wire());
        self.ask_shard(volume, SMALL_CALL, call, ShardWaiter::Released)
    }

    fn lease(&self, volume: VolumeId, leases: &ReaderLeases) -> Pending<LeaseAnswer> {
        self.ask_shard(volume, SMALL_CALL, Call::Leases(leases.to_wire()), ShardWaiter::Leases)
    }

    fn shard_bytes(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64> {
        let call = Call::Length((shard, home).to_wire());
        self.ask_shard(volume, SMALL_CALL, call, ShardWaiter::Bytes)
    }

    fn verify_shard(&self, volume: VolumeId, shard: ShardId, home: Home) -> Pending<u64> {
        let call = Call::Verify((shard, home).to_wire());
        self.ask_shard(volume, VERIFY_SHARD_CALL, call, ShardWaiter::Bytes)
    }

    fn shards(&self, volume: VolumeId, request: ShardScan) -> Pending<ShardPage> {
        let call = Call::Page(request.to_wire());
        self.ask_shard(volume, PAGE_CALL, call, ShardWaiter::Page)
    }
}
