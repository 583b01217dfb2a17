//! Nodes in memory: the port of each pod is a pipe to a server with the certificate of that pod, which
//! answers for its status and for requests of IAM.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::json;
use sherd_core::id::ClusterId;
use sherd_kubectl::error::PluginError;
use sherd_kubectl::node::{PodPort, PodPorts};
use sherd_proto::convert::http_call::{reply_to_wire, request_from_wire};
use sherd_proto::sender::sender;
use sherd_proto::v1::admin_service_server::{AdminService, AdminServiceServer};
use sherd_proto::v1::{
    CallReply, CallRequest, ForgetBucketReply, ForgetBucketRequest, ForgetIamReply, ForgetIamRequest,
    FormReply, FormRequest, Formation, NodeStatus, OrderReply, PingReply, PingRequest, RevokeKeyReply,
    RevokeKeyRequest, SetStatus, StatusReply, StatusRequest, TopologyReply, TopologyRequest, VolumeOrder,
};
use sherd_trust::{Authority, Role};
use tokio::io::DuplexStream;
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::server::{ApiServer, NAMESPACE};

const CLUSTER: ClusterId = ClusterId([0x6a; 16]);
const HOUR: Duration = Duration::from_hours(1);

/// Pods whose port leads to a node, by what the node does.
pub(crate) struct MemoryNodes {
    authority: Authority,
    /// Pods that answer, each with the name in its certificate.
    names: BTreeMap<String, String>,
    /// Whether they say nothing behind the handshake of TLS.
    is_silent: bool,
    /// The pods whose port was opened.
    opened: Mutex<Vec<String>>,
}

impl MemoryNodes {
    /// Nodes of these pods.
    pub(crate) fn of(pods: &[&str]) -> Self {
        let authority = Authority::init(CLUSTER, now_ms()).expect("a key and a clock");
        let names = pods.iter().map(|pod| ((*pod).to_owned(), (*pod).to_owned())).collect();
        Self { authority, names, is_silent: false, opened: Mutex::default() }
    }

    /// Gives a pod the certificate of another.
    pub(crate) fn show_as(&mut self, pod: &str, name: &str) {
        self.names.insert(pod.to_owned(), name.to_owned());
    }

    /// Lets all stop behind the handshake of TLS.
    pub(crate) const fn fall_silent(&mut self) {
        self.is_silent = true;
    }

    pub(crate) fn opened(&self) -> Vec<String> {
        self.opened.lock().expect("no test fails while it holds this").clone()
    }

    /// Puts the Secret with the certificate of an admin, as the operator makes it; gives its key.
    pub(crate) fn put_admin(&self, server: &ApiServer) -> String {
        let (certificate, key) = self.issue("kubernetes", Role::Admin);
        let texts =
            [("tls.crt", certificate.as_str()), ("tls.key", &key), ("ca.crt", self.authority.certificate())];
        server.put("/api/v1", "secrets", secret("demo-admin", &texts));
        key
    }

    /// Puts the Secret with the certificates of the pool's nodes.
    pub(crate) fn put_nodes(&self, server: &ApiServer) {
        let (certificate, key) = self.issue("demo-pool-0", Role::Node);
        let texts = [
            ("demo-pool-0.crt", certificate.as_str()),
            ("demo-pool-0.key", &key),
            ("ca.crt", self.authority.certificate()),
        ];
        server.put("/api/v1", "secrets", secret("demo-pool-certificates", &texts));
    }

    fn issue(&self, name: &str, role: Role) -> (String, String) {
        let issued = self.authority.issue(name, role, now_ms(), HOUR).expect("a name");
        (issued.certificate, issued.key)
    }

    fn acceptor(&self, name: &str) -> TlsAcceptor {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(self.authority.certificate().as_bytes()).expect("PEM");
        roots.add(root).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let (certificate, key) = self.issue(name, Role::Node);
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has it")
            .with_client_cert_verifier(clients.build().expect("it has a root"))
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM"),
            )
            .expect("they fit");
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

impl PodPorts for MemoryNodes {
    fn open<'a>(&'a self, pod: &'a str) -> BoxFuture<'a, Result<PodPort, PluginError>> {
        self.opened.lock().expect("no test fails while it holds this").push(pod.to_owned());
        let (own, far) = tokio::io::duplex(1 << 16);
        let fault = self.names.get(pod).map_or_else(
            || Some("connection refused on port 9100".to_owned()),
            |name| {
                tokio::spawn(serve(self.acceptor(name), far, name.clone(), self.is_silent));
                None
            },
        );
        Box::pin(async { Ok(PodPort { stream: Box::new(own), fault: Box::pin(async { fault }) }) })
    }
}

/// Serves the one connection.
async fn serve(acceptor: TlsAcceptor, stream: DuplexStream, name: String, is_silent: bool) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    if is_silent {
        return std::future::pending().await;
    }
    // tonic serves pipes, and no TLS over them.
    let (mut near, far) = tokio::io::duplex(1 << 16);
    let incoming = futures::stream::once(async { Ok::<_, std::io::Error>(far) });
    let service = AdminServiceServer::new(MemoryNode { name });
    let serving = Server::builder().add_service(service).serve_with_incoming(Box::pin(incoming));
    let _ended_with_the_test = tokio::join!(serving, tokio::io::copy_bidirectional(&mut stream, &mut near));
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    u64::try_from(now.as_millis()).expect("it fits")
}

/// A Secret with these texts.
pub(crate) fn secret(name: &str, texts: &[(&str, &str)]) -> serde_json::Value {
    let data: serde_json::Map<_, _> =
        texts.iter().map(|(key, text)| ((*key).to_owned(), STANDARD.encode(text).into())).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data})
}

struct MemoryNode {
    name: String,
}

#[tonic::async_trait]
impl AdminService for MemoryNode {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let node = |number: usize| NodeStatus {
            name: format!("demo-pool-{number}"),
            up: number < 3,
            version: "0.1.0".to_owned(),
            ..NodeStatus::default()
        };
        let set = SetStatus {
            volumes: 4,
            accept: 3,
            prepare: 2,
            voting: 3,
            healed: 3,
            data_shards: 2,
            parity_shards: 2,
            takes_shards: true,
            ..SetStatus::default()
        };
        Ok(Response::new(StatusReply {
            sender: Some(sender(CLUSTER, None)),
            cluster_name: "demo".to_owned(),
            node: self.name.clone(),
            formation: Some(Formation { formed: true, ..Formation::default() }),
            nodes: (0..4).map(node).collect(),
            sets: vec![set],
            problems: vec!["demo-pool-3 does not answer".to_owned()],
            ..StatusReply::default()
        }))
    }

    async fn call(&self, request: Request<CallRequest>) -> Result<Response<CallReply>, Status> {
        let (_, request) = request_from_wire(request.into_inner()).expect("a request");
        let form = String::from_utf8(request.into_body().to_vec()).expect("a form");
        let body = if form.contains("Action=ListUsers") {
            "<ListUsersResponse><ListUsersResult><Users><member><UserName>team-a.uploader</UserName>\
             <UserId>AIDA1</UserId></member></Users><IsTruncated>false</IsTruncated></ListUsersResult></ListUsersResponse>"
        } else {
            "<ErrorResponse><Error><Code>NoSuchEntity</Code><Message>there is no such user</Message></Error></ErrorResponse>"
        };
        let reply = http::Response::new(Bytes::from(body));
        Ok(Response::new(reply_to_wire(sender(CLUSTER, None), reply).expect("it is short")))
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
