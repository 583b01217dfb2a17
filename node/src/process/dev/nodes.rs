//! The directory of `dev --nodes N`: what N processes are started from.
//!
//! ```text
//! sherd-data/credentials.env              the key pair, which serves all nodes
//!            pki/{ca,n1,..,admin}.{crt,key}
//!            n1/sherd.toml                written at each start of `dev`
//!            n1/v1 ..                     its volumes
//!            n1/pid                       of its process
//!            n1/log, n1/log.old           what it logs
//!            n1/hold                      made by a person: keeps the node down
//! ```
//!
//! The authority is made once and kept, and with it the cluster's id; the other certificates are issued at
//! each start. Each node's file is judged as the node will judge it, so a mistake ends `dev` and not N nodes.

#![expect(clippy::disallowed_methods, reason = "makes the directories and files that nodes are started from")]

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde::Serialize;
use sherd_core::env::{Clock, Rng};
use sherd_core::id::ClusterId;
use sherd_trust::limits::LEAF_LIFETIME;
use sherd_trust::{Authority, AuthorityError, Role};

use super::ports::{self, FirstPorts, NodePorts, PortError};
use super::{CREDENTIALS_MODE, example, for_shell, reachable};
use crate::log::{Log, LogFormat};
use crate::process::cli::DevArgs;
use crate::process::config::credentials::{CREDENTIALS_FILE, Credentials, InvalidCredentials, RootPairs};
use crate::process::config::directory::make_directory;
use crate::process::config::error::ConfigError;
use crate::process::config::files::ConfigFiles;
use crate::process::config::settings::LogSettings;
use crate::process::config::variables::Variables;
use crate::process::config::{Config, master_key};

/// Volumes of each node, where no number is given.
const VOLUMES: u16 = 1;
const NAME: &str = "dev";
/// The name in the certificate with which a person looks at the cluster.
const ADMIN: &str = "admin";
/// How long requests under way may take to end: with the closing of volumes less than the supervisor waits.
const SHUTDOWN_TIMEOUT: &str = "20s";
/// Bits of a file that its owner alone may read.
const PRIVATE: u32 = 0o600;
/// Bits of a file that everybody may read.
const PUBLIC: u32 = 0o644;

/// A cluster of processes to try out.
#[derive(Debug)]
pub struct DevCluster {
    pub(crate) nodes: Vec<DevNode>,
    /// The directory as a person passes it to commands: as given on the command line, for it is shown.
    directory: PathBuf,
    /// Whether the terminal shows the nodes' logs.
    pub(crate) show_log: bool,
    /// The part of the log that the supervisor writes: as its nodes do.
    log: Log,
    /// The region that clients sign for.
    region: String,
}

#[derive(Debug)]
pub(crate) struct DevNode {
    /// `n1`, `n2`, ..
    pub(crate) name: String,
    /// Directory with the node's file, its volumes, `pid` and `hold`.
    pub(crate) directory: PathBuf,
    /// `sherd.toml` there.
    pub(crate) config: PathBuf,
    /// Volumes of the node: missing ones are made before each start.
    pub(crate) volumes: Vec<PathBuf>,
    ports: NodePorts,
}

/// The cluster cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// A setting, a directory or the credentials.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The key pair.
    #[error(transparent)]
    Credentials(#[from] InvalidCredentials),
    /// The addresses.
    #[error(transparent)]
    Ports(#[from] PortError),
    /// A certificate cannot be made, or the authority's is damaged.
    #[error("certificates in {path}: {source}", path = path.display())]
    Authority {
        /// The directory.
        path: PathBuf,
        /// The fault.
        source: AuthorityError,
    },
    /// A file cannot be read or written.
    #[error("{op} {path}: {source}", path = path.display())]
    Io {
        /// The action that failed.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A path that a file of settings cannot hold.
    #[error("{path} is not UTF-8", path = path.display())]
    Path {
        /// The directory.
        path: PathBuf,
    },
}

/// Makes what is missing in the directory, and writes the file of each of `count` nodes.
///
/// # Errors
/// [`DevError`] names what cannot be made, or the setting that no node would take.
pub fn prepare(
    arguments: DevArgs,
    count: u8,
    variables: &Variables,
    clock: &dyn Clock,
    rng: &dyn Rng,
) -> Result<DevCluster, DevError> {
    let DevArgs { dir, nodes: _, volumes, listen, admin_listen, iam_listen, node_listen, show_log, log } =
        arguments;
    let absolute = make_directory(&dir)?;
    let credentials_file = absolute.join(CREDENTIALS_FILE);
    let credentials = RootPairs::find_or_make(&credentials_file, CREDENTIALS_MODE, rng)?;
    let master_key_file = absolute.join(master_key::FILE);
    master_key::find_or_make(&master_key_file, CREDENTIALS_MODE, rng).map_err(ConfigError::from)?;
    let ports = ports::choose(
        count.into(),
        FirstPorts { s3: listen, admin: admin_listen, iam: iam_listen, node: node_listen },
    )?;
    let nodes: Vec<_> = (1..)
        .zip(ports)
        .map(|(number, ports)| DevNode::new(&absolute, number, volumes.unwrap_or(VOLUMES), ports))
        .collect();
    let pki = Pki { directory: absolute.join("pki") };
    let cluster = pki.make(&nodes, clock.wall_ms(), rng)?;
    let mut judged = None;
    for node in &nodes {
        make_directory(&node.directory)?;
        node.make_volumes()?;
        let secrets = SecretFiles { credentials: &credentials_file, master_key: &master_key_file };
        let text = node.file(&nodes, cluster, secrets, &pki, &log)?;
        replace(&node.config, text.as_bytes(), PUBLIC)?;
        judged = Some(judge(&node.config, variables, credentials.first.clone())?);
    }
    let Config { log, region, .. } = judged.expect("there is at least one node");
    Ok(DevCluster { nodes, directory: dir, show_log, log, region })
}

/// Judges a node's file, and the variables beside it, as the node will.
fn judge(config: &Path, variables: &Variables, credentials: Credentials) -> Result<Config, ConfigError> {
    let Variables { settings, sources } = variables.clone();
    let (_, start) = ConfigFiles::new(settings, sources, Some(config.to_owned()), None)?.start()?;
    Config::resolve(start.settings, Some(credentials), &start.sources)
}

impl DevNode {
    fn new(data: &Path, number: usize, volumes: u16, ports: NodePorts) -> Self {
        let name = format!("n{number}");
        let directory = data.join(&name);
        let volumes = (1..=volumes).map(|number| directory.join(format!("v{number}"))).collect();
        Self { config: directory.join("sherd.toml"), name, directory, volumes, ports }
    }

    /// Makes the volumes that are missing. An empty one counts as a new disk.
    ///
    /// # Errors
    /// [`ConfigError::CreateDirectory`].
    pub(crate) fn make_volumes(&self) -> Result<(), ConfigError> {
        self.volumes.iter().try_for_each(|volume| make_directory(volume).map(drop))
    }

    /// Says whether a person keeps the node down.
    pub(crate) fn is_held(&self) -> bool {
        self.directory.join("hold").exists()
    }

    /// Writes the id of its process.
    ///
    /// # Errors
    /// [`DevError::Io`].
    pub(crate) fn write_pid(&self, pid: u32) -> Result<(), DevError> {
        replace(&self.directory.join("pid"), format!("{pid}\n").as_bytes(), PUBLIC)
    }

    fn file(
        &self,
        nodes: &[Self],
        cluster: ClusterId,
        secrets: SecretFiles<'_>,
        pki: &Pki,
        log: &LogSettings,
    ) -> Result<String, DevError> {
        let volumes: Result<_, _> = self.volumes.iter().map(|path| text(path)).collect();
        let file = NodeFile {
            volumes: volumes?,
            listen: self.ports.s3.to_string(),
            admin_listen: self.ports.admin.to_string(),
            iam_listen: self.ports.iam.to_string(),
            node_listen: self.ports.node.to_string(),
            credentials_file: text(secrets.credentials)?,
            master_key_file: text(secrets.master_key)?,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            cluster: ClusterTable {
                id: cluster.to_string(),
                name: NAME,
                nodes: nodes
                    .iter()
                    .map(|node| format!("{}@{}", node.name, reachable(node.ports.node)))
                    .collect(),
                node: &self.name,
                ca: text(&pki.path("ca", "crt"))?,
                cert: text(&pki.path(&self.name, "crt"))?,
                key: text(&pki.path(&self.name, "key"))?,
            },
            upkeep: UpkeepTable { adopt_after: "0s" },
            log: LogTable {
                format: log
                    .format
                    .as_ref()
                    .and_then(LogFormat::to_possible_value)
                    .map(|value| value.get_name().to_owned()),
                level: log.level.clone(),
                slow_request: log.slow_request.map(|period| period.to_string()),
            },
        };
        let text = toml::to_string(&file);
        let text = text.expect("texts, lists of texts and tables of texts are TOML");
        Ok(format!("# Written by `sherd-node dev --nodes` at each start.\n{text}"))
    }
}

/// The files of secrets, which all nodes share.
#[derive(Debug, Clone, Copy)]
struct SecretFiles<'a> {
    credentials: &'a Path,
    master_key: &'a Path,
}

/// `sherd.toml` of a node.
#[derive(Serialize)]
struct NodeFile<'a> {
    volumes: Vec<String>,
    listen: String,
    admin_listen: String,
    iam_listen: String,
    node_listen: String,
    credentials_file: String,
    master_key_file: String,
    shutdown_timeout: &'static str,
    cluster: ClusterTable<'a>,
    upkeep: UpkeepTable,
    log: LogTable,
}

#[derive(Serialize)]
struct ClusterTable<'a> {
    id: String,
    name: &'static str,
    nodes: Vec<String>,
    node: &'a str,
    ca: String,
    cert: String,
    key: String,
}

#[derive(Serialize)]
struct UpkeepTable {
    adopt_after: &'static str,
}

#[derive(Serialize)]
struct LogTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow_request: Option<String>,
}

struct Pki {
    directory: PathBuf,
}

impl Pki {
    fn path(&self, name: &str, suffix: &str) -> PathBuf {
        self.directory.join(format!("{name}.{suffix}"))
    }

    /// Finds or makes the authority, issues the other certificates, and says whose they are.
    fn make(&self, nodes: &[DevNode], now_ms: u64, rng: &dyn Rng) -> Result<ClusterId, DevError> {
        make_directory(&self.directory)?;
        let failed = |source| DevError::Authority { path: self.directory.clone(), source };
        let authority = self.find_or_make_authority(now_ms, rng)?;
        let named = nodes.iter().map(|node| (node.name.as_str(), Role::Node));
        for (name, role) in named.chain([(ADMIN, Role::Admin)]) {
            let issued = authority.issue(name, role, now_ms, LEAF_LIFETIME).map_err(failed)?;
            replace(&self.path(name, "key"), issued.key.as_bytes(), PRIVATE)?;
            replace(&self.path(name, "crt"), issued.certificate.as_bytes(), PUBLIC)?;
        }
        Ok(authority.cluster())
    }

    /// Writes a new authority's key first: an authority is there when its certificate is.
    fn find_or_make_authority(&self, now_ms: u64, rng: &dyn Rng) -> Result<Authority, DevError> {
        let failed = |source| DevError::Authority { path: self.directory.clone(), source };
        let (certificate, key) = (self.path("ca", "crt"), self.path("ca", "key"));
        match std::fs::read_to_string(&certificate) {
            Ok(text) => {
                let key = std::fs::read_to_string(&key).map_err(|source| DevError::Io {
                    op: "read",
                    path: key,
                    source,
                })?;
                Authority::load(&text, &key).map_err(failed)
            }
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                let mut id = [0; 16];
                rng.fill(&mut id);
                let authority = Authority::init(ClusterId(id), now_ms).map_err(failed)?;
                replace(&key, authority.key().as_bytes(), PRIVATE)?;
                replace(&certificate, authority.certificate().as_bytes(), PUBLIC)?;
                // Volumes carry the cluster's id: a power cut must not take the authority that says it.
                File::open(&self.directory)
                    .and_then(|directory| directory.sync_all())
                    .map_err(|source| DevError::Io { op: "sync", path: self.directory.clone(), source })?;
                Ok(authority)
            }
            Err(source) => Err(DevError::Io { op: "read", path: certificate, source }),
        }
    }
}

impl DevCluster {
    /// Returns what the supervisor logs.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Writes where each node listens, and what to paste into another terminal.
    pub fn announcement(&self) -> String {
        let mut out = String::new();
        let rows = self.nodes.iter().map(|node| {
            let NodePorts { s3, admin, iam, node: peers } = node.ports;
            let http = |address| format!("http://{address}");
            [node.name.clone(), http(s3), http(admin), http(iam), peers.to_string()]
        });
        let heads = ["node", "S3", "admin", "IAM", "nodes"].map(str::to_owned);
        let rows: Vec<_> = std::iter::once(heads).chain(rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
        let [first, second, third, fourth] = [width(0), width(1), width(2), width(3)];
        for [name, s3, admin, iam, peers] in &rows {
            writeln!(out, "{name:first$}  {s3:second$}  {admin:third$}  {iam:fourth$}  {peers}").expect(TEXT);
        }
        let Some(DevNode { ports, name, .. }) = self.nodes.first() else { return out };
        out += &example(&self.directory.join(CREDENTIALS_FILE), &self.region, ports.s3, Some(ports.iam));
        let path = |path: &str| for_shell(&self.directory.join(path));
        writeln!(out, "\nLook at the cluster, and break it:").expect(TEXT);
        let status = format!(
            "sherd-node status --endpoint {} --ca {} --cert {} --key {}",
            reachable(ports.node),
            path("pki/ca.crt"),
            path("pki/admin.crt"),
            path("pki/admin.key")
        );
        let (pid, hold, volume) =
            (path(&format!("{name}/pid")), path(&format!("{name}/hold")), path(&format!("{name}/v1")));
        for line in [
            status,
            format!("kill -9 $(cat {pid})  # it starts again after 2 s, unless {hold} is there"),
            format!("rm -r {volume}; mkdir {volume}  # a new disk in place of a lost one: it is rebuilt"),
        ] {
            writeln!(out, "  {line}").expect(TEXT);
        }
        let log = self.directory.join("nX/log");
        writeln!(
            out,
            "\nThe log of nX is {}; --log shows all here. What happens from here on:",
            for_shell(&log)
        )
        .expect(TEXT);
        out
    }
}

/// Why writing to a `String` cannot fail.
const TEXT: &str = "a String takes every text";

/// Converts a path to the text that a file of settings holds.
fn text(path: &Path) -> Result<String, DevError> {
    path.to_str().map(str::to_owned).ok_or_else(|| DevError::Path { path: path.to_owned() })
}

/// Replaces a file as a whole: a reader finds the old bytes or the new ones.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), DevError> {
    let io = |op| move |source| DevError::Io { op, path: path.to_owned(), source };
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    // Left by a kill before the rename, perhaps with other bits.
    match std::fs::remove_file(&new) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(io("remove the unfinished")(source));
        }
        _ => {}
    }
    let open = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new);
    let mut file = open.map_err(io("create"))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io("write"))?;
    std::fs::rename(&new, path).map_err(io("rename to"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::process::config::settings::Settings;
    use sherd_store::machine::system::{SystemClock, SystemRng};

    fn arguments(dir: &Path, volumes: Option<u16>) -> DevArgs {
        let any = "127.0.0.1:0".parse().expect("an address");
        let log = LogSettings {
            format: Some(LogFormat::Json),
            level: Some("warn".to_owned()),
            ..LogSettings::default()
        };
        DevArgs {
            show_log: false,
            dir: dir.to_owned(),
            nodes: None,
            volumes,
            listen: any,
            admin_listen: any,
            iam_listen: None,
            node_listen: None,
            log,
        }
    }

    fn prepared(dir: &Path, count: u8, volumes: Option<u16>) -> Result<DevCluster, DevError> {
        prepared_with(dir, count, volumes, Settings::default())
    }

    fn prepared_with(
        dir: &Path,
        count: u8,
        volumes: Option<u16>,
        settings: Settings,
    ) -> Result<DevCluster, DevError> {
        let variables = Variables { settings, ..Variables::default() };
        prepare(arguments(dir, volumes), count, &variables, &SystemClock::new(), &SystemRng)
    }

    fn config_of(node: &DevNode) -> Config {
        let credentials = Credentials::random(&SystemRng);
        judge(&node.config, &Variables::default(), credentials).expect("it was judged when it was written")
    }

    #[test]
    fn every_node_is_told_of_all_and_which_one_it_is() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let made = prepared(&dir.path().join("with space"), 3, Some(2)).expect("made");
        let configs: Vec<_> = made.nodes.iter().map(config_of).collect();
        for (ordinal, config) in configs.iter().enumerate() {
            let cluster = config.cluster.as_ref().expect("they are a cluster");
            assert_eq!((cluster.node, cluster.nodes.len(), config.volumes.len()), (ordinal, 3, 2));
            assert_eq!(cluster.nodes[ordinal].address, cluster.node_listen.to_string());
            assert_eq!(config.digest(), configs[0].digest());
            assert_eq!(config.upkeep.adopt_after, std::time::Duration::ZERO);
            assert_eq!((config.log.format, config.log.level.as_str()), (LogFormat::Json, "warn"));
            assert!(!config.vouch);
            let files = cluster.files.as_ref().expect("they have certificates");
            let bits =
                |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
            assert_eq!((bits(&files.key), bits(&files.cert)), (0o600, 0o644));
        }
        assert_eq!(configs[0].shape.geometry.volumes(), 6);
    }

    #[test]
    fn certificates_are_those_of_the_nodes_and_of_an_admin() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        prepared(dir.path(), 2, None).expect("made");
        for (name, role) in [("n1", Role::Node), ("n2", Role::Node), (ADMIN, Role::Admin)] {
            let path = |suffix: &str| dir.path().join("pki").join(format!("{name}.{suffix}"));
            let pem = std::fs::read(path("crt")).expect("it was issued");
            let facts = sherd_trust::CertificateFacts::read_pem(&pem).expect("of this scheme");
            assert_eq!((facts.identity.name.as_str(), facts.identity.role), (name, role));
        }
    }

    #[test]
    fn a_second_start_keeps_the_cluster_and_makes_missing_volumes() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let id = |made: &DevCluster| config_of(&made.nodes[0]).cluster.expect("they are a cluster").id;
        let first = prepared(dir.path(), 2, None).expect("made");
        std::fs::remove_dir(&first.nodes[1].volumes[0]).expect("an empty directory");
        let second = prepared(dir.path(), 2, None).expect("found");
        assert_eq!(id(&first), id(&second));
        assert!(second.nodes[1].volumes[0].is_dir());
        std::fs::write(dir.path().join("pki/ca.key"), "broken").expect("my own file");
        let error = prepared(dir.path(), 2, None).expect_err("the authority cannot sign");
        assert!(matches!(error, DevError::Authority { .. }), "{error}");
    }

    #[test]
    fn a_geometry_that_no_node_would_take_is_refused_before_any_starts() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let error = prepared(dir.path(), 3, Some(17)).expect_err("51 volumes make no sets of 8 to 16");
        assert!(error.to_string().contains("no default set size fits"), "{error}");
    }

    #[test]
    fn settings_of_the_environment_are_judged_with_each_nodes_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let with = |settings| prepared_with(dir.path(), 2, None, settings);
        let text = with(Settings { region: Some("eu-west-1".to_owned()), ..Settings::default() });
        let text = text.expect("made").announcement();
        assert!(text.contains("--region eu-west-1 s3 mb"), "{text}");
        let refused = with(Settings { parity: Some(9), ..Settings::default() });
        let refused = refused.expect_err("more than there are volumes").to_string();
        assert!(refused.contains("parity"), "{refused}");
    }

    #[test]
    fn the_process_id_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let made = prepared(dir.path(), 1, None).expect("made");
        let node = &made.nodes[0];
        let pid = || std::fs::read_to_string(dir.path().join("n1/pid")).expect("it was written");
        std::fs::write(dir.path().join("n1/pid.new"), "half").expect("my own file");
        node.write_pid(12).expect("written");
        assert_eq!(pid(), "12\n");
        node.write_pid(13).expect("written");
        assert_eq!(pid(), "13\n");
        assert!(!dir.path().join("n1/pid.new").exists());
    }

    #[test]
    fn the_announcement_names_every_node_and_no_secret() {
        let address = |text: &str| text.parse().expect("an address");
        let node = |number: usize, port: &str| {
            let ports = NodePorts {
                s3: address(&format!("0.0.0.0:900{port}")),
                admin: address(&format!("127.0.0.1:920{port}")),
                iam: address(&format!("127.0.0.1:930{port}")),
                node: address(&format!("127.0.0.1:910{port}")),
            };
            DevNode::new(Path::new("/x/sherd-data"), number, 1, ports)
        };
        let made = DevCluster {
            show_log: false,
            nodes: vec![node(1, "0"), node(2, "1")],
            directory: PathBuf::from("./sherd-data"),
            log: Log {
                format: LogFormat::Text,
                level: "info".to_owned(),
                slow_request: std::time::Duration::ZERO,
            },
            region: "us-east-1".to_owned(),
        };
        let expected = "\
node  S3                   admin                  IAM                    nodes
n1    http://0.0.0.0:9000  http://127.0.0.1:9200  http://127.0.0.1:9300  127.0.0.1:9100
n2    http://0.0.0.0:9001  http://127.0.0.1:9201  http://127.0.0.1:9301  127.0.0.1:9101

Try it from another terminal in this directory:
  set -a; . ./sherd-data/credentials.env; set +a
  aws --endpoint-url http://127.0.0.1:9000 --region us-east-1 s3 mb s3://demo
  echo hello | aws --endpoint-url http://127.0.0.1:9000 --region us-east-1 s3 cp - s3://demo/hello.txt
  aws --endpoint-url http://127.0.0.1:9000 --region us-east-1 s3 ls s3://demo/
  aws --endpoint-url http://127.0.0.1:9000 --region us-east-1 s3 cp s3://demo/hello.txt -
  aws --endpoint-url http://127.0.0.1:9300 --region us-east-1 iam create-user --user-name ada
  aws --endpoint-url http://127.0.0.1:9300 --region us-east-1 iam create-access-key --user-name ada

Look at the cluster, and break it:
  sherd-node status --endpoint 127.0.0.1:9100 --ca ./sherd-data/pki/ca.crt --cert ./sherd-data/pki/admin.crt --key ./sherd-data/pki/admin.key
  kill -9 $(cat ./sherd-data/n1/pid)  # it starts again after 2 s, unless ./sherd-data/n1/hold is there
  rm -r ./sherd-data/n1/v1; mkdir ./sherd-data/n1/v1  # a new disk in place of a lost one: it is rebuilt

The log of nX is ./sherd-data/nX/log; --log shows all here. What happens from here on:
";
        assert_eq!(made.announcement(), expected);
    }
}
