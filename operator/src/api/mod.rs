//! The resources `StorageCluster`, `Bucket` and `BucketUser`: what a user asks for and what the operator
//! reports.
//!
//! Field rules live here as CEL, so that the API server refuses a contradiction before it is stored;
//! `validate` repeats them with the same messages for objects that were stored under an older schema.
//! `sherd-operator crd` prints the resource definitions, and a test compares them with the chart's copies.

mod storage_rules;
mod pool;
mod settings;
mod tls;
mod status;
mod rollout;
mod losses;
mod access;
mod bucket;
mod bucket_user;

pub use access::{AccessCondition, AccessReason, BucketUserSettings, ClusterReference, Tags, lists};
pub use bucket::{Bucket, BucketPart, BucketSpec, BucketStatus, CorsRule, PublicAccessBlock, ReclaimPolicy};
pub use bucket_user::{
    Access, BucketGrant, BucketReference, BucketUser, BucketUserSpec, BucketUserStatus, FormerKey, Rotation,
};
pub use losses::{LossState, VolumeLoss, VolumeOrderKind, VolumeOrderRecord};
pub use pool::{ClaimRequests, ClaimResources, ClaimTemplate, Erasure, PodSecurityContext, Pool};
pub use rollout::{FailedTemplate, RecordedTemplate, ReplacedPod, RolloutStatus, Upgrade};
pub use settings::{
    AdminCertificateSettings, AuditLog, Credentials, EnvironmentVariable, Gateway, GatewayService,
    IamSettings, Image, NetworkPolicySettings, NodeSettings, PullPolicy, PullSecret, SecretReference,
    ServiceType, TrafficPolicy,
};
pub use status::{ClusterStatus, ConditionType, PoolStatus, Reason, RecordedImage};
pub use tls::{IssuerReference, S3Tls, TlsMode};

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The messages of the rules, equal in the resource definition and in `validate`.
pub mod message {
    /// The name of a cluster begins the names of pods, services and certificates.
    pub const NAME: &str = "metadata.name must be 1 to 30 lower-case letters, digits and '-', begin with a letter and not end with '-'";
    /// One pool is built.
    pub const ONE_POOL: &str = "spec.pools must hold exactly one pool: growing by pools comes later";
    /// Pools hold data.
    pub const POOL_KEPT: &str = "a pool of spec.pools cannot be removed or renamed: its claims hold data";
    /// A set keeps at least one data shard.
    pub const PARITY: &str = "erasure.parity must be less than erasure.setSize";
    /// Sets are equally large.
    pub const SET_SIZE: &str = "erasure.setSize must divide nodes x volumesPerNode";
    /// Without a default, the user chooses.
    pub const NO_DEFAULT: &str = "no set size from 8 to 16 spreads nodes x volumesPerNode evenly over the nodes: give erasure.setSize and erasure.parity";
    /// Kubernetes makes no claim of another size.
    pub const STORAGE: &str = "volumeClaimTemplate.resources.requests.storage must be more than 0";
    /// Geometry is chosen once.
    pub const NODES_KEPT: &str = "nodes is immutable: the number of nodes of a pool cannot grow or shrink";
    /// Geometry is chosen once.
    pub const VOLUMES_KEPT: &str = "volumesPerNode is immutable";
    /// Geometry is chosen once.
    pub const ERASURE_KEPT: &str = "erasure is immutable";
    /// Claims keep their class.
    pub const CLASS_KEPT: &str =
        "volumeClaimTemplate.storageClassName is immutable: a claim keeps the class that it was made with";
    /// Volumes do not shrink.
    pub const STORAGE_KEPT: &str = "volumeClaimTemplate.resources.requests.storage can be raised, and not be less than claims have: volumes do not shrink";
    /// A repository has neither tag nor digest.
    pub const IMAGE_REPOSITORY: &str =
        "image.repository must be the name of a repository, without tag and digest";
    /// A digest has a field of its own.
    pub const IMAGE_TAG: &str =
        "image.tag must be letters, digits, '_', '.' and '-': a digest belongs in image.digest";
    /// A digest is a SHA-256.
    pub const IMAGE_DIGEST: &str = "image.digest must be sha256: and 64 hexadecimal digits";
    /// A load balancer's fields mean nothing elsewhere.
    pub const LOAD_BALANCER: &str =
        "gateway.service: loadBalancerClass and loadBalancerSourceRanges need the type LoadBalancer";
    /// Fields of what is reached from outside mean nothing within.
    pub const NODE_PORT: &str =
        "gateway.service: nodePort and externalTrafficPolicy need the type NodePort or LoadBalancer";
    /// A restart is seconds, and a rollout is not waited for longer than a week.
    pub const HEALTH_TIMEOUT: &str = "upgrade.healthTimeout must be a time from 1m to 7days";
    /// The operator sets some variables.
    pub const ENVIRONMENT: &str = "extraEnv must not set a variable that the operator sets itself";
    /// A mode has what it names.
    pub const TLS_SECRET: &str = "tls.secretRef must be given with tls.mode Secret, and with no other";
    /// A mode has what it names.
    pub const TLS_ISSUER: &str = "tls.issuerRef must be given with tls.mode CertManager, and with no other";
    /// In clear no certificate is shown.
    pub const TLS_FURTHER: &str = "tls.furtherSecrets needs another tls.mode than None";
    /// A certificate says names of DNS and addresses.
    pub const TLS_NAMES: &str =
        "tls.extraNames must be lower-case names of DNS, with *. before them or without, or addresses";
    /// A Bucket's name is part of a tag's value, and the bucket's name where it names none.
    pub const BUCKET_OBJECT_NAME: &str =
        "metadata.name must be at most 63 characters, and at least 3 where spec.name is absent";
    /// Another name is another bucket.
    pub const BUCKET_NAME_KEPT: &str = "spec.name is immutable";
    /// Another cluster has another bucket and another user.
    pub const CLUSTER_KEPT: &str = "spec.cluster is immutable";
    /// The operator marks its buckets with such a tag.
    pub const RESERVED_TAG: &str = "no key of spec.tags may begin with sherd.dev/";
    /// The operator removes no Secret.
    pub const SECRET_NAME_KEPT: &str = "spec.secretName is immutable";
    /// The operator writes a Secret, or reads one.
    pub const ONE_SECRET: &str = "spec.secretName names a Secret that the operator writes, spec.secretRef one that is there: give one of them";
    /// A Secret that the operator wrote stays with the key that was taken over.
    pub const SECRET_REF_KEPT: &str =
        "spec.secretRef cannot be added or removed: it can only name another Secret";
    /// A right is to one bucket.
    pub const ONE_BUCKET: &str = "a right names a bucket either by name or by bucketRef";
    /// IAM takes names of users of up to 64 characters.
    pub const USER_NAME: &str =
        "the namespace and metadata.name of a BucketUser must together be at most 63 characters";
    /// A document is an object, or a text with JSON.
    pub const DOCUMENT: &str = "spec.policy must be an object or a text with a JSON object";
}

/// An S3-compatible object store: its nodes, their volumes and how it is reached.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "sherd.dev",
    version = "v1alpha1",
    kind = "StorageCluster",
    plural = "storageclusters",
    shortname = "sherd",
    category = "storage",
    namespaced,
    annotation("helm.sh/resource-policy", "keep"),
    status = "ClusterStatus",
    derive = "PartialEq",
    doc = "An S3-compatible object store: its nodes, their volumes and how it is reached.",
    validation = Rule::new("self.metadata.name.size() <= 30 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message(message::NAME),
    validation = Rule::new(storage_rules::storage_kept_rule()).message(message::STORAGE_KEPT),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "State", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Pools", type_ = "string", json_path = ".status.poolsReady"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodesReady"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Volumes", type_ = "string", json_path = ".status.volumesOnline", priority = "1"),
    printcolumn(name = "Healing", type_ = "integer", json_path = ".status.volumesHealing", priority = "1"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint", priority = "1"),
    printcolumn(name = "Message", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].message"#, priority = "1")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.pools.size() == 1").message(message::ONE_POOL),
    validation = Rule::new(storage_rules::storage_rule()).message(message::STORAGE),
    validation = Rule::new("oldSelf.pools.all(before, self.pools.exists(pool, pool.name == before.name))").message(message::POOL_KEPT)
)]
pub struct StorageClusterSpec {
    /// The node's image. Absent: the operator's own version, recorded when the cluster is first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Nodes of one shape. Exactly one pool.
    #[schemars(length(min = 1, max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub pools: Vec<Pool>,
    /// Where the root credentials come from. Absent: the operator makes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// How S3 is reached.
    #[serde(default)]
    pub gateway: Gateway,
    /// S3 over TLS.
    #[serde(default)]
    pub tls: S3Tls,
    /// The query API of IAM and STS.
    #[serde(default)]
    pub iam: IamSettings,
    /// Settings of every node.
    #[serde(default)]
    pub config: NodeSettings,
    /// Network access to the nodes.
    #[serde(default)]
    pub network_policy: NetworkPolicySettings,
    /// A certificate of an admin for `sherd-node user` and orders to nodes.
    #[serde(default)]
    pub admin_certificate: AdminCertificateSettings,
    /// How pods are replaced by pods of another template.
    #[serde(default)]
    pub upgrade: Upgrade,
    /// Survival of the data when this object is deleted: claims, CA and credentials stay.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Stops every change by the operator; the status is still reported.
    #[serde(default)]
    pub paused: bool,
    /// Namespaces beside this one whose Buckets and BucketUsers may name this cluster. `*` means all that the
    /// operator watches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub bucket_namespaces: Vec<String>,
    /// Rights of the BucketUsers of other namespaces.
    #[serde(default)]
    pub bucket_users: BucketUserSettings,
}

/// Survival of the data when the object is deleted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// Claims and the Secrets that the data needs stay; a cluster of the same name adopts them.
    #[default]
    Retain,
}
