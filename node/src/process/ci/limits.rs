//! The bytes of a node for tests.

/// Bytes of a segment of a volume's log: a volume has four such files from the start.
pub(crate) const SEGMENT_BYTES: u64 = 16 << 20;

/// Free bytes in memory with which a node begins: four volumes of four files of a segment each, and 128 MiB
/// for objects and for what a volume keeps free. A container of Docker has 64 MiB when nothing is said.
pub(crate) const MEMORY_BYTES_MIN: u64 = 16 * SEGMENT_BYTES + (128 << 20);
