//! Sentences of `SpecValid` about a valid specification: which outages stop something, and
//! settings that do not fit together. Plain functions over the specification.

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use sherd_core::erasure::Availability;
use sherd_core::topology::{FormationWarning, PoolShape};

use super::node_memory::NodeMemory;
use super::quantity::bytes;
use crate::api::{NodeSettings, Pool, Reason};
use crate::names::{self, Names};
use crate::rollout::{PoolSets, ZoneLoss, ZoneSpread};

/// A sentence about a valid specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The reason of `SpecValid` that it is; `Valid`: it only informs.
    pub reason: Reason,
    /// The sentence.
    pub text: String,
}

impl Remark {
    fn warning(text: String) -> Self {
        Self { reason: Reason::NotRedundant, text }
    }

    /// The reason and the message of `SpecValid`: the first warning decides.
    pub fn verdict(remarks: &[Self]) -> (Reason, String) {
        let reasons = remarks.iter().map(|remark| remark.reason);
        let reason = reasons.clone().find(|reason| *reason != Reason::Valid).unwrap_or(Reason::Valid);
        if remarks.is_empty() {
            return (reason, "no contradictions".to_owned());
        }
        let texts: Vec<&str> = remarks.iter().map(|remark| remark.text.as_str()).collect();
        (reason, texts.join("; "))
    }
}

/// Says what outages mean for a pool, and which of its settings do not fit together.
pub(super) fn remarks(names: &Names, pool: &Pool, shape: &PoolShape, sets: &PoolSets) -> Vec<Remark> {
    let concerns_outages =
        |warning: &&FormationWarning| !matches!(warning, FormationWarning::NotTheDefault { .. });
    let warnings = shape.warnings(sets.nodes());
    let outages =
        warnings.iter().filter(concerns_outages).map(|warning| Remark::warning(warning.to_string()));
    let mut remarks: Vec<Remark> = outages.collect();
    if pool.allow_shared_hosts && pool.nodes > 1 {
        let text = "allowSharedHosts: one host may run several nodes, or all, and its loss takes all of them";
        remarks.push(Remark::warning(text.to_owned()));
    }
    remarks.extend(pool.topology_spread_constraints.iter().filter_map(|constraint| {
        let is_of_hosts = constraint.topology_key == names::HOST_LABEL;
        let is_required = constraint.when_unsatisfiable == "DoNotSchedule";
        (is_required && !is_of_hosts).then(|| zone_remark(names, pool, sets, constraint))
    }));
    remarks
}

/// Says that a pod's limit of memory is smaller than what its node's settings let it take.
pub(super) fn memory_remark(settings: &NodeSettings, pool: &Pool) -> Option<Remark> {
    let limit = pool.resources.as_ref()?.limits.as_ref()?.get("memory")?;
    let needed = NodeMemory::of(settings, pool).caps();
    if bytes(limit)? >= u128::from(needed) {
        return None;
    }
    let text = format!(
        "resources.limits.memory {} is less than bufferCap and indexCache together ({}MiB): under load nodes are ended for their memory",
        limit.0,
        needed.div_ceil(1 << 20),
    );
    Some(Remark { reason: Reason::LimitTooSmall, text })
}

/// Pods that a spread constraint counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedPods {
    /// The pods of the pool alone.
    Pool,
    /// The pods of the pool, and perhaps others.
    Others,
    /// None of the pool's pods.
    Foreign,
}

/// Says what the loss of a zone means under one required spread constraint.
fn zone_remark(names: &Names, pool: &Pool, sets: &PoolSets, constraint: &TopologySpreadConstraint) -> Remark {
    let key = &constraint.topology_key;
    match counted_pods(names, pool, constraint) {
        CountedPods::Pool => {}
        CountedPods::Others => {
            let text = format!(
                "the spread over {key} is not judged: its labelSelector may count other pods, too (leave it out, and the pool's are counted)"
            );
            return Remark { reason: Reason::Valid, text };
        }
        CountedPods::Foreign => {
            return Remark::warning(format!(
                "the spread over {key} does nothing: its labelSelector does not match the pool's pods (leave it out, and they are counted)"
            ));
        }
    }
    let number = |value: i32| usize::try_from(value).unwrap_or(0);
    let spread = ZoneSpread {
        skew_max: number(constraint.max_skew),
        zones_min: constraint.min_domains.map_or(1, number).max(1),
    };
    let losses = spread.losses(sets);
    let first = losses.first().expect("at least one number of zones is judged");
    // With minDomains the fewest zones are known; without, there may be more of them.
    let judged = if constraint.min_domains.is_some() { first } else { losses.last().unwrap_or(first) };
    let reason = match judged.availability {
        Availability::AllWorks => Reason::Valid,
        Availability::CommittedReads | Availability::Outage => Reason::NotRedundant,
    };
    let sentences: Vec<String> = losses.iter().map(|loss| zone_sentence(sets, *loss)).collect();
    let text = format!("loss of a zone ({key}, maxSkew {}): {}", constraint.max_skew, sentences.join(", "));
    Remark { reason, text }
}

fn zone_sentence(sets: &PoolSets, loss: ZoneLoss) -> String {
    let ZoneLoss { zones_from, zones_to, volumes, availability } = loss;
    let zones = match zones_to {
        None => format!("{zones_from} or more zones"),
        Some(to) if to == zones_from => format!("{zones_from} zones"),
        Some(to) => format!("{zones_from} to {to} zones"),
    };
    let all = sets.geometry().volumes();
    let (reads, writes) = (sets.needed_for_reads(), sets.needed());
    let outcome = match availability {
        Availability::AllWorks => "reads and writes survive".to_owned(),
        Availability::CommittedReads => {
            format!("reads survive and writes stop, which need {writes} volumes")
        }
        Availability::Outage => {
            format!("reads and writes stop, which need {reads} and {writes} volumes")
        }
    };
    format!("with {zones} the largest may hold {volumes} of the {all} volumes of a set, and {outcome}")
}

/// Compares the selector of a constraint with the labels of the pool's pods.
fn counted_pods(names: &Names, pool: &Pool, constraint: &TopologySpreadConstraint) -> CountedPods {
    let mut labels = pool.pod_labels.clone();
    labels.extend(names.labels());
    labels.insert(names::POOL_LABEL.to_owned(), pool.name.clone());
    // Kubernetes adds the pod's values of these: other values are not counted.
    let keys = constraint.match_label_keys.iter().flatten();
    let is_per_revision = keys.into_iter().any(|key| !labels.contains_key(key));
    let Some(LabelSelector { match_labels, match_expressions }) = &constraint.label_selector else {
        return if is_per_revision { CountedPods::Others } else { CountedPods::Pool };
    };
    let equal = |(key, value): (&String, &String)| labels.get(key) == Some(value);
    let holds = match_expressions.iter().flatten().all(|expression| {
        let value = labels.get(&expression.key);
        let is_listed = value.is_some_and(|value| expression.values.iter().flatten().any(|one| one == value));
        match expression.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    });
    if !holds || !match_labels.iter().flatten().all(equal) {
        return CountedPods::Foreign;
    }
    let mut expressions = match_expressions.iter().flatten();
    let is_clusters = match_labels.iter().flatten().any(|(key, _)| key == names::CLUSTER_LABEL)
        || expressions.any(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            expression.key == names::CLUSTER_LABEL && expression.operator == "In" && values.len() == 1
        });
    if is_clusters && !is_per_revision { CountedPods::Pool } else { CountedPods::Others }
}
