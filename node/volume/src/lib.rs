//! One volume: a directory that keeps registers and shards through every crash.

pub mod buffer;
pub mod disk;
pub mod error;
pub mod identity;
pub mod index;
pub mod request;
pub mod shard_file;
