//! The command line, and what each exit code says.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sherd_admin::plain::plain;
use sherd_admin::status::ClusterVerdict;
use sherd_admin::user::UserArgs;

use crate::error::PluginError;
use crate::logs::{LogsArgs, logs};
use crate::session::{Session, SessionArgs};
use crate::status::{StatusArgs, status};
use crate::support::{SupportArgs, support};
use crate::users::{ClusterFlag, user};

/// Looks at StorageClusters of Sherd and at their users.
///
/// All is done by your own rights in Kubernetes: to read the StorageCluster, its pods, the Secret with a
/// certificate (get secrets), and to reach a node (get and create pods/portforward). Nothing of a Secret is
/// written to disk.
#[derive(Debug, Parser)]
#[command(name = "kubectl-sherd", bin_name = "kubectl sherd", version, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    session: SessionArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say how a cluster is, and why a rollout, a drain or a heal waits
    #[command(
        long_about = "Say how a cluster is: the conditions of the StorageCluster that are not as they should be, why a\n\
            rollout, a drain or a heal waits, and nodes, volumes and sets as a node sees them.\n\n\
            The node is asked with the certificate of an admin where the cluster gives one\n\
            (spec.adminCertificate), or else with that of one of its nodes.",
        after_help = STATUS_EXIT_CODES
    )]
    Status(StatusArgs),
    /// List and change users, their access keys and their policies, and say why a request is refused
    #[command(
        long_about = "List and change users, their access keys and their policies, and say why a request is refused.\n\n\
            Needs the certificate of an admin, which the operator gives where spec.adminCertificate.enabled is\n\
            true. Users of BucketUsers are named NAMESPACE.NAME, and the operator makes them as the BucketUser\n\
            asks: change that.",
        after_help = EXIT_CODES
    )]
    User(UserArgs<ClusterFlag>),
    /// Print the logs of a cluster's pods, each line behind its pod's name
    #[command(after_help = EXIT_CODES)]
    Logs(LogsArgs),
    /// Write one archive for a question to others, without secrets
    #[command(
        long_about = "Write one archive (tar.gz) for a question to others: the StorageCluster, its Buckets,\n\
            BucketUsers and objects, events, settings, the last of the logs, and the status.\n\n\
            No Secret is in it. Values of environment variables and texts that look like secrets are left out;\n\
            names of buckets, hosts and users are not, and logs may name objects. What could not be read is\n\
            listed in errors.txt.",
        after_help = EXIT_CODES
    )]
    Support(SupportArgs),
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed, for the reason on standard error
  2    the command line was refused";

const STATUS_EXIT_CODES: &str = "\
Exit codes:
  0    every volume of every set is healed
  1    the cluster serves, and something is missing
  2    it does not serve: a set has too few volumes to read, it is forming, or no node could be asked;
       also where the command line was refused";

/// Runs a command and returns the exit code; a reason goes to standard error.
pub async fn run(cli: Cli) -> ExitCode {
    let Cli { session, command } = cli;
    let failed = if matches!(command, Command::Status(_)) { ClusterVerdict::NotServing as u8 } else { 1 };
    let done = match Session::new(&session).await {
        Ok(session) => carry_out(&session, &command).await,
        Err(error) => Err(error),
    };
    done.map_or_else(
        |error| {
            let _reader_left = writeln!(io::stderr(), "kubectl sherd: {}", plain(&error.to_string()));
            failed.into()
        },
        ExitCode::from,
    )
}

async fn carry_out(session: &Session, command: &Command) -> Result<u8, PluginError> {
    match command {
        Command::Status(arguments) => return Ok(status(session, session, arguments).await? as u8),
        Command::User(arguments) => print(&user(session, session, arguments).await?),
        Command::Logs(arguments) => logs(session, arguments, &mut io::stdout()).await?,
        Command::Support(arguments) => print(&Box::pin(support(session, session, arguments)).await?),
    }
    Ok(0)
}

fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _reader_left = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_declaration_has_no_contradictions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_kubectl_stand_before_and_behind_the_command() {
        for line in
            ["-n team-a status demo", "status demo -n team-a", "user --namespace team-a list --cluster demo"]
        {
            let line = ["kubectl-sherd"].into_iter().chain(line.split(' '));
            let cli = Cli::try_parse_from(line).expect("a command line");
            assert_eq!(cli.session.namespace.as_deref(), Some("team-a"));
        }
    }
}
