//! Every setting as it may be written: one declaration gives the key of the file, the flag, the
//! variable and the help text.
//!
//! The names follow one rule: key `limits.idle_timeout` is flag `--limits-idle-timeout` and
//! variable `SHERD_LIMITS_IDLE_TIMEOUT`. Nothing here is checked beyond its form; `Config::resolve`
//! says what is valid.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer};

use crate::log::LogFormat;
use sherd_store::machine::quantity::{ByteSize, Period};

/// Settings of `serve`. Each is optional where it is written, not where it is used.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Directories that are volumes, each on a filesystem of its own: paths or patterns like
    /// /data/v{1...4}, separated by commas (in the file: text or a list)
    #[arg(long, env = "SHERD_VOLUMES", value_name = "PATHS")]
    pub volumes: Option<WordList>,
    /// Volumes of a set that may be lost without losing data; a cluster keeps what it was formed with
    /// [default: as formed; half of a set for a new cluster]
    #[arg(long, env = "SHERD_PARITY", value_name = "COUNT")]
    pub parity: Option<u8>,
    /// Address of the S3 listener; port 0 takes a free one [default: 127.0.0.1:9000]
    #[arg(long, env = "SHERD_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Address of metrics and health, without authentication [default: 127.0.0.1:9200]
    #[arg(long, env = "SHERD_ADMIN_LISTEN", value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,
    /// Address of the query API of IAM and STS, for users, keys and policies [default: none, not served]
    #[arg(long, env = "SHERD_IAM_LISTEN", value_name = "ADDRESS")]
    pub iam_listen: Option<SocketAddr>,
    /// Address for the other nodes of the cluster, and for operators and admins; certificates on both
    /// sides [default: the port of this node's address in cluster.nodes, on `[::]`]
    #[arg(long, env = "SHERD_NODE_LISTEN", value_name = "ADDRESS")]
    pub node_listen: Option<SocketAddr>,
    /// Region that clients sign for [default: us-east-1]
    #[arg(long, env = "SHERD_REGION", value_name = "NAME")]
    pub region: Option<String>,
    /// Domains whose subdomains name buckets, separated by commas [default: none, path style only]
    #[arg(long, env = "SHERD_DOMAINS", value_name = "NAMES")]
    pub domains: Option<WordList>,
    /// Networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, separated by commas:
    /// 10.0.0.0/8,fd00::/8 [default: none]
    #[arg(long, env = "SHERD_TRUSTED_PROXIES", value_name = "NETWORKS")]
    pub trusted_proxies: Option<WordList>,
    /// File that a line about every request is appended to, or - for standard output [default: none]
    #[arg(long, env = "SHERD_AUDIT_LOG", value_name = "FILE", allow_hyphen_values = true)]
    pub audit_log: Option<PathBuf>,
    /// File with AWS_ACCESS_KEY_ID=... and AWS_SECRET_ACCESS_KEY=..., closed to others
    #[arg(long, env = "SHERD_CREDENTIALS_FILE", value_name = "FILE")]
    pub credentials_file: Option<PathBuf>,
    /// File of the 32 bytes under which secrets of access keys are kept, closed to others; the same on every
    /// node [default: none, users and keys cannot be made]
    #[arg(long, env = "SHERD_MASTER_KEY_FILE", value_name = "FILE")]
    pub master_key_file: Option<PathBuf>,
    /// Whether a write is on stable storage when it is answered [default: fsync]
    #[arg(long, env = "SHERD_DURABILITY", value_name = "MODE")]
    pub durability: Option<Durability>,
    /// Form of the ETag of an object [default: md5]
    #[arg(long, env = "SHERD_ETAG", value_name = "FORM")]
    pub etag: Option<EtagForm>,
    /// Largest object kept in its row, divided by the volumes of its set [default: 32KiB]
    #[arg(long, env = "SHERD_INLINE_MAX", value_name = "SIZE")]
    pub inline_max: Option<ByteSize>,
    /// Largest shard packed in the log instead of a file of its own [default: 256KiB]
    #[arg(long, env = "SHERD_PACK_MAX", value_name = "SIZE")]
    pub pack_max: Option<ByteSize>,
    /// Memory for object data under way; beyond it requests wait [default: 128MiB]
    #[arg(long, env = "SHERD_BUFFER_CAP", value_name = "SIZE")]
    pub buffer_cap: Option<ByteSize>,
    /// Memory for the indexes of all volumes together [default: 32MiB]
    #[arg(long, env = "SHERD_INDEX_CACHE", value_name = "SIZE")]
    pub index_cache: Option<ByteSize>,
    /// How long connections are still accepted once the process is asked to stop, while health says that it
    /// stops: clients and load balancers need a moment to follow [default: 0s]
    #[arg(long, env = "SHERD_SHUTDOWN_DELAY", value_name = "TIME")]
    pub shutdown_delay: Option<Period>,
    /// How long requests under way may take to end once the process is asked to stop [default: 30s]
    #[arg(long, env = "SHERD_SHUTDOWN_TIMEOUT", value_name = "TIME")]
    pub shutdown_timeout: Option<Period>,
    /// Table `[tls]`.
    #[command(flatten)]
    pub tls: TlsSettings,
    /// Table `[s3]`.
    #[command(flatten)]
    pub s3: S3Settings,
    /// Table `[auth]`.
    #[command(flatten)]
    pub auth: AuthSettings,
    /// Table `[cluster]`.
    #[command(flatten)]
    pub cluster: ClusterSettings,
    /// Table `[limits]`.
    #[command(flatten)]
    pub limits: LimitSettings,
    /// Table `[upkeep]`.
    #[command(flatten)]
    pub upkeep: UpkeepSettings,
    /// Table `[log]`.
    #[command(flatten)]
    pub log: LogSettings,
}

/// Table `[tls]`: S3 over TLS. Without it S3 is served in clear text.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// Certificate that S3 clients are shown, in PEM, and those between it and its authority; S3 is served
    /// over TLS alone then
    #[arg(id = "tls_cert", long = "tls-cert", env = "SHERD_TLS_CERT", value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// The key of that certificate, closed to others
    #[arg(id = "tls_key", long = "tls-key", env = "SHERD_TLS_KEY", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Directories with a further certificate each, `tls.crt`, and its key `tls.key`, separated by commas,
    /// for clients that ask for a name which the first is not valid for [default: none]
    #[arg(id = "tls_further", long = "tls-further", env = "SHERD_TLS_FURTHER", value_name = "DIRS")]
    pub further: Option<WordList>,
}

/// Table `[s3]`: where S3 is served otherwise than AWS does.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Settings {
    /// Whether access control lists that give access to others than the owner are refused, as by AWS, or
    /// ignored: applications send public-read by default [default: refuse]
    #[arg(long = "s3-unsupported-acl", env = "SHERD_S3_UNSUPPORTED_ACL", value_name = "MODE")]
    pub unsupported_acl: Option<UnsupportedAcl>,
    /// Whether the S3 listener answers /health/live, /health/ready and MinIO's /minio/health/live without a
    /// signature; no buckets of these first names are made then [default: false]
    #[arg(long = "s3-health-paths", env = "SHERD_S3_HEALTH_PATHS", value_name = "BOOL")]
    pub health_paths: Option<bool>,
}

/// Table `[auth]`: which signatures are taken beside Signature Version 4.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthSettings {
    /// Whether URLs presigned with Signature Version 2 are taken, as boto3 and the AWS command line make them
    /// in us-east-1, and forms signed with it [default: true]
    #[arg(
        id = "auth_sigv2_presigned",
        long = "auth-sigv2-presigned",
        env = "SHERD_AUTH_SIGV2_PRESIGNED",
        value_name = "BOOL"
    )]
    pub sigv2_presigned: Option<bool>,
}

/// Table `[cluster]`: the nodes that store together. Without it a node stores alone.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// Id of the cluster, 32 hex digits, the same on every node; `sherd-node ca init` draws one
    #[arg(id = "cluster_id", long = "cluster-id", env = "SHERD_CLUSTER_ID", value_name = "HEX")]
    pub id: Option<String>,
    /// Name of the cluster, for people [default: sherd]
    #[arg(id = "cluster_name", long = "cluster-name", env = "SHERD_CLUSTER_NAME", value_name = "NAME")]
    pub name: Option<String>,
    /// Every node as name@host:port, in an order that stays; patterns on both sides run together, as in
    /// n{1...4}@10.0.0.{1...4}:9100 (in the file: text or a list)
    #[arg(id = "cluster_nodes", long = "cluster-nodes", env = "SHERD_CLUSTER_NODES", value_name = "NODES")]
    pub nodes: Option<WordList>,
    /// Name of this node among them [default: the only one]
    #[arg(id = "cluster_node", long = "cluster-node", env = "SHERD_CLUSTER_NODE", value_name = "NAME")]
    pub node: Option<String>,
    /// Volumes of one set, over all nodes; a cluster keeps what it was formed with [default: all volumes
    /// when there are at most 7, else the smallest of 8 to 16 that divides them and spreads evenly]
    #[arg(
        id = "cluster_set_size",
        long = "cluster-set-size",
        env = "SHERD_CLUSTER_SET_SIZE",
        value_name = "COUNT"
    )]
    pub set_size: Option<u8>,
    /// Certificates of the authority that signed every node's; several nodes need this and the next two
    #[arg(id = "cluster_ca", long = "cluster-ca", env = "SHERD_CLUSTER_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// This node's certificate
    #[arg(id = "cluster_cert", long = "cluster-cert", env = "SHERD_CLUSTER_CERT", value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// The key of this node's certificate, closed to others
    #[arg(id = "cluster_key", long = "cluster-key", env = "SHERD_CLUSTER_KEY", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Age at which connections between nodes have ended; each is renewed at a quarter to a half of it, the
    /// same on every node [default: 1h]
    #[arg(
        id = "cluster_reconnect_after",
        long = "cluster-reconnect-after",
        env = "SHERD_CLUSTER_RECONNECT_AFTER",
        value_name = "TIME"
    )]
    pub reconnect_after: Option<Period>,
    /// Id of a cluster that was formed before: it is not formed again on volumes that are all empty
    #[arg(id = "cluster_formed", long = "cluster-formed", env = "SHERD_CLUSTER_FORMED", value_name = "HEX")]
    pub formed: Option<String>,
}

/// Table `[limits]`: what the S3 listener takes at one time.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSettings {
    /// Connections open at one time; further ones wait in the kernel's queue [default: 4096]
    #[arg(long = "limits-connections-max", env = "SHERD_LIMITS_CONNECTIONS_MAX", value_name = "COUNT")]
    pub connections_max: Option<u32>,
    /// Requests worked on at one time [default: 512]
    #[arg(long = "limits-requests-max", env = "SHERD_LIMITS_REQUESTS_MAX", value_name = "COUNT")]
    pub requests_max: Option<u32>,
    /// Requests that wait for one of those places; further ones get 503 SlowDown [default: 2048]
    #[arg(long = "limits-queue-max", env = "SHERD_LIMITS_QUEUE_MAX", value_name = "COUNT")]
    pub queue_max: Option<u32>,
    /// How long a connection may take to send a whole request head, idle time included [default: 60s]
    #[arg(long = "limits-idle-timeout", env = "SHERD_LIMITS_IDLE_TIMEOUT", value_name = "TIME")]
    pub idle_timeout: Option<Period>,
    /// How long a body may stand still, in either direction [default: 60s]
    #[arg(long = "limits-stall-timeout", env = "SHERD_LIMITS_STALL_TIMEOUT", value_name = "TIME")]
    pub stall_timeout: Option<Period>,
}

/// Table `[upkeep]`: background work.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpkeepSettings {
    /// How long replaced data stays for readers that still use it [default: 10m]
    #[arg(long = "upkeep-release-grace", env = "SHERD_UPKEEP_RELEASE_GRACE", value_name = "TIME")]
    pub release_grace: Option<Period>,
    /// Time in which every stored byte is verified once [default: 30days]
    #[arg(long = "upkeep-scrub-period", env = "SHERD_UPKEEP_SCRUB_PERIOD", value_name = "TIME")]
    pub scrub_period: Option<Period>,
    /// Bytes per second that healing and scrubbing may move at most, reads and writes of all volumes
    /// together [default: none, clients' latencies decide]
    #[arg(long = "upkeep-heal-bandwidth", env = "SHERD_UPKEEP_HEAL_BANDWIDTH", value_name = "SIZE")]
    pub heal_bandwidth: Option<ByteSize>,
    /// How long an empty directory waits for its disk to come back before the volume is rebuilt in it
    /// [default: 10m]
    #[arg(long = "upkeep-adopt-after", env = "SHERD_UPKEEP_ADOPT_AFTER", value_name = "TIME")]
    pub adopt_after: Option<Period>,
}

/// Table `[log]`: what goes to standard error.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// Form of a log line [default: text]
    #[arg(id = "log_format", long = "log-format", env = "SHERD_LOG_FORMAT", value_name = "FORM")]
    pub format: Option<LogFormat>,
    /// Least severity logged, also by target: info,sherd_store::upkeep=debug [default: info]
    #[arg(id = "log_level", long = "log-level", env = "SHERD_LOG_LEVEL", value_name = "FILTER")]
    pub level: Option<String>,
    /// Time from which on a request is logged as slow, with where its time went; 0 logs none [default: 1s]
    #[arg(
        id = "log_slow_request",
        long = "log-slow-request",
        env = "SHERD_LOG_SLOW_REQUEST",
        value_name = "TIME"
    )]
    pub slow_request: Option<Period>,
}

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When the write is on stable storage.
    Fsync,
    /// When the kernel has the write: for measurements and throw-away data, a power cut loses objects.
    None,
}

impl From<Durability> for sherd_volume::options::Durability {
    fn from(written: Durability) -> Self {
        match written {
            Durability::Fsync => Self::Fsync,
            Durability::None => Self::None,
        }
    }
}

/// How access control lists are treated that give access to others than the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnsupportedAcl {
    /// 400 AccessControlListNotSupported.
    Refuse,
    /// As if none had been sent.
    Ignore,
}

impl From<UnsupportedAcl> for sherd_s3::service::UnsupportedAcl {
    fn from(written: UnsupportedAcl) -> Self {
        match written {
            UnsupportedAcl::Refuse => Self::Refuse,
            UnsupportedAcl::Ignore => Self::Ignore,
        }
    }
}

/// Form of the `ETag` of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EtagForm {
    /// AWS's: the MD5 of its bytes, or of its parts' MD5s.
    Md5,
    /// A tag of its own that ends in -1, so that it is not taken for an MD5, where the client sent another
    /// checksum and no Content-MD5. One core hashes MD5 slower than a disk writes.
    Fast,
}

/// Several words: separated by commas in a flag or a variable, text or a list in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordList(pub Vec<String>);

impl FromStr for WordList {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()))
    }
}

impl<'de> Deserialize<'de> for WordList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// As the file may have it.
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected text or a list of texts")]
        enum WrittenWords {
            Text(String),
            List(Vec<String>),
        }
        Ok(match WrittenWords::deserialize(deserializer)? {
            WrittenWords::Text(text) => text.parse().unwrap_or_else(|never| match never {}),
            WrittenWords::List(words) => Self(words),
        })
    }
}

impl Settings {
    /// Takes from `lower` what is not set here.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        Self {
            volumes: self.volumes.or(lower.volumes),
            parity: self.parity.or(lower.parity),
            listen: self.listen.or(lower.listen),
            admin_listen: self.admin_listen.or(lower.admin_listen),
            iam_listen: self.iam_listen.or(lower.iam_listen),
            node_listen: self.node_listen.or(lower.node_listen),
            region: self.region.or(lower.region),
            domains: self.domains.or(lower.domains),
            trusted_proxies: self.trusted_proxies.or(lower.trusted_proxies),
            audit_log: self.audit_log.or(lower.audit_log),
            credentials_file: self.credentials_file.or(lower.credentials_file),
            master_key_file: self.master_key_file.or(lower.master_key_file),
            durability: self.durability.or(lower.durability),
            etag: self.etag.or(lower.etag),
            inline_max: self.inline_max.or(lower.inline_max),
            pack_max: self.pack_max.or(lower.pack_max),
            buffer_cap: self.buffer_cap.or(lower.buffer_cap),
            index_cache: self.index_cache.or(lower.index_cache),
            shutdown_delay: self.shutdown_delay.or(lower.shutdown_delay),
            shutdown_timeout: self.shutdown_timeout.or(lower.shutdown_timeout),
            tls: TlsSettings {
                cert: self.tls.cert.or(lower.tls.cert),
                key: self.tls.key.or(lower.tls.key),
                further: self.tls.further.or(lower.tls.further),
            },
            s3: S3Settings {
                unsupported_acl: self.s3.unsupported_acl.or(lower.s3.unsupported_acl),
                health_paths: self.s3.health_paths.or(lower.s3.health_paths),
            },
            auth: AuthSettings { sigv2_presigned: self.auth.sigv2_presigned.or(lower.auth.sigv2_presigned) },
            cluster: ClusterSettings {
                id: self.cluster.id.or(lower.cluster.id),
                name: self.cluster.name.or(lower.cluster.name),
                nodes: self.cluster.nodes.or(lower.cluster.nodes),
                node: self.cluster.node.or(lower.cluster.node),
                set_size: self.cluster.set_size.or(lower.cluster.set_size),
                ca: self.cluster.ca.or(lower.cluster.ca),
                cert: self.cluster.cert.or(lower.cluster.cert),
                key: self.cluster.key.or(lower.cluster.key),
                reconnect_after: self.cluster.reconnect_after.or(lower.cluster.reconnect_after),
                formed: self.cluster.formed.or(lower.cluster.formed),
            },
            limits: LimitSettings {
                connections_max: self.limits.connections_max.or(lower.limits.connections_max),
                requests_max: self.limits.requests_max.or(lower.limits.requests_max),
                queue_max: self.limits.queue_max.or(lower.limits.queue_max),
                idle_timeout: self.limits.idle_timeout.or(lower.limits.idle_timeout),
                stall_timeout: self.limits.stall_timeout.or(lower.limits.stall_timeout),
            },
            upkeep: UpkeepSettings {
                release_grace: self.upkeep.release_grace.or(lower.upkeep.release_grace),
                scrub_period: self.upkeep.scrub_period.or(lower.upkeep.scrub_period),
                heal_bandwidth: self.upkeep.heal_bandwidth.or(lower.upkeep.heal_bandwidth),
                adopt_after: self.upkeep.adopt_after.or(lower.upkeep.adopt_after),
            },
            log: LogSettings {
                format: self.log.format.or(lower.log.format),
                level: self.log.level.or(lower.log.level),
                slow_request: self.log.slow_request.or(lower.log.slow_request),
            },
        }
    }
}
