//! The parts that a cluster needs for S3 over TLS, as they are decided and issued.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::secret_text::SecretText;

/// How pods serve S3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum S3Serving {
    /// In clear.
    #[default]
    Clear,
    /// With the certificate of this Secret.
    Tls(String),
    /// Not yet: TLS is asked for, and neither a certificate nor a pod is there.
    Awaited,
}

/// A certificate, or a CA's, and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3KeyPair {
    /// The certificate.
    pub certificate: String,
    /// The certificate's key.
    pub key: SecretText,
}

/// The certificates and requests of a cluster for S3 over TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct S3Material {
    /// How pods serve.
    pub serving: S3Serving,
    /// Whether clients reach S3 by TLS: most of the pods that are there serve it.
    pub is_reached_by_tls: bool,
    /// The CA that the operator signs with, in mode Operator.
    pub authority: Option<S3KeyPair>,
    /// The certificate that it signed.
    pub certificate: Option<S3KeyPair>,
    /// The CAs that clients trust, in PEM, where they are known.
    pub trusted: Option<String>,
    /// The names to ask cert-manager for, where its API is there.
    pub requested: Option<BTreeSet<String>>,
}

/// Seconds since the Unix epoch, as certificates count them.
pub(super) fn seconds(now: Duration) -> i64 {
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
