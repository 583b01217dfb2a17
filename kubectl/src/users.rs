//! `kubectl sherd user`: the commands of `sherd-node user`, with the certificate of an admin that the
//! cluster's Secret holds.

use clap::Args;
use sherd_admin::user::UserArgs;

use crate::cluster::FoundCluster;
use crate::error::PluginError;
use crate::node::{NodeCertificate, Nodes, PodPorts};
use crate::session::Session;

/// The cluster whose users are asked for: names of users take the places behind the command.
#[derive(Debug, Clone, Args)]
pub struct ClusterFlag {
    /// The StorageCluster [default: the only one of the namespace]
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
}

/// Runs a command, and gives what is to be printed.
///
/// # Errors
/// [`PluginError`].
pub async fn user<P: PodPorts>(
    session: &Session,
    ports: &P,
    arguments: &UserArgs<ClusterFlag>,
) -> Result<String, PluginError> {
    let cluster = FoundCluster::find(session, arguments.connection().cluster.as_deref()).await?;
    let certificate = NodeCertificate::of_admin(session, &cluster).await?;
    let pods = cluster.pods(session).await?;
    let (client, pod) = Nodes::new(ports, certificate, &cluster, &pods).requests().await?;
    Ok(arguments.run(client, pod).await?)
}
