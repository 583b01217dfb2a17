//! Makes the Secrets' contents that a plan asks for: the CA, certificates, credentials. A certificate that is
//! there and still valid is kept byte for byte.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use sha2::{Digest as _, Sha256};
use sherd_core::id::ClusterId;
use sherd_trust::{
    Authority, AuthorityCertificate, AuthorityKeyDigest, CertificateFacts, PeerIdentity, Role,
};

use super::error::MaterialError;
use super::plan::{AuthorityPlan, CredentialsPlan, Plan};
use super::recovery::Recovery;
use super::s3_tls::S3Material;
use crate::limits;
use crate::names;
use crate::rotation::{AcceptedAuthority, AuthorityRecord};
use crate::secret_text::{AcceptedCredentials, MasterKey, RootCredentials, SecretText};

/// The purposes of 32 bytes each, in words.
const MASTER_KEY: &str = "master key";
const CREDENTIALS_ID: &str = "root credentials id";
const CREDENTIALS_SECRET: &str = "root credentials secret";

/// The contents of the Secrets that a plan asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// The cluster's id.
    pub cluster: ClusterId,
    /// The CAs, and how far a replacement came.
    pub authority: AuthorityRecord,
    /// The root credentials that the operator made, whether they are used or not.
    pub credentials: Option<RootCredentials>,
    /// The root credentials that nodes accept.
    pub accepted: Option<AcceptedCredentials>,
    /// The master key.
    pub master_key: MasterKey,
    /// A digest that changes when the certificates are issued again because of their age or their CA. One
    /// that was damaged and is made again does not change it: its node runs on with the loaded one.
    pub certificates_digest: String,
    /// Keys of the certificates' Secret with their texts.
    pub certificates: BTreeMap<String, SecretText>,
    /// S3 over TLS.
    pub s3: S3Material,
    /// The certificate of an admin, where it is asked for.
    pub admin: Option<AdminCertificate>,
}

/// The certificate of an admin and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminCertificate {
    /// The certificate.
    pub certificate: String,
    /// The certificate's key.
    pub key: SecretText,
}

impl Material {
    /// The proofs of the pairs that nodes shall accept, as they report them.
    pub(super) fn credentials_proofs(&self) -> Vec<[u8; 32]> {
        let pairs = self.accepted.iter().flat_map(AcceptedCredentials::each);
        let proof =
            |RootCredentials { access_key_id, secret_access_key: SecretText(secret) }: &RootCredentials| {
                sherd_trust::credentials_proof(self.cluster, access_key_id, secret)
            };
        pairs.map(proof).collect()
    }

    /// Returns the values that cannot be made again.
    pub(super) fn recovery(&self) -> Recovery {
        let authority = self.authority.texts().into_iter().map(|(key, text)| (key, text.into_bytes()));
        let mut values: BTreeMap<_, _> = authority.collect();
        values.insert(names::MASTER_KEY, self.master_key.0.to_vec());
        if let Some(RootCredentials { access_key_id, secret_access_key }) = &self.credentials {
            values.insert(names::ACCESS_KEY, access_key_id.clone().into_bytes());
            values.insert(names::SECRET_KEY, secret_access_key.0.clone().into_bytes());
        }
        Recovery::new(values)
    }
}

/// The CAs of a cluster, and the one of them that signs.
#[derive(Debug)]
pub(super) struct SigningAuthority {
    pub(super) accepted: AcceptedAuthority,
    pub(super) signer: Authority,
}

/// Makes the CA of a plan, or loads it.
///
/// # Errors
/// [`MaterialError`] when none can be made or loaded.
pub(super) fn authority(plan: &Plan, now: Duration) -> Result<SigningAuthority, MaterialError> {
    let made = |cluster| Authority::init(cluster, millis(now)).map_err(MaterialError::Authority);
    // The first CA is the answer to a request that is there already.
    let request = plan.rotation_request.clone();
    let (record, signer) = match &plan.authority {
        AuthorityPlan::Make => {
            let mut id = [0; 16];
            getrandom::fill(&mut id).map_err(MaterialError::Entropy)?;
            let authority = made(ClusterId(id))?;
            (AuthorityRecord::first(&authority, request), authority)
        }
        AuthorityPlan::MakeAgain { cluster, former } => {
            let authority = made(*cluster)?;
            let record = match former {
                Some(former) => AuthorityRecord::after_loss(former.clone(), &authority, request),
                None => AuthorityRecord::first(&authority, request),
            };
            (record, authority)
        }
        AuthorityPlan::Keep(accepted) => {
            let signer = accepted.record.signer().load().map_err(MaterialError::Authority)?;
            return Ok(SigningAuthority { accepted: accepted.clone(), signer });
        }
    };
    Ok(SigningAuthority { accepted: AcceptedAuthority { record, is_known: true }, signer })
}

/// The Secrets of a plan, and when the first of the nodes' certificates ends.
pub(super) struct IssuedMaterial {
    pub(super) material: Material,
    /// Seconds since the Unix epoch.
    pub(super) first_expiry_s: Option<i64>,
}

/// Makes the Secrets of a plan.
///
/// # Errors
/// [`MaterialError::Issue`].
pub(super) fn material(
    plan: &Plan,
    signing: &SigningAuthority,
    now: Duration,
) -> Result<IssuedMaterial, MaterialError> {
    let SigningAuthority { accepted, signer: authority } = signing;
    let NodeCertificates { texts: certificates, first } =
        node_certificates(&plan.pods, &plan.certificates, signing, now)?;
    let master_key = match &plan.master_key {
        Some(kept) => kept.clone(),
        None => MasterKey(random(plan, MASTER_KEY)?),
    };
    let credentials = match (&plan.made_credentials, &plan.credentials) {
        (Some(made), _) => Some(made.clone()),
        // The credentials are lost, and not used.
        (None, CredentialsPlan::Provided { .. }) if plan.authority != AuthorityPlan::Make => None,
        // Made though they are not used, so that a copy without them is one that lost them.
        (None, _) => Some(make_credentials(plan)?),
    };
    let accepted_credentials = match &plan.credentials {
        CredentialsPlan::Provided { credentials, .. } => Some(credentials.clone()),
        CredentialsPlan::Generated => credentials.clone().map(AcceptedCredentials::from),
    };
    let material = Material {
        cluster: authority.cluster(),
        authority: accepted.record.clone(),
        accepted: accepted_credentials,
        credentials,
        master_key,
        certificates_digest: first.map(LeafTerm::digest).unwrap_or_default(),
        certificates,
        s3: S3Material::default(),
        admin: None,
    };
    Ok(IssuedMaterial { material, first_expiry_s: first.map(|first| first.not_after_s) })
}

/// Returns when the first certificate of a pool's Secret ends, in seconds since the Unix epoch.
pub(super) fn first_expiry_s(certificates: Option<&Secret>) -> Option<i64> {
    let data = certificates?.data.as_ref()?;
    // A key, or the CA's certificate, gives no facts of a node's certificate.
    let ends = |ByteString(bytes): &ByteString| {
        facts(std::str::from_utf8(bytes).ok()?).map(|facts| facts.not_after_s)
    };
    data.values().filter_map(ends).min()
}

pub(super) fn millis(now: Duration) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn facts(certificate: &str) -> Option<CertificateFacts> {
    CertificateFacts::read(&CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?).ok()
}

/// The holder of a certificate, and how long before its end it is issued again.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeafRule<'a> {
    pub(super) name: &'a str,
    pub(super) role: Role,
    pub(super) renewed: Duration,
}

/// A certificate of the Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeafVerdict {
    /// The certificate stays, byte for byte.
    Holds(LeafTerm),
    /// The certificate is whole, and ends soon or is of a CA that signs no more.
    IsDue,
    /// The certificate is not there, or another's, or does not fit its key.
    IsBroken,
}

/// The end of a certificate, and the key of the CA that it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeafTerm {
    not_after_s: i64,
    authority: AuthorityKeyDigest,
}

impl LeafTerm {
    /// A digest that all certificates of one renewal share.
    fn digest(self) -> String {
        let text = format!("{} {}", self.authority, self.not_after_s);
        hex::encode(Sha256::digest(text)).chars().take(16).collect()
    }
}

struct NodeCertificates {
    /// By key of the Secret.
    texts: BTreeMap<String, SecretText>,
    /// The term of the certificate that ends first.
    first: Option<LeafTerm>,
}

/// The certificate and key of each pod. All of a pool are renewed at one time: pods share a template, so that
/// each renewal replaces all of them.
fn node_certificates(
    pods: &[String],
    found: &BTreeMap<String, String>,
    signing: &SigningAuthority,
    now: Duration,
) -> Result<NodeCertificates, MaterialError> {
    let found = |pod: &String| found.get(&format!("{pod}.crt")).zip(found.get(&format!("{pod}.key")));
    let verdict = |pod: &String| {
        found(pod).map_or(LeafVerdict::IsBroken, |(certificate, key)| {
            let rule = LeafRule { name: pod, role: Role::Node, renewed: limits::NODE_CERTIFICATE_RENEWED };
            judge_leaf(&signing.accepted, &rule, certificate, key, now)
        })
    };
    let verdicts: Vec<LeafVerdict> = pods.iter().map(verdict).collect();
    let is_one_due = verdicts.contains(&LeafVerdict::IsDue);
    let (mut texts, mut terms) = (BTreeMap::new(), Vec::new());
    for (pod, verdict) in pods.iter().zip(verdicts) {
        let (certificate, key) = match (verdict, found(pod)) {
            (LeafVerdict::Holds(term), Some((certificate, key))) if !is_one_due => {
                terms.push(term);
                (certificate.clone(), key.clone())
            }
            _ => {
                let (authority, lifetime) = (&signing.signer, sherd_trust::limits::LEAF_LIFETIME);
                let issued = authority.issue(pod, Role::Node, millis(now), lifetime);
                let issued = issued.map_err(|source| MaterialError::Issue { name: pod.clone(), source })?;
                let not_after_s = facts(&issued.certificate).map_or(0, |facts| facts.not_after_s);
                terms.push(LeafTerm { not_after_s, authority: authority.key_digest() });
                (issued.certificate, issued.key)
            }
        };
        texts.insert(format!("{pod}.crt"), SecretText(certificate));
        texts.insert(format!("{pod}.key"), SecretText(key));
    }
    Ok(NodeCertificates { texts, first: terms.into_iter().min_by_key(|term| term.not_after_s) })
}

/// Judges a certificate: whether it is this holder's, fits its key, is of a CA whose certificates stay, and
/// will be valid for a while: as long as another one would be, where the CA itself ends soon.
pub(super) fn judge_leaf(
    accepted: &AcceptedAuthority,
    rule: &LeafRule<'_>,
    certificate: &str,
    key: &str,
    now: Duration,
) -> LeafVerdict {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let whole = || {
        let expected = PeerIdentity::new(rule.name, rule.role, accepted.record.cluster).ok()?;
        let leaf = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
        CertifiedKey::from_der(vec![leaf.clone()], key, &provider).ok()?;
        Some((facts(certificate).filter(|facts| facts.identity == expected)?, leaf))
    };
    let Some((facts, leaf)) = whole() else { return LeafVerdict::IsBroken };
    let soon = if accepted.renews_early() { now + rule.renewed } else { now };
    let verified = |root: CertificateDer<'static>| {
        let authority = AuthorityCertificate::read(&root).ok()?;
        let mut roots = RootCertStore::empty();
        roots.add(root).ok()?;
        let roots = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let ends = u64::try_from(authority.not_after_s).map_or(Duration::ZERO, Duration::from_secs);
        let ends_with_authority = facts.not_after_s >= authority.not_after_s;
        let at = if ends_with_authority { soon.min(ends.max(now)) } else { soon };
        roots.build().ok()?.verify_client_cert(&leaf, &[], UnixTime::since_unix_epoch(at)).ok()?;
        Some(LeafTerm { not_after_s: facts.not_after_s, authority: authority.key })
    };
    let kept = accepted.keeps();
    let mut roots = kept.iter().flat_map(|text| CertificateDer::pem_slice_iter(text.as_bytes())).flatten();
    roots.find_map(verified).map_or(LeafVerdict::IsDue, LeafVerdict::Holds)
}

/// Makes the root credentials.
fn make_credentials(plan: &Plan) -> Result<RootCredentials, MaterialError> {
    const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let (id, secret) = (random(plan, CREDENTIALS_ID)?, random(plan, CREDENTIALS_SECRET)?);
    let id: String = id.iter().take(16).map(|byte| char::from(DIGITS[usize::from(byte % 32)])).collect();
    let secret = SecretText(URL_SAFE_NO_PAD.encode(secret));
    Ok(RootCredentials { access_key_id: format!("SHRD{id}"), secret_access_key: secret })
}

/// 32 random bytes for a cluster that is made, which keeps them from then on.
fn random(plan: &Plan, purpose: &'static str) -> Result<[u8; 32], MaterialError> {
    // A plan without them is blocked before.
    if plan.authority != AuthorityPlan::Make {
        return Err(MaterialError::Lost(purpose));
    }
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(MaterialError::Entropy)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PullPolicy;
    use crate::reconcile::image::ImageName;
    use crate::reconcile::platform::PodUsers;
    use crate::rotation::{KeyedAuthority, RotationState};

    const NOW: Duration = Duration::from_hours(500_000);

    fn plan(certificates: BTreeMap<String, String>) -> Plan {
        Plan {
            image: ImageName::tagged("sherd-node", "1"),
            pull_policy: PullPolicy::default(),
            pull_secrets: vec![],
            users: PodUsers::default(),
            authority: AuthorityPlan::Keep(kept("", "")),
            is_formed: false,
            credentials: CredentialsPlan::Generated,
            rotation_request: None,
            made_credentials: Some(RootCredentials::default()),
            master_key: Some(MasterKey([7; 32])),
            pods: vec!["demo-pool-0-0".to_owned(), "demo-pool-0-1".to_owned()],
            certificates,
        }
    }

    fn kept(certificate: &str, key: &str) -> AcceptedAuthority {
        let key = SecretText(key.to_owned());
        let current = KeyedAuthority { certificate: certificate.to_owned(), key };
        let state = RotationState::Steady { current };
        let record = AuthorityRecord { cluster: ClusterId([0x6a; 16]), state, request: None };
        AcceptedAuthority { record, is_known: true }
    }

    fn authority(plan: &AuthorityPlan, now: Duration) -> Result<SigningAuthority, MaterialError> {
        super::authority(&Plan { authority: plan.clone(), ..self::plan(BTreeMap::new()) }, now)
    }

    fn made(authority: &SigningAuthority, certificates: BTreeMap<String, String>, now: Duration) -> Material {
        material(&plan(certificates), authority, now).expect("issued").material
    }

    fn texts(material: &Material) -> BTreeMap<String, String> {
        material.certificates.iter().map(|(key, SecretText(text))| (key.clone(), text.clone())).collect()
    }

    #[test]
    fn what_holds_is_kept_and_what_does_not_is_issued_again() {
        let authority = authority(&AuthorityPlan::Make, NOW).expect("made");
        let first = texts(&made(&authority, BTreeMap::new(), NOW));
        assert_eq!(first.len(), 4);
        assert_eq!(texts(&made(&authority, first.clone(), NOW)), first, "kept byte for byte");

        let mut swapped = first.clone();
        swapped.insert("demo-pool-0-0.crt".to_owned(), first["demo-pool-0-1.crt"].clone());
        swapped.insert("demo-pool-0-0.key".to_owned(), first["demo-pool-0-1.key"].clone());
        let mended = texts(&made(&authority, swapped.clone(), NOW));
        assert_ne!(mended["demo-pool-0-0.crt"], swapped["demo-pool-0-0.crt"], "of another pod");
        assert_eq!(mended["demo-pool-0-1.crt"], first["demo-pool-0-1.crt"]);

        let mut foreign_key = first.clone();
        foreign_key.insert("demo-pool-0-0.key".to_owned(), first["demo-pool-0-1.key"].clone());
        let mended = texts(&made(&authority, foreign_key, NOW));
        assert_ne!(mended["demo-pool-0-0.crt"], first["demo-pool-0-0.crt"], "a key that does not fit");

        let late = NOW + Duration::from_hours(340 * 24);
        let renewed = texts(&made(&authority, first.clone(), late));
        assert_ne!(renewed["demo-pool-0-0.crt"], first["demo-pool-0-0.crt"], "ends within 30 days");

        let other = self::authority(&AuthorityPlan::Make, NOW).expect("made");
        let renewed = texts(&made(&other, first.clone(), NOW));
        assert_ne!(renewed["demo-pool-0-0.crt"], first["demo-pool-0-0.crt"], "of another CA");
    }

    /// Each renewal replaces the pods: a certificate that was damaged does not, one that ends soon takes the
    /// others along, and a look that changes nothing changes no template.
    #[test]
    fn certificates_are_renewed_together_and_only_then_is_their_digest_another() {
        let authority = authority(&AuthorityPlan::Make, NOW).expect("made");
        let first = made(&authority, BTreeMap::new(), NOW);
        let again = made(&authority, texts(&first), NOW + Duration::from_hours(24));
        assert_eq!(again.certificates_digest, first.certificates_digest);
        let mut damaged = texts(&first);
        damaged.remove("demo-pool-0-0.crt");
        let mended = made(&authority, damaged, NOW + Duration::from_hours(300 * 24));
        assert_eq!(mended.certificates_digest, first.certificates_digest);
        assert_eq!(mended.certificates["demo-pool-0-1.crt"], first.certificates["demo-pool-0-1.crt"]);
        let renewed = made(&authority, texts(&mended), NOW + Duration::from_hours(340 * 24));
        assert_ne!(renewed.certificates_digest, first.certificates_digest);
        for pod in ["demo-pool-0-0.crt", "demo-pool-0-1.crt"] {
            assert_ne!(renewed.certificates[pod], mended.certificates[pod], "{pod}");
        }
        let other = self::authority(&AuthorityPlan::Make, NOW).expect("made");
        assert_ne!(made(&other, texts(&first), NOW).certificates_digest, first.certificates_digest);
    }

    /// The key of a CA may leak, and is then replaced: no key of a client follows from it.
    #[test]
    fn credentials_and_master_key_are_drawn_for_a_new_cluster_alone() {
        let authority = authority(&AuthorityPlan::Make, NOW).expect("made");
        let without = Plan { made_credentials: None, master_key: None, ..plan(BTreeMap::new()) };
        let fresh = Plan { authority: AuthorityPlan::Make, ..without.clone() };
        let [one, two] = [(); 2].map(|()| material(&fresh, &authority, NOW).expect("issued").material);
        assert_ne!(one.credentials, two.credentials);
        assert_ne!(one.master_key, two.master_key);
        let made = one.credentials.clone().expect("made");
        assert_eq!((made.access_key_id.len(), made.secret_access_key.0.len()), (20, 43));
        assert!(!format!("{made:?}").contains(&made.secret_access_key.0));
        let lost = material(&without, &authority, NOW).map(|issued| issued.material);
        assert!(matches!(lost, Err(MaterialError::Lost(_))), "{lost:?}");
        let kept = Plan {
            made_credentials: one.credentials.clone(),
            master_key: Some(one.master_key.clone()),
            ..plan(BTreeMap::new())
        };
        let other = self::authority(&AuthorityPlan::Make, NOW).expect("made");
        let kept = material(&kept, &other, NOW).expect("issued").material;
        assert_eq!(
            (kept.credentials, kept.master_key),
            (one.credentials, one.master_key),
            "under another CA"
        );
    }

    /// Certificates that end with the CA cannot be made to end later: issuing them again would change the
    /// Secret with each reconcile, and each change begins another one.
    #[test]
    fn certificates_that_end_with_the_authority_are_kept() {
        let authority = authority(&AuthorityPlan::Make, NOW).expect("made");
        let ends = u64::try_from(authority.signer.not_after_s()).expect("a time");
        let late = Duration::from_secs(ends - 10 * 24 * 3_600);
        let issued = texts(&made(&authority, BTreeMap::new(), late));
        assert_eq!(texts(&made(&authority, issued.clone(), late + Duration::from_hours(24))), issued);
    }
}
