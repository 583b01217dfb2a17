//! The files' content, checked as a whole: the authorities, the own certificate and its key, ready for
//! handshakes.
//!
//! A value never changes; a reload makes another one. The own certificate is verified here as peers verify
//! it, in both directions, so a process refuses at its start a certificate that every peer would refuse. The
//! cryptography is *ring*, given explicitly; sessions are never resumed, so each connection is verified by
//! today's files.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};
use sherd_core::env::Clock;
use sherd_trust::{CertificateFacts, PeerIdentity};

use crate::tls::error::{CertificateFault, CertificateRefusal, TrustError};
use crate::tls::files::{CertificateFiles, PemFiles, PemPair, TrustFiles};
use crate::tls::verify::PeerVerifier;

/// The only protocol that peers speak over TLS.
pub(crate) const ALPN: &[u8] = b"h2";

#[derive(Debug)]
pub(crate) struct Material {
    pub(crate) fingerprints: Vec<[u8; 32]>,
    /// The fingerprint of the authority that the own certificate is of.
    pub(crate) own_authority: [u8; 32],
    pub(crate) expires_s: u64,
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
    pub(crate) servers: Arc<dyn ServerCertVerifier>,
    provider: Arc<CryptoProvider>,
    time: Arc<dyn TimeProvider>,
    certificate: Arc<SingleCertAndKey>,
}

#[derive(Debug)]
pub(crate) struct ClockTime(pub(crate) Arc<dyn Clock>);

impl TimeProvider for ClockTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_millis(self.0.wall_ms())))
    }
}

impl Material {
    pub(crate) fn new(
        pem: &PemFiles,
        files: &TrustFiles,
        own: &PeerIdentity,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let time = ClockTime(Arc::clone(clock));
        let authorities = certificates(&pem.ca, &files.ca)?;
        let (clients, servers) = verifiers(&authorities, &files.ca, &provider)?;
        let chain = certificates(&pem.pair.cert, &files.cert)?;
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_millis(clock.wall_ms()));
        let facts = check_own(&chain, own, &clients, &servers, now);
        let facts = facts.map_err(|refusal| TrustError::Certificate { path: files.cert.clone(), refusal })?;
        // Verified against all of them, so it is of one.
        let is_of = |authority: &&CertificateDer<'static>| {
            let one = verifiers(std::slice::from_ref(*authority), &files.ca, &provider);
            one.is_ok_and(|(clients, servers)| check_own(&chain, own, &clients, &servers, now).is_ok())
        };
        let own_authority = authorities.iter().find(is_of).map(fingerprint).unwrap_or_default();
        let certificate = certified_key(chain, &pem.pair, &files.own(), &provider)?;
        let mut fingerprints: Vec<[u8; 32]> = authorities.iter().map(fingerprint).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        Ok(Self {
            fingerprints,
            own_authority,
            expires_s: u64::try_from(facts.not_after_s).unwrap_or(0),
            clients,
            servers,
            provider,
            time: Arc::new(time),
            certificate: Arc::new(SingleCertAndKey::from(certificate)),
        })
    }

    pub(crate) fn server_config(&self, peer: Arc<PeerVerifier<dyn ClientCertVerifier>>) -> ServerConfig {
        let builder = ServerConfig::builder_with_details(Arc::clone(&self.provider), Arc::clone(&self.time));
        let mut config = builder
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring has the suites of TLS 1.3")
            .with_client_cert_verifier(peer)
            .with_cert_resolver(Arc::clone(&self.certificate) as _);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config
    }

    pub(crate) fn client_config(&self, peer: Arc<PeerVerifier<dyn ServerCertVerifier>>) -> ClientConfig {
        let builder = ClientConfig::builder_with_details(Arc::clone(&self.provider), Arc::clone(&self.time));
        let mut config = builder
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring has the suites of TLS 1.3")
            // WebPKI's verifier within: the wrapper refuses more than it, never less.
            .dangerous()
            .with_custom_certificate_verifier(peer)
            .with_client_cert_resolver(Arc::clone(&self.certificate) as _);
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config
    }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}

pub(crate) fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let not_pem = || TrustError::NotPem { path: path.to_owned(), wanted: "certificate" };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    read.ok().filter(|found| !found.is_empty()).ok_or_else(not_pem)
}

type Verifiers = (Arc<dyn ClientCertVerifier>, Arc<dyn ServerCertVerifier>);

/// Makes WebPKI's verifiers over the trusted authorities.
fn verifiers(
    authorities: &[CertificateDer<'static>],
    path: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Verifiers, TrustError> {
    let invalid = |error| {
        let refusal = CertificateRefusal { presented: None, fault: CertificateFault::Invalid(error) };
        TrustError::Certificate { path: path.to_owned(), refusal: Box::new(refusal) }
    };
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|_| invalid(CertificateError::BadEncoding))?;
    }
    let roots = Arc::new(roots);
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider)).build();
    let servers = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
    // Both builders refuse a store without roots and revocation lists, and there is a root and no list.
    let clients = clients.map_err(|_| invalid(CertificateError::BadEncoding))?;
    let servers = servers.map_err(|_| invalid(CertificateError::BadEncoding))?;
    Ok((clients, servers))
}

/// Verifies the own certificate as a listener and as a dialler will.
fn check_own(
    chain: &[CertificateDer<'static>],
    own: &PeerIdentity,
    clients: &Arc<dyn ClientCertVerifier>,
    servers: &Arc<dyn ServerCertVerifier>,
    now: UnixTime,
) -> Result<CertificateFacts, Box<CertificateRefusal>> {
    let refuse = |presented, fault| Box::new(CertificateRefusal { presented, fault });
    let (leaf, intermediates) = chain.split_first().expect("a chain has at least one certificate");
    let facts = CertificateFacts::read(leaf).map_err(|error| refuse(None, error.into()))?;
    let refuse = |fault| refuse(Some(facts.identity.clone()), fault);
    if facts.identity.cluster != own.cluster {
        return Err(refuse(CertificateFault::ForeignCluster { own: own.cluster }));
    }
    if facts.identity != *own {
        return Err(refuse(CertificateFault::OtherName { expected: own.clone() }));
    }
    let invalid = |error| match error {
        rustls::Error::InvalidCertificate(error) => refuse(CertificateFault::new(error)),
        _ => refuse(CertificateFault::Invalid(CertificateError::BadEncoding)),
    };
    clients.verify_client_cert(leaf, intermediates, now).map_err(invalid)?;
    let name = ServerName::try_from(own.dns_name());
    let name = name.map_err(|_| refuse(CertificateFault::Invalid(CertificateError::NotValidForName)))?;
    servers.verify_server_cert(leaf, intermediates, &name, &[], now).map_err(invalid)?;
    Ok(facts)
}

pub(crate) fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    pem: &PemPair,
    files: &CertificateFiles,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TrustError> {
    let not_pem = |_| TrustError::NotPem { path: files.key.clone(), wanted: "private key" };
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(not_pem)?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TrustError::KeyDoesNotFit { key: files.key.clone(), cert: files.cert.clone() }
        }
        rustls::Error::InvalidCertificate(error) => {
            let refusal = CertificateRefusal { presented: None, fault: CertificateFault::new(error) };
            TrustError::Certificate { path: files.cert.clone(), refusal: Box::new(refusal) }
        }
        _ => TrustError::KeyKind { path: files.key.clone() },
    })
}
