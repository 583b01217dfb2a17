//! The arguments of `sherd-node status`.

use clap::Args;

use crate::process::node_client::NodeArgs;

/// `sherd-node status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// The node, and the certificate: any role may ask.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Write one line of JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Ask again each second, until interrupted
    #[arg(long)]
    pub watch: bool,
}
