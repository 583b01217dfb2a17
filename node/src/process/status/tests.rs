//! Questions over real connections, to a node that answers and to other servers.

use std::path::Path;

use sherd_core::env::Clock as _;
use sherd_core::id::ClusterId;
use sherd_proto::v1::admin_service_server::{AdminService, AdminServiceServer};
use sherd_proto::v1::{
    CallReply, CallRequest, ForgetBucketReply, ForgetBucketRequest, ForgetIamReply, ForgetIamRequest,
    FormReply, FormRequest, OrderReply, PingReply, PingRequest, RevokeKeyReply, RevokeKeyRequest, Sender,
    StatusReply, StatusRequest, TopologyReply, TopologyRequest, VolumeOrder,
};
use sherd_trust::limits::LEAF_LIFETIME;
use sherd_trust::{Authority, PeerIdentity, Role};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::*;
use crate::process::node_client::NodeArgs;
use sherd_net::tls::{ConnectedPeer, Trust, TrustFiles};
use sherd_store::machine::system::SystemClock;

const CLUSTER: ClusterId = ClusterId([0x6a; 16]);

/// A node that answers questions about its state, and says who asked.
struct AnsweringNode;

#[tonic::async_trait]
impl AdminService for AnsweringNode {
    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let peer = request.extensions().get::<ConnectedPeer>().expect("every connection has one").identity();
        let sender = request.get_ref().sender.as_ref().expect("every request has one");
        assert_eq!(sender.cluster[..], CLUSTER.0[..]);
        let node = peer.dns_name();
        // A node of a later release, with a version of the messages of its own.
        let sender = Some(Sender { wire: sender.wire + 7, ..sender.clone() });
        Ok(Response::new(StatusReply { sender, node, ..StatusReply::default() }))
    }

    async fn ping(&self, _: Request<PingRequest>) -> Result<Response<PingReply>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn topology(&self, _: Request<TopologyRequest>) -> Result<Response<TopologyReply>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn replace_volume(&self, _: Request<VolumeOrder>) -> Result<Response<OrderReply>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn vouch(&self, _: Request<VolumeOrder>) -> Result<Response<OrderReply>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn form(&self, _: Request<FormRequest>) -> Result<Response<FormReply>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn call(&self, _: Request<CallRequest>) -> Result<Response<CallReply>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn forget_iam(&self, _: Request<ForgetIamRequest>) -> Result<Response<ForgetIamReply>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn revoke_key(&self, _: Request<RevokeKeyRequest>) -> Result<Response<RevokeKeyReply>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn forget_bucket(
        &self,
        _: Request<ForgetBucketRequest>,
    ) -> Result<Response<ForgetBucketReply>, Status> {
        Err(Status::unimplemented(""))
    }
}

/// A directory with the certificates of one cluster.
struct Pki(tempfile::TempDir, Authority);

impl Pki {
    fn of(cluster: ClusterId) -> Self {
        let authority = Authority::init(cluster, SystemClock::new().wall_ms()).expect("a key and a clock");
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("ca.crt"), authority.certificate()).expect("a new file");
        Self(dir, authority)
    }

    fn files(&self, name: &str, role: Role) -> TrustFiles {
        use std::os::unix::fs::PermissionsExt as _;
        let issued = self.1.issue(name, role, SystemClock::new().wall_ms(), LEAF_LIFETIME).expect("a name");
        let path = |name: &str| self.0.path().join(name);
        let (cert, key) = (path(&format!("{name}.crt")), path(&format!("{name}.key")));
        std::fs::write(&cert, &issued.certificate).expect("a new file");
        std::fs::write(&key, &issued.key).expect("a new file");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("my own file");
        TrustFiles { ca: path("ca.crt"), cert, key }
    }

    fn arguments(&self, endpoint: &str, name: &str, role: Role) -> StatusArgs {
        let TrustFiles { ca, cert, key } = self.files(name, role);
        let node = NodeArgs { endpoint: endpoint.to_owned(), ca, cert, key };
        StatusArgs { node, json: false, watch: false }
    }
}

/// Serves as `name` until the test ends, and says where.
async fn serve(pki: &Pki, name: &str, role: Role) -> String {
    let own = PeerIdentity::new(name, role, CLUSTER).expect("a name");
    let trust = Trust::load(pki.files(name, role), own).expect("its own certificate");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let accepted = futures::stream::unfold((listener, trust), async |(listener, trust)| {
        let (stream, _) = listener.accept().await.ok()?;
        Some((trust.accept(stream).await.map_err(io::Error::other), (listener, trust)))
    });
    let service = AdminServiceServer::new(AnsweringNode);
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(Box::pin(accepted)));
    address
}

async fn asked(arguments: &StatusArgs) -> Result<StatusReply, String> {
    let asker = StatusAsker::new(&arguments.node).await.map_err(|error| error.to_string())?;
    asker.ask().await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn any_node_answers_any_role_of_its_cluster() {
    let pki = Pki::of(CLUSTER);
    let address = serve(&pki, "n7", Role::Node).await;
    for (name, role) in [("anna", Role::Admin), ("operator", Role::Operator), ("n1", Role::Node)] {
        let reply = asked(&pki.arguments(&address, name, role)).await.expect("an answer");
        assert_eq!(reply.node, PeerIdentity::new(name, role, CLUSTER).expect("a name").dns_name());
        assert_eq!(verdict(&reply), ClusterVerdict::NotServing, "it is not formed");
    }
}

#[tokio::test]
async fn what_is_no_node_of_the_cluster_is_refused_by_name() {
    let pki = Pki::of(CLUSTER);
    let address = serve(&pki, "n1", Role::Node).await;
    // The same id under another authority, and another cluster.
    for other in [CLUSTER, ClusterId([0x77; 16])] {
        let error = asked(&Pki::of(other).arguments(&address, "anna", Role::Admin)).await;
        let error = error.expect_err("not of this cluster");
        assert!(error.contains(&address) && error.contains("the certificate of n1"), "{error}");
    }
    let address = serve(&pki, "bob", Role::Admin).await;
    let error = asked(&pki.arguments(&address, "anna", Role::Admin)).await.expect_err("no node");
    assert!(error.ends_with("is not that of a node"), "{error}");
}

#[tokio::test]
async fn nothing_at_the_address_and_no_certificate_are_named() {
    let pki = Pki::of(CLUSTER);
    let free = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let address = free.local_addr().expect("it is bound").to_string();
    drop(free);
    let mut arguments = pki.arguments(&address, "anna", Role::Admin);
    let error = asked(&arguments).await.expect_err("it refuses connections");
    assert!(error.starts_with(&format!("connect to {address}: ")), "{error}");
    arguments.node.cert = Path::new("/nowhere/anna.crt").to_owned();
    let error = asked(&arguments).await.expect_err("there is no file");
    assert!(error.starts_with("/nowhere/anna.crt: "), "{error}");
}
