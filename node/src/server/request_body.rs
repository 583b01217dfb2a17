//! A request's body that notes whether it is being read, and whether it was left unread, and gives its
//! request's place back while it waits for a slow client.
//!
//! An operation that answers early (no such bucket, volumes full) does not read the body. The client still
//! sends it, and a socket that is closed on unread bytes resets the connection: the client may lose the
//! answer that lies in its own receive buffer (RFC 9112, section 9.6). The connection has to know.
//!
//! A connection's read buffer grows with what is read at one time and never shrinks. Only bodies are worth
//! that: between them little is read at a time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use sherd_front::audit::record::AuditRecord;
use tokio::time::Instant;

use super::body_place::{BodyPlace, ClientWaits, ConnectionPace};
use super::exchange::Exchange;
use crate::server::limits::HEAD_READ_BYTES;
use sherd_s3::wire::body::{BodyGaveWay, TransportError};
use sherd_store::observe::trace::{self, Phase};

/// The state of the bodies of a connection's requests. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyState(Arc<SharedBodyState>);

#[derive(Debug, Default)]
struct SharedBodyState {
    pace: ConnectionPace,
    is_unread: AtomicBool,
    is_under_way: AtomicBool,
    has_grown: AtomicBool,
}

impl BodyState {
    /// Whether the last body was given up before its end, or what came behind it.
    pub(super) fn is_unread(&self) -> bool {
        self.0.is_unread.load(Ordering::Acquire)
    }

    /// Further bytes of the client are not read: its close lingers as after a body that was given up.
    pub(super) fn end(&self) {
        self.0.is_unread.store(true, Ordering::Release);
    }

    /// Bytes that may be read at a time now.
    pub(super) fn read_bytes_max(&self) -> usize {
        if self.0.is_under_way.load(Ordering::Acquire) { usize::MAX } else { HEAD_READ_BYTES }
    }

    /// Takes note of how much was read at a time.
    pub(super) fn read(&self, bytes: usize) {
        if bytes > HEAD_READ_BYTES {
            self.0.has_grown.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the connection's read buffer is larger than one for heads.
    pub(super) fn has_grown(&self) -> bool {
        self.0.has_grown.load(Ordering::Relaxed)
    }
}

/// The body of a request.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    /// The end was seen; a body of unknown length shows it in no other way.
    has_ended: bool,
    /// Since when its client lets it wait.
    waits_since: Option<Instant>,
    state: BodyState,
    record: Option<AuditRecord>,
    /// There where its request has a place.
    waits: Option<ClientWaits>,
    /// Of a write whose last bytes were not passed on.
    write: Option<UnbegunWrite>,
}

/// A write that is read, and not begun.
struct UnbegunWrite {
    exchange: Exchange,
    /// The last frame, and the look at the client that it waits for.
    last: Option<(BodyFrame, ClientLook)>,
}

impl fmt::Debug for UnbegunWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnbegunWrite").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

type BodyFrame = Option<Result<Frame<Bytes>, TransportError>>;

type ClientLook = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

impl RequestBody {
    pub(super) fn new(incoming: Incoming, state: BodyState, record: Option<AuditRecord>) -> Self {
        state.0.is_unread.store(false, Ordering::Release);
        state.0.is_under_way.store(!incoming.is_end_stream(), Ordering::Release);
        Self { incoming, has_ended: false, waits_since: None, state, record, waits: None, write: None }
    }
}

impl RequestBody {
    /// Has the place of its request, to give it back while it waits for its client.
    pub(super) fn hold(&mut self, place: BodyPlace) {
        self.waits = Some(ClientWaits::new(place, self.state.0.pace.clone()));
    }

    /// Begins a request that changes something: its last bytes pass once its client is in no doubt.
    pub(super) fn begin_write(&mut self, exchange: Exchange) {
        self.write = Some(UnbegunWrite { exchange, last: None });
    }

    /// Waits until the write that has no body may begin; one that has a body waits for its last bytes.
    pub(super) async fn may_begin(&self) {
        let Some(UnbegunWrite { exchange, .. }) = self.write.as_ref().filter(|_| self.is_end_stream()) else {
            return;
        };
        trace::is_whole(exchange.whole_write());
        if exchange.is_in_doubt() {
            exchange.clone().look().await;
        }
    }

    /// Passes a frame on, the last one of a write once its client is in no doubt.
    fn poll_pass(&mut self, frame: BodyFrame, cx: &mut Context<'_>) -> Poll<BodyFrame> {
        let is_last = self.is_end_stream();
        let Some(write) = self.write.as_mut().filter(|_| is_last) else {
            return Poll::Ready(frame);
        };
        trace::is_whole(write.exchange.whole_write());
        if !write.exchange.is_in_doubt() {
            return Poll::Ready(frame);
        }
        let look = Box::pin(write.exchange.clone().look());
        write.last = Some((frame, look));
        self.poll_last(cx)
    }

    /// Passes the last frame on once its client was looked at.
    fn poll_last(&mut self, cx: &mut Context<'_>) -> Poll<BodyFrame> {
        let Some((_, look)) = self.write.as_mut().and_then(|write| write.last.as_mut()) else {
            return Poll::Ready(None);
        };
        ready!(look.as_mut().poll(cx));
        Poll::Ready(self.write.take().and_then(|write| write.last).and_then(|(frame, _)| frame))
    }

    /// Counts what its client let it wait, also where that client went away meanwhile.
    fn count_wait(&mut self) {
        if let Some(since) = self.waits_since.take() {
            trace::add(Phase::Client, since.elapsed());
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.count_wait();
        if !self.is_end_stream() {
            self.state.0.is_unread.store(true, Ordering::Release);
        }
        self.state.0.is_under_way.store(false, Ordering::Release);
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        if self.write.as_ref().is_some_and(|write| write.last.is_some()) {
            return self.poll_last(cx);
        }
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            self.waits_since.get_or_insert_with(Instant::now);
            let Some(waits) = &mut self.waits else { return Poll::Pending };
            ready!(waits.poll(cx));
            return Poll::Ready(Some(Err(BodyGaveWay.into())));
        };
        self.count_wait();
        self.has_ended |= frame.is_none();
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
        let bytes = data.map_or(0, Bytes::len);
        if let Some(record) = &self.record {
            record.received(bytes);
        }
        if let Some(waits) = &mut self.waits {
            waits.end(bytes);
        }
        self.poll_pass(frame.map(|frame| frame.map_err(TransportError::from)), cx)
    }

    fn is_end_stream(&self) -> bool {
        let holds_last = self.write.as_ref().is_some_and(|write| write.last.is_some());
        !holds_last && (self.has_ended || self.incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
