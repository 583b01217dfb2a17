//! One HTTP/2 connection to a peer, as the generated clients take it.
//!
//! There is no channel that connects by itself: a connection that ends is over, every call on it fails at
//! once, and its link makes another. Its task ends when the connection does, which is how the link sees it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;
use tonic::body::Body;

use crate::peer::wire::{self, TrackedExecutor};

/// Sends requests over one connection.
#[derive(Debug, Clone)]
pub struct Connection {
    requests: http2::SendRequest<Body>,
}

/// Drives a connection; ends with it.
pub(super) type Driver = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

impl Connection {
    /// Greets over a stream. The driver must be polled for anything to move.
    ///
    /// # Errors
    /// The other end does not speak HTTP/2.
    pub(super) async fn open<S>(stream: S, tasks: &TaskTracker) -> Result<(Self, Driver), hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (requests, connection) = http2::Builder::new(TrackedExecutor(tasks.clone()))
            .timer(TokioTimer::new())
            .initial_stream_window_size(wire::STREAM_WINDOW_BYTES)
            .initial_connection_window_size(wire::CONNECTION_WINDOW_BYTES)
            .max_frame_size(wire::H2_FRAME_BYTES)
            .keep_alive_interval(wire::PING_EVERY)
            .keep_alive_timeout(wire::PING_ANSWER_MAX)
            .keep_alive_while_idle(true)
            // Reads are dropped whenever others answered first: no number of them is an attack by this peer.
            .max_concurrent_reset_streams(wire::STREAMS_MAX as usize)
            .max_local_error_reset_streams(None)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok((Self { requests }, Box::pin(connection)))
    }
}

impl tower::Service<http::Request<Body>> for Connection {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.requests.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.requests.send_request(request))
    }
}
