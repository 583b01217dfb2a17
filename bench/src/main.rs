//! `sherd-bench`: the command line over the library.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use sherd_bench::alloc::CountingAllocator;

/// The node's allocator; counts what is allocated, for the benches that report it.
#[global_allocator]
static ALLOCATOR: CountingAllocator<MiMalloc> = CountingAllocator(MiMalloc);

fn main() -> ExitCode {
    sherd_bench::cli::run()
}
