//! One question to one node: a connection with certificates on both sides, a call, and its answer.
//!
//! The node is given by its address, so its name is not known before: any node of the cluster will do. The
//! whole has a limit in time, and so has the answer in bytes.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use sherd_proto::limits::{MESSAGE_BYTES_MAX, WIRE_VERSION};
use sherd_proto::v1::admin_service_client::AdminServiceClient;
use sherd_proto::v1::{Sender, StatusReply, StatusRequest};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::StatusArgs;
use sherd_net::tls::{CertificateFacts, ConnectError, Trust, TrustError, TrustFiles};

/// How long a connected node may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// Timers and sockets cannot be had.
    #[error("start runtime: {0}")]
    Runtime(#[source] io::Error),
    /// The certificate cannot be read.
    #[error("{path}: {why}", path = path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The files cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// No node of the cluster answers at the address.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The node does not answer in time.
    #[error("{address}: no answer within {} s", ANSWER_TIMEOUT.as_secs())]
    TimedOut {
        /// As given.
        address: String,
    },
    /// The node refuses, or the connection ends.
    #[error("{address}: {why}")]
    Refused {
        /// As given.
        address: String,
        /// The reasons, the outermost first.
        why: String,
    },
}

/// Asks the node at one address.
#[derive(Debug)]
pub(crate) struct Asker {
    trust: Trust,
    address: String,
}

impl Asker {
    /// Loads the certificates.
    ///
    /// # Errors
    /// [`AskError`] names the file and what is wrong with it.
    pub(crate) async fn new(arguments: &StatusArgs) -> Result<Self, AskError> {
        let StatusArgs { endpoint, ca, cert, key, json: _, watch: _ } = arguments;
        let refused = |why: String| AskError::Certificate { path: cert.clone(), why };
        let pem = tokio::fs::read(cert).await.map_err(|error| refused(error.to_string()))?;
        let (_, pem) = x509_parser::pem::parse_x509_pem(&pem)
            .map_err(|_| refused("no certificate in PEM".to_owned()))?;
        let facts = CertificateFacts::read(&pem.contents).map_err(|error| refused(error.to_string()))?;
        let files = TrustFiles { ca: ca.clone(), cert: cert.clone(), key: key.clone() };
        Ok(Self { trust: Trust::load(files, facts.identity)?, address: endpoint.clone() })
    }

    /// Connects and asks once.
    ///
    /// # Errors
    /// [`AskError`] says how far it came.
    pub(crate) async fn ask(&self) -> Result<StatusReply, AskError> {
        let (stream, _) = self.trust.connect_any_node(&self.address).await?;
        let address = self.address.clone();
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, async {
            let channel = over(stream).await?;
            let mut client = AdminServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
            let cluster = self.trust.own().cluster.0.to_vec().into();
            let sender = Some(Sender { wire: WIRE_VERSION, cluster, epoch: 0 });
            let reply = client.status(StatusRequest { sender }).await;
            reply.map(tonic::Response::into_inner).map_err(|status| match status.source() {
                Some(source) => chain(source),
                None => status.message().to_owned(),
            })
        });
        match answer.await {
            Ok(reply) => reply.map_err(|why| AskError::Refused { address, why }),
            Err(_) => Err(AskError::TimedOut { address }),
        }
    }
}

/// Opens a channel over the one connection that there is.
async fn over<S>(stream: S) -> Result<Channel, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let stream = Arc::new(Mutex::new(Some(stream)));
    let connector = service_fn(move |_| {
        let stream = stream.lock().take().map(TokioIo::new);
        async move { stream.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the connection ended")) }
    });
    // The name is in no certificate: the connection is verified already.
    let channel = Endpoint::from_static("http://node").connect_with_connector(connector).await;
    channel.map_err(|error| chain(&error))
}

/// Joins an error and its causes.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += ": ";
        text += &error.to_string();
        cause = error.source();
    }
    text
}
