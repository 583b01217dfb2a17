//! The authority of a service that clients reach by public names: S3 of a cluster. It is another trust than
//! that of the nodes, where neither a client that trusts it nor a server that it signed is a peer.
//!
//! ```text
//! CA      CN of the caller's choice, path length 0, signs only
//! leaf    DNS names (wildcards among them) and addresses, TLS server only
//! ```
//!
//! Pure as its neighbours: PEM in and out, the clock is a parameter.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use crate::authority::{AuthorityError, common_name, date, validity};
use crate::certificate::{AuthorityFacts, UnreadableCertificate};
use crate::limits;

/// Signs the certificates of one service.
pub struct ServiceAuthority {
    certificate: String,
    not_after_s: i64,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate of a service and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceCertificate {
    /// The certificate.
    pub certificate: String,
    /// Private key of the certificate (PKCS #8). Never printed.
    pub key: String,
}

/// The facts of a service's certificate, whichever authority signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceFacts {
    /// DNS names and addresses of the certificate, as text.
    pub names: BTreeSet<String>,
    /// The first second since the Unix epoch at which it is valid.
    pub not_before_s: i64,
    /// The last second since the Unix epoch at which it is valid.
    pub not_after_s: i64,
    /// Whether it may sign others.
    pub is_authority: bool,
}

impl ServiceAuthority {
    /// Makes an authority of this name, valid from `now_ms` (milliseconds since the Unix epoch) for
    /// [`limits::AUTHORITY_LIFETIME`].
    ///
    /// # Errors
    /// [`AuthorityError::Clock`] or [`AuthorityError::Sign`].
    pub fn init(name: &str, now_ms: u64) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Sign)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(name);
        (params.not_before, params.not_after) = validity(now_ms, limits::AUTHORITY_LIFETIME)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(AuthorityError::Sign)?.pem();
        let not_after_s = params.not_after.unix_timestamp();
        Ok(Self { certificate, not_after_s, issuer: Issuer::new(params, key) })
    }

    /// Loads an authority from its two PEM texts.
    ///
    /// # Errors
    /// [`AuthorityError`] names the text and what is wrong with it.
    pub fn load(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(key).map_err(AuthorityError::Key)?;
        let pem = x509_parser::pem::parse_x509_pem(certificate.as_bytes());
        let (_, pem) = pem.map_err(|_| UnreadableCertificate::Pem)?;
        let AuthorityFacts { is_authority, not_after_s, public_key, cluster: _ } =
            AuthorityFacts::read(&pem.contents)?;
        if !is_authority {
            return Err(AuthorityError::NotAuthority);
        }
        if public_key != key.subject_public_key_info() {
            return Err(AuthorityError::KeyDoesNotFit);
        }
        let issuer = Issuer::from_ca_cert_der(&pem.contents.into(), key);
        let issuer = issuer.map_err(AuthorityError::Certificate)?;
        Ok(Self { certificate: certificate.to_owned(), not_after_s, issuer })
    }

    /// Returns its certificate in PEM, which clients trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns its private key in PEM.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Returns when it ends, in seconds since the Unix epoch.
    pub fn not_after_s(&self) -> i64 {
        self.not_after_s
    }

    /// Issues a certificate with a new key for these names and addresses, valid from `now_ms` (milliseconds
    /// since the Unix epoch) for `lifetime`, and no longer than the authority itself.
    ///
    /// # Errors
    /// [`AuthorityError`]: a name that no certificate can say, the clock, or an authority that has expired.
    pub fn issue(
        &self,
        names: &[String],
        now_ms: u64,
        lifetime: Duration,
    ) -> Result<ServiceCertificate, AuthorityError> {
        let mut params = CertificateParams::new(names).map_err(AuthorityError::Sign)?;
        // A common name has 64 characters at most; clients read the others.
        let subject = names.iter().find(|name| name.len() <= 64).map_or("S3", String::as_str);
        params.distinguished_name.push(DnType::CommonName, subject);
        (params.not_before, params.not_after) = validity(now_ms, lifetime)?;
        let last =
            OffsetDateTime::from_unix_timestamp(self.not_after_s).map_err(|_| AuthorityError::Clock)?;
        if last <= date(now_ms / 1_000)? {
            return Err(AuthorityError::Expired);
        }
        params.not_after = params.not_after.min(last);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(AuthorityError::Sign)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(AuthorityError::Sign)?;
        Ok(ServiceCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl ServiceFacts {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// [`UnreadableCertificate::Encoding`].
    pub fn read(der: &[u8]) -> Result<Self, UnreadableCertificate> {
        let parsed = x509_parser::certificate::X509Certificate::from_der(der);
        let (_, certificate) = parsed.map_err(|_| UnreadableCertificate::Encoding)?;
        let names = certificate.subject_alternative_name().map_err(|_| UnreadableCertificate::Encoding)?;
        let names = names.map_or(&[][..], |extension| &extension.value.general_names[..]);
        Ok(Self {
            names: names.iter().filter_map(text_of).collect(),
            not_before_s: certificate.validity().not_before.timestamp(),
            not_after_s: certificate.validity().not_after.timestamp(),
            is_authority: certificate.is_ca(),
        })
    }
}

fn text_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(|four| Ipv4Addr::from(four).to_string());
            four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(|all| Ipv6Addr::from(all).to_string())).ok()
        }
        _ => None,
    }
}

impl fmt::Debug for ServiceAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAuthority").field("not_after_s", &self.not_after_s).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServiceCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceCertificate").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-01.
    const NOW_MS: u64 = 1_767_225_600_000;
    const NINETY_DAYS: Duration = Duration::from_hours(90 * 24);

    fn facts(pem: &str) -> ServiceFacts {
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).expect("PEM");
        ServiceFacts::read(&pem.contents).expect("a certificate")
    }

    #[test]
    fn a_loaded_authority_issues_for_names_and_addresses() {
        let made = ServiceAuthority::init("S3 of storage/demo", NOW_MS).expect("made");
        let loaded = ServiceAuthority::load(made.certificate(), &made.key()).expect("its own texts");
        let names = ["demo-s3", "*.s3.example.com", "10.0.0.7", "fd00::7"].map(str::to_owned);
        let issued = loaded.issue(&names, NOW_MS, NINETY_DAYS).expect("issued");
        let leaf = facts(&issued.certificate);
        assert_eq!(leaf.names, names.into_iter().collect());
        let now_s = i64::try_from(NOW_MS / 1_000).expect("small");
        assert_eq!((leaf.not_before_s, leaf.not_after_s), (now_s - 300, now_s + 90 * 86_400));
        assert!(!leaf.is_authority && facts(made.certificate()).is_authority);
    }

    #[test]
    fn what_does_not_belong_together_is_refused_and_no_key_is_shown() {
        let [one, other] = [(); 2].map(|()| ServiceAuthority::init("S3", NOW_MS).expect("made"));
        let error = ServiceAuthority::load(one.certificate(), &other.key()).expect_err("of another");
        assert!(matches!(error, AuthorityError::KeyDoesNotFit), "{error}");
        let leaf = one.issue(&["a".to_owned()], NOW_MS, NINETY_DAYS).expect("issued");
        let error = ServiceAuthority::load(&leaf.certificate, &leaf.key).expect_err("a leaf");
        assert!(matches!(error, AuthorityError::NotAuthority), "{error}");
        let late = NOW_MS + 3_651 * 86_400_000;
        let error = one.issue(&["a".to_owned()], late, NINETY_DAYS).expect_err("expired");
        assert!(matches!(error, AuthorityError::Expired), "{error}");
        let text = format!("{one:?} {leaf:?}");
        assert!(!text.contains("BEGIN"), "{text}");
    }
}
