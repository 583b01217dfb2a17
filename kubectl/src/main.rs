//! `kubectl-sherd`, which kubectl runs as `kubectl sherd`.

use std::process::ExitCode;

use clap::Parser as _;
use sherd_kubectl::cli::{Cli, run};

fn main() -> ExitCode {
    let cli = Cli::parse();
    // A second call cannot happen; one provider serves Kubernetes and nodes.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run(cli)),
        Err(error) => {
            eprintln!("kubectl sherd: no runtime: {error}");
            ExitCode::FAILURE
        }
    }
}
