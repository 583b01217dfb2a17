//! Edits every child of a cluster as a person would by `kubectl patch`, one edit after the other: each field
//! is changed, then taken away, each entry of a list is taken away, and entries are added. The operator puts
//! back all that it owns within the time that docs/operations/kubernetes.md promises, or the API server
//! refuses the edit. The rest is named: fields that Kubernetes gives a value or that are the key of a list's
//! entry, and the entries of others where the operator owns no more than its own.
//!
//! ```text
//!   fields   the fields of an object, other values for them, and which are not the operator's
//!   added    the entries that are added to each kind, and whether they stay
//!   child    one child under a watch: an edit, and how long it took to be put back
//! ```

mod added;
mod child;
mod fields;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use sherd_e2e::kubernetes::Namespace;

use self::child::Child;

/// Within this time a child is as it was, as the documentation promises.
const PROMISED: Duration = Duration::from_secs(5);

/// Kinds whose objects belong to a cluster by its label.
const KINDS: [&str; 7] = [
    "secret",
    "serviceaccount",
    "configmap",
    "service",
    "networkpolicy",
    "poddisruptionbudget",
    "statefulset",
];

/// The ends of the edits of one child, or of all.
#[derive(Debug, Default)]
struct DriftReport {
    /// Edits that were undone.
    back: usize,
    /// Edits that the API server takes back itself, or does not take.
    refused: usize,
    /// Fields and entries that are not the operator's.
    foreign: BTreeSet<String>,
    /// Edits for which the child was deleted and made again.
    made_again: BTreeSet<String>,
    slowest: Duration,
    slowest_edit: String,
    /// Edits that were undone too late, or not at all, and entries of others that were taken away.
    faults: Vec<String>,
}

impl DriftReport {
    fn add(&mut self, other: Self) {
        let Self { back, refused, foreign, made_again, slowest, slowest_edit, faults } = other;
        self.back += back;
        self.refused += refused;
        self.foreign.extend(foreign);
        self.made_again.extend(made_again);
        self.faults.extend(faults);
        if slowest > self.slowest {
            (self.slowest, self.slowest_edit) = (slowest, slowest_edit);
        }
    }
}

/// Edits every child of a cluster.
pub(crate) async fn fuzz(namespace: &Namespace, cluster: &str) -> Result<String, Box<dyn std::error::Error>> {
    let pods = uids(namespace, cluster)?;
    let mut children = Vec::new();
    for kind in KINDS {
        let names = namespace.names(kind, &format!("sherd.dev/cluster={cluster},!sherd.dev/bucket-user"))?;
        children.extend(names.into_iter().map(|name| (kind, name)));
    }
    // Side by side: a reconcile puts all of them back.
    let tasks: Vec<_> = children
        .into_iter()
        .map(|(kind, name)| {
            let namespace = namespace.clone();
            tokio::task::spawn_blocking(move || Child::watch(&namespace, kind, &name)?.fuzz())
        })
        .collect();
    let (mut total, count) = (DriftReport::default(), tasks.len());
    for task in tasks {
        total.add(task.await??);
    }
    let DriftReport { back, refused, foreign, made_again, slowest, slowest_edit, faults } = total;
    for entry in &foreign {
        eprintln!("e2e drift: not the operator's: {entry}");
    }
    for edit in &made_again {
        eprintln!("e2e drift: the child was made again for it: {edit}");
    }
    if !faults.is_empty() {
        return Err(format!("edits that were not put back within {PROMISED:?}: {faults:#?}").into());
    }
    let now = uids(namespace, cluster)?;
    let replaced: Vec<_> = pods.iter().filter(|(pod, uid)| now.get(*pod) != Some(*uid)).collect();
    if !replaced.is_empty() {
        return Err(format!("pods that an edit replaced: {replaced:?}").into());
    }
    Ok(format!(
        "({count} children: {back} edits put back, the slowest after {:.1} s: {slowest_edit}; {refused} refused, \
         {} fields and entries of others)",
        slowest.as_secs_f64(),
        foreign.len()
    ))
}

/// The uids of a cluster's pods, by name. A pod that an edit of the number of pods adds is not among them.
fn uids(namespace: &Namespace, cluster: &str) -> Result<BTreeMap<String, Value>, Box<dyn std::error::Error>> {
    let pods = namespace.names("pod", &format!("sherd.dev/cluster={cluster}"))?;
    let uid = |pod: &String| Some(namespace.get("pod", pod)?["metadata"]["uid"].clone());
    Ok(pods.into_iter().filter_map(|pod| uid(&pod).map(|uid| (pod, uid))).collect())
}
