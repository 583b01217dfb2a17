//! Decides, from the specification and the objects that were observed, the image, the CA, the credentials and
//! the certificates to issue. Plain functions over values; nothing is made here.
//!
//! A plan that is blocked changes nothing at all: no child is made or mended before the cause is gone, so
//! that no pod begins with half of the Secrets that it needs.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use sherd_core::id::ClusterId;
use sherd_trust::{Authority, AuthorityKeyDigest};

use super::error::MaterialError;
use super::image::{ImageName, plan_image};
use super::observe::{ForeignObject, ObservedCluster};
use super::recovery::Recovery;
use super::validate::ValidCluster;
use crate::api::{PullPolicy, Reason, StorageCluster};
use crate::names::{self, Names};
use crate::secret_text::{MasterKey, RootCredentials, SecretText};

/// Where the CA comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorityPlan {
    /// The cluster has none yet: one is made, for this id or for a fresh one.
    Make,
    /// The Secret holds it.
    Keep {
        /// The cluster's id.
        cluster: ClusterId,
        /// The CA's certificate.
        certificate: String,
        /// The CA's key.
        key: String,
    },
}

/// Where the root credentials come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialsPlan {
    /// The operator made them, or does.
    Generated,
    /// A Secret of the user holds them.
    Provided {
        /// The Secret's name.
        secret: String,
        /// The credentials in it.
        credentials: RootCredentials,
    },
}

/// How the master key and the root credentials of a cluster are made, or were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// At random, or a person brought them: a lost one cannot be made again.
    Random,
    /// From the CA's key, by an older operator.
    Derived,
}

impl Seeds {
    /// Whether a value that is not there is lost. A new cluster's is drawn, an older operator's derived.
    pub(super) fn are_lost(self, authority: &AuthorityPlan) -> bool {
        self == Self::Random && *authority != AuthorityPlan::Make
    }
}

/// The decisions of a plan: what `material` issues and `build` builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The image of the pods.
    pub image: ImageName,
    /// When it is pulled.
    pub pull_policy: PullPolicy,
    /// Secrets of a registry.
    pub pull_secrets: Vec<String>,
    /// The CA.
    pub authority: AuthorityPlan,
    /// The root credentials.
    pub credentials: CredentialsPlan,
    /// How root credentials and master key are made.
    pub seeds: Seeds,
    /// The root credentials that the operator made before, whether they are used or not.
    pub made_credentials: Option<RootCredentials>,
    /// The master key that is there. It is never replaced: what nodes keep under it could not be read again.
    pub master_key: Option<MasterKey>,
    /// The pods that need certificates.
    pub pods: Vec<String>,
    /// Certificates and keys that are there, by key of the Secret; they are judged before they stay.
    pub certificates: BTreeMap<String, String>,
}

/// Why nothing is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blockage {
    /// The part of the cluster that is at fault.
    pub part: BlockedPart,
    /// Why.
    pub reason: Reason,
    /// The cause in words, with the name of the object.
    pub message: String,
}

/// The part of a cluster that a blockage is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedPart {
    /// The root credentials.
    Credentials,
    /// The CA or the certificates.
    Certificates,
    /// The names of children.
    Names,
    /// The number of nodes and volumes, and the code of their sets.
    Geometry,
}

/// Decides the image, the CA, the credentials and the certificates of a cluster.
///
/// # Errors
/// The [`Blockage`] that a person must end.
pub fn plan(
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    fallback: &ImageName,
) -> Result<Plan, Blockage> {
    let (cluster, names) = (valid.cluster(), valid.names());
    if !observed.foreign.is_empty() {
        return Err(name_taken(names, &observed.foreign));
    }
    let image = cluster.spec.image.clone().unwrap_or_default();
    let authority = plan_authority(cluster, names, observed)?;
    let copy = observed.recovery.as_ref().filter(|copy| is_of(copy, &authority));
    let seeds = plan_seeds(&authority, observed, copy);
    let credentials = plan_credentials(cluster, observed)?;
    let made_credentials = made_credentials(cluster, observed, copy);
    let are_lost = seeds.are_lost(&authority);
    if are_lost && made_credentials.is_none() && credentials == CredentialsPlan::Generated {
        return Err(credentials_lost(names));
    }
    let master_key = plan_master_key(names, observed, copy)?;
    if are_lost && master_key.is_none() {
        return Err(master_key_lost(names));
    }
    Ok(Plan {
        image: plan_image(cluster, fallback),
        pull_policy: image.pull_policy,
        pull_secrets: image.pull_secrets.into_iter().map(|secret| secret.name).collect(),
        authority,
        credentials,
        seeds,
        made_credentials,
        master_key,
        pods: names.pods(&valid.pool().name, valid.pool().nodes),
        certificates: observed.certificates.as_ref().map(texts).unwrap_or_default(),
    })
}

/// An object with a child's name that the operator did not create belongs to someone else: it is neither
/// changed nor deleted.
fn name_taken(names: &Names, foreign: &[ForeignObject]) -> Blockage {
    let cluster = &names.cluster;
    let advice = format!(
        "delete or rename it, or label it {}={},{}={cluster} to give it to the operator",
        names::MANAGED_BY_LABEL,
        names::MANAGED_BY,
        names::CLUSTER_LABEL,
    );
    let message = format!("a name that cluster {cluster} needs is taken: {}", causes(foreign, &advice));
    Blockage { part: BlockedPart::Names, reason: Reason::NameTaken, message }
}

/// Names each object and its owner. An object of another cluster holds that cluster's data, so the advice to
/// delete or relabel is given only for objects without one.
fn causes(foreign: &[ForeignObject], advice: &str) -> String {
    let cause = |foreign: &ForeignObject| match &foreign.cluster {
        Some(other) => format!(
            "{} is StorageCluster {other}'s: give this cluster or its pool another name",
            foreign.object
        ),
        None => format!("{}: {advice}", foreign.object),
    };
    foreign.iter().map(cause).collect::<Vec<_>>().join("; ")
}

fn plan_authority(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
) -> Result<AuthorityPlan, Blockage> {
    let blocked = |reason, message| Blockage { part: BlockedPart::Certificates, reason, message };
    let secret = names.authority();
    let own =
        observed.authority.as_ref().map(|found| accept_authority(cluster, names, observed, &texts(found)));
    let copy = || accept_authority(cluster, names, observed, &observed.recovery.as_ref()?.texts()).ok();
    match own {
        Some(Ok(accepted)) => return Ok(accepted),
        Some(Err(blockage)) => return copy().ok_or(blockage),
        None => {}
    }
    if let Some(accepted) = copy() {
        return Ok(accepted);
    }
    match formed_ids(cluster, observed).next() {
        None if observed.foreign_claims.is_empty() => Ok(AuthorityPlan::Make),
        None => {
            let advice = format!(
                "restore the Secret with the CA of its volume, delete it if its data is not wanted, or label it {}={} if its volume is empty",
                names::CLUSTER_LABEL,
                names.cluster,
            );
            let causes = causes(&observed.foreign_claims, &advice);
            let message = format!("claims are there and Secret {secret} is not: {causes}");
            Err(blocked(Reason::AuthorityMissing, message))
        }
        Some(id) => Err(blocked(
            Reason::AuthorityMissing,
            format!(
                "Secrets {secret} and {} with the CA of cluster {id} are gone, while claims or nodes of it are there: restore one of them; if the CA is lost, the data is not: make a CA with the cluster's id as docs/operations/kubernetes.md says",
                names.recovery(),
            ),
        )),
    }
}

/// Judges the CA of a Secret, or of the copy: whether it is whole, and the one that the cluster runs with.
fn accept_authority(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    texts: &BTreeMap<String, String>,
) -> Result<AuthorityPlan, Blockage> {
    let blocked = |reason, message| Blockage { part: BlockedPart::Certificates, reason, message };
    let secret = names.authority();
    let part = |key: &str| {
        texts.get(key).filter(|text| !text.is_empty()).cloned().ok_or_else(|| {
            blocked(Reason::SecretMalformed, format!("Secret {secret} lacks {key}: restore the Secret"))
        })
    };
    let id = part(names::CA_CLUSTER_ID)?;
    let id = ClusterId::parse(id.trim()).map_err(|error| {
        blocked(
            Reason::SecretMalformed,
            format!("Secret {secret}: {} is malformed: {error}", names::CA_CLUSTER_ID),
        )
    })?;
    let id_text = id.to_string();
    if let Some(other) = formed_ids(cluster, observed).find(|other| **other != id_text) {
        let message = format!(
            "Secret {secret} is of cluster {id}, while the claims or the status are of cluster {other}: restore the Secret"
        );
        return Err(blocked(Reason::AuthorityMissing, message));
    }
    let certificate = part(names::CA_CERTIFICATE)?;
    let digest = AuthorityKeyDigest::read(&certificate).map_err(|error| {
        let message = format!("Secret {secret}: {}: {error}: restore the Secret", names::CA_CERTIFICATE);
        blocked(Reason::SecretMalformed, message)
    })?;
    let digest = digest.to_string();
    if let Some(other) = authority_key(cluster, observed).filter(|other| *other != digest) {
        let message = format!(
            "Secret {secret} holds another CA (key {digest}) than the one that the nodes run with (key {other}): restore the Secret; if the former CA is lost, delete the StorageCluster and make it again: its claims and credentials stay, its nodes get new certificates"
        );
        return Err(blocked(Reason::AuthorityChanged, message));
    }
    let key = part(names::CA_KEY)?;
    match Authority::load(&certificate, &key) {
        Ok(authority) if authority.cluster() == id => {
            Ok(AuthorityPlan::Keep { cluster: id, certificate, key })
        }
        Ok(authority) => {
            let message = MaterialError::OtherCluster { said: id, signed: authority.cluster() };
            Err(blocked(Reason::SecretMalformed, format!("Secret {secret}: {message}: restore the Secret")))
        }
        Err(error) => {
            let message = format!("Secret {secret}: {error}: restore the Secret");
            Err(blocked(Reason::SecretMalformed, message))
        }
    }
}

/// The digest of the key of the CA that the cluster runs with, as its status says, or, where the status was
/// lost, the Secret that its pods mount. Certificates follow from that key, so another one would part new
/// pods from running ones.
fn authority_key(cluster: &StorageCluster, observed: &ObservedCluster) -> Option<String> {
    let mounted = || {
        let texts = texts(observed.certificates.as_ref()?);
        Some(AuthorityKeyDigest::read(texts.get(names::CA_CERTIFICATE)?).ok()?.to_string())
    };
    cluster.status.as_ref().and_then(|status| status.authority_key.clone()).or_else(mounted)
}

/// The ids that the cluster was formed with, as its claims and its status carry them: all are the same one,
/// unless claims of another cluster were put in their place.
fn formed_ids<'a>(
    cluster: &'a StorageCluster,
    observed: &'a ObservedCluster,
) -> impl Iterator<Item = &'a String> {
    let claims = observed.claims.iter().filter_map(|claim| claim.metadata.labels.as_ref());
    let claimed = claims.filter_map(|labels| labels.get(names::CLUSTER_ID_LABEL));
    claimed.chain(cluster.status.as_ref().and_then(|status| status.cluster_id.as_ref()))
}

fn plan_credentials(
    cluster: &StorageCluster,
    observed: &ObservedCluster,
) -> Result<CredentialsPlan, Blockage> {
    let Some(credentials) = &cluster.spec.credentials else { return Ok(CredentialsPlan::Generated) };
    let secret = credentials.secret_ref.name.clone();
    let blocked = |reason, message| Blockage { part: BlockedPart::Credentials, reason, message };
    let Some(found) = &observed.credentials else {
        let message = format!("Secret {secret} of spec.credentials.secretRef is not there");
        return Err(blocked(Reason::SecretMissing, message));
    };
    let texts = texts(found);
    let holds = |key: &str, length: std::ops::RangeInclusive<usize>, valid: fn(u8) -> bool| {
        texts.get(key).is_some_and(|text| length.contains(&text.len()) && text.bytes().all(valid))
    };
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !holds(names::ACCESS_KEY, 3..=128, is_id) {
        let rule = "must hold 3 to 128 letters, digits, '.', '-' or '_'";
        let message = format!("Secret {secret}: {} {rule}", names::ACCESS_KEY);
        return Err(blocked(Reason::SecretMalformed, message));
    }
    if !holds(names::SECRET_KEY, 8..=128, |byte| byte.is_ascii_graphic()) {
        let rule = "must hold 8 to 128 visible ASCII characters";
        let message = format!("Secret {secret}: {} {rule}", names::SECRET_KEY);
        return Err(blocked(Reason::SecretMalformed, message));
    }
    let credentials = root_credentials(&texts).unwrap_or_default();
    Ok(CredentialsPlan::Provided { secret, credentials })
}

fn root_credentials(texts: &BTreeMap<String, String>) -> Option<RootCredentials> {
    Some(RootCredentials {
        access_key_id: texts.get(names::ACCESS_KEY)?.clone(),
        secret_access_key: SecretText(texts.get(names::SECRET_KEY)?.clone()),
    })
}

/// The root credentials that the operator made: as the copy has them, or, without one, as their
/// Secret does.
fn made_credentials(
    cluster: &StorageCluster,
    observed: &ObservedCluster,
    copy: Option<&Recovery>,
) -> Option<RootCredentials> {
    let own = || {
        let secret = observed.credentials.as_ref().filter(|_| cluster.spec.credentials.is_none());
        root_credentials(&texts(secret?))
    };
    copy.and_then(Recovery::credentials).or_else(own)
}

/// Whether a copy has the values of the cluster with this CA. That of another cluster of the same name, which
/// a person restored here, is written over as one that was edited.
fn is_of(copy: &Recovery, authority: &AuthorityPlan) -> bool {
    let AuthorityPlan::Keep { cluster, .. } = authority else { return false };
    copy.texts().get(names::CA_CLUSTER_ID).is_some_and(|id| id.trim() == cluster.to_string())
}

/// How root credentials and master key were made: as the CA's Secret or the copy says.
fn plan_seeds(authority: &AuthorityPlan, observed: &ObservedCluster, copy: Option<&Recovery>) -> Seeds {
    let own = observed.authority.as_ref().map(texts);
    let copy = copy.map(Recovery::texts);
    let is_random = |texts: BTreeMap<String, String>| {
        texts.get(names::SEEDS).is_some_and(|text| text.trim() == names::SEEDS_RANDOM)
    };
    match authority {
        AuthorityPlan::Keep { .. } if !own.into_iter().chain(copy).any(is_random) => Seeds::Derived,
        AuthorityPlan::Keep { .. } | AuthorityPlan::Make => Seeds::Random,
    }
}

fn credentials_lost(names: &Names) -> Blockage {
    let message = format!(
        "Secrets {} and {} with the root credentials are gone, and they were made at random: restore one of them from a backup, or choose others by spec.credentials.secretRef",
        names.credentials(),
        names.recovery(),
    );
    Blockage { part: BlockedPart::Credentials, reason: Reason::SecretMissing, message }
}

fn master_key_lost(names: &Names) -> Blockage {
    let message = format!(
        "Secrets {} and {} with the master key are gone, and it was made at random: restore one of them from a backup; without it no secret of a user's access key can be read",
        names.master_key(),
        names.recovery(),
    );
    Blockage { part: BlockedPart::Credentials, reason: Reason::SecretMissing, message }
}

/// The master key that is there. Its Secret and the copy must agree: nothing shows which of two is the one
/// that the nodes keep secrets under.
fn plan_master_key(
    names: &Names,
    observed: &ObservedCluster,
    copy: Option<&Recovery>,
) -> Result<Option<MasterKey>, Blockage> {
    let bytes = |found: &Secret| Some(found.data.as_ref()?.get(names::MASTER_KEY)?.0.clone());
    let key = |found: &Secret| <[u8; 32]>::try_from(bytes(found)?.as_slice()).ok().map(MasterKey);
    let own = observed.master_key.as_ref().and_then(key);
    let copy = copy.and_then(Recovery::master_key);
    let malformed = || {
        let message = format!(
            "Secret {}: {} must hold 32 bytes: restore the Secret",
            names.master_key(),
            names::MASTER_KEY
        );
        Blockage { part: BlockedPart::Credentials, reason: Reason::SecretMalformed, message }
    };
    match (own, copy) {
        (Some(own), Some(copy)) if own != copy && observed.has_copy => {
            let message = format!(
                "Secret {own_name} holds the master key of digest {}, and its copy in Secret {copy_name} one of digest {}: delete the Secret with the wrong one, and it is made again from the other",
                own.digest(),
                copy.digest(),
                own_name = names.master_key(),
                copy_name = names.recovery(),
            );
            Err(Blockage { part: BlockedPart::Credentials, reason: Reason::SecretsDiffer, message })
        }
        (Some(key), _) | (None, Some(key)) => Ok(Some(key)),
        (None, None) if observed.master_key.is_some() => Err(malformed()),
        (None, None) => Ok(None),
    }
}

/// The texts of a Secret, without values that are not UTF-8.
fn texts(secret: &Secret) -> BTreeMap<String, String> {
    let data = secret.data.iter().flatten();
    let text = |(key, ByteString(bytes)): (&String, &ByteString)| {
        Some((key.clone(), String::from_utf8(bytes.clone()).ok()?))
    };
    data.filter_map(text).collect()
}
