//! Asks the nodes of a cluster for their status, and sends them requests of S3 and IAM, over mTLS with a
//! certificate of the operator's own that lives for a day and stays in memory.
//!
//! The name in a node's certificate is what the operator expects at that address, so another process
//! that answers there is refused by the verification of the certificate.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use sherd_core::id::ClusterId;
use sherd_proto::convert::http_call::{reply_from_wire, request_to_wire};
use sherd_proto::sender::{VersionRule, check, sender};
use sherd_proto::v1::admin_service_client::AdminServiceClient;
use sherd_proto::v1::{Sender, StatusReply, StatusRequest, VolumeOrder};
use sherd_trust::Role;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::api::VolumeOrderKind;
use crate::calls::{CallTarget, StoreAnswer, StoreCall, StoreCalls};
use crate::limits;
use crate::mutual_tls::{connector, server_name};
use crate::names::Names;
use crate::rotation::ClusterTrust;

/// The nodes' answers by pod; an error is a text for people.
pub type NodeAnswers = BTreeMap<String, Result<StatusReply, String>>;

/// One question to one node.
#[derive(Debug, Clone)]
pub struct NodeQuestion {
    /// The pod whose node is asked.
    pub pod: String,
    /// Host and port.
    pub address: String,
    /// The cluster's id.
    pub cluster: ClusterId,
}

/// An order to one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOrder {
    /// Kind of the order.
    pub kind: VolumeOrderKind,
    /// The id of the volume, 16 bytes.
    pub volume: Vec<u8>,
}

/// The means to ask a node: mTLS, or a script in tests.
pub trait StatusSource: Send + Sync {
    /// Asks one node.
    fn ask(
        &self,
        trust: &Arc<ClusterTrust>,
        question: NodeQuestion,
        now: Duration,
    ) -> BoxFuture<'static, Result<StatusReply, String>>;

    /// Gives one node an order about a volume of its own. Returns why the node refuses it; empty where it
    /// does not.
    fn order(
        &self,
        trust: &Arc<ClusterTrust>,
        question: NodeQuestion,
        order: NodeOrder,
        now: Duration,
    ) -> BoxFuture<'static, Result<String, String>>;
}

/// Asks all pods of a cluster, some at a time.
pub(super) async fn ask_all(
    source: &dyn StatusSource,
    trust: &Arc<ClusterTrust>,
    names: &Names,
    pods: Vec<String>,
    now: Duration,
) -> NodeAnswers {
    let questions = pods.into_iter().map(|pod| {
        let question =
            NodeQuestion { address: names.node_address(&pod), cluster: trust.cluster(), pod: pod.clone() };
        let answer = source.ask(trust, question, now);
        async move {
            let answer = tokio::time::timeout(limits::NODE_ANSWER_TIME_MAX, answer).await;
            (pod, answer.unwrap_or_else(|_| Err("no answer within 5 s".to_owned())))
        }
    });
    futures::stream::iter(questions).buffer_unordered(limits::NODES_ASKED_MAX).collect().await
}

type TrustDigest = [u8; 32];

/// Asks over mTLS.
#[derive(Default)]
pub struct TlsNodes {
    /// The operator's certificates, by the CAs that they are issued under and that are trusted: made again at
    /// half their life.
    connectors: Mutex<HashMap<TrustDigest, (Duration, TlsConnector)>>,
    /// Connections that requests of S3 and IAM are sent on, by these CAs and the node's address. One that
    /// breaks is made again by the next request on it; each ends with the certificate that it was made with.
    channels: Mutex<HashMap<(TrustDigest, String), (Duration, Channel)>>,
}

impl std::fmt::Debug for TlsNodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsNodes")
    }
}

impl StatusSource for TlsNodes {
    fn ask(
        &self,
        trust: &Arc<ClusterTrust>,
        question: NodeQuestion,
        now: Duration,
    ) -> BoxFuture<'static, Result<StatusReply, String>> {
        let connector = self.connector(trust, now);
        Box::pin(async move { ask(connector?, question).await })
    }

    fn order(
        &self,
        trust: &Arc<ClusterTrust>,
        question: NodeQuestion,
        order: NodeOrder,
        now: Duration,
    ) -> BoxFuture<'static, Result<String, String>> {
        let connector = self.connector(trust, now);
        Box::pin(async move { give(connector?, question, order).await })
    }
}

impl TlsNodes {
    fn connector(&self, trust: &ClusterTrust, now: Duration) -> Result<TlsConnector, String> {
        let key = trust.digest();
        let mut connectors = self.connectors.lock();
        connectors.retain(|_, (issued, _)| now < *issued + limits::OPERATOR_CERTIFICATE_RENEWED);
        if let Some((_, connector)) = connectors.get(&key) {
            return Ok(connector.clone());
        }
        let connector =
            connect_with(trust, now).map_err(|error| format!("no certificate of its own: {error}"))?;
        connectors.insert(key, (now, connector.clone()));
        Ok(connector)
    }

    /// The connection to a node, which is made when it is first used.
    fn channel(&self, trust: &ClusterTrust, target: CallTarget, now: Duration) -> Result<Channel, String> {
        let CallTarget { pod, address } = target;
        let key = (trust.digest(), address.clone());
        let connector = self.connector(trust, now)?;
        let mut channels = self.channels.lock();
        channels.retain(|_, (made, _)| now < *made + limits::OPERATOR_CERTIFICATE_RENEWED);
        if let Some((_, channel)) = channels.get(&key) {
            return Ok(channel.clone());
        }
        let server = server_name(&pod, trust.cluster()).map_err(|error| error.to_string())?;
        let endpoint = endpoint().keep_alive_while_idle(false);
        let channel = endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
            dial(connector.clone(), address.clone(), server.clone())
        }));
        channels.insert(key, (now, channel.clone()));
        Ok(channel)
    }
}

impl StoreCalls for TlsNodes {
    fn call(
        &self,
        trust: &Arc<ClusterTrust>,
        target: CallTarget,
        call: StoreCall,
        now: Duration,
    ) -> BoxFuture<'static, Result<StoreAnswer, String>> {
        let (channel, cluster) = (self.channel(trust, target, now), trust.cluster());
        Box::pin(async move { send(channel?, cluster, call).await })
    }
}

async fn send(channel: Channel, cluster: ClusterId, call: StoreCall) -> Result<StoreAnswer, String> {
    let StoreCall { service, method, uri, headers, body } = call;
    let mut request = http::Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(body).map_err(|error| error.to_string())?;
    let request =
        request_to_wire(sender(cluster, None), service, request).map_err(|error| error.to_string())?;
    let mut client = AdminServiceClient::new(channel).max_decoding_message_size(limits::CALL_BYTES_MAX);
    let mut reply = client.call(request).await.map_err(|status| refused(&status))?.into_inner();
    check_answer(reply.sender.take(), cluster)?;
    let reply = reply_from_wire(reply).map_err(|error| error.to_string())?;
    Ok(StoreAnswer { status: reply.status().as_u16(), body: reply.into_body() })
}

fn connect_with(
    trust: &ClusterTrust,
    now: Duration,
) -> Result<TlsConnector, Box<dyn std::error::Error + Send + Sync>> {
    let now_ms = u64::try_from(now.as_millis())?;
    let issued = trust.signer.issue("operator", Role::Operator, now_ms, limits::OPERATOR_CERTIFICATE_LIFE)?;
    Ok(connector(&trust.roots, &issued.certificate, &issued.key)?)
}

async fn ask(connector: TlsConnector, question: NodeQuestion) -> Result<StatusReply, String> {
    let cluster = question.cluster;
    let mut client = connect(connector, question).await?;
    let reply = client.status(StatusRequest { sender: Some(sender(cluster, None)) }).await;
    let reply = reply.map_err(|status| refused(&status))?.into_inner();
    check_answer(reply.sender.clone(), cluster)?;
    Ok(reply)
}

/// Checks who sends an answer. Nodes of any version answer operators of any version.
fn check_answer(sender: Option<Sender>, cluster: ClusterId) -> Result<(), String> {
    let checked = check(sender, cluster, VersionRule::Admins);
    checked.map(drop).map_err(|refusal| format!("its answer: {refusal}"))
}

async fn give(connector: TlsConnector, question: NodeQuestion, order: NodeOrder) -> Result<String, String> {
    let NodeOrder { kind, volume } = order;
    let order = VolumeOrder { sender: Some(sender(question.cluster, None)), volume: volume.into() };
    let mut client = connect(connector, question).await?;
    let reply = match kind {
        VolumeOrderKind::Vouch => client.vouch(order).await,
        VolumeOrderKind::Replace => client.replace_volume(order).await,
    };
    reply.map(|reply| reply.into_inner().refused).map_err(|status| refused(&status))
}

/// A connection of its own to a node.
async fn connect(
    connector: TlsConnector,
    question: NodeQuestion,
) -> Result<AdminServiceClient<Channel>, String> {
    let NodeQuestion { pod, address, cluster } = question;
    let server = server_name(&pod, cluster).map_err(|error| error.to_string())?;
    let connect = tower::service_fn(move |_: Uri| dial(connector.clone(), address.clone(), server.clone()));
    let channel = endpoint().connect_with_connector(connect).await.map_err(|error| causes(&error))?;
    Ok(AdminServiceClient::new(channel).max_decoding_message_size(limits::NODE_ANSWER_BYTES_MAX))
}

async fn dial(
    connector: TlsConnector,
    address: String,
    server: ServerName<'static>,
) -> Result<TokioIo<TlsStream<TcpStream>>, std::io::Error> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(connector.connect(server, stream).await?))
}

fn endpoint() -> Endpoint {
    Endpoint::from_static("http://node.sherd").connect_timeout(limits::NODE_ANSWER_TIME_MAX)
}

fn refused(status: &tonic::Status) -> String {
    let text = format!("{}: {}", status.code(), status.message());
    // A connection that broke says only "transport error"; its cause is below.
    std::error::Error::source(status).map_or(text.clone(), |cause| format!("{text}: {}", causes(cause)))
}

/// An error with all its causes, since the outermost says only "transport error".
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
