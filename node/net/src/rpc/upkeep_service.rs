//! What this node's volumes keep for upkeep, for its peers.
//!
//! Notes that a heal or a release is done have no reply, and none is made of one that goes by another life of the
//! volume. The other end is `peer::grpc`.

use std::task::{Context, Poll};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use sherd_core::heal::HealId;
use sherd_core::id::VolumeId;
use sherd_core::message::Answer;
use sherd_core::register::Answerer;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::Memory;
use sherd_core::register::seal::StoredSeals;
use sherd_core::release::ReleaseId;
use sherd_proto::convert::Wire;
use sherd_proto::convert::upkeep::UpkeepRequest;
use sherd_proto::limits::PAGE_BYTES_MAX;
use sherd_proto::v1::upkeep_call::Call;
use sherd_proto::v1::upkeep_reply::Reply;
use sherd_proto::v1::upkeep_service_server::UpkeepService;
use sherd_proto::v1::{UpkeepCall, UpkeepCalls, UpkeepReplies, UpkeepReply};

use super::calls::{CallFrame, CallHead, CallReplies, CallServer, poll};
use super::error;
use super::failure::CallFailure;
use super::node::{HeldShare, RpcNode};
use sherd_store::observe::metrics::RpcCallMetrics;
use sherd_store::peer::{LocalPeer, Pending, UpkeepPeer};

/// Answers calls about upkeep.
#[derive(Debug)]
pub(super) struct UpkeepRpc {
    node: RpcNode,
    metrics: RpcCallMetrics,
    stop: CancellationToken,
}

impl UpkeepRpc {
    pub(super) const fn new(node: RpcNode, metrics: RpcCallMetrics, stop: CancellationToken) -> Self {
        Self { node, metrics, stop }
    }
}

#[async_trait::async_trait]
impl UpkeepService for UpkeepRpc {
    type CallsStream = CallReplies<UpkeepServer>;

    async fn calls(
        &self,
        request: Request<Streaming<UpkeepCalls>>,
    ) -> Result<Response<Self::CallsStream>, Status> {
        let (node, metrics, stop) = (self.node.clone(), self.metrics.clone(), self.stop.clone());
        Ok(Response::new(CallReplies::new(node, request.into_inner(), metrics, stop)))
    }
}

/// The calls of [`UpkeepService`].
#[derive(Debug)]
pub(super) enum UpkeepServer {}

/// A call under way on a volume.
#[derive(Debug)]
pub(super) enum StartedCall {
    Heals(Pending<Vec<(HealId, Bytes)>>),
    Releases(Pending<Vec<(ReleaseId, Bytes)>>),
    Done(Pending<()>),
    Guarantees(Pending<Answer<Guarantees>>),
    Memory(Pending<Answer<Memory>>),
    Position(Pending<Answerer>),
    Seals(Pending<Answer<Vec<StoredSeals>>>),
    /// It has no reply.
    Silent,
}

impl CallServer for UpkeepServer {
    type Frame = UpkeepCalls;
    type Call = UpkeepCall;
    type Work = StartedCall;
    type Reply = UpkeepReply;
    type Replies = UpkeepReplies;

    fn calls(frame: UpkeepCalls) -> CallFrame<UpkeepCall> {
        let UpkeepCalls { sender, calls, dropped } = frame;
        CallFrame { sender, calls, dropped }
    }

    fn head(call: &UpkeepCall) -> CallHead {
        // No client waits for these.
        let ends_when_dropped = call.call.as_ref().is_some_and(Call::ends_when_dropped);
        CallHead { number: call.number, timeout_ms: call.timeout_ms, request: 0, ends_when_dropped }
    }

    fn start(node: &RpcNode, call: UpkeepCall) -> Result<(StartedCall, HeldShare), CallFailure> {
        let UpkeepCall { to, call, number: _, timeout_ms: _ } = call;
        let call = call.ok_or_else(|| error::refused("call: missing"))?;
        // A note about the data of an earlier life must not be taken for one about the data of this one.
        let in_life = matches!(call, Call::ReleasePut(_) | Call::ReleaseDone(_) | Call::HealDone(_));
        let (volumes, volume) = node.addressed(to, in_life)?;
        let held = node.hold(volume, bytes_held(&call))?;
        Ok((start(&volumes, volume, UpkeepRequest::from_wire(call)?), held))
    }

    fn poll(started: &mut StartedCall, number: u64, context: &mut Context<'_>) -> Poll<UpkeepReply> {
        let reply = match started {
            StartedCall::Heals(pending) => poll(pending, context),
            StartedCall::Releases(pending) => poll(pending, context),
            StartedCall::Done(pending) => poll(pending, context),
            StartedCall::Guarantees(pending) => poll(pending, context),
            StartedCall::Memory(pending) => poll(pending, context),
            StartedCall::Position(pending) => poll(pending, context),
            StartedCall::Seals(pending) => poll(pending, context),
            StartedCall::Silent => {
                Poll::Ready(Reply::Failure(error::failure(error::refused("it has no reply"))))
            }
        };
        reply.map(|reply| UpkeepReply { number, reply: Some(reply) })
    }

    fn failed(number: u64, failure: CallFailure) -> UpkeepReply {
        UpkeepReply { number, reply: Some(Reply::Failure(error::failure(failure))) }
    }

    fn is_failure(reply: &UpkeepReply) -> bool {
        matches!(reply.reply, Some(Reply::Failure(_)))
    }

    fn leave_out(_: &mut UpkeepReply) -> bool {
        false
    }

    fn replies(replies: Vec<UpkeepReply>) -> UpkeepReplies {
        UpkeepReplies { replies }
    }
}

/// Bytes that a call holds until it is answered.
fn bytes_held(call: &Call) -> usize {
    match call {
        Call::HealPut(entry) | Call::ReleasePut(entry) => entry.len(),
        Call::Heals(_) | Call::Releases(_) | Call::Seals(_) => PAGE_BYTES_MAX,
        _ => 0,
    }
}

fn start(volumes: &LocalPeer, volume: VolumeId, request: UpkeepRequest) -> StartedCall {
    match request {
        UpkeepRequest::Heals { after, limit } => StartedCall::Heals(volumes.heals(volume, after, limit)),
        UpkeepRequest::HealPut(entry) => StartedCall::Done(volumes.heal_put(volume, &entry)),
        UpkeepRequest::HealDone(id) => {
            volumes.heal_done(volume, id);
            StartedCall::Silent
        }
        UpkeepRequest::Releases { after, limit } => {
            StartedCall::Releases(volumes.releases(volume, after, limit))
        }
        UpkeepRequest::ReleasePut(entry) => {
            volumes.release_put(volume, &entry);
            StartedCall::Silent
        }
        UpkeepRequest::ReleaseDone(id) => {
            volumes.release_done(volume, id);
            StartedCall::Silent
        }
        UpkeepRequest::Guarantees => StartedCall::Guarantees(volumes.guarantees(volume)),
        UpkeepRequest::Remembers(asker) => StartedCall::Memory(volumes.remembers(volume, asker.as_ref())),
        UpkeepRequest::Position => StartedCall::Position(volumes.position(volume)),
        UpkeepRequest::Seals { after, limit } => StartedCall::Seals(volumes.seals(volume, after, limit)),
    }
}
