//! A shard file that is written on a peer: one stream, begun when the sink is made.
//!
//! ```text
//! begin, bytes, bytes, finish ->
//!      <- taken, taken, life
//! ```
//! An append is answered when the peer's volume took all of it, so at most one append is under way. A sink
//! that is dropped before its finish ends the stream, also in the middle of an append, and the peer removes
//! the file. A finish that was begun runs on.

use bytes::{Bytes, BytesMut};
use futures::stream;
use tokio::sync::mpsc;
use tonic::Streaming;

use sherd_core::id::{Incarnation, VolumeId};
use sherd_core::message::{Error, Result};
use sherd_proto::convert::answer::AnswerIn;
use sherd_proto::limits::SHARD_FRAME_BYTES_MAX;
use sherd_proto::v1::shard_service_client::ShardServiceClient;
use sherd_proto::v1::{Empty, WriteReply, WriteShard, write_reply, write_shard};

use super::GrpcPeer;
use super::connection::Connection;
use super::limits::{BYTES_STALL_MAX, STEPS_QUEUED_MAX};
use super::reply::answered;
use super::reply::unreachable;
use super::status::status_with_causes;
use sherd_store::peer::watch::CallLength;
use sherd_store::peer::{AnswerSender, Pending, ShardSink};

#[derive(Debug)]
pub(super) struct RemoteSink {
    steps: Result<mpsc::Sender<SinkStep>>,
    peer: GrpcPeer,
    volume: VolumeId,
}

#[derive(Debug)]
enum SinkStep {
    Append(Vec<Bytes>, AnswerSender<()>),
    Finish(AnswerSender<Incarnation>),
}

struct SinkTask {
    steps: mpsc::Receiver<SinkStep>,
    messages: mpsc::Sender<WriteShard>,
    replies: Streaming<WriteReply>,
}

impl RemoteSink {
    pub(super) fn begin(peer: &GrpcPeer, volume: VolumeId, begin: write_shard::Begin) -> Self {
        let GrpcPeer { link, watches, .. } = peer;
        let steps = link.bytes().and_then(|client| {
            let (sender, steps) = mpsc::channel(STEPS_QUEUED_MAX);
            link.transfer(&watches.of(volume), write(client, begin, steps)).map(|()| sender)
        });
        Self { steps, peer: peer.clone(), volume }
    }

    fn send<R>(&self, call: &'static str, step: impl FnOnce(AnswerSender<R>) -> SinkStep) -> Pending<R> {
        let (answering, pending) = self.peer.waiting(self.volume, CallLength::Short, call);
        match &self.steps {
            Err(error) => Pending::ready(Err(error.clone())),
            Ok(steps) => match steps.try_send(step(answering)) {
                Ok(()) => pending,
                Err(mpsc::error::TrySendError::Full(_)) => Pending::ready(Err(Error::Busy)),
                Err(mpsc::error::TrySendError::Closed(_)) => {
                    Pending::ready(Err(unreachable("an earlier write of the shard failed")))
                }
            },
        }
    }
}

impl ShardSink for RemoteSink {
    fn append(&mut self, bytes: Vec<Bytes>) -> Pending<()> {
        self.send("append", |answering| SinkStep::Append(bytes, answering))
    }

    fn finish(self: Box<Self>) -> Pending<Incarnation> {
        self.send("finish", SinkStep::Finish)
    }
}

/// Opens the stream, and does one step after the other. When this ends the stream does.
async fn write(
    mut client: ShardServiceClient<Connection>,
    begin: write_shard::Begin,
    mut steps: mpsc::Receiver<SinkStep>,
) {
    let (messages, body) = mpsc::channel(1);
    let begin = WriteShard { step: Some(write_shard::Step::Begin(begin)) };
    let steps_sent = stream::unfold((Some(begin), body), |(begin, mut body)| async move {
        match begin {
            Some(begin) => Some((begin, (None, body))),
            None => body.recv().await.map(|message| (message, (None, body))),
        }
    });
    let mut first = None;
    // Cancel-safe: a step that is taken stays in `first`, and an opening that is dropped ends the stream.
    let opened = tokio::select! {
        biased;
        opened = tokio::time::timeout(BYTES_STALL_MAX, client.write(steps_sent)) => opened,
        () = given_up(&mut steps, &mut first) => return,
    };
    let error = match opened {
        Ok(Ok(replies)) => {
            let replies = replies.into_inner();
            return SinkTask { steps, messages, replies }.run(first).await;
        }
        Ok(Err(status)) => unreachable(status_with_causes(&status)),
        Err(_elapsed) => unreachable("the peer began no shard in time"),
    };
    // The first step gets the error; the channel is closed behind it.
    let step = match first {
        Some(step) => Some(step),
        None => steps.recv().await,
    };
    if let Some(step) = step {
        step.fail(error);
    }
}

/// Takes the first step, and returns when its caller is gone.
async fn given_up(steps: &mut mpsc::Receiver<SinkStep>, first: &mut Option<SinkStep>) {
    if first.is_none() {
        *first = steps.recv().await;
    }
    match first {
        None => {}
        Some(SinkStep::Append(_, answering)) => answering.closed().await,
        Some(SinkStep::Finish(_)) => std::future::pending().await,
    }
}

impl SinkStep {
    fn fail(self, error: Error) {
        match self {
            Self::Append(_, answering) => answering.answer(Err(error)),
            Self::Finish(answering) => answering.answer(Err(error)),
        }
    }
}

impl SinkTask {
    async fn run(mut self, mut first: Option<SinkStep>) {
        loop {
            let next = match first.take() {
                Some(step) => Some(step),
                None => self.steps.recv().await,
            };
            match next {
                None => return,
                Some(SinkStep::Append(bytes, mut answering)) => {
                    // Cancel-safe: an append whose caller is gone ends the stream, also in its middle.
                    let result = tokio::select! {
                        biased;
                        () = answering.closed() => return,
                        result = self.append(bytes) => result,
                    };
                    let is_over = result.is_err();
                    answering.answer(result);
                    if is_over {
                        return;
                    }
                }
                Some(SinkStep::Finish(answering)) => return answering.answer(self.finish().await),
            }
        }
    }

    async fn append(&mut self, bytes: Vec<Bytes>) -> Result<()> {
        for frame in frames(bytes) {
            self.step::<()>(write_shard::Step::Bytes(frame)).await?;
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<Incarnation> {
        self.step(write_shard::Step::Finish(Empty {})).await
    }

    /// Sends a step and waits for its reply, as long as anything can be expected to come.
    async fn step<A: AnswerIn<write_reply::Reply>>(&mut self, step: write_shard::Step) -> Result<A> {
        let exchange = async {
            // A body that is gone shows in the replies, which say why.
            drop(self.messages.send(WriteShard { step: Some(step) }).await);
            self.replies.message().await
        };
        match tokio::time::timeout(BYTES_STALL_MAX, exchange).await {
            Ok(Ok(Some(WriteReply { reply }))) => answered(reply),
            Ok(Ok(None)) => Err(unreachable("the peer ended the stream")),
            Ok(Err(status)) => Err(unreachable(status_with_causes(&status))),
            Err(_elapsed) => Err(unreachable("no answer in time")),
        }
    }
}

/// Bytes as frames that are as long as they may be: each costs an answer.
fn frames(bytes: Vec<Bytes>) -> Vec<Bytes> {
    let mut frames = Vec::new();
    let mut open = BytesMut::new();
    for mut piece in bytes {
        while !piece.is_empty() {
            let room = SHARD_FRAME_BYTES_MAX - open.len();
            let taken = piece.split_to(piece.len().min(room));
            if taken.len() == SHARD_FRAME_BYTES_MAX {
                frames.push(taken);
                continue;
            }
            open.extend_from_slice(&taken);
            if open.len() == SHARD_FRAME_BYTES_MAX {
                frames.push(open.split().freeze());
            }
        }
    }
    if !open.is_empty() {
        frames.push(open.freeze());
    }
    frames
}
