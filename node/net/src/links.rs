//! One link to each configured node, this one included, and what is asked of them as nodes: pings,
//! topologies, attempts to form the cluster, and to forget a bucket that was changed.
//!
//! The links are made once, when the process starts, and are kept until it stops; what a link cannot reach is
//! answered at once. Formation and membership ask through [`PeerLinks`] as an [`Asker`]; the ways to remote
//! volumes are made of the same links.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tonic::{Code, Status};

use sherd_core::env::Rng;
use sherd_core::iam::AccessKeyId;
use sherd_core::id::{ClusterId, ObjectKey};
use sherd_core::report::NodeReport;
use sherd_core::topology::Topology;
use sherd_proto::convert::Wire;
use sherd_proto::convert::admin::volume_ids_from_wire;
use sherd_proto::sender::{VersionRule, check};
use sherd_proto::v1::{
    ForgetBucketRequest, ForgetIamRequest, FormReply, FormRequest, PingRequest, RevokeKeyRequest,
    TopologyRequest, form_reply,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::grpc::{Connection, Link, LinkConfig};
use crate::tls::{PeerIdentity, Role, Trust};
use crate::wire::ConnectionAge;
use sherd_store::cluster::asker::{AskError, Asker, Gateways, NodeFormAnswer};
use sherd_store::cluster::membership::ConfiguredNode;
use sherd_store::observe::metrics::Metrics;

/// The links to all nodes of the configuration.
#[derive(Debug, Clone)]
pub struct PeerLinks {
    links: Arc<[Link]>,
    own_name: Arc<str>,
    cluster: ClusterId,
}

/// The settings of the links.
#[derive(Debug, Clone, Copy)]
pub struct PeerLinksConfig<'a> {
    /// All nodes of the cluster.
    pub nodes: &'a [ConfiguredNode],
    /// The certificates of this node.
    pub trust: &'a Trust,
    /// How old connections become.
    pub age: ConnectionAge,
    /// The metrics that count them.
    pub metrics: &'a Metrics,
}

type AdminClient = sherd_proto::v1::admin_service_client::AdminServiceClient<Connection>;

impl PeerLinks {
    /// Begins to connect to every node of the cluster.
    pub fn start(
        config: &PeerLinksConfig<'_>,
        rng: &Arc<dyn Rng>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let &PeerLinksConfig { nodes, trust, age, metrics } = config;
        let cluster = trust.own().cluster;
        let link = |node: &ConfiguredNode| {
            let peer = PeerIdentity { name: node.name.clone(), role: Role::Node, cluster };
            let (address, metrics) = (node.address.clone(), metrics.link(&node.name));
            Link::start(
                LinkConfig { peer, address, cluster, epoch: None, age, metrics },
                trust,
                rng,
                tasks,
                stop,
            )
        };
        let own_name = trust.own().name.as_str().into();
        Self { links: nodes.iter().map(link).collect(), own_name, cluster }
    }

    /// The link to a node, by its ordinal.
    pub fn get(&self, ordinal: usize) -> Option<&Link> {
        self.links.get(ordinal)
    }

    fn link(&self, node: &str) -> Result<&Link, AskError> {
        let found = self.links.iter().find(|link| link.peer().name == node);
        found.ok_or_else(|| AskError::Refused { reason: format!("{node} is no node of the configuration") })
    }

    fn client(&self, node: &str) -> Result<(AdminClient, sherd_proto::v1::Sender), AskError> {
        let link = self.link(node)?;
        let client = link.admin().map_err(|error| AskError::Unreachable { reason: error.to_string() })?;
        Ok((client, link.sender()))
    }

    /// Checks who sends a reply, as the other end checked this node before it replied.
    fn check(&self, sender: Option<sherd_proto::v1::Sender>) -> Result<(), AskError> {
        let checked = check(sender, self.cluster, VersionRule::Nodes);
        checked.map(drop).map_err(|refusal| AskError::Refused { reason: format!("its answer: {refusal}") })
    }
}

/// Sorts a status by its code: the node refuses this one, or was not reached.
fn failed(status: &Status) -> AskError {
    let reason = status.message().to_owned();
    match status.code() {
        Code::FailedPrecondition | Code::PermissionDenied | Code::InvalidArgument | Code::Unimplemented => {
            AskError::Refused { reason }
        }
        _ => AskError::Unreachable { reason },
    }
}

fn garbled(what: &str) -> AskError {
    AskError::Refused { reason: format!("its answer cannot be read: {what}") }
}

/// A topology as a node sends it. It is checked whole: bytes of a peer are believed no more than a file's.
fn topology_of(json: &[u8]) -> Result<Arc<Topology>, AskError> {
    serde_json::from_slice(json).map(Arc::new).map_err(|error| garbled(&error.to_string()))
}

fn form_answer(reply: FormReply) -> Result<NodeFormAnswer, AskError> {
    match reply.reply.ok_or_else(|| garbled("nothing"))? {
        form_reply::Reply::Refused(last) => Ok(NodeFormAnswer::Refused(last)),
        form_reply::Reply::Topology(json) => topology_of(&json).map(NodeFormAnswer::Topology),
        form_reply::Reply::Volumes(ids) => {
            let ids = volume_ids_from_wire(ids.volumes);
            ids.map(NodeFormAnswer::Ids).map_err(|error| garbled(&error.to_string()))
        }
    }
}

#[async_trait]
impl Asker for PeerLinks {
    async fn ping(&self, node: &str, own: NodeReport) -> Result<NodeReport, AskError> {
        let (mut client, sender) = self.client(node)?;
        let request = PingRequest { sender: Some(sender), caller: Some(own.to_wire()) };
        let reply = client.ping(request).await.map_err(|status| failed(&status))?.into_inner();
        self.check(reply.sender)?;
        let node = reply.node.ok_or_else(|| garbled("no state of the node"))?;
        NodeReport::from_wire(node).map_err(|error| garbled(&error.to_string()))
    }

    async fn topology(&self, node: &str) -> Result<Option<Arc<Topology>>, AskError> {
        let (mut client, sender) = self.client(node)?;
        let request = TopologyRequest { sender: Some(sender) };
        let reply = client.topology(request).await.map_err(|status| failed(&status))?.into_inner();
        self.check(reply.sender)?;
        reply.topology.map(|json| topology_of(&json)).transpose()
    }

    async fn form(&self, node: &str, attempt: u64) -> Result<NodeFormAnswer, AskError> {
        let (mut client, sender) = self.client(node)?;
        let request = FormRequest { sender: Some(sender), maker: self.own_name.to_string(), attempt };
        let reply = client.form(request).await.map_err(|status| failed(&status))?.into_inner();
        form_answer(reply)
    }
}

#[async_trait]
impl Gateways for PeerLinks {
    fn names(&self) -> Vec<String> {
        let names = self.links.iter().map(|link| link.peer().name.clone());
        names.filter(|name| **name != *self.own_name).collect()
    }

    async fn forget_bucket(&self, node: &str, bucket: &ObjectKey) -> Result<(), AskError> {
        let (mut client, sender) = self.client(node)?;
        let bucket = Bytes::copy_from_slice(bucket.as_bytes());
        let request = ForgetBucketRequest { sender: Some(sender), bucket };
        client.forget_bucket(request).await.map(drop).map_err(|status| failed(&status))
    }

    async fn forget_iam(&self, node: &str) -> Result<(), AskError> {
        let (mut client, sender) = self.client(node)?;
        let request = ForgetIamRequest { sender: Some(sender) };
        client.forget_iam(request).await.map(drop).map_err(|status| failed(&status))
    }

    async fn revoke_key(&self, node: &str, key: AccessKeyId) -> Result<(), AskError> {
        let (mut client, sender) = self.client(node)?;
        let request = RevokeKeyRequest { sender: Some(sender), access_key: key.to_string() };
        client.revoke_key(request).await.map(drop).map_err(|status| failed(&status))
    }
}
