//! A peer's volumes behind the seam: calls as numbered calls of the streams, bytes over the other connection.
//!
//! So no frame of bytes stands before an accept. A commit follows its accept in the same queue and never
//! overtakes it. Each call has the deadline of its class ([`super::limits`]); the bytes themselves are in
//! [`transfers`] and [`super::sink`].

use bytes::Bytes;

use sherd_core::id::{Life, ShardId, VolumeId};
use sherd_core::message::call::{RegisterCall, VolumeAnswer, VolumeCall};
use sherd_core::message::{ReadPurpose, ShardFileHeader, ShardRange, Target};
use sherd_proto::convert::Wire;
use sherd_proto::convert::call::NumberedCalls;
use sherd_proto::v1::write_shard;

use super::GrpcPeer;
use super::calls::{CallStream, CallWaiter};
use super::limits::CallTime;
use super::reply::unreachable;
use super::sink::RemoteSink;
use super::transfers::{self, Transfer};
use sherd_store::peer::watch::CallLength;
use sherd_store::peer::{Peer, Pending, ShardSink};

impl Peer for GrpcPeer {
    fn ask(&self, volume: VolumeId, call: VolumeCall) -> Pending<VolumeAnswer> {
        let live = match self.link.calls() {
            Ok(live) => live,
            Err(error) => return Pending::ready(Err(error)),
        };
        let Some(kind) = call.answer_kind() else {
            return Pending::ready(Err(unreachable(format!("{} has no answer", call.name()))));
        };
        let time = CallTime::of(call.class());
        let (answering, pending) = self.waiting(volume, time.length, call.name());
        let waiter = CallWaiter { kind, ends_when_dropped: call.ends_when_dropped(), answering };
        match &call {
            VolumeCall::Register(call) => self.submit(&live.registers, volume, call, (time, waiter)),
            VolumeCall::Shard(call) => self.submit(&live.shards, volume, call, (time, waiter)),
            VolumeCall::Upkeep(call) => self.submit(&live.upkeep, volume, call, (time, waiter)),
        }
        pending
    }

    fn tell(&self, volume: VolumeId, call: VolumeCall) {
        if let VolumeCall::Register(call @ RegisterCall::Commit { .. }) = &call {
            for live in self.link.calls_for_commit(volume) {
                self.send(&live.registers, volume, call);
            }
            return;
        }
        let Ok(live) = self.link.calls() else { return };
        match &call {
            VolumeCall::Register(call) => self.send(&live.registers, volume, call),
            VolumeCall::Shard(call) => self.send(&live.shards, volume, call),
            VolumeCall::Upkeep(call) => self.send(&live.upkeep, volume, call),
        }
    }

    fn put_shard(
        &self,
        volume: VolumeId,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
    ) -> Pending<Life> {
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

    fn is_full(&self, volume: VolumeId) -> bool {
        !self.remote.has_room(volume)
    }

    fn is_late(&self, volume: VolumeId) -> bool {
        self.link.calls().is_err() || self.watches.of(volume).is_late()
    }

    fn has_overdue(&self, volume: VolumeId) -> bool {
        self.watches.of(volume).has_overdue()
    }

    fn is_returning(&self, _volume: VolumeId) -> bool {
        self.link.was_lost_lately()
    }
}

impl GrpcPeer {
    fn submit<S: NumberedCalls>(
        &self,
        stream: &CallStream<S>,
        volume: VolumeId,
        request: &S::Request,
        (time, waiter): (CallTime, CallWaiter),
    ) {
        stream.submit(volume, S::call(self.address(volume), request), time, waiter);
    }

    fn send<S: NumberedCalls>(&self, stream: &CallStream<S>, volume: VolumeId, request: &S::Request) {
        stream.send(S::call(self.address(volume), request));
    }

    fn transfer(&self, volume: VolumeId, length: CallLength, call: &'static str) -> Transfer<'_> {
        let (to, watch, logged) = (self.address(volume), self.watches.of(volume), self.logged(volume, call));
        Transfer { link: &self.link, to, watch, length, logged }
    }
}
