//! Replacing the pods of a cluster: what a user may ask for, and the operator's record of it. The record is
//! all that the operator remembers of a rollout, so that one that was killed goes on where it was.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message;

/// How pods are replaced by pods of another template.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.healthTimeout) || self.healthTimeout.matches('^0*((([6-9][0-9]|[1-9][0-9]{2,4}|[1-5][0-9]{5}|60[0-3][0-9]{3}|604[0-7][0-9]{2}|604800)s)|(([1-9][0-9]{0,3}|100[0-7][0-9]|10080)m)|(([1-9][0-9]?|1[0-5][0-9]|16[0-8])h)|([1-7]days?))$')").message(message::HEALTH_TIMEOUT)
)]
pub struct Upgrade {
    /// How long the cluster may be without a node, or not healed, before the rollout is reported as blocked:
    /// 1m to 7days. Absent: 15m. A replaced pod that is not ready and healed by then gets the last template
    /// that worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(s|m|h|days|day)$"))]
    pub health_timeout: Option<String>,
    /// Stops the replacement of pods; the template is applied.
    #[serde(default)]
    pub paused: bool,
    /// Whether pods are replaced that the cluster cannot do without: each time is an outage.
    #[serde(default)]
    pub allow_downtime: bool,
    /// Whether pods are replaced when an operator of another version would make them otherwise, and whether
    /// an image that is not given is this operator's default.
    #[serde(default)]
    pub follow_operator: bool,
}

/// The operator's record of a rollout.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The revision that pods are to run: a ControllerRevision of the StatefulSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Pods that run it.
    #[serde(default)]
    pub updated: i32,
    /// All pods.
    #[serde(default)]
    pub pods: i32,
    /// Pods that are still to be replaced, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// The step that is taken, or why none is taken now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The pod that is evicted, or was evicted last and is not healed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacing: Option<ReplacedPod>,
    /// Since when the rollout waits for nodes to come back or to be healed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Time>,
    /// The last revision that all pods ran while every volume was healed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good: Option<String>,
    /// The template that failed, in whose place `lastGood` is put back. It is tried again when the
    /// specification asks for another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedTemplate>,
    /// The template that the pods are made of, which an operator of another version keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedTemplate>,
}

/// A template that the StatefulSet had, and what it was built of. While that stays as it is, so does the
/// template, also where the operator would build another one.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RecordedTemplate {
    /// Digest of the parts of the cluster that reach its pods, also of those that running nodes take.
    pub inputs: String,
    /// Digest of the parts without those that running nodes take.
    pub fixed_inputs: String,
    /// Digest of the template as the operator that recorded it built it.
    pub template: String,
    /// Revision of the template: the name of a ControllerRevision of the StatefulSet.
    pub revision: String,
}

/// A pod that is being replaced.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedPod {
    /// Name of the pod.
    pub name: String,
    /// The uid of the pod that is evicted.
    pub uid: String,
    /// When the operator chose it.
    pub since: Time,
    /// The words in which the API server refused its eviction last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// A template that did not come up in time.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FailedTemplate {
    /// Digest of the template as the operator builds it from the specification.
    pub template: String,
    /// The revision that it was.
    pub revision: String,
    /// The pod that failed, and what to do.
    pub message: String,
}
