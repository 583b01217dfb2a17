//! The bytes of shards as peers write and read them: a file frame by frame, a range frame by frame.
//!
//! A shard file that is being written belongs to the stream that writes it: when the stream ends without
//! `finish`, the sink is dropped and the file removed. The writer may be dead then, and finished shards of
//! its data lie on other volumes: the sweep looks after them.

use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use futures::stream::{self, BoxStream};
use tonic::{Status, Streaming};

use sherd_core::id::{DataId, RegisterKey, VolumeId};
use sherd_core::message::Error;
use sherd_proto::limits::SHARD_FRAME_BYTES_MAX;
use sherd_proto::v1::{Empty, ShardBytes, WriteReply, WriteShard, shard_bytes, write_reply, write_shard};

use super::error;
use super::failure::CallFailure;
use super::node::{HeldShare, RpcNode};
use sherd_store::peer::{LocalPeer, ShardSink};

/// Where a shard file is written, and for whom.
#[derive(Debug)]
pub(super) struct UploadTarget {
    pub(super) volumes: Arc<LocalPeer>,
    pub(super) volume: VolumeId,
    /// The number of the client's request; 0 for none.
    pub(super) request: u64,
    /// The data of the bytes, and the register that is to name it; `None` for a heal, whose data a register
    /// names.
    pub(super) unnamed: Option<(DataId, RegisterKey)>,
}

impl UploadTarget {
    /// The writer got its last answer, and looks after the data.
    fn writer_has_answer(&mut self) {
        self.unnamed = None;
    }
}

impl Drop for UploadTarget {
    fn drop(&mut self) {
        if let Some((data, key)) = self.unnamed.take() {
            self.volumes.note_abandoned(self.volume, data, key);
        }
    }
}

pub(super) struct ShardUpload {
    node: RpcNode,
    target: UploadTarget,
    steps: Streaming<WriteShard>,
    /// `None` once the file is finished, or a write failed.
    sink: Option<Box<dyn ShardSink>>,
}

impl ShardUpload {
    pub(super) const fn new(
        node: RpcNode,
        target: UploadTarget,
        steps: Streaming<WriteShard>,
        sink: Box<dyn ShardSink>,
    ) -> Self {
        Self { node, target, steps, sink: Some(sink) }
    }

    /// Gives one reply for each step, until the file is finished or a step fails.
    pub(super) fn replies(self) -> BoxStream<'static, Result<WriteReply, Status>> {
        Box::pin(stream::try_unfold(self, |mut upload| async move {
            if upload.sink.is_none() {
                upload.target.writer_has_answer();
                return Ok(None);
            }
            let Some(WriteShard { step }) = upload.steps.message().await? else { return Ok(None) };
            let reply = match step {
                Some(write_shard::Step::Bytes(bytes)) => upload.append(bytes).await?,
                Some(write_shard::Step::Finish(Empty {})) => upload.finish().await,
                Some(write_shard::Step::Begin(_)) => {
                    return Err(Status::invalid_argument("step: a second `begin`"));
                }
                None => return Err(Status::invalid_argument("step: missing")),
            };
            Ok(Some((WriteReply { reply: Some(reply) }, upload)))
        }))
    }

    async fn append(&mut self, bytes: Bytes) -> Result<write_reply::Reply, Status> {
        if bytes.len() > SHARD_FRAME_BYTES_MAX {
            let count = bytes.len();
            return Err(Status::invalid_argument(format!("{count} bytes: {SHARD_FRAME_BYTES_MAX} at most")));
        }
        let UploadTarget { volume, request, .. } = self.target;
        let result = match (self.sink.as_mut(), self.node.hold(volume, bytes.len())) {
            (Some(sink), Ok(_held)) => self.node.timed(request, sink.append(vec![bytes])).await,
            (_, Err(error)) => Err(error),
            (None, Ok(_)) => Err(Error::Unreachable { reason: "the shard was finished".to_owned() }),
        };
        Ok(match result {
            Ok(()) => write_reply::Reply::Taken(Empty {}),
            Err(error) => {
                self.sink = None;
                write_reply::Reply::Failure(error::failure(CallFailure::Volume(error)))
            }
        })
    }

    async fn finish(&mut self) -> write_reply::Reply {
        let Some(sink) = self.sink.take() else {
            return write_reply::Reply::Failure(error::failure(error::refused("finish: nothing was begun")));
        };
        match self.node.timed(self.target.request, sink.finish()).await {
            Ok(life) => write_reply::Reply::Life(life.0),
            Err(error) => write_reply::Reply::Failure(error::failure(CallFailure::Volume(error))),
        }
    }
}

/// Cuts bytes that were read into frames; they are counted until the last is taken.
pub(super) fn frames(
    bytes: Vec<Bytes>,
    held: HeldShare,
) -> impl Stream<Item = Result<ShardBytes, Status>> + Send + 'static {
    let mut pieces: std::collections::VecDeque<_> = bytes.into();
    let mut held = Some(held);
    stream::iter(std::iter::from_fn(move || {
        let Some(mut piece) = pieces.pop_front() else {
            held = None;
            return None;
        };
        if piece.len() > SHARD_FRAME_BYTES_MAX {
            let rest = piece.split_off(SHARD_FRAME_BYTES_MAX);
            pieces.push_front(rest);
        }
        let _still_held = &held;
        Some(Ok(ShardBytes { part: Some(shard_bytes::Part::Bytes(piece)) }))
    }))
}
