//! The bytes of shards as peers write and read them: a file message by message, a range message by message,
//! past the codec of gRPC ([`sherd_proto::frame`]).
//!
//! ```text
//! write   buffers of the connection -> one aligned buffer a message -> the volume, past the page cache
//! read    buffers of the volume -> the connection
//! ```
//! A shard file that is being written belongs to the stream that writes it: when the stream ends without
//! `finish`, the sink is dropped and the file removed. The writer may be dead then, and finished shards of
//! its data lie on other volumes: the sweep looks after them. A peer that stops amid bytes, or reads none of
//! those that it asked for, loses its stream after ten seconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;

use sherd_core::id::{DataId, RegisterKey, VolumeId};
use sherd_core::message::Error;
use sherd_proto::convert::shard::digest_from_wire;
use sherd_proto::frame;
use sherd_proto::limits::SHARD_FRAME_BYTES_MAX;
use sherd_proto::v1::{Empty, WriteReply, WriteShard, write_reply, write_shard};

use super::error;
use super::failure::CallFailure;
use super::limits::READ_MESSAGE_BYTES_MAX;
use super::node::{HeldShare, RpcNode};
use crate::wire::messages::{BodyPart, MessageBody};
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

    /// Waits for a heal's turn at the volume. It comes before the bytes take their share of what a volume
    /// holds, which clients' writes need, too: until then they wait in the stream.
    async fn admit(&self, count: usize) {
        if self.unnamed.is_none() {
            self.volumes.admit_heal(self.volume, count as u64).await;
        }
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
    pub(super) node: RpcNode,
    pub(super) target: UploadTarget,
    pub(super) steps: MessageBody<Body>,
    /// `None` once the file is finished, or a write failed.
    pub(super) sink: Option<Box<dyn ShardSink>>,
}

impl ShardUpload {
    /// Gives one reply for each step, until the file is finished or a step fails.
    pub(super) fn replies(self) -> impl Stream<Item = Result<Bytes, Status>> + Send + 'static {
        stream::try_unfold(self, |mut upload| async move {
            if upload.sink.is_none() {
                upload.target.writer_has_answer();
                return Ok(None);
            }
            let reply = match upload.steps.next::<WriteShard>().await? {
                None => return Ok(None),
                Some(BodyPart::Start(count)) => upload.receive(count).await?,
                Some(BodyPart::Bytes(_)) => return Err(Status::internal("bytes that were not announced")),
                Some(BodyPart::Message(WriteShard { step })) => match step {
                    Some(write_shard::Step::Bytes(bytes)) => upload.append(bytes).await?,
                    Some(write_shard::Step::Finish(finish)) => upload.finish(&finish).await,
                    Some(write_shard::Step::Begin(_)) => {
                        return Err(Status::invalid_argument("step: a second `begin`"));
                    }
                    None => return Err(Status::invalid_argument("step: missing")),
                },
            };
            Ok(Some((frame::message(&WriteReply { reply: Some(reply) }), upload)))
        })
    }

    /// Takes announced bytes into one buffer, and appends them. They are counted once the first are there:
    /// the announcements of many streams come long before.
    async fn receive(&mut self, count: usize) -> Result<write_reply::Reply, Status> {
        self.target.admit(count).await;
        let Self { node, steps, target, .. } = self;
        let received = async {
            let first = next_bytes(steps).await?;
            let held = match node.hold(target.volume, count) {
                Ok(held) => held,
                Err(error) => return Ok::<_, Status>(Err(error)),
            };
            let mut received = node.received(count);
            received.fill(&first);
            while received.len() < count {
                received.fill(&next_bytes(steps).await?);
            }
            Ok(Ok((received.freeze(), held)))
        };
        // All of them in the time that one pause may take: a peer cannot hold them for longer by sending few.
        match node.moved(received).await?? {
            Ok((bytes, held)) => self.write(bytes, held).await,
            Err(error) => Ok(self.give_up(error)),
        }
    }

    /// Appends bytes that came in another form than the dialler writes.
    async fn append(&mut self, bytes: Bytes) -> Result<write_reply::Reply, Status> {
        if bytes.len() > SHARD_FRAME_BYTES_MAX {
            let count = bytes.len();
            return Err(Status::invalid_argument(format!("{count} bytes: {SHARD_FRAME_BYTES_MAX} at most")));
        }
        self.target.admit(bytes.len()).await;
        match self.node.hold(self.target.volume, bytes.len()) {
            Ok(held) => self.write(bytes, held).await,
            Err(error) => Ok(self.give_up(error)),
        }
    }

    async fn write(&mut self, bytes: Bytes, _held: HeldShare) -> Result<write_reply::Reply, Status> {
        let Some(sink) = self.sink.as_mut() else {
            return Err(Status::failed_precondition("the shard was finished"));
        };
        Ok(match self.node.timed(self.target.request, sink.append(vec![bytes])).await {
            Ok(()) => write_reply::Reply::Taken(Empty {}),
            Err(error) => self.give_up(error),
        })
    }

    /// Ends the file at a failure; it is removed.
    fn give_up(&mut self, error: Error) -> write_reply::Reply {
        self.sink = None;
        write_reply::Reply::Failure(error::failure(CallFailure::Volume(error)))
    }

    async fn finish(&mut self, finish: &write_shard::Finish) -> write_reply::Reply {
        let Some(mut sink) = self.sink.take() else {
            return write_reply::Reply::Failure(error::failure(error::refused("finish: nothing was begun")));
        };
        match digest_from_wire(finish) {
            Ok(Some(digest)) => sink.expect(digest),
            Ok(None) => {}
            Err(error) => return write_reply::Reply::Failure(error::failure(error.into())),
        }
        match self.node.timed(self.target.request, sink.finish()).await {
            Ok(life) => write_reply::Reply::Life(life.0),
            Err(error) => write_reply::Reply::Failure(error::failure(CallFailure::Volume(error))),
        }
    }
}

async fn next_bytes(steps: &mut MessageBody<Body>) -> Result<Bytes, Status> {
    match steps.next::<WriteShard>().await? {
        Some(BodyPart::Bytes(bytes)) => Ok(bytes),
        _ => Err(Status::internal("announced bytes did not come")),
    }
}

/// A message of bytes: its head, and the bytes.
type BytesMessage = [Bytes; 2];

/// Bytes that were read for a peer, until it takes them. They are counted as long as there are any: HTTP/2
/// keeps those that it took until its connection ends.
pub(super) struct ReadBytes {
    pieces: VecDeque<Bytes>,
    messages: mpsc::Sender<Option<BytesMessage>>,
}

/// The bytes of a message, and their count.
struct CountedBytes {
    bytes: Bytes,
    _held: HeldShare,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ReadBytes {
    /// The bytes, which are counted as `held`, and the messages that they become.
    pub(super) fn new(
        pieces: Vec<Bytes>,
        mut held: HeldShare,
    ) -> (Self, impl Stream<Item = Result<Bytes, Status>> + Send + 'static) {
        let mut counted = VecDeque::with_capacity(pieces.len());
        for mut piece in pieces {
            while !piece.is_empty() {
                let bytes = piece.split_to(piece.len().min(READ_MESSAGE_BYTES_MAX));
                let share = held.split(bytes.len());
                counted.push_back(Bytes::from_owner(CountedBytes { bytes, _held: share }));
            }
        }
        let (messages, taken) = mpsc::channel::<Option<BytesMessage>>(1);
        let taken = stream::unfold(Some(taken), |taken| async move {
            let mut taken = taken?;
            match taken.recv().await {
                Some(Some(message)) => Some((message.map(Ok).to_vec(), Some(taken))),
                Some(None) => None,
                None => Some((vec![Err(Status::deadline_exceeded("the peer reads too slowly"))], None)),
            }
        });
        (Self { pieces: counted, messages }, taken.map(stream::iter).flatten())
    }

    /// Sends them, until the peer reads none for `stall_max` or is gone: those that were not sent are given
    /// back then.
    pub(super) async fn send(mut self, stall_max: Duration) {
        while let Some(piece) = self.pieces.pop_front() {
            let message = [frame::bytes_head(piece.len()), piece];
            match timeout(stall_max, self.messages.send(Some(message))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
        drop(timeout(stall_max, self.messages.send(None)).await);
    }
}

/// An answer of messages, and the status behind the last of them.
pub(super) fn response(
    messages: impl Stream<Item = Result<Bytes, Status>> + Send + 'static,
) -> http::Response<Body> {
    let frames = stream::unfold(Some(Box::pin(messages)), |messages| async move {
        let mut messages = messages?;
        let (status, left) = match messages.next().await {
            Some(Ok(bytes)) => return Some((Ok::<_, Status>(Frame::data(bytes)), Some(messages))),
            Some(Err(status)) => (status, None),
            None => (Status::ok(""), None),
        };
        let mut trailers = HeaderMap::new();
        // A text that no header can carry leaves the code.
        if status.add_header(&mut trailers).is_err() {
            trailers.insert("grpc-status", HeaderValue::from(i32::from(status.code())));
        }
        Some((Ok(Frame::trailers(trailers)), left))
    });
    let mut response = http::Response::new(Body::new(StreamBody::new(frames)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
