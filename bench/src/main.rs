//! `sherd-bench`: the command line over the library.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use sherd_bench::alloc::Counting;

/// The node's allocator; counts what is allocated, for the benches that report it.
#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting(MiMalloc);

fn main() -> ExitCode {
    sherd_bench::cli::run()
}
