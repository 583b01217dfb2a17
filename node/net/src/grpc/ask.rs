//! One question to a node over a connection of its own, which ends with the answer.

use std::io;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use sherd_core::id::ClusterId;
use sherd_proto::limits::{MESSAGE_BYTES_MAX, WIRE_VERSION};
use sherd_proto::v1::admin_service_client::AdminServiceClient;
use sherd_proto::v1::{Sender, StatusReply, StatusRequest};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::status::error_chain;

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
    let sender = Some(Sender { wire: WIRE_VERSION, cluster: cluster.0.to_vec().into(), epoch: 0 });
    let reply = client.status(StatusRequest { sender }).await;
    reply.map(tonic::Response::into_inner).map_err(|status| match std::error::Error::source(&status) {
        Some(source) => error_chain(source),
        None => status.message().to_owned(),
    })
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
