//! `sherd`: the command line over the library.

use std::process::ExitCode;

/// Bodies are made and freed on different threads; the system's allocator keeps what each has held.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sherd_client::cli::run::run()
}
