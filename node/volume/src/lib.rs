//! One volume: a directory that keeps registers and shards through every crash.
//!
//! ```text
//! <volume>/volume.json   its identity, and whether it failed or lost its state
//!          lock          one process at a time
//!          log/N.seg     the truth: rows, packed shards, deletes, small state, in order
//!          index/        a checkpoint of the log, rebuilt from it when it is damaged
//!          shards/ab/..  large shards, one file each
//!          ballast       space for deletes and flushes when the disk is full
//! ```
//!
//! [`open`](open::open) gives a [`Volume`], which one thread drives (`submit`, `step`), and a [`Reader`],
//! which any thread asks. Data that a [`Volume`] acknowledged is on stable storage; bytes that it returns
//! were verified on that very read; a write that was never acknowledged is absent or whole after a crash.
//! Everything here blocks, and nothing has a thread, a clock or entropy of its own.
//!
//! ```text
//! write/  judge, plan, step      read/  reader, list, scan      open/  locate, rebuild
//!       `---------------------------.  |  .---------------------------'
//!                  state/, identity/, index/ (what the log means), shard_file/
//!                                log/, format/ (the bytes)
//!                                      disk/
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod histogram;
#[cfg(test)]
mod races;
mod state;
mod sync;

pub mod buffer;
pub mod disk;
pub mod error;
pub mod format;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod identity;
pub mod index;
pub mod limits;
pub mod log;
pub mod lookup;
pub mod open;
pub mod options;
pub mod read;
pub mod request;
pub mod shard_file;
pub mod write;

#[cfg(test)]
extern crate self as sherd_volume;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

pub use histogram::{Distribution, Histogram};
pub use read::reader::Reader;
pub use write::volume::Volume;
