//! Decides, from the specification and the objects that were observed, the image, the CA, the credentials and
//! the certificates to issue. Plain functions over values; nothing is made here.
//!
//! A plan that is blocked changes nothing at all: no child is made or mended before the cause is gone, so
//! that no pod begins with half of the Secrets that it needs.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use sherd_core::id::ClusterId;
use sherd_trust::AuthorityKeyDigest;

use super::observe::{ForeignObject, ObservedCluster};
use super::validate::ValidCluster;
use crate::api::{Image, PullPolicy, Reason, StorageCluster};
use crate::names::{self, Names};
use crate::secret_text::MasterKey;

/// The image of a cluster whose specification and status name none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultImage {
    /// Repository of the node's image.
    pub repository: String,
    /// Its tag: the operator's own version.
    pub tag: String,
}

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
    /// The operator derives them from the CA's key.
    Derive,
    /// A Secret of the user holds them.
    Provided {
        /// The Secret's name.
        secret: String,
    },
}

/// The decisions of a plan: what `material` issues and `build` builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The image of the pods.
    pub image: String,
    /// When it is pulled.
    pub pull_policy: PullPolicy,
    /// Secrets of a registry.
    pub pull_secrets: Vec<String>,
    /// The CA.
    pub authority: AuthorityPlan,
    /// The root credentials.
    pub credentials: CredentialsPlan,
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
}

/// Decides the image, the CA, the credentials and the certificates of a cluster.
///
/// # Errors
/// The [`Blockage`] that a person must end.
pub fn plan(
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    fallback: &DefaultImage,
) -> Result<Plan, Blockage> {
    let (cluster, names) = (valid.cluster(), valid.names());
    if !observed.foreign.is_empty() {
        return Err(name_taken(names, &observed.foreign));
    }
    let image = cluster.spec.image.clone().unwrap_or_default();
    Ok(Plan {
        image: image_of(cluster, &image, fallback),
        pull_policy: image.pull_policy,
        pull_secrets: image.pull_secrets.into_iter().map(|secret| secret.name).collect(),
        authority: plan_authority(cluster, names, observed)?,
        credentials: plan_credentials(cluster, observed)?,
        master_key: plan_master_key(names, observed)?,
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

/// A repository or tag that the specification leaves out comes from the recorded image first, so that an
/// operator of another version does not change the pods of a cluster that it finds.
fn image_of(cluster: &StorageCluster, image: &Image, fallback: &DefaultImage) -> String {
    let recorded = cluster.status.as_ref().and_then(|status| status.image.as_deref());
    let recorded = recorded.and_then(|image| image.rsplit_once(':'));
    let (recorded_repository, recorded_tag) = recorded.unwrap_or((&fallback.repository, &fallback.tag));
    let repository = image.repository.as_deref().unwrap_or(recorded_repository);
    let tag = image.tag.as_deref().unwrap_or(recorded_tag);
    format!("{repository}:{tag}")
}

fn plan_authority(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
) -> Result<AuthorityPlan, Blockage> {
    let blocked = |reason, message| Blockage { part: BlockedPart::Certificates, reason, message };
    let secret = names.authority();
    let Some(found) = &observed.authority else {
        return match formed_ids(cluster, observed).next() {
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
                    "Secret {secret} with the CA of cluster {id} is gone, while claims or nodes of it are there: restore the Secret, or delete the StorageCluster and the claims if their data is not wanted"
                ),
            )),
        };
    };
    let texts = texts(found);
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
            "Secret {secret} holds another CA (key {digest}) than the one that the nodes run with (key {other}): restore the Secret; if the former CA is lost, delete the StorageCluster and make it again: its claims stay, its nodes and clients get new certificates and credentials"
        );
        return Err(blocked(Reason::AuthorityChanged, message));
    }
    Ok(AuthorityPlan::Keep { cluster: id, certificate, key: part(names::CA_KEY)? })
}

/// The digest of the key of the CA that the cluster runs with, as its status says, or, where the status was
/// lost, the Secret that its pods mount. Certificates and credentials follow from that key, so another one
/// would part new pods from running ones and clients from all.
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
    let Some(credentials) = &cluster.spec.credentials else { return Ok(CredentialsPlan::Derive) };
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
    Ok(CredentialsPlan::Provided { secret })
}

fn plan_master_key(names: &Names, observed: &ObservedCluster) -> Result<Option<MasterKey>, Blockage> {
    let Some(found) = &observed.master_key else { return Ok(None) };
    let bytes = found.data.as_ref().and_then(|data| data.get(names::MASTER_KEY));
    let key = bytes.and_then(|ByteString(bytes)| <[u8; 32]>::try_from(bytes.as_slice()).ok());
    let malformed = || {
        let message = format!(
            "Secret {}: {} must hold 32 bytes: restore the Secret, or delete it: one that the operator made comes back with the same bytes",
            names.master_key(),
            names::MASTER_KEY
        );
        Blockage { part: BlockedPart::Credentials, reason: Reason::SecretMalformed, message }
    };
    key.map(MasterKey).map(Some).ok_or_else(malformed)
}

/// The texts of a Secret, without values that are not UTF-8.
fn texts(secret: &Secret) -> BTreeMap<String, String> {
    let data = secret.data.iter().flatten();
    let text = |(key, ByteString(bytes)): (&String, &ByteString)| {
        Some((key.clone(), String::from_utf8(bytes.clone()).ok()?))
    };
    data.filter_map(text).collect()
}
