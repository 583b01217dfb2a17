//! The `BucketUser` resource: a user of a StorageCluster with rights to buckets, whose key a Secret holds:
//! one that the operator writes, or one that is there, which it only reads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::access::ClusterReference;
use super::message;
use super::settings::SecretReference;

/// A user of a StorageCluster, whose key a Secret holds.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "sherd.dev",
    version = "v1alpha1",
    kind = "BucketUser",
    plural = "bucketusers",
    shortname = "sherduser",
    namespaced,
    annotation("helm.sh/resource-policy", "keep"),
    status = "BucketUserStatus",
    derive = "PartialEq",
    doc = "A user of a StorageCluster with rights to buckets. A Secret of this namespace holds its access key.",
    validation = Rule::new("self.metadata.name.size() <= 62").message(message::USER_NAME),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "State", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Secret", type_ = "string", json_path = ".status.secret"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "User", type_ = "string", json_path = ".status.user", priority = "1"),
    printcolumn(name = "Message", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].message"#, priority = "1")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.cluster == oldSelf.cluster").message(message::CLUSTER_KEPT),
    validation = Rule::new("has(self.secretName) == has(oldSelf.secretName) && (!has(self.secretName) || self.secretName == oldSelf.secretName)").message(message::SECRET_NAME_KEPT),
    validation = Rule::new("!has(self.secretName) || !has(self.secretRef)").message(message::ONE_SECRET),
    validation = Rule::new("has(self.secretRef) == has(oldSelf.secretRef)").message(message::SECRET_REF_KEPT)
)]
pub struct BucketUserSpec {
    /// The StorageCluster that has the user.
    pub cluster: ClusterReference,
    /// Buckets that the user may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub buckets: Vec<BucketGrant>,
    /// A policy beside these rights, as an object or as a text with JSON. It may name the buckets above only,
    /// unless the StorageCluster allows this namespace any bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::access::document_schema")]
    pub policy: Option<Value>,
    /// The Secret that the key is written to. Absent: this object's name. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub secret_name: Option<String>,
    /// A Secret of this namespace that is there, with the key that the user gets: under AWS_ACCESS_KEY_ID
    /// and AWS_SECRET_ACCESS_KEY, accesskey and secretkey, or CONSOLE_ACCESS_KEY and CONSOLE_SECRET_KEY.
    /// The operator reads it and never writes it. Another key in it, or the name of another Secret, is a
    /// rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// How keys are replaced when the annotation `sherd.dev/rotate` gets another text, or the Secret of
    /// secretRef another key.
    #[serde(default)]
    pub rotation: Rotation,
    /// Makes the user's keys inactive while it is true. The same keys work again afterwards.
    #[serde(default)]
    pub suspended: bool,
}

impl BucketUser {
    /// Returns the name of the Secret with its key.
    pub fn secret_name(&self) -> String {
        let given = self.spec.secret_ref.as_ref().map(|given| given.name.clone());
        given.or_else(|| self.spec.secret_name.clone()).unwrap_or_else(|| self.name_any())
    }

    /// Returns the namespace of its cluster.
    pub fn cluster_namespace(&self) -> String {
        self.spec.cluster.namespace.clone().or_else(|| self.namespace()).unwrap_or_default()
    }

    /// Returns the name of the user in the cluster. A namespace has no dot, so two of them share no name.
    pub fn user_name(&self) -> String {
        format!("{}.{}", self.namespace().unwrap_or_default(), self.name_any())
    }

    /// Returns the path of the user in the cluster.
    pub fn user_path(&self) -> String {
        format!("/kubernetes/{}/", self.namespace().unwrap_or_default())
    }
}

/// A right to a bucket.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.name) != has(self.bucketRef)").message(message::ONE_BUCKET))]
pub struct BucketGrant {
    /// A bucket by its name: of a Bucket of this namespace, or any where the StorageCluster allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 63), regex(pattern = "^[a-z0-9][a-z0-9.-]*[a-z0-9]$"))]
    pub name: Option<String>,
    /// A Bucket of this namespace, or of another one that allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket_ref: Option<BucketReference>,
    /// The right.
    pub access: Access,
}

/// A Bucket.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct BucketReference {
    /// Name of the Bucket.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Namespace of the Bucket. Absent: this object's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// A right to a bucket.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Lists and reads objects.
    Read,
    /// Lists, reads, writes and deletes objects.
    Write,
    /// Everything but to make, tag and delete the bucket: its configuration, too.
    Admin,
}

/// How keys are replaced.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// How long the former key works after the Secret has another one: 0s to 30days, 1h when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(s|m|h|days|day)$"))]
    pub overlap: Option<String>,
}

/// The operator's report on a user.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BucketUserStatus {
    /// The generation of the object that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One condition of each type.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The user's name in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The Secret with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Buckets that the user has rights to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<String>,
    /// The id of the key in the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    /// The former key, while it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_key: Option<FormerKey>,
    /// Whether the keys were made inactive, by `spec.suspended` or because the namespace may not use the
    /// cluster.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspended: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A key that was replaced and still works.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FormerKey {
    /// The key's id.
    pub access_key_id: String,
    /// When it is disabled and removed, in seconds since the Unix epoch.
    pub ends_at: i64,
}
