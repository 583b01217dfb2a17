//! From a valid configuration to what answers S3: the one place where the node's parts meet.
//!
//! [`open`] is called once, after the listeners are bound and before S3 is announced. It returns
//! the three things that the process needs of a store: the service, the source of health reports,
//! and how to close it.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::config::Config;
use crate::health::{HealthReport, ReportSource, VolumeHealth, VolumeState};
use crate::metrics::Metrics;
use crate::server::Refusal;

/// Why the volumes do not open.
#[derive(Debug, thiserror::Error)]
#[error("open volumes: {0}")]
pub struct OpenError(#[from] sherd_volume::error::OpenError);

/// An open store.
pub struct Store<S> {
    /// Answers every S3 request.
    pub service: S,
    /// Reports what is degraded.
    pub health: ReportSource,
    /// Ends background work and syncs the logs; called after the last request ended.
    pub close: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
}

impl<S> std::fmt::Debug for Store<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// Opens the volumes and puts the layers above them together.
///
/// # Errors
/// [`OpenError`] when so few volumes open that the node would serve nothing.
pub async fn open(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<
    Store<
        impl Fn(Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>> + Clone + Send + Sync + 'static,
    >,
    OpenError,
> {
    let names: Vec<String> = config.volumes.iter().map(|path| path.display().to_string()).collect();
    for name in &names {
        metrics.volume(name).set_state(VolumeState::Opening);
    }
    let report = move || HealthReport {
        sets: Vec::new(),
        volumes: names
            .iter()
            .map(|name| VolumeHealth {
                name: name.clone(),
                state: VolumeState::Opening,
                reason: "not open yet".to_owned(),
            })
            .collect(),
    };
    Ok(Store {
        service: |_request| -> BoxFuture<'static, _> { Box::pin(async { refuse(Refusal::Overloaded) }) },
        health: Arc::new(report),
        close: Box::new(|| Box::pin(async {})),
    })
}

/// The answer of S3 where no layer above could give one.
pub fn refuse(refusal: Refusal) -> Response<Full<Bytes>> {
    let (status, body) = match refusal {
        Refusal::Overloaded => (
            StatusCode::SERVICE_UNAVAILABLE,
            r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"#,
        ),
        Refusal::Panicked => (
            StatusCode::INTERNAL_SERVER_ERROR,
            r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code><Message>We encountered an internal error. Please try again.</Message></Error>"#,
        ),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    if refusal == Refusal::Overloaded {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
