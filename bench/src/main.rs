//! `sherd-bench`: the command line over the library.

use clap::Parser;

/// Measures Sherd and other S3 stores: fsync on, every byte verified, errors counted.
#[derive(Debug, Parser)]
#[command(name = "sherd-bench", version)]
struct Arguments {}

fn main() {
    let Arguments {} = Arguments::parse();
}
