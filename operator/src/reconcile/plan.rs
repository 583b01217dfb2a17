//! Decides, from the specification and the objects that were observed, the image, the CA, the credentials and
//! the certificates to issue. Plain functions over values; nothing is made here.
//!
//! A plan that is blocked changes nothing at all: no child is made or mended before the cause is gone, so
//! that no pod begins with half of the Secrets that it needs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

pub use super::authority::AuthorityPlan;
use super::authority::plan_authority;
use super::blockage::causes;
pub use super::blockage::{Blockage, BlockedPart};
use super::formed;
use super::image::{ImageName, plan_image};
use super::observe::{ForeignObject, ObservedCluster};
use super::platform::PodUsers;
use super::recovery::Recovery;
use super::validate::ValidCluster;
use crate::api::{PullPolicy, Reason, StorageCluster};
use crate::names::{self, Names};
use crate::secret_text::{AcceptedCredentials, MasterKey, RootCredentials, SecretText, texts};

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
        credentials: AcceptedCredentials,
    },
}

/// The decisions of a plan: what `material` issues and `build` builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The image of the pods.
    pub image: ImageName,
    /// When the image is pulled.
    pub pull_policy: PullPolicy,
    /// Secrets of a registry.
    pub pull_secrets: Vec<String>,
    /// The source of the pods' user and groups.
    pub users: PodUsers,
    /// The CA.
    pub authority: AuthorityPlan,
    /// Whether the nodes' live file says that the cluster was formed before.
    pub is_formed: bool,
    /// The root credentials.
    pub credentials: CredentialsPlan,
    /// The text of the annotation that asks for another CA.
    pub rotation_request: Option<String>,
    /// The root credentials that the operator made before, whether they are used or not.
    pub made_credentials: Option<RootCredentials>,
    /// The master key that is there. It is never replaced: what nodes keep under it could not be read again.
    pub master_key: Option<MasterKey>,
    /// The pods that need certificates.
    pub pods: Vec<String>,
    /// Certificates and keys that are there, by key of the Secret; they are judged before they stay.
    pub certificates: BTreeMap<String, String>,
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
    let credentials = plan_credentials(cluster, observed)?;
    let made_credentials = made_credentials(cluster, observed, copy);
    // Seeds of a new cluster are drawn once; those of a cluster that is there cannot be made again.
    let are_lost = authority != AuthorityPlan::Make;
    if are_lost && made_credentials.is_none() && credentials == CredentialsPlan::Generated {
        return Err(credentials_lost(names));
    }
    let master_key = plan_master_key(names, observed, copy)?;
    if are_lost && master_key.is_none() {
        return Err(master_key_lost(names));
    }
    let is_formed = authority.cluster().is_some_and(|id| formed::is_written(cluster, names, observed, id));
    Ok(Plan {
        image: plan_image(cluster, fallback),
        pull_policy: image.pull_policy,
        pull_secrets: image.pull_secrets.into_iter().map(|secret| secret.name).collect(),
        users: observed.users,
        authority,
        is_formed,
        credentials,
        rotation_request: cluster.annotations().get(names::ROTATE_AUTHORITY_ANNOTATION).cloned(),
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
    let malformed = |words: String| blocked(Reason::SecretMalformed, format!("Secret {secret}: {words}"));
    let first = given_pair(&texts, names::CREDENTIALS_KEYS).map_err(malformed)?;
    let has_secondary = names::SECONDARY_CREDENTIALS_KEYS.iter().any(|key| texts.contains_key(*key));
    let secondary = has_secondary.then(|| given_pair(&texts, names::SECONDARY_CREDENTIALS_KEYS));
    let secondary = secondary.transpose().map_err(malformed)?;
    if secondary.as_ref().is_some_and(|secondary| secondary.access_key_id == first.access_key_id) {
        let [first, secondary] = [names::CREDENTIALS_KEYS[0], names::SECONDARY_CREDENTIALS_KEYS[0]];
        return Err(malformed(format!("{first} and {secondary} must differ")));
    }
    Ok(CredentialsPlan::Provided { secret, credentials: AcceptedCredentials { first, secondary } })
}

/// A pair that a person chose, by the keys of its id and its secret; or the rule that it breaks.
fn given_pair(texts: &BTreeMap<String, String>, keys: [&str; 2]) -> Result<RootCredentials, String> {
    let [id, secret] = keys;
    let holds = |key: &str, length: std::ops::RangeInclusive<usize>, valid: fn(u8) -> bool| {
        texts.get(key).is_some_and(|text| length.contains(&text.len()) && text.bytes().all(valid))
    };
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !holds(id, 3..=128, is_id) {
        return Err(format!("{id} must hold 3 to 128 letters, digits, '.', '-' or '_'"));
    }
    if !holds(secret, 8..=128, |byte| byte.is_ascii_graphic()) {
        return Err(format!("{secret} must hold 8 to 128 visible ASCII characters"));
    }
    Ok(root_credentials(texts, keys).unwrap_or_default())
}

fn root_credentials(texts: &BTreeMap<String, String>, [id, secret]: [&str; 2]) -> Option<RootCredentials> {
    Some(RootCredentials {
        access_key_id: texts.get(id)?.clone(),
        secret_access_key: SecretText(texts.get(secret)?.clone()),
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
        root_credentials(&texts(secret?), names::CREDENTIALS_KEYS)
    };
    copy.and_then(Recovery::credentials).or_else(own)
}

/// Whether a copy has the values of the cluster with this CA. That of another cluster of the same name, which
/// a person restored here, is written over as one that was edited.
fn is_of(copy: &Recovery, authority: &AuthorityPlan) -> bool {
    let Some(cluster) = authority.cluster() else { return false };
    copy.texts().get(names::CA_CLUSTER_ID).is_some_and(|id| id.trim() == cluster.to_string())
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
