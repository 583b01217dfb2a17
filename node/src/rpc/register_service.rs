//! Registers of this node's volumes, for its peers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use sherd_core::id::{Ballot, RegisterKey};
use sherd_core::message::{Answer, ListPage, RowPage, ScannedRow, Target};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{Prepare, Vote};
use sherd_proto::convert::{self, Wire};
use sherd_proto::limits::PAGE_BYTES_MAX;
use sherd_proto::v1::register_call::Call;
use sherd_proto::v1::register_reply::Reply;
use sherd_proto::v1::register_service_server::RegisterService;
use sherd_proto::v1::{self, Empty, RegisterCall, RegisterCalls, RegisterReplies, RegisterReply, Sender};

use super::calls::{CallFailure, CallReplies, CallServer};
use super::node::RpcNode;
use super::{error, pages};
use crate::observe::metrics::RpcCallMetrics;
use crate::peer::{LocalPeer, Pending, RegisterPeer};

/// Answers calls about registers.
#[derive(Debug)]
pub(super) struct RegisterRpc {
    node: RpcNode,
    metrics: RpcCallMetrics,
    stop: CancellationToken,
}

impl RegisterRpc {
    pub(super) const fn new(node: RpcNode, metrics: RpcCallMetrics, stop: CancellationToken) -> Self {
        Self { node, metrics, stop }
    }
}

#[async_trait::async_trait]
impl RegisterService for RegisterRpc {
    type CallsStream = CallReplies<RegisterServer>;

    async fn calls(
        &self,
        request: Request<Streaming<RegisterCalls>>,
    ) -> Result<Response<Self::CallsStream>, Status> {
        let (node, metrics, stop) = (self.node.clone(), self.metrics.clone(), self.stop.clone());
        Ok(Response::new(CallReplies::new(node, request.into_inner(), metrics, stop)))
    }
}

/// The calls of [`RegisterService`].
#[derive(Debug)]
pub(super) enum RegisterServer {}

/// A call under way on a volume.
#[derive(Debug)]
pub(super) enum StartedCall {
    Vote(Pending<Answer<Vote>>),
    Done(Pending<Answer<()>>),
    Inline(Pending<Bytes>),
    Verified(Pending<()>),
    List(Pending<Answer<ListPage>>),
    Parts(Pending<Answer<Vec<ScannedRow>>>),
    Rows(Pending<Answer<RowPage>>),
    Unsettled(Pending<Vec<(RegisterKey, Ballot)>>),
    Guarantees(Pending<Answer<Guarantees>>),
    /// It has no reply.
    Silent,
}

impl CallServer for RegisterServer {
    type Frame = RegisterCalls;
    type Call = RegisterCall;
    type Started = StartedCall;
    type Reply = RegisterReply;
    type Replies = RegisterReplies;

    fn calls(frame: RegisterCalls) -> (Option<Sender>, Vec<RegisterCall>) {
        (frame.sender, frame.calls)
    }

    fn head(call: &RegisterCall) -> (u64, u32) {
        (call.number, call.timeout_ms)
    }

    fn bytes_held(call: &RegisterCall) -> usize {
        let value = |value: &Option<v1::Value>| {
            value.as_ref().map_or(0, |value| value.head.len() + value.inline.len())
        };
        match &call.call {
            Some(Call::Accept(accept)) => value(&accept.value),
            Some(Call::Adopt(adopt)) => adopt.rows.iter().map(|row| value(&row.value)).sum(),
            Some(Call::List(_) | Call::Parts(_) | Call::Rows(_)) => PAGE_BYTES_MAX,
            _ => 0,
        }
    }

    fn start(node: &RpcNode, call: RegisterCall) -> Result<StartedCall, CallFailure> {
        let RegisterCall { to, call, number: _, timeout_ms: _ } = call;
        let call = call.ok_or_else(|| error::refused("call: missing"))?;
        let in_life = matches!(call, Call::Adopt(_) | Call::DropRow(_));
        let (volumes, volume) = node.addressed(to.as_ref(), in_life)?;
        start(&volumes, volume, call)
    }

    fn poll(started: &mut StartedCall, number: u64, context: &mut Context<'_>) -> Poll<RegisterReply> {
        let reply = match started {
            StartedCall::Vote(pending) => poll(pending, context, |vote| Reply::Vote(vote.to_wire())),
            StartedCall::Done(pending) => poll(pending, context, |done| Reply::Done(done.to_wire())),
            StartedCall::Inline(pending) => poll(pending, context, Reply::Inline),
            StartedCall::Verified(pending) => poll(pending, context, |()| Reply::Verified(Empty {})),
            StartedCall::List(pending) => poll(pending, context, |mut list| {
                if let Ok(page) = &mut list.result {
                    pages::end_list(page);
                }
                Reply::List(list.to_wire())
            }),
            StartedCall::Parts(pending) => poll(pending, context, |parts| Reply::Parts(parts.to_wire())),
            StartedCall::Rows(pending) => poll(pending, context, |mut rows| {
                if let Ok(page) = &mut rows.result {
                    pages::end_rows(page);
                }
                Reply::Rows(rows.to_wire())
            }),
            StartedCall::Unsettled(pending) => poll(pending, context, |page| Reply::Unsettled(page.to_wire())),
            StartedCall::Guarantees(pending) => {
                poll(pending, context, |guarantees| Reply::Guarantees(guarantees.to_wire()))
            }
            StartedCall::Silent => Poll::Ready(Reply::Failure(error::failure(error::refused("it has no reply")))),
        };
        reply.map(|reply| RegisterReply { number, reply: Some(reply) })
    }

    fn failed(number: u64, failure: CallFailure) -> RegisterReply {
        RegisterReply { number, reply: Some(Reply::Failure(error::failure(failure))) }
    }

    fn is_failure(reply: &RegisterReply) -> bool {
        matches!(reply.reply, Some(Reply::Failure(_)))
    }

    fn replies(replies: Vec<RegisterReply>) -> RegisterReplies {
        RegisterReplies { replies }
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

fn start(
    volumes: &LocalPeer,
    volume: sherd_core::id::VolumeId,
    call: Call,
) -> Result<StartedCall, CallFailure> {
    Ok(match call {
        Call::Prepare(call) => {
            let (target, ballot) = (target(call.target)?, Ballot::from_wire(call.ballot)?);
            StartedCall::Vote(volumes.prepare(volume, &target, Prepare { ballot }, call.want_value))
        }
        Call::Accept(call) => {
            let (target, accept, heal) = convert::accept_from_wire(call)?;
            StartedCall::Done(volumes.accept(volume, &target, &accept, heal.as_ref()))
        }
        Call::Commit(call) => {
            let (target, ballot) = (target(call.target)?, Ballot::from_wire(call.ballot)?);
            let positions = convert::positions_from_wire(call.positions)?;
            volumes.commit(volume, &target, ballot, &positions);
            StartedCall::Silent
        }
        Call::Read(call) => StartedCall::Vote(volumes.read(volume, &target(call.target)?, call.want_value)),
        Call::Inline(call) => {
            let (target, ballot) = (target(call.target)?, Ballot::from_wire(call.ballot)?);
            StartedCall::Inline(volumes.inline(volume, &target, ballot))
        }
        Call::VerifyRow(key) => {
            StartedCall::Verified(volumes.verify_row(volume, &RegisterKey::from_wire(key)?))
        }
        Call::List(call) => StartedCall::List(volumes.list(volume, &Wire::from_wire(call)?)),
        Call::Parts(call) => StartedCall::Parts(volumes.parts(volume, &Wire::from_wire(call)?)),
        Call::Rows(call) => StartedCall::Rows(volumes.rows(volume, &Wire::from_wire(call)?)),
        Call::Unsettled(call) => {
            let after = call.after.map(RegisterKey::from_wire).transpose()?;
            let limit = convert::page_limit(call.limit);
            StartedCall::Unsettled(volumes.unsettled(volume, after.as_ref(), limit))
        }
        Call::Control(call) => StartedCall::Guarantees(volumes.control(volume, Wire::from_wire(call)?)),
        Call::Adopt(call) => {
            let rows = call.rows.into_iter().map(Wire::from_wire).collect::<Result<_, _>>()?;
            StartedCall::Done(volumes.adopt(volume, rows))
        }
        Call::DropRow(call) => {
            let (target, ballot) = (target(call.target)?, Ballot::from_wire(call.ballot)?);
            StartedCall::Done(volumes.drop_row(volume, &target, ballot))
        }
    })
}

fn target(target: Option<v1::Target>) -> Result<Target, CallFailure> {
    let target = target.ok_or_else(|| error::refused("target: missing"))?;
    Ok(Target::from_wire(target)?)
}
