//! AdminService: the status of this node and its cluster, and the orders that operators and admins give.
//!
//! Pings, topologies and attempts to form are answered from membership and formation; the status and the
//! orders go to the process, which has the store. Roles are judged before a call comes here.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use tonic::{Request, Response, Status};

use sherd_core::iam::AccessKeyId;
use sherd_core::id::{ClusterId, ObjectKey, VolumeId};
use sherd_core::report::NodeReport;
use sherd_core::topology::Topology;
use sherd_core::topology::formation::FormAnswer;
use sherd_proto::convert::Wire;
use sherd_proto::convert::admin::volume_ids_to_wire;
use sherd_proto::convert::http_call::reply_to_wire;
use sherd_proto::sender::{VersionRule, sender};
use sherd_proto::v1::admin_service_server::{AdminService, AdminServiceServer};
use sherd_proto::v1::{
    CallReply, CallRequest, ForgetBucketReply, ForgetBucketRequest, ForgetIamReply, ForgetIamRequest,
    FormReply, FormRequest, OrderReply, PingReply, PingRequest, RevokeKeyReply, RevokeKeyRequest, Sender,
    StatusReply, StatusRequest, TopologyReply, TopologyRequest, VolumeOrder, form_reply,
};
use tonic::service::Routes;

use super::error;
use super::requests::AdminHttp;
use crate::tls::{ConnectedPeer, PeerIdentity, Role};
use sherd_store::cluster::formation::FormationAnswers;
use sherd_store::cluster::membership::Membership;

/// The process' part of this service.
pub trait NodeControl: Debug + Send + Sync {
    /// The cluster as this node sees it. Does not wait.
    fn status(&self) -> StatusReply;

    /// Rebuilds a volume of this node in its empty directory without waiting for its disk.
    ///
    /// # Errors
    /// Why not, in words.
    fn replace_volume(&self, volume: VolumeId) -> Result<(), String>;

    /// Forgets the view of a bucket that was changed through another node. Does not wait.
    fn forget_bucket(&self, bucket: &ObjectKey);

    /// Forgets all views of access keys, as a record of IAM was changed through another node. Does not wait.
    fn forget_iam(&self);

    /// Ends the requests of an access key that are under way through this node. Does not wait.
    fn revoke_key(&self, key: AccessKeyId);

    /// Lets a volume of this node vote that too few of its peers confirm.
    ///
    /// # Errors
    /// Why not, in words.
    fn vouch(&self, volume: VolumeId) -> Result<(), String>;
}

/// The service.
#[derive(Debug, Clone)]
pub struct AdminRpc {
    /// The cluster that callers must be of.
    pub cluster: ClusterId,
    /// The nodes, and what this one says of itself.
    pub membership: Arc<Membership>,
    /// The answers to attempts to form the cluster.
    pub formation: FormationAnswers,
    /// The name of the first configured node, which alone makes attempts.
    pub maker: String,
    /// The process.
    pub node: Arc<dyn NodeControl>,
    /// HTTP requests that come as calls.
    pub requests: AdminHttp,
}

impl AdminRpc {
    /// Adds the service to the others.
    pub fn add_to(self, routes: Routes) -> Routes {
        routes.add_service(AdminServiceServer::new(self))
    }

    /// Checks a sender by the role in the certificate of its connection: operators and admins may be of any
    /// version.
    fn check(&self, sender: Option<Sender>, by: &PeerIdentity) -> Result<(), Status> {
        let rule = match by.role {
            Role::Node => VersionRule::Nodes,
            Role::Operator | Role::Admin => VersionRule::Admins,
        };
        error::check_sender(sender, self.cluster, rule)
    }

    fn sender(&self) -> Sender {
        sender(self.cluster, self.formation.topology().map(|topology| topology.epoch()))
    }

    fn order(
        &self,
        order: &VolumeOrder,
        by: &PeerIdentity,
        what: &'static str,
        follow: impl FnOnce(VolumeId) -> Result<(), String>,
    ) -> Result<Response<OrderReply>, Status> {
        self.check(order.sender.clone(), by)?;
        let volume = VolumeId::from_wire(order.volume.clone())
            .map_err(|_| Status::invalid_argument("volume: not 16 bytes"))?;
        let refused = follow(volume).err().unwrap_or_default();
        // An order may cost data: the log keeps by whose certificate it was given.
        tracing::warn!(order = what, %volume, by = by.name, role = %by.role, refused, "order");
        Ok(Response::new(OrderReply { refused }))
    }
}

/// A topology as volume.json has it.
fn json_of(topology: &Topology) -> Bytes {
    serde_json::to_vec(topology).expect("a topology is JSON").into()
}

/// The caller, as the connection's certificate names it.
fn caller<T>(request: &Request<T>) -> Result<PeerIdentity, Status> {
    connected(request).map(|peer| peer.identity().clone())
}

/// The other end of the connection that a request came over.
fn connected<T>(request: &Request<T>) -> Result<ConnectedPeer, Status> {
    let peer = request.extensions().get::<ConnectedPeer>();
    peer.cloned().ok_or_else(|| Status::internal("the connection has no identity"))
}

#[tonic::async_trait]
impl AdminService for AdminRpc {
    async fn ping(&self, request: Request<PingRequest>) -> Result<Response<PingReply>, Status> {
        let by = caller(&request)?;
        let PingRequest { sender, caller } = request.into_inner();
        self.check(sender, &by)?;
        if let Some(caller) = caller {
            if by.role != Role::Node || by.name != caller.name {
                let (name, called) = (&by.name, &caller.name);
                let what = format!(
                    "the certificate is of {} {name}, and the caller says it is node {called}",
                    by.role
                );
                return Err(Status::permission_denied(what));
            }
            let caller = NodeReport::from_wire(caller).map_err(|error| error::invalid(&error))?;
            self.membership.note_caller(&caller);
        }
        let mut node = NodeReport::clone(&self.membership.own_report());
        // A proof is for those that have the secret themselves.
        if by.role != Role::Node {
            node.credentials_proofs.clear();
        }
        Ok(Response::new(PingReply { sender: Some(self.sender()), node: Some(node.to_wire()) }))
    }

    async fn topology(&self, request: Request<TopologyRequest>) -> Result<Response<TopologyReply>, Status> {
        let by = caller(&request)?;
        self.check(request.into_inner().sender, &by)?;
        let topology = self.formation.topology().map(|topology| json_of(&topology));
        Ok(Response::new(TopologyReply { sender: Some(self.sender()), topology }))
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let by = caller(&request)?;
        self.check(request.into_inner().sender, &by)?;
        let mut status = self.node.status();
        // The operator has the secrets: it gave them to the nodes.
        if by.role != Role::Operator {
            status.credentials_proofs.clear();
        }
        Ok(Response::new(StatusReply { sender: Some(self.sender()), ..status }))
    }

    async fn replace_volume(&self, request: Request<VolumeOrder>) -> Result<Response<OrderReply>, Status> {
        let by = caller(&request)?;
        let order = request.into_inner();
        self.order(&order, &by, "replace volume", |volume| self.node.replace_volume(volume))
    }

    async fn vouch(&self, request: Request<VolumeOrder>) -> Result<Response<OrderReply>, Status> {
        let by = caller(&request)?;
        let order = request.into_inner();
        self.order(&order, &by, "vouch", |volume| self.node.vouch(volume))
    }

    async fn form(&self, request: Request<FormRequest>) -> Result<Response<FormReply>, Status> {
        let by = caller(&request)?;
        let FormRequest { sender, maker, attempt } = request.into_inner();
        self.check(sender, &by)?;
        if by.name != self.maker {
            let what = format!("{} makes no attempts to form the cluster: {} does", by.name, self.maker);
            return Err(Status::permission_denied(what));
        }
        let answer = self.formation.form(attempt).await.map_err(|error| {
            tracing::warn!(maker, attempt, %error, "an attempt to form the cluster is not answered");
            Status::unavailable(error.to_string())
        })?;
        let reply = match answer {
            FormAnswer::Refused(last) => form_reply::Reply::Refused(last),
            FormAnswer::Topology(topology) => form_reply::Reply::Topology(json_of(&topology)),
            FormAnswer::Ids(ids) => {
                let volumes = volume_ids_to_wire(&ids);
                form_reply::Reply::Volumes(form_reply::VolumeIds { volumes })
            }
        };
        Ok(Response::new(FormReply { reply: Some(reply) }))
    }

    async fn forget_bucket(
        &self,
        request: Request<ForgetBucketRequest>,
    ) -> Result<Response<ForgetBucketReply>, Status> {
        let by = caller(&request)?;
        let ForgetBucketRequest { sender, bucket } = request.into_inner();
        self.check(sender, &by)?;
        let bucket = ObjectKey::new(bucket).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.node.forget_bucket(&bucket);
        Ok(Response::new(ForgetBucketReply {}))
    }

    async fn forget_iam(
        &self,
        request: Request<ForgetIamRequest>,
    ) -> Result<Response<ForgetIamReply>, Status> {
        let by = caller(&request)?;
        self.check(request.into_inner().sender, &by)?;
        self.node.forget_iam();
        Ok(Response::new(ForgetIamReply {}))
    }

    async fn revoke_key(
        &self,
        request: Request<RevokeKeyRequest>,
    ) -> Result<Response<RevokeKeyReply>, Status> {
        let by = caller(&request)?;
        let RevokeKeyRequest { sender, access_key } = request.into_inner();
        self.check(sender, &by)?;
        let key = AccessKeyId::parse(&access_key)
            .ok_or_else(|| Status::invalid_argument("access_key: no id of an access key"))?;
        self.node.revoke_key(key);
        Ok(Response::new(RevokeKeyReply {}))
    }

    async fn call(&self, request: Request<CallRequest>) -> Result<Response<CallReply>, Status> {
        let peer = connected(&request)?;
        let mut call = request.into_inner();
        self.check(call.sender.take(), peer.identity())?;
        let reply = self.requests.answer(call, peer).await?;
        let reply = reply_to_wire(self.sender(), reply).map_err(|error| {
            Status::resource_exhausted(format!("the answer is too long for a call: {error}"))
        })?;
        Ok(Response::new(reply))
    }
}
