//! One exchange over HTTP/1.1, in clear or over TLS: a pool of connections below hyper, each driven by a task
//! of its own, and deadlines by progress.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{EndpointError, ExchangeFailure};
use crate::limits::{CONNECT_TIMEOUT, CONNECTION_BUFFER_BYTES_MAX, IDLE_TIMEOUT, STALL_TIMEOUT, WORKERS_MAX};
use crate::payload::{Meter, PayloadBody};

/// The connections to services.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    client: Client<HttpsConnector<HttpConnector>, PayloadBody>,
}

impl Transport {
    /// Makes a pool. `ca` is a file of certificates in PEM that are trusted instead of the system's.
    pub(crate) fn new(is_tls: bool, ca: Option<&Path>) -> Result<Self, EndpointError> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let roots = if is_tls { trusted(ca)? } else { RootCertStore::empty() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has the cipher suites of TLS 1.2 and 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(WORKERS_MAX)
            .http1_max_buf_size(CONNECTION_BUFFER_BYTES_MAX)
            .build(connector);
        Ok(Self { client })
    }

    /// Sends a request and returns the head of its answer. An exchange in which nothing moves ends.
    pub(crate) async fn exchange(
        &self,
        request: Request<PayloadBody>,
        meter: &Meter,
    ) -> Result<Response<Incoming>, ExchangeFailure> {
        let answer = within_progress(self.client.request(request), meter).await?;
        answer.map_err(|error| ExchangeFailure::Connection(causes(&error)))
    }
}

/// An error with its causes: hyper's own words are only "client error".
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut last = error;
    let mut text = error.to_string();
    while let Some(source) = last.source() {
        last = source;
        let words = last.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
    }
    text
}

/// Waits for a future as long as `meter` moves.
pub(crate) async fn within_progress<T>(
    future: impl Future<Output = T>,
    meter: &Meter,
) -> Result<T, ExchangeFailure> {
    let mut future = std::pin::pin!(future);
    loop {
        let before = meter.bytes();
        match tokio::time::timeout(STALL_TIMEOUT, future.as_mut()).await {
            Ok(output) => return Ok(output),
            Err(_) if meter.bytes() > before => {}
            Err(_) => return Err(ExchangeFailure::Stalled { seconds: STALL_TIMEOUT.as_secs() }),
        }
    }
}

fn trusted(ca: Option<&Path>) -> Result<RootCertStore, EndpointError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let unreadable = |reason: String| EndpointError::Certificates { path: path.to_owned(), reason };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unreadable("no certificate is in it".to_owned()));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_exchange_may_last_as_long_as_something_moves() {
        let meter = Meter::default();
        let moving = async {
            for _ in 0..10 {
                tokio::time::sleep(STALL_TIMEOUT / 2).await;
                meter.add(1);
            }
        };
        assert!(within_progress(moving, &meter).await.is_ok());
        let stuck = std::future::pending::<()>();
        assert!(matches!(within_progress(stuck, &meter).await, Err(ExchangeFailure::Stalled { .. })));
    }
}
