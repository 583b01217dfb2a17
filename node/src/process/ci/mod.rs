//! Nodes that others' habits start: `sherd-node ci`, a node for the tests of an application, and `sherd-node
//! server`, which takes the command line of MinIO.
//!
//! ```text
//! ci       four volumes in a directory, in memory or in a temporary one; durability = none
//! server   a durable node on the directories of its command line
//! ```
//! Both take keys, a region and buckets by `names`, answer the health paths of MinIO on the S3 port, and
//! serve S3 when the buckets are there.

mod directory;
pub(crate) mod limits;
mod names;
pub mod server;

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use sherd_core::env::Rng;

use self::directory::{NodeDirectory, TemporaryError};
use self::names::Lookup;
use super::config::credentials::{CREDENTIALS_FILE, Credentials, InvalidCredentials, RootPairs};
use super::config::directory::make_directory;
use super::config::error::ConfigError;
use super::config::first_buckets::{FirstBucket, InvalidBuckets};
use super::config::settings::{
    ClusterSettings, Durability, LogSettings, S3Settings, Settings, UnsupportedAcl, UpkeepSettings, WordList,
};
use super::config::variables::Variables;
use super::config::volumes::InvalidVolumes;
use super::config::{CREDENTIALS_MODE, Config, S3_PORT, master_key};
use super::serve::run::Addresses;
use sherd_store::machine::quantity::Period;

/// Volumes of `ci`: 2+2.
const VOLUMES: u8 = 4;
/// Where both serve S3 when nothing else is said: a container is reached from outside.
const S3_EVERYWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), S3_PORT);
/// Where `ci` serves metrics and health: on a free port, for probes ask at the S3 port.
const ADMIN_ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The least severe lines that `ci` logs.
const LOG_LEVEL: &str = "warn";
/// Variables of a node of production: where one is set, `serve` was meant.
const REFUSED: [&str; 4] = ["SHERD_CONFIG", "SHERD_VOLUMES", "SHERD_CLUSTER_ID", "SHERD_CLUSTER_NODES"];
/// Variables of `serve` that neither of the two uses.
const UNUSED: [&str; 10] = [
    "SHERD_LIVE_CONFIG",
    "SHERD_NODE_LISTEN",
    "SHERD_CLUSTER_NAME",
    "SHERD_CLUSTER_NODE",
    "SHERD_CLUSTER_SET_SIZE",
    "SHERD_CLUSTER_CA",
    "SHERD_CLUSTER_CERT",
    "SHERD_CLUSTER_KEY",
    "SHERD_CLUSTER_RECONNECT_AFTER",
    "SHERD_CLUSTER_FORMED",
];
/// Variables that `ci` decides itself, beside these.
const DECIDED: [&str; 2] = ["SHERD_DURABILITY", "SHERD_UPKEEP_ADOPT_AFTER"];

/// `sherd-node ci`.
#[derive(Debug, Args)]
pub struct CiArgs {
    /// Directory of the volumes; made when it is not there, and kept [default: a temporary one, which is
    /// removed at the end]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep all in memory: the temporary directory is one in /dev/shm
    #[arg(long, conflicts_with = "dir")]
    pub memory: bool,
    /// Address of the S3 listener; port 0 takes a free one [default: `[::]:9000`]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Address of metrics and health, without authentication [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,
    /// Address of the query API of IAM and STS [default: none, not served]
    #[arg(long, value_name = "ADDRESS")]
    pub iam_listen: Option<SocketAddr>,
    /// Region that clients sign for [default: us-east-1]
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Buckets that are made before S3 is served, each with who may use it without a key: none, download,
    /// upload or public, as in photos:download,logs
    #[arg(long, env = "SHERD_BUCKETS", value_name = "NAMES")]
    pub buckets: Option<String>,
    /// The part of the log that is written; lines from `warn` on, where nothing is said.
    #[command(flatten)]
    pub log: LogSettings,
}

/// The environment of the process.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Looks a variable up.
    pub variable: Lookup<'a>,
    /// The names of all.
    pub names: &'a [String],
}

impl std::fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}

impl Environment<'_> {
    /// Refuses the variables of a node of production.
    fn check(self) -> Result<(), CiError> {
        let is_set = |name: &&str| (self.variable)(name).is_some_and(|value| !value.is_empty());
        REFUSED.into_iter().find(is_set).map_or(Ok(()), |name| Err(CiError::OfServe(name)))
    }

    /// The variables that are set and not used, `decided` among them; `further` ones of MinIO are used.
    fn unused(self, decided: &[&str], further: &[&str]) -> Vec<String> {
        let is_own = |name: &str| UNUSED.contains(&name) || decided.contains(&name);
        let own = self.names.iter().filter(|name| is_own(name)).cloned();
        own.chain(names::ignored(self.names.iter().cloned(), further)).collect()
    }
}

/// A node that is to be started, and the words for it.
#[derive(Debug)]
pub struct LoneNode {
    /// The settings of the node.
    pub config: Config,
    /// The line to print before it starts.
    pub first_line: String,
    /// Whether its key pair was made here.
    has_own_keys: bool,
    /// Removes a temporary directory with the value.
    _directory: Option<NodeDirectory>,
}

/// The node cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum CiError {
    /// A setting or a directory.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The key pair.
    #[error(transparent)]
    Credentials(#[from] InvalidCredentials),
    /// The list of buckets.
    #[error(transparent)]
    Buckets(#[from] InvalidBuckets),
    /// A temporary directory cannot be made.
    #[error(transparent)]
    Temporary(#[from] TemporaryError),
    /// The directories of `server`.
    #[error(transparent)]
    Directories(#[from] InvalidVolumes),
    /// A directory that lies on another machine.
    #[error("{0}: several nodes are a cluster, which `sherd-node serve` runs (docs/operations/cluster.md)")]
    Remote(String),
    /// A directory with the data of MinIO.
    #[error("{path} holds data of MinIO, which Sherd does not read: name an empty directory", path = path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// A variable of a node of production.
    #[error("{0} is set: it is for `sherd-node serve`")]
    OfServe(&'static str),
    /// A directory with the volumes of another node, which are durable.
    #[error("{path} has volumes that are not of `sherd-node ci`, which would make them lose writes", path = path.display())]
    NotOfCi {
        /// The directory.
        path: PathBuf,
    },
    /// The directory of `ci` cannot be marked.
    #[error("mark {path}: {source}", path = path.display())]
    Mark {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// An address that is malformed.
    #[error("address {0}: expected :PORT or IP:PORT")]
    Address(String),
    /// Certificates in the way of MinIO.
    #[error("--certs-dir is not read: SHERD_TLS_CERT and SHERD_TLS_KEY name the certificate and its key")]
    Certificates,
    /// Several directories, none of which is the place of the only copy of a key.
    #[error("several directories need keys of yours: set MINIO_ROOT_USER and MINIO_ROOT_PASSWORD")]
    Keys,
}

/// Makes the directory of `ci` and configures a node on it.
///
/// # Errors
/// [`CiError`] names what cannot be made or is not valid.
pub fn prepare(
    arguments: CiArgs,
    environment: Environment<'_>,
    variables: Variables,
    rng: &dyn Rng,
) -> Result<LoneNode, CiError> {
    let CiArgs { dir, memory, listen, admin_listen, iam_listen, region, buckets, log } = arguments;
    let Variables { settings: given, sources } = variables;
    environment.check()?;
    let buckets = names::buckets(buckets.as_deref(), environment.variable)?;
    let of_minio = names::address(environment.variable).map(address_of).transpose()?;
    let directory = match dir {
        Some(dir) => NodeDirectory::Kept(make_directory(&dir)?),
        None => NodeDirectory::temporary(memory, rng)?,
    };
    let path = directory.path().to_owned();
    let volumes: Vec<_> = (1..=VOLUMES).map(|number| path.join(format!("v{number}"))).collect();
    match directory::mark(&path, &volumes) {
        Ok(true) => {}
        Ok(false) => return Err(CiError::NotOfCi { path }),
        Err(source) => return Err(CiError::Mark { path, source }),
    }
    for volume in &volumes {
        make_directory(volume)?;
    }
    let settings = Settings {
        listen: Some(listen.or(given.listen).or(of_minio).unwrap_or(S3_EVERYWHERE)),
        admin_listen: Some(admin_listen.or(given.admin_listen).unwrap_or(ADMIN_ANYWHERE)),
        iam_listen: iam_listen.or(given.iam_listen),
        region: region.or_else(|| given.region.clone()),
        s3: S3Settings {
            unsupported_acl: given.s3.unsupported_acl.or(Some(UnsupportedAcl::Ignore)),
            health_paths: given.s3.health_paths,
        },
        durability: Some(Durability::None),
        upkeep: UpkeepSettings { adopt_after: Some(Period(Duration::ZERO)), ..given.upkeep },
        log: LogSettings { level: log.level.or_else(|| Some(LOG_LEVEL.to_owned())), ..log },
        ..given
    };
    let keys = Keys::find(environment, &settings, Some(directory.path()), rng)?;
    let (settings, has_own_keys) = (of_others(settings, &volumes, environment), keys.is_own);
    let config = keys.configure(settings, buckets, rng, &sources)?;
    let mut first_line = format!(
        "sherd-node ci: durability = none, a power cut loses objects. {VOLUMES} volumes in {}{}\n",
        directory.path().display(),
        if directory.is_kept() { "" } else { ", which goes with this process" }
    );
    say_unused(&mut first_line, "ci", &environment.unused(&DECIDED, &[]));
    Ok(LoneNode {
        config: Config { segment_bytes: limits::SEGMENT_BYTES, vouch: true, ..config },
        first_line,
        has_own_keys,
        _directory: Some(directory),
    })
}

/// Adds a line that names what is not used.
fn say_unused(text: &mut String, command: &str, unused: &[String]) {
    if !unused.is_empty() {
        writeln!(text, "sherd-node {command}: does not use {}", unused.join(", "))
            .expect("a String takes every text");
    }
}

/// Settings with what the files and clients of others expect, where nothing else was said.
fn of_others(settings: Settings, volumes: &[PathBuf], environment: Environment<'_>) -> Settings {
    let S3Settings { unsupported_acl, health_paths } = settings.s3;
    Settings {
        volumes: Some(WordList(volumes.iter().map(|path| path.to_string_lossy().into_owned()).collect())),
        region: settings.region.or_else(|| names::region(environment.variable)),
        s3: S3Settings { unsupported_acl, health_paths: health_paths.or(Some(true)) },
        node_listen: None,
        cluster: ClusterSettings::default(),
        ..settings
    }
}

/// The keys of a node: root's pair, and the master key.
struct Keys {
    given: Option<Credentials>,
    credentials_file: Option<PathBuf>,
    master_key_file: Option<PathBuf>,
    /// Whether root's pair was made here.
    is_own: bool,
}

impl Keys {
    /// Takes root's pair from the variables or the file that `settings` name, or finds or makes one in
    /// `place`. The master key, too, is made there, where none is named.
    ///
    /// # Errors
    /// [`CiError`] for half a pair, a file that cannot be used, and no pair without a `place`.
    fn find(
        environment: Environment<'_>,
        settings: &Settings,
        place: Option<&Path>,
        rng: &dyn Rng,
    ) -> Result<Self, CiError> {
        let named = settings.credentials_file.clone();
        let given = names::credentials(environment.variable, named.is_some())?;
        let is_own = given.is_none() && named.is_none();
        let credentials_file = match (is_own, place) {
            (false, _) => named,
            (true, None) => return Err(CiError::Keys),
            (true, Some(place)) => {
                let path = place.join(CREDENTIALS_FILE);
                RootPairs::find_or_make(&path, CREDENTIALS_MODE, rng)?;
                Some(path)
            }
        };
        let own_master_key = || place.map(|place| place.join(master_key::FILE));
        let master_key_file = settings.master_key_file.clone().or_else(own_master_key);
        Ok(Self { given, credentials_file, master_key_file, is_own })
    }

    /// Judges the settings of a node with these keys.
    fn configure(
        self,
        settings: Settings,
        first_buckets: Vec<FirstBucket>,
        rng: &dyn Rng,
        sources: &super::config::source::Sources,
    ) -> Result<Config, CiError> {
        let Self { given, credentials_file, master_key_file, is_own: _ } = self;
        if let Some(path) = &master_key_file {
            master_key::find_or_make(path, CREDENTIALS_MODE, rng).map_err(ConfigError::from)?;
        }
        let settings = Settings { credentials_file, master_key_file, ..settings };
        let config = Config::resolve(settings, given, sources)?;
        let s3 = super::config::S3Config { first_buckets, ..config.s3 };
        Ok(Config { s3, ..config })
    }
}

/// An address in the way of MinIO.
fn address_of(text: String) -> Result<SocketAddr, CiError> {
    names::parse_address(&text).ok_or(CiError::Address(text))
}

/// The address of a listener for a client on this machine: one on all addresses takes IPv4 in any case.
fn on_this_machine(address: SocketAddr) -> SocketAddr {
    let is_all = address.ip().is_unspecified();
    if is_all { SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port()) } else { address }
}

impl LoneNode {
    /// The line that says that S3 is served: where, for which region, and the keys where they were made here.
    pub fn ready(&self, addresses: Addresses) -> String {
        let scheme = if addresses.tls { "https" } else { "http" };
        let mut line =
            format!("ready {scheme}://{} region={}", on_this_machine(addresses.s3), self.config.region);
        if let Some(iam) = addresses.iam {
            write!(line, " iam={scheme}://{}", on_this_machine(iam)).expect("a String takes every text");
        }
        if self.has_own_keys {
            let Credentials { access_key_id, secret_access_key } = &self.config.credentials.first;
            let secret = secret_access_key.expose();
            write!(line, " access_key_id={access_key_id} secret_access_key={secret}")
                .expect("a String takes every text");
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests;
