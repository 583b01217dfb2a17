//! Why a reconcile failed, by what is counted and by whether a report still follows.

use std::borrow::Cow;
use std::time::Duration;

use sherd_trust::AuthorityError;

use crate::api_words::words;
use crate::lease::NAMESPACE_LEASE;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API server refused, or could not be asked.
    #[error("{operation} {kind} {name}: {}", words(.source))]
    Api {
        /// The operation that was tried.
        operation: &'static str,
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
    /// A child was built that does not decode as its kind.
    #[error("a child was built wrong: {0}")]
    Build(#[source] serde_json::Error),
    /// An object of the API server does not decode as its kind.
    #[error("an object is not of its kind: {0}")]
    Decode(#[source] serde_json::Error),
    /// Some children could not be made true; the others are.
    #[error("{}", .0.iter().map(Self::to_string).collect::<Vec<_>>().join("; "))]
    Children(Vec<Self>),
    /// The Secrets of the plan could not be made.
    #[error(transparent)]
    Material(#[from] MaterialError),
    /// The lease that says which operator manages this namespace could not be read.
    #[error("the lease {NAMESPACE_LEASE} in namespace {namespace}: {cause}")]
    NamespaceLease {
        /// The namespace.
        namespace: String,
        /// Why.
        cause: String,
    },
    /// The observation of the cluster failed.
    #[error(transparent)]
    Unobserved(Box<Self>),
    /// The reconcile took too long.
    #[error("the reconcile took longer than {0:?}")]
    Time(Duration),
}

impl ReconcileError {
    pub(crate) fn api(operation: &'static str, kind: Cow<'_, str>, name: &str, source: kube::Error) -> Self {
        Self::Api { operation, kind: kind.into_owned(), name: name.to_owned(), source: Box::new(source) }
    }

    /// Returns what a metric counts it as.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => match status.code {
                    401 | 403 => "forbidden",
                    404 | 410 => "missing",
                    409 => "conflict",
                    400..=499 => "rejected",
                    _ => "server",
                },
                _ => "unreachable",
            },
            Self::Build(_) => "build",
            Self::Decode(_) => "decode",
            // A refusal is what a person can act on.
            Self::Children(failures) => {
                let refusal = failures.iter().find(|failure| failure.is_refusal());
                refusal.or(failures.first()).map_or("server", Self::category)
            }
            Self::Material(_) => "material",
            Self::NamespaceLease { .. } => "lease",
            Self::Unobserved(error) => error.category(),
            Self::Time(_) => "time",
        }
    }

    /// Whether the reconcile ended before the cluster was judged, so that the last report still stands.
    pub fn is_unreported(&self) -> bool {
        matches!(self, Self::Unobserved(_) | Self::Time(_))
    }

    /// Whether the reconcile ended before the cluster's disruption budget was judged.
    pub(crate) fn is_unjudged(&self) -> bool {
        self.is_unreported() || matches!(self, Self::NamespaceLease { .. })
    }

    /// Whether the API server answered and will not take it as it is.
    pub fn is_refusal(&self) -> bool {
        matches!(self.category(), "forbidden" | "missing" | "conflict" | "rejected")
    }
}

/// Why the Secrets of a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    /// The CA's Secret holds no CA of the cluster.
    #[error("the CA's Secret is malformed: {0}")]
    Authority(#[source] AuthorityError),
    /// A certificate could not be issued.
    #[error("cannot issue the certificate of {name}: {source}")]
    Issue {
        /// For what name.
        name: String,
        /// Why.
        source: AuthorityError,
    },
    /// A value is gone that was made at random.
    #[error("the {0} is lost, and was made at random")]
    Lost(&'static str),
    /// The system gives no random bytes.
    #[error("no random bytes: {0}")]
    Entropy(getrandom::Error),
}
