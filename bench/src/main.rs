//! `sherd-bench`: the command line over the library.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use sherd_bench::answer;

/// Measures Sherd and other S3 stores: fsync on, every byte verified, errors counted.
#[derive(Debug, Parser)]
#[command(name = "sherd-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answers one of the questions that decided how the store works
    Answer(answer::Arguments),
}

fn main() -> ExitCode {
    let Arguments { command: Command::Answer(arguments) } = Arguments::parse();
    match answer::run(arguments) {
        Ok(path) => {
            println!("{}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
