//! Shards of this node's volumes, for its peers: small calls as one stream, bytes as calls of their own.
//!
//! Bytes count against the node's bound until a volume has them or the peer read them; beyond it a call is
//! answered `Busy` before anything is done. The other end is `peer::grpc`.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, stream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Request, Response, Status, Streaming};
use tower::Service;

use sherd_core::id::ShardId;
use sherd_core::message::{Error, ReadPurpose, Result as CallResult, ShardFileHeader, ShardRange, Target};
use sherd_proto::convert::call::ShardStream;
use sherd_proto::convert::{Wire, timeout_from_wire};
use sherd_proto::frame::{self, FrameReader};
use sherd_proto::limits::MESSAGE_BYTES_MAX;
use sherd_proto::v1::shard_service_server::{ShardService, ShardServiceServer};
use sherd_proto::v1::{
    PutReply, PutShard, ReadShard, ShardBytes, ShardCalls, WriteReply, WriteShard, put_reply, shard_bytes,
    write_reply, write_shard,
};

use super::calls::CallReplies;
use super::error;
use super::failure::CallFailure;
use super::limits::READ_BYTES_MAX;
use super::node::{AddressedVolume, HeldShare, RpcNode};
use super::shard_bytes::{ReadBytes, ShardUpload, UploadTarget, response};
use crate::wire::messages::{BodyPart, MessageBody, READ_PATH, WRITE_PATH};
use sherd_store::observe::metrics::RpcCallMetrics;
use sherd_store::observe::trace;
use sherd_store::peer::{Peer, Pending, ShardSink};

/// The service of shards: calls through the codec, and beside them `Write` and `Read`, whose bytes go past
/// it.
#[derive(Debug, Clone)]
pub(super) struct ShardRoutes {
    codec: ShardServiceServer<ShardRpc>,
    rpc: ShardRpc,
    /// Where bytes are sent that peers read.
    tasks: TaskTracker,
}

#[derive(Debug, Clone)]
pub(super) struct ShardRpc {
    node: RpcNode,
    metrics: RpcCallMetrics,
    stop: CancellationToken,
}

impl ShardRpc {
    pub(super) const fn new(node: RpcNode, metrics: RpcCallMetrics, stop: CancellationToken) -> Self {
        Self { node, metrics, stop }
    }

    fn count<R>(&self, result: CallResult<R, CallFailure>) -> CallResult<R, CallFailure> {
        let counter = if result.is_ok() { &self.metrics.answered } else { &self.metrics.failed };
        counter.inc();
        result
    }

    async fn put_shard(&self, request: PutShard) -> CallResult<u32, CallFailure> {
        let PutShard { sender: _, to, timeout_ms, shard, target, payload } = request;
        let request = to.as_ref().map_or(0, |to| to.request);
        let AddressedVolume { volumes, volume, .. } = self.node.addressed(to)?;
        let _held = self.node.hold(volume, payload.len())?;
        let shard = shard.ok_or_else(|| error::refused("shard: missing"))?;
        let (shard, target) = (ShardId::from_wire(shard)?, self::target(target)?);
        let put = trace::call_for(request, || volumes.put_shard(volume, shard, &target, vec![payload]));
        Ok(self.node.timed(request, in_time(timeout_ms, put)).await?.0)
    }

    async fn read_shard(&self, request: ReadShard) -> CallResult<(Vec<Bytes>, HeldShare), CallFailure> {
        let ReadShard { sender: _, to, timeout_ms, range } = request;
        let request = to.as_ref().map_or(0, |to| to.request);
        let range = ShardRange::from_wire(range.ok_or_else(|| error::refused("range: missing"))?)?;
        let length = usize::try_from(range.length).unwrap_or(usize::MAX);
        if length > READ_BYTES_MAX {
            return Err(error::refused(&format!("length: {length}, and {READ_BYTES_MAX} at most")));
        }
        let AddressedVolume { volumes, volume, .. } = self.node.addressed(to)?;
        if range.wanted == ReadPurpose::ByUpkeep {
            volumes.admit_heal(volume, range.length).await;
        }
        let held = self.node.hold(volume, length)?;
        let read = trace::call_for(request, || volumes.read_shard(volume, range));
        let read = self.node.timed(request, in_time(timeout_ms, read)).await?;
        Ok((read, held))
    }

    fn begin(
        &self,
        begin: write_shard::Begin,
    ) -> CallResult<(UploadTarget, Box<dyn ShardSink>), CallFailure> {
        let write_shard::Begin { sender: _, to, target, file, replace } = begin;
        let request = to.as_ref().map_or(0, |to| to.request);
        let addressed = self.node.addressed(to)?;
        if replace {
            // A heal that goes by an earlier life may put an older file over a newer one.
            addressed.check_life()?;
        }
        let AddressedVolume { volumes, volume, .. } = addressed;
        let target = self::target(target)?;
        let file = file.ok_or_else(|| error::refused("file: missing"))?;
        let header = ShardFileHeader::from_wire(file)?;
        let unnamed = (!replace).then(|| (header.shard.data, target.key.clone()));
        let create = || volumes.create_shard(volume, &target, header, replace);
        let sink = trace::call_for(request, create);
        Ok((UploadTarget { volumes, volume, request, unnamed }, sink))
    }
}

#[async_trait::async_trait]
impl ShardService for ShardRpc {
    type CallsStream = CallReplies<ShardStream>;

    async fn calls(
        &self,
        request: Request<Streaming<ShardCalls>>,
    ) -> Result<Response<Self::CallsStream>, Status> {
        let (node, metrics, stop) = (self.node.clone(), self.metrics.clone(), self.stop.clone());
        Ok(Response::new(CallReplies::new(node, request.into_inner(), metrics, stop)))
    }

    async fn put(&self, request: Request<PutShard>) -> Result<Response<PutReply>, Status> {
        let request = request.into_inner();
        self.node.check(request.sender.clone())?;
        let reply = match self.count(self.put_shard(request).await) {
            Ok(life) => put_reply::Reply::Life(life),
            Err(failed) => put_reply::Reply::Failure(error::failure(failed)),
        };
        Ok(Response::new(PutReply { reply: Some(reply) }))
    }
}

impl ShardRoutes {
    pub(super) fn new(rpc: ShardRpc, tasks: TaskTracker) -> Self {
        let codec = ShardServiceServer::new(rpc.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Self { codec, rpc, tasks }
    }

    async fn write(self, body: Body) -> Result<http::Response<Body>, Status> {
        let (Self { rpc, .. }, mut steps) = (self, MessageBody::of(body, FrameReader::of_bytes()));
        let Some(BodyPart::Message(WriteShard { step: Some(write_shard::Step::Begin(begin)) })) =
            rpc.node.moved(steps.next()).await??
        else {
            return Err(Status::invalid_argument("step: the first is not `begin`"));
        };
        rpc.node.check(begin.sender.clone())?;
        Ok(match rpc.count(rpc.begin(begin)) {
            Ok((target, sink)) => {
                response(ShardUpload { node: rpc.node, target, steps, sink: Some(sink) }.replies())
            }
            Err(failed) => {
                let reply = Some(write_reply::Reply::Failure(error::failure(failed)));
                one_message(frame::message(&WriteReply { reply }))
            }
        })
    }

    async fn read(self, body: Body) -> Result<http::Response<Body>, Status> {
        let (Self { rpc, tasks, .. }, mut asked) = (self, MessageBody::of(body, FrameReader::of_messages()));
        let Some(BodyPart::Message(request)) = rpc.node.moved(asked.next::<ReadShard>()).await?? else {
            return Err(Status::invalid_argument("no range is asked for"));
        };
        rpc.node.check(request.sender.clone())?;
        Ok(match rpc.count(rpc.read_shard(request).await) {
            Ok((pieces, held)) => {
                let (bytes, messages) = ReadBytes::new(pieces, held);
                tasks.spawn(bytes.send(rpc.node.stall_max()));
                response(messages)
            }
            Err(failed) => {
                let part = Some(shard_bytes::Part::Failure(error::failure(failed)));
                one_message(frame::message(&ShardBytes { part }))
            }
        })
    }
}

fn one_message(message: Bytes) -> http::Response<Body> {
    response(stream::iter([Ok(message)]))
}

impl NamedService for ShardRoutes {
    const NAME: &'static str = <ShardServiceServer<ShardRpc> as NamedService>::NAME;
}

impl Service<http::Request<Body>> for ShardRoutes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let routes = self.clone();
        let answered = match request.uri().path() {
            WRITE_PATH => routes.write(request.into_body()).boxed(),
            READ_PATH => routes.read(request.into_body()).boxed(),
            _ => return self.codec.call(request),
        };
        async { Ok(answered.await.unwrap_or_else(Status::into_http)) }.boxed()
    }
}

/// Waits as long as the caller does.
async fn in_time<R: Unpin>(timeout_ms: u32, pending: Pending<R>) -> CallResult<R, CallFailure> {
    match tokio::time::timeout(timeout_from_wire(timeout_ms)?, pending).await {
        Ok(result) => Ok(result?),
        Err(_elapsed) => {
            Err(Error::Unreachable { reason: "the volume did not answer in time".to_owned() }.into())
        }
    }
}

fn target(target: Option<sherd_proto::v1::Target>) -> Result<Target, CallFailure> {
    let target = target.ok_or_else(|| error::refused("target: missing"))?;
    Ok(Target::from_wire(target)?)
}
