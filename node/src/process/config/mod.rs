//! Makes a valid configuration of raw settings; nothing else reads them.
//!
//! `Settings` are the same from flags, variables and the file, in that precedence, and say nothing
//! about sense. [`Config::resolve`] is the only way to a [`Config`], and a `Config` needs no second
//! check: its volumes exist, its geometry works, its numbers lie in their ranges.

pub mod nodes;
pub mod credentials;
pub mod files;
pub mod first_buckets;
pub mod hot;
pub mod master_key;
pub mod private_file;
pub mod directory;
pub mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub(crate) mod limits;
mod origin;
pub mod pattern;
pub mod settings;
pub mod source;
pub mod variables;
pub mod volumes;

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use sherd_core::id::ClusterId;
use sherd_core::limits::{
    ADOPT_AFTER_MS, INLINE_BYTES_MAX, PACK_BYTES_MAX, RELEASE_GRACE_MS, RELEASE_GRACE_MS_MIN, SEGMENT_BYTES,
};
use sherd_core::topology::{FormError, GeometryRequest, PoolShape};
use sherd_volume::options::Durability;

use self::credentials::{Credentials, RootPairs};
use self::error::{ConfigError, InvalidValue};
use self::first_buckets::FirstBucket;
use self::limits::{FURTHER_CERTIFICATES_MAX, PROXY_NETWORKS_MAX};
use self::nodes::ClusterConfig;
use self::settings::{
    AuthSettings, EtagForm, LimitSettings, LogSettings, S3Settings, Settings, TlsSettings, UpkeepSettings,
};
use self::source::Sources;
use crate::audit::AuditTarget;
use crate::log::{Log, LogFormat, parse_level};
use crate::server::limits::{HEAD_TIMEOUT, ROOMY_CONNECTIONS_MAX};
use crate::server::{ListenerLimits, TrustedProxies};
use sherd_net::tls::{CertificateFiles, ServedPaths};
use sherd_s3::service::UnsupportedAcl;
use sherd_store::iam::MasterKey;
use sherd_store::machine::quantity::{ByteSize, Period};

/// The port of the S3 listener where none is given.
pub const S3_PORT: u16 = 9000;
/// The port of metrics and health where none is given.
pub const ADMIN_PORT: u16 = 9200;
/// The region where none is given: the one that clients sign for by default.
pub const REGION: &str = "us-east-1";

/// Permission bits that a file of credentials or of the master key may have: the group may read and write,
/// as mounted Secrets need it; others nothing.
pub(crate) const CREDENTIALS_MODE: u32 = 0o660;

/// The whole configuration of a node. Valid as a whole.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directories of the volumes, in the order written; each exists and is writable.
    pub volumes: Vec<PathBuf>,
    /// How many parity shards are asked for; a cluster that is there has them or is refused.
    pub parity: Option<u8>,
    /// How a new cluster cuts the volumes into sets, and the erasure code of each.
    pub shape: PoolShape,
    /// Where S3 is served.
    pub listen: SocketAddr,
    /// Where metrics and health are served.
    pub admin_listen: SocketAddr,
    /// Where the query API of IAM is served; `None` where it is not.
    pub iam_listen: Option<SocketAddr>,
    /// The certificate that S3 clients are shown; `None` where S3 is served in clear text.
    pub tls: Option<ServedPaths>,
    /// The nodes that store together and this one's place among them; `None` where a node stores alone.
    pub cluster: Option<ClusterConfig>,
    /// The cluster that was formed before, which is not to be formed again.
    pub formed: Option<ClusterId>,
    /// The region that requests are signed for.
    pub region: String,
    /// Domains whose subdomains name buckets.
    pub domains: Vec<String>,
    /// The proxies whose word on their clients is taken.
    pub trusted_proxies: TrustedProxies,
    /// The place of the audit lines; `None` where none are written.
    pub audit: Option<AuditTarget>,
    /// The root credentials.
    pub credentials: RootPairs,
    /// The file that they come from, which is followed; `None` where variables give them.
    pub credentials_file: Option<PathBuf>,
    /// The key under which secrets of access keys are kept.
    pub master_key: Option<MasterKey>,
    /// How S3 is served.
    pub s3: S3Config,
    /// When a write is answered.
    pub durability: Durability,
    /// The form of an object's `ETag`.
    pub etag: EtagForm,
    /// Bytes of the largest object kept in its row, to be divided by the volumes of its set.
    pub inline_bytes_max: u32,
    /// Bytes of the largest shard packed in the log.
    pub pack_bytes_max: u32,
    /// Bytes of the buffer pool.
    pub buffer_bytes_max: u64,
    /// Bytes of the index cache, shared by all volumes.
    pub index_cache_bytes: u64,
    /// The limits of the S3 listener.
    pub limits: Limits,
    /// Background work.
    pub upkeep: Upkeep,
    /// Bytes of a new segment of a volume's log, and of the file that it keeps for a full disk.
    pub segment_bytes: u64,
    /// Whether volumes vote, after a moment, that too few of their peers confirm.
    pub vouch: bool,
    /// The part of the log that is written, and its form.
    pub log: Log,
    /// How long connections are still accepted, while health says that the node stops.
    pub shutdown_delay: Duration,
    /// How long requests under way may take to end at shutdown.
    pub shutdown_timeout: Duration,
}

/// How S3 is served, where that is a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Config {
    /// Whether URLs presigned with Signature Version 2 are taken.
    pub sigv2_presigned: bool,
    /// How access control lists are treated that give access to others than the owner.
    pub unsupported_acl: UnsupportedAcl,
    /// Whether health is answered on the S3 listener.
    pub health_paths: bool,
    /// Buckets that are made before S3 is served.
    pub first_buckets: Vec<FirstBucket>,
}

impl S3Config {
    fn of(s3: &S3Settings, auth: &AuthSettings) -> Self {
        let &S3Settings { unsupported_acl, health_paths } = s3;
        let &AuthSettings { sigv2_presigned } = auth;
        Self {
            sigv2_presigned: sigv2_presigned.unwrap_or(true),
            unsupported_acl: unsupported_acl.map_or(UnsupportedAcl::Refuse, UnsupportedAcl::from),
            health_paths: health_paths.unwrap_or(false),
            first_buckets: Vec::new(),
        }
    }
}

/// The limits of the S3 listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at one time.
    pub connections_max: usize,
    /// Requests worked on at one time.
    pub requests_max: usize,
    /// Requests that wait for a place.
    pub queue_max: usize,
    /// From idle to the end of a request head.
    pub idle_timeout: Duration,
    /// Between two moves of a body.
    pub stall_timeout: Duration,
}

impl From<Limits> for ListenerLimits {
    fn from(limits: Limits) -> Self {
        let Limits { connections_max, requests_max: _, queue_max: _, idle_timeout, stall_timeout } = limits;
        let roomy_max = ROOMY_CONNECTIONS_MAX;
        Self {
            connections_max,
            roomy_max,
            spare_descriptors: 0,
            idle_timeout,
            head_timeout: HEAD_TIMEOUT,
            stall_timeout,
            answer_timeout: None,
        }
    }
}

/// Background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upkeep {
    /// How long replaced data stays.
    pub release_grace: Duration,
    /// Time of one scrub pass.
    pub scrub_period: Duration,
    /// Bytes per second of background work at most; 0 for no bound.
    pub heal_bytes_per_second: u64,
    /// How long an empty directory waits for its disk.
    pub adopt_after: Duration,
}

impl Config {
    /// Judges settings, in the order in which the documentation lists them.
    ///
    /// `credentials` are those of the variables, when set; else `credentials_file` is read.
    /// `sources` is for messages alone.
    ///
    /// # Errors
    /// [`ConfigError`] names the first setting that is not valid, where it was written, and why.
    pub fn resolve(
        settings: Settings,
        credentials: Option<Credentials>,
        sources: &Sources,
    ) -> Result<Self, ConfigError> {
        let Settings {
            volumes,
            parity,
            listen,
            admin_listen,
            iam_listen,
            node_listen,
            region,
            domains,
            trusted_proxies,
            audit_log,
            credentials_file,
            master_key_file,
            durability,
            etag,
            inline_max,
            pack_max,
            buffer_cap,
            index_cache,
            shutdown_delay,
            shutdown_timeout,
            tls,
            s3,
            auth,
            cluster,
            limits,
            upkeep,
            log,
        } = settings;
        let judge = Judge { sources };

        let volumes = judge.volumes(&volumes.unwrap_or_default().0)?;
        let formed = judge.formed(cluster.formed.as_deref())?;
        let cluster = nodes::judge(cluster, node_listen).map_err(|(key, why)| judge.refuse(key, why))?;

        let (listen, admin_listen) =
            (listen.unwrap_or(loopback(S3_PORT)), admin_listen.unwrap_or(loopback(ADMIN_PORT)));
        judge.addresses(listen, admin_listen, iam_listen, cluster.as_ref())?;
        let (region, domains) = (judge.region(region)?, judge.domains(domains.unwrap_or_default().0)?);
        let (credentials, credentials_file) = judge.root_credentials(credentials, credentials_file)?;

        Ok(Self {
            shape: judge.shape(volumes.len(), parity, cluster.as_ref())?,
            volumes,
            parity,
            listen,
            admin_listen,
            iam_listen,
            tls: judge.tls(tls)?,
            cluster,
            formed,
            region,
            domains,
            trusted_proxies: judge.trusted_proxies(&trusted_proxies.unwrap_or_default().0)?,
            audit: audit_log.map(|path| judge.audit_log(path)).transpose()?,
            credentials,
            credentials_file,
            master_key: master_key_file.map(|path| own_master_key(&path)).transpose()?,
            s3: S3Config::of(&s3, &auth),
            durability: durability.map_or(Durability::Fsync, Durability::from),
            etag: etag.unwrap_or(EtagForm::Md5),
            inline_bytes_max: judge.bytes_32("inline_max", inline_max, INLINE_BYTES_MAX)?,
            pack_bytes_max: judge.bytes_32("pack_max", pack_max, PACK_BYTES_MAX)?,
            buffer_bytes_max: judge.bytes("buffer_cap", buffer_cap, mib(128), mib(32), mib(1 << 20))?,
            index_cache_bytes: judge.bytes("index_cache", index_cache, mib(32), mib(4), mib(1 << 20))?,
            limits: judge.limits(&limits)?,
            upkeep: judge.upkeep(&upkeep)?,
            segment_bytes: SEGMENT_BYTES,
            vouch: false,
            log: judge.log(log)?,
            shutdown_delay: judge.shutdown_delay(shutdown_delay)?,
            shutdown_timeout: judge.shutdown_timeout(shutdown_timeout)?,
        })
    }

    /// Returns the geometry that is asked for when a cluster is formed.
    pub fn geometry(&self) -> GeometryRequest {
        geometry(self.parity, self.cluster.as_ref())
    }

    /// Computes a digest of what must be equal on every node of a cluster: its id and name, its nodes by name
    /// and order, the sets that its volumes make, and the region. Addresses may differ.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("sherd 2026-11 configuration of a cluster");
        let mut text = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        if let Some(cluster) = &self.cluster {
            text(&cluster.id.to_string());
            text(&cluster.name);
            for node in &cluster.nodes {
                text(&node.name);
            }
        }
        text(&self.region);
        let geometry = self.shape.geometry;
        for count in [self.volumes.len(), self.shape.sets, geometry.data_shards(), geometry.parity_shards()] {
            hasher.update(&(count as u64).to_le_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

fn own_master_key(path: &Path) -> Result<MasterKey, ConfigError> {
    Ok(master_key::from_file(path, CREDENTIALS_MODE)?)
}

fn geometry(parity: Option<u8>, cluster: Option<&ClusterConfig>) -> GeometryRequest {
    GeometryRequest {
        set_volumes: cluster.and_then(|cluster| cluster.set_size),
        parity_shards: parity.map(usize::from),
    }
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

const fn mib(count: u64) -> ByteSize {
    ByteSize(count << 20)
}

const fn seconds(count: u64) -> Period {
    Period(Duration::from_secs(count))
}

/// Judges single settings, with the place where each was written.
struct Judge<'a> {
    sources: &'a Sources,
}

impl Judge<'_> {
    fn refuse(&self, key: &'static str, why: impl Into<InvalidValue>) -> ConfigError {
        ConfigError::Value { origin: self.sources.origin(key), why: why.into() }
    }

    fn volumes(&self, patterns: &[String]) -> Result<Vec<PathBuf>, ConfigError> {
        let volumes = volumes::expand(patterns).map_err(|why| self.refuse("volumes", why))?;
        volumes::check(&volumes).map_err(|why| self.refuse("volumes", why))?;
        Ok(volumes)
    }

    fn within<T: PartialOrd + Display + Copy>(
        &self,
        key: &'static str,
        value: T,
        min: T,
        max: T,
    ) -> Result<T, ConfigError> {
        if value < min || value > max {
            let (value, min, max) = (value.to_string(), min.to_string(), max.to_string());
            return Err(self.refuse(key, InvalidValue::Range { value, min, max }));
        }
        Ok(value)
    }

    fn bytes(
        &self,
        key: &'static str,
        value: Option<ByteSize>,
        default: ByteSize,
        min: ByteSize,
        max: ByteSize,
    ) -> Result<u64, ConfigError> {
        Ok(self.within(key, value.unwrap_or(default), min, max)?.0)
    }

    /// A size whose default is also the most that the formats allow.
    fn bytes_32(&self, key: &'static str, value: Option<ByteSize>, max: u32) -> Result<u32, ConfigError> {
        let most = ByteSize(max.into());
        let bytes = self.bytes(key, value, most, ByteSize(0), most)?;
        Ok(u32::try_from(bytes).expect("at most a u32, as just judged"))
    }

    fn period(
        &self,
        key: &'static str,
        value: Option<Period>,
        default: Period,
        min: Period,
        max: Period,
    ) -> Result<Duration, ConfigError> {
        Ok(self.within(key, value.unwrap_or(default), min, max)?.0)
    }

    fn shutdown_delay(&self, value: Option<Period>) -> Result<Duration, ConfigError> {
        self.period("shutdown_delay", value, seconds(0), seconds(0), seconds(300))
    }

    fn shutdown_timeout(&self, value: Option<Period>) -> Result<Duration, ConfigError> {
        self.period("shutdown_timeout", value, seconds(30), seconds(0), seconds(600))
    }

    fn count(
        &self,
        key: &'static str,
        value: Option<u32>,
        default: u32,
        min: u32,
        max: u32,
    ) -> Result<usize, ConfigError> {
        let count = self.within(key, value.unwrap_or(default), min, max)?;
        Ok(usize::try_from(count).expect("a usize has at least 32 bits where this builds"))
    }

    /// Chooses the sets of all volumes of all nodes, by the parity and the set size that are asked for.
    fn shape(
        &self,
        volumes: usize,
        parity: Option<u8>,
        cluster: Option<&ClusterConfig>,
    ) -> Result<PoolShape, ConfigError> {
        let nodes = cluster.map_or(1, |cluster| cluster.nodes.len());
        PoolShape::choose(nodes, volumes, geometry(parity, cluster)).map_err(|why| {
            let key = match why {
                FormError::SetSize { .. } => "cluster.set_size",
                FormError::Parity { .. } if parity.is_some() => "parity",
                _ => "volumes",
            };
            self.refuse(key, why)
        })
    }

    /// Refuses two listeners with one address; port 0 is another one each time.
    fn addresses(
        &self,
        s3: SocketAddr,
        admin: SocketAddr,
        iam: Option<SocketAddr>,
        cluster: Option<&ClusterConfig>,
    ) -> Result<(), ConfigError> {
        let listeners = [
            ("", "S3", Some(s3)),
            ("admin_listen", "admin", Some(admin)),
            ("iam_listen", "IAM", iam),
            ("node_listen", "node", cluster.map(|cluster| cluster.node_listen)),
        ];
        for (count, &(key, _, address)) in listeners.iter().enumerate() {
            let Some(address) = address.filter(|address| address.port() != 0) else { continue };
            let taken = listeners.iter().take(count).find(|(_, _, other)| *other == Some(address));
            if let Some(&(_, other, _)) = taken {
                return Err(self.refuse(key, InvalidValue::SameAddress { address, other }));
            }
        }
        Ok(())
    }

    /// The root credentials, and the file that they come from.
    fn root_credentials(
        &self,
        given: Option<Credentials>,
        file: Option<PathBuf>,
    ) -> Result<(RootPairs, Option<PathBuf>), ConfigError> {
        match (given, file) {
            (Some(given), _) => Ok((given.into(), None)),
            (None, Some(path)) => {
                let path = self.absolute("credentials_file", path)?;
                Ok((RootPairs::from_file(&path, CREDENTIALS_MODE)?, Some(path)))
            }
            (None, None) => Err(credentials::InvalidCredentials::Absent.into()),
        }
    }

    fn tls(&self, tls: TlsSettings) -> Result<Option<ServedPaths>, ConfigError> {
        let TlsSettings { cert, key, further } = tls;
        let further = further.unwrap_or_default().0;
        if cert.is_none() && key.is_none() && further.is_empty() {
            return Ok(None);
        }
        if further.len() > FURTHER_CERTIFICATES_MAX {
            let (value, max) = (further.len().to_string(), FURTHER_CERTIFICATES_MAX.to_string());
            return Err(self.refuse("tls.further", InvalidValue::Range { value, min: "0".to_owned(), max }));
        }
        let absolute = |name, path: Option<PathBuf>| {
            self.absolute(name, path.ok_or_else(|| self.refuse(name, InvalidValue::HalfOfTls))?)
        };
        let first = CertificateFiles { cert: absolute("tls.cert", cert)?, key: absolute("tls.key", key)? };
        let further = further.into_iter().map(|directory| {
            let directory = self.absolute("tls.further", directory.into())?;
            Ok(CertificateFiles { cert: directory.join("tls.crt"), key: directory.join("tls.key") })
        });
        Ok(Some(ServedPaths { first, further: further.collect::<Result<_, ConfigError>>()? }))
    }

    fn region(&self, region: Option<String>) -> Result<String, ConfigError> {
        let name = region.unwrap_or_else(|| REGION.to_owned());
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(self.refuse("region", InvalidValue::Region { name }));
        }
        Ok(name)
    }

    fn domains(&self, domains: Vec<String>) -> Result<Vec<String>, ConfigError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let label = |label: &str| !label.is_empty() && label.len() <= 63 && label.bytes().all(plain);
        match domains.iter().find(|name| name.len() > 253 || !name.split('.').all(label)) {
            Some(name) => Err(self.refuse("domains", InvalidValue::Domain { name: name.clone() })),
            None => Ok(domains),
        }
    }

    fn audit_log(&self, path: PathBuf) -> Result<AuditTarget, ConfigError> {
        if path.as_os_str() == "-" {
            return Ok(AuditTarget::Stdout);
        }
        self.absolute("audit_log", path).map(AuditTarget::File)
    }

    /// Makes a path absolute: a relative one counts from where the process was started, which it leaves.
    fn absolute(&self, key: &'static str, path: PathBuf) -> Result<PathBuf, ConfigError> {
        std::path::absolute(&path).map_err(|source| self.refuse(key, InvalidValue::Path { path, source }))
    }

    /// Networks as `10.0.0.0/8`, and single addresses.
    fn trusted_proxies(&self, written: &[String]) -> Result<TrustedProxies, ConfigError> {
        if written.len() > PROXY_NETWORKS_MAX {
            let (value, max) = (written.len().to_string(), PROXY_NETWORKS_MAX.to_string());
            let why = InvalidValue::Range { value, min: "0".to_owned(), max };
            return Err(self.refuse("trusted_proxies", why));
        }
        let network = |text: &String| {
            let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| self.refuse("trusted_proxies", InvalidValue::Network { text: text.clone() }))
        };
        Ok(TrustedProxies::new(written.iter().map(network).collect::<Result<Vec<_>, _>>()?))
    }

    fn limits(&self, limits: &LimitSettings) -> Result<Limits, ConfigError> {
        let &LimitSettings { connections_max, requests_max, queue_max, idle_timeout, stall_timeout } = limits;
        let (min, max) = (seconds(1), seconds(3600));
        Ok(Limits {
            connections_max: self.count("limits.connections_max", connections_max, 4096, 1, 1 << 20)?,
            requests_max: self.count("limits.requests_max", requests_max, 512, 1, 1 << 20)?,
            queue_max: self.count("limits.queue_max", queue_max, 2048, 0, 1 << 20)?,
            idle_timeout: self.period("limits.idle_timeout", idle_timeout, seconds(60), min, max)?,
            stall_timeout: self.period("limits.stall_timeout", stall_timeout, seconds(60), min, max)?,
        })
    }

    fn upkeep(&self, upkeep: &UpkeepSettings) -> Result<Upkeep, ConfigError> {
        let &UpkeepSettings { release_grace, scrub_period, heal_bandwidth, adopt_after } = upkeep;
        let (day, year) = (seconds(24 * 3600), seconds(365 * 24 * 3600));
        // Readers lease what they read after a minute: half of that below would let data go under a reader.
        let grace_min = Period(Duration::from_millis(RELEASE_GRACE_MS_MIN));
        let grace = Period(Duration::from_millis(RELEASE_GRACE_MS));
        let wait = Period(Duration::from_millis(ADOPT_AFTER_MS));
        Ok(Upkeep {
            release_grace: self.period("upkeep.release_grace", release_grace, grace, grace_min, day)?,
            scrub_period: self.period(
                "upkeep.scrub_period",
                scrub_period,
                seconds(30 * 24 * 3600),
                seconds(3600),
                year,
            )?,
            heal_bytes_per_second: match heal_bandwidth {
                Some(bound) => self.within("upkeep.heal_bandwidth", bound, mib(1), mib(1 << 20))?.0,
                None => 0,
            },
            adopt_after: self.period("upkeep.adopt_after", adopt_after, wait, seconds(0), day)?,
        })
    }

    fn log(&self, log: LogSettings) -> Result<Log, ConfigError> {
        let LogSettings { format, level, slow_request } = log;
        let level = level.unwrap_or_else(|| "info".to_owned());
        if let Err(error) = parse_level(&level) {
            let why = error.to_string();
            return Err(self.refuse("log.level", InvalidValue::LogLevel { level, why }));
        }
        let (default, max) = (seconds(1), seconds(3600));
        let slow_request = self.period("log.slow_request", slow_request, default, seconds(0), max)?;
        Ok(Log { format: format.unwrap_or(LogFormat::Text), level, slow_request })
    }
}

#[cfg(test)]
mod tests;
