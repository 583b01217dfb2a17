//! Shards of a peer's volumes: small calls as numbered calls of the stream, bytes over the other connection.
//!
//! So no frame of bytes stands before an accept. Stripes, heals and the scrubber call these through [`ShardPeer`];
//! the bytes themselves are in [`transfers`] and [`super::sink`].

use bytes::Bytes;

use sherd_core::id::{Incarnation, ShardId, VolumeId};
use sherd_core::message::{
    LeaseAnswer, ReadPurpose, ReaderLeases, ShardFileHeader, ShardPage, ShardRange, ShardScan, Target,
};
use sherd_core::record::Home;
use sherd_proto::convert::Wire;
use sherd_proto::v1::shard_call::Call;
use sherd_proto::v1::{ShardCall, write_shard};

use super::GrpcPeer;
use super::limits::{CallTime, PAGE_CALL, SMALL_CALL, VERIFY_SHARD_CALL};
use super::shard_calls::ShardWaiter;
use super::sink::RemoteSink;
use super::transfers::{self, Transfer};
use sherd_store::peer::watch::CallLength;
use sherd_store::peer::{AnswerSender, Pending, ShardPeer, ShardSink};

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
