//! The body of a request, with a deadline for every piece.
//!
//! A client that stops sending in the middle of a body would hold its buffers and its place for
//! ever; it gets an error after the stall timeout instead. The time counts only while the server
//! wants bytes, so a slow disk is never blamed on a client.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

/// Why a body ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyStalled {
    /// The connection or the framing failed.
    #[error("receive body")]
    Connection(#[source] hyper::Error),
    /// No byte came for too long.
    #[error("no byte of the body came for {after:?}")]
    Stalled {
        /// The stall timeout.
        after: Duration,
    },
}

pin_project_lite::pin_project! {
    /// A request's body.
    #[derive(Debug)]
    pub struct RequestBody<B = Incoming> {
        #[pin]
        body: B,
        timeout: Duration,
        // Made when the first piece is not there yet; most small bodies come with their head.
        deadline: Option<Pin<Box<Sleep>>>,
        waiting: bool,
    }
}

impl<B> RequestBody<B> {
    /// Wraps a body.
    pub fn new(body: B, timeout: Duration) -> Self {
        Self { body, timeout, deadline: None, waiting: false }
    }
}

impl<B: Body<Data = Bytes, Error = hyper::Error>> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = BodyStalled;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyStalled>>> {
        let this = self.project();
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            *this.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyStalled::Connection)));
        }
        let after = *this.timeout;
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
        if !*this.waiting {
            *this.waiting = true;
            deadline.as_mut().reset(Instant::now() + after);
        }
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyStalled::Stalled { after })))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
