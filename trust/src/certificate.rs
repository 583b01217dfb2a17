//! Reads the facts of a certificate that the node decides by: its one name and its validity.
//!
//! Nothing is verified here: WebPKI checks the chain, the times and the usages. Called with bytes of a peer
//! before any check of them, so it refuses and never panics.

use std::fmt;

use sha2::{Digest as _, Sha256};
use sherd_core::id::ClusterId;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use crate::name::{InvalidIdentity, PeerIdentity};

/// The facts of a certificate of this scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The certificate's one DNS name.
    pub identity: PeerIdentity,
    /// The first second since the Unix epoch at which it is valid.
    pub not_before_s: i64,
    /// The last second since the Unix epoch at which it is valid.
    pub not_after_s: i64,
}

/// Says why a certificate does not follow this scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableCertificate {
    /// The text is not PEM.
    #[error("no certificate in PEM")]
    Pem,
    /// The bytes do not decode as an X.509 certificate.
    #[error("not an X.509 certificate")]
    Encoding,
    /// Not exactly one subject alternative name of the kind DNS name.
    #[error("it has {count} subject alternative names, not exactly one DNS name")]
    Names {
        /// How many names of any kind.
        count: usize,
    },
    /// The name is of another scheme.
    #[error("its name is {0}")]
    Identity(#[from] InvalidIdentity),
}

impl CertificateFacts {
    /// Reads the first certificate of a text in PEM.
    ///
    /// # Errors
    /// [`UnreadableCertificate`] as [`Self::read`], and [`UnreadableCertificate::Pem`].
    pub fn read_pem(pem: &[u8]) -> Result<Self, UnreadableCertificate> {
        let pem = x509_parser::pem::parse_x509_pem(pem);
        let (_, pem) = pem.map_err(|_| UnreadableCertificate::Pem)?;
        Self::read(&pem.contents)
    }

    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// [`UnreadableCertificate`] names what is wrong with it.
    pub fn read(der: &[u8]) -> Result<Self, UnreadableCertificate> {
        let certificate = parse(der)?;
        let names = certificate
            .subject_alternative_name()
            .map_err(|_| UnreadableCertificate::Encoding)?
            .map_or(&[][..], |extension| &extension.value.general_names[..]);
        let [GeneralName::DNSName(name)] = names else {
            return Err(UnreadableCertificate::Names { count: names.len() });
        };
        let validity = certificate.validity();
        Ok(Self {
            identity: PeerIdentity::parse(name)?,
            not_before_s: validity.not_before.timestamp(),
            not_after_s: validity.not_after.timestamp(),
        })
    }
}

/// SHA-256 of an authority's public key: the same for another certificate of the same key, another one for
/// another authority, though both sign for one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AuthorityKeyDigest(pub [u8; 32]);

impl AuthorityKeyDigest {
    /// Reads it from an authority's certificate in PEM.
    ///
    /// # Errors
    /// [`UnreadableCertificate::Encoding`] when the text does not hold a certificate.
    pub fn read(certificate: &str) -> Result<Self, UnreadableCertificate> {
        let pem = x509_parser::pem::parse_x509_pem(certificate.as_bytes());
        let (_, pem) = pem.map_err(|_| UnreadableCertificate::Encoding)?;
        Ok(Self::of(&AuthorityFacts::read(&pem.contents)?.public_key))
    }

    /// `public_key` is a `SubjectPublicKeyInfo` in DER (RFC 5280, 4.1.2.7).
    pub(crate) fn of(public_key: &[u8]) -> Self {
        Self(Sha256::digest(public_key).into())
    }
}

impl fmt::Display for AuthorityKeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The facts of an authority's certificate, without its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthorityCertificate {
    /// SHA-256 of the certificate, as nodes report the authorities that they trust.
    pub fingerprint: [u8; 32],
    /// The digest of its key.
    pub key: AuthorityKeyDigest,
    /// The cluster that its subject names.
    pub cluster: Option<ClusterId>,
    /// The last second since the Unix epoch at which it is valid.
    pub not_after_s: i64,
}

impl AuthorityCertificate {
    /// Reads every certificate of a text in PEM, in its order.
    ///
    /// # Errors
    /// [`UnreadableCertificate::Pem`] of a text without one, else as [`Self::read`].
    pub fn read_all(pem: &str) -> Result<Vec<Self>, UnreadableCertificate> {
        let read =
            |found: Result<Pem, _>| Self::read(&found.map_err(|_| UnreadableCertificate::Pem)?.contents);
        let all: Vec<Self> = Pem::iter_from_buffer(pem.as_bytes()).map(read).collect::<Result<_, _>>()?;
        if all.is_empty() { Err(UnreadableCertificate::Pem) } else { Ok(all) }
    }

    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// [`UnreadableCertificate::Encoding`] where it does not decode or is not an authority's.
    pub fn read(der: &[u8]) -> Result<Self, UnreadableCertificate> {
        let AuthorityFacts { is_authority, cluster, not_after_s, public_key } = AuthorityFacts::read(der)?;
        if !is_authority {
            return Err(UnreadableCertificate::Encoding);
        }
        let fingerprint = Sha256::digest(der).into();
        Ok(Self { fingerprint, key: AuthorityKeyDigest::of(&public_key), cluster, not_after_s })
    }
}

pub(crate) struct AuthorityFacts {
    pub(crate) is_authority: bool,
    /// The cluster that its subject names.
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) not_after_s: i64,
    /// Public key, as `SubjectPublicKeyInfo` in DER.
    pub(crate) public_key: Vec<u8>,
}

/// Begins the common name of an authority; the cluster id follows.
const AUTHORITY_SUBJECT: &str = "sherd cluster ";

/// Writes the common name of a cluster's authority.
pub(crate) fn authority_subject(cluster: ClusterId) -> String {
    format!("{AUTHORITY_SUBJECT}{cluster}")
}

impl AuthorityFacts {
    pub(crate) fn read(der: &[u8]) -> Result<Self, UnreadableCertificate> {
        let certificate = parse(der)?;
        let mut common_names = certificate.subject().iter_common_name();
        let common_name = common_names.next().and_then(|name| name.as_str().ok());
        let cluster = common_name
            .and_then(|name| name.strip_prefix(AUTHORITY_SUBJECT))
            .and_then(|id| ClusterId::parse(id).ok());
        Ok(Self {
            is_authority: certificate.is_ca(),
            cluster,
            not_after_s: certificate.validity().not_after.timestamp(),
            public_key: certificate.public_key().raw.to_vec(),
        })
    }
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, UnreadableCertificate> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) | Err(_) => Err(UnreadableCertificate::Encoding),
    }
}
