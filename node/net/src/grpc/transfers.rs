//! Bytes of shards in one call: a packed shard put, a range read.
//!
//! Each transfer is a task, since its call must move on before its answer is looked at: a put whose caller
//! stopped waiting is still made. A read ends when its caller is gone.

use bytes::{Bytes, BytesMut};

use sherd_core::id::{Incarnation, ShardId};
use sherd_core::message::{Error, Result, ShardRange, Target};
use sherd_proto::convert::{Wire, timeout_to_wire};
use sherd_proto::v1::shard_service_client::ShardServiceClient;
use sherd_proto::v1::{Addressed, PutShard, ReadShard, ShardBytes};

use super::connection::Connection;
use super::limits::BYTES_STALL_MAX;
use super::link::Link;
use super::reply::answered;
use super::reply::unreachable;
use super::status::status_with_causes;
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
) -> Pending<Incarnation> {
    let request = PutShard {
        sender: Some(transfer.link.sender()),
        to: Some(transfer.to.clone()),
        timeout_ms: timeout_to_wire(BYTES_STALL_MAX),
        shard: Some(shard.to_wire()),
        target: Some(target.to_wire()),
        payload: joined(payload),
    };
    transfer.run(|mut client, answering| async move {
        let answer = tokio::time::timeout(BYTES_STALL_MAX, client.put(request)).await;
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
    transfer.run(move |client, mut answering: AnswerSender<Vec<Bytes>>| async move {
        // Cancel-safe: a read that is dropped resets its stream, and nothing else is done.
        let answer = tokio::select! {
            biased;
            () = answering.closed() => return,
            answer = read_frames(client, request, length) => answer,
        };
        answering.answer(answer);
    })
}

async fn read_frames(
    mut client: ShardServiceClient<Connection>,
    request: ReadShard,
    length: u64,
) -> Result<Vec<Bytes>> {
    let mut frames = in_time(client.read(request)).await?.into_inner();
    let (mut read, mut count) = (Vec::new(), 0);
    while let Some(ShardBytes { part }) = in_time(frames.message()).await? {
        let bytes: Bytes = answered(part)?;
        count += bytes.len() as u64;
        if count > length {
            return Err(unreachable("the peer sends more bytes than were asked for"));
        }
        read.push(bytes);
    }
    if count < length {
        return Err(unreachable(format!("the peer sent {count} bytes of {length}")));
    }
    Ok(read)
}

async fn in_time<T>(step: impl Future<Output = std::result::Result<T, tonic::Status>>) -> Result<T> {
    match tokio::time::timeout(BYTES_STALL_MAX, step).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(status)) => Err(unreachable(status_with_causes(&status))),
        Err(_elapsed) => Err(unreachable("no bytes in time")),
    }
}

impl Transfer<'_> {
    /// Runs as a task of the link. Where its connection was lost within
    /// [`RETURN_MAX`](super::limits::RETURN_MAX), it waits for the next one.
    fn run<R: Send + 'static, F: Future<Output = ()> + Send + 'static>(
        self,
        run: impl FnOnce(ShardServiceClient<Connection>, AnswerSender<R>) -> F + Send + 'static,
    ) -> Pending<R> {
        let client = match self.link.bytes() {
            Err(error) if !self.link.was_lost_lately() => return Pending::ready(Err(error)),
            client => client,
        };
        let (answering, pending) = Pending::begin(self.length, &self.watch);
        let (answering, link) = (answering.logging(self.logged), self.link.clone());
        let transfer = async move {
            let client = match client {
                Ok(client) => Ok(client),
                Err(_lost) => link.bytes_again().await,
            };
            match client {
                Ok(client) => run(client, answering).await,
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
