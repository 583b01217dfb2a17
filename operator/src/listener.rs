//! The operator's own listener: `/metrics`, `/health/live` and `/health/ready`. No authentication and
//! no secrets. Connections are bounded; one that sends no request is closed.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits;
use crate::metrics::Metrics;

/// Listens on an address: on IPv4, too, where it is `[::]`, and on IPv4 alone where the machine has no IPv6.
///
/// # Errors
/// The system's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if address.is_ipv4() {
        return bind(TcpSocket::new_v4()?, address);
    }
    match TcpSocket::new_v6() {
        Ok(socket) => {
            // Not as `net.ipv6.bindv6only` of the machine says.
            SockRef::from(&socket).set_only_v6(!address.ip().is_unspecified())?;
            bind(socket, address)
        }
        Err(error) if address.ip().is_unspecified() => {
            tracing::info!(%address, %error, "this machine has no IPv6: listens on IPv4 alone");
            bind(TcpSocket::new_v4()?, SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        }
        Err(error) => Err(error),
    }
}

fn bind(socket: TcpSocket, address: SocketAddr) -> io::Result<TcpListener> {
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(limits::LISTENER_BACKLOG)
}

/// Serves until it is stopped.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    is_ready: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits::LISTENER_CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            // Both may be dropped: a connection that was not taken stays in the kernel's queue.
            biased;
            () = stop.cancelled() => break,
            accepted = accepted => accepted,
        };
        let (stream, _) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(limits::LEASE_RETRY).await;
                continue;
            }
        };
        let (metrics, is_ready, stop) = (metrics.clone(), is_ready.clone(), stop.clone());
        connections.spawn(async move {
            let _place = place;
            let service = service_fn(move |request| {
                let response = answer(&request, &metrics, *is_ready.borrow());
                async move { Ok::<_, Infallible>(response) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(limits::LISTENER_HEAD_TIME_MAX);
            let connection = server.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // A scrape that is cut is repeated by its client.
                biased;
                () = stop.cancelled() => {}
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "serve a connection");
                    }
                }
            }
        });
    }
    connections.close();
    connections.wait().await;
}

fn answer<B>(request: &Request<B>, metrics: &Metrics, is_ready: bool) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    }
    match request.uri().path() {
        "/metrics" => match metrics.text() {
            Ok(text) => plain(StatusCode::OK, text),
            Err(error) => {
                tracing::error!(%error, "write the metrics");
                plain(StatusCode::INTERNAL_SERVER_ERROR, "see the log\n")
            }
        },
        "/health/live" => plain(StatusCode::OK, "live\n"),
        "/health/ready" if is_ready => plain(StatusCode::OK, "ready\n"),
        "/health/ready" => plain(StatusCode::SERVICE_UNAVAILABLE, "the API server was not reached yet\n"),
        _ => plain(StatusCode::NOT_FOUND, "here are /metrics, /health/live and /health/ready\n"),
    }
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; version=0.0.4"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn metrics_are_served_to_both_families() {
        let listener = listen("[::]:0".parse().expect("an address")).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
        for ip in ["127.0.0.1", "::1"].into_iter().filter(|ip| has_ipv6 || *ip != "::1") {
            tokio::net::TcpStream::connect((ip, port)).await.expect(ip);
        }
    }

    fn status(method: Method, path: &str, is_ready: bool) -> StatusCode {
        let metrics = Metrics::new().expect("declared once");
        let request = Request::builder().method(method).uri(path).body(()).expect("a request");
        answer(&request, &metrics, is_ready).status()
    }

    #[test]
    fn each_path_answers_and_no_other() {
        assert_eq!(status(Method::GET, "/metrics", false), StatusCode::OK);
        assert_eq!(status(Method::GET, "/health/live", false), StatusCode::OK);
        assert_eq!(status(Method::GET, "/health/ready", false), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(Method::GET, "/health/ready", true), StatusCode::OK);
        assert_eq!(status(Method::GET, "/", true), StatusCode::NOT_FOUND);
        assert_eq!(status(Method::POST, "/metrics", true), StatusCode::METHOD_NOT_ALLOWED);
    }
}
