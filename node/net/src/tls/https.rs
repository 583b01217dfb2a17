//! HTTPS as a client: what `probe` trusts, and how it speaks to an endpoint.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tls::error::TrustError;
use crate::tls::files::read_authorities;
use crate::tls::material::certificates;
use crate::tls::served::ALPN;

/// The name that the certificate of an endpoint must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointName(ServerName<'static>);

impl EndpointName {
    /// Takes a host name or an address, IPv6 without brackets; `None` where it is neither.
    pub fn parse(host: &str) -> Option<Self> {
        ServerName::try_from(host.to_owned()).ok().map(Self)
    }
}

/// The client's side of HTTPS.
#[derive(Clone)]
pub struct HttpsConnector(TlsConnector);

impl fmt::Debug for HttpsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpsConnector").finish_non_exhaustive()
    }
}

impl HttpsConnector {
    /// Trusts the authorities of a PEM file, or else those of the system.
    ///
    /// # Errors
    /// [`TrustError`] where no authority is given.
    pub fn new(ca: Option<&Path>) -> Result<Self, TrustError> {
        client_config(ca).map(|config| Self(config.into()))
    }

    /// Does a handshake over a connection.
    ///
    /// # Errors
    /// The error of the socket or of the handshake.
    pub async fn connect<S>(&self, name: &EndpointName, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.connect(name.0.clone(), stream).await
    }
}

/// Makes the settings of a client that trusts the authorities of a PEM file, or else those of the system.
///
/// # Errors
/// [`TrustError`] where no authority is given.
fn client_config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore::empty();
    let added = match ca {
        Some(path) => {
            let authorities = certificates(&read_authorities(path)?, path)?;
            roots.add_parsable_certificates(authorities).0
        }
        // Authorities of the system that cannot be read are left out: the rest may be enough.
        None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs).0,
    };
    if added == 0 {
        return Err(match ca {
            Some(path) => TrustError::NotPem { path: path.to_owned(), wanted: "certificate" },
            None => TrustError::NoSystemAuthorities,
        });
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}
