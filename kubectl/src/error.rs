//! Why a command fails, in a sentence. A right that is missing is named as a Role would give it.

use std::path::PathBuf;

use kube::Error as KubeError;
use sherd_admin::plain::plain;
use sherd_admin::user::UserError;
use sherd_operator::api_words::words;

use crate::limits::ANSWER_TIMEOUT;

/// A request of the API server, as a Role allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// The verb, or several with commas between them.
    pub verb: &'static str,
    /// The resource, and its subresource behind a slash.
    pub resource: &'static str,
    /// The object's name; empty for all.
    pub name: String,
    /// The namespace; empty for all.
    pub namespace: String,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, resource, name, namespace } = self;
        write!(f, "{verb} {resource}")?;
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        match namespace.as_str() {
            "" => f.write_str(" in all namespaces"),
            namespace => write!(f, " in namespace {namespace}"),
        }
    }
}

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The kubeconfig cannot be used.
    #[error("kubeconfig: {0}")]
    Kubeconfig(String),
    /// The caller may not do this.
    #[error("you lack a right: {right}; the API server says: {words}")]
    Forbidden {
        /// The request.
        right: Right,
        /// The API server's words.
        words: String,
    },
    /// The object is not there.
    #[error("{right}: it is not there")]
    Missing {
        /// The request.
        right: Right,
    },
    /// The API server refuses, or does not answer.
    #[error("{right}: {words}")]
    Api {
        /// The request.
        right: Right,
        /// The API server's words, or what happened on the way.
        words: String,
    },
    /// The namespace has no StorageCluster.
    #[error("namespace {namespace} has no StorageCluster: --namespace names another")]
    NoCluster {
        /// The namespace.
        namespace: String,
    },
    /// The namespace has several StorageClusters.
    #[error("namespace {namespace} has several StorageClusters, of which one must be named: {names}")]
    SeveralClusters {
        /// The namespace.
        namespace: String,
        /// The names of the StorageClusters.
        names: String,
    },
    /// A Secret holds no certificate that can be used.
    #[error("Secret {secret}: {why}")]
    Certificate {
        /// The Secret.
        secret: String,
        /// The fault of its contents.
        why: String,
    },
    /// The cluster has no certificate of an admin.
    #[error(
        "StorageCluster {cluster} gives no certificate of an admin: Secret {secret} is not there. \
         `kubectl patch storagecluster {cluster} --namespace {namespace} --type merge \
         -p '{{\"spec\":{{\"adminCertificate\":{{\"enabled\":true}}}}}}'` asks the operator for one"
    )]
    NoAdmin {
        /// The cluster.
        cluster: String,
        /// The cluster's namespace.
        namespace: String,
        /// The Secret.
        secret: String,
    },
    /// No node answers.
    #[error("no node of StorageCluster {cluster} answers: {why}")]
    NoNode {
        /// The cluster.
        cluster: String,
        /// Why each does not.
        why: String,
    },
    /// No pod fits.
    #[error("{0}")]
    NoPod(String),
    /// A command on users failed.
    #[error(transparent)]
    User(#[from] UserError),
    /// The logs of some pods could not be read.
    #[error("these logs are not whole: {0}")]
    Logs(String),
    /// The archive cannot be written.
    #[error("write {path}: {source}", path = path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl PluginError {
    /// Why a request of the API server failed.
    pub fn api(right: Right, error: &KubeError) -> Self {
        let words = plain(&causes(error));
        match error {
            KubeError::Api(status) if status.code == 403 => Self::Forbidden { right, words },
            // Of a resource that is not defined it says no name.
            KubeError::Api(status) if status.code == 404 && !right.name.is_empty() => Self::Missing { right },
            _ => Self::Api { right, words },
        }
    }

    /// The API server did not answer in time.
    pub fn late(right: Right) -> Self {
        Self::Api { right, words: format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()) }
    }
}

/// The API server's words, or an error with its causes.
fn causes(error: &KubeError) -> String {
    if matches!(error, KubeError::Api(_)) {
        return words(error);
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
