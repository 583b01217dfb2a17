//! Whole nodes over real directories and what they log, for tests of this crate and of those above it.

pub use crate::observe::log_buffer::LogBuffer;
pub use crate::upkeep::tests::{DEADLINE, Directories, Node, between_looks, body, key_of, uploads};
