//! The memory that a node in memory needs.

/// Free bytes in memory with which a node begins: four volumes of four files of 64 MiB, which are there from
/// the start, and 256 MiB for objects and what a volume keeps free. A container of Docker has 64 MiB when
/// nothing is said.
pub(crate) const MEMORY_BYTES_MIN: u64 = 1280 << 20;
