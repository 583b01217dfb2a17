//! The messages of a body of HTTP/2 that carries bytes of shards, past the codec of gRPC. Both ends read
//! with this: the listener what is written and asked for, the dialler the answers.

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use prost::Message;
use tonic::Status;

use sherd_proto::frame::{FramePart, FrameReader};

/// The path of `ShardService.Put`, whose one message goes through the codec.
pub(crate) const PUT_PATH: &str = "/sherd.v1.ShardService/Put";
/// The path of `ShardService.Write`.
pub(crate) const WRITE_PATH: &str = "/sherd.v1.ShardService/Write";
/// The path of `ShardService.Read`.
pub(crate) const READ_PATH: &str = "/sherd.v1.ShardService/Read";

/// A body, message by message. Every method is cancel-safe.
#[derive(Debug)]
pub(crate) struct MessageBody<B> {
    body: B,
    frames: FrameReader,
    trailers: Option<HeaderMap>,
}

/// The next part of a body.
#[derive(Debug)]
pub(crate) enum BodyPart<M> {
    /// A message that is not bytes of a shard alone.
    Message(M),
    /// This number of bytes of a shard, at least one, as [`BodyPart::Bytes`].
    Start(usize),
    /// Some of them, at least one.
    Bytes(Bytes),
}

impl<B> MessageBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    /// `frames` says whether the messages carry bytes of shards.
    pub(crate) const fn of(body: B, frames: FrameReader) -> Self {
        Self { body, frames, trailers: None }
    }

    /// Reads the next part; `None` at the end.
    ///
    /// # Errors
    /// The body broke off, or has other bytes than messages. Nothing behind that is read.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> Result<Option<BodyPart<M>>, Status> {
        loop {
            match self.frames.part().map_err(|fault| Status::invalid_argument(fault.to_string()))? {
                Some(FramePart::Message(message)) => {
                    let message =
                        M::decode(message).map_err(|error| Status::invalid_argument(error.to_string()))?;
                    return Ok(Some(BodyPart::Message(message)));
                }
                Some(FramePart::Start(count)) => return Ok(Some(BodyPart::Start(count))),
                Some(FramePart::Bytes(bytes)) => return Ok(Some(BodyPart::Bytes(bytes))),
                None => match self.body.frame().await {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(buffer) => self.frames.push(buffer),
                        Err(frame) => self.trailers = frame.into_trailers().ok(),
                    },
                    Some(Err(error)) => return Err(Status::from_error(error.into())),
                    None => {
                        let ended = self.frames.end();
                        return ended
                            .map(|()| None)
                            .map_err(|fault| Status::invalid_argument(fault.to_string()));
                    }
                },
            }
        }
    }

    /// The status at the end of an answer, which must be read to its end.
    ///
    /// # Errors
    /// It is not OK, or missing.
    pub(crate) fn ended_well(&self) -> Result<(), Status> {
        status_of(self.trailers.as_ref()).unwrap_or_else(|| Err(Status::unknown("the answer has no status")))
    }
}

impl MessageBody<hyper::body::Incoming> {
    /// The messages of an answer.
    ///
    /// # Errors
    /// Its head has a status.
    pub(crate) fn of_answer(
        response: http::Response<hyper::body::Incoming>,
        frames: FrameReader,
    ) -> Result<Self, Status> {
        let (head, body) = response.into_parts();
        if head.status != http::StatusCode::OK {
            return Err(Status::unknown(format!("the peer answers with HTTP status {}", head.status)));
        }
        status_of(Some(&head.headers)).unwrap_or(Ok(()))?;
        Ok(Self::of(body, frames))
    }
}

/// The status in headers or trailers, where there is one.
fn status_of(headers: Option<&HeaderMap>) -> Option<Result<(), Status>> {
    let status = Status::from_header_map(headers?)?;
    Some(if status.code() == tonic::Code::Ok { Ok(()) } else { Err(status) })
}
