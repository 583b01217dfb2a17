//! What this node's volumes keep for upkeep, for its peers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use sherd_core::heal::{HealEntry, HealId};
use sherd_core::id::VolumeId;
use sherd_core::message::Answer;
use sherd_core::register::recover::Guarantees;
use sherd_core::register::recover::confirm::Memory;
use sherd_core::release::{ReleaseEntry, ReleaseId};
use sherd_proto::convert::{self, Wire};
use sherd_proto::limits::PAGE_BYTES_MAX;
use sherd_proto::v1::upkeep_call::Call;
use sherd_proto::v1::upkeep_reply::Reply;
use sherd_proto::v1::upkeep_service_server::UpkeepService;
use sherd_proto::v1::{Empty, Sender, UpkeepCall, UpkeepCalls, UpkeepReplies, UpkeepReply};

use super::calls::{CallFailure, CallReplies, CallServer};
use super::error;
use super::node::RpcNode;
use crate::observe::metrics::RpcCallMetrics;
use crate::peer::{LocalPeer, Pending, UpkeepPeer};

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
    /// It has no reply.
    Silent,
}

impl CallServer for UpkeepServer {
    type Frame = UpkeepCalls;
    type Call = UpkeepCall;
    type Started = StartedCall;
    type Reply = UpkeepReply;
    type Replies = UpkeepReplies;

    fn calls(frame: UpkeepCalls) -> (Option<Sender>, Vec<UpkeepCall>) {
        (frame.sender, frame.calls)
    }

    fn head(call: &UpkeepCall) -> (u64, u32) {
        (call.number, call.timeout_ms)
    }

    fn bytes_held(call: &UpkeepCall) -> usize {
        match &call.call {
            Some(Call::HealPut(entry) | Call::ReleasePut(entry)) => entry.len(),
            Some(Call::Heals(_) | Call::Releases(_) | Call::Seals(_)) => PAGE_BYTES_MAX,
            _ => 0,
        }
    }

    fn start(node: &RpcNode, call: UpkeepCall) -> Result<StartedCall, CallFailure> {
        let UpkeepCall { to, call, number: _, timeout_ms: _ } = call;
        let call = call.ok_or_else(|| error::refused("call: missing"))?;
        // What is done with the data of an earlier life may not be done with that of this one.
        let in_life = matches!(call, Call::ReleasePut(_) | Call::ReleaseDone(_) | Call::HealDone(_));
        let (volumes, volume) = node.addressed(to.as_ref(), in_life)?;
        start(&volumes, volume, call)
    }

    fn poll(started: &mut StartedCall, number: u64, context: &mut Context<'_>) -> Poll<UpkeepReply> {
        let reply = match started {
            StartedCall::Heals(pending) => poll(pending, context, |page| Reply::Entries(page.to_wire())),
            StartedCall::Releases(pending) => poll(pending, context, |page| Reply::Entries(page.to_wire())),
            StartedCall::Done(pending) => poll(pending, context, |()| Reply::Done(Empty {})),
            StartedCall::Guarantees(pending) => {
                poll(pending, context, |guarantees| Reply::Guarantees(guarantees.to_wire()))
            }
            StartedCall::Memory(pending) => poll(pending, context, |memory| Reply::Memory(memory.to_wire())),
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

    fn replies(replies: Vec<UpkeepReply>) -> UpkeepReplies {
        UpkeepReplies { replies }
    }
}

/// The reply of a call, once it is there.
fn poll<R: Unpin>(
    pending: &mut Pending<R>,
    context: &mut Context<'_>,
    reply: impl FnOnce(R) -> Reply,
) -> Poll<Reply> {
    Pin::new(pending).poll(context).map(|result| match result {
        Ok(answer) => reply(answer),
        Err(failed) => Reply::Failure(error::failure(failed.into())),
    })
}

fn start(volumes: &LocalPeer, volume: VolumeId, call: Call) -> Result<StartedCall, CallFailure> {
    Ok(match call {
        Call::Heals(page) => {
            let after = page.after.map(HealId::from_wire).transpose()?;
            StartedCall::Heals(volumes.heals(volume, after, convert::page_limit(page.limit)))
        }
        Call::HealPut(entry) => {
            let entry = HealEntry::decode(entry).map_err(|_| error::refused("heal_put: does not decode"))?;
            StartedCall::Done(volumes.heal_put(volume, &entry))
        }
        Call::HealDone(id) => {
            volumes.heal_done(volume, HealId::from_wire(id)?);
            StartedCall::Silent
        }
        Call::Releases(page) => {
            let after = page.after.map(ReleaseId::from_wire).transpose()?;
            StartedCall::Releases(volumes.releases(volume, after, convert::page_limit(page.limit)))
        }
        Call::ReleasePut(entry) => {
            let decoded = ReleaseEntry::decode(entry);
            let entry = decoded.map_err(|_| error::refused("release_put: does not decode"))?;
            volumes.release_put(volume, &entry);
            StartedCall::Silent
        }
        Call::ReleaseDone(id) => {
            volumes.release_done(volume, ReleaseId::from_wire(id)?);
            StartedCall::Silent
        }
        Call::Guarantees(Empty {}) => StartedCall::Guarantees(volumes.guarantees(volume)),
        Call::Remembers(Empty {}) => StartedCall::Memory(volumes.remembers(volume)),
        Call::Position(Empty {}) => return Err(error::refused("position: not served")),
        Call::Seals(_) => return Err(error::refused("seals: not served")),
    })
}
