//! Orders about volumes, which a person gives in annotations of a StorageCluster: a volume lost nothing
//! (vouch), or its old disk does not come back (replace). The operator hands each to the volume's own node,
//! which alone judges it.
//!
//! An order names a claim and a digest of what the status said of it ([`super::losses`]), so it holds for
//! that claim, pod and process. The answer of the node is recorded in the status, and no order is given
//! twice: an operator that ends between the two gives it once more to the same process, which refuses what
//! it has done.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use super::losses::FoundLoss;
use super::nodes::{NodeAnswers, NodeOrder, NodeQuestion, StatusSource};
use super::validate::ValidCluster;
use crate::api::{StorageCluster, VolumeOrderKind, VolumeOrderRecord};
use crate::limits;
use crate::names::{REPLACE_ANNOTATION, VOUCH_ANNOTATION};
use crate::rotation::ClusterTrust;

/// An order of an annotation that was not given yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AskedOrder {
    kind: VolumeOrderKind,
    /// Text of the order.
    text: String,
}

/// The next step with an order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OrderStep<'a> {
    /// The order is handed to the node.
    Give(&'a FoundLoss),
    /// The order is recorded as refused, in words.
    Refuse(String),
    /// The node does not answer, so nothing can be said of it.
    Wait,
}

/// The orders of a cluster: what was recorded before, and what this reconcile adds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OrderOutcome {
    /// All that the status is to say.
    pub(super) records: Vec<VolumeOrderRecord>,
    /// Orders that this reconcile gave or refused.
    pub(super) fresh: Vec<VolumeOrderRecord>,
}

/// Gives the orders of the cluster's annotations that were not given yet.
pub(super) async fn follow(
    source: &dyn StatusSource,
    trust: &Arc<ClusterTrust>,
    valid: &ValidCluster<'_>,
    found: &[FoundLoss],
    answers: &NodeAnswers,
    now: Timestamp,
) -> OrderOutcome {
    let cluster = valid.cluster();
    let asked = asked(cluster);
    let records = cluster.status.as_ref().map(|status| status.volume_orders.clone()).unwrap_or_default();
    let mut outcome = OrderOutcome { records, fresh: Vec::new() };
    for order in &asked {
        if outcome.records.iter().any(|record| record.kind == order.kind && record.order == order.text) {
            continue;
        }
        let refused = match decide(valid, found, answers, order) {
            OrderStep::Wait => continue,
            OrderStep::Refuse(words) => words,
            OrderStep::Give(found) => match give(source, trust, valid, found, order.kind, now).await {
                Ok(refused) => refused,
                Err(error) => {
                    // The order may have arrived. The same process refuses what it has done.
                    tracing::warn!(order = order.text, error, "an order about a volume is given again");
                    continue;
                }
            },
        };
        let record = VolumeOrderRecord {
            kind: order.kind,
            order: order.text.clone(),
            time: Time(now),
            accepted: refused.is_empty(),
            message: refused.chars().take(limits::LOSS_REASON_CHARACTERS_MAX).collect(),
        };
        outcome.fresh.push(record.clone());
        outcome.records.push(record);
    }
    prune(&mut outcome.records, &asked);
    outcome
}

/// The orders that the annotations have, as far as they are recorded.
fn asked(cluster: &StorageCluster) -> Vec<AskedOrder> {
    let annotations =
        [(VolumeOrderKind::Vouch, VOUCH_ANNOTATION), (VolumeOrderKind::Replace, REPLACE_ANNOTATION)];
    let texts = annotations
        .into_iter()
        .filter_map(|(kind, annotation)| Some((kind, cluster.annotations().get(annotation)?)));
    let orders = texts.flat_map(|(kind, text)| {
        let entries = text.split([',', ' ', '\n']).map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(move |entry| {
            let text = entry.chars().take(limits::ORDER_CHARACTERS_MAX).collect();
            AskedOrder { kind, text }
        })
    });
    orders.take(limits::VOLUME_ORDERS_MAX).collect()
}

fn decide<'a>(
    valid: &ValidCluster<'_>,
    found: &'a [FoundLoss],
    answers: &NodeAnswers,
    order: &AskedOrder,
) -> OrderStep<'a> {
    let Some((claim, _)) = order.text.split_once('=') else {
        let words = "an order is CLAIM=DIGEST, as status.volumeLosses has it";
        return OrderStep::Refuse(words.to_owned());
    };
    let pool = valid.pool();
    let pods = valid.names().pods(&pool.name, pool.nodes);
    let pod = claim.split_once('-').map(|(_, pod)| pod).unwrap_or_default();
    if !valid.names().is_claim(&pool.name, claim) || !pods.iter().any(|known| known == pod) {
        return OrderStep::Refuse(format!("{claim} is no claim of the cluster's nodes"));
    }
    match found.iter().find(|found| found.loss.claim == claim) {
        Some(found) if found.loss.order.as_ref() == Some(&order.text) => OrderStep::Give(found),
        Some(found) => match &found.loss.order {
            Some(current) => OrderStep::Refuse(format!(
                "it was written for another claim, pod or process of that name; the status says {current} now"
            )),
            None => OrderStep::Wait,
        },
        None if answers.get(pod).is_some_and(|answer| {
            let formation = answer.as_ref().ok().and_then(|reply| reply.formation.as_ref());
            formation.is_some_and(|formation| formation.formed)
        }) =>
        {
            OrderStep::Refuse("its node reports no loss".to_owned())
        }
        None => OrderStep::Wait,
    }
}

/// Hands an order to the node that has the volume. Gives why the node refused it; empty where it did not.
async fn give(
    source: &dyn StatusSource,
    trust: &Arc<ClusterTrust>,
    valid: &ValidCluster<'_>,
    found: &FoundLoss,
    kind: VolumeOrderKind,
    now: Timestamp,
) -> Result<String, String> {
    let pod = found.loss.pod.clone();
    let address = valid.names().node_address(&pod);
    let question = NodeQuestion { pod, address, cluster: trust.cluster() };
    let order = NodeOrder { kind, volume: found.volume.clone() };
    let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    let answer = source.order(trust, question, order, since_epoch);
    let answer = tokio::time::timeout(limits::NODE_ANSWER_TIME_MAX, answer).await;
    answer.unwrap_or_else(|_| Err("no answer within 5 s".to_owned()))
}

/// Keeps the records of all orders that the annotations still have, and of the newest others.
fn prune(records: &mut Vec<VolumeOrderRecord>, asked: &[AskedOrder]) {
    let is_asked = |record: &VolumeOrderRecord| {
        asked.iter().any(|order| order.kind == record.kind && order.text == record.order)
    };
    let mut spare = records.len().saturating_sub(limits::VOLUME_ORDERS_MAX);
    records.retain(|record| {
        let goes = spare > 0 && !is_asked(record);
        spare -= usize::from(goes);
        !goes
    });
}
