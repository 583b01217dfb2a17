//! A request's body that tells when it is left unread.
//!
//! Whoever answers early (no such bucket, volumes full) does not read the body. The client still sends
//! it, and a socket that is closed on bytes nobody read resets the connection: the client may lose the
//! answer that lies in its own receive buffer (RFC 9112, section 9.6). The connection has to know.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// What a connection knows of the bodies of its requests. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(Arc<AtomicBool>);

impl Unread {
    /// Whether the last body was given up before its end.
    pub(super) fn is_some(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The body of a request.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    /// Its end was seen; a body of unknown length says so in no other way.
    has_ended: bool,
    unread: Unread,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, unread: Unread) -> Self {
        unread.0.store(false, Ordering::Release);
        Self { incoming, has_ended: false, unread }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.is_end_stream() {
            self.unread.0.store(true, Ordering::Release);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        self.has_ended |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
