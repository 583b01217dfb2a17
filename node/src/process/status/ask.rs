//! One question to one node: a connection with certificates on both sides, a call, and its answer.
//!
//! The node is given by its address, so its name is not known before: any node of the cluster will do. The
//! whole has a limit in time, and so has the answer in bytes.

use std::io;
use std::path::PathBuf;

use sherd_proto::v1::StatusReply;

use super::args::StatusArgs;
use super::limits::ANSWER_TIMEOUT;
use sherd_net::grpc::ask_status;
use sherd_net::tls::{CertificateFacts, ConnectError, Trust, TrustError, TrustFiles};

#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("start runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error("{path}: {why}", path = path.display())]
    Certificate { path: PathBuf, why: String },
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// No node of the cluster answers at the address.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{address}: no answer within {} s", ANSWER_TIMEOUT.as_secs())]
    TimedOut { address: String },
    #[error("{address}: {why}")]
    Refused {
        address: String,
        /// The reasons, the outermost first.
        why: String,
    },
}

#[derive(Debug)]
pub(crate) struct StatusAsker {
    trust: Trust,
    address: String,
}

impl StatusAsker {
    /// Loads the certificates.
    ///
    /// # Errors
    /// [`AskError`] names the file and what is wrong with it.
    pub(crate) async fn new(arguments: &StatusArgs) -> Result<Self, AskError> {
        let StatusArgs { endpoint, ca, cert, key, json: _, watch: _ } = arguments;
        let refused = |why: String| AskError::Certificate { path: cert.clone(), why };
        let pem = tokio::fs::read(cert).await.map_err(|error| refused(error.to_string()))?;
        let facts = CertificateFacts::read_pem(&pem).map_err(|error| refused(error.to_string()))?;
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
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, ask_status(stream, self.trust.own().cluster));
        match answer.await {
            Ok(reply) => reply.map_err(|why| AskError::Refused { address, why }),
            Err(_) => Err(AskError::TimedOut { address }),
        }
    }
}
