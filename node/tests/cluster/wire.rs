//! Calls to a node port by hand: any certificate, any path, any bytes.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper::{Method, Request, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use sherd_net::tls::{HandshakeFailure, Trust};
use tokio::io::AsyncBufReadExt as _;

use crate::harness::wait::{SOON, bounded};

/// Statuses of gRPC.
pub(crate) const OUT_OF_RANGE: u32 = 11;
pub(crate) const PERMISSION_DENIED: u32 = 7;
pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;
pub(crate) const FAILED_PRECONDITION: u32 = 9;

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallOutcome {
    /// The status of gRPC.
    pub(crate) status: u32,
    /// Text of the status.
    pub(crate) message: String,
    /// The bytes of the answer, frames and all.
    pub(crate) body: Bytes,
}

/// A message as the one frame of a request.
pub(crate) fn frame(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(bytes.len()).expect("a short message").to_be_bytes());
    frame.extend_from_slice(&bytes);
    frame
}

/// Calls a method with these bytes as the whole request.
///
/// # Errors
/// If no answer came: the reason, in words.
pub(crate) async fn call(
    trust: &Trust,
    address: SocketAddr,
    path: &str,
    request: Vec<u8>,
) -> Result<CallOutcome, String> {
    bounded(path, SOON, async {
        let connected = trust.connect_any_node(&address.to_string()).await;
        let (mut stream, _) = connected.map_err(|error| error.to_string())?;
        // A server that refuses the client's certificate sends its alert before anything else.
        stream.fill_buf().await.map_err(|error| HandshakeFailure::from_io(error).to_string())?;
        let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
        let driver = tokio::spawn(connection);
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://node{path}"))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(Full::new(Bytes::from(request)))
            .expect("a valid request");
        let answer = sender.send_request(request).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                driver.abort();
                return Err(causes(&error));
            }
        };
        let (head, body) = answer.into_parts();
        let collected = body.collect().await.map_err(|error| error.to_string())?;
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let text = |name: &str| {
            let value = trailers.get(name).or_else(|| head.headers.get(name));
            value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let status = text("grpc-status").and_then(|status| status.parse().ok());
        driver.abort();
        Ok(CallOutcome {
            status: status.ok_or_else(|| format!("no status of gRPC: {head:?}"))?,
            message: text("grpc-message").unwrap_or_default(),
            body: collected.to_bytes(),
        })
    })
    .await
}

/// An error with those below it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}
