//! HTTPS as a client: what `probe` trusts, and how it speaks to an endpoint.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use crate::tls::error::TrustError;
use crate::tls::files::read_authorities;
use crate::tls::material::certificates;
use crate::tls::served::ALPN;

/// Makes the settings of a client that trusts the authorities of a PEM file, or else those of the system.
///
/// # Errors
/// [`TrustError`] when there is no authority to trust.
pub fn client_config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore::empty();
    let added = match ca {
        Some(path) => {
            let authorities = certificates(&read_authorities(path)?, path)?;
            roots.add_parsable_certificates(authorities).0
        }
        // What the system has and cannot be read is left out: the rest may be enough.
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
