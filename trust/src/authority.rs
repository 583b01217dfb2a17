//! A cluster's certificate authority: makes its own certificate, and those of nodes, operators and people.
//!
//! ```text
//! CA      CN "sherd cluster <id>", path length 0, signs only, only names below <id>.sherd
//! leaf    CN and only DNS name "<name>.<role>.<id>.sherd", both TLS usages, no addresses
//! ```
//!
//! The name constraint makes WebPKI itself refuse a certificate of another cluster under this authority. Keys
//! are ECDSA P-256, made with the entropy of *ring*. In and out are PEM texts: callers decide where they lie.

use std::fmt;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, PublicKeyData as _,
};
use sherd_core::id::ClusterId;
use time::OffsetDateTime;

use crate::certificate::{AuthorityFacts, AuthorityKeyDigest, UnreadableCertificate, authority_subject};
use crate::limits;
use crate::name::{InvalidIdentity, PeerIdentity, Role, domain};

/// Signs the certificates of one cluster.
pub struct Authority {
    cluster: ClusterId,
    certificate: String,
    not_after_s: i64,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The peer that it names.
    pub identity: PeerIdentity,
    /// The certificate.
    pub certificate: String,
    /// Private key of the certificate (PKCS #8). Never printed.
    pub key: String,
}

/// Says why an authority cannot be made, loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate is not one, or not PEM.
    #[error("the CA certificate is not readable: {0}")]
    Certificate(#[source] rcgen::Error),
    /// The certificate's content.
    #[error("the CA certificate is not readable: {0}")]
    Unreadable(#[from] UnreadableCertificate),
    /// The certificate may not sign others.
    #[error("the certificate is not a CA's")]
    NotAuthority,
    /// The subject is of another scheme.
    #[error("the CA certificate's subject names no cluster: it is not one that `sherd-node ca init` made")]
    NoCluster,
    /// The key is not PEM, or of an unknown kind.
    #[error("the CA key is not readable: {0}")]
    Key(#[source] rcgen::Error),
    /// The key belongs to another certificate.
    #[error("the CA key does not fit the CA certificate")]
    KeyDoesNotFit,
    /// Nothing that it signs would be valid.
    #[error("the CA certificate has expired")]
    Expired,
    /// The name is not a DNS label.
    #[error(transparent)]
    Identity(#[from] InvalidIdentity),
    /// A time outside of what a certificate can say.
    #[error("the clock shows a time that no certificate can say")]
    Clock,
    /// The key cannot be made or does not sign.
    #[error("make a key or sign: {0}")]
    Sign(#[source] rcgen::Error),
}

impl Authority {
    /// Makes the authority of a cluster, valid from `now_ms` (milliseconds since the Unix epoch) for
    /// [`limits::AUTHORITY_LIFETIME`].
    ///
    /// # Errors
    /// [`AuthorityError::Clock`] or [`AuthorityError::Sign`].
    pub fn init(cluster: ClusterId, now_ms: u64) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Sign)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(&authority_subject(cluster));
        (params.not_before, params.not_after) = validity(now_ms, limits::AUTHORITY_LIFETIME)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName(domain(cluster))],
            excluded_subtrees: vec![],
        });
        let certificate = params.self_signed(&key).map_err(AuthorityError::Sign)?.pem();
        let not_after_s = params.not_after.unix_timestamp();
        Ok(Self { cluster, certificate, not_after_s, issuer: Issuer::new(params, key) })
    }

    /// Loads an authority that [`Self::init`] made from its two PEM texts.
    ///
    /// # Errors
    /// [`AuthorityError`] names the text and what is wrong with it.
    pub fn load(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(key).map_err(AuthorityError::Key)?;
        let public_key = key.subject_public_key_info();
        let pem = x509_parser::pem::parse_x509_pem(certificate.as_bytes());
        let (_, pem) = pem.map_err(|_| UnreadableCertificate::Encoding)?;
        let facts = AuthorityFacts::read(&pem.contents)?;
        let AuthorityFacts { is_authority, cluster, not_after_s, public_key: certified } = facts;
        if !is_authority {
            return Err(AuthorityError::NotAuthority);
        }
        if certified != public_key {
            return Err(AuthorityError::KeyDoesNotFit);
        }
        let cluster = cluster.ok_or(AuthorityError::NoCluster)?;
        let issuer = Issuer::from_ca_cert_der(&pem.contents.into(), key);
        let issuer = issuer.map_err(AuthorityError::Certificate)?;
        Ok(Self { cluster, certificate: certificate.to_owned(), not_after_s, issuer })
    }

    /// Returns the cluster whose names it signs.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Returns its certificate in PEM, which every peer trusts.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns its private key in PEM. A reader of it can be any peer.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Returns the digest of its public key, which differs between two authorities of one cluster.
    pub fn key_digest(&self) -> AuthorityKeyDigest {
        AuthorityKeyDigest::of(&self.issuer.key().subject_public_key_info())
    }

    /// Returns when it ends, in seconds since the Unix epoch: nothing that it signs is valid for longer.
    pub fn not_after_s(&self) -> i64 {
        self.not_after_s
    }

    /// Issues a certificate with a new key, valid from `now_ms` (milliseconds since the Unix epoch) for
    /// `lifetime`, and no longer than the authority itself.
    ///
    /// # Errors
    /// [`AuthorityError`]: the name, the clock, or an authority that has expired.
    pub fn issue(
        &self,
        name: &str,
        role: Role,
        now_ms: u64,
        lifetime: Duration,
    ) -> Result<IssuedCertificate, AuthorityError> {
        let identity = PeerIdentity::new(name, role, self.cluster)?;
        let dns_name = identity.dns_name();
        let mut params = CertificateParams::new(vec![dns_name.clone()]).map_err(AuthorityError::Sign)?;
        params.distinguished_name = common_name(&dns_name);
        (params.not_before, params.not_after) = validity(now_ms, lifetime)?;
        let last =
            OffsetDateTime::from_unix_timestamp(self.not_after_s).map_err(|_| AuthorityError::Clock)?;
        if last <= date(now_ms / 1_000)? {
            return Err(AuthorityError::Expired);
        }
        params.not_after = params.not_after.min(last);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(AuthorityError::Sign)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(AuthorityError::Sign)?;
        Ok(IssuedCertificate { identity, certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl fmt::Debug for IssuedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedCertificate").field("identity", &self.identity).finish_non_exhaustive()
    }
}

pub(crate) fn common_name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

/// Returns when a certificate made at `now_ms` begins and ends to be valid.
pub(crate) fn validity(
    now_ms: u64,
    lifetime: Duration,
) -> Result<(OffsetDateTime, OffsetDateTime), AuthorityError> {
    let seconds = now_ms / 1_000;
    let begin = date(seconds.saturating_sub(limits::BACKDATE.as_secs()))?;
    Ok((begin, date(seconds.saturating_add(lifetime.as_secs()))?))
}

pub(crate) fn date(seconds: u64) -> Result<OffsetDateTime, AuthorityError> {
    let seconds = i64::try_from(seconds).map_err(|_| AuthorityError::Clock)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| AuthorityError::Clock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::{AuthorityCertificate, CertificateFacts};

    const CLUSTER: ClusterId = ClusterId([0x6a; 16]);
    /// 2026-01-01.
    const NOW_MS: u64 = 1_767_225_600_000;

    fn authority() -> Authority {
        Authority::init(CLUSTER, NOW_MS).expect("a key and a clock")
    }

    fn der(pem: &str) -> Vec<u8> {
        x509_parser::pem::parse_x509_pem(pem.as_bytes()).expect("PEM").1.contents
    }

    #[test]
    fn a_loaded_authority_issues_as_the_one_that_was_made() {
        let made = authority();
        let loaded = Authority::load(made.certificate(), &made.key()).expect("its own texts");
        assert_eq!(loaded.cluster(), CLUSTER);
        let issued = loaded.issue("n1", Role::Node, NOW_MS, limits::LEAF_LIFETIME).expect("a name");
        let facts = CertificateFacts::read(&der(&issued.certificate)).expect("of this scheme");
        assert_eq!(facts.identity, PeerIdentity::new("n1", Role::Node, CLUSTER).expect("a name"));
        assert_eq!(facts.identity, issued.identity);
        let now_s = i64::try_from(NOW_MS / 1_000).expect("small");
        assert_eq!((facts.not_before_s, facts.not_after_s), (now_s - 300, now_s + 365 * 86_400));
    }

    #[test]
    fn two_authorities_of_one_cluster_differ_by_their_keys() {
        let (one, other) = (authority(), authority());
        assert_ne!(one.key_digest(), other.key_digest());
        assert_eq!(AuthorityKeyDigest::read(one.certificate()).expect("a certificate"), one.key_digest());
        let loaded = Authority::load(one.certificate(), &one.key()).expect("its own texts");
        assert_eq!(loaded.key_digest(), one.key_digest());
        AuthorityKeyDigest::read("garbage").expect_err("garbage");
    }

    #[test]
    fn a_bundle_is_read_in_its_order() {
        let (one, other) = (authority(), authority());
        let bundle = [one.certificate(), other.certificate()].concat();
        let read = AuthorityCertificate::read_all(&bundle).expect("two certificates");
        let [first, second] = read[..] else { panic!("two: {read:?}") };
        assert_eq!((first.key, second.key), (one.key_digest(), other.key_digest()));
        assert_eq!((first.cluster, first.not_after_s), (Some(CLUSTER), one.not_after_s()));
        assert_ne!(first.fingerprint, second.fingerprint);
        let leaf = one.issue("n1", Role::Node, NOW_MS, limits::LEAF_LIFETIME).expect("a name");
        for text in ["", "garbage", &leaf.certificate, "-----BEGIN CERTIFICATE-----\n"] {
            AuthorityCertificate::read_all(text).expect_err(text);
        }
    }

    #[test]
    fn no_certificate_outlives_its_authority() {
        let authority = authority();
        let almost = NOW_MS + 3_649 * 86_400_000;
        let issued = authority.issue("n1", Role::Node, almost, limits::LEAF_LIFETIME).expect("a day is left");
        let facts = CertificateFacts::read(&der(&issued.certificate)).expect("of this scheme");
        assert_eq!(facts.not_after_s, authority.not_after_s);
        let after = NOW_MS + 3_650 * 86_400_000;
        let error = authority.issue("n1", Role::Node, after, limits::LEAF_LIFETIME).expect_err("expired");
        assert!(matches!(error, AuthorityError::Expired), "{error}");
    }

    #[test]
    fn what_does_not_belong_together_is_refused_by_name() {
        let (one, other) = (authority(), authority());
        let error = Authority::load(one.certificate(), &other.key()).expect_err("of another");
        assert!(matches!(error, AuthorityError::KeyDoesNotFit), "{error}");
        let leaf = one.issue("n1", Role::Node, NOW_MS, limits::LEAF_LIFETIME).expect("a name");
        let error = Authority::load(&leaf.certificate, &leaf.key).expect_err("a leaf");
        assert!(matches!(error, AuthorityError::NotAuthority), "{error}");
        let error = Authority::load("garbage", &one.key()).expect_err("garbage");
        assert!(matches!(error, AuthorityError::Unreadable(_)), "{error}");
        let error = Authority::load(one.certificate(), "garbage").expect_err("garbage");
        assert!(matches!(error, AuthorityError::Key(_)), "{error}");
        let error = one.issue("N_1", Role::Node, NOW_MS, limits::LEAF_LIFETIME).expect_err("no label");
        assert!(matches!(error, AuthorityError::Identity(InvalidIdentity::Name)), "{error}");
    }

    #[test]
    fn debug_output_has_no_key() {
        let authority = authority();
        let issued = authority.issue("n1", Role::Node, NOW_MS, limits::LEAF_LIFETIME).expect("a name");
        let text = format!("{authority:?} {issued:?}");
        assert!(text.contains("n1") && !text.contains("BEGIN"), "{text}");
    }
}
