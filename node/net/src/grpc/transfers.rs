//! Bytes of shards in one call: a packed shard put, a range read past the codec of gRPC.
//!
//! Each transfer is a task, since its call must move on before its answer is looked at: a put whose caller
//! stopped waiting is still made. A read ends when its caller is gone.

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use tonic::body::Body;

use sherd_core::id::{Life, ShardId};
use sherd_core::message::{Error, Result, ShardRange, Target};
use sherd_proto::convert::{Wire, timeout_to_wire};
use sherd_proto::frame::{self, FrameReader};
use sherd_proto::v1::{Addressed, PutShard, ReadShard, ShardBytes};

use super::connection::Connection;
use super::limits::{BYTES_STALL_MAX, PIECE_BYTES_COPIED_BELOW};
use super::link::Link;
use super::reply::answered;
use super::reply::unreachable;
use super::status::{error_chain, status_with_causes};
use crate::wire::messages::{BodyPart, MessageBody, READ_PATH};
use sherd_store::observe::peer_calls::LoggedCall;
use sherd_store::peer::watch::{CallLength, CallWatch};
use sherd_store::peer::{AnswerSender, Pending};

/// The link that a transfer goes over, its volume, and how it is watched and logged.
pub(super) struct Transfer<'a> {
    pub(super) link: &'a Link,
    pub(super) to: Addressed,
    pub(super) watch: CallWatch,
    pub(super) length: CallLength,
    pub(super) logged: Option<Box<LoggedCall>>,
}

pub(super) fn put(
    transfer: Transfer<'_>,
    shard: ShardId,
    target: &Target,
    payload: Vec<Bytes>,
) -> Pending<Life> {
    let request = PutShard {
        sender: Some(transfer.link.sender()),
        to: Some(transfer.to.clone()),
        timeout_ms: timeout_to_wire(BYTES_STALL_MAX),
        shard: Some(shard.to_wire()),
        target: Some(target.to_wire()),
        payload: joined(payload),
    };
    transfer.run(|connection, answering| async move {
        let answer = tokio::time::timeout(BYTES_STALL_MAX, connection.shards().put(request)).await;
        answering.answer(match answer {
            Ok(Ok(reply)) => answered(reply.into_inner().reply),
            Ok(Err(status)) => Err(unreachable(status_with_causes(&status))),
            Err(_elapsed) => Err(unreachable("no answer in time")),
        });
    })
}

pub(super) fn read(transfer: Transfer<'_>, range: ShardRange) -> Pending<Vec<Bytes>> {
    let request = ReadShard {
        sender: Some(transfer.link.sender()),
        to: Some(transfer.to.clone()),
        timeout_ms: timeout_to_wire(BYTES_STALL_MAX),
        range: Some(range.to_wire()),
    };
    let length = range.length;
    transfer.run(move |connection, mut answering: AnswerSender<Vec<Bytes>>| async move {
        // Cancel-safe: a read that is dropped resets its stream, and nothing else is done.
        let answer = tokio::select! {
            biased;
            () = answering.closed() => return,
            answer = read_bytes(connection, &request, length) => answer,
        };
        answering.answer(answer);
    })
}

/// Bytes of a read in the order in which they come: long ones in the buffers of the connection, and short
/// ones that follow one another copied into one buffer. Each piece costs a handle, and keeps the whole buffer
/// that it came in; a peer could send one byte a message.
#[derive(Debug, Default)]
struct ReadPieces {
    pieces: Vec<Bytes>,
    /// Short ones behind them.
    short: BytesMut,
}

impl ReadPieces {
    fn push(&mut self, bytes: Bytes) {
        if bytes.len() < PIECE_BYTES_COPIED_BELOW {
            return self.short.extend_from_slice(&bytes);
        }
        self.end_short();
        self.pieces.push(bytes);
    }

    fn end_short(&mut self) {
        if !self.short.is_empty() {
            self.pieces.push(std::mem::take(&mut self.short).freeze());
        }
    }

    fn all(mut self) -> Vec<Bytes> {
        self.end_short();
        self.pieces
    }
}

/// Reads bytes as they come.
async fn read_bytes(mut connection: Connection, request: &ReadShard, length: u64) -> Result<Vec<Bytes>> {
    let asked = connection
        .ask(READ_PATH, Body::new(Full::new(frame::message(request)).map_err(|never| match never {})));
    let response = in_time(asked).await?.map_err(|error| unreachable(error_chain(&error)))?;
    let mut parts =
        MessageBody::of_answer(response, FrameReader::of_bytes()).map_err(|status| failed(&status))?;
    let (mut read, mut count) = (ReadPieces::default(), 0);
    while let Some(part) = in_time(parts.next::<ShardBytes>()).await?.map_err(|status| failed(&status))? {
        let bytes: Bytes = match part {
            // Bytes are counted as they come: a peer cannot announce more than it sends.
            BodyPart::Start(_) => continue,
            BodyPart::Bytes(bytes) => bytes,
            BodyPart::Message(ShardBytes { part }) => answered(part)?,
        };
        count += bytes.len() as u64;
        if count > length {
            return Err(unreachable("the peer sends more bytes than were asked for"));
        }
        read.push(bytes);
    }
    parts.ended_well().map_err(|status| failed(&status))?;
    if count < length {
        return Err(unreachable(format!("the peer sent {count} bytes of {length}")));
    }
    Ok(read.all())
}

async fn in_time<T>(step: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(BYTES_STALL_MAX, step).await.map_err(|_elapsed| unreachable("no bytes in time"))
}

fn failed(status: &tonic::Status) -> Error {
    unreachable(status_with_causes(status))
}

impl Transfer<'_> {
    /// Runs as a task of the link. Where its connection was lost within
    /// [`RETURN_MAX`](super::limits::RETURN_MAX), it waits for the next one.
    fn run<R: Send + 'static, F: Future<Output = ()> + Send + 'static>(
        self,
        run: impl FnOnce(Connection, AnswerSender<R>) -> F + Send + 'static,
    ) -> Pending<R> {
        let connection = match self.link.bytes() {
            Err(error) if !self.link.was_lost_lately() => return Pending::ready(Err(error)),
            connection => connection,
        };
        let (answering, pending) = Pending::begin(self.length, &self.watch);
        let (answering, link) = (answering.logging(self.logged), self.link.clone());
        let transfer = async move {
            let connection = match connection {
                Ok(connection) => Ok(connection),
                Err(_lost) => link.bytes_again().await,
            };
            match connection {
                Ok(connection) => run(connection, answering).await,
                Err(error) => answering.answer(Err(error)),
            }
        };
        match self.link.transfer(&self.watch, transfer) {
            Ok(()) => pending,
            Err(error) => Pending::<R>::ready(Err::<R, Error>(error)),
        }
    }
}

fn joined(pieces: Vec<Bytes>) -> Bytes {
    match <[Bytes; 1]>::try_from(pieces) {
        Ok([piece]) => piece,
        Err(pieces) => {
            let mut joined = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
            for piece in &pieces {
                joined.extend_from_slice(piece);
            }
            joined.freeze()
        }
    }
}
