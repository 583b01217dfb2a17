//! Types that `Bucket` and `BucketUser` share: the cluster that they name, and conditions with fixed reasons.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Serialize};

/// A StorageCluster.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReference {
    /// Name of the StorageCluster.
    #[schemars(length(min = 1, max = 30))]
    pub name: String,
    /// Namespace of the StorageCluster. The operator must watch it, and `spec.bucketNamespaces` of the
    /// StorageCluster must name the namespace of this object. Absent: this object's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Namespaces beside the cluster's own that may do what only those of the cluster's own namespace may.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BucketUserSettings {
    /// Namespaces whose BucketUsers may name any bucket and have any policy, and whose Buckets may adopt any
    /// bucket that no other Bucket has. `*` means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub any_bucket: Vec<String>,
}

/// Whether a list of namespaces has one of them, or `*`.
pub fn lists(namespaces: &[String], namespace: &str) -> bool {
    namespaces.iter().any(|listed| listed == "*" || listed == namespace)
}

/// A policy document: an object, or a text with JSON. It has no type in the schema, so that it takes both.
pub(super) fn document_schema(_: &mut schemars::SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Texts by key, in order.
pub type Tags = BTreeMap<String, String>;

/// Types of the conditions of Buckets and BucketUsers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessCondition {
    /// All that the object asks for is in force.
    Ready,
    /// The policies are in force.
    PolicyApplied,
    /// The Secret holds a key that works; of a BucketUser.
    KeyReady,
    /// The object is deleted and something keeps it.
    DeletionBlocked,
}

impl AccessCondition {
    /// The conditions of a Bucket, in the order in which they are reported.
    pub const OF_BUCKET: [Self; 3] = [Self::Ready, Self::PolicyApplied, Self::DeletionBlocked];
    /// The conditions of a BucketUser, in the order in which they are reported.
    pub const OF_USER: [Self; 4] = [Self::Ready, Self::PolicyApplied, Self::KeyReady, Self::DeletionBlocked];

    /// Returns the name in the object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::PolicyApplied => "PolicyApplied",
            Self::KeyReady => "KeyReady",
            Self::DeletionBlocked => "DeletionBlocked",
        }
    }
}

/// Reasons of these conditions. Monitoring matches them, so that a name is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessReason {
    /// All is in force.
    AsAsked,
    /// The condition is not judged before another one holds.
    Waiting,
    /// The specification asks for nothing of the kind.
    NotNeeded,
    /// The specification contradicts itself.
    SpecInvalid,
    /// The StorageCluster is not there, or the operator does not watch its namespace.
    ClusterMissing,
    /// The StorageCluster does not list this namespace.
    NamespaceNotAllowed,
    /// The StorageCluster has no CA or no node yet.
    ClusterNotReady,
    /// No node of the cluster answers.
    NodesSilent,
    /// The bucket is there, and `adopt` is not set.
    BucketExists,
    /// Another Bucket has it.
    BucketTaken,
    /// A Bucket of this namespace may not adopt it.
    AdoptionNotAllowed,
    /// A policy document is malformed; the message has the store's words.
    MalformedPolicy,
    /// The store refuses a policy for another cause.
    PolicyRefused,
    /// The store refuses a configuration, a user or a key; the message has its words.
    Refused,
    /// A Bucket that is named is not there, or has no bucket yet.
    BucketMissing,
    /// This namespace may not use a bucket that is named.
    BucketNotAllowed,
    /// A policy document goes beyond the buckets that the user may use.
    PolicyOutOfBounds,
    /// A Secret or a user of that name belongs to another.
    NameTaken,
    /// The Secret that `secretRef` names is not there.
    SecretMissing,
    /// The Secret holds no key that the store takes; the message names what is wrong.
    SecretMalformed,
    /// The id of the key in it is one of another user.
    KeyTaken,
    /// A former key works until its overlap ends.
    Rotating,
    /// The keys were made inactive.
    Suspended,
    /// The bucket is not empty.
    BucketNotEmpty,
    /// The object is being deleted.
    Deleting,
}

impl AccessReason {
    /// Returns the name in the object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AsAsked => "AsAsked",
            Self::Waiting => "Waiting",
            Self::NotNeeded => "NotNeeded",
            Self::SpecInvalid => "SpecInvalid",
            Self::ClusterMissing => "ClusterMissing",
            Self::NamespaceNotAllowed => "NamespaceNotAllowed",
            Self::ClusterNotReady => "ClusterNotReady",
            Self::NodesSilent => "NodesSilent",
            Self::BucketExists => "BucketExists",
            Self::BucketTaken => "BucketTaken",
            Self::AdoptionNotAllowed => "AdoptionNotAllowed",
            Self::MalformedPolicy => "MalformedPolicy",
            Self::PolicyRefused => "PolicyRefused",
            Self::Refused => "Refused",
            Self::BucketMissing => "BucketMissing",
            Self::BucketNotAllowed => "BucketNotAllowed",
            Self::PolicyOutOfBounds => "PolicyOutOfBounds",
            Self::NameTaken => "NameTaken",
            Self::SecretMissing => "SecretMissing",
            Self::SecretMalformed => "SecretMalformed",
            Self::KeyTaken => "KeyTaken",
            Self::Rotating => "Rotating",
            Self::Suspended => "Suspended",
            Self::BucketNotEmpty => "BucketNotEmpty",
            Self::Deleting => "Deleting",
        }
    }
}
