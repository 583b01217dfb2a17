//! A shard file that is written on a peer: one stream, begun when the sink is made.
//!
//! ```text
//! begin, bytes, bytes, finish ->
//!      <- taken, taken, life
//! ```
//! An append is answered when the peer's volume took all of it, so at most one append is under way. A sink that
//! is dropped before its finish ends the stream, and the peer removes the file.

use bytes::{Bytes, BytesMut};
use futures::stream;
use tokio::sync::mpsc;
use tonic::Streaming;

use sherd_core::id::Incarnation;
use sherd_core::message::{Error, Result};
use sherd_proto::convert::answer::AnswerIn;
use sherd_proto::limits::SHARD_FRAME_BYTES_MAX;
use sherd_proto::v1::shard_service_client::ShardServiceClient;
use sherd_proto::v1::{Empty, WriteReply, WriteShard, write_reply, write_shard};

use super::calls::unreachable;
use super::connection::Connection;
use super::limits::BYTES_STALL_MAX;
use super::link::Link;
use super::{answered, told};
use crate::peer::{AnswerSender, Pending, ShardSink};

/// Steps of a sink that its task has not begun: the caller waits for one before the next.
const STEPS_QUEUED_MAX: usize = 4;

/// The caller's end.
#[derive(Debug)]
pub(super) struct RemoteSink(Result<mpsc::Sender<SinkStep>>);

/// What the caller asks of the task.
#[derive(Debug)]
enum SinkStep {
    Append(Vec<Bytes>, AnswerSender<()>),
    Finish(AnswerSender<Incarnation>),
}

/// The task's end.
struct SinkTask {
    steps: mpsc::Receiver<SinkStep>,
    messages: mpsc::Sender<WriteShard>,
    replies: Streaming<WriteReply>,
}

impl RemoteSink {
    /// Begins a file.
    pub(super) fn begin(link: &Link, begin: write_shard::Begin) -> Self {
        let client = match link.bytes() {
            Ok(client) => client,
            Err(error) => return Self(Err(error)),
        };
        let (sender, steps) = mpsc::channel(STEPS_QUEUED_MAX);
        Self(link.transfer(write(client, begin, steps)).map(|()| sender))
    }

    fn send<R>(&self, step: impl FnOnce(AnswerSender<R>) -> SinkStep) -> Pending<R> {
        let (answering, pending) = Pending::waiting();
        match &self.0 {
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
        self.send(|answering| SinkStep::Append(bytes, answering))
    }

    fn finish(self: Box<Self>) -> Pending<Incarnation> {
        self.send(SinkStep::Finish)
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
    let opened = tokio::time::timeout(BYTES_STALL_MAX, client.write(steps_sent)).await;
    let error = match opened {
        Ok(Ok(replies)) => {
            let replies = replies.into_inner();
            return SinkTask { steps, messages, replies }.run().await;
        }
        Ok(Err(status)) => unreachable(told(&status)),
        Err(_elapsed) => unreachable("the peer began no shard in time"),
    };
    // The first step tells why; the channel is closed behind it.
    if let Some(step) = steps.recv().await {
        step.fail(error);
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
    async fn run(mut self) {
        while let Some(step) = self.steps.recv().await {
            match step {
                SinkStep::Append(bytes, answering) => {
                    let result = self.append(bytes).await;
                    let is_over = result.is_err();
                    answering.answer(result);
                    if is_over {
                        return;
                    }
                }
                SinkStep::Finish(answering) => return answering.answer(self.finish().await),
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
            Ok(Err(status)) => Err(unreachable(told(&status))),
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
