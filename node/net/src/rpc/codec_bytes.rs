//! The bytes that gRPC's codec holds of messages that peers send: counted in all and by peer, and bounded in
//! time.
//!
//! ```text
//! buffers of the connection -> CodecBody counts them -> buffer of the codec -> a whole message
//! ```
//! The codec collects a message in a buffer of its stream until it is whole, and keeps the memory of that
//! buffer until the stream ends. So a stream counts for its peer with the most that its buffer ever held, and
//! for the node with the bytes of the message that is not whole. `Write` and `Read` go past the codec and
//! count their bytes themselves ([`super::shard_service`]); [`super::answer`] wraps the body of every other
//! request. A stream whose peer takes no replies is not read: until it is, its message counts and has no end.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use sherd_proto::limits::MESSAGE_BYTES_MAX;

use super::limits::{
    BYTES_STALL_MAX, CODEC_BYTES_MAX, CODEC_STREAM_BYTES, PEER_CODEC_BYTES_MAX, PUT_BYTES_MAX,
};
use crate::wire::messages::PUT_PATH;

/// Room for the bytes of messages that are not whole, of all peers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CodecRoom {
    node: Arc<Semaphore>,
    /// Of the peers with a connection.
    peers: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
    stall_max: Duration,
}

/// The room of one peer, for all its connections together.
#[derive(Debug, Clone)]
pub(super) struct PeerCodecRoom {
    name: Arc<str>,
    peer: Arc<Semaphore>,
    node: Arc<Semaphore>,
    stall_max: Duration,
}

impl Default for CodecRoom {
    fn default() -> Self {
        Self {
            node: Arc::new(Semaphore::new(CODEC_BYTES_MAX)),
            peers: Arc::default(),
            stall_max: BYTES_STALL_MAX,
        }
    }
}

impl CodecRoom {
    /// The room of the peer with this name in its certificate.
    pub(super) fn of_peer(&self, name: &str) -> PeerCodecRoom {
        let mut peers = self.peers.lock();
        let peer = peers.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
            peers.retain(|_, peer| peer.strong_count() > 0);
            let peer = Arc::new(Semaphore::new(PEER_CODEC_BYTES_MAX));
            peers.insert(name.to_owned(), Arc::downgrade(&peer));
            peer
        });
        let (node, stall_max) = (Arc::clone(&self.node), self.stall_max);
        PeerCodecRoom { name: name.into(), peer, node, stall_max }
    }

    #[cfg(test)]
    pub(super) fn with_stall_max(self, stall_max: Duration) -> Self {
        Self { stall_max, ..self }
    }

    /// Bytes of messages that are not whole.
    #[cfg(test)]
    pub(super) fn unfinished_bytes(&self) -> usize {
        CODEC_BYTES_MAX - self.node.available_permits()
    }

    /// Bytes that the codec's buffers for a peer hold, and may keep.
    #[cfg(test)]
    pub(super) fn peer_bytes(&self, name: &str) -> usize {
        let peer = self.peers.lock().get(name).and_then(Weak::upgrade);
        peer.map_or(0, |peer| PEER_CODEC_BYTES_MAX - peer.available_permits())
    }
}

impl PeerCodecRoom {
    /// Begins to count what the codec holds of the body of a request.
    ///
    /// # Errors
    /// The peer has too many of them.
    pub(super) fn body<B>(&self, path: &str, body: B) -> Result<CodecBody<B>, Status> {
        let message_bytes_max = if path == PUT_PATH { PUT_BYTES_MAX } else { MESSAGE_BYTES_MAX };
        let mut bytes = CodecBytes { room: self.clone(), of_peer: None, of_node: None };
        bytes.buffer(CODEC_STREAM_BYTES)?;
        Ok(CodecBody { body, message_bytes_max, place: MessagePlace::default(), bytes, stall: None })
    }

    fn is_full(&self, whose: &str) -> Status {
        let name = &self.name;
        Status::resource_exhausted(format!("no room for more bytes of messages of {name}: {whose} is full"))
    }
}

/// The permits that one stream holds of the room.
#[derive(Debug)]
struct CodecBytes {
    room: PeerCodecRoom,
    of_peer: Option<OwnedSemaphorePermit>,
    of_node: Option<OwnedSemaphorePermit>,
}

impl CodecBytes {
    /// Counts a buffer that has this length, if it had less so far.
    fn buffer(&mut self, bytes: usize) -> Result<(), Status> {
        let (held, room) = (&mut self.of_peer, &self.room);
        if grow(held, &room.peer, bytes) { Ok(()) } else { Err(room.is_full("the room of the peer")) }
    }

    /// Counts the bytes of the message that is not whole.
    fn unfinished(&mut self, bytes: usize) -> Result<(), Status> {
        let (held, room) = (&mut self.of_node, &self.room);
        let is_counted = grow(held, &room.node, bytes);
        if let Some(held) = held {
            drop(held.split(held.num_permits().saturating_sub(bytes)));
        }
        if is_counted { Ok(()) } else { Err(room.is_full("the room of the node")) }
    }
}

/// Lets `held` be at least `bytes`; `false` without room.
fn grow(held: &mut Option<OwnedSemaphorePermit>, room: &Arc<Semaphore>, bytes: usize) -> bool {
    let missing = bytes.saturating_sub(held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
    if missing == 0 {
        return true;
    }
    let Ok(missing) = u32::try_from(missing) else { return false };
    let Ok(more) = Arc::clone(room).try_acquire_many_owned(missing) else { return false };
    match held {
        Some(held) => held.merge(more),
        None => *held = Some(more),
    }
    true
}

/// Where in its messages a body is.
#[derive(Debug, Default)]
struct MessagePlace {
    /// Bytes of the prefix that were read: a flag, and the length of the message.
    prefix: usize,
    length: u32,
    /// Bytes of the message behind its prefix.
    received: usize,
}

impl MessagePlace {
    const PREFIX_BYTES: usize = 5;

    /// Bytes of the message that is not whole.
    const fn unfinished(&self) -> usize {
        self.prefix + self.received
    }

    fn length(&self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }

    /// Moves on by the next bytes, and returns whether a message ended among them.
    ///
    /// # Errors
    /// A message that is too long.
    fn advance(&mut self, mut bytes: &[u8], message_bytes_max: usize) -> Result<bool, Status> {
        let mut has_ended = false;
        loop {
            while self.prefix < Self::PREFIX_BYTES {
                let Some((byte, behind)) = bytes.split_first() else { return Ok(has_ended) };
                if self.prefix > 0 {
                    self.length = self.length << 8 | u32::from(*byte);
                }
                self.prefix += 1;
                bytes = behind;
            }
            let length = self.length();
            if length > message_bytes_max {
                let refused = format!("a message of {length} bytes, and {message_bytes_max} at most");
                return Err(Status::out_of_range(refused));
            }
            let taken = bytes.len().min(length - self.received);
            bytes = bytes.get(taken..).unwrap_or_default();
            self.received += taken;
            if self.received < length {
                return Ok(has_ended);
            }
            (*self, has_ended) = (Self::default(), true);
        }
    }
}

/// The body of a request on its way to the codec.
#[derive(Debug)]
pub(super) struct CodecBody<B> {
    body: B,
    message_bytes_max: usize,
    place: MessagePlace,
    bytes: CodecBytes,
    /// The end of the time that a message has which is not whole.
    stall: Option<Pin<Box<Sleep>>>,
}

impl<B> CodecBody<B> {
    fn take(&mut self, buffer: &Bytes) -> Result<(), Status> {
        // The codec takes every whole message out of its buffer before it asks for more.
        self.bytes.buffer(self.place.unfinished() + buffer.len())?;
        if self.place.advance(buffer, self.message_bytes_max)? {
            self.stall = None;
        }
        self.bytes.unfinished(self.place.unfinished())
    }

    fn poll_stall(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        if self.place.unfinished() == 0 {
            return Poll::Pending;
        }
        let stall_max = self.bytes.room.stall_max;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(stall_max)));
        stall.as_mut().poll(context).map(|()| {
            Status::deadline_exceeded(format!("a message that was begun is not whole after {stall_max:?}"))
        })
    }
}

impl<B> Body for CodecBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = Box<dyn StdError + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let taken = frame.data_ref().map_or(Ok(()), |buffer| this.take(buffer));
                Poll::Ready(Some(taken.map(|()| frame).map_err(Into::into)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => this.poll_stall(context).map(|status| Some(Err(status.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use futures::{StreamExt as _, stream};
    use http_body_util::{BodyExt as _, StreamBody};

    use sherd_store::testing::body;

    /// A message of `length` bytes as it is sent.
    fn message(length: usize) -> Vec<u8> {
        let prefix = u32::try_from(length).expect("short").to_be_bytes();
        [&[0], &prefix[..], &body(1, length)[..]].concat()
    }

    /// A body of these buffers that does not end.
    fn sent(buffers: Vec<Vec<u8>>) -> impl Body<Data = Bytes, Error = Status> + Unpin {
        let buffers = stream::iter(buffers).map(|buffer| Ok(Frame::data(buffer.into())));
        StreamBody::new(buffers.chain(stream::pending()))
    }

    async fn next<B>(body: &mut CodecBody<B>) -> Result<usize, Status>
    where
        B: Body<Data = Bytes, Error = Status> + Unpin,
    {
        let frame = body.frame().await.expect("it does not end").map_err(Status::from_error)?;
        Ok(frame.into_data().expect("data").len())
    }

    #[tokio::test]
    async fn bytes_are_counted_until_their_message_is_whole_however_they_are_cut() {
        let bytes = [message(10), message(0), message(20_000), message(3)].concat();
        for cut in [1, 3, 7, 4096, bytes.len()] {
            let room = CodecRoom::default();
            let buffers: Vec<_> = bytes.chunks(cut).map(<[u8]>::to_vec).collect();
            let mut body = room.of_peer("n1").body("/any", sent(buffers.clone())).expect("room");
            let ends = [15, 20, 20_025, 20_033];
            let mut read = 0;
            for _ in buffers {
                read += next(&mut body).await.expect("it is counted");
                let whole = ends.into_iter().filter(|end| *end <= read).max().unwrap_or(0);
                assert_eq!(room.unfinished_bytes(), read - whole, "cut by {cut}, at {read}");
            }
            let kept = room.peer_bytes("n1");
            assert!((20_005..=bytes.len().max(20_005 + cut)).contains(&kept), "the buffer stays: {kept}");
            drop(body);
            assert_eq!((room.unfinished_bytes(), room.peer_bytes("n1")), (0, 0), "cut by {cut}");
        }
    }

    #[tokio::test]
    async fn a_peer_has_a_bound_of_its_own_over_all_connections() {
        let room = CodecRoom::default();
        let mut part = message(MESSAGE_BYTES_MAX);
        part.pop();
        let mut bodies = Vec::new();
        let refused = loop {
            // Each as of another connection.
            let mut body = room.of_peer("n1").body("/any", sent(vec![part.clone()])).expect("room");
            match next(&mut body).await {
                Ok(_) => bodies.push(body),
                Err(refused) => break refused,
            }
        };
        assert_eq!(bodies.len(), PEER_CODEC_BYTES_MAX / MESSAGE_BYTES_MAX - 1, "with their prefixes");
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(refused.message().contains("n1"), "{refused:?}");
        let mut other = room.of_peer("n2").body("/any", sent(vec![part])).expect("room");
        next(&mut other).await.expect("another peer has its own");
    }

    #[tokio::test]
    async fn a_put_is_as_long_as_a_packed_shard_with_its_fields() {
        let room = CodecRoom::default().of_peer("n1");
        let longest = message(PUT_BYTES_MAX);
        let longer = u32::try_from(PUT_BYTES_MAX + 1).expect("short").to_be_bytes();
        let longer = [&[0], &longer[..]].concat();
        let mut body = room.body(PUT_PATH, sent(vec![longest, longer.clone()])).expect("room");
        next(&mut body).await.expect("it is taken");
        assert_eq!(next(&mut body).await.expect_err("too long").code(), tonic::Code::OutOfRange);
        let mut body = room.body("/any", sent(vec![longer])).expect("room");
        next(&mut body).await.expect("another method takes it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_has_its_time_and_a_stream_without_one_any() {
        let room = CodecRoom::default().of_peer("n1");
        let mut idle = room.body("/any", sent(vec![message(9)])).expect("room");
        let mut begun = room.body("/any", sent(vec![[message(9), vec![0]].concat()])).expect("room");
        next(&mut idle).await.expect("taken");
        next(&mut begun).await.expect("taken");
        let ended = next(&mut begun).await.expect_err("it is not whole");
        assert_eq!(ended.code(), tonic::Code::DeadlineExceeded);
        let waited = tokio::time::timeout(100 * BYTES_STALL_MAX, next(&mut idle)).await;
        assert!(waited.is_err(), "a stream between two messages may wait: {waited:?}");
    }
}
