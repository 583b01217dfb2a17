//! Bounds of a connection between two nodes, the same on both ends: windows, frames and pings.

use std::time::Duration;

use sherd_proto::limits::SHARD_FRAME_BYTES_MAX;

/// Bytes of one stream that are not taken yet.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 2 << 20;
/// Bytes of one connection that are not taken yet.
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Bytes of an HTTP/2 frame. Larger ones save system calls; others wait behind one for a millisecond at most.
pub(crate) const H2_FRAME_BYTES: u32 = 256 << 10;
/// Calls and shards of one connection at a time.
pub(crate) const STREAMS_MAX: u32 = 1024;
/// Resets in the life of a connection that answer frames of streams that had ended here; then it is closed.
/// HTTP/2 reads on while they wait to be sent: one takes 800 bytes, and all of them 50 MB. A peer that keeps
/// the rules causes some, since bytes are on their way for writes that were refused and reads that were
/// dropped: 1,024 were enough for 5,000 refused shards of 4 MiB.
pub(crate) const RESETS_MAX: usize = 64 << 10;
/// How often the other end is pinged.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(1);
/// How long it may take to answer a ping.
pub(crate) const PING_ANSWER_MAX: Duration = Duration::from_secs(2);

const _: () =
    assert!(SHARD_FRAME_BYTES_MAX < STREAM_WINDOW_BYTES as usize, "two frames of bytes are under way");
