//! Why nothing of a cluster is changed, for a person to mend.

use super::observe::ForeignObject;
use crate::api::Reason;

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

/// Names each object and its owner. An object of another cluster holds that cluster's data, so the advice to
/// delete or relabel is given only for objects without one.
pub(super) fn causes(foreign: &[ForeignObject], advice: &str) -> String {
    let cause = |foreign: &ForeignObject| match &foreign.cluster {
        Some(other) => format!(
            "{} is StorageCluster {other}'s: give this cluster or its pool another name",
            foreign.object
        ),
        None => format!("{}: {advice}", foreign.object),
    };
    foreign.iter().map(cause).collect::<Vec<_>>().join("; ")
}
