//! A client's side of mutual TLS with nodes: for the operator's own connections, and for `kubectl sherd`.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use sherd_core::id::ClusterId;
use tokio_rustls::TlsConnector;

use crate::names::certificate_name;

/// Certificates or a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MutualTlsError {
    /// A text does not hold a certificate or key in PEM.
    #[error("read PEM: {0}")]
    Pem(#[from] pem::Error),
    /// Certificate and key do not fit together, or a root is not usable.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Returns what connects over TLS 1.3 and HTTP/2 to nodes under these CAs, and shows this certificate. All
/// are in PEM, and there may be several CAs.
///
/// # Errors
/// [`MutualTlsError`].
pub fn connector(roots: &str, certificate: &str, key: &str) -> Result<TlsConnector, MutualTlsError> {
    let mut trusted = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(roots.as_bytes()) {
        trusted.add(root?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(trusted)
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes())?],
            PrivateKeyDer::from_pem_slice(key.as_bytes())?,
        )?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns the name that the certificate of a pod's node must have.
///
/// # Errors
/// [`InvalidDnsNameError`] where the pod's name makes no DNS name.
pub fn server_name(pod: &str, cluster: ClusterId) -> Result<ServerName<'static>, InvalidDnsNameError> {
    ServerName::try_from(certificate_name(pod, cluster))
}
