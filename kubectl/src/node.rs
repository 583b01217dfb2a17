//! A connection to a node: a port of its pod through the API server, and mutual TLS over it.
//!
//! ```text
//! Secret -> NodeCertificate --+
//! PodPorts (port-forward) ----+--> TLS, the node's name is that of the pod --> a question
//! ```
//! Pods are tried one after the other until one answers. Nothing of a Secret is written to disk.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Api, ResourceExt as _};
use sherd_admin::ask::{RequestClient, ask_status};
use sherd_core::id::ClusterId;
use sherd_operator::mutual_tls::{connector, server_name};
use sherd_operator::names::{CA_CERTIFICATE, NODE_PORT, TLS_CERTIFICATE, TLS_KEY};
use sherd_operator::secret_text::SecretText;
use sherd_proto::v1::StatusReply;
use sherd_trust::CertificateFacts;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::cluster::FoundCluster;
use crate::error::PluginError;
use crate::limits::{FAULT_TIMEOUT, NODE_ANSWER_TIMEOUT, NODE_CONNECT_TIMEOUT, NODES_TRIED_MAX};
use crate::session::Session;

/// A stream of bytes in both directions.
pub trait PortStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> PortStream for S {}

/// A port of a pod.
pub struct PodPort {
    /// The port's bytes, both ways.
    pub stream: Box<dyn PortStream>,
    /// Why it was closed, once it was; nothing where no reason comes.
    pub fault: BoxFuture<'static, Option<String>>,
}

impl std::fmt::Debug for PodPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PodPort")
    }
}

/// The means to open the nodes' port of a pod: the API server, or streams in memory in tests.
pub trait PodPorts: Send + Sync {
    /// Opens it.
    fn open<'a>(&'a self, pod: &'a str) -> BoxFuture<'a, Result<PodPort, PluginError>>;
}

impl PodPorts for Session {
    /// Opens it as `kubectl port-forward` does, without a port on this machine.
    fn open<'a>(&'a self, pod: &'a str) -> BoxFuture<'a, Result<PodPort, PluginError>> {
        Box::pin(async move {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
            // Asked for over a WebSocket: older API servers want `get`, newer ones `create`, too.
            let right = self.right("get,create", "pods/portforward", pod);
            let mut forwarder = self.ask(right.clone(), api.portforward(pod, &[NODE_PORT])).await?;
            let taken = forwarder.take_stream(NODE_PORT).zip(forwarder.take_error(NODE_PORT));
            let (stream, fault) = taken.ok_or_else(|| PluginError::Api {
                right,
                words: "it opened no stream for the port".to_owned(),
            })?;
            Ok(PodPort { stream: Box::new(stream), fault: Box::pin(fault) })
        })
    }
}

/// A certificate of the cluster, its key, and the CAs that nodes are verified by.
#[derive(Debug, Clone)]
pub struct NodeCertificate {
    roots: String,
    certificate: String,
    key: SecretText,
    cluster: ClusterId,
}

impl NodeCertificate {
    /// Reads the certificate of an admin, which the cluster gives where it is asked for one.
    ///
    /// # Errors
    /// [`PluginError`].
    pub async fn of_admin(session: &Session, cluster: &FoundCluster) -> Result<Self, PluginError> {
        let name = cluster.names.admin_certificate();
        match secret(session, &name).await {
            Ok(texts) => Self::of_texts(&name, &texts, TLS_CERTIFICATE, TLS_KEY),
            Err(PluginError::Missing { .. }) => Err(PluginError::NoAdmin {
                cluster: cluster.names.cluster.clone(),
                namespace: session.namespace.clone(),
                secret: name,
            }),
            Err(error) => Err(error),
        }
    }

    /// Reads a certificate that may ask for the status: that of an admin, or else that of a node.
    ///
    /// # Errors
    /// [`PluginError`].
    pub async fn of_any_role(session: &Session, cluster: &FoundCluster) -> Result<Self, PluginError> {
        let refused = match Self::of_admin(session, cluster).await {
            Err(error @ (PluginError::NoAdmin { .. } | PluginError::Forbidden { .. })) => error,
            read => return read,
        };
        let Some(pool) = cluster.object.spec.pools.first() else { return Err(refused) };
        let name = cluster.names.certificates(&pool.name);
        let texts = secret(session, &name).await?;
        let first = texts.keys().find_map(|key| key.strip_suffix(".key"));
        let Some(pod) = first else {
            return Err(PluginError::Certificate { secret: name, why: "it has no key".to_owned() });
        };
        Self::of_texts(&name, &texts, &format!("{pod}.crt"), &format!("{pod}.key"))
    }

    /// Takes the parts from a Secret's texts.
    fn of_texts(
        secret: &str,
        texts: &BTreeMap<String, String>,
        certificate: &str,
        key: &str,
    ) -> Result<Self, PluginError> {
        let refused = |why: String| PluginError::Certificate { secret: secret.to_owned(), why };
        let text = |key: &str| texts.get(key).cloned().ok_or_else(|| refused(format!("it has no key {key}")));
        let (certificate, key) = (text(certificate)?, SecretText(text(key)?));
        let facts = CertificateFacts::read_pem(certificate.as_bytes());
        let facts = facts.map_err(|error| refused(error.to_string()))?;
        Ok(Self { roots: text(CA_CERTIFICATE)?, certificate, key, cluster: facts.identity.cluster })
    }

    fn connector(&self) -> Result<TlsConnector, String> {
        connector(&self.roots, &self.certificate, &self.key.0).map_err(|error| error.to_string())
    }
}

/// Reads the texts of a Secret.
async fn secret(session: &Session, name: &str) -> Result<BTreeMap<String, String>, PluginError> {
    let api: Api<Secret> = Api::namespaced(session.client.clone(), &session.namespace);
    let found = session.ask(session.right("get", "secrets", name), api.get(name)).await?;
    Ok(sherd_operator::secret_text::texts(&found))
}

/// The nodes of a cluster, and the certificate that they are shown.
#[derive(Debug)]
pub struct Nodes<'a, P> {
    ports: &'a P,
    certificate: NodeCertificate,
    cluster: String,
    pods: Vec<String>,
}

/// A connection whose both ends are verified.
type NodeStream = TlsStream<Box<dyn PortStream>>;

impl<'a, P: PodPorts> Nodes<'a, P> {
    /// The nodes of these pods that run, those first that are ready.
    pub fn new(ports: &'a P, certificate: NodeCertificate, cluster: &FoundCluster, pods: &[Pod]) -> Self {
        let mut running: Vec<&Pod> = pods.iter().filter(|pod| is_running(pod)).collect();
        running.sort_by_key(|pod| !is_ready(pod));
        let pods = running.into_iter().take(NODES_TRIED_MAX).map(Pod::name_any).collect();
        Self { ports, certificate, cluster: cluster.names.cluster.clone(), pods }
    }

    /// Asks the first node that answers for the status of the cluster.
    ///
    /// # Errors
    /// [`PluginError`]: a right is missing, or no node answers.
    pub async fn status(&self) -> Result<StatusReply, PluginError> {
        let id = self.certificate.cluster;
        self.first(|stream, _| async move {
            let answer = timeout(NODE_ANSWER_TIMEOUT, ask_status(stream, id)).await;
            answer.unwrap_or_else(|_| Err(format!("no answer within {} s", NODE_ANSWER_TIMEOUT.as_secs())))
        })
        .await
    }

    /// Connects to the first node that can be reached, for requests as the root user; gives its pod, too.
    ///
    /// # Errors
    /// [`PluginError`]: a right is missing, or no node can be reached.
    pub async fn requests(&self) -> Result<(RequestClient, String), PluginError> {
        let id = self.certificate.cluster;
        self.first(|stream, pod| async move {
            let client = RequestClient::over(stream, id).await.map_err(|error| error.to_string())?;
            Ok((client, pod))
        })
        .await
    }

    /// Does something with the first node with which it succeeds.
    async fn first<T, F: Future<Output = Result<T, String>>>(
        &self,
        then: impl Fn(NodeStream, String) -> F,
    ) -> Result<T, PluginError> {
        let none = |why: String| PluginError::NoNode { cluster: self.cluster.clone(), why };
        let connector = self.certificate.connector().map_err(none)?;
        let mut silences = Vec::new();
        for pod in &self.pods {
            let asked = match Box::pin(self.connect(&connector, pod)).await {
                Ok(stream) => Box::pin(then(stream, pod.clone())).await,
                // No other pod could be reached either.
                Err(ConnectFailure::Refused(error @ PluginError::Forbidden { .. })) => return Err(error),
                Err(ConnectFailure::Refused(error)) => Err(error.to_string()),
                Err(ConnectFailure::Broken(why)) => Err(why),
            };
            match asked {
                Ok(answer) => return Ok(answer),
                Err(why) => silences.push(format!("{pod}: {why}")),
            }
        }
        Err(none(if silences.is_empty() { "none of its pods runs".to_owned() } else { silences.join("; ") }))
    }

    async fn connect(&self, connector: &TlsConnector, pod: &str) -> Result<NodeStream, ConnectFailure> {
        let broken = |why: &dyn std::fmt::Display| ConnectFailure::Broken(why.to_string());
        let server = server_name(pod, self.certificate.cluster).map_err(|error| broken(&error))?;
        let PodPort { stream, fault } = self.ports.open(pod).await.map_err(ConnectFailure::Refused)?;
        match timeout(NODE_CONNECT_TIMEOUT, connector.connect(server, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => {
                let fault = timeout(FAULT_TIMEOUT, fault).await.ok().flatten();
                Err(ConnectFailure::Broken(fault.unwrap_or_else(|| error.to_string())))
            }
            Err(_) => Err(ConnectFailure::Broken(format!("no answer within {NODE_CONNECT_TIMEOUT:?}"))),
        }
    }
}

/// Why a node is not connected to.
enum ConnectFailure {
    /// The API server does not open the port.
    Refused(PluginError),
    /// The node does not answer, or is not what it should be.
    Broken(String),
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// Whether its readiness probe passes.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
