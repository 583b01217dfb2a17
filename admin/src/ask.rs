//! Questions to a node over a connection of their own, which is verified already: its status, and HTTP
//! requests of the root user.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use sherd_core::id::ClusterId;
use sherd_proto::convert::ConvertError;
use sherd_proto::convert::http_call::{HttpService, reply_from_wire, request_to_wire};
use sherd_proto::limits::MESSAGE_BYTES_MAX;
use sherd_proto::sender::{VersionRule, check, sender};
use sherd_proto::v1::admin_service_client::AdminServiceClient;
use sherd_proto::v1::{StatusReply, StatusRequest};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::limits::CALL_TIMEOUT;

/// Asks the node at the other end of a verified connection for the status of its cluster. It has no deadline.
///
/// # Errors
/// Why the node refused or the connection ended, the outermost cause first.
pub async fn ask_status<S>(stream: S, cluster: ClusterId) -> Result<StatusReply, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let channel = over(stream).await?;
    let mut client = AdminServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let reply = client.status(StatusRequest { sender: Some(sender(cluster, None)) }).await;
    let reply = reply.map_err(|status| words(&status))?.into_inner();
    check(reply.sender.clone(), cluster, VersionRule::Admins)
        .map_err(|refusal| format!("its answer: {refusal}"))?;
    Ok(reply)
}

/// Sends HTTP requests to a node, which answers them as the root user's.
#[derive(Debug, Clone)]
pub struct RequestClient {
    client: AdminServiceClient<Channel>,
    cluster: ClusterId,
}

/// A request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request, or its answer, is longer than a call carries, or the answer is malformed.
    #[error(transparent)]
    Message(#[from] ConvertError),
    /// The node refused the call, or the connection ended: whether the request was done is unknown.
    #[error("{0}")]
    Call(String),
}

impl RequestClient {
    /// Speaks with the node at the other end of a verified connection.
    ///
    /// # Errors
    /// [`RequestError::Call`] when the connection ended.
    pub async fn over<S>(stream: S, cluster: ClusterId) -> Result<Self, RequestError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let channel = in_time(over(stream)).await.and_then(|channel| channel).map_err(RequestError::Call)?;
        let client = AdminServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self { client, cluster })
    }

    /// Sends a request: path and query, headers, body. It ends within 70 s; the node's own deadline is a
    /// minute.
    ///
    /// # Errors
    /// [`RequestError`] where no answer came. An answer may be a refusal of the service.
    pub async fn send(
        &mut self,
        service: HttpService,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, RequestError> {
        let request = request_to_wire(sender(self.cluster, None), service, request)?;
        let reply = in_time(self.client.call(request)).await.map_err(RequestError::Call)?;
        let reply = reply.map_err(|status| RequestError::Call(words(&status)))?;
        let mut reply = reply.into_inner();
        check(reply.sender.take(), self.cluster, VersionRule::Admins)
            .map_err(|refusal| RequestError::Call(format!("its answer: {refusal}")))?;
        Ok(reply_from_wire(reply)?)
    }
}

/// Waits for an answer as long as a call may take.
async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T, String> {
    let answer = tokio::time::timeout(CALL_TIMEOUT, answer).await;
    answer.map_err(|_| format!("no answer within {} s", CALL_TIMEOUT.as_secs()))
}

/// Why a call failed, the outermost cause first.
fn words(status: &tonic::Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => error_chain(source),
        None => status.message().to_owned(),
    }
}

/// Opens a channel over the one connection that there is.
async fn over<S>(stream: S) -> Result<Channel, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = Arc::new(Mutex::new(Some(stream)));
    let connector = service_fn(move |_| {
        let stream = stream.lock().take().map(TokioIo::new);
        async move { stream.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the connection ended")) }
    });
    // The name is in no certificate: the connection is verified already.
    let channel = Endpoint::from_static("http://node").connect_with_connector(connector).await;
    channel.map_err(|error| error_chain(&error))
}

/// An error with its causes, the outermost first.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
