//! `sherd-node import`: takes over what another store exported.

pub(crate) mod minio;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::minio::MinioArgs;

/// `sherd-node import`.
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    from: Source,
}

/// The stores that are imported from.
#[derive(Debug, Clone, Subcommand)]
enum Source {
    /// Take over users, groups, policies, access keys and buckets of a MinIO, from its two exports
    Minio(MinioArgs),
}

/// Imports, prints what was done with each entity, and returns the exit code.
pub fn import(arguments: &ImportArgs) -> ExitCode {
    match &arguments.from {
        Source::Minio(arguments) => minio::import(arguments),
    }
}
