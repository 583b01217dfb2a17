//! A connection to a node for what an operator or an admin asks it: `status` and `user`.
//!
//! The node is given by its address, so its name is not known before: any node of the cluster will do.

use std::path::PathBuf;

use clap::Args;
use sherd_core::id::ClusterId;
use sherd_net::tls::{CertificateFacts, ConnectError, Trust, TrustError, TrustFiles};
use tokio::io::{AsyncRead, AsyncWrite};

/// The node that is asked, and the certificate that it is asked with.
#[derive(Debug, Clone, Args)]
pub struct NodeArgs {
    /// Address of a node of the cluster for other nodes (its `node_listen`)
    #[arg(long, value_name = "HOST:PORT")]
    pub endpoint: String,
    /// Certificate of the cluster's authority
    #[arg(long, value_name = "FILE")]
    pub ca: PathBuf,
    /// A certificate of the cluster, such as one made by `sherd-node ca issue --role admin`
    #[arg(long, value_name = "FILE")]
    pub cert: PathBuf,
    /// Key of the certificate
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
}

/// A node cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeClientError {
    #[error("{path}: {why}", path = path.display())]
    Certificate { path: PathBuf, why: String },
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// No node of the cluster answers at the address.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// Connects to a node.
#[derive(Debug)]
pub(crate) struct NodeClient {
    trust: Trust,
    address: String,
}

impl NodeClient {
    /// Loads the certificates.
    ///
    /// # Errors
    /// [`NodeClientError`] names the file and what is wrong with it.
    pub(crate) async fn new(arguments: &NodeArgs) -> Result<Self, NodeClientError> {
        let NodeArgs { endpoint, ca, cert, key } = arguments;
        let refused = |why: String| NodeClientError::Certificate { path: cert.clone(), why };
        let pem = tokio::fs::read(cert).await.map_err(|error| refused(error.to_string()))?;
        let facts = CertificateFacts::read_pem(&pem).map_err(|error| refused(error.to_string()))?;
        let files = TrustFiles { ca: ca.clone(), cert: cert.clone(), key: key.clone() };
        Ok(Self { trust: Trust::load(files, facts.identity)?, address: endpoint.clone() })
    }

    /// The address of the node.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The cluster that the certificate names.
    pub(crate) fn cluster(&self) -> ClusterId {
        self.trust.own().cluster
    }

    /// Opens a verified connection.
    ///
    /// # Errors
    /// [`NodeClientError::Connect`].
    pub(crate) async fn connect(
        &self,
    ) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>, NodeClientError> {
        Ok(self.trust.connect_any_node(&self.address).await?.0)
    }
}
