//! A pool: nodes of one shape, made by one StatefulSet. Its geometry is chosen once, because the
//! topology on the volumes is; claims grow and do not shrink; the rest is passed through to the pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message;
use super::settings::EnvironmentVariable;

/// Nodes of one shape.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.erasure) || (self.nodes * self.volumesPerNode) % self.erasure.setSize == 0").message(message::SET_SIZE),
    validation = Rule::new("has(self.erasure) || self.nodes * self.volumesPerNode <= 7 || [8, 9, 10, 11, 12, 13, 14, 15, 16].exists(size, (self.nodes * self.volumesPerNode) % size == 0 && (size <= self.nodes || size % self.nodes == 0))").message(message::NO_DEFAULT),
    validation = Rule::new("self.nodes == oldSelf.nodes").message(message::NODES_KEPT),
    validation = Rule::new("self.volumesPerNode == oldSelf.volumesPerNode").message(message::VOLUMES_KEPT),
    validation = Rule::new("has(self.erasure) == has(oldSelf.erasure) && (!has(self.erasure) || self.erasure == oldSelf.erasure)").message(message::ERASURE_KEPT),
    validation = Rule::new("has(self.volumeClaimTemplate.storageClassName) == has(oldSelf.volumeClaimTemplate.storageClassName) && (!has(self.volumeClaimTemplate.storageClassName) || self.volumeClaimTemplate.storageClassName == oldSelf.volumeClaimTemplate.storageClassName)").message(message::CLASS_KEPT)
)]
pub struct Pool {
    /// The pool's name, part of its pods' names.
    #[schemars(length(min = 1, max = 16), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Nodes, each a pod on a host of its own, unless allowSharedHosts is set.
    #[schemars(range(min = 1, max = 64))]
    pub nodes: i32,
    /// Volumes of each node, each a claim of its own.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 32))]
    pub volumes_per_node: i32,
    /// The claim of each volume. Its storage can be raised; its class cannot change.
    pub volume_claim_template: ClaimTemplate,
    /// Size and parity of the erasure sets. Absent: the default of nodes x volumesPerNode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasure: Option<Erasure>,
    /// Processor and memory of each pod. Absent or empty: requests of 100m and of the memory that the node
    /// may take (bufferCap, indexCache, 32MiB, and 8MiB for each volume), and no limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// User and groups of the pods. Absent: 65532, and none where the namespace gives pods theirs, as on
    /// OpenShift. Where it is there it takes the place of both: {} names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<PodSecurityContext>,
    /// Labels of the hosts that pods may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<Toleration>,
    /// Affinity of the pods, beside what the operator requires: a host of its own for each pod, of an
    /// architecture of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Spread of the pods over zones, beside a host of its own for each. Where labelSelector is absent, the
    /// pool's pods are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Whether a host may run several pods of the pool. Its loss then takes all of them, which may be more
    /// than a set can lose.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_shared_hosts: bool,
    /// Priority class of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Annotations of the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_annotations: BTreeMap<String, String>,
    /// Labels of the pods; those that the operator sets win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_labels: BTreeMap<String, String>,
    /// Environment of the node's container, beside the variables that the operator sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub extra_env: Vec<EnvironmentVariable>,
}

/// User and groups of a pool's pods. The rest of their security context is the operator's.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodSecurityContext {
    /// User of the node's process; not root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub run_as_user: Option<i64>,
    /// Group of the node's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub run_as_group: Option<i64>,
    /// Group that volumes and Secrets are readable for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub fs_group: Option<i64>,
}

const fn one() -> i32 {
    1
}

/// The claim of a volume.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClaimTemplate {
    /// Storage class; absent: the cluster's default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// Size of the claim.
    pub resources: ClaimResources,
}

/// The resources of a claim.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct ClaimResources {
    /// Requests of a claim.
    pub requests: ClaimRequests,
}

/// The requests of a claim.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct ClaimRequests {
    /// Bytes of the volume. A larger value grows the claims, where their storage class has
    /// allowVolumeExpansion; the condition StorageResizing says how far. One that is smaller than claims have
    /// is refused.
    pub storage: Quantity,
}

/// Size and parity of the erasure sets.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.parity < self.setSize").message(message::PARITY))]
pub struct Erasure {
    /// Volumes of a set.
    #[schemars(range(min = 2, max = 32))]
    pub set_size: i32,
    /// Volumes of a set that may be lost without losing data.
    #[schemars(range(min = 1, max = 31))]
    pub parity: i32,
}
