//! One HTTP/2 connection to a peer, as the generated clients take it.
//!
//! It does not connect again by itself: a connection that ends is over, every call on it fails at
//! once, and its link makes another. Its driver ends when it takes no further request, which is how the link
//! sees that; its other tasks end with the calls under way, or when it is cut.

use std::future::Future;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;

use sherd_proto::limits::MESSAGE_BYTES_MAX;
use sherd_proto::v1::shard_service_client::ShardServiceClient;

use crate::wire;

/// The scheme and authority that requests name. The connection decides which peer is asked.
const ORIGIN: &str = "https://sherd";

/// Sends requests over one connection.
#[derive(Debug, Clone)]
pub struct Connection {
    requests: http2::SendRequest<Body>,
}

/// The tasks of one connection. Dropped, it cuts the connection off.
#[derive(Debug)]
pub(super) struct ConnectionTasks(TaskSpawner);

/// Spawns tasks of one connection, and nothing once it is cut.
#[derive(Debug, Clone)]
struct TaskSpawner {
    /// Where the link's owner waits for them.
    all: TaskTracker,
    own: TaskTracker,
    cut: CancellationToken,
}

/// Why a connection takes no further request; `None` where it was cut.
pub(super) type DriverEnd = Option<Result<(), hyper::Error>>;

impl ConnectionTasks {
    /// None yet; they will be among `all`.
    pub(super) fn new(all: &TaskTracker) -> Self {
        let own = TaskTracker::new();
        own.close();
        Self(TaskSpawner { all: all.clone(), own, cut: CancellationToken::new() })
    }

    /// Returns when the connection is over: nothing is under way on it. Cancel-safe.
    pub(super) async fn ended(&self) {
        self.0.own.wait().await;
    }
}

impl Drop for ConnectionTasks {
    fn drop(&mut self) {
        self.0.cut.cancel();
    }
}

impl TaskSpawner {
    fn spawn<F>(&self, task: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let task = self.cut.clone().run_until_cancelled_owned(task);
        self.all.spawn(self.own.track_future(task))
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for TaskSpawner {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

impl Connection {
    /// Greets over a stream. The handle ends when the connection takes no further request.
    ///
    /// # Errors
    /// The other end does not speak HTTP/2.
    pub(super) async fn open<S>(
        stream: S,
        tasks: &ConnectionTasks,
    ) -> Result<(Self, JoinHandle<DriverEnd>), hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (requests, connection) = http2::Builder::new(tasks.0.clone())
            .timer(TokioTimer::new())
            .initial_stream_window_size(wire::limits::STREAM_WINDOW_BYTES)
            .initial_connection_window_size(wire::limits::CONNECTION_WINDOW_BYTES)
            .max_frame_size(wire::limits::H2_FRAME_BYTES)
            .keep_alive_interval(wire::limits::PING_EVERY)
            .keep_alive_timeout(wire::limits::PING_ANSWER_MAX)
            .keep_alive_while_idle(true)
            // Reads are dropped whenever others answered first: no number of them is an attack by this peer.
            .max_concurrent_reset_streams(wire::limits::STREAMS_MAX as usize)
            .max_local_error_reset_streams(wire::limits::RESETS_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok((Self { requests }, tasks.0.spawn(connection)))
    }

    /// A client of the calls of shards that go through the codec.
    pub(super) fn shards(&self) -> ShardServiceClient<Self> {
        ShardServiceClient::with_origin(self.clone(), origin())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Asks for a method whose messages go past the codec.
    pub(crate) fn ask(
        &mut self,
        path: &'static str,
        body: Body,
    ) -> impl Future<Output = Result<http::Response<Incoming>, hyper::Error>> + Send + use<> {
        let mut request = http::Request::new(body);
        *request.method_mut() = http::Method::POST;
        *request.version_mut() = http::Version::HTTP_2;
        let mut uri = origin().into_parts();
        uri.path_and_query = Some(PathAndQuery::from_static(path));
        *request.uri_mut() = Uri::from_parts(uri).expect("an origin and a path");
        let headers = request.headers_mut();
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        self.requests.send_request(request)
    }
}

/// The origin of every request to a peer.
pub(super) fn origin() -> Uri {
    Uri::from_static(ORIGIN)
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
