//! One question to one node: a connection with certificates on both sides, a call, and its answer.
//!
//! The node is given by its address, so its name is not known before: any node of the cluster will do. The
//! whole has a limit in time, and so has the answer in bytes.

use std::io;

use sherd_admin::ask::ask_status;
use sherd_proto::v1::StatusReply;

use super::limits::ANSWER_TIMEOUT;
use crate::process::node_client::{NodeArgs, NodeClient, NodeClientError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("start runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Node(#[from] NodeClientError),
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
    node: NodeClient,
}

impl StatusAsker {
    /// Loads the certificates.
    ///
    /// # Errors
    /// [`AskError`] names the file and what is wrong with it.
    pub(crate) async fn new(arguments: &NodeArgs) -> Result<Self, AskError> {
        Ok(Self { node: NodeClient::new(arguments).await? })
    }

    /// Connects and asks once.
    ///
    /// # Errors
    /// [`AskError`] says how far it came.
    pub(crate) async fn ask(&self) -> Result<StatusReply, AskError> {
        let stream = self.node.connect().await?;
        let address = self.node.address().to_owned();
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, ask_status(stream, self.node.cluster()));
        match answer.await {
            Ok(reply) => reply.map_err(|why| AskError::Refused { address, why }),
            Err(_) => Err(AskError::TimedOut { address }),
        }
    }
}
