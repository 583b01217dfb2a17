//! One volume: a directory that keeps registers and shards through every crash.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod request;
pub mod error;
pub mod disk;
pub mod buffer;
pub mod index;
