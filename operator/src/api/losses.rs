//! The report on volumes that lost their state or wait for a person's word, and the orders about them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A volume that lost its state, or that waits until a person says that it did not.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeLoss {
    /// The PersistentVolumeClaim.
    pub claim: String,
    /// The pod of its node.
    pub pod: String,
    /// The erasure set that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<i32>,
    /// State of the volume.
    pub state: LossState,
    /// Why, in the words of its node, or of the claim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The text of an order about it, for the annotations `sherd.dev/vouch` and `sherd.dev/replace-volume`.
    /// It ends with the claim, the pod and the process that this was seen of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// State of a volume that is reported as a loss.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossState {
    /// The volume has no state, or an older one than its peers remember: it is rebuilt from the others.
    Lost,
    /// The volume was opened, and too few of its peers can confirm that it has everything it had.
    Unconfirmed,
    /// The claim's PersistentVolume is gone, so that its pod cannot start.
    ClaimLost,
}

/// An order about a volume that was given, or refused. None is given twice.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeOrderRecord {
    /// Kind of the order.
    pub kind: VolumeOrderKind,
    /// Text of the order, as the annotation has it.
    pub order: String,
    /// When it was given or refused.
    pub time: Time,
    /// Whether the node took it.
    pub accepted: bool,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Kinds of orders about a volume.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VolumeOrderKind {
    /// The volume lost nothing, and votes.
    Vouch,
    /// The old disk of the volume does not come back: the volume is rebuilt in its empty directory at once.
    Replace,
}
