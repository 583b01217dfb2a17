//! Requests of S3 and IAM that the operator sends to the nodes of a cluster, as root and over mTLS: what is
//! asked, the answer, and the typed requests of buckets ([`s3`]) and users ([`iam`]).
//!
//! A request goes to the nodes one after the other until one answers, so each must be harmless to repeat: one
//! whose answer was lost may have been carried out.

pub mod xml;
pub mod s3;
pub mod iam;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use sherd_proto::convert::http_call::HttpService;

use crate::limits;
use crate::names::Names;
use crate::rotation::ClusterTrust;

/// One HTTP request.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreCall {
    /// The service.
    pub service: HttpService,
    /// The method.
    pub method: &'static str,
    /// Path and query.
    pub uri: String,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

impl std::fmt::Debug for StoreCall {
    /// Leaves the body out: it may hold the secret of a key that is given.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { service, method, uri, headers: _, body: _ } = self;
        let mut call = f.debug_struct("StoreCall");
        call.field("service", service).field("method", method).field("uri", uri).finish_non_exhaustive()
    }
}

/// The answer to one request.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreAnswer {
    /// HTTP's status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
}

impl std::fmt::Debug for StoreAnswer {
    /// Leaves the body out: it may hold a new key's secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// A node that a request is sent to.
#[derive(Debug, Clone)]
pub struct CallTarget {
    /// The pod of the node.
    pub pod: String,
    /// Host and port.
    pub address: String,
}

/// The means to send a request: mTLS, or a script in tests.
pub trait StoreCalls: Send + Sync {
    /// Sends one request to one node; the error says in words why it got none.
    fn call(
        &self,
        trust: &Arc<ClusterTrust>,
        target: CallTarget,
        call: StoreCall,
        now: Duration,
    ) -> BoxFuture<'static, Result<StoreAnswer, String>>;
}

/// Why a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No node answered.
    #[error("no node answers the operator: {0}")]
    Silent(String),
    /// The service refused it.
    #[error(transparent)]
    Refused(Refusal),
    /// The answer is not what the service gives.
    #[error("the answer to {0} cannot be read")]
    Malformed(&'static str),
}

/// A refusal with the service's own code and words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// HTTP's status.
    pub status: u16,
    /// The code.
    pub code: String,
    /// The words.
    pub message: String,
}

/// The nodes of a cluster as they are asked.
#[derive(Clone)]
pub struct ClusterCalls {
    calls: Arc<dyn StoreCalls>,
    trust: Arc<ClusterTrust>,
    targets: Vec<CallTarget>,
    now: Duration,
}

impl std::fmt::Debug for ClusterCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterCalls").field("targets", &self.targets).finish_non_exhaustive()
    }
}

impl ClusterCalls {
    /// Returns the calls to the nodes of a cluster's pods.
    pub fn new(
        calls: Arc<dyn StoreCalls>,
        trust: Arc<ClusterTrust>,
        names: &Names,
        pods: Vec<String>,
        now: Duration,
    ) -> Self {
        let target = |pod: String| CallTarget { address: names.node_address(&pod), pod };
        Self { calls, trust, targets: pods.into_iter().map(target).collect(), now }
    }

    /// Sends a request to the first node that answers, and returns the body of a success.
    ///
    /// # Errors
    /// [`CallError::Silent`] and [`CallError::Refused`].
    pub async fn send(&self, call: StoreCall) -> Result<Bytes, CallError> {
        let mut silence = "no pod of the cluster serves".to_owned();
        for target in self.targets.iter().take(limits::CALL_NODES_MAX) {
            let pod = target.pod.clone();
            let sent = self.calls.call(&self.trust, target.clone(), call.clone(), self.now);
            match tokio::time::timeout(limits::CALL_TIME_MAX, sent).await {
                Ok(Ok(answer)) if (200..300).contains(&answer.status) => return Ok(answer.body),
                Ok(Ok(answer)) => return Err(CallError::Refused(refusal(&answer))),
                Ok(Err(error)) => silence = format!("{pod}: {error}"),
                Err(_) => silence = format!("{pod}: no answer within {:?}", limits::CALL_TIME_MAX),
            }
        }
        Err(CallError::Silent(silence))
    }
}

fn refusal(answer: &StoreAnswer) -> Refusal {
    let parsed = xml::parse(&answer.body);
    let text = |name: &str| parsed.as_ref().and_then(|root| root.find(name)).map(|found| found.text.clone());
    Refusal {
        status: answer.status,
        code: text("Code").unwrap_or_else(|| format!("HTTP {}", answer.status)),
        message: text("Message").unwrap_or_else(|| "without words".to_owned()),
    }
}

impl Refusal {
    /// Whether the store could not serve the request, so that a later one may succeed.
    pub fn is_transient(&self) -> bool {
        let codes = ["OperationAborted", "ConcurrentModification", "Throttling"];
        let unserved = self.status == 501;
        (self.status >= 500 && !unserved) || self.status == 429 || codes.contains(&self.code.as_str())
    }
}

/// Turns the refusal with this code into nothing.
fn absent<T>(result: Result<T, CallError>, code: &str) -> Result<Option<T>, CallError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(CallError::Refused(refusal)) if refusal.code == code => Ok(None),
        Err(error) => Err(error),
    }
}
