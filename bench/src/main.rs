//! `sherd-bench`: the command line over the library.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;
use sherd_bench::alloc::Counting;
use sherd_bench::layers;

/// The node's allocator; counts what is allocated, for the benches that report it.
#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting(MiMalloc);

/// Measures Sherd and other S3 stores: fsync on, every byte verified, errors counted.
#[derive(Debug, Parser)]
#[command(name = "sherd-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures the layers of a request, each by itself
    Layers(layers::Arguments),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result = match command {
        Command::Layers(arguments) => layers::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sherd-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
