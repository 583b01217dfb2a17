//! Growth of the claims of a pool to the size that the specification asks for:
//!
//! ```text
//!   storage raised     each bound claim with less is asked for it, where its class allows expansion
//!   all were asked     the StatefulSet, whose claim templates cannot change, is made again around its pods
//!   not all were       the templates stay, and the condition StorageResizing says why
//!   a growth failed    lowered storage is asked for, which Kubernetes takes above a claim's capacity
//!   claims are larger  the templates are as large, so that the claim of a lost host is
//! ```
//!
//! The resizer of the class grows the disk and the kubelet the filesystem; nodes measure theirs every ten
//! seconds. The next step follows from the claims, so that an operator that was killed goes on. Claims
//! that ask for more than the specification are left alone: they do not shrink.

mod request;
pub(crate) mod stage;
mod unlabelled;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use self::request::{ClaimAnswer, ClaimRequests};
use self::stage::{AskedSize, ClaimChange, ClaimStage};
use super::children::Child;
use super::observe::ObservedCluster;
use super::validate::ValidCluster;
use crate::api::Pool;
use crate::limits;
use crate::names::Names;

/// The claims of a pool after they were asked for the size of the specification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClaimGrowth {
    /// The claims, as the last request left them.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The stages that follow from answers to requests, by claim.
    pub(crate) answered: BTreeMap<String, ClaimStage>,
    /// The failure to read the claims without the cluster's label, which are not among them.
    pub(crate) unread: Option<String>,
}

/// Returns the claims that the pods of a pool use and that stay.
pub(super) fn used_claims(
    names: &Names,
    pool: &Pool,
    observed: &ObservedCluster,
) -> Vec<PersistentVolumeClaim> {
    let used: BTreeSet<String> =
        names.claims(&pool.name, pool.nodes, pool.volumes_per_node).into_iter().collect();
    let is_used = |claim: &&PersistentVolumeClaim| {
        claim.metadata.deletion_timestamp.is_none() && used.contains(&claim.name_any())
    };
    observed.claims.iter().filter(is_used).cloned().collect()
}

/// Asks for the size of the specification for each claim that has another one and can take it. The
/// StatefulSet that is built keeps the sizes of the one that is there, unless all claims that are to grow
/// were asked. A request that fails on its way is named by the condition, and keeps no other change back: it
/// is sent again by the next reconcile.
pub(super) async fn grow(
    client: &Client,
    valid: &ValidCluster<'_>,
    observed: &ObservedCluster,
    children: &mut [Child],
    now: Duration,
) -> ClaimGrowth {
    let claims = used_claims(valid.names(), valid.pool(), observed);
    let mut growth = ClaimGrowth { claims, ..ClaimGrowth::default() };
    let Some(asked) = AskedSize::of(valid.pool()) else { return growth };
    match unlabelled::read(client, valid, observed, &asked).await {
        Ok(others) => growth.claims.extend(others),
        Err(error) => growth.unread = Some(error.to_string()),
    }
    let mut requests = ClaimRequests::new(client, &valid.names().namespace, &asked);
    let first = first_asked(growth.claims.len(), now);
    let mut is_held_up = growth.unread.is_some();
    let (later, sooner) = growth.claims.split_at_mut(first);
    for claim in sooner.iter_mut().chain(later) {
        let change = stage::change(claim, &asked);
        if change == ClaimChange::Keep {
            continue;
        }
        let answer = requests.send(claim, change).await;
        is_held_up |= change == ClaimChange::Grow && !matches!(answer, ClaimAnswer::Taken(_));
        let stage = match answer {
            ClaimAnswer::Taken(taken) => {
                *claim = *taken;
                continue;
            }
            ClaimAnswer::Later => continue,
            ClaimAnswer::Refused(words) => ClaimStage::Refused(words),
            ClaimAnswer::Unanswered(words) => ClaimStage::Unanswered(words),
        };
        growth.answered.insert(claim.name_any(), stage);
    }
    for template in templates(children) {
        template["spec"]["resources"]["requests"]["storage"] = json!(asked.of_next_claim(&growth.claims));
    }
    if is_held_up {
        keep_size(children, observed);
    }
    growth
}

/// The place of the claim that is asked first: another one in each reconcile, so that claims that are refused
/// keep none behind them waiting. The time is that since the Unix epoch.
fn first_asked(claims: usize, now: Duration) -> usize {
    let turn = now.as_secs() / limits::RESYNC.as_secs();
    usize::try_from(turn).unwrap_or(0).checked_rem(claims).unwrap_or(0)
}

/// The claim templates of the StatefulSet among children that are built.
fn templates(children: &mut [Child]) -> impl Iterator<Item = &mut Value> {
    let set = children.iter_mut().find(|child| child.is::<StatefulSet>());
    set.and_then(|set| set.object["spec"]["volumeClaimTemplates"].as_array_mut()).into_iter().flatten()
}

/// Gives the claim templates of a StatefulSet that is built the sizes of the one that is there: for them
/// alone it is not made again.
fn keep_size(children: &mut [Child], observed: &ObservedCluster) {
    let set = children.iter().find(|child| child.is::<StatefulSet>()).map(Child::title);
    let Some(there) = set.and_then(|title| observed.children.get(&title)) else { return };
    let size = |template: &Value| template["spec"]["resources"]["requests"]["storage"].clone();
    for template in templates(children) {
        let mut of_name = there.data["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
        let found = of_name.find(|found| found["metadata"]["name"] == template["metadata"]["name"]);
        if let Some(kept) = found.map(size).filter(|kept| !kept.is_null()) {
            template["spec"]["resources"]["requests"]["storage"] = kept;
        }
    }
}
