//! Certificates of one run: an authority of its own, and both sides of TLS 1.3 with ring that trust it.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sherd_core::env::Clock as _;
use sherd_store::machine::system::SystemClock;
use sherd_trust::ServiceAuthority;

use super::ends::BoxError;
use crate::limits::CERTIFICATE_LIFETIME;

/// The name in the certificate.
const NAME: &str = "localhost";

/// Both sides of a handshake.
#[derive(Debug, Clone)]
pub(super) struct Sides {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
}

impl Sides {
    /// Of a new authority; they agree on `protocol`, if there is one.
    pub(super) fn new(protocol: Option<&[u8]>) -> Result<Self, BoxError> {
        let now_ms = SystemClock::new().wall_ms();
        let authority = ServiceAuthority::init("sherd-bench", now_ms)?;
        let issued = authority.issue(&[NAME.to_owned()], now_ms, CERTIFICATE_LIFETIME)?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes())?)?;
        let chain = vec![CertificateDer::from_pem_slice(issued.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = [&rustls::version::TLS13];
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let protocols: Vec<Vec<u8>> = protocol.map(<[u8]>::to_vec).into_iter().collect();
        client.alpn_protocols.clone_from(&protocols);
        server.alpn_protocols = protocols;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    pub(super) fn name() -> ServerName<'static> {
        ServerName::try_from(NAME).expect("a name")
    }
}
