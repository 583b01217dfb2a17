//! The arguments of `sherd-node status`.

use std::path::PathBuf;

use clap::Args;

/// `sherd-node status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// Address of a node of the cluster for other nodes (its `node_listen`)
    #[arg(long, value_name = "HOST:PORT")]
    pub endpoint: String,
    /// Certificate of the cluster's authority
    #[arg(long, value_name = "FILE")]
    pub ca: PathBuf,
    /// A certificate of the cluster, in any role
    #[arg(long, value_name = "FILE")]
    pub cert: PathBuf,
    /// Its key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Write one line of JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Ask again each second, until interrupted
    #[arg(long)]
    pub watch: bool,
}
