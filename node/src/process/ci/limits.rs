//! The memory that a node in memory needs.

/// Free bytes in memory with which a node begins: its four logs, and some hundred objects of a test. A
/// container of Docker has 64 MiB when nothing is said.
pub(crate) const MEMORY_BYTES_MIN: u64 = 256 << 20;
