//! Verifies one peer's certificate in one handshake, and remembers the name that it claimed.
//!
//! WebPKI verifies chain, times, usages and the name; this adds that the certificate has exactly one name of
//! this scheme and belongs to this cluster, and keeps the claimed name so that a refusal can say it. Every
//! refusal of WebPKI stays one. A value lives for one connection: the name is written once.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use sherd_core::id::ClusterId;
use sherd_trust::{CertificateFacts, PeerIdentity, Role, UnreadableCertificate};

use crate::tls::error::{CertificateFault, CertificateRefusal, HandshakeFailure};

/// The peers that are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expectation {
    Named(PeerIdentity),
    AnyNode,
    /// Each peer of the cluster: the listener's calls look at roles themselves.
    AnyPeer,
}

type ClaimedIdentity = Result<PeerIdentity, UnreadableCertificate>;

/// Verifies one peer. `V` is WebPKI's verifier of its side.
#[derive(Debug)]
pub(crate) struct PeerVerifier<V: ?Sized> {
    webpki: Arc<V>,
    own: ClusterId,
    expected: Expectation,
    claimed: OnceLock<ClaimedIdentity>,
}

impl<V: ?Sized> PeerVerifier<V> {
    pub(crate) fn new(webpki: Arc<V>, own: ClusterId, expected: Expectation) -> Self {
        Self { webpki, own, expected, claimed: OnceLock::new() }
    }

    /// Returns who the peer is, once its handshake succeeded.
    pub(crate) fn identity(&self) -> Option<PeerIdentity> {
        self.claimed.get()?.as_ref().ok().cloned()
    }

    /// Names the certificate in a failure that is about it.
    pub(crate) fn name(&self, failure: HandshakeFailure) -> HandshakeFailure {
        let HandshakeFailure::Certificate(refusal) = failure else { return failure };
        let CertificateRefusal { presented: _, fault } = *refusal;
        let (presented, fault) = match self.claimed.get() {
            Some(Ok(identity)) => (Some(identity.clone()), self.fault_of(identity).unwrap_or(fault)),
            Some(Err(unreadable)) => (None, CertificateFault::Unreadable(*unreadable)),
            None => (None, fault),
        };
        HandshakeFailure::Certificate(Box::new(CertificateRefusal { presented, fault }))
    }

    /// Returns why a peer of this name is refused under every signature.
    fn fault_of(&self, identity: &PeerIdentity) -> Option<CertificateFault> {
        if identity.cluster != self.own {
            return Some(CertificateFault::ForeignCluster { own: self.own });
        }
        match &self.expected {
            Expectation::Named(expected) if expected != identity => {
                Some(CertificateFault::OtherName { expected: expected.clone() })
            }
            Expectation::AnyNode if identity.role != Role::Node => Some(CertificateFault::OtherRole),
            Expectation::Named(_) | Expectation::AnyNode | Expectation::AnyPeer => None,
        }
    }

    /// Reads the claimed name and judges it. The peer gets a refusal without its reason.
    fn claim(&self, certificate: &CertificateDer<'_>) -> Result<PeerIdentity, Error> {
        let read = CertificateFacts::read(certificate).map(|facts| facts.identity);
        let claimed = self.claimed.get_or_init(|| read);
        match claimed {
            Ok(identity) if self.fault_of(identity).is_none() => Ok(identity.clone()),
            Ok(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
            Err(_) => Err(CertificateError::BadEncoding.into()),
        }
    }
}

/// Turns a signature by another key into an unknown issuer: the authorities of one cluster have one subject,
/// so WebPKI finds a certificate that was signed by a former one to be signed badly. The peer sees which it
/// was.
fn other_authority(error: Error) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => CertificateError::UnknownIssuer.into(),
        other => other,
    }
}

/// The methods that both traits of rustls have: signatures are WebPKI's to verify.
macro_rules! signatures_by_webpki {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.webpki.verify_tls12_signature(message, certificate, signed)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.webpki.verify_tls13_signature(message, certificate, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.webpki.supported_verify_schemes()
        }
    };
}

impl ServerCertVerifier for PeerVerifier<dyn ServerCertVerifier> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let identity = self.claim(end_entity)?;
        // For a named peer this equals the server name that was sent: `claim` compared it.
        let name = ServerName::try_from(identity.dns_name());
        let name = name.map_err(|_| CertificateError::NotValidForName)?;
        let verified = self.webpki.verify_server_cert(end_entity, intermediates, &name, ocsp_response, now);
        verified.map_err(other_authority)
    }

    signatures_by_webpki!();
}

impl ClientCertVerifier for PeerVerifier<dyn ClientCertVerifier> {
    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.claim(end_entity)?;
        self.webpki.verify_client_cert(end_entity, intermediates, now).map_err(other_authority)
    }

    signatures_by_webpki!();
}
