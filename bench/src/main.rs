//! `sherd-bench`: the command line over the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    sherd_bench::cli::run()
}
