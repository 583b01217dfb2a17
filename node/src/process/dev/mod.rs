//! `sherd-node dev`: one directory becomes a node to try out, or, with `--nodes`, a cluster of processes.
//!
//! The first start makes the volumes and a random key pair; later starts find them. The output can be pasted
//! into a shell. Several nodes: `cluster` makes what they are started from, `supervisor` keeps them running,
//! each as one `child`.

mod child;
pub mod nodes;
mod limits;
pub mod lines;
mod ports;
pub mod supervisor;
pub mod variables;

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sherd_core::env::Rng;

use crate::process::cli::DevArgs;
use crate::process::config::credentials::{CREDENTIALS_FILE, RootPairs};
use crate::process::config::directory::make_directory;
use crate::process::config::error::ConfigError;
use crate::process::config::settings::{Settings, UpkeepSettings, WordList};
use crate::process::config::variables::Variables;
use crate::process::config::{Config, master_key};
use sherd_store::machine::quantity::Period;

/// Volumes of the only node, where no number is given: 2+2.
const VOLUMES: u16 = 4;
/// Only the owner may read them.
const CREDENTIALS_MODE: u32 = 0o600;

/// A node to try out, and how to talk to it.
#[derive(Debug)]
pub struct Dev {
    /// The settings of the node.
    pub config: Config,
    credentials_file: PathBuf,
}

/// Makes what is missing in the directory and configures a node on it.
///
/// # Errors
/// [`ConfigError`] when the directory cannot be made, or its credentials are open to others.
pub fn prepare(arguments: DevArgs, variables: Variables, rng: &dyn Rng) -> Result<Dev, ConfigError> {
    let Variables { settings: given, sources } = variables;
    let DevArgs {
        dir,
        volumes,
        listen,
        admin_listen,
        iam_listen,
        log,
        nodes: _,
        node_listen: _,
        show_log: _,
    } = arguments;
    let absolute = make_directory(&dir)?;
    let mut paths = Vec::new();
    for number in 1..=volumes.unwrap_or(VOLUMES) {
        let path = absolute.join(format!("v{number}"));
        make_directory(&path)?;
        paths.push(path.to_string_lossy().into_owned());
    }
    let credentials_file = dir.join(CREDENTIALS_FILE);
    RootPairs::find_or_make(&credentials_file, CREDENTIALS_MODE, rng)?;
    let master_key_file = absolute.join(master_key::FILE);
    master_key::find_or_make(&master_key_file, CREDENTIALS_MODE, rng)?;
    let settings = Settings {
        volumes: Some(WordList(paths)),
        credentials_file: Some(absolute.join(CREDENTIALS_FILE)),
        master_key_file: Some(master_key_file),
        listen: Some(listen),
        admin_listen: Some(admin_listen),
        iam_listen: Some(ports::iam_or_default(iam_listen, listen)),
        // A user may remove a volume to see it come back.
        upkeep: UpkeepSettings { adopt_after: Some(Period(Duration::ZERO)), ..given.upkeep },
        log,
        ..given
    };
    let config = Config { vouch: true, ..Config::resolve(settings, None, &sources)? };
    Ok(Dev { config, credentials_file })
}

impl Dev {
    /// The lines to paste into another terminal, for a node that listens on `s3` and, for IAM, on `iam`.
    pub fn example(&self, s3: SocketAddr, iam: Option<SocketAddr>) -> String {
        example(&self.credentials_file, &self.config.region, s3, iam)
    }
}

/// Writes the lines to paste into another terminal for a first object and a first user.
fn example(credentials_file: &Path, region: &str, s3: SocketAddr, iam: Option<SocketAddr>) -> String {
    let aws = format!("aws --endpoint-url http://{} --region {region}", reachable(s3));
    let mut text = String::from("\nTry it from another terminal in this directory:\n");
    for line in [
        format!("set -a; . {}; set +a", for_shell(credentials_file)),
        format!("{aws} s3 mb s3://demo"),
        format!("echo hello | {aws} s3 cp - s3://demo/hello.txt"),
        format!("{aws} s3 ls s3://demo/"),
        format!("{aws} s3 cp s3://demo/hello.txt -"),
    ] {
        writeln!(text, "  {line}").expect("a String takes every text");
    }
    if let Some(iam) = iam {
        let aws = format!("aws --endpoint-url http://{} --region {region} iam", reachable(iam));
        for line in
            [format!("{aws} create-user --user-name ada"), format!("{aws} create-access-key --user-name ada")]
        {
            writeln!(text, "  {line}").expect("a String takes every text");
        }
    }
    text
}

/// An address that a client on this machine can connect to.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A path as `.` of a shell takes it: with a slash, or it would be looked up in PATH, and quoted
/// where it needs to be.
fn for_shell(path: &Path) -> String {
    let text = path.to_string_lossy();
    let slashed = if text.starts_with(['/', '.']) { text.into_owned() } else { format!("./{text}") };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_');
    if slashed.bytes().all(plain) { slashed } else { format!("'{}'", slashed.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::process::config::credentials::InvalidCredentials;
    use crate::process::config::private_file::PrivateFileError;
    use crate::process::config::settings::LogSettings;
    use sherd_store::machine::system::SystemRng;

    fn start(dir: &Path, volumes: u16) -> Result<Dev, ConfigError> {
        start_with(dir, volumes, Variables::default())
    }

    fn start_with(dir: &Path, volumes: u16, variables: Variables) -> Result<Dev, ConfigError> {
        let any = "127.0.0.1:0".parse().expect("an address");
        let arguments = DevArgs {
            dir: dir.to_owned(),
            nodes: None,
            volumes: Some(volumes),
            listen: any,
            admin_listen: any,
            iam_listen: None,
            node_listen: None,
            show_log: false,
            log: LogSettings::default(),
        };
        prepare(arguments, variables, &SystemRng)
    }

    #[test]
    fn the_first_start_makes_volumes_and_credentials_and_the_second_finds_them() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("a/b");
        let first = start(&data, 4).expect("made");
        assert_eq!(first.config.volumes.len(), 4);
        assert_eq!(first.config.upkeep.adopt_after, Duration::ZERO);
        assert!(first.config.volumes[3].ends_with("a/b/v4"));
        let second = start(&data, 4).expect("found");
        assert_eq!(first.config.credentials, second.config.credentials);
    }

    #[test]
    fn settings_of_the_environment_reach_the_node() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let grace = Some(Period(Duration::from_mins(2)));
        let settings = Settings {
            region: Some("eu-west-1".to_owned()),
            upkeep: UpkeepSettings { release_grace: grace, ..UpkeepSettings::default() },
            ..Settings::default()
        };
        let dev = start_with(dir.path(), 4, Variables { settings, ..Variables::default() }).expect("made");
        assert_eq!(dev.config.upkeep.release_grace, Duration::from_mins(2));
        assert_eq!(dev.config.upkeep.adopt_after, Duration::ZERO);
        let text = dev.example("127.0.0.1:9000".parse().expect("an address"), None);
        assert!(text.contains("--region eu-west-1 s3 mb"), "{text}");
    }

    #[test]
    fn credentials_that_others_may_read_are_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        start(dir.path(), 1).expect("made");
        let file = dir.path().join(CREDENTIALS_FILE);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("my own file");
        let error = start(dir.path(), 1).expect_err("open to others");
        assert!(
            matches!(
                error,
                ConfigError::Credentials(InvalidCredentials::File(PrivateFileError::Mode {
                    mode: 0o644,
                    ..
                }))
            ),
            "{error}"
        );
    }

    #[test]
    fn the_example_can_be_pasted() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut dev = start(dir.path(), 1).expect("made");
        dev.credentials_file = PathBuf::from("./sherd-data/credentials.env");
        let text = dev.example("0.0.0.0:9000".parse().expect("an address"), None);
        assert!(text.contains("set -a; . ./sherd-data/credentials.env; set +a\n"), "{text}");
        assert!(
            text.contains("aws --endpoint-url http://127.0.0.1:9000 --region us-east-1 s3 mb s3://demo\n"),
            "{text}"
        );
        assert!(!text.contains(dev.config.credentials.first.secret_access_key.expose()));
    }

    #[test]
    fn paths_are_written_for_a_shell() {
        assert_eq!(for_shell(Path::new("data/credentials.env")), "./data/credentials.env");
        assert_eq!(for_shell(Path::new("/tmp/my data/c")), "'/tmp/my data/c'");
        assert_eq!(for_shell(Path::new("../it's/c")), r"'../it'\''s/c'");
    }
}
