//! HTTP listeners: a bounded number of connections, each with deadlines, and an ordered end.
//!
//! Generic over what answers: the S3 side and the admin side are two closures. A connection has a limited
//! time for a request head and for every move of a response (how long a request body may stand still is the
//! service's business: it has asked for bytes or not). Where nine places of ten are taken, each
//! connection that is accepted takes the place of one without a request. When the process stops,
//! idle connections close at once and requests under way end by themselves; what is left when patience ends
//! is cut. A listener with a certificate speaks TLS, and is the same otherwise.

pub(crate) mod limits;
pub mod admin;
pub mod iam;
pub mod health_paths;
mod admission;
mod body_place;
mod waiting_bodies;
mod exchange;
mod handshakes;
mod live_limits;
mod request_places;
mod shutdown;
mod client_stream;
mod request_body;
mod accept_failures;
mod refused_head;
mod reserve_descriptors;
mod source;
mod transport;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Method, Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::IntGauge;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use self::accept_failures::Shortage;
pub use self::admission::{Admission, AllowPage, GuardedFuture, Refusal, guard};
use self::client_stream::{StreamPlaces, TimedStream};
use self::exchange::Exchange;
use self::handshakes::Handshakes;
pub use self::live_limits::LiveLimits;
pub use self::refused_head::RefuseHead;
use self::refused_head::RefusedHead;
use self::request_body::BodyState;
pub use self::request_body::RequestBody;
use self::reserve_descriptors::SpareDescriptors;
pub use self::shutdown::{Shutdown, on_signals};
pub use self::source::TrustedProxies;
use self::source::{ListenerAudit, Peer};
use self::transport::{Deadlines, Transport};
use crate::audit::{AnswerCount, AuditLog};
use crate::server::limits::{
    ACCEPT_PAUSE, BUFFER_BYTES_MAX, HEAD_BYTES_MAX, LINGERS_MAX, READERS_PAUSED_MAX,
};
use sherd_core::limits::HEADERS_MAX;
use sherd_net::listen::listen;
use sherd_net::tls::{self, ServedCertificate};
use sherd_store::machine::pulse::ProcessPulse;
use sherd_store::machine::reclaim::{HeldBuffers, ReadAhead, Reclaim};
use sherd_store::observe::metrics::Traffic;

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{listener} listener cannot bind {address}: {source}")]
pub struct ListenError {
    /// Name of the listener.
    pub listener: &'static str,
    /// Where.
    pub address: SocketAddr,
    /// Why not.
    pub source: io::Error,
}

/// A bound socket whose connections are not accepted yet.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    name: &'static str,
    address: SocketAddr,
    certificate: Option<ServedCertificate>,
    proxies: TrustedProxies,
    audit: Option<ListenerAudit>,
    refused_head: RefusedHead,
    /// The methods of requests that change nothing.
    reads: &'static [Method],
}

impl Listener {
    /// Binds `address`; port 0 takes a free one, and `[::]` takes connections of IPv4, too.
    ///
    /// # Errors
    /// [`ListenError`] with the address and the system's reason.
    pub fn bind(name: &'static str, address: SocketAddr) -> Result<Self, ListenError> {
        let error = |source| ListenError { listener: name, address, source };
        let tcp = listen(address).map_err(error)?;
        let address = tcp.local_addr().map_err(error)?;
        let (certificate, proxies, audit) = (None, TrustedProxies::default(), None);
        let (refused_head, reads) = (RefusedHead::default(), &READS[..]);
        Ok(Self { tcp, name, address, certificate, proxies, audit, refused_head, reads })
    }

    /// Speaks TLS with this certificate.
    #[must_use]
    pub fn with_certificate(self, certificate: ServedCertificate) -> Self {
        Self { certificate: Some(certificate), ..self }
    }

    /// Takes the word of these proxies on who their clients are.
    #[must_use]
    pub fn with_trusted_proxies(self, proxies: TrustedProxies) -> Self {
        Self { proxies, ..self }
    }

    /// Writes a line about every request into an audit log, where there is one, as of `service`.
    #[must_use]
    pub fn with_audit(self, log: Option<AuditLog>, service: &'static str) -> Self {
        Self { audit: log.map(|log| ListenerAudit { log, service }), ..self }
    }

    /// Answers a head that cannot be read as a request so, and not with a status alone.
    #[must_use]
    pub fn with_refused_heads(self, refuse: RefuseHead) -> Self {
        Self { refused_head: RefusedHead::new(refuse), ..self }
    }

    /// Serves requests that may change something by any method.
    #[must_use]
    pub fn with_changes_by_any_method(self) -> Self {
        Self { reads: &[], ..self }
    }

    /// The address with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The limits of a listener.
#[derive(Debug, Clone, Copy)]
pub struct ListenerLimits {
    /// Connections open at one time. Further ones take the places of those without a request; where all have
    /// one, they wait in the kernel's queue.
    pub connections_max: usize,
    /// Connections up to which those that read long bodies are kept; beyond, their next answer is their last.
    pub roomy_max: usize,
    /// Descriptors that it keeps for connections that come when the process has no other.
    pub spare_descriptors: usize,
    /// From idle to the end of a request head.
    pub idle_timeout: Duration,
    /// From the accepted connection to the end of the first head; of a later head from its first byte on.
    pub head_timeout: Duration,
    /// Between two moves of a response.
    pub stall_timeout: Duration,
    /// From the moment in which a response has to wait for its client to its end; none where long ones are
    /// sent.
    pub answer_timeout: Option<Duration>,
}

/// The methods that change nothing (RFC 9110, section 9.2.1).
const READS: [Method; 3] = [Method::GET, Method::HEAD, Method::OPTIONS];

type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Serves until `shutdown` stops it; returns when the last connection is closed.
///
/// Every request has its [`Source`](sherd_front::source::Source) among its extensions.
/// Connections whose clients read slowly give up when `reclaim` asks for their buffers, or a [`Reclaim`]
/// among the extensions of their answer, which then holds others. A client that takes nothing is kept for
/// longer where a [`ReadAhead`] is among them. `service` answers every request, errors included: one that it
/// has no answer for is a connection that closes.
pub async fn serve<S, F, B>(
    listener: Listener,
    limits: impl Into<LiveLimits>,
    shutdown: Shutdown,
    traffic: Traffic,
    reclaim: Reclaim,
    service: S,
) where
    S: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    let pulse = Arc::new(ProcessPulse::new());
    let served = serve_connections(listener, limits.into(), shutdown, traffic, reclaim, service, &pulse);
    // Cancel-safe: the beats end with the connections.
    tokio::select! {
        biased;
        () = served => {}
        never = pulse.go_on() => match never {},
    }
}

async fn serve_connections<S, F, B>(
    listener: Listener,
    limits: LiveLimits,
    shutdown: Shutdown,
    traffic: Traffic,
    reclaim: Reclaim,
    service: S,
    pulse: &Arc<ProcessPulse>,
) where
    S: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    let Listener { tcp, name, address, certificate, proxies, audit, refused_head, reads } = listener;
    let handshakes =
        certificate.map(|certificate| Arc::new(Handshakes::new(certificate, limits.handshakes().clone())));
    let spares = Arc::new(SpareDescriptors::new(limits.now().spare_descriptors));
    let places = StreamPlaces::new(LINGERS_MAX, READERS_PAUSED_MAX);
    let tasks = TaskTracker::new();
    let mut shortage = Shortage::default();
    while let Some((stream, client)) = next(name, &tcp, &spares, &shutdown, &mut shortage).await {
        // Cancel-safe: what was accepted ends with the process.
        let place = tokio::select! {
            biased;
            () = shutdown.stopped() => break,
            place = limits.connections().take_when_free(client.ip()) => place,
        };
        let allowed = limits.now();
        if let Some(from) = place.taken_from() {
            traffic.connections_turned_away.inc();
            shortage.gave_way(name, from);
        }
        let exchange = Exchange::new(place, Arc::clone(pulse));
        let refused = refused_head.clone();
        let deadlines = Deadlines::of_accepted(allowed.head_timeout, allowed.answer_timeout);
        let (shutdown, service, handshakes) = (shutdown.clone(), service.clone(), handshakes.clone());
        let mut peer =
            Peer { address: client, tls_version: None, proxies: proxies.clone(), audit: audit.clone() };
        let (open, body) = (traffic.connections.clone(), BodyState::default());
        let held = HeldBuffers::new(reclaim.clone());
        let (spares, places, traffic) = (Arc::clone(&spares), places.clone(), traffic.clone());
        tasks.spawn(async move {
            open.inc();
            if let Err(error) = stream.set_nodelay(true) {
                // The socket is gone already; the first read fails.
                tracing::debug!(%client, %error, "set TCP_NODELAY");
            }
            let state = (body.clone(), exchange.clone());
            let patient =
                TimedStream::new(stream, allowed.stall_timeout, traffic, held.clone(), state, places);
            let served = async {
                let transport = match handshakes {
                    None => Transport::plain(patient, body, exchange.clone(), deadlines, refused),
                    // Cancel-safe: nothing was asked yet by a connection that is dropped in its handshake.
                    Some(handshakes) => tokio::select! {
                        biased;
                        () = shutdown.stopped() => return,
                        stream = handshakes.accept(patient, client) => match stream {
                            None => return,
                            Some(stream) => {
                                peer.tls_version = tls::version_of(&stream);
                                Transport::tls(stream, body, exchange.clone(), deadlines, refused)
                            }
                        },
                    },
                };
                connection(transport, held, &open, &peer, (allowed, reads), &shutdown, service).await;
            };
            // Cancel-safe: on a connection whose place is lost no request is under way, or one whose reader
            // pauses.
            tokio::select! {
                biased;
                () = exchange.lost() => tracing::debug!(%client, "connection gave way"),
                () = served => {}
            }
            open.dec();
            spares.refill();
        });
    }
    drop(tcp);
    tracing::debug!(listener = name, %address, connections = tasks.len(), "accepts no more");
    tasks.close();
    tasks.wait().await;
}

/// Waits for a connection; `None` when the process stops.
async fn next(
    name: &'static str,
    tcp: &TcpListener,
    spares: &SpareDescriptors,
    shutdown: &Shutdown,
    shortage: &mut Shortage,
) -> Option<(TcpStream, SocketAddr)> {
    loop {
        let accepted = if spares.are_scarce() {
            Err(io::Error::other("hardly a descriptor is left"))
        } else {
            // Every arm is cancel-safe: a connection not accepted stays where it is, and a wait for a refill
            // begins again.
            tokio::select! {
                biased;
                () = shutdown.stopped() => return None,
                accepted = tcp.accept() => accepted,
                () = spares.until_refill() => {
                    spares.refill();
                    continue;
                }
            }
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            // The client gave up before it was its turn.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            Err(error) if spares.give_up(&error) => {}
            Err(error) => {
                shortage.accept_failed(name, &error);
                tokio::select! {
                    biased;
                    () = shutdown.stopped() => return None,
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
}

async fn connection<S, F, B>(
    transport: Transport,
    held: HeldBuffers,
    open: &IntGauge,
    peer: &Peer,
    (allowed, reads): (ListenerLimits, &[Method]),
    shutdown: &Shutdown,
    service: S,
) where
    S: Fn(Request<RequestBody>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<BodyError>,
{
    let (body_state, exchange) = (transport.body.clone(), transport.exchange.clone());
    let io = TokioIo::new(transport);
    let answer = service_fn(|mut request: Request<Incoming>| {
        let changes = !reads.contains(request.method());
        let begins = exchange.begin(&request, changes);
        let record = if begins { peer.introduce(&mut request) } else { None };
        let mut request = request.map(|body| RequestBody::new(body, body_state.clone(), record.clone()));
        if changes {
            request.body_mut().begin_write(exchange.clone());
        }
        let answer = begins.then(|| service(request));
        let (body_state, held, exchange) = (&body_state, &held, &exchange);
        async move {
            let Some(answer) = answer else {
                // The place was lost a moment before: nothing was begun, and the connection is about to be
                // dropped.
                return std::future::pending().await;
            };
            let mut response = answer.await;
            let extensions = response.extensions_mut();
            held.set(extensions.remove::<Reclaim>(), extensions.remove::<ReadAhead>());
            let is_crowded = usize::try_from(open.get()).is_ok_and(|open| open > allowed.roomy_max);
            if body_state.is_unread() || (is_crowded && body_state.has_grown()) {
                // Either nothing can follow on this connection, or its buffer is too large to keep while more
                // than `roomy_max` are open. A client that waits for its turn reads that in the answer; the
                // close lingers for one that goes on sending.
                body_state.end();
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            let count = record.map(|record| AnswerCount::begin(record, &response));
            Ok::<_, Infallible>(response.map(|body| exchange.answer(body, count)))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // A client that ends its side early still gets the error of its body. A read ends with its
        // client by the transport.
        .half_close(true)
        .header_read_timeout(allowed.idle_timeout)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX);
    let mut connection = pin!(builder.serve_connection(io, answer));
    // The connection goes on after the first select; only its second end gives it up.
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => Some(ended),
        () = shutdown.stopped() => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = shutdown.out_of_patience() => return shutdown.cut(peer.address),
        }
    };
    if let Err(error) = ended {
        // Clients come and go, and slow ones are cut: an operator need not look at that.
        tracing::debug!(client = %peer.address, %error, "connection ended");
    }
}

#[cfg(test)]
mod tests;
