//! Stories of whole processes: the real binary, driven through S3 by the SDK, while it is killed,
//! suspended, starved of space, and its volumes are damaged and taken away.
//!
//! Each module is one story and each test has a node, ports and folders of its own. Nothing sleeps:
//! a test waits for what it needs to see, with a deadline. `SHERD_TEST_SEED` repeats the choices of
//! a run; `SHERD_LONG_TESTS=1` adds what takes minutes. docs/testing.md has the commands.

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../history/mod.rs"]
mod history;

mod load;

mod buckets;
mod chain;
mod crash;
mod degraded;
mod disconnects;
mod full;
mod memory;
mod races;
mod restart;
mod rot;
mod settings;
mod soak;
