//! How a node asks another one about itself and about the cluster: [`Asker`] and [`Gateways`], over the
//! network or in process.
//!
//! Membership pings through it, formation asks for ids and topologies. An implementation waits as long as it
//! takes; the callers bound each wait and drop what is late.

use std::fmt::Debug;
use std::sync::Arc;

use sherd_core::iam::AccessKeyId;
use sherd_core::id::{ObjectKey, VolumeId};
use sherd_core::report::NodeReport;
use sherd_core::topology::Topology;
use sherd_core::topology::formation::FormAnswer;

/// The answer of a node to an attempt to form the cluster.
pub type NodeFormAnswer = FormAnswer<Vec<VolumeId>, Arc<Topology>>;

/// The reason why an answer is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No connection, or no answer: the node may be down. Ask again.
    #[error("{reason}")]
    Unreachable {
        /// Why.
        reason: String,
    },
    /// The node answered and refuses this one, or said what cannot be understood: a configuration must
    /// change.
    #[error("refused: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
}

/// Asks nodes by their configured names.
#[async_trait::async_trait]
pub trait Asker: Debug + Send + Sync {
    /// Says what this node is, and asks what the other one is.
    async fn ping(&self, node: &str, own: NodeReport) -> Result<NodeReport, AskError>;

    /// Asks for the topology that a node holds.
    async fn topology(&self, node: &str) -> Result<Option<Arc<Topology>>, AskError>;

    /// Asks a node to answer an attempt to form the cluster.
    async fn form(&self, node: &str, attempt: u64) -> Result<NodeFormAnswer, AskError>;
}

/// The other nodes of the cluster, as gateways that remember views of buckets and access keys.
#[async_trait::async_trait]
pub trait Gateways: Debug + Send + Sync {
    /// Configured names of the gateways.
    fn names(&self) -> Vec<String>;

    /// Has a node forget its view of a bucket. Returns when no request that begins later takes one that was
    /// read before.
    async fn forget_bucket(&self, node: &str, bucket: &ObjectKey) -> Result<(), AskError>;

    /// Has a node forget all its views of access keys, and the account's. Returns as
    /// [`Self::forget_bucket`] does.
    async fn forget_iam(&self, node: &str) -> Result<(), AskError>;

    /// Has a node end the requests of an access key that are under way through it. Returns when no further
    /// byte of their bodies passes there.
    async fn revoke_key(&self, node: &str, key: AccessKeyId) -> Result<(), AskError>;
}
