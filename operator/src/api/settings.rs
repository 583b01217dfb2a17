//! The specification of a cluster beside its pools: image, credentials, gateway and the settings of its
//! nodes.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message;
use crate::names::{IAM_PORT, S3_PORT};

/// An image and how it is pulled.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.repository) || self.repository.matches('^[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?(:[0-9]+)?(/[a-z0-9]([-._a-z0-9]*[a-z0-9])?)*$')").message(message::IMAGE_REPOSITORY),
    validation = Rule::new("!has(self.tag) || self.tag.matches('^[A-Za-z0-9_][-._A-Za-z0-9]*$')").message(message::IMAGE_TAG),
    validation = Rule::new("!has(self.digest) || self.digest.matches('^sha256:[0-9a-f]{64}$')").message(message::IMAGE_DIGEST)
)]
pub struct Image {
    /// Repository, without tag and digest; absent: that of the image that pods served with, or the operator's
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub repository: Option<String>,
    /// Tag; absent, with no digest either: that of the image that pods served with, or the operator's
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub tag: Option<String>,
    /// Digest, as sha256: and 64 hexadecimal digits. It decides where a tag is given, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub digest: Option<String>,
    /// When the image is pulled.
    #[serde(default)]
    pub pull_policy: PullPolicy,
    /// Secrets of a registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub pull_secrets: Vec<PullSecret>,
    /// Architectures of processors that the image has programs for, as hosts are labelled with in
    /// kubernetes.io/arch; absent: amd64. Pods run on hosts of these alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]+$")))]
    pub architectures: Vec<String>,
}

/// When an image is pulled.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullPolicy {
    /// At each start of a container.
    Always,
    /// When the host lacks it.
    #[default]
    IfNotPresent,
    /// Not at all.
    Never,
}

impl PullPolicy {
    /// Returns the name that Kubernetes uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// A Secret of a registry in the cluster's namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct PullSecret {
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Where the root credentials come from.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// A Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the cluster's namespace.
    pub secret_ref: SecretReference,
}

/// A Secret of the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct SecretReference {
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How S3 is reached.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct Gateway {
    /// The Service in front of the nodes.
    #[serde(default)]
    pub service: GatewayService,
    /// Domain of virtual-hosted buckets: with `s3.example.com`, host `photos.s3.example.com` names bucket
    /// `photos`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub domain: Option<String>,
    /// Further such domains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))
    )]
    pub domains: Vec<String>,
}

impl Gateway {
    /// Returns the domains of virtual-hosted buckets, each once.
    pub fn all_domains(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for domain in self.domain.iter().chain(&self.domains) {
            if !all.contains(&domain.as_str()) {
                all.push(domain);
            }
        }
        all
    }
}

/// The Service in front of the nodes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type == 'LoadBalancer' || !has(self.loadBalancerClass) && !has(self.loadBalancerSourceRanges)").message(message::LOAD_BALANCER),
    validation = Rule::new("self.type != 'ClusterIP' || !has(self.nodePort) && !has(self.externalTrafficPolicy)").message(message::NODE_PORT)
)]
pub struct GatewayService {
    /// Type of the Service.
    #[serde(default, rename = "type")]
    pub service_type: ServiceType,
    /// Annotations of the Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Class of the load balancer: the implementation that makes it. Another class makes another load
    /// balancer, with an address of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-zA-Z0-9]([-._a-zA-Z0-9/]*[a-zA-Z0-9])?$"))]
    pub load_balancer_class: Option<String>,
    /// Clients that the load balancer lets in, as CIDR blocks; absent: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64), regex(pattern = "^[0-9a-fA-F.:]+/[0-9]{1,3}$")))]
    pub load_balancer_source_ranges: Vec<String>,
    /// Whether connections from outside go to nodes on any host, or to those on the host that they reach:
    /// with Local, nodes see the client's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
    /// The Service's port, such as 443 with TLS and 80 without; absent: 9000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// The name of the Service's port, by which some gateways and meshes tell the protocol; absent: s3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub port_name: Option<String>,
    /// The port of every host; absent: Kubernetes chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub node_port: Option<i32>,
}

impl GatewayService {
    /// Returns the Service's port.
    pub fn port(&self) -> i32 {
        self.port.unwrap_or(i32::from(S3_PORT))
    }

    /// Returns the name of the Service's port.
    pub fn port_name(&self) -> &str {
        self.port_name.as_deref().unwrap_or("s3")
    }
}

/// The query API of IAM and STS: users, groups, keys and policies by `aws iam`, SDKs and Terraform.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct IamSettings {
    /// Whether nodes serve it, behind a Service of its own within the Kubernetes cluster. Requests are
    /// signed; it is served over TLS where S3 is, with the same certificate.
    #[serde(default)]
    pub enabled: bool,
    /// The port of that Service; absent: 9300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

impl IamSettings {
    /// Returns the Service's port.
    pub fn port(&self) -> i32 {
        self.port.unwrap_or(i32::from(IAM_PORT))
    }
}

/// Where nodes write a line about every request.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLog {
    /// To standard output, among the lines of the log.
    StandardOutput,
}

/// Nodes that connections from outside of the Kubernetes cluster go to.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// Nodes on any host.
    Cluster,
    /// Nodes on the host that the connection reaches.
    Local,
}

/// Type of a Service.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceType {
    /// Reached within the Kubernetes cluster.
    #[default]
    ClusterIP,
    /// A port of every host.
    NodePort,
    /// A load balancer of the cloud.
    LoadBalancer,
}

impl ServiceType {
    /// Returns the name that Kubernetes uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIP => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

/// Settings of every node, under the names of the node's configuration. Those that [`Self::HOT`] names are
/// taken by running nodes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeSettings {
    /// Region that clients must sign for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9-]+$"))]
    pub region: Option<String>,
    /// Objects up to this size stay in their row: 0 to 32KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(kB|KiB|MB|MiB|GB|GiB|TiB)?$"))]
    pub inline_max: Option<String>,
    /// Shards up to this size are packed in the log: 0 to 256KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(kB|KiB|MB|MiB|GB|GiB|TiB)?$"))]
    pub pack_max: Option<String>,
    /// Memory for object data under way: 32MiB to 1TiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(kB|KiB|MB|MiB|GB|GiB|TiB)?$"))]
    pub buffer_cap: Option<String>,
    /// Memory for the indexes of all volumes together: 4MiB to 1TiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(kB|KiB|MB|MiB|GB|GiB|TiB)?$"))]
    pub index_cache: Option<String>,
    /// Where a line about every request is written; absent: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_log: Option<AuditLog>,
    /// Proxies whose word on their clients' addresses is taken, as addresses or CIDR blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        inner(length(min = 2, max = 64), regex(pattern = "^[0-9a-fA-F.:]+(/[0-9]{1,3})?$"))
    )]
    pub trusted_proxies: Vec<String>,
    /// Most bytes per second that healing and scrubbing move, 1MiB to 1TiB; else clients' latencies decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(kB|KiB|MB|MiB|GB|GiB|TiB)?$"))]
    pub heal_bandwidth: Option<String>,
    /// Time in which every stored byte is verified once: 1h to 365days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(s|m|h|days|day)?$"))]
    pub scrub_period: Option<String>,
    /// Least severity that is logged: a level, or `target=level` pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = "^[a-z0-9_:=,]+$"))]
    pub log_level: Option<String>,
    /// How long an empty directory waits for its disk before the volume is rebuilt in it: 0s to 1day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(ms|s|m|h|days|day)?$"))]
    pub adopt_after: Option<String>,
    /// How long replaced data stays for readers that still use it: 2m to 1day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(ms|s|m|h|days|day)?$"))]
    pub release_grace: Option<String>,
    /// The least time of a request that is logged as slow: 0s, for none, to 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(ms|s|m|h|days|day)?$"))]
    pub slow_request: Option<String>,
    /// Connections of a node's S3 listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub connections_max: Option<i32>,
    /// Requests that a node works on at one time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub requests_max: Option<i32>,
    /// Requests that wait for a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_048_576))]
    pub queue_max: Option<i32>,
    /// How long a connection may be idle between requests: 1s to 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(ms|s|m|h|days|day)?$"))]
    pub idle_timeout: Option<String>,
    /// How long a body may stand still: 1s to 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = "^[0-9]+(ms|s|m|h|days|day)?$"))]
    pub stall_timeout: Option<String>,
}

impl NodeSettings {
    /// Fields that running nodes take, as the object has them.
    pub const HOT: [&'static str; 11] = [
        "healBandwidth",
        "scrubPeriod",
        "logLevel",
        "adoptAfter",
        "releaseGrace",
        "slowRequest",
        "connectionsMax",
        "requestsMax",
        "queueMax",
        "idleTimeout",
        "stallTimeout",
    ];
}

/// A certificate of an admin.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminCertificateSettings {
    /// Whether the Secret NAME-admin has one, with its key and the CAs of the nodes. It lives for a day and
    /// is renewed: where this is withdrawn it ends within a day.
    #[serde(default)]
    pub enabled: bool,
}

/// Network access to the nodes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicySettings {
    /// Whether the node port is closed to all but the cluster's nodes, the operator and pods of this
    /// namespace with the label sherd.dev/admin=true, and the admin port to all but pods with the label
    /// sherd.dev/scraper=true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Addresses that may reach the admin port, too, as CIDR blocks: of a scraper outside of the cluster or
    /// on a host's network, or of the hosts, where the network plugin judges probes of the kubelet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 64), regex(pattern = "^[0-9a-fA-F.:]+/[0-9]{1,3}$")))]
    pub admin_cidrs: Vec<String>,
}

const fn yes() -> bool {
    true
}

impl Default for NetworkPolicySettings {
    fn default() -> Self {
        Self { enabled: true, admin_cidrs: Vec::new() }
    }
}

/// A variable of the node's container.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!self.name.startsWith('SHERD_CLUSTER_') && !(self.name in ['POD_NAME', 'SHERD_CONFIG', 'SHERD_LIVE_CONFIG', 'SHERD_VOLUMES', 'SHERD_LISTEN', 'SHERD_ADMIN_LISTEN', 'SHERD_NODE_LISTEN', 'SHERD_PARITY', 'SHERD_CREDENTIALS_FILE', 'SHERD_MASTER_KEY_FILE', 'SHERD_ACCESS_KEY_ID', 'SHERD_SECRET_ACCESS_KEY'])").message(message::ENVIRONMENT))]
pub struct EnvironmentVariable {
    /// The variable's name.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// The variable's value.
    #[schemars(length(max = 4096))]
    pub value: String,
}

impl EnvironmentVariable {
    /// Variables that the operator sets, beside all that begin with `SHERD_CLUSTER_`.
    pub const RESERVED: [&'static str; 13] = [
        "POD_NAME",
        "SHERD_CONFIG",
        "SHERD_LIVE_CONFIG",
        "SHERD_VOLUMES",
        "SHERD_LISTEN",
        "SHERD_ADMIN_LISTEN",
        "SHERD_NODE_LISTEN",
        "SHERD_PARITY",
        "SHERD_CREDENTIALS_FILE",
        "SHERD_MASTER_KEY_FILE",
        "SHERD_TLS_FURTHER",
        "SHERD_ACCESS_KEY_ID",
        "SHERD_SECRET_ACCESS_KEY",
    ];
}
