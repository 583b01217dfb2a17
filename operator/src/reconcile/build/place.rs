//! Hosts that the pods of a pool run on: those that the user names, of an architecture of the image, and
//! never two pods on one host, unless the user allows it.

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, TopologySpreadConstraint,
};
use serde_json::{Value, json};

use super::parts::ChildParts;
use crate::names::{ARCHITECTURE_LABEL, HOST_LABEL};

/// The architecture of the images that are built here.
const ARCHITECTURE: &str = "amd64";

/// Adds to a pod's specification what the scheduler must keep to. `selector` matches the pods of the pool.
pub(super) fn place(parts: &ChildParts<'_>, selector: &Value, spec: &mut Value) {
    let pool = parts.valid.pool();
    let given = pool.affinity.clone().unwrap_or_default();
    let mut affinity = json!(on_architectures(given, &architectures(parts)));
    let apart = json!({"labelSelector": {"matchLabels": selector}, "topologyKey": HOST_LABEL});
    let (rule, apart) = if pool.allow_shared_hosts {
        let apart = json!({"weight": 100, "podAffinityTerm": apart});
        ("preferredDuringSchedulingIgnoredDuringExecution", apart)
    } else {
        ("requiredDuringSchedulingIgnoredDuringExecution", apart)
    };
    let terms = &mut affinity["podAntiAffinity"][rule];
    match terms.as_array_mut() {
        Some(terms) => terms.push(apart),
        None => *terms = json!([apart]),
    }
    spec["affinity"] = affinity;
    if !pool.topology_spread_constraints.is_empty() {
        let spreads = pool.topology_spread_constraints.iter();
        spec["topologySpreadConstraints"] = spreads.map(|spread| counted(spread, selector)).collect();
    }
    if !pool.node_selector.is_empty() {
        spec["nodeSelector"] = json!(pool.node_selector);
    }
    if !pool.tolerations.is_empty() {
        spec["tolerations"] = json!(pool.tolerations);
    }
    if let Some(class) = &pool.priority_class_name {
        spec["priorityClassName"] = json!(class);
    }
}

fn architectures(parts: &ChildParts<'_>) -> Vec<String> {
    let image = parts.valid.cluster().spec.image.as_ref();
    let given = image.map(|image| image.architectures.clone()).unwrap_or_default();
    if given.is_empty() { vec![ARCHITECTURE.to_owned()] } else { given }
}

/// Requires a host of one of these architectures. A host must match one of the terms, so each of them gets
/// the requirement; an empty term matches no host, and stays empty.
fn on_architectures(mut affinity: Affinity, architectures: &[String]) -> Affinity {
    let required = NodeSelectorRequirement {
        key: ARCHITECTURE_LABEL.to_owned(),
        operator: "In".to_owned(),
        values: Some(architectures.to_vec()),
    };
    let hosts = affinity.node_affinity.get_or_insert_default();
    let selector = hosts.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    let NodeSelector { node_selector_terms: terms } = selector;
    if terms.is_empty() {
        terms.push(NodeSelectorTerm { match_expressions: Some(vec![required]), match_fields: None });
        return affinity;
    }
    let is_empty = |term: &NodeSelectorTerm| {
        let NodeSelectorTerm { match_expressions, match_fields } = term;
        match_expressions.as_ref().is_none_or(Vec::is_empty)
            && match_fields.as_ref().is_none_or(Vec::is_empty)
    };
    for term in terms.iter_mut().filter(|term| !is_empty(term)) {
        term.match_expressions.get_or_insert_default().push(required.clone());
    }
    affinity
}

/// A constraint without a selector would count no pod, and spread nothing.
fn counted(spread: &TopologySpreadConstraint, selector: &Value) -> Value {
    let mut counted = json!(spread);
    if spread.label_selector.is_none() {
        counted["labelSelector"] = json!({"matchLabels": selector});
    }
    counted
}
