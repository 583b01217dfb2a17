//! `kubectl sherd status`: the report on the StorageCluster and why something waits, and then the tables of
//! `sherd-node status`, as a node of the cluster answers.

mod report;

pub use self::report::report;

use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use sherd_admin::plain::plain;
use sherd_admin::status::{ClusterVerdict, table, verdict};
use sherd_proto::v1::StatusReply;

use crate::cluster::FoundCluster;
use crate::error::PluginError;
use crate::limits::WATCH_EVERY;
use crate::node::{NodeCertificate, Nodes, PodPorts};
use crate::session::Session;

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// `kubectl sherd status`.
#[derive(Debug, Clone, Default, Args)]
pub struct StatusArgs {
    /// The StorageCluster [default: the only one of the namespace]
    pub cluster: Option<String>,
    /// Ask again every two seconds, until interrupted
    #[arg(long)]
    pub watch: bool,
}

/// The status of a cluster, as far as it could be read.
#[derive(Debug)]
pub struct ClusterLook {
    /// The text to print.
    pub text: String,
    /// The node's answer, or why it is missing.
    pub reply: Result<StatusReply, PluginError>,
}

/// Looks at a cluster once.
///
/// # Errors
/// [`PluginError`]: the StorageCluster cannot be read.
pub async fn look<P: PodPorts>(
    session: &Session,
    ports: &P,
    name: Option<&str>,
) -> Result<ClusterLook, PluginError> {
    let cluster = FoundCluster::find(session, name).await?;
    let (mut text, pods) = look_at_objects(session, &cluster).await;
    let reply = ask_node(session, ports, &cluster, pods).await;
    if let Ok(reply) = &reply {
        text.push('\n');
        text.push_str(&table(reply));
    }
    Ok(ClusterLook { text, reply })
}

/// The report on a cluster by its objects alone, and its pods.
pub(crate) async fn look_at_objects(
    session: &Session,
    cluster: &FoundCluster,
) -> (String, Result<Vec<Pod>, PluginError>) {
    let (pods, budgets) = (cluster.pods(session).await, cluster.budgets(session).await);
    (report(cluster, &pods, &budgets), pods)
}

/// Asks a node of these pods for the status.
///
/// # Errors
/// [`PluginError`].
pub(crate) async fn ask_node<P: PodPorts>(
    session: &Session,
    ports: &P,
    cluster: &FoundCluster,
    pods: Result<Vec<Pod>, PluginError>,
) -> Result<StatusReply, PluginError> {
    let pods = pods?;
    let certificate = NodeCertificate::of_any_role(session, cluster).await?;
    Nodes::new(ports, certificate, cluster, &pods).status().await
}

/// Prints the status, once or every two seconds, and gives the last verdict.
///
/// # Errors
/// [`PluginError`] when the only look came to no verdict.
pub async fn status<P: PodPorts>(
    session: &Session,
    ports: &P,
    arguments: &StatusArgs,
) -> Result<ClusterVerdict, PluginError> {
    let name = arguments.cluster.as_deref();
    if !arguments.watch {
        let ClusterLook { text, reply } = look(session, ports, name).await?;
        print(&text);
        return reply.map(|reply| verdict(&reply));
    }
    let mut seen = ClusterVerdict::NotServing;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        // Cancel-safe: a question that was interrupted is not asked again.
        let looked = tokio::select! {
            biased;
            _ = &mut interrupted => return Ok(seen),
            looked = look(session, ports, name) => looked,
        };
        let (text, reply) = match looked {
            Ok(ClusterLook { text, reply }) => (text, reply),
            Err(error) => (String::new(), Err(error)),
        };
        if io::stdout().is_terminal() {
            print(CLEAR);
        }
        print(&text);
        seen = match &reply {
            Ok(reply) => verdict(reply),
            Err(error) => {
                print(&format!("\n{}\n", plain(&error.to_string())));
                ClusterVerdict::NotServing
            }
        };
        // Cancel-safe: a timer holds nothing.
        tokio::select! {
            biased;
            _ = &mut interrupted => return Ok(seen),
            () = tokio::time::sleep(WATCH_EVERY) => {}
        }
    }
}

fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _reader_left = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
