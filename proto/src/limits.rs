//! Bounds of the wire. A message beyond them is refused by name.

/// The version of the messages. Nodes of different versions refuse each other.
pub const WIRE_VERSION: u32 = 1;
/// Bytes of the longest message; the largest register value is 4 MiB.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Bytes of shard payload in one message of a stream.
pub const SHARD_FRAME_BYTES_MAX: usize = 1 << 20;
/// Bytes at which a page of rows, shards or entries ends; it has one row at least.
pub const PAGE_BYTES_MAX: usize = 1 << 20;
/// Calls, or replies, in one frame.
pub const FRAME_CALLS_MAX: usize = 1024;
/// Volumes of one node that a message may name.
pub const NODE_VOLUMES_MAX: usize = 1024;
