//! Whole nodes over real directories and what they log, for tests of this crate and of those above it.

mod log_buffer;

pub use self::log_buffer::LogBuffer;
pub use crate::upkeep::tests::{DEADLINE, Directories, Node, body, key_of, uploads};
