//! Registers of this node's volumes, for its peers.
//!
//! The calls of a stream are started in the order in which they come, so a commit finds its accept before it in the
//! volume's queue. Pages end where a message must ([`pages`]). The other end is `peer::grpc`.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use sherd_core::id::VolumeId;
use sherd_core::limits::VALUE_UNASKED_BYTES_MAX;
use sherd_core::message::{Answer, ListPage, RowPage, ScannedRow, UnsettledPage};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{EncodedValue, Vote};
use sherd_proto::convert::Wire;
use sherd_proto::convert::answer::{AnswerIn, reply};
use sherd_proto::convert::register::RegisterRequest;
use sherd_proto::v1::register_call::Call;
use sherd_proto::v1::register_reply::Reply;
use sherd_proto::v1::register_service_server::RegisterService;
use sherd_proto::v1::vote_answer::Result as VoteResult;
use sherd_proto::v1::{self, RegisterCall, RegisterCalls, RegisterReplies, RegisterReply, VoteAnswer};

use super::calls::{CallFrame, CallHead, CallReplies, CallServer, poll};
use super::failure::CallFailure;
use super::node::{HeldShare, RpcNode};
use super::{error, pages};
use sherd_store::observe::metrics::RpcCallMetrics;
use sherd_store::peer::{CountedPage, LocalPeer, PageShare, Pending, RegisterPeer, ScanRoom};

/// Values up to this length are copied: 64 KiB, which takes a few microseconds.
const UNSHARED_BYTES_MAX: usize = 64 << 10;

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
        let (node, metrics, stop) = (self.node.for_peer(), self.metrics.clone(), self.stop.clone());
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
    List(Scan<ListPage>),
    Parts(Scan<Vec<ScannedRow>>),
    Rows(Scan<RowPage>),
    Unsettled(Pending<UnsettledPage>),
    Guarantees(Pending<Answer<Guarantees>>),
    /// It has no reply.
    Silent,
}

/// A scan under way, then the share of its page.
#[derive(Debug)]
pub(super) struct Scan<R> {
    pending: Pending<CountedPage<R>>,
    share: PageShare,
}

impl<R> Scan<R> {
    fn new(pending: Pending<CountedPage<R>>) -> Self {
        Self { pending, share: PageShare::default() }
    }

    /// The reply with the page, which ends where a message must.
    fn poll(&mut self, context: &mut Context<'_>, end: impl FnOnce(&mut R)) -> Poll<Reply>
    where
        Answer<R>: AnswerIn<Reply>,
        CountedPage<R>: Unpin,
    {
        Pin::new(&mut self.pending).poll(context).map(|result| {
            let mut result = result.map(|CountedPage { answer, share }| {
                self.share = share;
                answer
            });
            if let Ok(Answer { result: Ok(page), .. }) = &mut result {
                end(page);
            }
            reply(&result)
        })
    }
}

impl CallServer for RegisterServer {
    type Frame = RegisterCalls;
    type Call = RegisterCall;
    type Work = StartedCall;
    type Reply = RegisterReply;
    type Replies = RegisterReplies;

    fn calls(frame: RegisterCalls) -> CallFrame<RegisterCall> {
        let RegisterCalls { sender, calls, dropped } = frame;
        CallFrame { sender, calls, dropped }
    }

    fn head(call: &RegisterCall) -> CallHead {
        let request = call.to.as_ref().map_or(0, |to| to.request);
        let ends_when_dropped = call.call.as_ref().is_some_and(Call::ends_when_dropped);
        CallHead { number: call.number, timeout_ms: call.timeout_ms, request, ends_when_dropped }
    }

    fn start(node: &RpcNode, call: RegisterCall) -> Result<(StartedCall, HeldShare), CallFailure> {
        let RegisterCall { to, call, number: _, timeout_ms: _ } = call;
        let call = call.ok_or_else(|| error::refused("call: missing"))?;
        let in_life = matches!(call, Call::Adopt(_) | Call::DropRow(_));
        let (volumes, volume) = node.addressed(to, in_life)?;
        let held = node.hold(volume, bytes_held(&call))?;
        Ok((start(&volumes, volume, RegisterRequest::from_wire(call)?, node.scans()), held))
    }

    fn poll(started: &mut StartedCall, number: u64, context: &mut Context<'_>) -> Poll<RegisterReply> {
        let reply = match started {
            StartedCall::Vote(pending) => poll(pending, context),
            StartedCall::Done(pending) => poll(pending, context),
            StartedCall::Inline(pending) => poll(pending, context),
            StartedCall::Verified(pending) => poll(pending, context),
            StartedCall::List(scan) => scan.poll(context, pages::end_list),
            StartedCall::Parts(scan) => scan.poll(context, |_| ()),
            StartedCall::Rows(scan) => scan.poll(context, pages::end_rows),
            StartedCall::Unsettled(pending) => poll(pending, context),
            StartedCall::Guarantees(pending) => poll(pending, context),
            StartedCall::Silent => {
                Poll::Ready(Reply::Failure(error::failure(error::refused("it has no reply"))))
            }
        };
        reply.map(|reply| RegisterReply { number, reply: Some(reply) })
    }

    fn page(started: &mut StartedCall) -> PageShare {
        match started {
            StartedCall::List(scan) => std::mem::take(&mut scan.share),
            StartedCall::Parts(scan) => std::mem::take(&mut scan.share),
            StartedCall::Rows(scan) => std::mem::take(&mut scan.share),
            StartedCall::Vote(_)
            | StartedCall::Done(_)
            | StartedCall::Inline(_)
            | StartedCall::Verified(_)
            | StartedCall::Unsettled(_)
            | StartedCall::Guarantees(_)
            | StartedCall::Silent => PageShare::default(),
        }
    }

    fn failed(number: u64, failure: CallFailure) -> RegisterReply {
        RegisterReply { number, reply: Some(Reply::Failure(error::failure(failure))) }
    }

    fn is_failure(reply: &RegisterReply) -> bool {
        matches!(reply.reply, Some(Reply::Failure(_)))
    }

    fn leave_out(reply: &mut RegisterReply) -> bool {
        let Some(Reply::Vote(VoteAnswer { result: Some(VoteResult::Vote(vote)), .. })) = &mut reply.reply
        else {
            return false;
        };
        vote.row.as_mut().is_some_and(|row| row.value.take().is_some())
    }

    fn replies(replies: Vec<RegisterReply>) -> RegisterReplies {
        RegisterReplies { replies }
    }
}

/// Bytes that a call holds until it is answered.
fn bytes_held(call: &Call) -> usize {
    let value =
        |value: &Option<v1::Value>| value.as_ref().map_or(0, |value| value.head.len() + value.inline.len());
    match call {
        Call::Accept(accept) => value(&accept.value),
        Call::Adopt(adopt) => adopt.rows.iter().map(|row| value(&row.value)).sum(),
        // Its page is counted when it exists.
        Call::List(list) => {
            list.prefix.len() + list.from.len() + list.delimiter.as_ref().map_or(0, Bytes::len)
        }
        Call::Prepare(prepare) => long_value(prepare.value_bytes_max),
        Call::Read(read) => long_value(read.value_bytes_max),
        _ => 0,
    }
}

/// Bytes that a call holds for the value that it asks for: none for a short one, which is counted when it is there.
const fn long_value(value_bytes_max: u32) -> usize {
    let bytes = value_bytes_max as usize;
    if bytes > VALUE_UNASKED_BYTES_MAX { bytes } else { 0 }
}

fn start(volumes: &LocalPeer, volume: VolumeId, request: RegisterRequest, room: &ScanRoom) -> StartedCall {
    match request {
        RegisterRequest::Prepare { target, prepare, values } => {
            StartedCall::Vote(volumes.prepare(volume, &target, prepare, values))
        }
        RegisterRequest::Accept { target, mut accept, heal } => {
            unshare(&mut accept.value);
            StartedCall::Done(volumes.accept(volume, &target, &accept, heal.as_ref()))
        }
        RegisterRequest::Commit { target, commit } => {
            volumes.commit(volume, &target, &commit);
            StartedCall::Silent
        }
        RegisterRequest::Read { target, values } => StartedCall::Vote(volumes.read(volume, &target, values)),
        RegisterRequest::Inline { target, ballot } => {
            StartedCall::Inline(volumes.inline(volume, &target, ballot))
        }
        RegisterRequest::VerifyRow { key } => StartedCall::Verified(volumes.verify_row(volume, &key)),
        RegisterRequest::List(scan) => StartedCall::List(Scan::new(volumes.list_within(volume, scan, room))),
        RegisterRequest::Parts(scan) => {
            StartedCall::Parts(Scan::new(volumes.parts_within(volume, scan, room)))
        }
        RegisterRequest::Rows(scan) => StartedCall::Rows(Scan::new(volumes.rows_within(volume, scan, room))),
        RegisterRequest::Unsettled { kind, after, limit } => {
            StartedCall::Unsettled(volumes.unsettled(volume, kind, after.as_ref(), limit))
        }
        RegisterRequest::Control(control) => StartedCall::Guarantees(volumes.control(volume, control)),
        RegisterRequest::Adopt { rows } => StartedCall::Done(volumes.adopt(volume, rows)),
        RegisterRequest::DropRow { target, ballot } => {
            StartedCall::Done(volumes.drop_row(volume, &target, ballot))
        }
    }
}

/// Copies a value out of the frame that it came in: the volume keeps it in memory, and it must not keep all of the
/// frame. A large one is most of its frame.
fn unshare(value: &mut EncodedValue) {
    if value.head.len() + value.inline.len() <= UNSHARED_BYTES_MAX {
        value.head = Bytes::copy_from_slice(&value.head);
        value.inline = Bytes::copy_from_slice(&value.inline);
    }
}
