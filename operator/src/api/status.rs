//! The operator's report on a cluster: conditions with fixed reasons, and counts that the nodes report.
//! Usage numbers are metrics; the conditions are the only phase.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::losses::{VolumeLoss, VolumeOrderRecord};
use super::rollout::RolloutStatus;

/// The operator's report on a cluster.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The generation of the object that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One condition of each type.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The cluster's id, which its volumes and certificates carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// SHA-256 of the public key of the CA that the nodes' certificates are issued under, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority_key: Option<String>,
    /// The image that a pod last served with; what the specification leaves out of its image is as here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The parts of that image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_image: Option<RecordedImage>,
    /// The replacement of pods by pods of another template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// Volumes that lost their state or wait for a person's word, the first 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_losses: Vec<VolumeLoss>,
    /// Orders about volumes that were given or refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_orders: Vec<VolumeOrderRecord>,
    /// While no volume of a cluster that was formed is left: the text for the annotation
    /// `sherd.dev/form-empty`, by which it forms again, empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form_empty_order: Option<String>,
    /// Each pool.
    #[serde(default)]
    pub pools: Vec<PoolStatus>,
    /// Pools with all nodes ready, of all pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools_ready: Option<String>,
    /// Ready nodes, of all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_ready: Option<String>,
    /// Volumes online, of all volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes_online: Option<String>,
    /// Volumes that are online and not healed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes_healing: Option<i32>,
    /// Where S3 is reached within the Kubernetes cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The version that the nodes run; several while they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version of the wire protocol of the oldest node. A node that does not answer counts as it did
    /// last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_version: Option<i32>,
}

/// An image in parts.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RecordedImage {
    /// The repository.
    pub repository: String,
    /// The tag, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The digest, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A pool as it is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// The pool's name.
    pub name: String,
    /// Nodes that are asked for.
    pub nodes: i32,
    /// Nodes that serve.
    pub ready: i32,
    /// Volumes that are asked for.
    pub volumes: i32,
    /// Volumes online.
    pub online: i32,
    /// Volumes that are online and not healed.
    pub healing: i32,
    /// The most that a claim of the pool both asks for and has: less storage than this cannot be asked for. 0
    /// while no claim is bound; absent while no claim is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub claim_capacity: Option<String>,
}

/// Types of conditions, in the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionType {
    /// S3 takes reads and writes.
    Ready,
    /// Something is on its way.
    Progressing,
    /// Some node or volume is missing or not healed.
    Degraded,
    /// The specification is free of contradictions.
    SpecValid,
    /// The root credentials are there.
    CredentialsReady,
    /// The CA and the nodes' certificates are there.
    CertificatesReady,
    /// Every pod of every pool serves.
    PoolsReady,
    /// Every node runs with the settings of the specification.
    SettingsLoaded,
    /// A change of the pods waits.
    UpgradeBlocked,
    /// Claims are growing.
    StorageResizing,
    /// The object is deleted and something keeps it.
    DeletionBlocked,
    /// The operator changes nothing.
    Paused,
}

impl ConditionType {
    /// All types.
    pub const ALL: [Self; 12] = [
        Self::Ready,
        Self::Progressing,
        Self::Degraded,
        Self::SpecValid,
        Self::CredentialsReady,
        Self::CertificatesReady,
        Self::PoolsReady,
        Self::SettingsLoaded,
        Self::UpgradeBlocked,
        Self::StorageResizing,
        Self::DeletionBlocked,
        Self::Paused,
    ];

    /// Returns the name in the object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::SpecValid => "SpecValid",
            Self::CredentialsReady => "CredentialsReady",
            Self::CertificatesReady => "CertificatesReady",
            Self::PoolsReady => "PoolsReady",
            Self::SettingsLoaded => "SettingsLoaded",
            Self::UpgradeBlocked => "UpgradeBlocked",
            Self::StorageResizing => "StorageResizing",
            Self::DeletionBlocked => "DeletionBlocked",
            Self::Paused => "Paused",
        }
    }
}

/// Reasons of conditions. Monitoring matches them, so that a name is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// S3 takes reads and writes.
    Serving,
    /// Nodes come up and agree on a topology.
    Forming,
    /// The cluster was formed, and no node answers.
    NodesSilent,
    /// Some set lacks its write quorum.
    QuorumLost,
    /// Some set lacks volumes with room: it takes no writes.
    Full,
    /// S3 takes reads and writes, and a volume has little room left.
    NearlyFull,
    /// The specification contradicts itself.
    SpecInvalid,
    /// Not judged before something else holds.
    Waiting,
    /// All is as asked.
    AsAsked,
    /// All nodes and volumes are healed.
    Healed,
    /// Some node does not answer.
    NodeDown,
    /// Some volume is not online.
    VolumeDown,
    /// Some volume misses data that is rebuilt.
    Healing,
    /// Nodes report a problem.
    NodeProblem,
    /// Volumes lost their state, and the others wait for a person, or none of them can be missed.
    DataAtRisk,
    /// More volumes of a set lost their state than its data can be read without.
    DataLost,
    /// The specification holds.
    Valid,
    /// The specification leaves parts of the image out, which are as a pod served with last.
    ImageFromStatus,
    /// The specification holds but for a setting, in whose place a default stands.
    SettingIgnored,
    /// The specification holds, and an outage of one node stops something.
    NotRedundant,
    /// The specification holds, and a limit is smaller than what nodes may take.
    LimitTooSmall,
    /// The specification holds, and claims with the cluster's label are used by no pod.
    StrayClaims,
    /// The claims that are there are of a cluster of another geometry.
    GeometryDiffers,
    /// The operator made it.
    Generated,
    /// A Secret of the user is used.
    Provided,
    /// Nodes do not accept the root credentials as they are yet, or accept former ones.
    LoadingCredentials,
    /// A Secret that is named is not there.
    SecretMissing,
    /// A Secret lacks what it must hold.
    SecretMalformed,
    /// A Secret and the copy of it hold different values.
    SecretsDiffer,
    /// The CA that existing volumes were formed with is not there.
    AuthorityMissing,
    /// The CA is another one of the same cluster.
    AuthorityChanged,
    /// The certificate for clients is not valid for a name that they use.
    NameMismatch,
    /// Nodes wait for changed settings.
    LoadingSettings,
    /// Nodes refuse the settings, and keep the last ones.
    SettingsRefused,
    /// Certificates are issued.
    Issued,
    /// The CA is replaced: every node is given the next one.
    IntroducingAuthority,
    /// The CA is replaced: every node is given a certificate of the new one.
    SwitchingAuthority,
    /// Certificates, or the CA, end soon and are not renewed.
    CertificatesExpiring,
    /// The storage class of a claim is not there.
    StorageClassMissing,
    /// The API server refuses a pod or a claim of the StatefulSet.
    FailedCreate,
    /// No host takes a pod.
    Unschedulable,
    /// An image cannot be pulled.
    ImagePullFailed,
    /// A container ends again and again.
    ContainerFailing,
    /// A pod is not ready yet.
    PodsNotReady,
    /// The pods' template changed, pods run an older one, and the operator changes nothing.
    UpdatePending,
    /// Every pod runs the recorded template, and the operator would build another one.
    TemplateKept,
    /// Another client of the API server changed the template of the pods: the operator puts it back, and
    /// replaces no ready pod for it.
    ForeignTemplate,
    /// Pods are replaced by pods of another template, one after the other.
    RollingOut,
    /// `spec.upgrade.paused` is set.
    UpgradePaused,
    /// The API server refuses the eviction of a pod that is to be replaced.
    EvictionRefused,
    /// A replaced pod is not back, or the cluster not healed, in time; or a template failed.
    HealthTimeout,
    /// The API server refused a change.
    ApplyRejected,
    /// A change failed on its way.
    ApplyFailed,
    /// The objects of the cluster could not be read.
    NotObserved,
    /// Another object has a name that the operator needs.
    NameTaken,
    /// No work of the kind is under way.
    NotNeeded,
    /// Claims were asked for more, and do not have it yet.
    Resizing,
    /// Claims cannot be asked for more.
    ResizeRefused,
    /// A claim was asked for more, and its disk or filesystem does not grow.
    ResizeFailed,
    /// Claims ask for more than the specification.
    ClaimsLarger,
    /// `spec.paused` is set.
    PausedBySpec,
    /// `spec.paused` is not set.
    NotPaused,
}

impl Reason {
    /// Returns the name in the object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "Serving",
            Self::Forming => "Forming",
            Self::NodesSilent => "NodesSilent",
            Self::QuorumLost => "QuorumLost",
            Self::Full => "Full",
            Self::NearlyFull => "NearlyFull",
            Self::SpecInvalid => "SpecInvalid",
            Self::Waiting => "Waiting",
            Self::AsAsked => "AsAsked",
            Self::Healed => "Healed",
            Self::NodeDown => "NodeDown",
            Self::VolumeDown => "VolumeDown",
            Self::Healing => "Healing",
            Self::NodeProblem => "NodeProblem",
            Self::DataAtRisk => "DataAtRisk",
            Self::DataLost => "DataLost",
            Self::Valid => "Valid",
            Self::ImageFromStatus => "ImageFromStatus",
            Self::SettingIgnored => "SettingIgnored",
            Self::NotRedundant => "NotRedundant",
            Self::LimitTooSmall => "LimitTooSmall",
            Self::StrayClaims => "StrayClaims",
            Self::GeometryDiffers => "GeometryDiffers",
            Self::Generated => "Generated",
            Self::Provided => "Provided",
            Self::LoadingCredentials => "LoadingCredentials",
            Self::SecretMissing => "SecretMissing",
            Self::SecretMalformed => "SecretMalformed",
            Self::SecretsDiffer => "SecretsDiffer",
            Self::AuthorityMissing => "AuthorityMissing",
            Self::AuthorityChanged => "AuthorityChanged",
            Self::NameMismatch => "NameMismatch",
            Self::LoadingSettings => "LoadingSettings",
            Self::SettingsRefused => "SettingsRefused",
            Self::Issued => "Issued",
            Self::IntroducingAuthority => "IntroducingAuthority",
            Self::SwitchingAuthority => "SwitchingAuthority",
            Self::CertificatesExpiring => "CertificatesExpiring",
            Self::StorageClassMissing => "StorageClassMissing",
            Self::FailedCreate => "FailedCreate",
            Self::Unschedulable => "Unschedulable",
            Self::ImagePullFailed => "ImagePullFailed",
            Self::ContainerFailing => "ContainerFailing",
            Self::PodsNotReady => "PodsNotReady",
            Self::UpdatePending => "UpdatePending",
            Self::TemplateKept => "TemplateKept",
            Self::ForeignTemplate => "ForeignTemplate",
            Self::RollingOut => "RollingOut",
            Self::UpgradePaused => "UpgradePaused",
            Self::EvictionRefused => "EvictionRefused",
            Self::HealthTimeout => "HealthTimeout",
            Self::ApplyRejected => "ApplyRejected",
            Self::ApplyFailed => "ApplyFailed",
            Self::NotObserved => "NotObserved",
            Self::NameTaken => "NameTaken",
            Self::NotNeeded => "NotNeeded",
            Self::Resizing => "Resizing",
            Self::ResizeRefused => "ResizeRefused",
            Self::ResizeFailed => "ResizeFailed",
            Self::ClaimsLarger => "ClaimsLarger",
            Self::PausedBySpec => "PausedBySpec",
            Self::NotPaused => "NotPaused",
        }
    }
}
