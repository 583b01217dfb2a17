//! Decides which CA a cluster has: that of its Secret, of the copy, or another one. A plain function.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use sherd_core::id::ClusterId;
use sherd_trust::{AuthorityCertificate, AuthorityKeyDigest};

use super::blockage::{Blockage, BlockedPart, causes};
use super::observe::ObservedCluster;
use crate::api::{Reason, StorageCluster};
use crate::names::{self, Names};
use crate::rotation::{AcceptedAuthority, AuthorityRecord, OtherAuthority};
use crate::secret_text::texts;

/// Where the CA comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorityPlan {
    /// The cluster has none yet: one is made, for a fresh id.
    Make,
    /// The CA is lost for good, and a person asked for another one.
    MakeAgain {
        /// The cluster's id.
        cluster: ClusterId,
        /// The certificates of the former one, in PEM, where running nodes trust them.
        former: Option<String>,
    },
    /// The Secret holds the CA.
    Keep(AcceptedAuthority),
}

impl AuthorityPlan {
    /// The cluster's id, where it has one.
    pub(super) fn cluster(&self) -> Option<ClusterId> {
        match self {
            Self::Make => None,
            Self::MakeAgain { cluster, former: _ } => Some(*cluster),
            Self::Keep(accepted) => Some(accepted.record.cluster),
        }
    }
}

/// Decides which CA a cluster has.
///
/// # Errors
/// The [`Blockage`] that a person must end.
pub(super) fn plan_authority(
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
        Some(Ok(accepted)) => return Ok(AuthorityPlan::Keep(accepted)),
        Some(Err(blockage)) => return copy().map(AuthorityPlan::Keep).ok_or(blockage),
        None => {}
    }
    if let Some(accepted) = copy() {
        return Ok(AuthorityPlan::Keep(accepted));
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
        Some(id) => match cluster.annotations().get(names::NEW_AUTHORITY_ANNOTATION) {
            Some(asked) => make_again(cluster, names, observed, asked.trim()),
            None => Err(blocked(
                Reason::AuthorityMissing,
                format!(
                    "Secrets {secret} and {} with the CA of cluster {id} are gone, while claims or nodes of it are there: restore one of them; if the CA is lost for good, annotate the StorageCluster with {}={id}, and another one takes its place",
                    names.recovery(),
                    names::NEW_AUTHORITY_ANNOTATION,
                ),
            )),
        },
    }
}

/// Another CA in the place of one that is lost, as a person asked for it by the cluster's id. Running nodes
/// trust the former one, whose certificate is in the Secret that they mount.
fn make_again(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    asked: &str,
) -> Result<AuthorityPlan, Blockage> {
    let blocked = |message| {
        Err(Blockage { part: BlockedPart::Certificates, reason: Reason::AuthorityMissing, message })
    };
    let annotation = names::NEW_AUTHORITY_ANNOTATION;
    if let Some(id) = formed_ids(cluster, observed).find(|id| *id != asked) {
        return blocked(format!(
            "annotation {annotation} says cluster {asked:?}, while the claims or the status are of cluster {id}: no CA is made"
        ));
    }
    let Ok(id) = ClusterId::parse(asked) else {
        return blocked(format!("annotation {annotation} says {asked:?}, which is no id of a cluster"));
    };
    let mounted = observed.certificates.as_ref().and_then(|found| texts(found).remove(names::CA_CERTIFICATE));
    let known = cluster.status.as_ref().and_then(|status| status.authority_key.as_ref());
    let is_own = |bundle: &String| {
        let read = AuthorityCertificate::read_all(bundle).unwrap_or_default();
        let is_known = |known: &String| read.iter().any(|found| found.key.to_string() == *known);
        !read.is_empty() && read.iter().all(|found| found.cluster == Some(id)) && known.is_none_or(is_known)
    };
    let former = mounted.filter(is_own);
    if former.is_none() && known.is_some() {
        let pool = cluster.spec.pools.first().map(|pool| pool.name.as_str()).unwrap_or_default();
        return blocked(format!(
            "Secret {} with the certificate of the lost CA is gone, too, so that no node can be given another CA while it runs: delete the StorageCluster and make it again with annotation {annotation}; its claims stay",
            names.certificates(pool),
        ));
    }
    Ok(AuthorityPlan::MakeAgain { cluster: id, former })
}

/// Judges the CA of a Secret, or of the copy: whether it is whole, and the one that the cluster runs with.
fn accept_authority(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    texts: &BTreeMap<String, String>,
) -> Result<AcceptedAuthority, Blockage> {
    let blocked = |reason, message| Blockage { part: BlockedPart::Certificates, reason, message };
    let secret = names.authority();
    let id = texts.get(names::CA_CLUSTER_ID).and_then(|id| ClusterId::parse(id.trim()).ok());
    if let Some(id) = id.map(|id| id.to_string())
        && let Some(other) = formed_ids(cluster, observed).find(|other| **other != id)
    {
        let message = format!(
            "Secret {secret} is of cluster {id}, while the claims or the status are of cluster {other}: restore the Secret"
        );
        return Err(blocked(Reason::AuthorityMissing, message));
    }
    let record = AuthorityRecord::read(texts).map_err(|fault| {
        blocked(Reason::SecretMalformed, format!("Secret {secret}: {fault}: restore the Secret"))
    })?;
    record.accept(authority_key(cluster, observed).as_deref()).map_err(|OtherAuthority { found, known }| {
        let message = format!(
            "Secret {secret} holds another CA (key {found}) than the one that the nodes run with (key {known}): restore the Secret; if the former CA is lost for good, delete the Secret and annotate the StorageCluster with {}={}",
            names::NEW_AUTHORITY_ANNOTATION,
            id.map(|id| id.to_string()).unwrap_or_default(),
        );
        blocked(Reason::AuthorityChanged, message)
    })
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
