//! A shard file that is written on a peer: one stream, begun when the sink is made, past the codec of gRPC
//! ([`sherd_proto::frame`]).
//!
//! ```text
//! begin, bytes, bytes, bytes, finish ->
//!      <- taken, taken, taken, life
//! ```
//! Bytes leave in the buffers that they came in, as many as the windows of the connection take; an append is
//! answered when the peer's volume took all of it. Several are under way, so that a link with a long round
//! trip stays full. A sink that is dropped before its finish ends the stream, also in the middle of an
//! append, and the peer removes the file. A finish that was begun runs on.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tonic::body::Body;

use sherd_core::checksum::{BlockHasher, ShardDigest};
use sherd_core::id::{Life, VolumeId};
use sherd_core::message::{Error, Result};
use sherd_proto::convert::shard::digest_to_wire;
use sherd_proto::frame::{self, FrameReader};
use sherd_proto::limits::SHARD_FRAME_BYTES_MAX;
use sherd_proto::v1::{WriteReply, WriteShard, write_reply, write_shard};

use super::GrpcPeer;
use super::connection::Connection;
use super::limits::{BYTES_STALL_MAX, STEPS_UNDER_WAY_MAX, units_of};
use super::reply::{answered, unreachable};
use super::status::{error_chain, status_with_causes};
use crate::wire::messages::{BodyPart, MessageBody, WRITE_PATH};
use sherd_store::peer::watch::CallWatch;
use sherd_store::peer::{AnswerSender, Pending, ShardSink};

#[derive(Debug)]
pub(super) struct RemoteSink {
    steps: Result<mpsc::Sender<SinkStep>>,
    peer: GrpcPeer,
    volume: VolumeId,
    /// Of the bytes as they leave.
    hasher: BlockHasher,
}

#[derive(Debug)]
enum SinkStep {
    Append(Vec<Bytes>, AnswerSender<()>),
    Finish(AnswerSender<Life>, ShardDigest),
}

impl RemoteSink {
    pub(super) fn begin(peer: &GrpcPeer, volume: VolumeId, begin: write_shard::Begin) -> Self {
        let shard_bytes = begin.file.as_ref().map_or(0, |file| file.shard_bytes);
        let GrpcPeer { link, watches, .. } = peer;
        let steps = link.bytes().and_then(|connection| {
            let (sender, steps) = mpsc::channel(STEPS_UNDER_WAY_MAX);
            let watch = watches.of(volume);
            let task = SinkTask::new(connection, begin, steps, (watch.clone(), link.ahead()));
            link.transfer(&watch, task.run()).map(|()| sender)
        });
        Self { steps, peer: peer.clone(), volume, hasher: BlockHasher::with_length(shard_bytes) }
    }

    /// Queues a step, or refuses it and all behind it: their bytes would stand where its own belong.
    fn send<R>(&mut self, call: &'static str, step: impl FnOnce(AnswerSender<R>) -> SinkStep) -> Pending<R> {
        // Watched once those before it are answered.
        let (answering, pending) = Pending::waiting();
        let answering = answering.logging(self.peer.logged(self.volume, call));
        let queued = self.steps.as_ref().map_err(Clone::clone).and_then(|steps| {
            steps.try_send(step(answering)).map_err(|refused| match refused {
                mpsc::error::TrySendError::Full(_) => Error::Busy,
                mpsc::error::TrySendError::Closed(_) => lost_before(),
            })
        });
        queued.map_or_else(
            |error| {
                self.steps = Err(error.clone());
                Pending::ready(Err(error))
            },
            |()| pending,
        )
    }
}

impl ShardSink for RemoteSink {
    fn append(&mut self, bytes: Vec<Bytes>) -> Pending<()> {
        for bytes in &bytes {
            self.hasher.update(bytes);
        }
        self.send("append", |answering| SinkStep::Append(bytes, answering))
    }

    fn expect(&mut self, _digest: ShardDigest) {
        // The peer compares the bytes with what left here.
    }

    fn finish(mut self: Box<Self>) -> Pending<Life> {
        let digest = ShardDigest::of(&std::mem::take(&mut self.hasher).finish());
        self.send("finish", |answering| SinkStep::Finish(answering, digest))
    }
}

/// A step whose answer is awaited.
#[derive(Debug)]
enum AwaitedStep {
    Append(AwaitedAppend),
    Finish(AnswerSender<Life>),
}

#[derive(Debug)]
struct AwaitedAppend {
    answering: AnswerSender<()>,
    /// Messages of the append that are not answered yet.
    messages: usize,
    /// Permit of an append that was sent before the append before it was answered.
    _ahead: Option<OwnedSemaphorePermit>,
}

/// A buffer of the request's body.
#[derive(Debug)]
struct UnsentBuffer {
    bytes: Bytes,
    /// Whether the peer owes an answer once it has left.
    ends_step: bool,
}

/// The stream of one shard file.
struct SinkTask {
    steps: mpsc::Receiver<SinkStep>,
    /// Whether `finish` was taken: nothing is sent behind it.
    is_finishing: bool,
    /// Buffers that the connection has not taken yet, in their order.
    unsent: VecDeque<UnsentBuffer>,
    /// Messages that left and have no answer yet. Each is answered but `begin`.
    unanswered: usize,
    /// The end of the request's body; `None` once that has ended.
    body: Option<mpsc::Sender<Bytes>>,
    replies: Replies,
    /// In the order of their answers.
    awaited: VecDeque<AwaitedStep>,
    /// Whether the sink was dropped: no step comes any more.
    is_dropped: bool,
    watch: CallWatch,
    ahead: Arc<Semaphore>,
    /// How many places of those an append takes.
    units: u32,
}

/// The answer of the peer, from its head on.
enum Replies {
    Begun(BoxFuture<'static, std::result::Result<http::Response<hyper::body::Incoming>, hyper::Error>>),
    Coming(MessageBody<hyper::body::Incoming>),
}

impl SinkTask {
    fn new(
        mut connection: Connection,
        begin: write_shard::Begin,
        steps: mpsc::Receiver<SinkStep>,
        (watch, ahead): (CallWatch, Arc<Semaphore>),
    ) -> Self {
        let (body, buffers) = mpsc::channel(1);
        let buffers = stream::unfold(buffers, |mut buffers: mpsc::Receiver<Bytes>| async move {
            let buffer = buffers.recv().await?;
            Some((buffer, buffers))
        });
        let buffers = buffers.map(|buffer| Ok::<_, tonic::Status>(Frame::data(buffer)));
        let opened = connection.ask(WRITE_PATH, Body::new(StreamBody::new(buffers))).boxed();
        let units = units_of(begin.file.as_ref().map_or(0, |file| file.stripe_unit));
        let begin = WriteShard { step: Some(write_shard::Step::Begin(begin)) };
        Self {
            steps,
            is_finishing: false,
            unsent: VecDeque::from([UnsentBuffer { bytes: frame::message(&begin), ends_step: false }]),
            unanswered: 0,
            body: Some(body),
            replies: Replies::Begun(opened),
            awaited: VecDeque::new(),
            is_dropped: false,
            watch,
            ahead,
            units,
        }
    }

    /// Does the steps. When this ends the stream does.
    async fn run(mut self) {
        let Err(error) = self.do_steps().await else { return };
        // The stream ends here, and its buffers are given back.
        let Self { mut steps, awaited, unsent, body, replies, .. } = self;
        drop((unsent, body, replies));
        let mut error = Some(error);
        for step in awaited {
            let error = error.take().unwrap_or_else(lost_before);
            match step {
                AwaitedStep::Append(append) => append.answering.answer(Err(error)),
                AwaitedStep::Finish(answering) => answering.answer(Err(error)),
            }
        }
        // Where no step was under way the next one gets the error.
        let mut next = if error.is_some() { steps.recv().await } else { None };
        steps.close();
        while let Some(step) = next.take().or_else(|| steps.try_recv().ok()) {
            let error = error.take().unwrap_or_else(lost_before);
            match step {
                SinkStep::Append(_, answering) => answering.answer(Err(error)),
                SinkStep::Finish(answering, _) => answering.answer(Err(error)),
            }
        }
    }

    /// Returns `Ok` when the sink was dropped, or all of it is answered.
    async fn do_steps(&mut self) -> Result<()> {
        let mut moved = Instant::now();
        loop {
            let Self { steps, unsent, body, replies, awaited, .. } = self;
            // The first is taken at once, for its volume owes it; others as far as the link has places.
            let is_first = awaited.is_empty();
            let has_room = unsent.is_empty() && awaited.len() < STEPS_UNDER_WAY_MAX;
            let takes_step = !self.is_finishing && !self.is_dropped;
            let place = if !is_first && has_room && takes_step {
                Arc::clone(&self.ahead).try_acquire_many_owned(self.units).ok()
            } else {
                None
            };
            let takes_step = takes_step && (is_first || place.is_some());
            let is_under_way = !awaited.is_empty() || !unsent.is_empty();
            // Cancel-safe: a message that is not whole stays in `replies`, and a place in the body that was
            // not used is given back.
            tokio::select! {
                biased;
                // Also in the middle of its bytes.
                () = given_up(awaited.front_mut()) => return Ok(()),
                ended = send_first(body.as_ref(), unsent), if !unsent.is_empty() => {
                    self.unanswered += usize::from(ended);
                }
                reply = replies.next() => {
                    let reply = reply?;
                    if self.answer(reply)? {
                        return Ok(());
                    }
                }
                step = steps.recv(), if takes_step => match step {
                    Some(step) => self.begin(step, place),
                    None => self.is_dropped = true,
                },
                () = tokio::time::sleep_until(moved + BYTES_STALL_MAX), if is_under_way => {
                    return Err(unreachable("no answer in time"));
                }
            }
            if self.is_dropped && self.awaited.is_empty() {
                return Ok(());
            }
            if (self.is_finishing || self.is_dropped) && self.unsent.is_empty() {
                self.body = None;
            }
            match self.awaited.front_mut() {
                Some(AwaitedStep::Append(append)) => append.answering.owed(&self.watch),
                Some(AwaitedStep::Finish(answering)) => answering.owed(&self.watch),
                None => {}
            }
            moved = Instant::now();
        }
    }

    fn begin(&mut self, step: SinkStep, ahead: Option<OwnedSemaphorePermit>) {
        let (message, awaited) = match step {
            SinkStep::Append(bytes, answering) => {
                let messages = queue_bytes(bytes, &mut self.unsent);
                if messages == 0 {
                    return answering.answer(Ok(()));
                }
                let append = AwaitedAppend { answering, messages, _ahead: ahead };
                return self.awaited.push_back(AwaitedStep::Append(append));
            }
            SinkStep::Finish(answering, digest) => {
                (write_shard::Step::Finish(digest_to_wire(digest)), AwaitedStep::Finish(answering))
            }
        };
        let bytes = frame::message(&WriteShard { step: Some(message) });
        self.unsent.push_back(UnsentBuffer { bytes, ends_step: true });
        self.awaited.push_back(awaited);
        self.is_finishing = true;
    }

    /// Answers the step that a reply is for; gives whether it was the last of the stream.
    fn answer(&mut self, reply: WriteReply) -> Result<bool> {
        // A failure may come before the bytes that it is for. Other answers may not: the steps behind them
        // would be queued here as fast as a peer answers that takes nothing.
        if !matches!(reply.reply, Some(write_reply::Reply::Failure(_))) {
            self.unanswered = self.unanswered.checked_sub(1).ok_or_else(answered_too_early)?;
        }
        match self.awaited.pop_front() {
            Some(AwaitedStep::Append(mut append)) => match answered::<_, ()>(reply.reply) {
                Ok(()) if append.messages > 1 => {
                    append.messages -= 1;
                    self.awaited.push_front(AwaitedStep::Append(append));
                    Ok(false)
                }
                Ok(()) => {
                    append.answering.answer(Ok(()));
                    Ok(false)
                }
                Err(error) => {
                    self.awaited.push_front(AwaitedStep::Append(append));
                    Err(error)
                }
            },
            Some(AwaitedStep::Finish(answering)) => {
                answering.answer(answered(reply.reply));
                Ok(true)
            }
            // A call that failed at its beginning answers before it is asked.
            None => answered::<_, ()>(reply.reply).and_then(|()| Err(answered_too_early())),
        }
    }
}

impl Replies {
    /// The next reply. Cancel-safe.
    async fn next(&mut self) -> Result<WriteReply> {
        if let Self::Begun(opened) = self {
            let response = opened.await.map_err(|error| unreachable(error_chain(&error)))?;
            *self = Self::Coming(
                MessageBody::of_answer(response, FrameReader::of_messages())
                    .map_err(|status| failed(&status))?,
            );
        }
        let Self::Coming(replies) = self else { return Err(unreachable("no stream was opened")) };
        match replies.next().await {
            Ok(Some(BodyPart::Message(reply))) => Ok(reply),
            Ok(Some(BodyPart::Start(_) | BodyPart::Bytes(_))) => {
                Err(unreachable("the peer answers with bytes"))
            }
            Ok(None) => match replies.ended_well() {
                Ok(()) => Err(unreachable("the peer ended the stream")),
                Err(status) => Err(failed(&status)),
            },
            Err(status) => Err(failed(&status)),
        }
    }
}

fn failed(status: &tonic::Status) -> Error {
    unreachable(status_with_causes(status))
}

fn answered_too_early() -> Error {
    unreachable("the peer answers more than it was sent")
}

fn lost_before() -> Error {
    unreachable("an earlier write of the shard failed")
}

/// Returns when the caller of an append is gone. A finish runs on.
async fn given_up(first: Option<&mut AwaitedStep>) {
    match first {
        Some(AwaitedStep::Append(append)) => append.answering.closed().await,
        Some(AwaitedStep::Finish(_)) | None => std::future::pending().await,
    }
}

/// Sends the first buffer once the connection takes one; gives whether it was the last of a step's message.
/// Cancel-safe.
async fn send_first(body: Option<&mpsc::Sender<Bytes>>, unsent: &mut VecDeque<UnsentBuffer>) -> bool {
    let place = match body {
        Some(body) => body.reserve().await.ok(),
        None => None,
    };
    let Some(place) = place else {
        // A body that is gone shows in the replies, which say why.
        unsent.clear();
        return false;
    };
    let Some(UnsentBuffer { bytes, ends_step }) = unsent.pop_front() else { return false };
    place.send(bytes);
    ends_step
}

/// Queues bytes as messages that are as long as they may be, since each costs an answer; gives their number.
fn queue_bytes(mut pieces: Vec<Bytes>, unsent: &mut VecDeque<UnsentBuffer>) -> usize {
    let mut left: usize = pieces.iter().map(Bytes::len).sum();
    let mut messages = 0;
    let mut pieces = pieces.drain(..).filter(|piece| !piece.is_empty());
    let mut piece = Bytes::new();
    while left > 0 {
        let mut missing = left.min(SHARD_FRAME_BYTES_MAX);
        unsent.push_back(UnsentBuffer { bytes: frame::bytes_head(missing), ends_step: false });
        (left, messages) = (left - missing, messages + 1);
        while missing > 0 {
            if piece.is_empty() {
                let Some(next) = pieces.next() else { break };
                piece = next;
            }
            let part = piece.split_to(piece.len().min(missing));
            missing -= part.len();
            unsent.push_back(UnsentBuffer { bytes: part, ends_step: missing == 0 });
        }
    }
    messages
}
