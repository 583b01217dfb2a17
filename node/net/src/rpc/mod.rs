//! This node's services for its peers, operators and admins: HTTP/2 over mutual TLS.
//!
//! ```text
//! listener -> handshake -> roles -> codec's bytes -> register, shard, upkeep services -> LocalPeer
//!                                                 \-> admin service
//! ```
//! [`serve`] accepts, and each connection is a task that ends with it. The role in the peer's certificate
//! decides which calls it may make, before a service sees the request.

mod admin_service;
mod call_services;
mod calls;
mod codec_bytes;
mod error;
mod failure;
mod limits;
mod node;
mod pages;
mod requests;
mod roles;
mod shard_bytes;
mod shard_service;
mod work;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::server::Connected as _;
use tower::Service;

use sherd_proto::limits::MESSAGE_BYTES_MAX;
use sherd_proto::v1::register_service_server::RegisterServiceServer;
use sherd_proto::v1::upkeep_service_server::UpkeepServiceServer;

pub use self::admin_service::{AdminRpc, NodeControl};
use self::call_services::CallRpc;
pub use self::codec_bytes::CodecRoom;
use self::codec_bytes::PeerCodecRoom;
use self::limits::{ACCEPT_PAUSE, HANDSHAKES_MAX, SHUTDOWN_MAX, connections_max};
pub use self::node::{LocalPeerCell, RpcNode};
pub use self::requests::{AdminHttp, AdminHttpHandler, NoAnswer};
use self::shard_service::{ShardRoutes, ShardRpc};
use crate::tls::{AcceptError, ConnectedPeer, ConnectionPlace, ConnectionPlaces, RefusalLog, Trust};
use crate::wire::messages::{READ_PATH, WRITE_PATH};
use crate::wire::{self, ConnectionAge, TrackedExecutor};
use sherd_store::observe::metrics::RpcMetrics;

/// Makes the services that answer for this node's volumes. The admin service is added to them.
///
/// Bytes that peers read are sent by `tasks`.
pub fn volume_services(
    node: &RpcNode,
    metrics: &RpcMetrics,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Routes {
    let register = CallRpc::new(node.clone(), metrics.register.clone(), stop.clone());
    let shard = ShardRpc::new(node.clone(), metrics.shard.clone(), stop.clone());
    let upkeep = CallRpc::new(node.clone(), metrics.upkeep.clone(), stop.clone());
    Routes::new(
        RegisterServiceServer::new(register)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX),
    )
    .add_service(ShardRoutes::new(shard, tasks.clone()))
    .add_service(
        UpkeepServiceServer::new(upkeep)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX),
    )
}

/// The peers that may connect, and for how long.
#[derive(Debug, Clone)]
pub struct ConnectionRules {
    /// The certificates.
    pub trust: Trust,
    /// The names of the configured nodes.
    pub nodes: Arc<[String]>,
    /// How long a connection may outlive the certificates that it began with.
    pub age: ConnectionAge,
    /// The bytes that gRPC's codec holds of their messages.
    pub codec: CodecRoom,
}

/// Serves until `stop`, and returns when every connection has ended: those that go on are cut off 5 s later.
pub async fn serve(
    listener: TcpListener,
    rules: ConnectionRules,
    services: Routes,
    metrics: RpcMetrics,
    stop: CancellationToken,
) {
    let connections = Arc::new(Semaphore::new(connections_max(rules.nodes.len())));
    let (services, refusals, cut) = (services.prepare(), RefusalLog::default(), CancellationToken::new());
    let server = Arc::new(Server { rules, services, metrics, refusals, stop, cut });
    let places = ConnectionPlaces::new(HANDSHAKES_MAX);
    let tasks = TaskTracker::new();
    let accept = async {
        loop {
            match listener.accept().await {
                Ok(accepted) => {
                    let server = Arc::clone(&server);
                    let (place, connections) = (places.take(accepted.1.ip()), Arc::clone(&connections));
                    let executor = TrackedExecutor(tasks.clone());
                    tasks.spawn(async move {
                        server.serve_connection(accepted, place, connections, executor).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept a connection of a peer");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    // Cancel-safe: a connection that was not accepted stays in the listener's queue.
    tokio::select! {
        biased;
        () = server.stop.cancelled() => {}
        () = accept => {}
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(SHUTDOWN_MAX, tasks.wait()).await.is_err() {
        server.cut.cancel();
        tasks.wait().await;
    }
}

/// Serves each connection.
struct Server {
    rules: ConnectionRules,
    services: Routes,
    metrics: RpcMetrics,
    refusals: RefusalLog,
    stop: CancellationToken,
    /// Ends connections that did not end by themselves.
    cut: CancellationToken,
}

impl Server {
    async fn serve_connection(
        &self,
        (stream, from): (TcpStream, SocketAddr),
        place: ConnectionPlace,
        connections: Arc<Semaphore>,
        executor: TrackedExecutor,
    ) {
        // Cancel-safe: a dropped handshake closes its socket.
        let accepted = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            accepted = self.rules.trust.accept(stream) => accepted,
            () = place.lost() => Err(AcceptError::GaveWay),
        };
        drop(place);
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => return self.refusals.log(from, &error),
        };
        let Ok(_connection) = connections.try_acquire_owned() else {
            return self.refusals.log(from, &AcceptError::TooMany);
        };
        let (peer, name, generation) =
            (accepted.connect_info(), accepted.peer.dns_name(), accepted.generation);
        self.metrics.connections.inc();
        let services = self.services.clone();
        let (nodes, codec) = (Arc::clone(&self.rules.nodes), self.rules.codec.of_peer(&name));
        let answer = service_fn(move |request| {
            answer(request, peer.clone(), Arc::clone(&nodes), codec.clone(), services.clone())
        });
        let connection = http2::Builder::new(executor)
            .timer(TokioTimer::new())
            .initial_stream_window_size(wire::limits::STREAM_WINDOW_BYTES)
            .initial_connection_window_size(wire::limits::CONNECTION_WINDOW_BYTES)
            .max_frame_size(wire::limits::H2_FRAME_BYTES)
            .max_concurrent_streams(wire::limits::STREAMS_MAX)
            .keep_alive_interval(wire::limits::PING_EVERY)
            .keep_alive_timeout(wire::limits::PING_ANSWER_MAX)
            // Peers drop reads whenever others answered first: no number of them is an attack.
            .max_pending_accept_reset_streams(wire::limits::STREAMS_MAX as usize)
            .max_local_error_reset_streams(wire::limits::RESETS_MAX)
            .serve_connection(TokioIo::new(accepted), answer);
        let mut connection = std::pin::pin!(connection);
        // Cancel-safe: the connection is borrowed, and goes on below.
        let ended = tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(SHUTDOWN_MAX),
            ended = connection.as_mut() => Ok(ended),
            () = self.rules.age.outliving(&self.rules.trust, generation) => Err(self.rules.age.last_quarter()),
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(patience) => {
                connection.as_mut().graceful_shutdown();
                // Cancel-safe: what is dropped is cut off.
                tokio::select! {
                    biased;
                    ended = connection => ended,
                    () = self.cut.cancelled() => Ok(()),
                    () = tokio::time::sleep(patience) => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(peer = %name, %error, "connection of a peer ended");
        }
        self.metrics.connections.dec();
    }
}

/// Answers one request, if the peer may ask it.
async fn answer(
    mut request: Request<Incoming>,
    peer: ConnectedPeer,
    nodes: Arc<[String]>,
    codec: PeerCodecRoom,
    mut services: Routes,
) -> Result<Response<Body>, Infallible> {
    if let Err(status) = roles::judge(request.uri().path(), peer.identity(), &nodes) {
        return Ok(status.into_http());
    }
    request.extensions_mut().insert(peer);
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if [WRITE_PATH, READ_PATH].contains(&path) {
        return services.call(Request::from_parts(head, body)).await;
    }
    match codec.body(path, body) {
        Ok(body) => services.call(Request::from_parts(head, body)).await,
        Err(status) => Ok(status.into_http()),
    }
}

#[cfg(test)]
mod tests;
