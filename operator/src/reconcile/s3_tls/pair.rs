//! Reads a certificate and its key as a Secret of the type kubernetes.io/tls holds them, and judges them as
//! clients and nodes do.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use sherd_trust::ServiceFacts;

use crate::names::{self, TLS_CERTIFICATE, TLS_KEY};

/// A certificate with its chain; its key fits.
#[derive(Debug, Clone)]
pub(super) struct ServedPair {
    pub(super) facts: ServiceFacts,
    chain: Vec<CertificateDer<'static>>,
}

impl ServedPair {
    /// Reads a Secret; else says in words what it lacks.
    pub(super) fn read(secret: &Secret) -> Result<Self, String> {
        let chain = certificates(bytes(secret, TLS_CERTIFICATE)?)
            .map_err(|error| format!("{TLS_CERTIFICATE} is not readable: {error}"))?;
        let leaf = chain.first().ok_or_else(|| format!("{TLS_CERTIFICATE} holds no certificate"))?;
        let facts = ServiceFacts::read(leaf).map_err(|error| format!("{TLS_CERTIFICATE}: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(bytes(secret, TLS_KEY)?)
            .map_err(|error| format!("{TLS_KEY} is not readable: {error}"))?;
        CertifiedKey::from_der(chain.clone(), key, &ring::default_provider())
            .map_err(|error| format!("{TLS_KEY} does not fit {TLS_CERTIFICATE}: {error}"))?;
        Ok(Self { facts, chain })
    }

    /// Whether a node takes it at this time.
    pub(super) fn is_valid_at(&self, now_s: i64) -> bool {
        (self.facts.not_before_s..=self.facts.not_after_s).contains(&now_s)
    }

    /// Whether a client that asks for this name takes it.
    pub(super) fn is_valid_for(&self, name: &str) -> bool {
        let parsed = self.chain.first().and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
        let verified = parsed
            .zip(ServerName::try_from(name).ok())
            .map(|(parsed, name)| verify_server_name(&parsed, &name));
        verified.is_some_and(|verified| verified.is_ok())
    }

    /// Whether a client that trusts these authorities takes it at this time.
    pub(super) fn verifies(&self, authorities: &[CertificateDer<'static>], now: Duration) -> bool {
        let verified = || {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(authorities.iter().cloned());
            let provider = Arc::new(ring::default_provider());
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
            let (leaf, between) = self.chain.split_first()?;
            // A wildcard is not the name of a server.
            let name = self.facts.names.iter().find(|name| !name.starts_with('*'))?;
            let name = ServerName::try_from(name.as_str()).ok()?;
            verifier.verify_server_cert(leaf, between, &name, &[], UnixTime::since_unix_epoch(now)).ok()
        };
        verified().is_some()
    }
}

/// The authorities of a Secret that are valid at this time; none where it names none.
pub(super) fn authorities(secret: &Secret, now_s: i64) -> Vec<CertificateDer<'static>> {
    let found = bytes(secret, names::CA_CERTIFICATE).ok().and_then(|pem| certificates(pem).ok());
    let is_valid = |certificate: &CertificateDer<'static>| {
        ServiceFacts::read(certificate).is_ok_and(|facts| facts.is_authority && now_s <= facts.not_after_s)
    };
    found.unwrap_or_default().into_iter().filter(is_valid).collect()
}

/// The certificates of a text in PEM.
pub(super) fn certificates(
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_slice_iter(pem).collect()
}

/// Writes certificates in PEM, one after the other.
pub(super) fn pem(certificates: &[CertificateDer<'static>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(64));
            text.push_str(line);
            text.push('\n');
            rest = after;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

fn bytes<'a>(secret: &'a Secret, key: &str) -> Result<&'a [u8], String> {
    let found = secret.data.as_ref().and_then(|data| data.get(key));
    let found = found.filter(|bytes| !bytes.0.is_empty());
    found.map(|bytes| bytes.0.as_slice()).ok_or_else(|| format!("it lacks {key}"))
}
