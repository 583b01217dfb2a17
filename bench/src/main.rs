//! `sherd-bench`: the command line over the library.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sherd_bench::{compare, report};

/// Exit code of a command that could not do what it was asked to.
const FAILED: u8 = 2;

/// Measures Sherd and other S3 stores: fsync on, every byte verified, errors counted.
#[derive(Debug, Parser)]
#[command(name = "sherd-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(compare::Arguments),
    Report(report::Arguments),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let done: Result<ExitCode, Box<dyn std::error::Error>> = match &command {
        Command::Compare(arguments) => compare::run(arguments).map_err(Into::into),
        Command::Report(arguments) => report::run(arguments).map_err(Into::into),
    };
    done.unwrap_or_else(|error| {
        eprintln!("sherd-bench: {error}");
        ExitCode::from(FAILED)
    })
}
