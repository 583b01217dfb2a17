//! The command line of `sherd-node`: what can be asked, and what each exit code says.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::process::ca::CaArgs;
use crate::process::ci::CiArgs;
use crate::process::ci::server::ServerArgs;
use crate::process::config::settings::{LogSettings, Settings};
use crate::process::config::source::Sources;
use crate::process::convert::ConvertArgs;
use crate::process::health::HealthArgs;
use crate::process::import::ImportArgs;
use crate::process::inspect::InspectArgs;
use crate::process::probe::ProbeArgs;
use crate::process::status::StatusArgs;
use crate::process::user::UserArgs;

/// A storage node of Sherd, an S3-compatible, erasure-coded object store.
#[derive(Debug, Parser)]
#[command(name = "sherd-node", version, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node for trying out: makes its volumes and its credentials, and prints how to use it
    Dev(DevArgs),
    /// Run a node for tests: nothing is durable, keys and buckets come from the environment
    #[command(
        long_about = "Run a node for tests: nothing is durable, keys and buckets come from the environment.\n\n\
            Its first line says where the volumes are, a line `ready` that S3 is served and the buckets are there.\n\
            Variables: docs/ci.md.",
        after_help = EXIT_CODES
    )]
    Ci(Box<CiArgs>),
    /// Run a durable node by the command line of `minio server`
    #[command(
        long_about = "Run a durable node by the command line of `minio server`.\n\n\
            Keys come from MINIO_ROOT_USER and MINIO_ROOT_PASSWORD. The data is not MinIO's. docs/ci.md.",
        after_help = EXIT_CODES
    )]
    Server(Box<ServerArgs>),
    /// Say whether the node of this machine is ready
    Health(HealthArgs),
    /// Run a node as configured by a file, variables and flags
    #[command(
        long_about = "Run a node as configured by a file, variables and flags.\n\n\
            A flag wins over its variable, a variable over the file, the file over the default. The key\n\
            `limits.idle_timeout` of the file is the flag --limits-idle-timeout and the variable\n\
            SHERD_LIMITS_IDLE_TIMEOUT. Credentials come from SHERD_ACCESS_KEY_ID and\n\
            SHERD_SECRET_ACCESS_KEY or from the file that `credentials_file` names: there is no default.",
        after_help = EXIT_CODES
    )]
    Serve(Box<ServeArgs>),
    /// Say what is in volumes that no node is using, and whether it is whole
    Inspect(InspectArgs),
    /// Ask a node how its cluster is
    #[command(
        long_about = "Ask a node how its cluster is: its nodes, its volumes, its sets, and what is wrong.\n\n\
            Any certificate of the cluster will do, such as one made by `sherd-node ca issue --role admin`.",
        after_help = STATUS_EXIT_CODES
    )]
    Status(StatusArgs),
    /// Make and change users, their access keys and their policies
    #[command(
        long_about = "Make and change users, their access keys and their policies.\n\n\
            Asks a node of the cluster with the certificate of an admin or an operator, such as one made by\n\
            `sherd-node ca issue --role admin`. Changes are in force through every node when a command returns.",
        after_help = USER_EXIT_CODES
    )]
    User(UserArgs),
    /// Take over users, keys, policies and buckets of another store
    #[command(
        long_about = "Take over users, keys, policies and buckets of another store. Keys keep their ids and secrets.\n\n\
            Asks a node of the cluster with the certificate of an admin, such as one made by\n\
            `sherd-node ca issue --role admin`. What is there already and differs stays as it is; running it\n\
            again changes nothing, and goes on where a run was cut.",
        after_help = IMPORT_EXIT_CODES
    )]
    Import(ImportArgs),
    /// Make a cluster's certificate authority, and issue the certificates of its nodes and operators
    Ca(CaArgs),
    /// Print a Tenant of MinIO's operator as a StorageCluster, Buckets and BucketUsers
    #[command(
        long_about = "Print a Tenant of MinIO's operator as a StorageCluster, Buckets and BucketUsers, for kubectl apply.\n\n\
            What has no place in them is named at the head of the output and on standard error."
    )]
    Convert(ConvertArgs),
    /// Put an object through an S3 endpoint, read it back and remove it
    Probe(ProbeArgs),
}

/// `sherd-node dev`.
#[derive(Debug, Args)]
pub struct DevArgs {
    /// Directory of the volumes and of credentials.env; made when it is not there
    #[arg(long, value_name = "DIR", default_value = "./sherd-data")]
    pub dir: PathBuf,
    /// Run a cluster of that many processes on this machine, each with a directory, ports and a
    /// certificate of its own; the same number on every start
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub nodes: Option<u8>,
    /// How many volumes each node has; the same number on every start [default: 4, with --nodes 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub volumes: Option<u16>,
    /// Address of the S3 listener; port 0 takes a free one. Further nodes take the ports after it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    pub listen: SocketAddr,
    /// Address of metrics and health, without authentication. Further nodes take the ports after it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9200")]
    pub admin_listen: SocketAddr,
    /// Address of the query API of IAM, for users, keys and policies; further nodes take the ports after it
    /// [default: 127.0.0.1:9300; a free port where --listen has port 0]
    #[arg(long, value_name = "ADDRESS")]
    pub iam_listen: Option<SocketAddr>,
    /// Address of the first node for the other nodes; further nodes take the ports after it [default:
    /// the S3 port plus 100, on the loopback]
    #[arg(long, value_name = "ADDRESS", requires = "nodes")]
    pub node_listen: Option<SocketAddr>,
    /// Show on the terminal what goes to the log of each node
    #[arg(id = "show_log", long = "log", env = "SHERD_DEV_LOG")]
    pub show_log: bool,
    /// Settings of the log.
    #[command(flatten)]
    pub log: LogSettings,
}

/// `sherd-node serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Configuration in TOML; every key is in docs/configuration.md
    #[arg(long, env = "SHERD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A second file whose keys win over those of the first, of the keys that a running node takes; it need
    /// not exist
    #[arg(long, env = "SHERD_LIVE_CONFIG", value_name = "FILE")]
    pub live_config: Option<PathBuf>,
    /// For this one start, let volumes vote that too few of their peers confirm: an opened volume asks what
    /// its peers remember of it, and where they are gone for good a person must vouch that it lost nothing.
    /// If it did, acknowledged writes are lost
    #[arg(long)]
    pub vouch: bool,
    /// End at once when the process of this id, which started this one, has ended
    #[arg(long, value_name = "PID", hide = true)]
    pub with_parent: Option<u32>,
    /// Settings beside the file.
    #[command(flatten)]
    pub settings: Settings,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    stopped as asked, every request ended
  1    failed for a reason that the log names
  2    the command line or the configuration was refused
  3    the processor is below x86-64-v3, or is no 64-bit Arm with NEON
  4    an address cannot be listened on
  5    the volumes cannot be opened
  6    stopped as asked, but requests were cut when the shutdown timeout ended
  130, 143  ended at once by a second SIGINT or SIGTERM";

const STATUS_EXIT_CODES: &str = "\
Exit codes:
  0    every volume of every set is healed
  1    the cluster serves, and something is missing
  2    it does not serve: a set has too few volumes to read, it is forming, or the node does not answer";

const USER_EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    refused, for the reason on standard error, or the node does not answer
  2    the command line was refused";

const IMPORT_EXIT_CODES: &str = "\
Exit codes:
  0    all is there, or with --plan, could be
  1    failed for the reason on standard error, or in a line that begins with \"failed\": run it again
  2    the command line was refused
  7    done, and something differs or was left out: each has a line with the reason";

/// Parses a command line, and remembers where each setting came from.
///
/// # Errors
/// Clap's: also for `--help` and `--version`, which it prints and which exit with 0.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<(Command, Sources), clap::Error> {
    let matches = Cli::command().try_get_matches_from(arguments)?;
    let sources = matches.subcommand().map(|(_, matches)| Sources::of_command(matches)).unwrap_or_default();
    Ok((Cli::from_arg_matches(&matches)?.command, sources))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_has_no_contradictions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_key_is_a_flag_and_a_variable_by_the_same_rule() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").expect("declared above");
        for argument in serve
            .get_arguments()
            // Flags that count for one start have no variable, which would set them for every start.
            .filter(|argument| {
                !["help", "version", "vouch", "with_parent"].contains(&argument.get_id().as_str())
            })
        {
            let flag = argument.get_long().expect("every setting is a flag");
            let variable = argument.get_env().expect("every setting is a variable").to_str().expect("ASCII");
            assert_eq!(variable, format!("SHERD_{}", flag.replace('-', "_").to_uppercase()));
        }
    }

    #[test]
    fn every_flag_of_serve_is_documented() {
        let documentation = include_str!("../../../docs/configuration.md");
        let command = Cli::command();
        let serve = command.find_subcommand("serve").expect("declared above");
        for argument in serve.get_arguments() {
            let Some(variable) = argument.get_env().and_then(|name| name.to_str()) else { continue };
            assert!(
                documentation.contains(&format!("`{variable}`")),
                "{variable} is not in docs/configuration.md"
            );
        }
    }

    #[test]
    fn a_flag_is_the_origin_of_its_setting() {
        let line = ["sherd-node", "serve", "--parity", "9", "--log-level", "warn", "--limits-queue-max", "1"];
        let (command, sources) = parse(line.map(OsString::from)).expect("valid");
        let Command::Serve(serve) = command else { panic!("asked for serve") };
        assert_eq!(serve.settings.parity, Some(9));
        assert_eq!(sources.origin("parity").to_string(), "--parity");
        assert_eq!(sources.origin("log.level").to_string(), "--log-level");
        assert_eq!(sources.origin("limits.queue_max").to_string(), "--limits-queue-max");
        assert_eq!(sources.origin("region").to_string(), "region");
    }
}
