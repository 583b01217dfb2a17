//! The `Bucket` resource: a bucket of a StorageCluster, and the configuration of it that a person names.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::access::{ClusterReference, Tags};
use super::message;

/// A bucket of a StorageCluster.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "sherd.dev",
    version = "v1alpha1",
    kind = "Bucket",
    plural = "buckets",
    shortname = "sherdbucket",
    namespaced,
    annotation("helm.sh/resource-policy", "keep"),
    status = "BucketStatus",
    derive = "PartialEq",
    doc = "A bucket of a StorageCluster. What is not named here is left as it is.",
    validation = Rule::new("self.metadata.name.size() <= 63 && (has(self.spec.name) || self.metadata.name.size() >= 3)").message(message::BUCKET_OBJECT_NAME),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "State", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Bucket", type_ = "string", json_path = ".status.bucket"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster.name"),
    printcolumn(name = "Reclaim", type_ = "string", json_path = ".spec.reclaimPolicy"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].message"#, priority = "1")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)").message(message::BUCKET_NAME_KEPT),
    validation = Rule::new("self.cluster == oldSelf.cluster").message(message::CLUSTER_KEPT),
    validation = Rule::new("!has(self.tags) || self.tags.all(key, !key.startsWith('sherd.dev/'))").message(message::RESERVED_TAG)
)]
pub struct BucketSpec {
    /// The StorageCluster that has the bucket.
    pub cluster: ClusterReference,
    /// The bucket's name. Absent: this object's name. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 63), regex(pattern = "^[a-z0-9][a-z0-9.-]*[a-z0-9]$"))]
    pub name: Option<String>,
    /// Fate of the bucket when this object is deleted. Objects in it are never deleted.
    #[serde(default)]
    pub reclaim_policy: ReclaimPolicy,
    /// Takes a bucket over that is there already and that no other Bucket has.
    #[serde(default)]
    pub adopt: bool,
    /// Namespaces beside this one whose BucketUsers may refer to this Bucket. `*` means all that may use the
    /// cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub allowed_namespaces: Vec<String>,
    /// The bucket's policy, as an object or as a text with JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::access::document_schema")]
    pub policy: Option<Value>,
    /// Limits of what a policy may open to the public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_access_block: Option<PublicAccessBlock>,
    /// Rules of cross-origin access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub cors: Option<Vec<CorsRule>>,
    /// Tags of the bucket; others that it has stay.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(extend("maxProperties" = 49))]
    pub tags: Tags,
}

impl Bucket {
    /// Returns the name of its bucket.
    pub fn bucket_name(&self) -> String {
        self.spec.name.clone().unwrap_or_else(|| self.name_any())
    }

    /// Returns the namespace of its cluster.
    pub fn cluster_namespace(&self) -> String {
        self.spec.cluster.namespace.clone().or_else(|| self.namespace()).unwrap_or_default()
    }
}

/// Fate of a bucket when its object is deleted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimPolicy {
    /// The bucket stays; a Bucket of the same name and namespace takes it up again.
    #[default]
    Retain,
    /// The bucket is deleted once it is empty; until then the object stays.
    Delete,
}

/// Limits of what a policy may open to the public. A setting that is absent is on.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "S3's document has these four")]
pub struct PublicAccessBlock {
    /// Access control lists that grant to the public are refused.
    #[serde(default = "on")]
    pub block_public_acls: bool,
    /// Grants of access control lists to the public have no effect.
    #[serde(default = "on")]
    pub ignore_public_acls: bool,
    /// A policy that grants to the public is refused.
    #[serde(default = "on")]
    pub block_public_policy: bool,
    /// A policy that grants to the public has no effect on the public.
    #[serde(default = "on")]
    pub restrict_public_buckets: bool,
}

impl Default for PublicAccessBlock {
    fn default() -> Self {
        Self {
            block_public_acls: true,
            ignore_public_acls: true,
            block_public_policy: true,
            restrict_public_buckets: true,
        }
    }
}

const fn on() -> bool {
    true
}

/// A rule of cross-origin access.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CorsRule {
    /// The rule's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub id: Option<String>,
    /// Origins that may ask, each with at most one `*`.
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 1024)))]
    pub allowed_origins: Vec<String>,
    /// Methods: GET, PUT, POST, DELETE, HEAD.
    #[schemars(length(min = 1, max = 5), inner(regex(pattern = "^(GET|PUT|POST|DELETE|HEAD)$")))]
    pub allowed_methods: Vec<String>,
    /// Headers that a request may have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 1024)))]
    pub allowed_headers: Vec<String>,
    /// Headers of an answer that a page may read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 1024)))]
    pub expose_headers: Vec<String>,
    /// How long a browser may remember the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub max_age_seconds: Option<i64>,
}

/// The operator's report on a bucket.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BucketStatus {
    /// The generation of the object that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One condition of each type.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The bucket, once it is this object's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// Where S3 is reached within the Kubernetes cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Parts of the configuration that the specification named, and that are undone when it no longer does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<BucketPart>,
    /// Keys of the tags that the specification named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tag_keys: Vec<String>,
}

/// A part of a bucket's configuration, beside its tags.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BucketPart {
    /// The limits of what a policy may open to the public.
    PublicAccessBlock,
    /// The policy.
    Policy,
    /// The rules of cross-origin access.
    Cors,
}
